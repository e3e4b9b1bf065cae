"""Graphs of `oxinp.cuda`, over a driver without a GPU."""

import gc
import math
import threading
import weakref

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp.cuda import current
from tests.cuda_interface.evaluated import evaluated
from tests.patience import PATIENCE

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


def test_branches_of_a_captured_stream_are_branches_of_the_graph(library, config):
    config.offload_threshold = 0
    x, y = (evaluated(oxinp.zeros(1000) + value) for value in (1, 2))
    backend = _runtime.current()
    with cuda.Graph.capture(x, y) as graph:
        oxinp.evaluate(x + 1)
        backend.beside(lambda: oxinp.evaluate(y + 2), lambda: oxinp.evaluate(x + 2))
        oxinp.evaluate(x + 3)
        with pytest.raises(KeyError):  # joined nonetheless
            backend.beside(lambda: oxinp.evaluate(y + 4), {}.popitem)
    assert graph.num_kernels == 5
    (nodes,) = library.graphs.values()
    first, beside, rest, last, late = nodes
    after = [[first, beside, rest, last, late].index(x) for node in nodes.values() for x in sorted(node.after)]
    assert after == [0, 0, 1, 2, 1, 3]  # a branch goes on from where it was, too
    backend.beside(lambda: oxinp.evaluate(y + 5), lambda: oxinp.evaluate(x + 5))  # streams are what they were
    assert not library.ends
    graph.close()


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


def test_a_graph_that_goes_while_another_is_captured_is_closed_afterwards(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros(1000) + 1)
    for _ in range(2):  # the first one goes where the name gets the second one
        with cuda.Graph.capture(x) as graph:
            x += 1
    names = [call[0] for call in library.calls]
    begun = max(i for i, name in enumerate(names) if name.startswith("cuStreamBeginCapture"))
    ended = begun + names[begun:].index("cuStreamEndCapture")
    assert "cuCtxSynchronize" not in names[begun:ended]
    assert "cuCtxSynchronize" in names[ended:]
    assert graph.num_kernels == 1


class Foreign:
    """Device memory of another library's."""

    def __init__(self):
        self.memory = np.zeros(2000)  # what the driver here takes for device memory
        address = self.memory.ctypes.data
        self.__cuda_array_interface__ = {
            "shape": (1000,),
            "typestr": "<f8",
            "data": (-(-address // 256) * 256, False),
            "version": 3,
        }


@pytest.fixture
def adopt(library, config):
    """Return a function that returns an array over memory of others, and a weak reference to whose it is."""
    config.offload_threshold = 0
    library.results["cuPointerGetAttribute"] = 0

    def adopt():
        foreign = Foreign()
        return oxinp.asarray(foreign), weakref.ref(foreign)

    return adopt


def test_memory_of_others_that_goes_during_a_capture_is_given_back_afterwards(library, adopt):
    y, owner = adopt()
    x = evaluated(oxinp.zeros(1000) + 1)
    with cuda.Graph.capture(x):
        x += 1
        oxinp.evaluate(x)
        library.calls.clear()
        del y
        gc.collect()
        assert "cuStreamSynchronize" not in library.names()  # which would end the capture
        assert owner() is not None  # a launch before the capture may still use it
    assert "cuStreamSynchronize" in library.names()
    assert owner() is None


def test_memory_of_others_is_given_back_when_work_that_uses_it_is_done(library, adopt):
    y, owner = adopt()
    done = []
    weakref.finalize(owner(), lambda: done.append(library.names()))
    library.calls.clear()
    del y
    gc.collect()
    assert "cuStreamSynchronize" in done[0]


def test_memory_of_others_goes_in_a_thread_that_never_used_the_device(library, adopt):
    arrays = [adopt()[0]]
    library.calls.clear()
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join(PATIENCE)
    assert library.made_in["cuStreamSynchronize"], "no context was current, so nothing was waited for"


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "during a capture"])
def test_no_lock_is_asked_for_by_a_finaliser(adopt, inside):
    arrays = [adopt()[0]]
    x = evaluated(oxinp.zeros(1000) + 1)
    with cuda.Graph.capture(x) as graph:
        x += 1
    made = [graph]
    del graph

    def let_go():
        arrays.clear()
        made.clear()
        gc.collect()

    def check():
        thread = threading.Thread(target=let_go, daemon=True)
        with _runtime.current().turn:  # as a thread has that is about to queue something
            thread.start()
            thread.join(PATIENCE)
            assert not thread.is_alive()

    if inside:
        with cuda.Graph.capture(x):
            x += 1
            check()
    else:
        check()


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
