"""What bad input gets, and what a faulty kernel leaves behind."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from oxinp._driver import errors
from oxinp._driver.device import Device
from oxinp._driver.event import Event
from oxinp._driver.memory import PinnedMemory
from oxinp._driver.stream import Stream
from tests.driver.gpu.figures import GIB, report
from tests.patience import PATIENCE

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[3]


# What bad input gets


def test_device_999(context):
    with pytest.raises(errors.DeviceNotFound, match="no device 999"):
        Device(999)
    assert context.is_current()


def test_a_gigabyte_or_an_error(memory):
    try:
        ptr = memory.allocate(GIB)
    except MemoryError as error:
        assert "cuMemAlloc_v2" in str(error)  # noqa: PT017 - either outcome is right
    else:
        memory.free(ptr)


def test_memory_that_is_not_ours_or_no_longer(memory):
    ptr, host = memory.allocate(4096), ctypes.create_string_buffer(64)
    memory.free(ptr)
    for wrong in (ptr, 1, 0xDEAD_0000):
        with pytest.raises(errors.CudaError, match="cuMemFree_v2"):
            memory.free(wrong)
    with pytest.raises(errors.CudaError, match="cuMemcpyDtoH"):
        memory.download(ctypes.addressof(host), 1 << 46, 64)
    memory.free(memory.allocate(4096))


def test_use_after_close(context):
    stream, event, pinned = Stream(context), Event(context), PinnedMemory(context, 64)
    for made in (stream, event, pinned):
        made.close()
    uses = (stream.synchronize, stream.record, lambda: event.record(0), event.synchronize, lambda: pinned.ptr)
    for use in uses:
        with pytest.raises(errors.InvalidHandle, match="is closed"):
            use()
    context.synchronize()


FAULTS = {
    "poke": (1 << 46, "ILLEGAL_ADDRESS"),
    "poke_misaligned": (2, "MISALIGNED_ADDRESS|ILLEGAL_ADDRESS"),
    "trap": (0, "LAUNCH_FAILED|ILLEGAL_INSTRUCTION|ASSERT"),
}


@pytest.mark.exclusive
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_kernel_and_later_calls_say_so_at_once(name):
    value, result = FAULTS[name]
    kernel = name.split("_", maxsplit=1)[0]
    code = f"""
import time
from oxinp._driver import errors
from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.memory import DeviceMemory
from tests.driver.ptx_samples import make_launcher
context = Context(Device(0))
memory = DeviceMemory(context)
ptr = memory.allocate(256)
make_launcher(context, "add").launch(ptr, 1)
context.synchronize()
make_launcher(context, "{kernel}").launch({value} if {value} != 2 else ptr + 2)
try:
    context.synchronize()
except errors.DeviceFault as error:
    print(error.name, error.kernels)
start = time.perf_counter()
for call in (lambda: memory.allocate(64), context.synchronize, lambda: memory.free(ptr)):
    try:
        call()
    except errors.DeviceFault as error:
        print(type(error).__name__, error.kernels)
assert time.perf_counter() - start < 1
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    first, *later = done.stdout.splitlines()
    assert any(word in first for word in result.split("|")), first
    assert first.endswith(f"('{kernel}',)")
    assert later == [f"DeviceFault ('{kernel}',)"] * 3
    report("fault", f"{first.split()[0]} named {kernel}")
