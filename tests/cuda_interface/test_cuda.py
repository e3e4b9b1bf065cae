import subprocess
import sys
from pathlib import Path

import pytest

from oxinp import _runtime, cuda
from oxinp._driver import errors
from oxinp._runtime import counters, hooks, select
from oxinp._runtime.backend import BackendUnavailable
from oxinp._runtime.cuda import CudaBackend
from oxinp.cuda import Event, Stream
from tests.driver.fake_library import FakeLibrary, open_context

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def library(monkeypatch, config, one_stream):  # noqa: ARG001
    """A driver without a GPU behind the backend in use."""
    library = FakeLibrary(results={"cuPointerGetAttribute": 1})
    context, _ = open_context(library)
    monkeypatch.setitem(select._opened, "cuda", CudaBackend(context, 0))
    monkeypatch.setattr(select, "_decided", (-1, None))
    config.backend = "cuda"
    library.calls.clear()
    return library


@pytest.fixture
def flushes(monkeypatch):
    """Count how often pending work is launched, and say on which stream."""
    streams = []
    for name in ("before_synchronize", "before_leaving_stream"):
        monkeypatch.setattr(hooks, name, [lambda: streams.append(getattr(_runtime.current(), "stream", None))])
    return streams


@pytest.fixture(params=["host", "emulator"])
def without_gpu(request, config):
    config.backend = request.param
    return request.param


# Counters


def test_stats_is_a_snapshot():
    cuda.reset_stats()
    counters.stats.launches += 2
    counters.stats.fallbacks["sort"] = 3
    before = cuda.stats()
    counters.stats.launches += 5
    counters.stats.fallbacks["sort"] += 1
    assert (before.launches, before.fallbacks) == (2, {"sort": 3})
    assert cuda.stats().launches == 7
    cuda.reset_stats()
    after = cuda.stats()
    for name in ("launches", "h2d_bytes", "d2h_bytes", "compiled", "cache_hits"):
        assert getattr(after, name) == 0
    assert after.fallbacks == {}
    assert before.launches == 2


# Waiting, memory, availability


@pytest.mark.usefixtures("without_gpu")
def test_without_a_gpu_everything_works_and_nothing_waits(flushes):
    assert cuda.is_available() is False
    stream = Stream()
    with stream:
        start = Event().record()
    stop = stream.record()
    stream.synchronize()
    stop.synchronize()
    assert stop.is_done()
    assert stream.is_done()
    assert stream.handle == 0
    assert start.elapsed_ms(stop) >= 0
    cuda.synchronize()
    cuda.trim()
    assert len(flushes) >= 4


def test_memory_stats_without_a_device(config):
    config.backend = "host"
    assert cuda.memory_stats() == cuda.MemoryStats(0, 0, 0, 0, 0, 0, 0)


def test_memory_stats_and_trim(config):
    config.backend = "emulator"
    backend = _runtime.current()
    before = cuda.memory_stats().used_nbytes
    buffer = backend.allocate(4096)
    assert cuda.memory_stats().used_nbytes == before + 4096
    del buffer
    assert cuda.memory_stats().cached_nbytes >= 4096
    cuda.trim()
    assert cuda.memory_stats().cached_nbytes == 0


def test_synchronize_launches_what_is_pending_and_waits(library, flushes):
    cuda.synchronize()
    assert flushes == [0]
    assert library.names() == ["cuCtxSynchronize"]


def test_synchronize_tells_of_faults(library):
    library.results["cuCtxSynchronize"] = 700
    with pytest.raises(cuda.DeviceFault, match="cuCtxSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS"):
        cuda.synchronize()


@pytest.mark.usefixtures("library")
def test_is_available():
    assert cuda.is_available() is True


def test_is_available_does_not_raise(monkeypatch):
    def refuse():
        raise BackendUnavailable("none here")

    monkeypatch.setattr(_runtime, "current", refuse)
    assert cuda.is_available() is False
    with pytest.raises(cuda.BackendUnavailable):
        cuda.synchronize()


# Exceptions


def test_the_exceptions_of_the_driver_are_here():
    for name in errors.__all__:
        assert getattr(cuda, name) is getattr(errors, name)
        assert issubclass(getattr(cuda, name), cuda.CudaError)
    assert set(errors.__all__) < set(cuda.__all__)


def test_everything_exported_is_there():
    assert len(set(cuda.__all__)) == len(cuda.__all__)
    assert all(hasattr(cuda, name) for name in cuda.__all__)


def test_importing_touches_no_driver():
    code = "import oxinp.cuda, sys; from oxinp._driver import driver; assert driver._loaded is None"
    code += "; assert 'oxinp._runtime.cuda' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# Streams


def test_a_stream_is_current_inside_with(library, flushes):
    backend = _runtime.current()
    outer, inner = Stream(priority=-1), Stream()
    assert library.arguments("cuStreamCreateWithPriority")[1:] == (1, 0)
    with outer:
        assert backend.stream == outer.handle
        with inner, outer:
            assert backend.stream == outer.handle
        assert backend.stream == outer.handle
    assert backend.stream == 0
    # Each change launched what was pending on the stream it came from.
    expected = [0, 0, outer.handle, inner.handle, outer.handle, inner.handle, outer.handle]  # twice at the first
    assert flushes == expected


def test_streams_that_share_nothing_do_not_wait(library):
    library.calls.clear()
    with Stream():
        pass
    assert not {"cuEventRecord", "cuStreamWaitEvent"} & set(library.names())


@pytest.mark.usefixtures("library")
def test_memory_is_taken_and_returned_by_stream():
    backend = _runtime.current()
    first = backend.allocate(4096).ptr
    with Stream():
        assert backend.allocate(4096).ptr != first
    assert backend.allocate(4096).ptr == first


@pytest.mark.usefixtures("library")
def test_a_failed_flush_leaves_the_stream_as_it_was(monkeypatch):
    backend, stream = _runtime.current(), Stream()

    def fail():
        raise MemoryError("no room")

    with stream:
        monkeypatch.setattr(hooks, "before_leaving_stream", [fail])
        with pytest.raises(MemoryError), Stream():
            pytest.fail("the stream cannot be entered")
        assert backend.stream == stream.handle
        monkeypatch.setattr(hooks, "before_leaving_stream", [])
    assert backend.stream == 0
    with pytest.raises(MemoryError), stream:
        monkeypatch.setattr(hooks, "before_leaving_stream", [fail])
    assert backend.stream == 0


@pytest.mark.usefixtures("library")
def test_an_exception_inside_gives_the_stream_back():
    with pytest.raises(KeyError), Stream():
        raise KeyError("inside")
    assert _runtime.current().stream == 0


def test_stream_synchronize_and_is_done(library, flushes):
    stream = Stream()
    stream.synchronize()
    assert flushes == [0]
    assert library.arguments("cuStreamSynchronize") == (stream.handle,)
    library.results["cuStreamQuery"] = [600, 0]
    assert [stream.is_done(), stream.is_done()] == [False, True]


@pytest.mark.usefixtures("library")
def test_a_stream_of_another_backend_is_refused(config):
    stream = Stream()
    config.backend = "host"
    with pytest.raises(RuntimeError, match=r"another setting of oxinp\.config\.backend"), stream:
        pytest.fail("the stream cannot be entered")


# Events


def test_events_are_recorded_after_what_is_pending(library, flushes):
    stream = Stream()
    event = Event()
    assert event.is_done()
    event.synchronize()
    assert event.record() is event
    assert library.arguments("cuEventRecord")[1] is None
    stop = stream.record()
    assert library.arguments("cuEventRecord")[1] == stream.handle
    assert flushes == [0, 0]
    assert event.elapsed_ms(stop) == 1.5
    library.results["cuEventQuery"] = [600]
    assert [stop.is_done(), stop.is_done()] == [False, True]
    stop.synchronize()
    assert library.names()[-1] == "cuEventSynchronize"


def test_events_without_a_mark(config):
    config.backend = "host"
    with pytest.raises(ValueError, match=r"call record\(\) on both"):
        Event().elapsed_ms(Event())
    with pytest.raises(ValueError, match=r"call record\(\) on both"):
        Event().record().elapsed_ms(Event())


@pytest.mark.usefixtures("library")
def test_events_of_different_backends(config):
    start = Event().record()
    config.backend = "host"
    with pytest.raises(ValueError, match="one and the same"):
        start.elapsed_ms(Event().record())


def test_host_events_measure_time(config):
    config.backend = "host"
    start = Event().record()
    sum(range(10_000))
    assert start.elapsed_ms(Event().record()) > 0


@pytest.mark.gpu
def test_on_a_gpu(config):
    config.backend = "cuda"
    assert cuda.is_available()
    stream = Stream()
    start = Event().record()
    with stream:
        stop = Event().record()
    assert start.elapsed_ms(stop) >= 0
    stream.synchronize()
    assert stream.is_done()
    assert cuda.memory_stats().total_nbytes > 1 << 30
    cuda.synchronize()
