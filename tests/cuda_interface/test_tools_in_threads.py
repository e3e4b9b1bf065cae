"""Reports, profiles, traces and leak detectors, opened and closed while other threads compute."""

import threading

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._core.lazy import schedule
from oxinp._runtime import counters
from oxinp.cuda import debug, profiler
from tests.patience import PATIENCE

ROUNDS = 150
VALUES = np.arange(300.0) % 17


def computed():
    x = oxinp.asarray(VALUES) * 2
    x[:50] = (x + 1)[50:100]
    return x


def explain():
    with oxinp.explain() as report:
        oxinp.evaluate(computed())
    str(report)


def profile():
    with profiler.profile() as profile:
        oxinp.gradient(computed())
    profile.summary()


def find_leaks():
    with debug.MemoryLeakDetector() as detector:
        x = computed()
        oxinp.evaluate(x)
        detector.leaks()


def trace():
    with debug.LaunchTrace():
        oxinp.evaluate(computed())


@pytest.mark.usefixtures("takes_turns")
def test_tools_come_and_go_while_others_compute(config):
    config.backend, config.offload_threshold = "emulator", 0
    wanted = VALUES * 2
    wanted[:50] = (wanted + 1)[50:100]
    errors = []

    def work():
        np.testing.assert_array_equal(oxinp.asnumpy(computed()), wanted)

    def again(body):
        for _ in range(ROUNDS):
            try:
                body()
            except RuntimeError as error:
                if "another profile, trace or leak detector is open" not in str(error):
                    errors.append(error)
            except BaseException as error:  # noqa: BLE001 - raised again below
                errors.append(error)

    bodies = (work, explain, profile, find_leaks, trace)
    threads = [threading.Thread(target=again, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    backend = _runtime.current()
    assert not any(hasattr(method, "is_wrapped") for method in vars(backend).values())


@pytest.mark.usefixtures("library")
def test_a_backend_has_all_methods_while_a_tool_is_closed():
    """Another thread may call one at any time; a GPU's `allocate` is an attribute of the object's own."""

    class Methods(dict):
        def __delitem__(self, name):
            super().__delitem__(name)
            assert hasattr(backend, name)

    backend = _runtime.current()
    backend.__dict__ = Methods(vars(backend))
    with debug.MemoryLeakDetector(), pytest.raises(RuntimeError, match="another profile"), profiler.profile():
        pass
    assert backend.allocate == backend.pool.allocate


def test_a_profile_that_is_over_notes_nothing_more():
    """Another thread may be inside an upload that ends after the block; it must not disturb the sorting of spans."""
    others = []

    class Late:
        @property
        def begin(self):
            others.append(threading.Thread(target=profile.add, args=("copy", "upload", 0.0, 0.0, 8)))
            others[-1].start()
            others[-1].join(PATIENCE)
            return 0.0

    with profiler.profile() as profile:
        profile.spans.append(Late())
    assert len(others) == len(profile.spans) == 1


def test_no_recorder_is_passed_over_when_another_one_goes():
    told, entered = [], oxinp.zeros(3)._storage

    def first(storage, depth):
        del storage, depth
        schedule.unwatch(first)

    def second(storage, depth):
        del depth
        told.append(storage)

    schedule.watch(first)
    schedule.watch(second)
    try:
        schedule.make_room(entered, 1)
    finally:
        schedule.unwatch(second)
    assert told == [entered]


def test_memory_that_is_captured_stays_when_others_trim(library, config):
    config.offload_threshold = 0
    x = oxinp.zeros(1000) + 1
    oxinp.evaluate(x)
    with cuda.Graph.capture(x) as graph:
        oxinp.evaluate(x * 2)  # which nobody holds
        other = threading.Thread(target=cuda.trim)
        other.start()
        other.join(PATIENCE)
    assert all(block.ptr in library.memory for block, _ in graph._footprint.items())
    graph.close()
    cuda.trim()
    assert not all(block.ptr in library.memory for block, _ in graph._footprint.items())


@pytest.mark.parametrize("wait", [cuda.synchronize, lambda: _runtime.current().wait()])
def test_others_wait_for_the_device_while_a_graph_is_captured(library, config, wait):
    config.offload_threshold = 0
    x = oxinp.zeros(1000) + 1
    oxinp.evaluate(x)
    errors = []

    def work():
        try:
            wait()
        except cuda.CudaError as error:
            errors.append(error)

    with cuda.Graph.capture(x) as graph:
        x += 1
        other = threading.Thread(target=work)
        other.start()
        other.join(PATIENCE)
    assert graph.num_kernels == 1
    assert not errors
    assert not library.spoilt


def test_a_graph_is_not_closed_while_another_thread_launches_it(library, config):
    config.offload_threshold = 0
    x = oxinp.zeros(1000) + 1
    oxinp.evaluate(x)
    with cuda.Graph.capture(x) as graph:
        x += 1
    launch, found = library.do_cuGraphLaunch, []
    closing = threading.Thread(target=graph.close)

    def launch_late(result, executable, stream):
        closing.start()
        closing.join(0.1)
        found.append(executable in library.executables)
        return launch(result, executable, stream)

    library.do_cuGraphLaunch = launch_late
    graph.launch()
    closing.join(PATIENCE)
    assert found == [True]


def test_what_others_launch_during_a_capture_is_counted(library, config, stats):
    config.offload_threshold = 0
    x, y = oxinp.zeros(1000) + 1, oxinp.zeros(1000) + 2
    oxinp.evaluate(x, y)
    other = threading.Thread(target=lambda: oxinp.evaluate(y * 3))
    before = stats().launches
    with cuda.Graph.capture(x):
        x += 1
        other.start()
        other.join(PATIENCE)
    assert stats().launches == before + 1
    assert len(library.launches) == 3


def test_fallbacks_of_all_threads_are_counted():
    counted, others = counters.Stats(), []

    class Name(str):
        __slots__ = ()

        def __hash__(self):  # asked for between the look at a count and the next one
            if len(others) < 2:
                others.append(threading.Thread(target=counted.count_fallback, args=("gradient",)))
                others[-1].start()
                others[-1].join(0.1)
            return hash(str(self))

    counted.count_fallback(Name("gradient"))
    for other in others:
        other.join(PATIENCE)
    assert counted.fallbacks == {"gradient": 3}
