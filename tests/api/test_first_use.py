"""The first use of a function from several threads at once."""

import threading

import numpy as np
import pytest

import oxinp
from oxinp._api import rebound
from tests.comparator import assert_same
from tests.patience import PATIENCE


@pytest.fixture
def nothing_bound(monkeypatch):
    """Forget the modules of NumPy's whose functions were bound to ours."""
    monkeypatch.setattr(rebound, "_bound", {})


@pytest.mark.usefixtures("nothing_bound")
def test_a_function_is_used_while_another_thread_binds_its_module(monkeypatch):
    is_binding, go_on = threading.Event(), threading.Event()
    bind = rebound._ours

    def slow(value):
        if threading.current_thread().name == "first" and not is_binding.is_set():
            is_binding.set()
            assert go_on.wait(PATIENCE)
        return bind(value)

    monkeypatch.setattr(rebound, "_ours", slow)
    results = {}

    def use():
        try:
            results[threading.current_thread().name] = rebound.rebound(np.diff)(oxinp.arange(5.0))
        except BaseException as error:  # noqa: BLE001 - compared below
            results[threading.current_thread().name] = error

    threads = [threading.Thread(target=use, name=name, daemon=True) for name in ("first", "second")]
    threads[0].start()
    assert is_binding.wait(PATIENCE)
    threads[1].start()
    threads[1].join(PATIENCE)
    go_on.set()
    threads[0].join(PATIENCE)
    for name in ("first", "second"):
        assert_same(results[name], np.ones(4), where=name)
