"""The binding on a real GPU: that signatures, structures and lifetimes are what libcuda takes them for."""

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from oxinp._driver import errors
from oxinp._driver.device import list_devices
from oxinp._driver.event import Event
from oxinp._driver.launch import Launcher
from oxinp._driver.link import link
from oxinp._driver.memory import PinnedMemory
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream
from oxinp._driver.tensormap import TensorMap
from tests.driver.gpu.figures import read

pytestmark = pytest.mark.gpu

# out[i] = the 4-byte scalar + the byte of the block at i, for one block of threads; dynamic shared memory is declared
# and left alone. The 128-byte block is where a tensor map would be.
PTX = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 smem[];
.visible .entry fill(.param .u64 out, .param .u32 scalar, .param .align 64 .b8 block[128])
{
    .reg .b32 %r<6>;
    .reg .b64 %d<8>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [scalar];
    mov.u32 %r2, %tid.x;
    mov.b64 %d2, block;
    cvta.param.u64 %d3, %d2;
    cvt.u64.u32 %d4, %r2;
    add.u64 %d5, %d3, %d4;
    ld.u8 %r3, [%d5];
    add.u32 %r4, %r3, %r1;
    mul.wide.u32 %d6, %r2, 4;
    add.u64 %d7, %d1, %d6;
    st.global.u32 [%d7], %r4;
    ret;
}
"""
FORMAT = "<QI52x128s"
BLOCK = bytes(range(128))


@pytest.fixture(params=["ptx", "cubin"])
def function(request, context):
    if request.param == "ptx":
        return Module.from_ptx(context, PTX).function("fill")
    return Module.from_cubin(context, link(context, PTX).cubin).function("fill")


@pytest.fixture
def out(memory):
    ptr = memory.allocate(512)
    yield ptr
    memory.free(ptr)


def launcher(function, shared_nbytes=0, **options):
    return Launcher(function, (1, 1, 1), (128, 1, 1), shared_nbytes, FORMAT, 2, (BLOCK,), **options)


def in_subprocess(code):
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=root, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_device():
    for device in list_devices():
        assert device.name
        assert device.compute_capability >= (7, 0)
        assert device.num_sms > 0
        assert device.total_nbytes > 1 << 30
        assert device.l2_nbytes > 1 << 20
        assert device.max_shared_nbytes > 48 << 10
        assert device.uuid.startswith("GPU-")
        assert len(device.uuid) == 40


def test_launch(function, memory, out):
    launch = launcher(function).launch
    for scalar in (0, 5, 1 << 20):
        launch(out, scalar)
        assert read(memory, out, 128) == [i + scalar for i in range(128)]


def test_launch_on_a_stream(context, function, memory, out):
    stream = Stream(context)
    before = stream.record()
    launcher(function, stream=stream.handle).launch(out, 3)
    after = stream.record()
    assert before.elapsed_ms(after) > 0
    assert stream.is_done()
    assert read(memory, out, 2) == [3, 4]


def test_dynamic_shared_memory_up_to_the_limit_and_no_further(context, function, memory, out):
    limit = context.device.max_shared_nbytes
    launcher(function, limit).launch(out, 1)
    assert read(memory, out, 1) == [1]
    with pytest.raises(errors.InvalidValue, match="cuFuncSetAttribute"):
        launcher(function, limit + 1)


@pytest.mark.hopper
@pytest.mark.parametrize("cluster", [(2, 1, 1), (16, 1, 1)])
def test_clusters(cluster, function, memory, out):
    grid = (cluster[0], 1, 1)
    Launcher(function, grid, (128, 1, 1), 0, FORMAT, 2, (BLOCK,), cluster=cluster).launch(out, 9)
    assert read(memory, out, 2) == [9, 10]


def test_a_grid_that_is_no_multiple_of_its_cluster(function, out):
    launch = Launcher(function, (3, 1, 1), (128, 1, 1), 0, FORMAT, 2, (BLOCK,), cluster=(2, 1, 1)).launch
    with pytest.raises(
        errors.CudaError, match=r"cuLaunchKernelEx \(kernel fill, grid \(3, 1, 1\).*cluster \(2, 1, 1\)"
    ):
        launch(out, 1)


def test_shapes_that_the_driver_refuses(context, memory, out):
    narrow = Module.from_ptx(context, PTX.replace("\n{", "\n.maxntid 128, 1, 1\n{", 1)).function("fill")
    with pytest.raises(errors.CudaError, match=r"cuLaunchKernelEx \(kernel fill, .*block \(256, 1, 1\)"):
        Launcher(narrow, (1, 1, 1), (256, 1, 1), 0, FORMAT, 2, (BLOCK,)).launch(out, 1)
    launcher(narrow).launch(out, 1)
    assert read(memory, out, 1) == [1]


def test_a_new_thread_launches_allocates_and_records(context, function, memory, out):
    launch, failures = launcher(function).launch, []

    def work():
        try:
            launch(out, 40)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    def work_without_launching():
        try:
            memory.free(memory.allocate(1024))
            Stream(context).record().synchronize()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    for target in (work, work_without_launching):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert not failures
    assert read(memory, out, 2) == [40, 41]


def test_function_attributes(function):
    assert 0 < function.attribute("num_registers") < 256
    assert function.attribute("local_nbytes") == 0
    assert function.attribute("max_threads_per_block") >= 128


def test_link_log_names_registers(context):
    assert "registers" in link(context, PTX, is_verbose=True).log


@pytest.mark.hopper
def test_code_for_one_architecture_only(context, memory, out):
    ptx = PTX.replace("sm_80", "sm_90a")
    for module in (Module.from_ptx(context, ptx), Module.from_cubin(context, link(context, ptx).cubin)):
        launcher(module.function("fill")).launch(out, 7)
        assert read(memory, out, 2) == [7, 8]


@pytest.mark.parametrize("load", [Module.from_ptx, link])
def test_the_compilers_log_is_in_the_error(load, context):
    with pytest.raises(errors.CompileError) as caught:
        load(context, PTX.replace("add.u32", "add.u33"))
    assert "line" in caught.value.log
    assert caught.value.log in str(caught.value)


def test_a_damaged_cubin(context):
    cubin = link(context, PTX).cubin
    with pytest.raises(errors.CudaError, match="cuModuleLoadDataEx"):
        Module.from_cubin(context, b"\0" * 64 + cubin[64:])


def test_a_kernel_that_is_not_there(context):
    with pytest.raises(errors.NotFound, match="cuModuleGetFunction"):
        Module.from_ptx(context, PTX).function("missing")


def test_copies_and_fills(context, memory):
    stream = Stream(context)
    up, down = PinnedMemory(context, 4096), PinnedMemory(context, 4096, is_write_combined=False)
    up.view()[:] = bytes(range(256)) * 16
    a, b = memory.allocate_async(4096, stream.handle), memory.allocate_async(4096, stream.handle)
    memory.upload_async(a, up.ptr, 4096, stream.handle)
    memory.copy_async(b, a, 4096, stream.handle)
    memory.fill32_async(b, 0xDEADBEEF, 2, stream.handle)
    memory.fill16_async(b + 8, 0xABCD, 1, stream.handle)
    memory.fill8_async(b + 10, 0x11, 2, stream.handle)
    memory.download_async(down.ptr, b, 4096, stream.handle)
    stream.synchronize()
    expected = struct.pack("<IIHBB", 0xDEADBEEF, 0xDEADBEEF, 0xABCD, 0x11, 0x11) + (bytes(range(256)) * 16)[12:]
    assert bytes(down.view()) == expected
    memory.copy(a, b, 4096)
    assert read(memory, a, 1) == [0xDEADBEEF]
    memory.free_async(a, stream.handle)
    memory.free_async(b, stream.handle)


def test_out_of_memory(memory):
    free, total = memory.info()
    assert 0 < free <= total
    with pytest.raises(MemoryError, match="cuMemAlloc_v2"):
        memory.allocate(total * 2)
    memory.free(memory.allocate(1 << 20))


def test_measuring_an_event_that_was_never_recorded(context):
    with pytest.raises(errors.InvalidHandle, match="never been recorded"):
        Event(context).elapsed_ms(Event(context))


@pytest.mark.hopper
def test_a_tensor_map_can_be_encoded(context, memory):
    ptr = memory.allocate(64 * 128 * 4)
    encoded = TensorMap(context, "f32", ptr, (64, 128), (512,), (8, 32), swizzle_nbytes=128)
    assert any(encoded.value)
    memory.free(ptr)


def test_a_forked_child_says_that_it_needs_spawn():
    assert "ForkedProcess" in in_subprocess("""
import os, sys, warnings
from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.memory import DeviceMemory
memory = DeviceMemory(Context(Device(0)))
warnings.simplefilter("ignore")  # the driver's threads make every fork suspicious, which is the point
sys.stdout.flush()
child = os.fork()
if child == 0:
    try:
        memory.allocate(64)
    except Exception as error:
        os.write(1, type(error).__name__.encode() if "'spawn'" in str(error) else b"unclear")
    os._exit(0)
os.waitpid(child, 0)
memory.free(memory.allocate(64))
""")


def test_a_fault_is_told_at_the_next_synchronisation():
    assert "DeviceFault" in in_subprocess(f"""
from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.module import Module
from oxinp._driver import errors
from tests.driver.gpu.test_calls import PTX, launcher
context = Context(Device(0))
launcher(Module.from_ptx(context, PTX).function("fill")).launch({1 << 46}, 1)
try:
    context.synchronize()
except errors.DeviceFault as error:
    print(type(error).__name__, error)
""")
