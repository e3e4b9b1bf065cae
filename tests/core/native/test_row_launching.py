"""Reductions and what is made of them, launched as one by machine code: NumPy's results, and the bits of several."""

import gc
import itertools
import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._config import config
from oxinp._core.lazy import row_launches, rowwise, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.native import objects
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
SIZES = range(2000, 2006)


@pytest.fixture(autouse=True)
def unmerged(monkeypatch):
    """Let no sizes have a kernel of their own, as those that have been met first of all have."""
    rowwise._MERGED.clear()
    monkeypatch.setattr(rowwise, "_is_once", lambda *_: True)


@pytest.fixture
def in_python(monkeypatch):
    """Count what machine code leaves to Python: what is looked for, and what is launched."""
    counts = {"found": 0, "run": 0}
    is_needed, ref = row_launches._is_needed, row_launches.ref

    def found(*given):
        counts["found"] += 1
        return is_needed(*given)

    def run(call):
        counts["run"] += 1
        return ref(call)

    monkeypatch.setattr(row_launches, "_is_needed", found)
    monkeypatch.setattr(row_launches, "ref", run)
    return counts


def vector(xp, size=3000):
    made = xp.array(numpy.random.default_rng(5).random(size))
    if xp is oxinp:
        oxinp.evaluate(made)
    return made


def scaled(xp, x, size):
    return x[:size] / xp.linalg.norm(x[:size])


def shifted(xp, x, size):
    return (x[:size] - xp.max(x[:size])) * 0.5 + x[1 : size + 1]


def reflected(xp, x, size):
    v = x[1 : size + 1].copy()
    v[0] += xp.copysign(xp.linalg.norm(v), v[0])
    return v


def placed(xp, x, size):
    made = xp.ones((4, size))
    made[1, 2] = xp.sqrt(x[:size] @ x[:size]) * 2.0
    made[2, -1] = xp.linalg.norm(x[1 : size + 1])
    return made


PROGRAMS = {program.__name__: program for program in (scaled, shifted, reflected, placed)}


def again(program, x, times=16):
    """Return what a program has made of vectors that have come so often that they are known."""
    for _ in range(times):
        for size in SIZES:
            oxinp.evaluate(program(oxinp, x, size))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_comes_again_is_launched_by_machine_code(program, in_python, monkeypatch):
    x = vector(oxinp)
    with balance.suspended():
        again(program, x)
        in_python.update(found=0, run=0)
        found = []
        for size in SIZES:
            found.append(made := program(oxinp, x, size))
            oxinp.evaluate(made)
    assert in_python == {"found": 0, "run": 0}
    monkeypatch.setattr(row_launches, "row_launch", lambda *_: None)  # reductions run by themselves
    for size, made in zip(SIZES, found, strict=True):
        assert_same(made, program(numpy, vector(numpy), size), ulp=64)
        assert numpy.asarray(made).tobytes() == numpy.asarray(program(oxinp, x, size)).tobytes()


def kernels(xp, points):
    n = len(points)
    made = xp.zeros((n, n))
    for i in range(0, n - 800, 3):
        difference = points[i:] - points[i]
        made[i, i:] = xp.exp(-0.5 * (difference * difference).sum(axis=1))
    return made


def test_what_is_written_of_reductions_is_located_by_machine_code(config):
    config.adaptive_placement = False
    points = numpy.random.default_rng(6).random((860, 12))
    ours = oxinp.array(points)
    oxinp.evaluate(ours)
    assert_same(kernels(oxinp, ours), kernels(numpy, points), ulp=32)  # sums of another order
    entered = []
    sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_name))
    try:
        kernels(oxinp, ours)
    finally:
        sys.setprofile(None)
    assert entered.count("row_launch") > 15
    assert entered.count("setitem") <= 2  # the first, into an array that is not filled yet


def test_a_result_that_an_array_has_is_computed_apart(in_python):
    x, found = vector(oxinp), []
    again(scaled, x)
    in_python.update(found=0)
    for size in SIZES:
        norm = oxinp.sqrt(x[:size] @ x[:size])
        total = x[:size] @ x[:size]
        found.append((total, x[:size] / oxinp.sqrt(total), norm))
        oxinp.evaluate(found[-1][1])
    assert in_python["found"]
    y = vector(numpy)
    for size, (total, made, norm) in zip(SIZES, found, strict=True):
        assert_same(total, y[:size] @ y[:size], ulp=64)
        assert_same(made, scaled(numpy, y, size), ulp=64)
        assert_same(norm, numpy.linalg.norm(y[:size]), ulp=64)


def test_a_result_that_something_else_waits_for_is_not_lost():
    x, found = vector(oxinp), []
    again(scaled, x)
    for size in SIZES:
        norm = oxinp.linalg.norm(x[:size])
        made, other = x[:size] / norm, norm * 3.0
        oxinp.evaluate(made)
        found.append((made, other, oxinp.linalg.norm(x[1:size])))
    y = vector(numpy)
    for size, (made, other, last) in zip(SIZES, found, strict=True):
        assert_same(made, scaled(numpy, y, size), ulp=64)
        assert_same(other, numpy.linalg.norm(y[:size]) * 3.0, ulp=64)
        assert_same(last, numpy.linalg.norm(y[1:size]), ulp=64)


def test_results_that_are_needed_later_as_a_rule_are_left_to_python(in_python):
    x = vector(oxinp)
    again(scaled, x)
    y = vector(numpy)
    for size in SIZES:
        part = x[:size]
        total = part @ part
        made = part / oxinp.sqrt(total)
        _, entries, _ = made._held.value
        kept = [entry.call for entry in entries if getattr(entry, "call", None) is not None]
        del total
        oxinp.evaluate(made)
        for call in kept:
            call.run()
        assert_same(made, scaled(numpy, y, size), ulp=64)
    in_python.update(found=0, run=0)
    for size in SIZES:
        assert_same(scaled(oxinp, x, size), scaled(numpy, y, size), ulp=64)
    assert in_python["run"] == 0


def test_other_settings_are_followed(in_python):
    x = vector(oxinp)
    again(scaled, x)
    config.renew()
    in_python.update(found=0)
    assert_same(scaled(oxinp, x, SIZES[0]), scaled(numpy, vector(numpy), SIZES[0]), ulp=64)
    assert in_python["found"]


def test_what_the_launch_raises_is_raised_and_nothing_is_lost(monkeypatch):
    x = vector(oxinp)
    again(scaled, x)
    made = scaled(oxinp, x, SIZES[0])
    storage = made._held or made._storage
    before = row_launches.row_launch

    def fails(*_):
        raise RuntimeError("no launch")

    def broken(*given):
        found = before(*given)
        return None if found is None else found._replace(run=fails)

    monkeypatch.setattr(row_launches, "row_launch", broken)
    with pytest.raises(RuntimeError, match="no launch"):
        schedule.materialise(storage)
    monkeypatch.setattr(row_launches, "row_launch", before)
    assert storage.value[0].nodes
    assert_same(made, scaled(numpy, vector(numpy), SIZES[0]), ulp=64)


def test_launches_are_counted_and_weighed(monkeypatch):
    x, told = vector(oxinp), []
    again(scaled, x)
    monkeypatch.setattr(balance, "reach", 1 << 40)
    monkeypatch.setattr(balance, "_unit", 1 << 20)
    monkeypatch.setattr(type(balance), "computed_call", lambda *given, **more: told.append((given[1:], more)))
    made = scaled(oxinp, x, SIZES[0])
    balance.each = 1  # the next launch is weighed
    count = oxinp.cuda.stats().launches
    oxinp.evaluate(made)
    assert oxinp.cuda.stats().launches - count == 1
    assert len(told) == 1


def test_no_reference_is_lost_or_kept():
    x = vector(oxinp)
    again(scaled, x)
    kept = row_launches._KNOWN, row_launches.ONE, schedule.PENDING, oxinp.ndarray
    counts = []
    for _ in range(6):
        again(scaled, x)
        again(placed, x)
        gc.collect()
        counts.append((len(gc.get_objects()), *map(sys.getrefcount, kept)))
    assert counts[-2][1:] == counts[-1][1:]
    assert min(after[0] - before[0] for before, after in itertools.pairwise(counts)) < 20  # else launchers are made
