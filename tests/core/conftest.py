"""What the tests of the core share: twin runs, and counts of launches and of kernels."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import sys
from pathlib import Path

import numpy
import pytest

import oxinp
from oxinp import _runtime
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from tests.comparator import same_outcome


@pytest.fixture(autouse=True)
def nothing_pending():
    """Begin and end without work that an earlier test left behind."""
    oxinp.evaluate()
    yield
    oxinp.evaluate()
    assert not schedule.pending_storages()


@pytest.fixture
def twin():
    """Return a function that runs a body under oxinp and NumPy and compares the outcomes, exceptions included."""

    def run(body, ulp=0):
        with numpy.errstate(all="ignore"):
            return same_outcome(body, oxinp, numpy, ulp)

    return run


@pytest.fixture
def unwatched(monkeypatch, one_stream):  # noqa: ARG001 - what it forgets
    """Have work launched as where neither streams have been used nor memory has been short, as in tests before it."""
    pool = _runtime.current().pool
    if pool.notes_uses:  # an earlier test was short of memory, since when launches are watched
        monkeypatch.setattr(pool, "notes_uses", False)
        oxinp.config.renew()


@pytest.fixture
def launches(stats, unwatched):  # noqa: ARG001 - what it forgets
    """Return a function that runs a body, computes what it returns, and returns the launches that took."""

    def count(body):
        oxinp.evaluate()
        before = stats().launches
        result = body()
        oxinp.evaluate(*(result if isinstance(result, tuple) else (result,)))
        return stats().launches - before

    return count


@pytest.fixture
def uploaded_at_once(monkeypatch):
    """Let small arrays be uploaded as others are, by `upload`."""
    monkeypatch.setitem(vars(_runtime.current()), "upload_brief", lambda *_: False)


@pytest.fixture
def entered(unwatched):  # noqa: ARG001 - what it forgets
    """Return a function that runs a body, and returns the names of the functions of the core that it enters."""

    def names(body):
        found = []

        def enter(frame, event, _):
            name = frame.f_code.co_name
            is_own = event == "call" and not name.endswith("comp>")  # comprehensions are no functions from 3.12 on
            if is_own and {"oxinp", "_core"} <= {*Path(frame.f_code.co_filename).parts}:
                found.append(name)

        balance.each = 0  # as in the middle of a program
        sys.setprofile(enter)
        try:
            body()
        finally:
            sys.setprofile(None)
        return found

    return names


@pytest.fixture
def kernels(monkeypatch):
    """Return the set of the PTX texts that launchers are made for from now on."""
    backend = _runtime.current()
    texts = set()
    make = backend.launcher

    def launcher(kernel, *rest):
        texts.add(kernel.ptx)
        return make(kernel, *rest)

    monkeypatch.setitem(vars(backend), "launcher", launcher)  # which leaves nothing behind
    oxinp.config.renew()  # for kernels that are loaded
    return texts
