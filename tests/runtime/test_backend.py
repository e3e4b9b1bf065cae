"""What every backend promises, asked of the emulator and of the GPU."""

import importlib
import struct
import threading

import numpy as np
import pytest

from oxinp._kernels import plan
from oxinp._ptx import Builder
from oxinp._ptx.types import f32, u32
from oxinp._runtime import hooks
from oxinp._runtime.backend import MARKS_NBYTES, NUM_FLAGS
from oxinp._runtime.counters import stats as counters


def build_scale(name="scale", factor=None):
    """Return out[i] = x[i] * a + b for i < n; or * factor, written into the text."""
    k = Builder(name, block=64)
    out, x = k.pointer("out", f32, "w"), k.pointer("x", f32, "r")
    a, b, n = k.scalar("a", f32), k.scalar("b", f32), k.scalar("n", u32)
    with k.grid_stride(n) as i:
        out[i] = x[i] * (a if factor is None else factor) + b
    return k.build()


@pytest.fixture(scope="module")
def scale():
    return build_scale()


@pytest.fixture(params=["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request):
    return importlib.import_module(f"oxinp._runtime.{request.param}").open_backend()


@pytest.fixture(autouse=True)
def _fresh_counters():
    counters.reset()


def test_round_trip_and_counts(backend):
    data = np.arange(1000, dtype=np.float64).reshape(10, 100)
    buffer = backend.allocate(data.nbytes)
    assert buffer.ptr % 256 == 0
    backend.upload(buffer.ptr, data)
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    np.testing.assert_array_equal(back, data)
    part = np.empty(3)
    backend.download(part, buffer.ptr + 8 * 997)
    np.testing.assert_array_equal(part, [997, 998, 999])
    assert (counters.h2d_bytes, counters.d2h_bytes) == (8000, 8024)


@pytest.mark.parametrize("nbytes", [1, 4096, 100_000, 3 << 20, 40 << 20])
def test_upload_captures(backend, nbytes):
    data = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    buffer = backend.allocate(nbytes)
    source = data.copy()
    backend.upload(buffer.ptr, source)
    source[:] = 0
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    np.testing.assert_array_equal(back, data)


def test_read_only_source(backend):
    data = np.arange(10)
    data.flags.writeable = False
    buffer = backend.allocate(data.nbytes)
    backend.upload(buffer.ptr, data)
    back = np.empty_like(data)
    backend.download(back, buffer.ptr)
    np.testing.assert_array_equal(back, data)


def test_flags_are_zeros(backend):
    flags = np.ones(4 * NUM_FLAGS + MARKS_NBYTES, np.uint8)
    backend.download(flags, backend.flags)
    assert not flags[: 4 * NUM_FLAGS].any()
    assert (plan.NUM_FLAGS, plan.MARKS_NBYTES) == (NUM_FLAGS, MARKS_NBYTES)
    assert backend.flags == backend.flags


def test_nothing(backend):
    buffer = backend.allocate(0)
    empty = np.empty(0)
    backend.upload(buffer.ptr, empty)
    backend.download(empty, buffer.ptr)
    backend.copy(buffer.ptr, buffer.ptr, 0)
    assert buffer.nbytes == 0


def test_copy(backend):
    data = np.arange(100, dtype=np.int32)
    first, second = backend.allocate(400), backend.allocate(400)
    backend.upload(first.ptr, data)
    backend.upload(second.ptr, np.zeros(100, np.int32))
    backend.copy(second.ptr + 200, first.ptr, 200)
    back = np.empty_like(data)
    backend.download(back, second.ptr)
    np.testing.assert_array_equal(back, np.r_[np.zeros(50), np.arange(50)])


def test_launch(backend, scale):
    x = np.linspace(0, 1, 300, dtype=np.float32)
    source, target = backend.allocate(x.nbytes), backend.allocate(x.nbytes)
    backend.upload(source.ptr, x)
    launch = backend.launcher(scale, (2, 1, 1), 3, (1.5, 300))
    back = np.empty_like(x)
    for a in (2.0, -1.0):
        launch(target.ptr, source.ptr, a)
        backend.download(back, target.ptr)
        np.testing.assert_array_equal(back, x * np.float32(a) + np.float32(1.5))
    assert counters.launches == 2


def test_all_parameters_vary_or_none(backend, scale):
    x = np.ones(64, np.float32)
    buffer = backend.allocate(x.nbytes)
    backend.upload(buffer.ptr, x)
    values = (buffer.ptr, buffer.ptr, 2.0, 1.0, 64)
    backend.launcher(scale, (1, 1, 1), 5, ())(*values)
    backend.launcher(scale, (1, 1, 1), 0, values)()
    backend.download(x, buffer.ptr)
    assert set(x) == {7.0}


def test_wrong_number_of_parameters(backend, scale):
    with pytest.raises((ValueError, struct.error)):
        backend.launcher(scale, (1, 1, 1), 3, (1.5,))
    launch = backend.launcher(scale, (1, 1, 1), 3, (1.5, 300))
    with pytest.raises((TypeError, IndexError, struct.error)):  # the second where there are several streams
        launch(1)
    assert counters.launches == 0


def test_launch_from_another_thread(backend, scale):
    x = np.ones(64, np.float32)
    results = []

    def work():
        buffer = backend.allocate(x.nbytes)
        backend.upload(buffer.ptr, x)
        backend.launcher(scale, (1, 1, 1), 2, (3.0, 0.0, 64))(buffer.ptr, buffer.ptr)
        back = np.empty_like(x)
        backend.download(back, buffer.ptr)
        results.append(set(back))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{3.0}] * 4


def test_memory_returns(backend, scale):
    before = backend.memory_stats().used_nbytes
    launch = backend.launcher(scale, (1, 1, 1), 2, (2.0, 0.0, 64))
    source = backend.allocate(256)
    backend.upload(source.ptr, np.ones(64, np.float32))
    for _ in range(100):
        target = backend.allocate(256)
        launch(target.ptr, source.ptr)
        source, target = target, None
    back = np.empty(64, np.float32)
    backend.download(back, source.ptr)
    assert set(back) == {np.float32(2.0) ** 100}
    del source
    now = backend.memory_stats()
    assert now.used_nbytes == before
    assert now.driver_allocations <= 3
    backend.trim()
    assert backend.memory_stats().num_blocks == 0


def test_out_of_memory_is_a_sentence(backend):
    with pytest.raises(MemoryError, match=r"asked for, .* in use by arrays, .* cached, .* free of .*; delete arrays"):
        backend.allocate(1 << 50)


def test_hooks_run_before_synchronising(backend, monkeypatch):
    called = []
    monkeypatch.setattr(hooks, "before_synchronize", [lambda: called.append(1)])
    backend.synchronize()
    assert called == [1]


def test_events(backend, scale):
    buffer = backend.allocate(256)
    backend.upload(buffer.ptr, np.ones(64, np.float32))
    begin = backend.record_event()
    backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))(buffer.ptr, buffer.ptr)
    end = backend.record_event()
    assert begin.elapsed_ms(end) > 0


def test_capability(backend):
    capability = backend.capability
    assert capability.cc >= (8, 0)
    assert capability.num_sms >= 1
    assert capability.max_shared_nbytes >= 48 << 10
    assert capability.total_nbytes >= backend.memory_stats().free_nbytes
    assert hash(capability) == hash(capability)


def test_synchronous_launch(backend, scale, config):
    config.synchronous = True
    buffer = backend.allocate(256)
    backend.upload(buffer.ptr, np.ones(64, np.float32))
    backend.launcher(scale, (1, 1, 1), 2, (2.0, 0.0, 64))(buffer.ptr, buffer.ptr)
    back = np.empty(64, np.float32)
    backend.download(back, buffer.ptr)
    assert set(back) == {2.0}
    assert counters.launches == 1
