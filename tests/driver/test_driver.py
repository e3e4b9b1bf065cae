import gc
import os
import subprocess
import sys
import threading

import pytest

from oxinp._driver import api, driver, errors, library
from oxinp._driver.device import ATTRIBUTES, Device, best_device, list_devices
from tests.driver.fake_library import FakeLibrary, open_context

ROW = api.DriverFunction("abs", "int n", 2000)
HOT_ROW = api.DriverFunction("labs", "int n", 2000, is_hot=True)


def test_start_initialises_once_and_watches_forks():
    fake = FakeLibrary()
    started = driver.start(fake)
    assert fake.names() == ["cuDriverGetVersion", "cuInit"]
    assert fake.is_watching_fork
    assert started.version == 13000


def test_start_refuses_an_old_driver_before_initialising_it():
    fake = FakeLibrary(version=11040)
    with pytest.raises(errors.DriverTooOld, match=r"offers CUDA 11\.4, needed is 12\.0 or newer\. Install a newer"):
        driver.start(fake)
    assert "cuInit" not in fake.names()


@pytest.mark.parametrize(
    ("result", "type_", "words"),
    [
        (100, errors.NoDevice, "CUDA_VISIBLE_DEVICES"),
        (34, errors.NoDriver, "stub"),
        (802, errors.SystemNotReady, "fabricmanager"),
        (803, errors.SystemNotReady, "Reboot"),
        (804, errors.DriverTooOld, "cuda-compat"),
        (46, errors.DeviceBusy, "nvidia-smi"),
    ],
)
def test_start_says_why_there_is_no_gpu(result, type_, words):
    fake = FakeLibrary(results={"cuInit": result})
    with pytest.raises(type_, match=words) as caught:
        driver.start(fake)
    assert isinstance(caught.value, errors.Unavailable)
    assert not fake.is_watching_fork


def test_a_missing_function_says_which_driver_has_it():
    started = driver.start(FakeLibrary(version=12000, missing={"cuMemAllocAsync"}))
    with pytest.raises(
        errors.DriverTooOld,
        match=r"cuMemAllocAsync needs a driver for CUDA 11\.2 or newer; this one is 12\.0\. Install",
    ):
        started.cuMemAllocAsync(0, 0, 0)


def test_a_library_that_is_no_driver():
    with pytest.raises(errors.DriverTooOld, match="cuDriverGetVersion needs a driver"):
        driver.start(FakeLibrary(missing={"cuDriverGetVersion"}))


def test_functions_are_looked_up_when_first_called():
    fake = FakeLibrary(missing={"cuCtxSynchronize"})
    started = driver.start(fake)
    fake.missing.clear()
    context = Device(0, started)
    assert context.compute_capability == (9, 0)
    assert started.cuDeviceGetAttribute is started.cuDeviceGetAttribute


def test_a_function_that_is_not_in_the_table():
    started = driver.start(FakeLibrary())
    with pytest.raises(AttributeError, match="cuNonsense"):
        started.cuNonsense  # noqa: B018 - asking for it is the test


def test_a_thread_without_a_context_gets_it_by_the_first_call_that_needs_it():
    context, fake = open_context()
    failures = []

    def work():
        try:
            context.synchronize()
            context.synchronize()
        except errors.CudaError as error:
            failures.append(error)

    fake.calls.clear()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
    assert fake.names() == ["cuCtxSynchronize", "cuCtxSetCurrent", "cuCtxSynchronize", "cuCtxSynchronize"]


def test_an_invalid_context_is_tried_again_once():
    context, fake = open_context()
    fake.results["cuCtxSynchronize"] = 201
    fake.calls.clear()
    with pytest.raises(errors.InvalidHandle, match="CUDA_ERROR_INVALID_CONTEXT"):
        context.synchronize()
    assert fake.count()["cuCtxSynchronize"] == 2


def test_a_context_that_cannot_be_made_current_does_not_recurse():
    context, fake = open_context()
    fake.results.update(cuCtxSynchronize=201, cuCtxSetCurrent=201)
    with pytest.raises(errors.InvalidHandle, match="cuCtxSetCurrent failed"):
        context.synchronize()


# Finding the library


def _opener(present):
    tried = []

    def open_library(name):
        tried.append(name)
        if name not in present:
            raise OSError(f"{name}: cannot open shared object file")
        return name

    return open_library, tried


def test_linux_takes_the_versioned_name_first():
    opener, tried = _opener({"libcuda.so.1", "libcuda.so"})
    assert library.find("linux", opener) == "libcuda.so.1"
    assert tried == ["libcuda.so.1"]


def test_linux_takes_what_there_is():
    assert library.find("linux", _opener({"libcuda.so"})[0]) == "libcuda.so"


def test_windows_has_its_own_name():
    opener, tried = _opener({"nvcuda.dll"})
    assert library.find("win32", opener) == "nvcuda.dll"
    assert tried == ["nvcuda.dll"]


@pytest.mark.parametrize(
    ("platform", "said", "reason"),
    [
        ("linux", "{}: cannot open shared object file: No such file or directory", "there is no libcuda.so.1."),
        ("win32", "Could not find module '{}' (or one of its dependencies)", "there is no nvcuda.dll."),
        ("linux", "{}: wrong ELF class", "libcuda.so.1: wrong ELF class; libcuda.so: wrong ELF class; /usr"),
        ("win32", "[WinError 193]", "nvcuda.dll: [WinError 193]. Install"),
    ],
)
def test_no_driver_says_why_and_what_helps(platform, said, reason):
    def refuse(name):
        raise OSError(said.format(name))

    with pytest.raises(errors.NoDriver) as caught:
        library.find(platform, refuse)
    assert str(caught.value).startswith(f"The NVIDIA driver's library could not be loaded: {reason}")
    assert "Install the NVIDIA driver; in a container" in str(caught.value)


@pytest.mark.parametrize("platform", ["darwin", "freebsd14", "emscripten"])
def test_platforms_without_cuda(platform):
    opener, tried = _opener({"libcuda.so.1"})
    with pytest.raises(errors.UnsupportedPlatform, match=platform) as caught:
        library.find(platform, opener)
    assert isinstance(caught.value, errors.Unavailable)
    assert not tried


def test_importing_loads_no_driver():
    code = (
        "import pkgutil, importlib\nfrom oxinp import _driver\n"
        "for m in pkgutil.iter_modules(_driver.__path__): importlib.import_module('oxinp._driver.' + m.name)\n"
        "from oxinp._driver import driver; assert driver._loaded is None"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# The real way through ctypes, with the functions of libc


def test_shared_library_binds_converts_and_keeps():
    shared = library.SharedLibrary(None)
    assert shared.bind(ROW)(-7) == 7
    assert shared.bind(ROW) is shared.bind(ROW)
    with pytest.raises(AttributeError):
        shared.bind(api.DriverFunction("cuNonsense", "void", 2000))
    with pytest.raises(OSError, match="no_such_library"):
        library.SharedLibrary("no_such_library.so")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_every_function_already_given_out_refuses():
    code = """
import os, sys
from oxinp._driver import api, driver, errors, library
from tests.driver.test_driver import ROW, HOT_ROW

shared = library.SharedLibrary(None)
plain, hot = shared.bind(ROW), shared.bind(HOT_ROW)
before = os.fork()
if before == 0:
    os._exit(plain(-7) + hot(-7))  # forked before CUDA was in use: nothing has changed
assert os.waitstatus_to_exitcode(os.waitpid(before, 0)[1]) == 14
shared.watch_fork()
after = os.fork()
if after == 0:
    late = shared.bind(api.DriverFunction("atoi", "const char *text", 2000))
    codes = {plain(-7), hot(-7), late(b"7")}
    error = driver.Driver(shared).error(plain(-7), "cuLaunchKernelEx")
    good = codes == {3} and isinstance(error, errors.ForkedProcess) and "'spawn'" in str(error)
    os._exit(0 if good else 1)
assert os.waitstatus_to_exitcode(os.waitpid(after, 0)[1]) == 0
assert plain(-7) == hot(-7) == 7  # the parent goes on
"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - a folder for a subprocess
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env={**os.environ, "PYTHONPATH": root})


def test_handles_close_quietly_in_a_forked_child():
    context, fake = open_context()
    fake.is_forked = True
    fake.results.update(cuDevicePrimaryCtxRelease_v2=3, cuCtxSynchronize=3)
    with pytest.raises(errors.ForkedProcess, match="cuCtxSynchronize cannot work in this process"):
        context.synchronize()
    del context
    gc.collect()
    assert "cuDevicePrimaryCtxRelease_v2" in fake.names()


# Devices


def test_device_properties():
    fake = FakeLibrary()
    (device,) = list_devices(driver.start(fake))
    assert device.name == "Fake GPU"
    assert device.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert device.compute_capability == (9, 0)
    assert (device.num_sms, device.l2_nbytes, device.max_shared_nbytes) == (132, 50 << 20, 227 << 10)
    assert device.total_nbytes == 140 << 30
    assert repr(device) == "<Device 0: Fake GPU>"
    assert device == Device(0, device.driver)
    assert len({device, Device(0, device.driver)}) == 1


def test_no_such_device():
    fake = FakeLibrary()
    for ordinal in (999, 1, -1):
        with pytest.raises(errors.DeviceNotFound, match=rf"no device {ordinal}: this process sees only device 0"):
            Device(ordinal, driver.start(fake))
    assert "cuDeviceGet" not in fake.names()
    with pytest.raises(errors.DeviceNotFound, match="sees devices 0 to 2"):
        Device(3, driver.start(FakeLibrary(num_devices=3)))


def test_every_attribute_is_asked_for_by_its_number_and_unknown_ones_are_left_out():
    fake = FakeLibrary()
    device = Device(0, driver.start(fake))
    found = device.attributes()
    assert len(found) == len(ATTRIBUTES) >= 50
    assert found["num_sms"] == 132
    asked = [arguments[1] for name, arguments in fake.calls if name == "cuDeviceGetAttribute"]
    assert sorted(asked) == sorted(ATTRIBUTES.values())
    fake.results["cuDeviceGetAttribute"] = 1
    assert device.attributes() == {}


def test_best_device_is_the_newest_then_the_largest():
    fake = FakeLibrary(num_devices=3)
    fake.device_attributes = {0: {75: 8, 16: 200}, 1: {75: 9, 16: 114}, 2: {75: 9, 16: 132}}
    assert best_device(driver.start(fake)).ordinal == 2
    with pytest.raises(errors.NoDevice, match="CUDA_VISIBLE_DEVICES"):
        best_device(driver.start(FakeLibrary(num_devices=0)))
