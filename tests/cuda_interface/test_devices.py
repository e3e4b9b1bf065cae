"""Devices, graphs, streams and memory of `oxinp.cuda`, over a driver without a GPU."""

import gc
import math
import threading

import numpy as np
import pytest

import oxinp
from _driver import driver
from oxinp import _runtime, cuda
from oxinp._runtime import here, hooks, select
from oxinp.cuda import current
from tests.driver.fake_library import FakeLibrary

MIB = 1 << 20


def evaluated(x):
    oxinp.evaluate(x)
    return x


@pytest.fixture
def library(monkeypatch, config, one_stream):  # noqa: ARG001
    """A driver of two devices behind the backend in use; nothing it launches computes anything."""
    library = FakeLibrary(num_devices=2, results={"cuPointerGetAttribute": 1})
    monkeypatch.setattr(driver, "_loaded", driver.start(library))
    monkeypatch.setattr(select, "_opened", {})
    monkeypatch.setattr(select, "_failures", {})
    monkeypatch.setattr(select, "_decided", (-1, None))
    monkeypatch.setattr(hooks, "before_synchronize", list(hooks.before_synchronize))
    config.backend = "cuda"
    config.cache_dir = ""
    return library


# Devices


def test_a_device_is_current_inside_with(library):
    first = _runtime.current()
    assert cuda.current_device() == cuda.Device(0)
    with cuda.Device(1) as device:
        second = _runtime.current()
        assert second is not first
        assert second.device.ordinal == device.ordinal == 1
        assert cuda.current_device() == device
        with cuda.Device(0):
            assert _runtime.current() is first
        assert _runtime.current() is second
    assert _runtime.current() is first
    with cuda.Device(1):
        assert _runtime.current() is second  # it is not opened twice
    assert library.count()["cuDevicePrimaryCtxRetain"] == 2


def test_a_device_waits_for_another_where_it_reads_its_memory(library, config):
    config.offload_threshold = 0
    first = _runtime.current()
    with cuda.Device(1):
        second = _runtime.current()
        y = evaluated(oxinp.ones(1000) + 1)
    x = evaluated(oxinp.zeros(1000) + 1)
    library.calls.clear()
    with cuda.Device(1):
        evaluated(y + 2)
        assert not library.peers
        assert "cuStreamWaitEvent" not in library.names()
        evaluated(x + y)
        event, _ = library.arguments("cuEventRecord")
        assert library.made_in["cuEventRecord"] == first.context.handle
        assert library.arguments("cuStreamWaitEvent")[1] == event
        assert library.made_in["cuStreamWaitEvent"] == second.context.handle
        assert len(library.peers) == 1


@pytest.mark.usefixtures("library")
def test_threads_have_devices_of_their_own():
    seen = []
    with cuda.Device(1):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
        thread.start()
        thread.join()
        assert cuda.current_device() == cuda.Device(1)
    assert seen == [cuda.Device(0)]


@pytest.mark.usefixtures("library")
def test_others_are_told_the_device_of_the_array(config):
    config.offload_threshold = 0
    x = evaluated(oxinp.ones(1000) + 1)
    with cuda.Device(1):
        y = evaluated(oxinp.ones(1000) + 1)
        pending = oxinp.ones(1000) + 2
        assert (x.__dlpack_device__(), y.__dlpack_device__()) == ((2, 0), (2, 1))
    assert (x.__dlpack_device__(), y.__dlpack_device__()) == ((2, 0), (2, 1))
    assert pending.__dlpack_device__() == (2, 1)
    assert y.__cuda_array_interface__["shape"] == (1000,)


def test_synchronize_waits_for_all_devices(library):
    with cuda.Device(1):
        _runtime.current()
    library.calls.clear()
    cuda.synchronize()
    assert library.count()["cuCtxSynchronize"] == 2


def test_kernels_are_kept_for_each_device(library, config):
    config.offload_threshold = 0
    for turn in range(3):
        for ordinal in range(2):
            with cuda.Device(ordinal):
                evaluated(oxinp.ones(1000) * turn)
    assert len(library.launches) == 6
    assert library.count()["cuModuleGetFunction"] == 2


def test_work_goes_to_the_device_that_is_current(library, config):
    config.offload_threshold = 0
    with cuda.Device(1):
        x = oxinp.ones(1000) + 1
        oxinp.evaluate(x)
        assert library.made_in["cuModuleGetFunction"] == _runtime.current().context.handle
        used = _runtime.current().pool.used_nbytes
        assert used >= 8000
    assert _runtime.current().pool.used_nbytes == 0
    before = len(library.launches)
    oxinp.evaluate(x + 1)  # memory of the one, used by the other
    assert len(library.launches) == before + 1


def test_an_exception_inside_gives_the_device_back(library):
    first = _runtime.current()
    with pytest.raises(KeyError), cuda.Device(1):
        raise KeyError("inside")
    assert _runtime.current() is first
    with pytest.raises(cuda.DeviceNotFound, match="no device 999"):
        cuda.Device(999)
    assert library.num_devices == 2


def test_devices_that_cannot_meet(library, config):
    config.offload_threshold = 0
    library.can_access_peers = False
    x = evaluated(oxinp.ones(1000) + 1)
    with cuda.Device(1):
        evaluated(oxinp.ones(1000) + 1)
        y = x + 3
        with pytest.raises(cuda.PeerError, match="make the array's device current"):
            oxinp.evaluate(y)
        np.asarray(x)  # by way of the host there is one
        del y
    evaluated(x + 1)


@pytest.mark.usefixtures("library")
def test_properties_of_devices():
    first, second = cuda.list_devices()
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert first.name == "Fake GPU"
    assert first.compute_capability == (9, 0)
    assert first.total_nbytes == 140 << 30
    assert first.pci_address == "0000:1b:00.0"
    assert first.uuid.startswith("GPU-")
    assert first.attributes()["num_sms"] == 132
    assert second.memory_info() == (100 << 30, 140 << 30)
    assert cuda.best_device() in {first, second}
    assert repr(second) == "<Device 1: Fake GPU>"
    assert len({first, second, cuda.Device(1)}) == 2


@pytest.mark.usefixtures("library")
def test_a_pool_leases_devices_in_turn():
    pool = cuda.DevicePool()
    seen = []
    for _ in range(3):
        with pool.lease() as device:
            assert cuda.current_device() == device
            seen.append(device.ordinal)
    assert seen == [0, 1, 0]
    with cuda.DevicePool(policy="least_loaded").lease() as device:
        assert device.ordinal == 0
    other = cuda.DevicePool(cuda.list_devices()[1:], "least_loaded")
    with other.lease() as device:
        assert (device.ordinal, other.loads) == (1, (1,))
    with pytest.raises(KeyError), other.lease():
        raise KeyError("inside")
    assert other.loads == (0,)
    assert cuda.current_device() == cuda.Device(0)
    with pytest.raises(cuda.InvalidValue, match="policy='best'"):
        cuda.DevicePool(policy="best")
    with pytest.raises(cuda.InvalidValue, match="devices is empty"):
        cuda.DevicePool([])


def test_links_and_places(library):
    first, second = cuda.list_devices()
    assert first.can_reach(first)
    assert first.can_reach(second)
    library.can_access_peers = False
    assert not first.can_reach(second)
    assert first.bus_place().pci_address == "0000:1b:00.0"
    assert {(link.first, link.second) for link in cuda.links()} >= {(0, 1)}


def test_without_a_gpu(config):
    config.backend = "host"
    assert cuda.current_device() is None
    assert "no GPU in use" in cuda.debug.snapshot()


# Streams and events


def test_streams_wait_copy_call_and_close(library):
    stream, called = cuda.Stream(), []
    event = cuda.Event().record()
    stream.wait(event)
    assert library.arguments("cuStreamWaitEvent")[0] == stream.handle
    pinned = cuda.pinned_array(np.arange(4.0))
    x = oxinp.empty(4)
    stream.copy(x, pinned)
    assert library.arguments("cuMemcpyHtoDAsync_v2")[2:] == (32, stream.handle)
    back = cuda.pinned_empty(4)
    stream.copy(back, x)
    assert back.tolist() == [0.0, 1.0, 2.0, 3.0]
    stream.call(lambda: called.append(1))
    assert called == [1]
    with pytest.raises(ValueError, match="one size"):
        stream.copy(x, np.empty(5))
    with pytest.raises(ValueError, match="at least one array on the device"):
        stream.copy(back, pinned)
    handle = stream.handle
    stream.close()
    stream.close()
    assert library.arguments("cuStreamDestroy_v2") == (handle,)
    with pytest.raises(cuda.InvalidHandle, match="this Stream is closed"):
        _ = stream.handle
    with pytest.raises(cuda.InvalidHandle), stream:
        pytest.fail("a closed stream cannot be entered")


@pytest.mark.usefixtures("library")
def test_a_stream_that_is_current_cannot_be_closed():
    stream = cuda.Stream()
    with stream, pytest.raises(RuntimeError, match="leave its"):
        stream.close()
    stream.close()


@pytest.mark.usefixtures("library")
def test_the_memory_of_a_stream_that_is_gone_serves_the_next():
    stream = cuda.Stream()
    with stream:
        ptr = _runtime.current().allocate(4096).ptr
    del stream
    gc.collect()
    with cuda.Stream():
        assert _runtime.current().allocate(4096).ptr == ptr


def test_copies_without_a_gpu(config):
    config.backend = "host"
    x = oxinp.zeros(3)
    with cuda.Stream() as stream:
        stream.copy(x, np.arange(3.0))
        stream.call(lambda: None)
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert cuda.pinned_empty((2, 3), "i4").shape == (2, 3)


# Memory


@pytest.mark.usefixtures("library")
def test_memory_limit_and_peak():
    backend = _runtime.current()
    cuda.limit_memory(2 * MIB)
    assert cuda.memory_stats().limit_nbytes == 2 * MIB
    with pytest.raises(MemoryError, match="pool may hold"):
        backend.allocate(4 * MIB)
    cuda.limit_memory(None)
    del_me = backend.allocate(4 * MIB)
    del del_me
    assert cuda.memory_stats().peak_nbytes == 4 * MIB
    cuda.reset_peak()
    assert cuda.memory_stats().peak_nbytes == 0
    with pytest.raises(ValueError, match="nbytes=-1"):
        cuda.limit_memory(-1)


@pytest.mark.usefixtures("library")
def test_leaked_memory_is_seen_with_its_line(config):
    config.offload_threshold = 0
    with cuda.debug.MemoryLeakDetector() as detector:
        kept = evaluated(oxinp.ones(1000) + 1)
        evaluated(oxinp.ones(1000) + 2)
    (leak,) = detector.leaks()
    assert (leak.count, leak.nbytes) == (1, 8000)
    assert "test_devices.py:" in leak.line
    del kept
    assert detector.leaks() == []
    assert "pool:" in cuda.debug.snapshot()


def test_launches_are_traced(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros(1000) + 1)
    with cuda.debug.LaunchTrace() as trace:
        evaluated(x * 3)
        with pytest.raises(RuntimeError, match="end it first"), cuda.debug.LaunchTrace():
            pytest.fail("two at once")
        with cuda.Stream() as stream:
            evaluated(x * 4)
            handle = stream.handle
    evaluated(x * 5)
    assert len(trace.launches) == 2
    assert [launch.stream for launch in trace.launches] == [0, handle]
    assert trace.launches[0].grid == library.launches[-3].grid
    assert all("test_devices.py:" in launch.line for launch in trace.launches)


# Graphs


def test_a_graph_is_captured_and_launched(library, config, stats):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros(1000) + 1)
    backend = _runtime.current()
    launches = stats().launches
    with cuda.Graph.capture(x) as graph:
        assert backend.stream in library.capturing
        for _ in range(3):
            x += 1
            oxinp.evaluate(x)
    assert backend.stream == 0
    assert not library.capturing
    assert graph.num_kernels == 3
    (nodes,) = library.graphs.values()
    ptr = current.address_of(x).ptr  # where it was: every launch goes on from the last
    assert {int.from_bytes(node.params.params[:8], "little") for node in nodes.values()} == {ptr}
    assert stats().launches == launches  # what is captured has not run
    graph.launch()
    graph.launch()
    assert [stream for _, stream in library.graph_launches] == [0, 0]
    assert library.count()["cuGraphInstantiateWithFlags"] == 1
    assert stats().launches == launches + 6
    graph.close()
    graph.close()
    assert not library.executables
    with pytest.raises(cuda.InvalidHandle, match="this Graph is closed"):
        graph.launch()


@pytest.mark.usefixtures("library")
def test_the_memory_of_a_graph_is_its_own_until_it_is_closed(config):
    config.offload_threshold = 0
    backend = _runtime.current()
    x = evaluated(oxinp.zeros(1000) + 1)
    with cuda.Graph.capture(x) as graph:
        oxinp.evaluate(x * 2)
    cuda.trim()
    assert backend.pool.stats().cached_nbytes > 0
    graph.close()
    cuda.trim()
    assert backend.pool.stats().cached_nbytes == 0


def test_what_cannot_be_captured(library, config):
    config.offload_threshold = 0
    backend = _runtime.current()
    x = evaluated(oxinp.zeros(1000) + 1)
    with pytest.raises(cuda.CaptureError, match="can neither read"), cuda.Graph.capture(x):
        float(x[0])
    with pytest.raises(cuda.CaptureError, match="nothing was captured"), cuda.Graph.capture(x):
        math.sqrt(2)
    with pytest.raises(KeyError), cuda.Graph.capture(x):
        raise KeyError("inside")
    assert backend.stream == 0
    assert not library.capturing
    assert float(x[0]) is not None  # reading works again
    config.backend = "emulator"
    with pytest.raises(cuda.NotSupported, match="graphs need a GPU"), cuda.Graph.capture():
        pytest.fail("there is no GPU")


def test_a_graph_captured_anew_keeps_its_executable_form_where_it_can(library, config):
    config.offload_threshold = 0
    x, y = evaluated(oxinp.zeros(1000) + 1), evaluated(oxinp.zeros(1000) + 2)
    with cuda.Graph.capture(x) as graph:
        x += 1
    graph.launch()
    with graph.recapture(y):
        y += 1
    graph.launch()
    assert library.count()["cuGraphInstantiateWithFlags"] == 1
    assert library.count()["cuGraphExecUpdate_v2"] == 1
    (nodes,) = library.executables.values()
    (node,) = nodes.values()
    assert int.from_bytes(node.params.params[:8], "little") == current.address_of(y).ptr
    library.results["cuGraphExecUpdate_v2"] = 910
    with graph.recapture(x):
        x += 1
        y += 1
    assert graph.num_kernels == 2
    graph.launch()
    assert library.count()["cuGraphInstantiateWithFlags"] == 2
    graph.close()
    gc.collect()
    assert not library.executables
    assert not library.graphs


# Threads


def test_each_thread_has_its_stream(library, config):
    config.offload_threshold = 0
    backend = _runtime.current()
    x = evaluated(oxinp.zeros(1000) + 1)
    seen, failures = {}, []
    entered, leave = threading.Event(), threading.Event()

    def work():
        try:
            assert backend.stream == 0
            with cuda.Stream() as stream:
                before = len(library.launches)
                seen["made"] = evaluated(x + 1)
                seen["inner"] = stream.handle, backend.stream, library.launches[before].stream
                entered.set()
                assert leave.wait(30)
                evaluated(x + 2)
                seen["again"] = stream.handle, library.launches[-1].stream
            assert backend.stream == 0
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)
            entered.set()

    with cuda.Stream() as outer:
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(30)
        assert not failures
        assert backend.stream == outer.handle
        library.calls.clear()
        evaluated(x + 3)  # what both read keeps nobody waiting
        assert library.launches[-1].stream == backend.stream == outer.handle
        assert "cuEventRecord" not in library.names()
        evaluated(seen["made"] + 4)
        assert library.arguments("cuEventRecord")[1] == seen["inner"][0]
        assert library.arguments("cuStreamWaitEvent")[0] == outer.handle
        leave.set()
        thread.join()
    assert not failures
    assert len(set(seen["inner"])) == len(set(seen["again"])) == 1
    assert backend.stream == 0


def test_what_is_pending_runs_where_it_was_recorded(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros(1000) + 1)
    recorded, launched = threading.Event(), threading.Event()
    handles = []

    def work():
        with cuda.Stream() as stream:
            pending = x + 1
            handles.append(stream.handle)
            recorded.set()
            assert launched.wait(30)
            del pending

    thread = threading.Thread(target=work)
    thread.start()
    assert recorded.wait(30)
    before = len(library.launches)
    cuda.synchronize()  # by this thread, whose stream is another one
    launched.set()
    thread.join()
    assert [launch.stream for launch in library.launches[before:]] == handles


def test_memory_of_threads_is_taken_by_their_streams(library, config):
    config.offload_threshold = 0
    backend, ptrs = _runtime.current(), []
    with cuda.Stream():
        ptrs.append(backend.allocate(4096).ptr)

        def work():
            with cuda.Stream():
                ptrs.append(_runtime.current().allocate(4096).ptr)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        ptrs.append(backend.allocate(4096).ptr)
    assert ptrs[0] == ptrs[2] != ptrs[1]
    assert "cuMemFree_v2" not in library.names()


def test_a_program_without_streams_pays_nothing(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros(1000) + 1)
    with cuda.Device(0):
        evaluated(x + 1)
        assert np.asarray(x) is not None
    cuda.synchronize()
    assert not here.are_several
    assert not {"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"} & set(library.names())
