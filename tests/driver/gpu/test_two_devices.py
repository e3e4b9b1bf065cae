"""Two GPUs: copies and mappings between them, what links them, and both under stress."""

import ctypes
import threading

import pytest

from oxinp._driver import errors, peer, topology
from oxinp._driver.context import Context
from oxinp._driver.copy import Place, copy_peer, copy_peer_3d
from oxinp._driver.device import Device, list_devices
from oxinp._driver.device_pool import DevicePool
from oxinp._driver.memory import DeviceMemory
from oxinp._driver.stream import Stream
from oxinp._driver.virtual import AddressRange, PhysicalMemory, granularity
from tests.driver.gpu.figures import MIB, read
from tests.driver.ptx_samples import make_launcher

pytestmark = pytest.mark.multi_gpu

# Two devices


@pytest.fixture
def two():
    return Context(Device(0)), Context(Device(1))


def test_calls_go_to_the_device_of_their_object(two):
    memories = [DeviceMemory(context) for context in two]
    ptrs = [memory.allocate(64) for memory in memories]
    for context, memory, ptr in zip(two, memories, ptrs, strict=True):
        ordinal = ctypes.c_int()
        context.driver.cuPointerGetAttribute(ctypes.byref(ordinal), 9, ptr)
        assert ordinal.value == context.device.ordinal
        memory.fill32_async(ptr, 0, 16, 0)
        make_launcher(context, "add").launch(ptr, 5 + ordinal.value)
    for _ in range(3):
        assert [read(memory, ptr)[0] for memory, ptr in zip(memories, ptrs, strict=True)] == [5, 6]
    for memory, ptr in zip(memories, ptrs, strict=True):
        memory.free(ptr)


def test_peer_copies_are_byte_exact(two):
    first, second = two
    a, b = DeviceMemory(first), DeviceMemory(second)
    nbytes = 8 * MIB + 3
    data = bytes(range(256)) * (nbytes // 256) + b"end"
    host = ctypes.create_string_buffer(data, nbytes)
    source, target = a.allocate(nbytes), b.allocate(nbytes)
    a.upload(source, ctypes.addressof(host), nbytes)
    for stream in (None, Stream(second)):
        b.fill8_async(target, 0, nbytes, 0)
        second.synchronize()
        copy_peer(second, target, first, source, nbytes, None if stream is None else stream.handle)
        second.synchronize()
        first.synchronize()
        back = ctypes.create_string_buffer(nbytes)
        b.download(ctypes.addressof(back), target, nbytes)
        assert back.raw == data
    copy_peer_3d(second, Place(target, 16), first, Place(source, 8), (4, 3, 1))
    second.synchronize()
    back = ctypes.create_string_buffer(48)
    b.download(ctypes.addressof(back), target, 48)
    assert [back.raw[16 * row : 16 * row + 4] for row in range(3)] == [data[8 * row : 8 * row + 4] for row in range(3)]
    a.free(source)
    b.free(target)


def test_kernels_use_a_peers_memory_once_they_may(two):
    first, second = two
    if not peer.can_access(first.device, second.device):
        with pytest.raises(errors.PeerError):
            peer.enable(first, second)
        return
    memory = DeviceMemory(second)
    ptr = memory.allocate(64)
    memory.fill32_async(ptr, 0, 16, 0)
    second.synchronize()
    for _ in range(2):
        peer.enable(first, second)
    make_launcher(first, "add").launch(ptr, 3)
    first.synchronize()
    assert read(memory, ptr) == [3]
    peer.disable(first, second)
    peer.disable(first, second)
    memory.free(ptr)


def test_mapped_memory_is_shared(two):
    first, second = two
    if not peer.can_access(second.device, first.device):
        return
    unit = granularity(first)
    reserved = AddressRange(first, unit)
    reserved.map(0, PhysicalMemory(first, unit), [second.device])
    memory = DeviceMemory(first)
    memory.fill32_async(reserved.ptr, 0, 1, 0)
    first.synchronize()
    make_launcher(second, "add").launch(reserved.ptr, 8)
    second.synchronize()
    assert read(memory, reserved.ptr) == [8]


def test_links_between_devices_are_named():
    devices = list_devices()
    for link in topology.links(devices):
        assert link.kind in {"nvlink", "pcie", "host"}
        assert peer.can_access(devices[link.first], devices[link.second]) == (link.kind != "host")


@pytest.mark.parametrize("policy", ["round_robin", "least_loaded"])
def test_two_devices_under_stress(two, policy):
    """8 threads lease devices in turn, and launch, copy and allocate there."""
    pool, failures, used = DevicePool(two, policy), [], []

    def work(number):
        try:
            for turn in range(40):
                lease = pool.lease()
                with lease as context:
                    used.append(lease.index)
                    memory, stream = DeviceMemory(context), Stream(context)
                    ptr = memory.allocate(4096)
                    memory.fill32_async(ptr, number, 1, stream.handle)
                    make_launcher(context, "add", stream=stream.handle).launch(ptr, turn)
                    stream.synchronize()
                    assert read(memory, ptr) == [number + turn]
                    memory.free(ptr)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(used) == {0, 1}
    assert pool.loads == [0, 0]
