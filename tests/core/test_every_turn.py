"""A write of another thread wherever the interpreter may change threads while an array moves: at every call."""

# ruff: noqa: ICN001 - oxinp is np

import sys
import threading
from itertools import product

import numpy
import pytest

import oxinp as np
from oxinp._core.host import sharing
from oxinp._core.lazy import eviction, handle, stores
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.handle import begin_writing, end_writing
from oxinp._core.lazy.placement import device
from oxinp._core.memory import storage
from oxinp._core.ops import index
from tests.comparator import assert_same

ROWS, COLUMNS = 4, 6
OWN, OTHER = 0, 2  # rows of the two threads
BLOCKED_SECONDS = 0.003  # after which a thread counts as one that waits for a lock
TIMEOUT_SECONDS = 60
MOVERS = {module.__file__ for module in (eviction, handle, index, sharing, storage, stores)}


class Turn:
    """Another thread's turn at one of the calls that the functions of `MOVERS` make while a body runs.

    Parameters
    ----------
    body : callable
        Run to its end before the body goes on, unless it waits for a lock.
    number : int
        At which call, from 0.
    """

    def __init__(self, body, number):
        self.thread = threading.Thread(target=self._run, args=(body,), daemon=True)
        self.number = number
        self.num_calls = 0
        self.result = None
        self.errors = []

    def _run(self, body):
        try:
            self.result = body()
        except BaseException as error:  # noqa: BLE001 - raised again below
            self.errors.append(error)

    def _note(self, frame, event, _argument):
        # Where a function of Python's begins, and where one in C has ended: there the interpreter changes threads.
        if event in ("call", "c_return") and frame.f_code.co_filename in MOVERS:
            if self.num_calls == self.number:
                self.thread.start()
                self.thread.join(BLOCKED_SECONDS)
            self.num_calls += 1

    def during(self, body):
        """Run a body to its end, and the other thread's; return whether the first made so many calls."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            body()
        finally:
            sys.setprofile(before)
        has_come = self.num_calls > self.number
        if has_come:
            self.thread.join(TIMEOUT_SECONDS)
            assert not self.thread.is_alive(), "the thread hangs"
        if self.errors:
            raise self.errors[0]
        return has_come


def on_host(theirs):
    with np.config.override(offload_threshold=float("inf")):
        return np.asarray(theirs)


def on_both_sides(theirs):
    x = on_host(theirs)
    np.evaluate(x + 0)
    return x


def outdated_on_the_device(theirs):
    x = on_both_sides(theirs)
    with np.config.override(offload_threshold=float("inf")):
        x[OWN, :2] = theirs[OWN, :2]
    return x


def lent_before(theirs):
    x = on_both_sides(theirs)
    numpy.asarray(x[OWN])
    return x


def on_device(theirs):
    x = on_host(theirs) * 1
    np.evaluate(x)
    return x


STATES = [on_host, on_both_sides, outdated_on_the_device, lent_before, on_device]


def upload(x):
    np.evaluate(x + 0)


def lend(x):
    numpy.asarray(x[OWN])


def change_part(x):
    x[OWN] += 1


def write_elements(x):
    x[OWN, 1] = 50
    x[OWN, 2:4] = 51


def read(x):
    np.asnumpy(x)
    float(x[OWN, 1])
    list(x)


def scatter(x):
    x[[OWN, 1]] = 53


def change_by_itself(x):
    x[OWN] += x[OWN][::-1]


def leave(x):
    attempt(handle._leave, x._storage)


def evict(x):
    del x
    eviction.evict(device(), 1 << 40)


def replace(x):
    x[...] = 54


CHANGES = [change_part, write_elements, scatter, change_by_itself]
MOVES = [upload, lend, read, leave, evict, *CHANGES]


def element(x):
    x[OTHER, 1] = 60


def elements(x):
    x[OTHER, 2:4] = 61


def in_place(x):
    x[OTHER] += 5


def by_numpy(x):
    """Begin a call of NumPy's that writes; return what writes and ends it."""
    held = begin_writing(x[OTHER])

    def end():
        np.evaluate(x + 0)  # which is no reason to keep a copy
        held[3:] = 62
        end_writing(x._storage)

    return end


def by_lending(x):
    """Lend an array to NumPy; return what writes to it there."""
    lent = numpy.asarray(x)

    def end():
        np.evaluate(x + 0)
        lent[OTHER, 3:] = 62

    return end


WRITES = [element, elements, in_place, by_numpy, by_lending]
# The end of what has begun comes after whatever happens to the whole array meanwhile.
SHORT = {*product([upload, lend, read, leave, evict, change_part], [element, by_numpy, by_lending])}
CASES = [
    *[pytest.param(*case, marks=() if case in SHORT else pytest.mark.slow) for case in product(MOVES, WRITES)],
    (replace, by_numpy),
    (replace, by_lending),
]


@pytest.mark.parametrize(("move", "write"), CASES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("state", STATES, ids=lambda body: body.__name__)
def test_no_write_is_lost(config, state, move, write):
    config.offload_threshold = 0
    evict(None)  # what earlier tests hold: its calls are none of these
    number = 0
    has_come = True
    while has_come:
        theirs = numpy.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
        x = state(theirs)
        turn = Turn(lambda x=x: write(x), number)
        has_come = turn.during(lambda x=x: move(x))
        if turn.result is not None:
            turn.result()
        if move in (*CHANGES, replace):
            move(theirs)
        if has_come and write in (by_numpy, by_lending):
            theirs[OTHER, 3:] = 62
        elif has_come:
            write(theirs)
        # The device's side first: of what is lent to NumPy none is kept.
        assert_same(numpy.asarray(x + 0), theirs, where=f"call {number}")
        assert_same(numpy.asarray(x), theirs, where=f"call {number}")
        number += 1
