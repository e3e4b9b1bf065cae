"""Memory of `oxinp.cuda`, and what is watched of it and of launches, over a driver without a GPU."""

import pytest

import oxinp
from oxinp import _runtime, cuda
from tests.cuda_interface.evaluated import evaluated

MIB = 1 << 20


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
    assert "evaluated.py:" in leak.line
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
    assert all("evaluated.py:" in launch.line for launch in trace.launches)
