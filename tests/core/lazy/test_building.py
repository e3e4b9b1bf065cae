"""What is missing is built outside the lock: nobody else waits for a compiler."""

import threading
from types import FunctionType

import pytest

import oxinp as np
from oxinp._core.lazy.building import Missing, attempt, missing, spells_attempt
from oxinp._core.lazy.executor import Executable
from oxinp._runtime.backend import FIRST_LOCK
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: np.evaluate(x * 3 - 1),
        lambda x: np.evaluate((x * 3 - 1).sum()),
        lambda x: x.__setitem__(slice(1, None), x[:-1] * 3 - 1),
    ],
    ids=["chain", "reduction", "write"],
)
def test_compiled_kernels_run_while_another_thread_compiles(ask, config, monkeypatch):
    config.offload_threshold = 0
    x, y = np.arange(50.0), np.arange(60.0)
    np.evaluate(x, y)
    np.evaluate(y + 1)  # compiled
    building_now, may_end = threading.Event(), threading.Event()
    make = Executable.__init__

    def slow(self, *args):
        if threading.current_thread().name == "builder":
            building_now.set()
            assert may_end.wait(PATIENCE)
        make(self, *args)

    monkeypatch.setattr(Executable, "__init__", slow)
    thread = threading.Thread(target=ask, args=(x,), name="builder")
    thread.start()
    assert building_now.wait(PATIENCE)
    done = threading.Event()
    other = threading.Thread(target=lambda: (np.evaluate(y + 1), done.set()))
    other.start()
    is_done = done.wait(PATIENCE)
    may_end.set()
    thread.join(PATIENCE)
    other.join(PATIENCE)
    assert is_done


def test_an_attempt_is_repeated_when_what_it_misses_is_built():
    built, tries = [], []

    def body(number):
        tries.append(FIRST_LOCK._is_owned())
        if not built:
            missing(lambda: built.append(FIRST_LOCK._is_owned()))
        return number

    assert attempt(body, 7) == 7
    assert tries == [True, True]
    assert built == [False]


def as_ours(function):
    """The function as if it stood in a module of ours: other code inside of an attempt is a finaliser's."""
    given = {**globals(), "__name__": "oxinp.module"}
    return FunctionType(function.__code__, given, closure=function.__closure__)


def test_an_attempt_inside_another_is_repeated_with_it():
    built, tries = [], []

    def inner():
        if not built:
            missing(lambda: built.append(FIRST_LOCK._is_owned()))
        return 5

    def outer():
        tries.append(None)
        return attempt(inner)

    assert attempt(as_ours(outer)) == 5
    assert len(tries) == 2
    assert built == [False]


@pytest.mark.parametrize("is_outer", [True, False])
def test_what_spells_an_attempt_out_is_one(is_outer):
    """What is missing inside of it is built outside of the lock, whichever of two is the outer one."""
    built, tries = [], []

    def inner():
        if not built:
            missing(lambda: built.append(FIRST_LOCK._is_owned()))
        return 5

    def spelled(body):
        tries.append(None)
        try:
            with FIRST_LOCK:
                return body()
        except Missing:
            return attempt(body)

    spells_attempt(spelled)
    ours = as_ours(spelled)
    found = ours(as_ours(lambda: attempt(inner))) if is_outer else attempt(as_ours(lambda: ours(inner)))
    assert found == 5
    assert len(tries) == 2 - is_outer
    assert built == [False]


def test_what_is_in_no_attempt_builds_at_once():
    built = []
    missing(lambda: built.append(FIRST_LOCK._is_owned()))
    assert built == [False]


def test_an_error_ends_an_attempt():
    def body():
        raise MemoryError

    with pytest.raises(MemoryError):
        attempt(body)
    assert not FIRST_LOCK._is_owned()
