"""Devices, graphs, launches and what modules hold, on a GPU."""

import threading

import pytest

from oxinp._driver import debug, errors, occupancy, topology
from oxinp._driver.callback import _functions
from oxinp._driver.copy import Place
from oxinp._driver.device import ATTRIBUTES, best_device, list_devices
from oxinp._driver.graph import Graph, capture, is_capturing
from oxinp._driver.launch import Launcher
from oxinp._driver.memory import PinnedMemory
from oxinp._driver.module import Module
from oxinp._driver.stream import Stream
from tests.driver.gpu.figures import read
from tests.driver.ptx_samples import PTX, load, make_launcher

pytestmark = pytest.mark.gpu

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
