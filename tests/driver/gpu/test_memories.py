"""Every kind of memory, on a GPU."""

import ctypes
import gc

import pytest

from oxinp._driver import debug, errors
from oxinp._driver.copy import Place, copy_2d, copy_3d
from oxinp._driver.event import Event
from oxinp._driver.managed import HOST, ManagedMemory
from oxinp._driver.memory import PinnedMemory, RegisteredMemory
from oxinp._driver.stream import Stream
from oxinp._driver.stream_pool import StreamPool
from oxinp._driver.virtual import AddressRange, granularity
from tests.driver.gpu.figures import MIB, read
from tests.driver.ptx_samples import make_launcher

pytestmark = pytest.mark.gpu

# Memories


def test_managed_memory_moves_with_hints(context):
    managed = ManagedMemory(context, 4 * MIB)
    managed.view()[:4] = (41).to_bytes(4, "little")
    if context.device.attribute("has_concurrent_managed_access"):
        managed.advise("read_mostly")
        assert managed.is_read_mostly()
        managed.advise("read_mostly", is_set=False)
        managed.advise("preferred_location", 0)
        assert managed.preferred_location() == 0
        managed.prefetch(0)
        context.synchronize()
        assert managed.last_prefetch() == 0
    make_launcher(context, "add").launch(managed.ptr, 1)
    context.synchronize()
    assert int.from_bytes(managed.view()[:4], "little") == 42
    if context.device.attribute("has_concurrent_managed_access"):
        managed.prefetch(HOST)


def test_mapped_and_registered_memory_are_used_in_place(context):
    pinned = PinnedMemory(context, 64, is_mapped=True)
    pinned.view()[:4] = bytes(4)
    launch = make_launcher(context, "add").launch
    launch(pinned.device_ptr, 7)
    block = ctypes.create_string_buffer(2 * 4096)
    address = ctypes.addressof(block) + -ctypes.addressof(block) % 4096
    with RegisteredMemory(context, address, 4096, is_mapped=True) as registered:
        launch(registered.device_ptr, 9)
        context.synchronize()
        assert ctypes.c_uint32.from_address(address).value == 9
        with pytest.raises(errors.InvalidValue, match="already pinned"):
            RegisteredMemory(context, address, 4096)
    assert int.from_bytes(pinned.view()[:4], "little") == 7


def test_stream_pools(context, memory):
    stream, pool = Stream(context), StreamPool(context)
    pool.set_attribute("release_threshold", 64 * MIB)
    ptr = pool.allocate(8 * MIB, stream.handle)
    assert pool.attribute("used_nbytes") >= 8 * MIB
    memory.fill32_async(ptr, 5, 1, stream.handle)
    stream.synchronize()
    assert read(memory, ptr) == [5]
    pool.free(ptr, stream.handle)
    stream.synchronize()
    assert pool.attribute("used_nbytes") == 0
    assert pool.attribute("reserved_nbytes") >= 8 * MIB
    pool.trim()
    assert pool.attribute("reserved_nbytes") == 0
    assert StreamPool.default(context).attribute("used_nbytes") >= 0


@pytest.mark.exclusive
def test_a_range_of_addresses_grows_in_place(context, memory):
    unit = granularity(context)
    reserved = AddressRange(context, 64 * unit)
    reserved.commit(0, unit)
    memory.fill32_async(reserved.ptr, 11, unit // 4, 0)
    reserved.commit(unit, 3 * unit)
    memory.fill32_async(reserved.ptr + unit, 22, 3 * unit // 4, 0)
    assert read(memory, reserved.ptr + unit - 4, 2) == [11, 22]  # over the seam
    context.synchronize()
    taken = reserved.unmap(0)
    with pytest.raises(errors.CudaError):
        read(memory, reserved.ptr)
    reserved.map(10 * unit, taken)
    assert read(memory, reserved.ptr + 10 * unit) == [11]
    del taken
    reserved.close()

    def given_back():
        reserved = AddressRange(context, 64 * unit)
        reserved.commit(0, 64 * unit)
        free = memory.info()[0]
        reserved.close()
        gc.collect()
        return memory.info()[0] - free

    assert any(given_back() >= 64 * unit for _ in range(3))  # others may use the device meanwhile


def test_rectangles_and_blocks(context, memory):
    source, target = PinnedMemory(context, 6 * 5 * 4), PinnedMemory(context, 1024)
    source.view()[:] = bytes(range(120))
    target.view()[:] = bytes(1024)
    ptr = memory.allocate(4096)
    stream = Stream(context)
    copy_2d(context, Place(ptr, 512), Place(source.ptr, 6, is_host=True), 6, 4)
    copy_2d(context, Place(target.ptr, 16, is_host=True), Place(ptr + 1, 512), 3, 4, stream.handle)
    stream.synchronize()
    rows = [bytes(target.view()[16 * row : 16 * row + 3]) for row in range(4)]
    assert rows == [bytes(range(6 * row + 1, 6 * row + 4)) for row in range(4)]
    copy_3d(context, Place(ptr, 8, 10), Place(source.ptr, 6, 4, is_host=True), 5, 3, 2)
    copy_3d(context, Place(target.ptr, is_host=True), Place(ptr, 8, 10), 5, 3, 2, stream.handle)
    stream.synchronize()
    expected = [24 * z + 6 * y + x for z in range(2) for y in range(3) for x in range(5)]
    assert list(target.view()[:30]) == expected
    memory.free(ptr)


def test_a_leak_is_found_with_its_line(context):
    with debug.LeakDetector() as detector:
        kept = [Event(context), Stream(context)]
        Event(context).close()
    assert {leak.kind for leak in detector.leaks()} == {"Event", "Stream"}
    assert all("test_memories.py" in leak.line for leak in detector.leaks())
    del kept
