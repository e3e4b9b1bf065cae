"""Few bytes through pinned memory: what is read is what was there, and whatever goes wrong is told as by the driver."""

import ctypes
import threading
import time

import numpy as np
import pytest

from oxinp._driver import errors
from oxinp._runtime import brief_downloads, cuda
from oxinp._runtime.brief_downloads import MOST_NBYTES, RENTED, BriefDownloads
from tests.driver.fake_library import FakeLibrary, open_context

LAUNCH_FAILED, NOT_READY, OUT_OF_MEMORY = 719, 600, 2


class Port:
    """What grants pinned memory, unless `is_short`."""

    def __init__(self):
        self.is_short, self.num_allocated, self.has_pinned = False, 0, False

    def allocate_pinned(self, nbytes):
        if self.is_short:
            raise errors.OutOfMemory("no more", code=OUT_OF_MEMORY)
        self.num_allocated += 1
        array = np.full(nbytes, 0xEE, np.uint8)
        return array.ctypes.data, array


@pytest.fixture
def library():
    return FakeLibrary()


@pytest.fixture
def port():
    return Port()


@pytest.fixture
def context(library):
    return open_context(library)[0]


@pytest.fixture
def driver(context):
    return context.driver


@pytest.fixture
def downloads(port, driver, library):
    """Downloads of which so many have gone the driver's own way that there may be memory for the next one."""
    made = BriefDownloads(port, driver)
    assert not any(made.download(np.empty(1), 0, 8) for _ in range(RENTED))
    library.calls.clear()
    return made


def on_device(array):
    return array.ctypes.data  # its memory is the host's


@pytest.mark.parametrize("dtype", ["f8", "f2", "?", "c16", "M8[s]", "u1"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
def test_what_is_there_is_read(downloads, library, port, dtype, shape):
    source = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    found = np.empty_like(source)
    assert downloads.download(found, on_device(source), found.nbytes)
    np.testing.assert_array_equal(found, source)
    assert library.names() == ["cuMemcpyDtoHAsync_v2", "cuStreamQuery"]
    assert port.num_allocated == 1


def test_what_is_not_small_goes_the_drivers_way(downloads, library):
    most, more = np.zeros(MOST_NBYTES, np.uint8), np.zeros(MOST_NBYTES + 1, np.uint8)
    assert downloads.download(most.copy(), on_device(most), most.nbytes)
    library.calls.clear()
    assert not downloads.download(more.copy(), on_device(more), more.nbytes)
    assert not library.calls


def test_the_stream_is_asked_until_it_has_passed(downloads, library, monkeypatch):
    monkeypatch.setattr(brief_downloads, "MOST_SECONDS", 60.0)
    library.results["cuStreamQuery"] = [NOT_READY, NOT_READY, 0]
    source, found = np.array(2.5), np.array(0.0)
    assert downloads.download(found, on_device(source), 8)
    assert found == source
    assert library.count()["cuStreamQuery"] == 3


def test_what_takes_long_is_left_to_the_driver(downloads, library):
    library.results["cuStreamQuery"] = NOT_READY
    found, begin = np.array(0.0), time.perf_counter()
    assert not downloads.download(found, on_device(np.array(2.5)), 8)
    assert time.perf_counter() - begin >= brief_downloads.MOST_SECONDS
    assert found == 0
    library.results["cuStreamQuery"] = 0
    assert downloads.download(found, on_device(np.array(1.5)), 8)


@pytest.mark.parametrize("name", ["cuMemcpyDtoHAsync_v2", "cuStreamQuery"])
def test_what_fails_is_left_to_the_driver(downloads, library, driver, name):
    library.results[name] = LAUNCH_FAILED
    found = np.array(0.0)
    assert not downloads.download(found, on_device(np.array(2.5)), 8)
    assert found == 0
    assert driver.fault is None  # the driver's own copy finds it out, and says so


def test_nothing_is_called_of_a_driver_that_has_ended(downloads, library, driver):
    driver.retire(errors.InvalidHandle("closed"))
    assert not downloads.download(np.array(0.0), 0, 8)
    assert not library.calls


def test_contexts_are_told_apart_by_the_driver(downloads, library, driver):
    driver.contexts.update((1, 2))
    assert not downloads.download(np.array(0.0), 0, 8)
    assert not library.calls


def test_the_memory_is_one_threads_at_a_time(context, library):
    asked, go_on = threading.Event(), threading.Event()
    first, second, source = np.array(0.0), np.array(0.0), np.array(2.5)

    def query(result, _):
        asked.set()
        go_on.wait(10)
        return result

    def download():
        context.make_current()
        assert downloads.download(first, on_device(source), 8)

    library.do_cuStreamQuery = query
    downloads = BriefDownloads(Port(), context.driver)
    downloads._left = 0
    thread = threading.Thread(target=download)
    thread.start()
    assert asked.wait(10)
    assert not downloads.download(second, on_device(source), 8)
    go_on.set()
    thread.join()
    assert (first, second) == (2.5, 0)


def test_where_some_is_pinned_more_is_at_once(port, driver, library):
    downloads, source, found = (
        BriefDownloads(port, driver),
        np.arange(MOST_NBYTES // 8),
        np.empty(MOST_NBYTES // 8, int),
    )
    assert not downloads.download(found, on_device(source), source.nbytes)
    port.has_pinned = True
    assert downloads.download(found, on_device(source), source.nbytes)
    np.testing.assert_array_equal(found, source)
    assert library.names()[-2:] == ["cuMemcpyDtoHAsync_v2", "cuStreamQuery"]
    port.is_short, other = True, BriefDownloads(port, driver)
    assert not any(other.download(found, on_device(source), 8) for _ in range(RENTED + 1))
    assert port.num_allocated == 1


def test_no_pinned_memory_to_be_had(port, driver, library):
    downloads = BriefDownloads(port, driver)
    downloads._left, port.is_short = 0, True
    source, found = np.array(2.5), np.array(0.0)
    assert not any(downloads.download(found, on_device(source), 8) for _ in range(RENTED + 1))
    port.is_short = False
    assert downloads.download(found, on_device(source), 8)
    assert found == source
    assert library.count()["cuMemcpyDtoHAsync_v2"] == 1


def test_a_fault_is_told_as_by_the_drivers_own_copy(config, tmp_path, one_stream):  # noqa: ARG001
    config.cache_dir = tmp_path
    told = []
    for num_before in (0, RENTED + 1):
        library = FakeLibrary(results={"cuPointerGetAttribute": 1})
        context, _ = open_context(library)
        backend = cuda.CudaBackend(context, 0)
        buffer, array = backend.allocate(8), np.empty(1)
        ctypes.memset(buffer.ptr, 0, 8)
        for _ in range(num_before):
            backend.download(array, buffer.ptr)
        library.results |= dict.fromkeys(["cuMemcpyDtoHAsync_v2", "cuMemcpyDtoH_v2", "cuStreamQuery"], LAUNCH_FAILED)
        for _ in range(2):
            with pytest.raises(errors.DeviceFault) as caught:
                backend.download(array, buffer.ptr)
            told.append(str(caught.value))
    assert told[:2] == told[2:]
