"""Arrays and events that several processes use, and shares of a device's multiprocessors."""

import multiprocessing
import pickle
import sys
import time

import numpy as np
import pytest

import oxinp
from oxinp import cuda
from tests.patience import PATIENCE

# Over a driver without a GPU


def test_a_shared_array_pickled_is_the_same_memory(library):
    shared = cuda.SharedArray((3, 4), "f4")
    assert (shared.shape, shared.dtype, shared.nbytes) == ((3, 4), np.dtype("f4"), 48)
    text = pickle.dumps(shared)
    again = pickle.loads(text)  # noqa: S301
    assert again.__cuda_array_interface__ == shared.__cuda_array_interface__
    assert "cuIpcOpenMemHandle_v2" not in library.names()  # a process cannot open what it exports
    del shared
    assert "cuMemFree_v2" not in library.names()
    del again
    assert library.names()[-1] == "cuMemFree_v2"
    other = pickle.loads(text)  # noqa: S301 - as it is elsewhere
    assert library.count()["cuIpcOpenMemHandle_v2"] == 1
    del other
    assert library.names()[-1] == "cuIpcCloseMemHandle"
    with pytest.raises(TypeError, match="Python objects"):
        cuda.SharedArray(3, object)


def test_a_shared_event_is_one_event(library):
    event = cuda.Event(is_shared=True)
    first = event.record()._mark.handle
    assert event.record()._mark.handle == first
    again = pickle.loads(pickle.dumps(event))  # noqa: S301
    assert again._mark.handle == first
    stream = cuda.Stream()
    stream.wait(again)
    assert library.arguments("cuStreamWaitEvent")[:2] == (stream.handle, first)
    with pytest.raises(TypeError, match="is_shared=True"):
        pickle.dumps(cuda.Event())


def test_green_contexts(library, config):
    config.offload_threshold = 0
    small, large = cuda.GreenContext.split(10, 64)
    assert (small.num_sms, large.num_sms) == (16, 64)
    with pytest.raises(cuda.InvalidValue, match="140 multiprocessors cannot be set aside: 128 are left"):
        cuda.GreenContext.split(140)
    with cuda.Stream(green=small) as stream:
        oxinp.evaluate(oxinp.ones(1000) + 1)
        assert library.launches[-1].stream == stream.handle
    assert library.arguments("cuGreenCtxStreamCreate")[1] == small._green.handle
    stream.close()
    assert library.names()[-1] == "cuStreamDestroy_v2"
    with cuda.Device(1), pytest.raises(ValueError, match="not one of the current device"):
        cuda.Stream(green=small)


def test_closed_green_contexts_serve_again(library):
    (first,) = cuda.GreenContext.split(16)
    (second,) = cuda.GreenContext.split(16)
    handles = first._green.handle, second._green.handle
    assert handles[0] != handles[1]
    made = library.count()["cuGreenCtxCreate"]
    del first, second
    again = [cuda.GreenContext.split(16)[0] for _ in range(3)]
    assert {green._green.handle for green in again} > set(handles)
    (other,) = cuda.GreenContext.split(24)
    assert other._green.handle not in handles
    assert library.count()["cuGreenCtxCreate"] == made + 2


def test_without_a_gpu(config):
    config.backend = "host"
    for make in (lambda: cuda.SharedArray(3), lambda: cuda.Event(is_shared=True), lambda: cuda.GreenContext.split(8)):
        with pytest.raises(cuda.NotSupported, match="need a GPU"):
            make()


# On a GPU


def _work(shared, ready, done, answers):
    """Change an array of another process, and tell what was in it."""
    try:
        x = oxinp.asarray(shared)
        with cuda.Stream() as stream:
            stream.wait(ready)
            before = float(x.sum())
            x *= 2
            done.record()
            answers.put(before)
            done.synchronize()
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the test
        answers.put(repr(error))


@pytest.mark.gpu
def test_two_processes_share_an_array():
    spawn = multiprocessing.get_context("spawn")
    shared, answers = cuda.SharedArray(1_000_000, "f8"), spawn.Queue()
    ready, done = cuda.Event(is_shared=True), cuda.Event(is_shared=True)
    x = oxinp.asarray(shared)
    x[:] = 0
    for _ in range(20):
        x += 1
    ready.record()
    process = spawn.Process(target=_work, args=(shared, ready, done, answers))
    process.start()
    assert answers.get(timeout=PATIENCE) == 20_000_000
    process.join(PATIENCE)
    assert process.exitcode == 0
    done.synchronize()
    assert np.asarray(x + 1).tolist()[::99_999] == [41.0] * 11
    total = float(x.sum())
    assert total == 40_000_000


@pytest.mark.gpu
@pytest.mark.exclusive
def test_a_green_context_has_its_multiprocessors_only():
    x = oxinp.ones(8_000_000)
    small, large = cuda.GreenContext.split(16, 64)
    assert small.num_sms >= 16

    def seconds(stream):
        with stream:
            best = np.inf
            for _ in range(10):
                y = oxinp.cos(x)
                start = time.perf_counter()
                oxinp.evaluate(y)
                stream.synchronize()
                best = min(best, time.perf_counter() - start)
        assert float(y[5]) == pytest.approx(np.cos(1.0))
        return best

    times = [seconds(cuda.Stream(green=green)) for green in (small, large)]
    figures = [f"{time * 1e6:.0f} us on {green.num_sms}" for time, green in zip(times, (small, large), strict=True)]
    sys.stdout.write(f"\ngreen: {', '.join(figures)} multiprocessors\n")
    assert times[0] > 1.5 * times[1]
