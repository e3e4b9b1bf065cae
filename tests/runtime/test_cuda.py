"""The CUDA backend over a driver made of Python functions: order of calls, and what happens when they fail."""

import threading

import numpy as np
import pytest

from oxinp._driver import errors
from oxinp._driver.driver import start
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.tma import matrix_maps
from oxinp._ptx.types import c128, f32
from oxinp._runtime import cuda, here, hooks, timeline, transfers
from oxinp._runtime.backend import MARKS_NBYTES, NUM_FLAGS, NUM_REPORTS, BackendUnavailable, flags_of
from oxinp._runtime.counters import stats as counters
from tests.driver.fake_library import FakeLibrary, open_context
from tests.runtime.test_backend import build_scale

MIB = 1 << 20
OUT_OF_MEMORY = 2
INVALID_VALUE = 1
LAUNCH_FAILED = 719
INVALID_IMAGE = 200


@pytest.fixture
def library():
    # Host memory is ordinary unless a test says otherwise.
    return FakeLibrary(results={"cuPointerGetAttribute": INVALID_VALUE})


@pytest.fixture
def make_backend(library, config, tmp_path, one_stream):  # noqa: ARG001
    config.cache_dir = tmp_path

    def make(num_staging_workers=0):
        context, _ = open_context(library)
        counters.reset()
        return cuda.CudaBackend(context, num_staging_workers)

    return make


@pytest.fixture
def backend(make_backend):
    return make_backend()


@pytest.fixture(scope="module")
def scale():
    return build_scale()


@pytest.fixture
def use_stream(backend):
    """Let what follows go to a stream, given by its handle."""

    def use(stream):
        timeline.separate(backend)
        here.enter(backend.timeline(stream))

    return use


@pytest.mark.parametrize("type_", [f32, c128], ids=str)
def test_maps_of_matrices_are_those_of_their_specs(backend, library, type_):
    maps = matrix_maps(type_, 512, (8, 128 // type_.nbytes))
    made = []
    for extents, ptr in (((40, 32), 0x1000), ((41, 16), 0x1000), ((40, 32), 0x2000)):
        assert backend.matrix_map(maps, extents, ptr).ptr == ptr
        _, *by_extents = library.tensor_map
        backend.tensor_map(maps.spec(extents), ptr)
        _, *by_spec = library.tensor_map
        assert by_extents == by_spec
        made.append(backend.matrix_map(maps, extents, ptr))
    count = library.count()["cuTensorMapEncodeTiled"]
    assert backend.matrix_map(maps, (40, 32), 0x2000) is made[-1]
    assert library.count()["cuTensorMapEncodeTiled"] == count


def params(launch, kernel):
    return launch.unpack(kernel.param_format)


@pytest.mark.parametrize(("num_processors", "num_workers"), [(1, 0), (3, 0), (4, 4), (8, 8), (64, 8)])
def test_a_thread_stages_for_each_processor(num_processors, num_workers, monkeypatch):
    monkeypatch.setattr(transfers.os, "sched_getaffinity", lambda _: set(range(num_processors)), raising=False)
    assert transfers._default_workers() == num_workers


@pytest.mark.parametrize("code", ["f8", "?", "c16", "f2", "M8[s]", "U2", "i1,f8"])
@pytest.mark.parametrize("shape", [(), (1,), (7, 3)])
def test_addresses_are_those_that_numpy_says(code, shape):
    array = np.zeros(shape, code)
    for is_writeable in (True, False):
        array.flags.writeable = is_writeable
        assert transfers._address_of(array) == array.ctypes.data


def test_launch(backend, library, scale):
    launch = backend.launcher(scale, (5, 2, 1), 3, (1.5, 300))
    assert not library.launches
    launch(0x1000, 0x2000, 2.0)
    launch(0x3000, 0x4000, 4.0)
    assert [params(row, scale) for row in library.launches] == [
        (0x1000, 0x2000, 2.0, 1.5, 300),
        (0x3000, 0x4000, 4.0, 1.5, 300),
    ]
    assert (library.launches[0].grid, library.launches[0].block) == ((5, 2, 1), scale.block)
    assert counters.launches == 2
    assert library.count()["cuLaunchKernelEx"] == 2
    assert library.count()["cuStreamSynchronize"] == 0


def test_flags_are_cleared_once_beside_what_is_queued(backend, library):
    flags = backend.flags
    assert backend.flags == flags
    (call,) = [call for call in library.calls if call[0] == "cuMemsetD8Async"]
    assert call[1][:3] == (flags, 0, 4 * NUM_FLAGS + MARKS_NBYTES)
    assert call[1][3]  # not the default stream, which may be waiting, or captured


def test_flags_of_reports_lie_on_the_device_and_are_cleared_when_one_is_taken(backend, library):
    reports = backend.reports
    reports.take(3)
    assert "cuMemsetD8Async" not in library.names()  # nothing has flags
    flags = reports.flags
    assert reports.flags == flags
    (copy,) = [call for call in library.calls if call[0] == "cuMemcpyHtoDAsync_v2"]
    assert (copy[1][0], copy[1][2]) == (flags, 16 * NUM_REPORTS)
    assert flags_of(reports.ptr)[:2].tolist() == [[0, reports.ptr], [0, reports.ptr + 16]]
    reports.take(3)
    (fill,) = [call for call in library.calls if call[0] == "cuMemsetD8Async"]
    assert fill[1][:3] == (flags + 48, 0, 8)
    assert fill[1][3]


def test_launch_failure_is_not_counted_and_can_be_tried_again(backend, library, scale):
    launch = backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    library.results["cuLaunchKernelEx"] = [701]
    with pytest.raises(errors.CudaError, match="scale"):
        launch(1, 2)
    assert counters.launches == 0
    launch(1, 2)
    assert counters.launches == 1


def test_synchronous_raises_at_the_launch(backend, library, scale, config):
    config.synchronous = True
    launch = backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    launch(1, 2)
    assert library.names()[-2:] == ["cuLaunchKernelEx", "cuStreamSynchronize"]
    library.results["cuStreamSynchronize"] = LAUNCH_FAILED
    with pytest.raises(errors.DeviceFault):
        launch(1, 2)


def test_stream_is_that_of_the_time_of_launching(backend, library, scale, use_stream):
    use_stream(0)
    launch = backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    launch(1, 2)
    use_stream(0x77)
    launch(1, 2)
    assert [launch.stream for launch in library.launches] == [0, 0x77]


def test_kernel_is_compiled_once_per_text(backend, library, scale):
    for kernel in (scale, scale, build_scale()):
        backend.launcher(kernel, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert library.count()["cuLinkComplete"] == 1
    assert library.count()["cuModuleLoadDataEx"] == 1
    backend.launcher(build_scale(factor=2.0), (1, 1, 1), 2, (1.0, 0.0, 64))
    assert library.count()["cuLinkComplete"] == 2
    assert counters.compiled == 2


def test_a_finaliser_may_have_a_kernel_loaded_while_another_one_is(backend, scale, monkeypatch):
    """The collector runs `__del__` wherever something is allocated, while the thread holds the lock of the loader."""
    other, load, loaded = build_scale(factor=2.0), backend.loader.load_module, []

    def load_and_collect(kernel):
        if kernel is scale:
            loaded.append(backend.function(other))
        return load(kernel)

    monkeypatch.setattr(backend.loader, "load_module", load_and_collect)
    assert backend.function(scale) is not backend.function(other) is loaded[0]


def test_second_process_compiles_nothing(make_backend, library, scale):
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert (counters.compiled, counters.cache_hits) == (1, 0)
    library.calls.clear()
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert (counters.compiled, counters.cache_hits) == (0, 1)
    assert "cuLinkCreate_v2" not in library.names()


def test_other_driver_version_compiles_again(make_backend, library, scale):
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    library.version = 13010
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert (counters.compiled, counters.cache_hits) == (1, 0)


def test_cubin_the_driver_rejects_is_compiled_again(make_backend, library, scale, tmp_path):
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    backend = make_backend()
    library.results["cuModuleLoadDataEx"] = [INVALID_IMAGE]
    backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert (counters.compiled, counters.cache_hits) == (1, 0)
    assert len(list((tmp_path / "cubins").iterdir())) == 1


def test_corrupted_cache_is_compiled_again(make_backend, scale, tmp_path):
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    (path,) = (tmp_path / "cubins").iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    make_backend().launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert (counters.compiled, counters.cache_hits) == (1, 0)


def test_unwritable_cache_is_told_when_asked(make_backend, scale, config, tmp_path):
    (tmp_path / "file").write_text("")
    config.cache_dir = tmp_path / "file" / "cache"
    backend = make_backend()
    assert backend.loader.trouble is None
    backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert counters.compiled == 1
    assert str(tmp_path / "file" / "cache") in backend.loader.trouble
    config.cache_dir = tmp_path  # set right: from now on kernels are kept
    backend.launcher(build_scale(factor=3.0), (1, 1, 1), 2, (1.0, 0.0, 64))
    assert backend.loader.trouble is None
    assert len(list((tmp_path / "cubins").iterdir())) == 1


def test_kernel_that_does_not_compile(backend, library, scale):
    library.results["cuLinkAddData_v2"] = 218
    library.log = b"ptxas error: line 3"
    with pytest.raises(errors.CompileError, match="line 3"):
        backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))
    assert counters.compiled == 0
    library.results.clear()
    library.results["cuPointerGetAttribute"] = INVALID_VALUE
    backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))(1, 2)
    assert (counters.compiled, counters.launches) == (1, 1)


def test_out_of_memory(backend, library, monkeypatch):
    order = []
    monkeypatch.setattr(hooks, "before_out_of_memory", [lambda: order.append(len(library.calls))])
    cached = backend.allocate(10 * MIB)
    del cached
    library.calls.clear()
    library.results["cuMemAlloc_v2"] = [OUT_OF_MEMORY, OUT_OF_MEMORY, 0]
    assert backend.allocate(60 * MIB).nbytes == 60 * MIB
    assert library.names() == ["cuMemAlloc_v2", "cuMemFree_v2", "cuMemAlloc_v2", "cuMemAlloc_v2"]
    assert order == [3]
    library.results["cuMemAlloc_v2"] = OUT_OF_MEMORY
    with pytest.raises(MemoryError, match=r"100\.00 GiB free of 140\.00 GiB"):
        backend.allocate(80 * MIB)


def test_small_copies(backend, library, use_stream):
    data = np.arange(1000.0)
    buffer = backend.allocate(data.nbytes)
    library.calls.clear()
    backend.upload(buffer.ptr, data)
    assert library.names() == ["cuPointerGetAttribute", "cuMemcpyHtoDAsync_v2"]
    library.calls.clear()
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    assert library.names() == ["cuMemcpyDtoH_v2"]
    np.testing.assert_array_equal(back, data)
    use_stream(0x55)
    back[:] = 0
    backend.download(back, buffer.ptr)
    library.calls.clear()
    backend.download(back, buffer.ptr)
    assert library.names() == ["cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"]
    np.testing.assert_array_equal(back, data)
    backend.copy(buffer.ptr, buffer.ptr + 400, 400)
    assert library.names()[-1] == "cuMemcpyDtoDAsync_v2"


def test_pinned_source_is_waited_for(backend, library, use_stream):
    library.results["cuPointerGetAttribute"] = 0
    data = np.arange(10_000.0)
    buffer = backend.allocate(data.nbytes)
    library.calls.clear()
    use_stream(0x55)
    backend.upload(buffer.ptr, data)
    library.calls.clear()
    backend.upload(buffer.ptr, data)
    assert library.names() == ["cuPointerGetAttribute", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"]
    assert library.arguments("cuMemcpyHtoDAsync_v2")[1] == data.ctypes.data
    assert library.arguments("cuStreamSynchronize") == (0x55,)


def test_small_pinned_source_is_copied_and_not_waited_for(backend, library):
    library.results["cuPointerGetAttribute"] = 0
    data = np.arange(100.0)
    buffer = backend.allocate(data.nbytes)
    library.calls.clear()
    backend.upload(buffer.ptr, data)
    assert library.names() == ["cuPointerGetAttribute", "cuMemcpyHtoDAsync_v2"]
    assert library.arguments("cuMemcpyHtoDAsync_v2")[1] != data.ctypes.data
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    np.testing.assert_array_equal(back, data)


def test_host_memory_is_pinned_as_long_as_somebody_wants_it(backend, library):
    memory = np.empty(MIB, np.uint8)
    pin = backend.pin(memory)
    assert library.arguments("cuMemHostRegister_v2")[:2] == (memory.ctypes.data, MIB)
    del pin
    assert library.arguments("cuMemHostUnregister") == (memory.ctypes.data,)
    library.results["cuMemHostRegister_v2"] = OUT_OF_MEMORY
    assert backend.pin(memory) is None


def test_failed_copies_are_not_counted(backend, library):
    data = np.arange(100.0)
    buffer = backend.allocate(data.nbytes)
    library.results |= {"cuMemcpyHtoDAsync_v2": LAUNCH_FAILED, "cuMemcpyDtoH_v2": LAUNCH_FAILED}
    with pytest.raises(errors.DeviceFault):
        backend.upload(buffer.ptr, data)
    with pytest.raises(errors.DeviceFault):
        backend.download(data, buffer.ptr)
    assert (counters.h2d_bytes, counters.d2h_bytes) == (0, 0)


def test_large_pageable_copies_are_staged(make_backend, library):
    backend = make_backend(num_staging_workers=2)
    data = np.random.default_rng(1).integers(0, 256, (7, 3 * MIB), np.uint8)
    buffer = backend.allocate(data.nbytes)
    backend.upload(buffer.ptr, data)
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    np.testing.assert_array_equal(back, data)
    assert library.count()["cuMemHostAlloc"] == 4
    # Waiting is the slots' business: an upload returns with the bus at work.
    assert library.count()["cuStreamSynchronize"] == 0
    assert (counters.h2d_bytes, counters.d2h_bytes) == (data.nbytes, data.nbytes)


def test_large_pinned_copies_are_not_staged(make_backend, library):
    backend = make_backend(num_staging_workers=2)
    library.results["cuPointerGetAttribute"] = 0
    data = np.ones(8 * MIB, np.uint8)
    buffer = backend.allocate(data.nbytes)
    backend.upload(buffer.ptr, data)
    backend.download(data, buffer.ptr)
    assert library.count()["cuMemHostAlloc"] == 0
    assert library.count()["cuStreamSynchronize"] == 1
    assert library.count()["cuMemcpyDtoH_v2"] == 1


def test_no_pinned_memory_to_be_had(make_backend, library):
    backend = make_backend(num_staging_workers=2)
    library.results["cuMemHostAlloc"] = OUT_OF_MEMORY
    data = np.random.default_rng(1).integers(0, 256, 8 * MIB, np.uint8)
    buffer = backend.allocate(data.nbytes)
    backend.upload(buffer.ptr, data)
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    np.testing.assert_array_equal(back, data)
    assert library.count()["cuMemHostAlloc"] == 1  # asked once


def test_synchronize_and_events(backend, library, use_stream):
    use_stream(0x66)
    first, second = backend.record_event(), backend.record_event()
    assert first.elapsed_ms(second) == 1.5
    assert library.arguments("cuEventRecord")[1] == 0x66
    backend.synchronize()
    assert library.names()[-1] == "cuCtxSynchronize"


def test_capability(backend):
    assert backend.capability.cc == (9, 0)
    assert (backend.capability.num_sms, backend.capability.max_shared_nbytes) == (132, 227 << 10)


@pytest.fixture
def open_with(monkeypatch):
    def open_(library):
        driver = start(library)
        monkeypatch.setattr(cuda, "list_devices", lambda: real(driver))
        return cuda.open_backend()

    real = cuda.list_devices
    return open_


def test_open(open_with, library):
    assert open_with(library).capability.device_name == "Fake GPU"


def test_open_on_a_device_that_is_too_old(open_with, library):
    library.attributes |= {75: 7, 76: 5}
    with pytest.raises(BackendUnavailable, match=r"Ampere.*Fake GPU \(7\.5\)"):
        open_with(library)


@pytest.mark.parametrize("call", ["cuDeviceGetCount", "cuDevicePrimaryCtxRetain"])
@pytest.mark.parametrize("result", [OUT_OF_MEMORY, 46, 100, 802])
def test_open_on_a_device_in_trouble(open_with, library, call, result):
    library.results[call] = result
    with pytest.raises(BackendUnavailable) as info:
        open_with(library)
    assert str(info.value) == str(info.value.__cause__)
    assert isinstance(info.value.__cause__, errors.CudaError)


def test_what_is_loaded_lets_go_of_its_trace(backend):
    made = retraceable(build_scale)("scale", 2.0)
    backend.function(made)
    assert made.body is None
    prologue, body = made.blocks()
    assert made.body is body
    assert len(prologue.nodes) > 2


def test_a_finaliser_in_the_middle_of_a_large_transfer_has_one_of_its_own(make_backend, monkeypatch):
    """It interrupts the thread that waits, or one of those that copy; the ring would let neither in."""
    backend = make_backend(num_staging_workers=2)
    large, within = np.arange(3 << 20, dtype=np.int64), np.arange(1 << 20)[::-1].copy()
    buffer, other = backend.allocate(large.nbytes), backend.allocate(within.nbytes)
    seen = []

    def interrupt(function):
        def interrupted(*arguments):
            if len(seen) < 2 and threading.get_ident() not in seen:
                seen.append(threading.get_ident())
                backend.upload(other.ptr, within)
            return function(*arguments)

        return interrupted

    ring = backend._transfers._ring
    monkeypatch.setattr(ring._port, "upload_async", interrupt(ring._port.upload_async))
    monkeypatch.setattr(ring._port, "allocate_pinned", interrupt(ring._port.allocate_pinned))
    backend.upload(buffer.ptr, large)
    assert len(seen) == 2
    for array, where in ((large, buffer), (within, other)):
        found = np.empty_like(array)
        backend.download(found, where.ptr)
        assert np.array_equal(found, array)
