import subprocess
import sys
import threading
import types

import pytest

from oxinp import _runtime
from oxinp._runtime import hooks, select
from oxinp._runtime.backend import BackendUnavailable


class Opener:
    """A module that opens a backend, or says why not."""

    def __init__(self, monkeypatch, name):
        self.calls = 0
        self.trouble = None
        module = types.ModuleType(f"fake_{name}")
        module.open_backend = self.open_backend
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(select._MODULES, name, module.__name__)

    def open_backend(self):
        self.calls += 1
        if self.trouble:
            raise BackendUnavailable(self.trouble)
        return types.SimpleNamespace(name="fake")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, one_stream):  # noqa: ARG001
    monkeypatch.setattr(select, "_opened", {})
    monkeypatch.setattr(select, "_failures", {})
    monkeypatch.setattr(select, "_decided", (-1, None))


@pytest.fixture
def cuda(monkeypatch):
    return Opener(monkeypatch, "cuda")


@pytest.fixture
def emulator(monkeypatch):
    return Opener(monkeypatch, "emulator")


def test_auto_takes_the_gpu_once(cuda, config):
    config.backend = "auto"
    first = _runtime.current()
    assert first.name == "fake"
    config.fallback = "warn"  # another version, the same backend
    assert _runtime.current() is first
    assert cuda.calls == 1
    assert _runtime.why_host() is None


def test_auto_without_a_gpu_runs_on_the_host_and_says_why(cuda, config):
    cuda.trouble = "there is no driver; install it"
    config.backend = "auto"
    assert _runtime.current() is None
    assert _runtime.why_host() == cuda.trouble
    config.offload_threshold = 0
    assert _runtime.current() is None
    assert cuda.calls == 1  # not searched for again


def test_who_wants_to_know_of_the_host_is_told_once(cuda, config, monkeypatch):
    told = []
    monkeypatch.setattr(hooks, "on_host", [told.append])
    cuda.trouble = "there is no driver; install it"
    config.backend = "host"
    assert _runtime.current() is None
    assert told == []  # which was asked for
    config.backend = "auto"
    _runtime.current()
    config.offload_threshold = 0
    _runtime.current()
    assert told == [cuda.trouble]


def test_explicit_cuda_without_a_gpu_raises(cuda, config):
    cuda.trouble = "there is no driver; install it"
    config.backend = "cuda"
    for _ in range(3):
        with pytest.raises(BackendUnavailable, match="install it"):
            _runtime.current()
    assert cuda.calls == 1
    cuda.trouble = None
    config.backend = "cuda"  # asked for again, looked for again
    assert _runtime.current().name == "fake"


def test_explicit_cuda_after_auto_looks_again(cuda, config):
    cuda.trouble = "the device is busy"
    config.backend = "auto"
    assert _runtime.current() is None
    cuda.trouble = None
    config.backend = "cuda"
    assert _runtime.current() is not None
    config.backend = "auto"
    assert _runtime.current() is not None


def test_host(cuda, config):
    config.backend = "host"
    assert _runtime.current() is None
    assert "OXINP_BACKEND" in _runtime.why_host()
    assert cuda.calls == 0


def test_switching_back_gives_the_same_backend(cuda, emulator, config):
    config.backend = "cuda"
    first = _runtime.current()
    config.backend = "emulator"
    second = _runtime.current()
    config.backend = "cuda"
    assert _runtime.current() is first
    assert first is not second
    assert (cuda.calls, emulator.calls) == (1, 1)


def test_errors_that_are_not_about_availability_pass(cuda, config):
    def broken():
        raise ZeroDivisionError

    sys.modules["fake_cuda"].open_backend = broken
    config.backend = "auto"
    with pytest.raises(ZeroDivisionError):
        _runtime.current()
    assert cuda.calls == 0


def test_many_threads_open_once(cuda, config):
    config.backend = "auto"
    start = threading.Barrier(8)
    got = []

    def work():
        start.wait()
        got.append(_runtime.current())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(backend) for backend in got}) == 1
    assert cuda.calls == 1


def test_import_loads_neither_backend():
    code = """
import sys
import oxinp._runtime
assert not {"oxinp._runtime.cuda", "oxinp._runtime.emulator", "oxinp._driver"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
