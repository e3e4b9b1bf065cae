import subprocess
import sys
import threading

import numpy as np
import pytest

import oxinp
from oxinp._ptx.emulate import AccessError
from oxinp._ptx.kernel import retraceable
from oxinp._runtime import emulator
from oxinp._runtime.counters import stats as counters
from oxinp._runtime.emulator import EmulatorBackend, open_backend
from tests.runtime.test_backend import build_scale


@pytest.fixture
def backend():
    return open_backend()


@pytest.fixture(scope="module")
def scale():
    return build_scale()


def test_buffer_ends_where_it_was_asked_to_end(backend, scale):
    source, target = backend.allocate(4 * 100), backend.allocate(4 * 99)
    backend.upload(source.ptr, np.ones(100, np.float32))
    counters.reset()
    with pytest.raises(AccessError, match="out of bounds"):
        backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 100))(target.ptr, source.ptr)
    assert counters.launches == 0


def test_use_after_free_is_caught_although_the_pool_keeps_the_block(backend, scale):
    source, target = backend.allocate(256), backend.allocate(256)
    backend.upload(source.ptr, np.ones(64, np.float32))
    ptr = source.ptr
    del source
    assert backend.memory_stats().cached_nbytes == 512
    with pytest.raises(AccessError, match="out of bounds"):
        backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))(target.ptr, ptr)
    with pytest.raises(ValueError, match="do not lie in one allocation"):
        backend.download(np.empty(64, np.float32), ptr)


def test_reused_memory_is_uninitialised(backend, scale):
    first = backend.allocate(256)
    backend.upload(first.ptr, np.ones(64, np.float32))
    ptr = first.ptr
    del first
    again, target = backend.allocate(256), backend.allocate(256)
    assert again.ptr == ptr
    with pytest.raises(AccessError, match="uninitialised"):
        backend.launcher(scale, (1, 1, 1), 2, (1.0, 0.0, 64))(target.ptr, again.ptr)


def test_a_program_may_compute_with_what_it_has_not_written(config):
    config.offload_threshold = 0
    for x in (oxinp.empty(8), oxinp.empty_like(oxinp.ones(8)), oxinp.ndarray((8,))):
        x[:4] = 1
        y = x * 2 + x[::-1]
        assert oxinp.isfinite(x[:4].sum())
        assert y.shape == (8,)
        assert (x * 2)[:4].tolist() == [2, 2, 2, 2]


def test_limit(backend):
    del backend
    small = EmulatorBackend(1 << 20)
    kept = small.allocate(600_000)
    with pytest.raises(MemoryError, match=r"640\.00 KiB in use"):
        small.allocate(600_000)
    del kept
    assert small.allocate(700_000).nbytes == 700_000


def test_finaliser_is_silent_at_shutdown():
    code = """
import builtins
from oxinp._runtime.emulator import open_backend
backend = open_backend()
builtins.kept = backend.allocate(10)
cycle = [backend.allocate(10)]
cycle.append(cycle)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_kernels_trace_again_what_they_let_go_of():
    traced = []

    @retraceable
    def make(factor):
        traced.append(factor)
        return build_scale(factor=factor)

    kernel, backend = make(2.0), open_backend()
    kernel.let_go()
    assert kernel.body is None
    x = np.arange(64, dtype=np.float32)
    source, target = backend.allocate(x.nbytes), backend.allocate(x.nbytes)
    backend.upload(source.ptr, x)
    for _ in range(2):
        backend.launcher(kernel, (1, 1, 1), 2, (1.0, 0.0, 64))(target.ptr, source.ptr)
        result = np.empty_like(x)
        backend.download(result, target.ptr)
        assert (result == 2 * x).all()
    assert traced == [2.0, 2.0]
    # What nobody can make again is kept.
    other = build_scale()
    other.let_go()
    assert other.body is not None


def test_reports_are_one_object_for_threads_that_ask_at_once(backend, monkeypatch):
    make, found = emulator.EmulatedReports, []

    def make_late(*args):
        if not found:
            found.append(None)
            other = threading.Thread(target=lambda: found.append(backend.reports))
            other.start()
            other.join()
        return make(*args)

    monkeypatch.setattr(emulator, "EmulatedReports", make_late)
    assert backend.reports is backend.reports is found[1]
