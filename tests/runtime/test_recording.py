"""Recorded work over a driver made of Python functions: captured once, launched as one graph in the same place."""

import gc

import pytest

from oxinp._driver import errors
from oxinp._runtime import counters, cuda, here, timeline
from tests.driver.fake_library import FakeLibrary, open_context
from tests.runtime.test_backend import build_scale

INVALID_VALUE = 1
OUT_OF_MEMORY = 2
KERNEL = 0
INVALID_CONFIGURATION, NOT_SUPPORTED = 9, 801


@pytest.fixture
def library():
    return FakeLibrary(results={"cuPointerGetAttribute": INVALID_VALUE})


@pytest.fixture
def backend(library, config, tmp_path, one_stream):  # noqa: ARG001
    config.cache_dir = tmp_path
    context, _ = open_context(library)
    return cuda.CudaBackend(context, 0)


@pytest.fixture
def launch(backend):
    kernel = build_scale()
    backend.launcher(kernel, (1, 1, 1), 2, (1.0, 0.0, 64))(1, 2)
    counters.stats.launches = 0
    return lambda: backend.launcher(kernel, (1, 1, 1), 2, (1.0, 0.0, 64))(1, 2)


@pytest.fixture
def queue(backend, launch):
    """Two launches beside one, and a fill behind them."""

    buffer = backend.allocate(64)

    def queue():
        backend.beside(lambda: (launch(), launch()), launch)
        backend.fill(buffer.ptr, 0, buffer.nbytes)

    return queue


def test_recorded_work_is_done_by_one_call(backend, library, queue):
    library.calls.clear()
    library.launches.clear()
    replay = backend.record(queue)
    assert counters.stats.launches == 0
    assert not library.graph_launches
    (nodes,) = library.executables.values()
    assert [node.kind for node in nodes.values()].count(KERNEL) == 3
    begun = library.arguments("cuStreamBeginCapture_v2")[0]
    assert library.arguments("cuMemsetD8Async")[-1] == begun
    library.calls.clear()
    for count in (1, 2):
        replay()
        assert library.names().count("cuGraphLaunch") == len(library.calls) == count
        assert counters.stats.launches == 3 * count
    assert library.arguments("cuGraphLaunch")[1] in (None, 0)


def test_work_goes_where_it_went_before_afterwards(backend, library, queue, launch):
    backend.record(queue)
    library.launches.clear()
    launch()
    backend.beside(launch, launch)
    assert [made.stream == 0 for made in library.launches] == [True, False, True]
    assert here.thread.branch is None
    made, gone = library.count()["cuStreamCreateWithPriority"], library.count()["cuStreamDestroy_v2"]
    assert made - gone == 1  # the branch of the stream itself


def test_what_goes_wrong_leaves_nothing_behind(backend, library, queue, launch):
    for refusal in (OUT_OF_MEMORY, NOT_SUPPORTED):
        library.results["cuGraphInstantiateWithFlags"] = refusal
        assert backend.record(queue) is None
        assert counters.stats.launches == 0
    library.results["cuGraphInstantiateWithFlags"] = INVALID_CONFIGURATION
    with pytest.raises(errors.CudaError):
        backend.record(queue)

    def fail():
        launch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        backend.record(fail)
    assert counters.stats.launches == 0
    library.results.pop("cuGraphInstantiateWithFlags")
    library.launches.clear()
    launch()
    assert library.launches[-1].stream == 0
    backend.record(queue)()
    assert library.graph_launches


def test_what_others_wait_for_one_by_one_is_not_recorded(backend, library, queue, config):
    config.synchronous = True
    assert backend.record(queue) is None
    config.synchronous = False
    timeline.separate(backend)
    assert backend.record(queue) is None
    assert not library.graphs


@pytest.mark.parametrize("is_recorded", [True, False])
def test_what_finalisers_launch_becomes_no_part_of_it(backend, library, launch, is_recorded):
    """They would read what has not been done, and each replay would do it again."""

    class Cycle:
        def __init__(self):
            self.own = self

        def __del__(self):
            launch()
            launched_on.append(library.launches[-1].stream)

    def queue():
        for _ in range(50):
            Cycle()
        launch()
        assert not launched_on

    launched_on, thresholds = [], gc.get_threshold()
    gc.collect()
    gc.set_threshold(1)
    try:
        if is_recorded:
            backend.record(queue)
        else:
            backend.beside(queue, list)
        Cycle()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert launched_on == [0] * 51
    assert gc.isenabled()
