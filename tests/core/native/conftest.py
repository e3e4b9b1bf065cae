"""What the tests of machine code share."""

import contextlib
import threading

import pytest

import oxinp
from oxinp._core.native import install
from oxinp._runtime.backend import FIRST_LOCK


@pytest.fixture
def written():
    """Have all code written."""
    install.install(oxinp.ndarray)


@pytest.fixture
def held_elsewhere():
    """Return what another thread holds the device's lock in, for so many seconds at most."""

    @contextlib.contextmanager
    def held(seconds):
        is_held, is_over = threading.Event(), threading.Event()

        def hold():
            with FIRST_LOCK:
                is_held.set()
                is_over.wait(seconds)

        holder = threading.Thread(target=hold)
        holder.start()
        is_held.wait()
        try:
            yield
        finally:
            is_over.set()
            holder.join()

    return held
