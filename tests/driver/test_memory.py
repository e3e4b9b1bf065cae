import ctypes
import gc

import pytest

from oxinp._driver import errors, occupancy, peer
from oxinp._driver.copy import Place, copy_2d, copy_3d, copy_peer, copy_peer_3d
from oxinp._driver.managed import HOST, ManagedMemory
from oxinp._driver.memory import PinnedMemory, RegisteredMemory
from oxinp._driver.module import Module
from oxinp._driver.stream_pool import StreamPool
from oxinp._driver.virtual import AddressRange, PhysicalMemory, granularity

MIB = 1 << 20


# Managed memory


def test_managed_memory_is_one_buffer_for_host_and_device(context, fake):
    memory = ManagedMemory(context, 64)
    view = memory.view()
    view[:3] = b"abc"
    assert ctypes.string_at(memory.ptr, 3) == b"abc"
    del memory
    gc.collect()
    assert "cuMemFree_v2" not in fake.names()
    del view
    gc.collect()
    assert not fake.memory


def test_hints(context, fake):
    memory = ManagedMemory(context, 4096)
    memory.advise("read_mostly")
    memory.advise("preferred_location", 0, offset=1024)
    memory.advise("accessed_by", HOST, is_set=False, offset=1024, nbytes=512)
    ptr = memory.ptr
    assert fake.advice == [(ptr, 4096, 1, -1), (ptr + 1024, 3072, 3, 0), (ptr + 1024, 512, 6, -1)]
    memory.prefetch(0, 0x77, nbytes=100)
    assert fake.arguments("cuMemPrefetchAsync") == (ptr, 100, 0, 0x77)
    assert memory.is_read_mostly()
    assert memory.preferred_location() == HOST
    assert memory.last_prefetch() is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda memory: memory.advise("warm"), "hint='warm'"),
        (lambda memory: memory.advise("read_mostly", offset=64), "offset=64"),
        (lambda memory: memory.prefetch(0, offset=-1), "offset=-1"),
        (lambda memory: memory.prefetch(0, nbytes=65), "nbytes=65"),
    ],
)
def test_ranges_and_hints_that_are_none(call, words, context, fake):
    memory = ManagedMemory(context, 64)
    with pytest.raises(errors.InvalidValue, match=words):
        call(memory)
    assert not {"cuMemAdvise", "cuMemPrefetchAsync"} & set(fake.names())


# Pinned memory in place


def test_mapped_and_registered_memory(context, fake):
    pinned = PinnedMemory(context, 64, is_mapped=True)
    assert fake.arguments("cuMemHostAlloc")[2] == 3
    assert pinned.device_ptr == pinned.ptr
    existing = ctypes.create_string_buffer(128)
    address = ctypes.addressof(existing)
    with RegisteredMemory(context, address, 128, is_mapped=True) as registered:
        assert fake.arguments("cuMemHostRegister_v2") == (address, 128, 3)
        assert (registered.ptr, registered.device_ptr, registered.nbytes) == (address, address, 128)
    assert fake.arguments("cuMemHostUnregister") == (address,)
    fake.results["cuMemHostRegister_v2"] = 712
    with pytest.raises(errors.InvalidValue, match="already pinned"):
        RegisteredMemory(context, address, 128)


# The driver's pools


def test_stream_pool(context, fake):
    pool = StreamPool(context, max_nbytes=1 << 30)
    ptr = pool.allocate(4096, 0x77)
    assert fake.arguments("cuMemAllocFromPoolAsync")[1:] == (4096, pool.handle, 0x77)
    pool.free(ptr, 0x77)
    pool.set_attribute("release_threshold", 1 << 40)
    pool.set_attribute("follows_events", 0)
    assert (pool.attribute("release_threshold"), pool.attribute("follows_events")) == (1 << 40, 0)
    pool.trim(1 << 20)
    assert fake.arguments("cuMemPoolTrimTo") == (pool.handle, 1 << 20)
    pool.set_access([context.device])
    assert fake.arguments("cuMemPoolSetAccess")[2] == 1
    handle = pool.handle
    pool.close()
    assert fake.arguments("cuMemPoolDestroy") == (handle,)


def test_the_default_pool_is_not_destroyed(context, fake):
    StreamPool.default(context).close()
    gc.collect()
    assert "cuMemPoolDestroy" not in fake.names()


def test_a_pool_out_of_memory(context, fake):
    fake.results["cuMemAllocFromPoolAsync"] = 2
    with pytest.raises(MemoryError):
        StreamPool(context).allocate(1 << 50)


# Virtual memory


def test_a_range_grows_and_shrinks_in_place(context, fake):
    unit = granularity(context)
    reserved = AddressRange(context, 8 * unit)
    reserved.commit(0, 2 * unit)
    reserved.commit(4 * unit, unit)
    assert sorted(fake.mapped) == [reserved.ptr, reserved.ptr + 4 * unit]
    assert fake.arguments("cuMemSetAccess")[0] == reserved.ptr + 4 * unit
    memory = reserved.unmap(0)
    reserved.map(6 * unit, memory)
    assert sorted(fake.mapped) == [reserved.ptr + 4 * unit, reserved.ptr + 6 * unit]
    with pytest.raises(errors.InvalidValue, match=f"offset={7 * unit}"):
        reserved.commit(7 * unit, 2 * unit)
    reserved.close()
    gc.collect()
    assert not fake.mapped
    del memory
    gc.collect()
    assert fake.count()["cuMemCreate"] == fake.count()["cuMemRelease"]
    assert fake.count()["cuMemAddressFree"] == 1


@pytest.mark.parametrize("failing", ["cuMemCreate", "cuMemMap", "cuMemSetAccess"])
def test_memory_that_cannot_be_mapped_is_given_back(failing, context, fake):
    reserved = AddressRange(context, 8 * MIB)
    fake.results[failing] = 2
    with pytest.raises(MemoryError, match=failing):
        reserved.commit(0, 2 * MIB)
    gc.collect()
    assert not fake.mapped
    assert not reserved.mapped
    made = 0 if failing == "cuMemCreate" else 1
    assert fake.count()["cuMemRelease"] == made


def test_shared_mappings(two):
    first, second, fake = two
    reserved = AddressRange(first, 4 * MIB)
    reserved.map(0, PhysicalMemory(first, 2 * MIB), [second.device, first.device])
    assert fake.arguments("cuMemSetAccess")[3] == 2


@pytest.mark.parametrize("make", [ManagedMemory, PhysicalMemory, AddressRange])
@pytest.mark.parametrize("nbytes", [0, -1])
def test_sizes_that_are_none(make, nbytes, context):
    with pytest.raises(errors.InvalidValue, match=f"nbytes={nbytes}"):
        make(context, nbytes)


# Rectangles, blocks, peers


def test_copy_2d(context, fake):
    source = ctypes.create_string_buffer(bytes(range(64)), 64)
    target = ctypes.create_string_buffer(64)
    a, b = ctypes.addressof(source), ctypes.addressof(target)
    copy_2d(context, Place(b, 16, is_host=True), Place(a + 4, 8), 3, 4)
    expected = bytearray(64)
    for row in range(4):
        expected[16 * row : 16 * row + 3] = bytes(range(64))[4 + 8 * row : 4 + 8 * row + 3]
    assert target.raw == bytes(expected)
    copy_2d(context, Place(b), Place(a), 8, 2, 0x77)
    assert fake.names()[-1] == "cuMemcpy2DAsync_v2"
    assert target.raw[:16] == bytes(range(16))


def test_copy_3d(context):
    source = ctypes.create_string_buffer(bytes(range(120)), 120)  # 5 layers of 4 rows of 6
    target = ctypes.create_string_buffer(12)
    a, b = ctypes.addressof(source), ctypes.addressof(target)
    copy_3d(context, Place(b), Place(a + 25, 6, 4), 2, 3, 2)
    assert list(target.raw) == [24 + 1 + 24 * z + 6 * y + x for z in range(2) for y in range(3) for x in range(2)]


@pytest.mark.parametrize(
    ("target", "source", "extents", "words"),
    [
        (Place(1, 7), Place(2, 8), (8, 1, 1), "target.pitch=7"),
        (Place(1), Place(2, 8, 3), (8, 4, 1), "source.height=3"),
        (Place(1), Place(2), (8, -1, 1), "height=-1"),
    ],
)
def test_places_that_overlap_themselves(target, source, extents, words, context, fake):
    with pytest.raises(errors.InvalidValue, match=words):
        copy_3d(context, target, source, *extents)
    assert "cuMemcpy3D_v2" not in fake.names()


def test_peer_copies(two):
    first, second, fake = two
    source, target = ctypes.create_string_buffer(b"abcdefgh"), ctypes.create_string_buffer(8)
    a, b = ctypes.addressof(source), ctypes.addressof(target)
    copy_peer(second, b, first, a, 4)
    assert fake.peer_copy == (second.handle, first.handle)
    copy_peer(second, b, first, a, 6, 0x77)
    assert fake.names()[-1] == "cuMemcpyPeerAsync"
    assert target.raw[:6] == b"abcdef"
    copy_peer_3d(first, Place(b, 4), second, Place(a, 2), (2, 2, 1), 0x77)
    assert fake.peer_copy == (first.handle, second.handle, 0x77)
    assert target.raw[:6] == b"abcdcd"


def test_peer_access_is_enabled_and_disabled_as_often_as_one_likes(two):
    first, second, fake = two
    assert peer.can_access(first.device, second.device)
    assert peer.attribute("has_atomics", first.device, second.device) == 1
    for _ in range(2):
        peer.enable(first, second)
    assert fake.peers == {(first.handle, second.handle)}
    for _ in range(2):
        peer.disable(first, second)
    assert not fake.peers
    assert second.is_current()  # as before
    fake.results["cuCtxEnablePeerAccess"] = 217
    fake.do_cuCtxEnablePeerAccess = lambda *_: None
    with pytest.raises(errors.PeerError, match="cannot reach each other"):
        peer.enable(second, first)


# Occupancy


def test_occupancy(context):
    function = Module.from_ptx(context, "x").function("axpy")
    assert occupancy.max_blocks_per_sm(function, 256) == 8
    assert occupancy.suggest_block(function) == (1024, 264)
    assert occupancy.suggest_block(function, max_threads=256)[0] == 256
    assert occupancy.available_shared_nbytes(function, 2, 128) == 114 << 10
    assert occupancy.max_cluster_size(function, 128) == 8
    assert occupancy.max_clusters(function, (4, 1, 1), 128) == 33
