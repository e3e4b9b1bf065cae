"""Calls that machine code records again: shifts along an axis, and arrays that are filled like others."""

import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._config import config
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
CALLS = [
    "xp.roll(a, 1, 0)",
    "xp.roll(a, -1, axis=1)",
    "xp.roll(a, 0, 0)",
    "xp.roll(a, 160, 0)",
    "xp.roll(a, 3, -1)",
    "xp.roll(a * b, 5, 1)",
    "xp.roll(a.T, 1, 0)",
    "xp.roll(a[1:], 1, 0)",
    "xp.roll(a[:, 1:], 1, 1)",
    "xp.roll(a, True, 0)",
    "xp.roll(a, 1, True)",
    "xp.roll(a, 1.0, 0)",
    "xp.roll(a, 1, 2)",
    "xp.roll(a, (1, 2), (0, 1))",
    "xp.roll(a, 7)",
    "xp.roll(a, shift=7, axis=0)",
    "xp.roll(a - b, 1, 0) + xp.roll(a - b, -1, 0)",
    "xp.roll(a[::2, ::3], (1, 2), axis=(0, 1))",
    "xp.roll(a[::2, ::3], (xp.int64(1), 2), (0, -1))",
    "xp.roll(a[::2, ::3], 5, 1)",
    "xp.roll(a[::2, ::3], (1.0, 2), axis=(0, 1))",
    "xp.roll(a, (True, 2), (0, 1))",
    "xp.roll(a, (1, 2), (0.0, 1))",
    "xp.roll(a, (160, 170), (0, 1))",
    "xp.roll(a[:, ::2] * 2, (1, 2), (0, 1))",
    "xp.zeros_like(a)",
    "xp.ones_like(a)",
    "xp.zeros_like(a[1:])",
    "xp.zeros_like(a[:, 1:])",
    "xp.ones_like(a.T)",
    "xp.zeros_like(a, 'i4')",
    "xp.zeros_like(a) + a",
    "xp.zeros_like(a * b)",
]


def given(xp, kind):
    rng = numpy.random.default_rng(3)
    made = {name: xp.array(rng.integers(0, 9, (160, 170)).astype(kind)) + xp.zeros(1, kind) for name in "ab"}
    if xp is oxinp:
        oxinp.evaluate(*made.values())
    return made | {"xp": xp}


def ran(code, xp, kind):
    """Return what comes of code that runs some times, and of what has been updated in between."""
    names, kept = given(xp, kind), []
    for _ in range(5):
        try:
            kept.append(eval(code, names))  # noqa: S307 - a table's
        except Exception as error:  # noqa: BLE001 - whatever it is
            kept.append(type(error).__name__)
            continue
        names["a"] += names["b"]
        kept[-1][0] += kept[-1][1]
    return kept


@pytest.mark.parametrize("kind", ["f8", "f4", "u1", "c16"])
@pytest.mark.parametrize("called", CALLS)
def test_results_are_numpys(called, kind):
    code = compile(called, "called", "eval")
    for one, other in zip(ran(code, oxinp, kind), ran(code, numpy, kind), strict=True):
        if isinstance(other, str):
            assert one == other
        else:
            assert_same(one, other)
            assert one.strides == other.strides


@pytest.mark.parametrize("called", ["xp.roll(a, 1, 0)", "xp.roll(b, shift, axis=1)", "xp.zeros_like(a)"])
def test_no_function_is_entered_for_what_has_been_met(called):
    names, entered = given(oxinp, "f8"), []
    code = compile(called, "called", "eval")

    def note(frame, event, argument):
        del argument
        if event == "call":
            entered.append(frame.f_code.co_name)

    with balance.suspended():
        for turn in range(6):
            names["shift"] = 1 - 2 * (turn % 2)
            sys.setprofile(note if turn > 3 else None)
            try:
                eval(code, names)  # noqa: S307 - a table's
            finally:
                sys.setprofile(None)
    assert set(entered) == {"<module>"}


def test_arrays_are_filled_where_they_belong_by_now():
    a = given(oxinp, "f8")["a"]
    for _ in range(4):
        assert oxinp.zeros_like(a)._storage.host is None
    before = config.offload_threshold
    try:
        config.offload_threshold = 1 << 30
        assert oxinp.zeros_like(a)._storage.host is not None
    finally:
        config.offload_threshold = before


def test_references_are_given_back():
    a = given(oxinp, "f8")["a"]
    counts = []
    for _ in range(4):
        for _ in range(20):
            oxinp.roll(a, 1, 0)
            oxinp.roll(a * 2, 1, axis=0)
            oxinp.ones_like(a)
        oxinp.evaluate()
        counts.append([sys.getrefcount(each) for each in (a, a._storage, a._storage.value[1][0], a._known)])
    assert counts[2] == counts[3]


@pytest.mark.parametrize("part", ["a", "a[1:]", "a[:, 1:]", "a.T", "a > 3", "a.astype('f2')", "a[3, 4:5].reshape(())"])
@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_arrays_like_others_are_their_own(name, part):
    made = []
    for xp in (oxinp, numpy):
        like = eval(part, given(xp, "f8"))  # noqa: S307 - a table's
        kept = [getattr(xp, name)(like) for _ in range(4)]
        for i, each in enumerate(kept):
            each[...] = i
        made.append(kept)
    for one, other in zip(*made, strict=True):
        assert type(one) is oxinp.ndarray
        assert one.strides == other.strides
        assert_same(one, other)
