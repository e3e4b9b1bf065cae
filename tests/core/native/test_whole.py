"""Whole arrays that machine code updates in place: NumPy's results and aliasing, and Python's for all else."""

import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
N = 20_000
STATEMENTS = [
    "x += y",
    "x *= 2",
    "x *= 2.5",
    "x -= s",
    "x += x",
    "x += x * y",
    "x *= y + x * 3",
    "x += y; y *= x; x -= y",
    "w = y * 3 + x; x += w; y += w; x *= w",
    "x += y[::-1]",
    "x += x[::-1]",
    "x += one",
    "x //= 3",
    "x **= 2",
    "x += host",
    "x += m[1]",
    "v = x[5:]; x += y; v += 1",
    "old = x * y; x += 1; y -= old",
    "x += True",
    "x += short",
    "x -= y.sum()",
    "x *= y.max(); x -= (x * y).max()",
    "x += x.min()",
    "t = y.max(); x *= t; x -= t; y += t",
]


def given(xp, kind="f8"):
    rng = numpy.random.default_rng(3)
    made = {name: xp.array(rng.integers(1, 9, N).astype(kind)) + 0 for name in "xy"}
    made["m"] = xp.array(rng.integers(1, 9, (3, N)).astype(kind)) + 0
    made["host"] = xp.array(rng.integers(1, 9, N).astype(kind))
    made |= {"one": made["y"][:1], "s": numpy.dtype(kind).type(3), "short": numpy.int16(2)}
    if xp is oxinp:
        oxinp.evaluate(made["x"], made["y"], made["m"])
    return made


def ran(code, xp, kind, times):
    """Return what is there after each time that code has run."""
    names, kept = given(xp, kind), []
    for _ in range(times):
        try:
            exec(code, names)  # noqa: S102 - a table's
        except Exception as error:  # noqa: BLE001 - whatever it is
            kept.append(type(error).__name__)
        kept += [numpy.array(names[name]) if xp is numpy else oxinp.asnumpy(names[name]) for name in "xy"]
    return kept


@pytest.mark.parametrize("kind", ["f8", "f4", "i4"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_updates_are_numpys(statement, kind):
    code = compile(statement, "statement", "exec")
    with numpy.errstate(all="ignore"):
        for one, other in zip(ran(code, oxinp, kind, 5), ran(code, numpy, kind, 5), strict=True):
            if isinstance(other, str):
                assert one == other
            else:
                assert_same(one, other)


@pytest.mark.parametrize("statement", ["x += y", "x *= 0.5 * y + 0.25", "x += y * x; y -= x", "x *= 1.01; x += y"])
def test_chains_that_grow_are_numpys(statement):
    code = compile(f"for i in range(40):\n    {statement}\n    x *= 1e-2", "statement", "exec")
    for one, other in zip(ran(code, oxinp, "f8", 4), ran(code, numpy, "f8", 4), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("statement", ["x += y", "x *= 0.5", "x += y * x", "x -= y; y += x", "x -= y.max()"])
def test_no_function_is_entered_for_what_has_been_met(statement):
    entered = []
    code = compile(f"{statement}\nevaluate(x, y)", "statement", "exec")
    names = {**given(oxinp), "evaluate": oxinp.evaluate}

    def note(frame, event, argument):
        del argument
        if event == "call" and frame.f_code.co_name in {"operator", "general_in_place", "_update_whole", "renew"}:
            entered.append(frame.f_code.co_name)

    with balance.suspended():
        for turn in range(12):
            if turn == 8:
                sys.setprofile(note)
            try:
                exec(code, names)  # noqa: S102 - a table's
            finally:
                if turn == 11:
                    sys.setprofile(None)
    assert not entered


def test_what_was_recorded_of_the_old_value_keeps_it():
    names, expected = given(oxinp), given(numpy)
    for _ in range(6):
        results = []
        for made in (names, expected):
            x, y = made["x"], made["y"]
            before = x * 2
            x += y
            results.append((before, x))
        for one, other in zip(*results, strict=True):
            assert_same(one, other)


def test_what_is_refused_changes_nothing():
    x, y = given(oxinp, "i4")["x"], given(oxinp)["y"]
    before = oxinp.asnumpy(x)
    for _ in range(4):
        with pytest.raises(TypeError):
            x += y
        with pytest.raises(TypeError):
            x *= 0.5
    assert_same(x, before)


def test_the_lock_is_not_waited_for(held_elsewhere):
    names = given(oxinp)
    x, y = names["x"], names["y"]
    expected = oxinp.asnumpy(x) + 7 * oxinp.asnumpy(y)
    for _ in range(6):
        x += y
    with held_elsewhere(0.2):
        x += y
    assert_same(x, expected)


def test_references_are_given_back():
    names = given(oxinp)
    x, y = names["x"], names["y"]
    counts = []
    for _ in range(5):
        for _ in range(20):
            x += y
            x *= 0.5
            y += x * y
            y *= 1e-6
        oxinp.evaluate(x, y)
        counts.append([sys.getrefcount(each) for each in (x, y, x._storage, x._storage.value[0], y._known)])
    assert counts[3] == counts[4]


def test_room_is_made_among_what_is_pending():
    x = given(oxinp)["x"]
    expected = oxinp.asnumpy(x)
    for _ in range(schedule.MAX_PENDING // 20):
        for _ in range(25):
            x += 1.0
        oxinp.evaluate(x)
    assert len(schedule.PENDING) <= schedule.MAX_PENDING + 1
    assert_same(x, expected + 25.0 * (schedule.MAX_PENDING // 20))


@pytest.mark.parametrize("is_host", [False, True], ids=["of the device", "of the host"])
@pytest.mark.parametrize(
    "code",
    [
        "(x * b + y * b) + z * x",
        "x + b * (y + b * z) + x * w",
        "(x + b * (y + b * z)) * (x + w)",
        "(x*b + y*b) - (y - w)",
    ],
)
def test_what_is_twice_among_the_leaves_of_the_first(code, is_host):
    given = [numpy.random.default_rng(n).random(500) for n in range(4)]
    mine = [oxinp.asarray(each) + 0 for each in given]
    oxinp.evaluate(*mine)
    expected = eval(code, dict(zip("xyzwb", (*given, (given[0] ** 2).sum()), strict=True)))  # noqa: S307
    for _ in range(20):
        b = (mine[0] ** 2).sum()
        found = eval(code, dict(zip("xyzwb", (*mine, float(b) if is_host else b), strict=True)))  # noqa: S307
        numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=1e-12)
