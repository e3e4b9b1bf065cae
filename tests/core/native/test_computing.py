"""Pending chains that machine code computes: NumPy's results, and what Python knows of them after that."""

import gc
import sys
import threading

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import Missing
from oxinp._core.lazy.calls import CALLS
from oxinp._core.lazy.chains import ONCE, ByArithmetic
from oxinp._core.lazy.executor import Executable
from oxinp._core.lazy.op import RENTED
from oxinp._core.native import objects
from oxinp._runtime.backend import FIRST_LOCK
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
N = 96


@pytest.fixture
def in_python(monkeypatch):
    """Count what machine code leaves to Python."""
    counts = []
    before = schedule.compute

    def counted(storage):
        counts.append(storage)
        return before(storage)

    monkeypatch.setattr(schedule, "compute", counted)
    return counts


def arrays(xp):
    rng = numpy.random.default_rng(4)
    given = {name: xp.array(rng.random(shape)) + 0.0 for name, shape in (("a", (N, N)), ("b", (N, N)), ("c", N))}
    if xp is oxinp:
        oxinp.evaluate(*given.values())
    return {"np": xp, **given}


def pending(expression, given):
    """Return an array that has not been computed, and what holds it."""
    array = eval(expression, given)  # noqa: S307 - one of the table's
    return array, array._held or array._storage


def numpys(expression):
    """Return what NumPy makes of an expression."""
    return eval(expression, arrays(numpy))  # noqa: S307 - one of the table's


EXPRESSIONS = [
    "a * 2.0",
    "a + b * c",
    "np.exp(a)",
    "a[1:] - a[:-1]",
    "(a > b) & (b > 0.5)",
    "a.T * 0.5 + b",
    "a[::2, ::-1] * b[1::2]",
    "a * True + 1.5",
    "np.float32(0.5) * a",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_chains_that_have_programs_are_computed_by_machine_code(expression, in_python):
    given, found = arrays(oxinp), []
    with balance.suspended():
        for turn in range(40):
            if turn == 20:
                in_python.clear()
            array, storage = pending(expression, given)
            value = schedule.materialise(storage)
            assert value is storage.value
            assert not value[0].nodes
            found.append(array)
    assert not in_python
    wanted = numpys(expression)
    for array in found:
        assert_same(array, wanted, ulp=4)


LINES = [
    "a[0, k:] * 2.0",
    "a[k:, 1].copy()",
    "a[k:, 1] + b[1, k:] * c[: N - k]",
    "c[k:] - c[: N - k] * 0.5",
    "a[0, : N - k][::-1] * True",
]


@pytest.mark.parametrize("expression", LINES)
def test_lines_of_ever_new_lengths_are_computed_by_machine_code(expression, in_python):
    given, found = arrays(oxinp) | {"N": N}, []
    for k in (*range(10), *range(10, N // 2), *range(10, N // 2)):
        if k == 10:
            in_python.clear()
        given["k"] = k
        array, storage = pending(expression, given)
        value = schedule.materialise(storage)
        assert value is storage.value
        assert not value[0].nodes
        found.append((k, array))
    assert not in_python
    for k, array in found:
        assert_same(array, eval(expression, arrays(numpy) | {"N": N, "k": k}))  # noqa: S307 - one of the table's


def test_what_runs_by_arithmetic_gets_a_program_as_in_python(in_python):
    given = arrays(oxinp)
    for k in range(1, 9):
        schedule.materialise(pending(f"c[{k}:] * 0.25", given)[1])
    for _ in range(2 * RENTED):
        in_python.clear()
        array, storage = pending("c[11:] * 0.25", given)
        graph = storage.value[0]
        before = graph.program
        schedule.materialise(storage)
        if before is None:
            assert graph.program is ONCE
            assert not in_python
        elif type(before) is ByArithmetic:
            assert graph.program is before.later or type(graph.program) is Executable
            assert bool(in_python) == (before.later is None)
        else:
            assert graph.program is before
            assert not in_python
        assert_same(array, numpys("c[11:] * 0.25"))
    assert type(graph.program) is Executable


def test_a_line_is_weighed_as_the_first_of_its_length_once(monkeypatch):
    given, told, wanted = arrays(oxinp), [], []
    given["c"] = oxinp.ones(1013) * 3.0  # a length that no other test has
    oxinp.evaluate(given["c"])
    for k in range(1, 9):
        schedule.materialise(pending(f"c[{k}:] * 0.125", given)[1])
    monkeypatch.setattr(balance, "reach", 1 << 40)
    monkeypatch.setattr(balance, "_unit", 1 << 20)
    monkeypatch.setattr(type(balance), "computed_chain", lambda *_, is_first, **__: told.append(is_first))
    for _ in range(6):
        balance.each = 1  # the next launch is weighed
        _, storage = pending("c[13:] * 0.125", given)
        wanted.append(storage.value[0].program is None)
        schedule.materialise(storage)
    assert told == wanted
    assert set(wanted) == {True, False}


def known(expression="a * 2.0 + b"):
    """Return arrays for which an expression has a program, whose settings nobody changes meanwhile."""
    given = arrays(oxinp)
    for _ in range(20):
        schedule.materialise(pending(expression, given)[1])
    return given


def test_launches_are_counted_and_weighed(monkeypatch):
    given, sizes = known(), []
    before = type(balance).ran

    def ran(self, *told):
        sizes.append(before(self, *told))
        return sizes[-1]

    monkeypatch.setattr(type(balance), "ran", ran)
    _, storage = pending("a * 2.0 + b", given)
    count = oxinp.cuda.stats().launches
    schedule.materialise(storage)
    assert oxinp.cuda.stats().launches - count == 1
    assert sizes == [(N * N * 8 // config.offload_threshold).bit_length()] if config.offload_threshold else [11]


def test_what_else_is_pending_is_left_to_python(in_python):
    given = known()
    others = [pending("a * 2.0 + b", given) for _ in range(3)]
    in_python.clear()
    schedule.materialise(others[1][1])
    assert in_python
    assert all(storage.value[0].nodes for _, storage in (others[0], others[2]))
    wanted = numpys("a * 2.0 + b")
    for array, _ in others:
        assert_same(array, wanted)


def test_what_is_gone_or_computed_is_not_pending_any_more(in_python):
    given = known()
    kept = [pending("a * 2.0 + b", given)[1] for _ in range(2)]
    schedule.materialise(kept[0])
    schedule.materialise(kept[1])
    for _ in range(5):
        pending("a * 2.0 + b", given)  # which goes at once
    array, storage = pending("a * 2.0 + b", given)
    in_python.clear()
    schedule.materialise(storage)
    assert not in_python
    assert not schedule.PENDING
    assert_same(array, numpys("a * 2.0 + b"))


def test_an_interior_value_that_is_held_is_computed_too(in_python):
    given = known()
    inner, held = pending("a * 2.0 + b", given)
    given["inner"] = inner
    outer, storage = pending("inner * 0.5", given)
    in_python.clear()
    schedule.materialise(storage)
    assert in_python
    assert not held.value[0].nodes
    assert_same(outer, numpys("(a * 2.0 + b) * 0.5"))


def test_calls_that_wait_are_left_to_python(in_python):
    given = known()
    total = given["a"].sum(axis=0)
    assert CALLS
    array, storage = pending("a * 2.0 + b", given)
    in_python.clear()
    schedule.materialise(storage)
    assert in_python
    assert_same(array, numpys("a * 2.0 + b"))
    assert_same(total, arrays(numpy)["a"].sum(axis=0), ulp=200)


def test_single_elements_and_other_settings_are_left_to_python(in_python):
    given = known()
    array, storage = pending("a * 2.0 + b", given)
    config.renew()
    in_python.clear()
    schedule.materialise(storage)
    assert in_python
    assert_same(array, numpys("a * 2.0 + b"))
    given = known("a[:1, :1] * 2.0")
    array, storage = pending("a[:1, :1] * 2.0", given)
    in_python.clear()
    schedule.materialise(storage)
    assert in_python
    assert_same(array, numpys("a[:1, :1] * 2.0"))


def test_another_thread_s_lock_is_waited_for(held_elsewhere):
    given = known()
    array, storage = pending("a * 2.0 + b", given)
    with held_elsewhere(0.2):
        schedule.materialise(storage)
    assert_same(array, numpys("a * 2.0 + b"))


def broken(storage, launch):
    """Let the program of a pending chain be launched by something else; return that and what it had."""
    program = storage.value[0].program
    before, program.launch = program.launch, launch
    return program, before


def test_what_the_launch_raises_is_raised_and_nothing_is_lost():
    given = known()
    array, storage = pending("a * 2.0 + b", given)

    def fails(*_):
        raise RuntimeError("no launch")

    program, before = broken(storage, fails)
    try:
        with pytest.raises(RuntimeError, match="no launch"):
            schedule.materialise(storage)
    finally:
        program.launch = before
    assert storage.value[0].nodes
    assert any(reference() is storage for reference in schedule.PENDING)
    given["a"][:] = 0.0  # what is pending is computed before
    assert_same(array, numpys("a * 2.0 + b"))


def test_what_is_to_be_built_is_built_without_the_lock():
    given, is_built = known(), []
    array, storage = pending("a * 2.0 + b", given)

    def build():
        def take():
            if FIRST_LOCK.acquire(timeout=10):
                FIRST_LOCK.release()
                is_built.append(True)

        other = threading.Thread(target=take)
        other.start()
        other.join()

    def misses(*values):
        if not is_built:
            raise Missing(build)
        before(*values)

    program, before = broken(storage, misses)
    try:
        schedule.materialise(storage)
    finally:
        program.launch = before
    assert is_built == [True]
    assert_same(array, numpys("a * 2.0 + b"))


def test_no_reference_is_lost_or_kept():
    given = known()
    counts = []
    for _ in range(3):
        for _ in range(200):
            _, storage = pending("a * 2.0 + b", given)
            schedule.materialise(storage)
        del storage, _
        gc.collect()
        counts.append((len(gc.get_objects()), sys.getrefcount(schedule.PENDING), sys.getrefcount(oxinp.ndarray)))
    assert counts[1][1:] == counts[2][1:]
    assert counts[2][0] - counts[1][0] < 20
