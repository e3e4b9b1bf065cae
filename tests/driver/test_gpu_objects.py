"""Graphs, memories, launches and pairs of devices on real GPUs."""

import ctypes
import gc
import threading
import time

import pytest

from _driver import debug, errors, occupancy, peer, topology
from _driver.callback import _functions
from _driver.context import Context
from _driver.copy import Place, copy_2d, copy_3d, copy_peer, copy_peer_3d
from _driver.device import ATTRIBUTES, Device, best_device, list_devices
from _driver.device_pool import DevicePool
from _driver.event import Event
from _driver.graph import Graph, capture, is_capturing
from _driver.launch import Launcher
from _driver.managed import HOST, ManagedMemory
from _driver.memory import DeviceMemory, PinnedMemory, RegisteredMemory
from _driver.module import Module
from _driver.stream import Stream
from _driver.stream_pool import StreamPool
from _driver.virtual import AddressRange, PhysicalMemory, granularity
from tests.driver.ptx_samples import PTX, load, make_launcher

pytestmark = pytest.mark.gpu

MIB = 1 << 20


@pytest.fixture(scope="module")
def context():
    return Context(Device(0))


@pytest.fixture(scope="module")
def memory(context):
    return DeviceMemory(context)


@pytest.fixture
def counter(memory):
    ptr = memory.allocate(64)
    memory.fill32_async(ptr, 0, 16, 0)
    yield ptr
    memory.free(ptr)


def read(memory, ptr, count=1):
    host = (ctypes.c_uint32 * count)()
    memory.download(ctypes.addressof(host), ptr, ctypes.sizeof(host))
    return list(host)


# Devices


def test_attributes_and_the_best_device(context):
    found = context.device.attributes()
    assert len(found) >= len(ATTRIBUTES) - 3
    assert found["warp_size"] == 32
    assert found["max_threads_per_block"] == 1024
    assert best_device() in list_devices()
    assert "bytes free of" in debug.snapshot(context)


def test_limits_and_context_blocks(context):
    before = context.limit("heap_nbytes")
    context.set_limit("heap_nbytes", before)
    assert context.limit("heap_nbytes") >= before
    with context:
        assert context.is_current()


def test_bus_place_and_links():
    devices = list_devices()
    place = topology.bus_place(devices[0])
    assert len(place.pci_address) == 12
    found = topology.links(devices)
    assert len(found) == len(devices) * (len(devices) - 1)


# Graphs


def test_explicit_nodes_run_in_order(context, memory, counter):
    graph, called = Graph(context), []
    pinned = PinnedMemory(context, 64)
    filled = graph.add_fill(counter, 3, 1, value_nbytes=4)
    added = graph.add_kernel(make_launcher(context, "add", (2, 1, 1), (32, 1, 1)), counter, 10, after=[filled])
    copied = graph.add_copy(Place(pinned.ptr, is_host=True), Place(counter), 4, after=[added])
    graph.add_host(lambda: called.append(pinned.view()[0]), after=[copied])
    assert [node.kind for node in (filled, added, copied)] == ["memset", "kernel", "memcpy"]
    assert graph.roots() == [filled]
    assert set(graph.edges()) >= {(filled, added), (added, copied)}
    stream, executable = Stream(context), graph.instantiate()
    executable.upload(stream.handle)
    for _ in range(3):
        executable.launch(stream.handle)
    stream.synchronize()
    assert read(memory, counter) == [3 + 640]
    assert called == [(3 + 640) % 256] * 3


def test_a_captured_stream_is_replayed_updated_and_drawn(context, memory, counter, tmp_path):
    stream = Stream(context)
    launch = make_launcher(context, "add", stream=stream.handle).launch
    with capture(stream) as graph:
        assert is_capturing(stream)
        for _ in range(5):
            launch(counter, 2)
    assert read(memory, counter) == [0]
    assert len(graph.nodes()) == 5
    executable = graph.instantiate()
    executable.launch(stream.handle)
    stream.synchronize()
    assert read(memory, counter) == [10]
    with capture(stream) as changed:
        for _ in range(5):
            launch(counter, 100)
    executable.update(changed)
    executable.launch(stream.handle)
    stream.synchronize()
    assert read(memory, counter) == [510]
    with capture(stream) as longer:
        launch(counter, 1)
    with pytest.raises(errors.CaptureError, match="topology changed"):
        executable.update(longer)
    graph.write_dot(tmp_path / "graph.dot", is_verbose=True)
    assert "digraph" in (tmp_path / "graph.dot").read_text()


def test_parameters_of_an_executable(context, memory, counter):
    launcher, graph = make_launcher(context, "add"), Graph(context)
    node = graph.add_kernel(launcher, counter, 1)
    executable = graph.instantiate()
    executable.launch()
    executable.set_kernel(node, launcher, counter, 1000)
    executable.launch()
    assert read(memory, counter) == [1001]


def test_what_cannot_be_captured_raises_and_leaves_the_stream_usable(context, memory, counter):
    stream = Stream(context)
    with pytest.raises(errors.CaptureError), capture(stream):
        stream.synchronize()
    assert not is_capturing(stream)
    make_launcher(context, "add", stream=stream.handle).launch(counter, 1)
    stream.synchronize()
    assert read(memory, counter) == [1]


def test_an_exception_inside_a_capture(context):
    stream = Stream(context)
    with pytest.raises(KeyError), capture(stream):
        raise KeyError("inside")
    assert not is_capturing(stream)


def test_a_python_function_in_a_stream(context):
    stream, called = Stream(context), threading.Event()
    stream.call(called.set)
    stream.synchronize()
    assert called.is_set()
    assert not _functions


# Launches


def test_a_cooperative_grid_meets_and_one_that_does_not_fit_is_refused(context, memory, counter):
    function = load(context, "meet")
    blocks = occupancy.max_blocks_per_sm(function, 64) * context.device.num_sms
    fits = Launcher(function, (blocks, 1, 1), (1, 1, 1), 0, "<QI", 2, (), is_cooperative=True)
    assert blocks > 0
    fits.launch(counter, blocks)
    context.synchronize()
    assert read(memory, counter, 2) == [blocks, blocks]
    most = occupancy.max_blocks_per_sm(function, 1024) * context.device.num_sms
    with pytest.raises(errors.LaunchError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        Launcher(function, (most + 1, 1, 1), (1024, 1, 1), 0, "<QI", 2, (), is_cooperative=True).launch(counter, 1)


@pytest.mark.hopper
def test_a_programmatic_launch_waits_by_itself(context, memory, counter):
    stream = Stream(context)
    memory.fill32_async(counter, 1, 1, stream.handle)
    launch = make_launcher(context, "follow", stream=stream.handle, is_programmatic=True).launch
    for _ in range(20):
        launch(counter)
    stream.synchronize()
    assert read(memory, counter) == [1 << 20]


@pytest.mark.hopper
def test_clusters_fit(context):
    function = load(context, "add")
    assert occupancy.max_cluster_size(function, 128) >= 8
    assert occupancy.max_clusters(function, (2, 1, 1), 128) > 0


def test_occupancy(context):
    function = load(context, "vadd")
    threads, blocks = occupancy.suggest_block(function)
    assert threads % 32 == 0
    assert blocks >= context.device.num_sms
    assert occupancy.max_blocks_per_sm(function, 1024) == 2
    assert occupancy.available_shared_nbytes(function, 2, 128) > 40 << 10


def test_names_of_a_modules_kernels(context):
    if context.device.driver.version < 12040:
        with pytest.raises(errors.DriverTooOld):
            Module.from_ptx(context, PTX).names()
        return
    assert set(Module.from_ptx(context, PTX).names()) == {"count", "add", "vadd", "spin", "poke", "trap", "meet"}


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
    assert all("test_gpu_objects.py" in leak.line for leak in detector.leaks())
    del kept


# Two devices


@pytest.fixture
def two():
    return Context(Device(0)), Context(Device(1))


@pytest.mark.multi_gpu
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


@pytest.mark.multi_gpu
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


@pytest.mark.multi_gpu
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


@pytest.mark.multi_gpu
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


@pytest.mark.multi_gpu
def test_links_between_devices_are_named():
    devices = list_devices()
    for link in topology.links(devices):
        assert link.kind in {"nvlink", "pcie", "host"}
        assert peer.can_access(devices[link.first], devices[link.second]) == (link.kind != "host")


@pytest.mark.multi_gpu
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

    start = time.perf_counter()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(used) == {0, 1}
    assert pool.loads == [0, 0]
    assert time.perf_counter() - start < 120
