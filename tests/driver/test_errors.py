import gc

import pytest

from oxinp._driver import errors
from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.driver import start
from oxinp._driver.event import Event
from oxinp._driver.launch import Launcher
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream
from tests.driver.fake_library import FakeLibrary, open_context

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("row", errors.ROWS, ids=lambda row: row.name)
def test_every_result_raises_its_type_and_says_all(row):
    context, library = open_context()
    library.results["cuCtxSynchronize"] = row.code
    with pytest.raises(errors.CudaError) as caught:
        context.synchronize()
    error = caught.value
    assert type(error) is row.type
    assert (error.code, error.name, error.call) == (row.code, f"CUDA_ERROR_{row.name}", "cuCtxSynchronize")
    for part in ("cuCtxSynchronize", f"CUDA_ERROR_{row.name} ({row.code})", row.cause, row.remedy):
        assert part in str(error)


@pytest.mark.parametrize("row", errors.ROWS, ids=lambda row: row.name)
def test_cause_and_remedy_are_sentences(row):
    for text in (row.cause, row.remedy):
        assert text[0].isupper()
        assert text.endswith(".")


def test_codes_and_names_are_unique():
    assert len({row.code for row in errors.ROWS}) == len({row.name for row in errors.ROWS}) == len(errors.ROWS)


def test_out_of_memory_is_a_memory_error():
    error = errors.from_result(2, "cuMemAlloc_v2")
    assert isinstance(error, MemoryError)
    assert isinstance(error, errors.CudaError)


def test_a_result_newer_than_the_table():
    error = errors.from_result(4711, "cuInit")
    assert type(error) is errors.InternalError
    assert "4711" in str(error)
    assert "cuInit" in str(error)


def test_detail_says_what_was_asked():
    assert str(errors.from_result(1, "cuX", "kernel k")).startswith(
        "cuX (kernel k) failed with CUDA_ERROR_INVALID_VALUE"
    )


def test_the_tree_at_the_top_names_every_class():
    assert {cls.__name__ for cls in CLASSES} == {cls.__name__ for cls in CLASSES if cls.__name__ in errors.__doc__}
    assert {cls.__name__ for cls in CLASSES} <= set(errors.__all__)


def test_every_class_can_occur():
    raised = {row.type for row in errors.ROWS} | {errors.UnsupportedPlatform, errors.ForkedProcess}
    assert {cls for cls in CLASSES if not cls.__subclasses__()} == raised


def test_faults_say_that_the_process_is_lost():
    for row in errors.ROWS:
        if row.type is errors.DeviceFault and row.name != "ECC_UNCORRECTABLE":
            assert "start it again" in row.remedy


def test_version_text():
    assert [errors.version_text(v) for v in (12000, 12040, 13010)] == ["12.0", "12.4", "13.1"]


def test_busy_device_is_named_when_the_context_is_made():
    with pytest.raises(errors.DeviceBusy, match=r"cuDevicePrimaryCtxRetain failed.*compute mode.*nvidia-smi"):
        open_context(FakeLibrary(results={"cuDevicePrimaryCtxRetain": 46}))


# Faults of the device


class Counter:
    launches = 0


def launcher(context, name, counter):
    function = Module.from_ptx(context, "x").function(name)
    return Launcher(function, (1, 1, 1), (32, 1, 1), 0, "<Q", 1, (), counter=counter)


FAULTS = [row for row in errors.ROWS if row.type is errors.DeviceFault]


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: row.name)
def test_a_fault_names_the_kernel_and_everything_later_says_so(row, opened):
    context, library = opened
    counter = Counter()
    good, bad = launcher(context, "good", counter), launcher(context, "bad", counter)
    good(1)
    context.synchronize()
    bad(1)
    assert not context.is_lost
    library.results["cuCtxSynchronize"] = row.code
    with pytest.raises(errors.DeviceFault, match="The kernel was bad") as caught:
        context.synchronize()
    assert caught.value.kernels == ("bad",)
    assert context.is_lost
    library.results.clear()
    library.calls.clear()
    stream_calls = (context.synchronize, lambda: Event(context), lambda: good.function.attribute("num_registers"))
    for call in stream_calls:
        with pytest.raises(errors.DeviceFault, match=rf"was not called: .*{row.name}.*The kernel was bad") as caught:
            call()
        assert (caught.value.code, caught.value.kernels) == (row.code, ("bad",))
    assert not library.calls


def test_launchers_without_a_counter_are_told_apart_too(opened):
    context, library = opened
    good, bad = launcher(context, "good", None), launcher(context, "bad", None)
    good(1)
    context.synchronize()
    bad(1)
    counted = launcher(context, "counted", Counter())
    library.results["cuCtxSynchronize"] = 700
    with pytest.raises(errors.DeviceFault) as caught:
        context.synchronize()
    assert caught.value.kernels == ("bad",)
    del counted


def test_several_suspects_are_named_last_first_and_once(opened):
    context, library = opened
    counter = Counter()
    kernels = {name: launcher(context, name, counter) for name in "abc"}
    for name in "abacb":
        kernels[name](1)
    library.results["cuCtxSynchronize"] = 700
    with pytest.raises(errors.DeviceFault, match=r"last first: b, c, a.*OXINP_SYNCHRONOUS") as caught:
        context.synchronize()
    assert caught.value.kernels == ("b", "c", "a")


def test_a_launch_after_a_fault_says_what_happened(opened):
    context, library = opened
    launch = launcher(context, "axpy", Counter())
    launch(1)
    library.results.update(cuStreamSynchronize=719, cuLaunchKernelEx=719)
    with pytest.raises(errors.DeviceFault, match="cuStreamSynchronize failed with CUDA_ERROR_LAUNCH_FAILED"):
        Stream(context).synchronize()
    with pytest.raises(errors.DeviceFault, match=r"cuLaunchKernelEx was not called.*when cuStreamSynchronize failed"):
        launch(1)


def test_a_launcher_that_is_gone_is_still_a_suspect(opened):
    context, library = opened
    counter = Counter()
    launcher(context, "kept", counter)(1)
    launcher(context, "gone", counter)(1)
    gc.collect()
    library.results["cuCtxSynchronize"] = 700
    with pytest.raises(errors.DeviceFault) as caught:
        context.synchronize()
    assert caught.value.kernels == ("gone", "kept")


def test_suspects_after_the_counter_was_set_back(opened):
    context, library = opened
    counter = Counter()
    first, second = launcher(context, "first", counter), launcher(context, "second", counter)
    for _ in range(5):
        first(1)
    context.synchronize()
    counter.launches = 0
    second(1)
    library.results["cuCtxSynchronize"] = 700
    with pytest.raises(errors.DeviceFault) as caught:
        context.synchronize()
    assert caught.value.kernels == ("second",)


def test_objects_of_a_lost_context_go_quietly(opened):
    context, library = opened
    event = Event(context)
    library.results["cuCtxSynchronize"] = 700
    with pytest.raises(errors.DeviceFault):
        context.synchronize()
    del event
    gc.collect()  # filterwarnings=error would show what comes out of a destructor


def test_another_devices_context_lives_on():
    library = FakeLibrary(num_devices=2)
    driver = start(library)
    lost, well = Context(Device(0, driver)), Context(Device(1, driver))
    library.results["cuCtxSynchronize"] = [700]
    with pytest.raises(errors.DeviceFault):
        lost.synchronize()
    well.synchronize()
    assert (lost.is_lost, well.is_lost) == (True, False)
