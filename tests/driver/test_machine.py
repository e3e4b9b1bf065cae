"""Topology, device pools, debugging, and drivers of other versions."""

import ctypes
import gc
import threading

import pytest

from oxinp._driver import api, debug, device_pool, driver, errors, peer, topology
from oxinp._driver.context import Context
from oxinp._driver.device import Device
from oxinp._driver.event import Event
from oxinp._driver.launch import Launcher
from oxinp._driver.memory import DeviceMemory, PinnedMemory
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream
from tests.driver.fake_library import FakeLibrary, open_context


def open_devices(count):
    library = FakeLibrary(num_devices=count)
    started = driver.start(library)
    return [Context(Device(ordinal, started)) for ordinal in range(count)], library


# Topology


def test_bus_place(tmp_path):
    (context,), _ = open_devices(1)
    folder = tmp_path / "bus" / "pci" / "devices" / "0000:1b:00.0"
    folder.mkdir(parents=True)
    texts = {
        "numa_node": "1\n",
        "current_link_speed": "32.0 GT/s PCIe\n",
        "current_link_width": "16\n",
        "local_cpulist": "0-3,8\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    place = topology.bus_place(context.device, tmp_path)
    assert place == topology.BusPlace("0000:1b:00.0", 1, 32.0, 16, (0, 1, 2, 3, 8))
    assert topology.nearest_processors(context.device, tmp_path) == (0, 1, 2, 3, 8)


def test_a_machine_that_does_not_say(tmp_path):
    (context,), _ = open_devices(1)
    assert topology.bus_place(context.device, tmp_path) == topology.BusPlace("0000:1b:00.0", None, None, None, ())


class FakeManagement:
    """NVML of a machine where every device has four links to a switch, and the first two one to each other."""

    def nvmlDeviceGetHandleByPciBusId_v2(self, address, handle):
        handle._obj.value = int(address[5:7], 16)
        return 0

    def nvmlDeviceGetNvLinkState(self, handle, number, is_active):  # noqa: ARG002
        is_active._obj.value = number < 5
        return 0 if number < 6 else 2

    def nvmlDeviceGetNvLinkRemotePciInfo_v2(self, handle, number, info):
        partner = {0x1B: 0x1C, 0x1C: 0x1B}.get(handle.value, 0xF0)
        address = b"00000000:%02X:00.0" % (partner if number == 4 else 0xF0)
        ctypes.memmove(ctypes.addressof(info) + 36, address + b"\0", len(address) + 1)
        return 0


def test_links_are_counted_by_the_management_library():
    contexts, _ = open_devices(3)
    found = topology.links([context.device for context in contexts], FakeManagement())
    counts = {(link.first, link.second): link.num_nvlinks for link in found}
    assert counts == {(0, 1): 5, (1, 0): 5, (0, 2): 4, (2, 0): 5, (1, 2): 4, (2, 1): 5}
    assert {link.kind for link in found} == {"nvlink"}


def test_links_without_a_management_library(monkeypatch):
    contexts, fake = open_devices(2)
    devices = [context.device for context in contexts]
    monkeypatch.setattr(topology, "_open_management", lambda: None)
    assert {(link.kind, link.num_nvlinks) for link in topology.links(devices)} == {("nvlink", None)}
    monkeypatch.setattr(peer, "attribute", lambda *_: 0)
    assert {link.kind for link in topology.links(devices)} == {"pcie"}
    fake.can_access_peers = False
    assert {link.kind for link in topology.links(devices)} == {"host"}


# Device pools


def test_round_robin_takes_turns():
    contexts, _ = open_devices(3)
    pool = device_pool.DevicePool(contexts)
    assert [pool.lease().index for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_least_loaded_gives_the_idle_one():
    contexts, _ = open_devices(2)
    pool = device_pool.DevicePool(contexts, "least_loaded")
    first, second = pool.lease(), pool.lease()
    assert {first.index, second.index} == {0, 1}
    second.close()
    second.close()
    assert pool.loads == [1, 0]
    assert pool.lease().index == second.index


def test_most_free_asks_each_device():
    contexts, fake = open_devices(2)
    fake.free_nbytes = {contexts[0].handle: 10, contexts[1].handle: 20}
    pool = device_pool.DevicePool(contexts, "most_free")
    assert pool.lease().index == 1
    fake.free_nbytes[contexts[0].handle] = 30
    assert pool.lease().index == 0


def test_a_lease_makes_its_device_current_and_ends_with_the_block():
    contexts, _ = open_devices(2)
    pool = device_pool.DevicePool(contexts)
    contexts[1].make_current()

    def work():
        with pool.lease() as context:
            assert context.is_current()
            assert pool.loads == [1, 0]
            raise KeyError("inside")

    with pytest.raises(KeyError):
        work()
    assert pool.loads == [0, 0]
    assert contexts[1].is_current()


def test_a_lease_that_cannot_begin_is_given_back():
    contexts, fake = open_devices(2)
    pool = device_pool.DevicePool(contexts)
    fake.results["cuCtxPushCurrent_v2"] = 400
    with pytest.raises(errors.InvalidHandle), pool.lease():
        pytest.fail("the context cannot be pushed")
    assert pool.loads == [0, 0]


def test_many_threads_lease():
    contexts, _ = open_devices(2)
    pool = device_pool.DevicePool(contexts, "least_loaded")

    def work():
        for _ in range(50):
            with pool.lease() as context:
                context.synchronize()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.loads == [0, 0]


def test_pools_that_are_none():
    contexts, _ = open_devices(1)
    with pytest.raises(errors.InvalidValue, match="policy='random'"):
        device_pool.DevicePool(contexts, "random")
    with pytest.raises(errors.InvalidValue, match="contexts is empty"):
        device_pool.DevicePool([])


# Contexts


def test_a_context_is_current_inside_with():
    (first, second), _ = open_devices(2)
    assert second.is_current()
    with first, second, first:
        assert first.is_current()
    assert second.is_current()
    assert not first.is_closed


def test_every_call_is_made_in_the_context_of_its_object():
    (first, second), fake = open_devices(2)
    assert second.is_current()
    stream, memory = Stream(first), DeviceMemory(first)
    memory.free(memory.allocate(64))
    first.synchronize()
    for name in ("cuStreamCreateWithPriority", "cuMemAlloc_v2", "cuMemFree_v2", "cuCtxSynchronize"):
        assert fake.made_in[name] == first.handle
        assert second.is_current()
    Event(second).record(Stream(second).handle)
    assert fake.made_in["cuEventRecord"] == second.handle
    fake.results["cuMemAlloc_v2"] = 2
    with pytest.raises(MemoryError):
        memory.allocate(64)
    assert second.is_current()  # also after a failure
    with pytest.raises(ctypes.ArgumentError):
        memory.free("no address")
    assert second.is_current()
    del stream


def test_with_one_device_nothing_is_asked_before_a_call():
    context, fake = open_context()
    fake.calls.clear()
    Event(context).close()
    assert fake.names() == ["cuEventCreate", "cuEventDestroy_v2"]


def test_a_launch_goes_to_its_own_device():
    (first, _), fake = open_devices(2)
    function = Module.from_ptx(first, "x").function("axpy")
    launch = Launcher(function, (1, 1, 1), (32, 1, 1), 0, "<Q", 1, ()).launch
    fake.results["cuLaunchKernelEx"] = [400, 0]  # what the driver says of another device's function
    launch(1)
    assert fake.made_in["cuLaunchKernelEx"] == first.handle


def test_limits_and_priorities():
    (context,), fake = open_devices(1)
    assert context.limit("heap_nbytes") == 1002
    context.set_limit("stack_nbytes", 4096)
    assert fake.arguments("cuCtxSetLimit") == (0, 4096)
    assert context.stream_priorities() == (0, -5)


def test_objects_of_a_closed_context_say_so():
    context, fake = open_context()
    stream, module = Stream(context), Module.from_ptx(context, "x")
    context.close()
    fake.calls.clear()
    for call in (stream.synchronize, stream.record, lambda: module.function("k"), context.synchronize):
        with pytest.raises(errors.InvalidHandle, match="closed"):
            call()
    assert not fake.calls


def test_a_module_that_is_closed_lives_on_for_its_functions():
    context, fake = open_context()
    module = Module.from_ptx(context, "x")
    function = module.function("axpy")
    module.close()
    assert function.attribute("num_registers") == 40
    with pytest.raises(errors.InvalidHandle, match="this Module is closed"):
        module.function("axpy")
    assert "cuModuleUnload" not in fake.names()
    del function, module
    gc.collect()
    assert fake.count()["cuModuleUnload"] == 1


def test_names_and_variables_of_a_module():
    context, _ = open_context()
    module = Module.from_ptx(context, "x")
    assert module.names() == ["kernel1", "kernel2"]
    assert module.variable("table") == (0x5000, 64)


# Debugging


def test_leaks_are_reported_by_kind_line_and_size():
    context, _ = open_context()
    before = Event(context)
    with debug.LeakDetector() as detector:
        kept = [Event(context) for _ in range(3)]
        pinned = PinnedMemory(context, 64)
        Event(context).close()
        Event(context)
    del before
    gc.collect()
    events, memory = detector.leaks()
    assert (events.kind, events.count, events.nbytes) == ("Event", 3, 0)
    assert (memory.kind, memory.count, memory.nbytes) == ("PinnedMemory", 1, 64)
    assert "test_machine.py:" in events.line
    assert "64 bytes from " in str(memory)
    del kept[1:]
    pinned.close()
    gc.collect()
    assert [(leak.kind, leak.count) for leak in detector.leaks()] == [("Event", 1)]


def test_nothing_is_watched_outside_the_block():
    context, _ = open_context()
    with debug.LeakDetector() as detector:
        pass
    kept = Event(context)
    assert detector.leaks() == []
    del kept


def test_a_traced_library_notes_every_call():
    fake = FakeLibrary()
    traced = debug.TracedLibrary(fake)
    context = Context(Device(0, driver.start(traced)))
    with traced.counting() as counts:
        Event(context).close()
        Event(context).close()
    assert counts == {"cuEventCreate": 2, "cuEventDestroy_v2": 2}
    assert [call.name for call in traced.calls] == fake.names()
    assert all(call.result == 0 and call.seconds >= 0 for call in traced.calls)
    assert fake.is_watching_fork


def test_snapshot_says_what_there_is():
    context, fake = open_context()
    text = debug.snapshot(context)
    for part in ("Fake GPU", "compute capability 9.0", "free of", "num_sms: 132", "nothing"):
        assert part in text
    fake.results["cuCtxSynchronize"] = 700
    with pytest.raises(errors.DeviceFault):
        context.synchronize()
    assert "lost: cuCtxSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS" in debug.snapshot(context)


# Drivers of other versions

DRIVERS = {525: 12000, 535: 12020, 550: 12040, 560: 12060, 580: 13000}


@pytest.mark.parametrize("version", DRIVERS.values(), ids=DRIVERS)
def test_a_driver_lacks_what_came_after_it_and_only_calls_of_that_fail(version):
    newer = {row.name for row in api.FUNCTIONS.values() if row.since > version}
    started = driver.start(FakeLibrary(version=version, missing=newer))
    context = Context(Device(0, started))
    for name, row in api.FUNCTIONS.items():
        if name in newer:
            wanted = f"{name} needs a driver for CUDA {row.since // 1000}\\.{row.since % 1000 // 10} or newer"
            with pytest.raises(errors.DriverTooOld, match=wanted):
                getattr(context.driver, name)
        else:
            assert callable(getattr(context.driver, name))
    context.synchronize()


def test_every_driver_has_what_arrays_need():
    """Functions that came after the oldest driver are optional extras, by name."""
    late = {row.name for row in api.FUNCTIONS.values() if row.since > api.MINIMUM_VERSION}
    assert not {name for name in late if name.startswith(("cuMemAlloc", "cuMemFree", "cuMemcpyH", "cuMemcpyD"))}
    assert not {name for name in late if name.startswith(("cuLaunchKernel", "cuEvent", "cuModuleLoad", "cuLink"))}
