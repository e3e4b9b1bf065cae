"""Streams, events and threads of `oxinp.cuda`, over a driver without a GPU."""

import gc
import threading

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK
from oxinp.cuda import current
from tests.cuda_interface.evaluated import evaluated
from tests.patience import PATIENCE

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
def test_a_stream_of_another_device_cannot_be_entered():
    with cuda.Device(1):
        stream = cuda.Stream()
    with pytest.raises(RuntimeError, match="under another setting of the current device"), stream:
        pytest.fail("the stream is of another device")


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


def softmax(x):
    e = oxinp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_what_is_asked_for_on_one_stream_is_fused_there(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros((64, 100)) + 1)
    with cuda.Stream() as stream:
        before = len(library.launches)
        evaluated(softmax(x))
        assert [launch.stream for launch in library.launches[before:]] == [stream.handle]
    before = len(library.launches)
    evaluated(softmax(x))
    assert [launch.stream for launch in library.launches[before:]] == [0]


def test_a_call_runs_on_the_stream_that_asked_for_it(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros((64, 100)) + 1)
    stream, made = cuda.Stream(), {}

    def ask():
        with stream:
            made["maximum"] = x.max(axis=-1, keepdims=True)
            asked.set()
            assert leave.wait(PATIENCE)

    asked, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(PATIENCE)
    before = len(library.launches)
    evaluated(x - made["maximum"])
    streams = [launch.stream for launch in library.launches[before:]]
    leave.set()
    thread.join()
    assert streams == [stream.handle, 0]


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
                assert leave.wait(PATIENCE)
                evaluated(x + 2)
                seen["again"] = stream.handle, library.launches[-1].stream
            assert backend.stream == 0
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)
            entered.set()

    with cuda.Stream() as outer:
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(PATIENCE)
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
            assert launched.wait(PATIENCE)
            del pending

    thread = threading.Thread(target=work)
    thread.start()
    assert recorded.wait(PATIENCE)
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


def test_others_queue_their_work_while_a_thread_waits_for_its_own(library, config):
    config.offload_threshold = 0
    x, free = evaluated(oxinp.zeros(1000) + 1), []

    def synchronize(result, *_):
        """See from another thread whether the lock can be had."""

        def look():
            free.append(FIRST_LOCK.acquire(timeout=PATIENCE))
            FIRST_LOCK.release()

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return result

    with cuda.Stream():
        y = evaluated(x * 2)
        library.do_cuEventSynchronize = synchronize
        np.asarray(y)
    assert free == [True]


def test_streams_that_are_gone_are_forgotten(library, config):
    config.offload_threshold = 0
    x = evaluated(oxinp.zeros(1000) + 1)
    for _ in range(50):
        with cuda.Stream() as stream:
            y = evaluated(x + 2)
        evaluated(y + 3)
        stream.close()
    backend = _runtime.current()
    (line,) = backend.timelines()
    assert len(line._seen) == 0
    assert len(backend.pool.block_at(current.address_of(x).ptr).uses.readers) <= 9
    assert library.count()["cuEventDestroy_v2"] >= 49
