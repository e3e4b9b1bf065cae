import ctypes
import gc
import threading

import pytest

from oxinp._driver import errors
from oxinp._driver.context import Context
from oxinp._driver.event import Event
from oxinp._driver.handle import Handle
from oxinp._driver.link import link
from oxinp._driver.memory import DeviceMemory, PinnedMemory
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream
from tests.driver.fake_library import FakeLibrary, open_context

MAKERS = {
    "cuStreamDestroy_v2": Stream,
    "cuEventDestroy_v2": Event,
    "cuModuleUnload": lambda context: Module.from_ptx(context, ".version 8.0"),
    "cuMemFreeHost": lambda context: PinnedMemory(context, 64),
    "cuDevicePrimaryCtxRelease_v2": lambda context: Context(context.device),
}


@pytest.mark.parametrize("destroyer", MAKERS)
def test_destroyed_once_by_close(destroyer, context, fake):
    made = MAKERS[destroyer](context)
    assert made.handle
    made.close()
    made.close()
    assert made.is_closed
    assert "closed" in repr(made) or isinstance(made, Context)
    with pytest.raises(errors.InvalidHandle, match=f"this {type(made).__name__} is closed"):
        _ = made.handle
    del made
    gc.collect()
    assert fake.count()[destroyer] == 1


@pytest.mark.parametrize("destroyer", MAKERS)
def test_destroyed_with_the_last_reference(destroyer, context, fake):
    made = MAKERS[destroyer](context)
    assert isinstance(made, Handle)
    assert fake.count()[destroyer] == 0
    del made
    gc.collect()
    assert fake.count()[destroyer] == 1


@pytest.mark.parametrize("destroyer", [name for name in MAKERS if name != "cuDevicePrimaryCtxRelease_v2"])
def test_destroys_the_handle_it_got(destroyer, context, fake):
    made = MAKERS[destroyer](context)
    handle = made.handle
    made.close()
    assert fake.arguments(destroyer) == (handle,)


@pytest.mark.parametrize("destroyer", MAKERS)
def test_a_failing_destructor_is_silent_and_a_failing_close_is_not(destroyer, context, fake):
    fake.results[destroyer] = 400
    made = MAKERS[destroyer](context)
    del made
    gc.collect()  # filterwarnings=error would show what comes out of a destructor
    made = MAKERS[destroyer](context)
    with pytest.raises(errors.InvalidHandle, match=destroyer):
        made.close()


def test_a_failed_creation_destroys_nothing(context, fake):
    fake.results["cuEventCreate"] = 2
    with pytest.raises(errors.OutOfMemory, match="cuEventCreate"):
        Event(context)
    gc.collect()
    assert "cuEventDestroy_v2" not in fake.names()


# Context


def test_context_is_the_primary_one_and_current(context, fake):
    assert context.is_current()
    assert fake.arguments("cuCtxSetCurrent") == (context.handle,)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(context.is_current()))
    thread.start()
    thread.join()
    assert seen == [False]


# Streams and events


@pytest.mark.parametrize(("is_blocking", "flags"), [(False, 1), (True, 0)])
def test_stream_flags(is_blocking, flags, context, fake):
    Stream(context, priority=-2, is_blocking=is_blocking)
    assert fake.arguments("cuStreamCreateWithPriority")[1:] == (flags, -2)


def test_a_stream_that_is_not_ours_is_not_destroyed(context, fake):
    for handle in (0, 0x5555):
        stream = Stream(context, handle=handle)
        stream.synchronize()
        assert fake.arguments("cuStreamSynchronize") == (handle or None,)
        stream.close()
    assert not {"cuStreamDestroy_v2", "cuStreamCreateWithPriority"} & set(fake.names())


def test_stream_is_done(context, fake):
    stream = Stream(context)
    fake.results["cuStreamQuery"] = [600, 0, 719]
    assert stream.is_done() is False
    assert stream.is_done() is True
    with pytest.raises(errors.DeviceFault, match="cuStreamQuery failed with CUDA_ERROR_LAUNCH_FAILED"):
        stream.is_done()


def test_record_wait_and_measure(context, fake):
    first, second = Stream(context), Stream(context)
    event = first.record()
    assert fake.arguments("cuEventRecord") == (event.handle, first.handle)
    assert first.record(event) is event
    second.wait(event)
    assert fake.arguments("cuStreamWaitEvent") == (second.handle, event.handle, 0)
    assert event.elapsed_ms(second.record()) == 1.5
    assert fake.count()["cuEventSynchronize"] == 2


@pytest.mark.parametrize(
    ("options", "flags"),
    [({}, 0), ({"has_timing": False}, 2), ({"is_blocking": True}, 1), ({"has_timing": False, "is_blocking": True}, 3)],
)
def test_event_flags(options, flags, context, fake):
    Event(context, **options)
    assert fake.arguments("cuEventCreate")[1] == flags


def test_event_is_done(context, fake):
    event = Event(context)
    fake.results["cuEventQuery"] = [600]
    assert [event.is_done(), event.is_done()] == [False, True]


def test_measuring_events_that_cannot_be_says_why(context, fake):
    fake.results["cuEventElapsedTime"] = 400
    with pytest.raises(
        errors.InvalidHandle, match=r"cuEventElapsedTime.*never been recorded.*has_timing=True"
    ) as caught:
        Event(context).elapsed_ms(Event(context))
    assert caught.value.code == 400


# Memory


def test_allocate_copy_fill_and_free(context, fake):
    memory = DeviceMemory(context)
    a, b = memory.allocate(64), memory.allocate_async(64, 0)
    source = ctypes.create_string_buffer(bytes(range(64)), 64)
    target = ctypes.create_string_buffer(64)
    memory.upload(a, ctypes.addressof(source), 64)
    memory.copy(b, a, 64)
    memory.fill32_async(b + 4, 0xDEADBEEF, 2, 0)
    memory.fill16_async(b + 12, 0xABCD, 1, 0)
    memory.fill8_async(b + 14, 0x11, 2, 0)
    memory.download(ctypes.addressof(target), b, 64)
    middle = bytes.fromhex("efbeadde efbeadde cdab 1111")
    assert target.raw == bytes(range(4)) + middle + bytes(range(16, 64))
    memory.free(a)
    memory.free_async(b, 0)
    assert not fake.memory


@pytest.mark.parametrize("name", ["upload", "download", "copy"])
def test_asynchronous_copies_go_to_their_stream(name, context, fake):
    memory = DeviceMemory(context)
    a, b = memory.allocate(16), memory.allocate(16)
    getattr(memory, f"{name}_async")(a, b, 16, 0x77)
    called, arguments = fake.calls[-1]
    assert (
        called
        == {
            "upload": "cuMemcpyHtoDAsync_v2",
            "download": "cuMemcpyDtoHAsync_v2",
            "copy": "cuMemcpyDtoDAsync_v2",
        }[name]
    )
    assert arguments == (a, b, 16, 0x77)


def test_out_of_memory_is_a_memory_error(context, fake):
    memory = DeviceMemory(context)
    fake.results["cuMemAlloc_v2"] = 2
    with pytest.raises(MemoryError, match=r"cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY"):
        memory.allocate(1 << 40)
    fake.results["cuMemAllocAsync"] = 2
    with pytest.raises(MemoryError, match="cuMemAllocAsync"):
        memory.allocate_async(1 << 40, 0)


def test_sizes_beyond_32_bits_arrive_whole(context, fake):
    memory = DeviceMemory(context)
    fake.results["cuMemAlloc_v2"] = 2
    with pytest.raises(MemoryError):
        memory.allocate((1 << 40) + 3)
    assert fake.arguments("cuMemAlloc_v2")[1] == (1 << 40) + 3
    fake.results["cuMemFree_v2"] = 1
    with pytest.raises(errors.InvalidValue):
        memory.free(0xFFFF_8000_0000_0001)
    assert fake.arguments("cuMemFree_v2") == (0xFFFF_8000_0000_0001,)


def test_memory_info(context):
    assert DeviceMemory(context).info() == (100 << 30, 140 << 30)


@pytest.mark.parametrize(("is_write_combined", "flags"), [(False, 1), (True, 5)])
def test_pinned_memory(is_write_combined, flags, context, fake):
    pinned = PinnedMemory(context, 64, is_write_combined=is_write_combined)
    assert fake.arguments("cuMemHostAlloc")[1:] == (64, flags)
    view = pinned.view()
    view[:3] = b"abc"
    assert ctypes.string_at(pinned.ptr, 3) == b"abc"
    assert (view.nbytes, view.itemsize, view.readonly) == (64, 1, False)


def test_a_view_keeps_its_pinned_memory(context, fake):
    view = PinnedMemory(context, 64).view()
    part = view[8:16]
    del view
    gc.collect()
    assert "cuMemFreeHost" not in fake.names()
    del part
    gc.collect()
    assert fake.count()["cuMemFreeHost"] == 1


# Modules and functions


def test_module_from_ptx(context, fake):
    fake.log = b"info: registers"
    module = Module.from_ptx(context, ".version 8.0", is_verbose=True)
    assert module.log == "info: registers"
    assert {fake.jit_options[4], fake.jit_options[6]} == {1 << 16}
    assert fake.jit_options[12] == 1


class ImageReader(FakeLibrary):
    image_nbytes = 0

    def do_cuModuleLoadDataEx(self, result, address, image, *options):
        self.image = ctypes.string_at(image, self.image_nbytes)
        super().do_cuModuleLoadDataEx(result, address, image, *options)


def test_ptx_is_handed_over_with_its_nul():
    context, reader = open_context(ImageReader())
    reader.image_nbytes = 5
    Module.from_ptx(context, "text")
    assert reader.image == b"text\0"


def test_a_cubin_is_handed_over_as_it_is():
    context, reader = open_context(ImageReader())
    reader.image_nbytes = 9
    Module.from_cubin(context, b"\x7fELF\0code")
    assert reader.image == b"\x7fELF\0code"


@pytest.mark.parametrize("result", [218, 222, 209])
def test_the_compilers_log_is_in_the_error(result, context, fake):
    fake.results["cuModuleLoadDataEx"] = result
    fake.log = b"ptxas application ptx input, line 9; error : Unknown symbol 'x'\n"
    with pytest.raises(errors.BY_CODE[result].type, match=r"cuModuleLoadDataEx failed(.|\n)*line 9; error") as caught:
        Module.from_ptx(context, "bad")
    assert caught.value.code == result
    if isinstance(caught.value, errors.CompileError):
        assert caught.value.log == fake.log.decode().strip()


def test_function_attributes(context, fake):
    module = Module.from_ptx(context, "x")
    function = module.function("kernel")
    assert fake.arguments("cuModuleGetFunction")[1:] == (module.handle, b"kernel")
    assert function.attribute("num_registers") == 40
    assert function.attribute("local_nbytes") == 16


def test_no_such_function(context, fake):
    fake.results["cuModuleGetFunction"] = 500
    with pytest.raises(errors.NotFound, match="cuModuleGetFunction"):
        Module.from_ptx(context, "x").function("missing")


def test_a_function_keeps_its_module(context, fake):
    function = Module.from_ptx(context, "x").function("kernel")
    gc.collect()
    assert "cuModuleUnload" not in fake.names()
    del function
    gc.collect()
    assert fake.count()["cuModuleUnload"] == 1


def test_dynamic_shared_memory_is_asked_for_when_it_grows(context, fake):
    function = Module.from_ptx(context, "x").function("kernel")
    for nbytes in (0, 1000, 100_000, 1000, 100_000):
        function.reserve_dynamic_shared(nbytes)
    asked = [arguments for name, arguments in fake.calls if name == "cuFuncSetAttribute"]
    assert asked == [(function.handle, 8, 1000), (function.handle, 8, 100_000)]


def test_shared_memory_that_was_refused_is_asked_for_again(context, fake):
    function = Module.from_ptx(context, "x").function("kernel")
    fake.results["cuFuncSetAttribute"] = [1, 0]
    with pytest.raises(errors.InvalidValue):
        function.reserve_dynamic_shared(1 << 20)
    function.reserve_dynamic_shared(1 << 20)
    assert fake.count()["cuFuncSetAttribute"] == 2


# The linker


def test_link_copies_the_code_before_the_state_goes(context, fake):
    fake.log = b"used 40 registers"
    linked = link(context, "ptx", name="axpy", is_verbose=True)
    assert linked.cubin == b"CUBIN\0code"
    assert linked.log == "used 40 registers"
    assert fake.linked == (1, b"ptx\0", b"axpy")
    assert fake.names()[-4:] == ["cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete", "cuLinkDestroy"]


@pytest.mark.parametrize("failing", ["cuLinkAddData_v2", "cuLinkComplete"])
def test_a_failed_link_is_cleaned_up_and_explained(failing, context, fake):
    fake.results[failing] = 218
    fake.log = b"line 3: error"
    with pytest.raises(errors.CompileError, match=rf"{failing} failed(.|\n)*line 3: error"):
        link(context, "ptx")
    assert fake.names()[-1] == "cuLinkDestroy"


def test_a_link_that_cannot_begin_has_nothing_to_clean_up(context, fake):
    fake.results["cuLinkCreate_v2"] = 221
    with pytest.raises(errors.DriverTooOld, match="libnvidia-ptxjitcompiler"):
        link(context, "ptx")
    assert "cuLinkDestroy" not in fake.names()
