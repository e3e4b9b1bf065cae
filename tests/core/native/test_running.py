"""Calls that machine code runs: NumPy's results, and what Python knows of them after that."""

import gc
import threading
import weakref

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._config import config
from oxinp._core.lazy import executor, schedule
from oxinp._core.lazy.balance import SAMPLED, Balance, balance
from oxinp._core.lazy.building import Missing
from oxinp._core.lazy.calls import CALLS, Call, Pending
from oxinp._core.native import objects
from oxinp._runtime.backend import FIRST_LOCK
from tests.comparator import assert_same

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
N = 48


@pytest.fixture
def in_python(monkeypatch):
    """Count what machine code leaves to Python."""
    counts = []
    before = Call._run

    def counted(call):
        if call.leaves is not None:
            counts.append(call)
        return before(call)

    monkeypatch.setattr(Call, "_run", counted)
    return counts


def arrays(xp):
    rng = numpy.random.default_rng(4)
    given = {"a": rng.integers(0, 9, (N, N)) + 0.0, "b": rng.integers(0, 9, (N, N)) + 0.0, "c": numpy.arange(3.0 * N)}
    made = {name: xp.array(array) + 0.0 for name, array in given.items()}
    if xp is oxinp:
        oxinp.evaluate(*made.values())
    return {"np": xp, **made}


def waiting(expression, given):
    """Return an array of what a call waits to compute, and the call."""
    array = eval(expression, given)  # noqa: S307 - one of the table's
    return array, (array._held or array._storage).value[1][0].call


EXPRESSIONS = [
    "a.sum(axis=0)",
    "a.max(axis=1)",
    "a.sum()",
    "a @ b",
    "(a * 2.0 + b) @ a",
    "(a + 1.0).sum(axis=1)",
    "np.cumsum(c)",
    "np.sort(c)",
    "(a @ b).sum(axis=0)",
    "(a @ b) @ (b @ a)",
    "np.linalg.norm(a.sum(axis=0))",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_has_run_before_gives_numpy_s_results(expression):
    given, found = arrays(oxinp), []
    for _ in range(40):
        array, _ = eval(expression, given), gc.collect(0)  # noqa: S307 - one of the table's
        oxinp.evaluate(array)
        found.append(array)
    wanted = eval(expression, arrays(numpy))  # noqa: S307 - one of the table's
    for array in found:
        assert_same(array, wanted, ulp=4)
    assert not CALLS


@pytest.mark.parametrize("expression", ["a.sum(axis=0)", "a.max(axis=1)", "(a + 1.0).sum(axis=1)"])
def test_machine_code_runs_what_has_run_before(expression, in_python):
    given = arrays(oxinp)
    for turn in range(40):
        array, call = waiting(expression, given)
        count = oxinp.cuda.stats().launches
        if turn == 30:
            in_python.clear()
        call.run()
        value = array._storage.value
        assert call.leaves is None
        assert call not in [reference() for reference in CALLS]
        assert value[1][0].call is None
        assert value[1][0].ptr == value[1][0]._buffer.ptr
        assert value[1][0].nbytes == value[1][0]._buffer.nbytes
        assert oxinp.cuda.stats().launches > count
        call.run()  # which does nothing
    assert not in_python
    assert_same(array, eval(expression, arrays(numpy)))  # noqa: S307 - one of the table's


@pytest.mark.parametrize("inner", ["a * 2.0 + b", "a.sum(axis=1)"])
def test_several_results_of_a_launch_are_computed_by_machine_code(inner, entered):
    outer, given = "np.exp(inner * -0.125) * 0.5", arrays(oxinp)

    def pair():
        held = eval(inner, given)  # noqa: S307 - one of the table's
        return held, eval(outer, {**given, "inner": held})  # noqa: S307 - one of the table's

    for _ in range(60):
        held, made = pair()
        oxinp.evaluate(made)
        assert not held._storage.value[0].nodes
    held, made = pair()
    names = entered(lambda: oxinp.evaluate(made))
    assert "compute" in names or "run_with_interior" in names  # which ask for it
    assert "run_all" not in names
    wanted = eval(inner, arrays(numpy))  # noqa: S307 - one of the table's
    assert_same(held, wanted)
    assert_same(made, eval(outer, {"np": numpy, "inner": wanted}), ulp=4)  # noqa: S307 - one of the table's


@pytest.mark.parametrize("failing", [1, 2])
def test_memory_that_is_lacking_for_one_of_several_results_leaves_nothing(failing):
    given = arrays(oxinp)
    for _ in range(40):
        held = given["a"] * 2.0 + given["b"]
        oxinp.evaluate(made := held * 0.5)
    held = given["a"] * 2.0 + given["b"]
    made = held * 0.5
    (program,) = [each for each in made._storage.value[0].programs.values() if type(each) is executor.Executable]
    before, count = program.allocate, [0]

    def allocates(nbytes):
        count[0] += 1
        if count[0] == failing:
            raise MemoryError("no more")
        return before(nbytes)

    program.allocate = allocates
    try:
        with pytest.raises(MemoryError, match="no more"):
            oxinp.evaluate(made)
    finally:
        program.allocate = before
    assert held._storage.value[0].nodes
    given_before = arrays(numpy)
    assert_same(made, (given_before["a"] * 2.0 + given_before["b"]) * 0.5)
    assert_same(held, given_before["a"] * 2.0 + given_before["b"])


def known(expression="a.sum(axis=0)"):
    """Return arrays on which a call has run often."""
    given = arrays(oxinp)
    for _ in range(20):
        waiting(expression, given)[1].run()
    return given


def test_what_a_call_waits_for_is_computed_before(in_python):
    given = known()
    total, first = waiting("a.sum(axis=0)", given)
    given["total"] = total
    for _ in range(20):
        waiting("total.sum()", given)[1].run()
    given["total"], first = waiting("a.sum(axis=0)", given)
    array, last = waiting("total.sum()", given)
    in_python.clear()
    last.run()
    assert not in_python
    assert first.leaves is None
    assert_same(array, arrays(numpy)["a"].sum())


def test_a_result_that_is_gone_is_left_to_python(in_python):
    given = known()
    array, call = waiting("a.sum(axis=0)", given)
    del array
    gc.collect()
    in_python.clear()
    call.run()
    assert in_python
    assert call.buffers is not None


def test_results_keep_nothing_that_they_have_been_computed_from():
    given = known()
    array, call = waiting("(a * 1.0).sum(axis=0)", {**given})
    gone = weakref.ref(call)
    call.run()
    del call
    assert gone() is None
    assert_same(array, arrays(numpy)["a"].sum(axis=0))


def test_other_settings_are_left_to_python(in_python):
    given = known()
    array, call = waiting("a.sum(axis=0)", given)
    config.renew()
    in_python.clear()
    call.run()
    assert in_python
    assert_same(array, arrays(numpy)["a"].sum(axis=0))


def test_another_thread_s_lock_is_waited_for(held_elsewhere):
    given = known()
    array, call = waiting("a.sum(axis=0)", given)
    with held_elsewhere(0.2):
        call.run()
    assert_same(array, arrays(numpy)["a"].sum(axis=0))


@pytest.mark.parametrize("name", ["launch", "allocate"])
def test_what_is_raised_is_raised_and_the_call_waits_again(name):
    given = known()
    array, call = waiting("a.sum(axis=0)", given)

    def fails(*_):
        raise RuntimeError("not now")

    executable = call.bound.direct
    before = getattr(executable, name)
    setattr(executable, name, fails)
    try:
        with pytest.raises(RuntimeError, match="not now"):
            call.run()
    finally:
        setattr(executable, name, before)
    assert call.leaves is not None
    assert [reference() for reference in CALLS] == [call]
    given["a"][:] = 0.0  # what waits is computed before
    assert_same(array, arrays(numpy)["a"].sum(axis=0))


def test_what_is_to_be_built_is_built_without_the_lock():
    given, is_built = known(), []
    array, call = waiting("a.sum(axis=0)", given)

    def build():
        def take():
            if FIRST_LOCK.acquire(timeout=10):
                FIRST_LOCK.release()
                is_built.append(True)

        other = threading.Thread(target=take)
        other.start()
        other.join()

    executable = call.bound.direct
    before = executable.launch

    def misses(*values):
        if not is_built:
            raise Missing(build)
        before(*values)

    executable.launch = misses
    try:
        call.run()
    finally:
        executable.launch = before
    assert is_built
    assert call.leaves is None
    assert_same(array, arrays(numpy)["a"].sum(axis=0))


def test_what_many_calls_wait_for_is_asked_for_once_and_built():
    given = arrays(oxinp)
    expression = "np.cumsum(total * 0.5)"

    def chain():
        made = given["c"]
        for _ in range(14):
            made = eval(expression, {**given, "total": made})  # noqa: S307 - one of the table's
        return made

    for _ in range(12):
        oxinp.evaluate(chain())
    made, tries, is_built = chain(), [], []
    (first,) = [call for call in [reference() for reference in CALLS] if type(call.leaves[0]) is not Pending]
    executable = first.bound.direct
    before = executable.launch

    def misses(*values):
        tries.append(values)
        if not is_built:
            raise Missing(lambda: is_built.append(True))
        before(*values)

    executable.launch, executable.is_silent = misses, False
    try:
        oxinp.evaluate(made)
    finally:
        executable.launch = before
    assert is_built
    assert len(tries) <= 14 + 6  # of which each has a launch
    wanted = numpy.arange(3.0 * N)
    for _ in range(14):
        wanted = numpy.cumsum(wanted * 0.5)
    assert_same(made, wanted, ulp=1000)


def test_memory_may_have_the_call_itself_run():
    given = known()
    array, call = waiting("a.sum(axis=0)", given)
    executable = call.bound.direct
    before, count = executable.allocate, oxinp.cuda.stats().launches

    def allocates(nbytes):
        executable.allocate = before
        schedule.flush_device()
        return before(nbytes)

    executable.allocate = allocates
    call.run()
    assert oxinp.cuda.stats().launches - count == len(executable.steps or [0])
    assert call.leaves is None
    assert_same(array, arrays(numpy)["a"].sum(axis=0))


PROGRAMS = {
    "one": "oxinp.evaluate(a.sum(axis=0))",
    "several": "oxinp.evaluate(a.sum(axis=0), large.sum(axis=0), a.max(axis=1))",
    "heavy": "oxinp.evaluate(a @ b)",
    "waiting": "float(a.sum()) if i % 7 == 0 else oxinp.evaluate(a.sum(axis=0))",
    "among chains": "a[1:] = b[1:] * 0.5; oxinp.evaluate(a.sum(axis=0), large.max(axis=1))",
    "of what is fetched": "h = numpy.asarray(a.sum(axis=1)); oxinp.evaluate(large.sum(axis=0))",
}
STATE = "_last", "_upload", "has_waited", "_beyond"


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("each", [0, 1 << 20])
def test_placement_learns_what_it_does_from_python(program, each, monkeypatch):
    code, outcomes, count = compile(program, "program", "exec"), [], 30
    monkeypatch.setattr(Balance, "_judge", lambda _: None)  # by when a few are weighed nothing moves
    before = Balance.launched
    for is_native in (True, False):
        told = []

        def note(self, size, gain, *, extra, times=SAMPLED, told=told):
            told.append((size, gain, extra))
            return before(self, size, gain, extra=extra, times=times)

        monkeypatch.setattr(Balance, "launched", note)
        rng = numpy.random.default_rng(3)
        made = {"a": rng.random((64, 64)), "b": rng.random((64, 64)), "large": rng.random((100, 90))}
        with config.override(machine_code=is_native, offload_threshold=4096, adaptive_placement=True):
            given = {name: oxinp.array(array) + 0.0 for name, array in made.items()}
            oxinp.evaluate(*given.values())
            for i in range(2 * count):
                if i == count:  # all have run
                    balance.begin(4096, is_adaptive=True)
                    balance.each = each
                    told.clear()
                exec(code, {**given, "i": i, "oxinp": oxinp, "numpy": numpy})  # noqa: S102 - a table of programs
            balance.note_launches()
            outcomes.append(([getattr(balance, name) for name in STATE], balance._crossings.last, told))
        balance.begin(config.offload_threshold, is_adaptive=config.adaptive_placement)
    (state, last, told), (pythons, pythons_last, pythons_told) = outcomes
    assert state == pythons
    assert last == pythons_last
    if each:
        assert told == pythons_told
    else:
        assert abs(len(told) - len(pythons_told)) <= 3  # one in so many, of what else is sampled, too
