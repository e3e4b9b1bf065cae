"""Arrays that make room on a device whose driver says that it is out of memory."""

import ctypes

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._runtime.counters import stats
from oxinp._runtime.memory import FOOTPRINTS
from tests.cuda_interface.evaluated import evaluated

OUT_OF_MEMORY = 2
COUNT = 100_000


def uploaded(number):
    """Return an array on the device only, and what it holds."""
    theirs = np.random.default_rng(number).random(COUNT)
    ours = oxinp.asarray(theirs)
    return ours, theirs


def bytes_on_device(array):
    """Return what lies where an array's first element does."""
    memory = (ctypes.c_char * (8 * COUNT)).from_address(array._storage.value[1][0].ptr)
    return np.frombuffer(memory, np.float64)


@pytest.fixture(autouse=True)
def _everything_on_the_device(config):
    config.offload_threshold = 0
    stats.reset()


def test_the_driver_is_asked_again_after_caches_then_pending_work_then_arrays(library):
    pairs = [uploaded(number) for number in range(3)]
    library.calls.clear()
    library.results["cuMemAlloc_v2"] = [OUT_OF_MEMORY] * 3
    new = oxinp.asarray(np.zeros(3 * COUNT // 2))
    assert stats.evicted_bytes == 16 * COUNT
    assert library.count()["cuMemAlloc_v2"] == 4
    gone = [ours for ours, _ in pairs if ours._storage.value is None]
    assert len(gone) == 2
    assert new._storage.value is not None
    assert library.names().index("cuMemcpyDtoH_v2") > library.names().index("cuMemAlloc_v2")
    for ours, theirs in pairs:
        np.testing.assert_array_equal(np.asarray(ours), theirs)
        oxinp.evaluate(ours * 2)
        np.testing.assert_array_equal(bytes_on_device(ours), theirs)


def test_when_nothing_is_left_the_error_says_how_much(library):
    ours, theirs = uploaded(1)
    library.results["cuMemAlloc_v2"] = OUT_OF_MEMORY
    with pytest.raises(MemoryError, match=r"1\.62 MiB asked for, 0 B in use by arrays.*delete arrays"):
        oxinp.evaluate(oxinp.ones(2 * COUNT) * 3)
    assert stats.evicted_bytes == 8 * COUNT
    library.results.clear()
    library.results["cuPointerGetAttribute"] = 1
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_a_download_that_fails_leaves_the_array_where_it_is(library):
    ours, theirs = uploaded(1)
    library.results["cuMemAlloc_v2"] = OUT_OF_MEMORY
    library.results["cuMemcpyDtoH_v2"] = 999
    with pytest.raises(cuda.CudaError):
        oxinp.evaluate(oxinp.ones(2 * COUNT) * 3)
    assert ours._storage.value is not None
    assert ours._storage.host is None
    library.results = {"cuPointerGetAttribute": 1}
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_what_a_graph_uses_stays(library):
    x, (y, _), (z, _) = evaluated(oxinp.zeros(COUNT) + 1), uploaded(1), uploaded(2)
    with cuda.Graph.capture(x) as graph:
        x += y
    assert len(FOOTPRINTS) == 1
    library.results["cuMemAlloc_v2"] = [OUT_OF_MEMORY] * 3
    oxinp.evaluate(oxinp.asarray(np.zeros(3 * COUNT)))
    assert (y._storage.value is None, z._storage.value is None) == (False, True)
    graph.launch()


def test_inside_a_capture_nothing_is_evicted(library):
    x, (y, _) = evaluated(oxinp.zeros(COUNT) + 1), uploaded(1)
    oxinp.evaluate(x * 3)
    with cuda.Graph.capture(x):
        x += 1
        library.results["cuMemAlloc_v2"] = OUT_OF_MEMORY
        with pytest.raises(MemoryError):
            oxinp.evaluate(x * 3)
    assert y._storage.value is not None
    assert stats.evicted_bytes == 0


def test_only_the_device_that_is_short_of_memory_evicts(library):
    x, _ = uploaded(1)
    with cuda.Device(1):
        y, theirs = uploaded(2)
        library.results["cuMemAlloc_v2"] = [OUT_OF_MEMORY] * 3
        z = oxinp.asarray(np.zeros(3 * COUNT))
        assert z._storage.value[1][0].backend is _runtime.current()
    assert x._storage.value is not None
    assert y._storage.value is None
    np.testing.assert_array_equal(np.asarray(y), theirs)
