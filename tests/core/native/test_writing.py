"""Chains that machine code writes to parts of arrays on the device: NumPy's results, and Python's book-keeping."""

import itertools
import random
import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._config import config
from oxinp._core.lazy import chains, executor, schedule, straight
from oxinp._core.lazy import writing as lazy_writing
from oxinp._core.lazy.balance import NUM_SIZES, balance
from oxinp._core.lazy.calls import CALLS
from oxinp._core.lazy.op import RENTED
from oxinp._core.memory.storage import next_mask
from oxinp._core.native import objects, writing
from oxinp._runtime.backend import FIRST_LOCK
from tests.comparator import assert_same
from tests.fuzz.program import Program, Statement
from tests.fuzz.twin import find_difference

pytestmark = [
    pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code"),
    pytest.mark.usefixtures("on_device", "unwatched", "written"),
]
N = 640  # rows that are not small, which a loop over them would have fetched
FEW = 240  # where statements are on matrices, of which the emulator computes each element
ON_MATRICES = ("a[i:, i:]", "a[i:, 2:]", "a[1:-1")


@pytest.fixture
def in_python(monkeypatch):
    """Count what machine code leaves to Python."""
    counts = []
    before = straight._run

    def counted(*args):
        counts.append(args)
        return before(*args)

    monkeypatch.setattr(straight, "_run", counted)
    return counts


def run(xp, statement, numbers, **more):
    rng, n = numpy.random.default_rng(3), FEW if statement.startswith(ON_MATRICES) else N
    given = {name: xp.array(rng.random(shape)) + 0.0 for name, shape in (("a", (n, n)), ("b", (n, n)), ("c", n))}
    code = compile(statement, "statement", "exec")
    for i in numbers:
        exec(code, {"np": xp, "i": i, **given, **more})  # noqa: S102 - a table of statements
    return given["a"]


STATEMENTS = [
    "a[i, i:] *= 0.5",
    "a[i:, i] -= b[i, i:]",
    "a[i:, i:] *= c[i:]",
    "a[i, i:] = 0.25",
    "a[i:, i] = a[i, i:]",
    "a[i, i:] = b[i, i:] * 0.5 + c[i:]",
    "a[i, i:] = (a[i, i:] - a[i + 1, i:]) * 0.5",
    "a[i:, i] = a[i:, i] - a[i:, i + 1] * 0.5",
    "a[i:, i:] -= b[i:, :-i] * 0.25",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_of_new_sizes_are_written_by_machine_code(statement, in_python):
    with balance.suspended():
        run(oxinp, statement, range(1, 30))
        in_python.clear()
        found = run(oxinp, statement, range(30, 60))
    assert len(in_python) <= 4  # of other alignments
    assert_same(found, run(numpy, statement, range(30, 60)))


UPDATES = [
    "a[i, i:] *= 0.5",
    "a[i, i:] += 2",
    "a[i:, i] -= b[i, i:]",
    "a[i:, i:] *= c[i:]",
    "a[i:, i:] /= c[i]",  # a number of NumPy's, once elements have been read more often
    "a[i, i:] -= a[i + 1, i:]",
    "a[i, i:] += b[i, i:] * 0.5 + c[i:]",
    "a[i:, i:] -= np.outer(c[i:], c[i:] * 2.0)",
    "a[i, i:] *= a[i, i:]",
]


def test_chains_that_come_again_are_counted_and_planned(monkeypatch):
    """After as many runs by arithmetic as in Python there is a program."""
    notes, before = [], chains.note_run
    for module in (chains, straight):
        monkeypatch.setattr(module, "note_run", lambda *args: notes.append(args[2]) or before(*args))
    numbers, counts = [*range(10, 30), *[3] * 60], []
    for is_native, statement in (
        (True, "a[3, i:] = b[5, i:] * 0.5 + c[i:]"),
        (False, "a[3, i:] = b[5, i:] * 3 - c[i:]"),
    ):
        with config.override(machine_code=is_native):
            found = run(oxinp, statement, numbers)
        assert_same(found, run(numpy, statement, numbers))
        counts.append(len(notes))
        notes.clear()
    assert counts[0] == counts[1] >= RENTED


SINGLES = [
    "a[0, 0] += np.copysign(np.linalg.norm(c), a[0, 0])",
    "c[0] += np.copysign(np.linalg.norm(c), c[0]); a[5, 0] = c[0]",
    "c[3] = (c[4] - c[3]) * 0.5; a[0, i] = c[3]",
    "a[3, 3] = a[3, 4] * 0.5 + a[3, 3]",
    "a[-1, -1] = b[0, 0] * c[1]",
]


@pytest.mark.parametrize("statement", SINGLES)
def test_single_elements_are_written_by_their_programs(statement, in_python):
    """The products of vectors that they are made of run first, where one kernel does not compute both."""
    with balance.suspended():
        run(oxinp, statement, range(40))
        in_python.clear()
        assert_same(run(oxinp, statement, range(40)), run(numpy, statement, range(40)), ulp=200)
    assert len(in_python) < 20 or "norm" not in statement  # of others, elements may be read on the host


@pytest.mark.parametrize("statement", UPDATES)
def test_updates_are_done_by_machine_code(statement, monkeypatch):
    left = []
    before = straight.update
    monkeypatch.setattr(straight, "update", lambda *given: (left.append(given), before(*given))[1])
    with balance.suspended():
        run(oxinp, statement, range(1, 30))
        left.clear()
        found = run(oxinp, statement, range(30, 60))
    assert len(left) <= 6  # of other alignments
    assert_same(found, run(numpy, statement, range(30, 60)))


def test_updates_by_what_waits_are_done_by_machine_code(monkeypatch):
    """Results of calls that have not run are in no memory yet, whichever of an array's few bits they have."""
    left = []
    before = straight.update
    monkeypatch.setattr(straight, "update", lambda *given: (left.append(given), before(*given))[1])

    def meet(array):
        """Let what is asked for next have the array's bit."""
        bits = 1 if isinstance(array, numpy.ndarray) else array._held.value[2]
        while bits > 1 and 2 * next_mask() != bits:
            pass

    statement = "a[i:, i:] -= np.outer(c[i:], c[i:] @ a[i:, i:]) * 1e-3; meet(a)"
    with balance.suspended():
        run(oxinp, statement, range(1, 60), meet=meet)
        left.clear()
        found = run(oxinp, statement, range(60, 160), meet=meet)
    assert len(left) <= 4
    wanted = run(numpy, statement, range(60, 160), meet=meet)
    assert numpy.allclose(numpy.asarray(found), wanted, rtol=1e-8)


@pytest.mark.parametrize(
    "statement", ["a[i, i:] += b[i, i:] * 0.5 + c[i:]", "a[i:, i:] -= np.outer(c[i:], c[i:] * 2.0)"]
)
def test_updates_that_come_again_and_again_are_done_by_machine_code(statement, monkeypatch):
    left = []
    before = straight.update
    monkeypatch.setattr(straight, "update", lambda *given: (left.append(given), before(*given))[1])
    numbers = [*range(1, 30), *[3, 5] * (2 * RENTED)]
    with balance.suspended():
        run(oxinp, statement, numbers)
        left.clear()
        found = run(oxinp, statement, numbers)
    assert len(left) <= 6
    assert_same(found, run(numpy, statement, numbers))


ASSIGNMENTS = [
    "a[i, i:] = 0.25",
    "a[i, i:] = 3",
    "a[:, i] = np.float64(0.5)",
    "a[i:, i] = a[i, i:]",
    "a[i, i:] = b[i, i:]",
    "a[i:, 2:] = b[i:, 2:]",
    "a[i] = b[i] * 3.0",
    "a[i, i:] = b[i, i:] * 0.5 + c[i:]",
    "a[i, i:] = (a[i, i:] - a[i + 1, i:]) * 0.5",
    "a[i, 1:] = a[i, :-1] * 0.5",
    "a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])",
]


@pytest.mark.parametrize("statement", ASSIGNMENTS)
def test_parts_are_assigned_to_by_machine_code(statement, monkeypatch):
    left = []
    for name in ("assign", "fill"):
        before = getattr(straight, name)

        def counted(*given, before=before):
            left.append(given)
            return before(*given)

        monkeypatch.setattr(straight, name, counted)
    with balance.suspended():
        run(oxinp, statement, range(1, 30))
        left.clear()
        found = run(oxinp, statement, range(30, 60))
    assert len(left) <= 16  # of other alignments, and until what comes again is planned
    assert_same(found, run(numpy, statement, range(30, 60)))


IN_THREE = [
    "a[1:-1, 1:-1, 1:-1] = 0.5 * (b[2:, 1:-1, 1:-1] + b[:-2, 1:-1, 1:-1]) - b[1:-1, 1:-1, 1:-1]",
    "a[1:-1, 1:-1, 1:-1] = 0.5 * (a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])",
    "a[::2, 1:, ::-1] = b[::2, :-1, :] * c - 1.0",
    "a[:, 3, 1:] = b[3, :, 1:] + b[:, 3, :-1]",
    "a[:, 1:, :, None] = b[:, :-1, :, None] * 2.0",
]


@pytest.mark.parametrize("statement", IN_THREE)
def test_parts_of_three_axes_are_written_by_their_programs(statement, monkeypatch):
    left, before = [], straight.assign
    monkeypatch.setattr(straight, "assign", lambda *given: (left.append(given), before(*given))[1])
    code, rng = compile(statement, "statement", "exec"), numpy.random.default_rng(3)
    made = [rng.random(shape) for shape in ((24, 24, 24), (24, 24, 24), 24)]
    outcomes = []
    for xp in (numpy, oxinp):
        given = {name: xp.array(each) for name, each in zip("abc", made, strict=True)}
        if xp is oxinp:
            given["a"], given["b"] = given["a"] + 0.0, given["b"] + 0.0
        with balance.suspended():
            for turn in range(40):
                if turn == 30:
                    left.clear()
                    count = oxinp.cuda.stats().launches
                exec(code, given)  # noqa: S102 - a table of statements
        outcomes.append(given["a"])
    assert not left or "a[2" in statement or "None" in statement  # computed first, or another kind of part
    assert oxinp.cuda.stats().launches - count <= (20 if "a[2" in statement else 10)
    assert_same(outcomes[1], outcomes[0])


BESIDE = [
    "a[i:, i:] -= np.outer(a[i:, i - 1], a[i - 1, i:])",
    "a[i:, i:] -= a[i:, i - 1, None] * a[i - 1, i:]",
    "a[i:, i - 1 :] -= a[i:, i - 1 : i] * a[i - 1, i - 1 :]",
    "a[:, :300] = a[:, 300:600] * 2.0",
    "a[:, :300] = a[:, 299:599] * 2.0",
    "a[::-1, 300:600] = a[:, :300] * 2.0",
    "a[:, 599:299:-1] = a[::-1, :300] * 2.0",
    "a[::-1, 600:300:-1] += a[:, 301:601] * 2.0",
    "a[::2, :300] = a[1::2, 340:] * 0.5",
    "a[::2, 300:] -= a[1::2, 300:] * 0.5",
    "a[2::3, i:] -= a[1:-1:3, i:] * a[::3, i:][: 213]",
    "a[i:, :300] *= a[:-i, 340:]",
    "a.T[:300] += a.T[340:] * 0.5",
]


@pytest.mark.parametrize("statement", BESIDE)
def test_columns_that_lie_beside_others_are_as_numpy_has_them(statement):
    numbers = range(1, 9)
    with balance.suspended():
        found = run(oxinp, statement, numbers)
    assert_same(found, run(numpy, statement, numbers))


def test_an_update_by_a_column_beside_it_is_one_launch(launches):
    a = oxinp.ones((FEW, FEW)) + 0.0
    oxinp.evaluate(a)
    for i in range(1, 20):
        a[i:, i:] -= oxinp.outer(a[i:, i - 1], a[i - 1, i:])

    def update():
        for i in range(20, 30):
            a[i:, i:] -= oxinp.outer(a[i:, i - 1], a[i - 1, i:])

    assert launches(update) == 10


OTHER_UPDATES = [
    "a[i, i:] += xp.float64(0.5)",
    "a[i, i:] += True",
    "a[i, i:] += 10**40",
    "a[i, i:] *= 2j",
    "a[i, i:] += b[i, :3]",
    "a[i, i:] += 'x'",
    "a[i, i:] += None",
    "a[i, i:] += n[i, i:]",
    "n[i, i:] += 2",
    "n[i, i:] += 10**40",
    "n[i, i:] += 0.5",
    "n[i, i:] *= b[i, i:]",
    "n[i, i:] -= n[i + 1, i:]",
    "a[:, i] += b[i:i + 1]",
    "a[i:] += b[:, :1][i:]",
    "a[i:i, i:] += 1.0",
    "a[i, i:] = xp.float32(0.5)",
    "a[i, i:] = True",
    "a[i, i:] = 2**54 + 1",
    "a[i, i:] = 10**400",
    "a[i, i:] = 2j",
    "a[i, i:] = b[i, :3]",
    "a[i, i:] = 'x'",
    "a[i, i:] = None",
    "a[i, i:] = n[i, i:]",
    "n[i, i:] = 2.5",
    "n[i, i:] = b[i, i:]",
    "a[i] = [1.0] * 640",
    "a[i, ...] = c",
    "a[None, i] = c",
    "a[[i, i + 1]] = c",
    "a[700, i:] = 1.0",
    "a[:] = 1.0",
    "a[i:] = c",
    "a[i:, :5] = b[i:, 6].max()",
    "a[i, 1:] = a[i, :-1]",
    "a[:] = b",
    "a[i][:] = c",
    "a[i][:] = 2.5",
    "a[i:, i] = a[i, i:]",
    "a[i, i:] = a[i, i:]",
    "a[i, i:] = a.T[i, i:]",
    "a.view('i8')[i, i:] = a[i, i:]",
    "xp.broadcast_to(a, (2, 640, 640))[0, i, i:] = 1.0",
    "a[i, i:i + 1] += 1.0",
    "a.reshape(-1)[i:] += 1.0",
    "a[i:, None, i:] += c[i:]",
    "xp.broadcast_to(a, (2, 640, 640))[0, i:] += 1.0",
]


@pytest.mark.parametrize("statement", OTHER_UPDATES)
def test_other_updates_are_as_numpy_has_them(statement):
    rng = numpy.random.default_rng(3)
    whole = rng.random((N, N))
    outcomes = []
    for xp in (numpy, oxinp):
        given = {"a": xp.array(whole), "b": xp.array(whole.T + 1.0), "c": xp.array(whole[3]), "xp": xp}
        given["n"] = xp.array((whole * 100).astype(numpy.int64))
        code, raised = compile(statement, "statement", "exec"), []
        for i in range(8):
            given["a"][i, i:] += 1.0  # the like of some
            try:
                exec(code, {"i": i, **given})  # noqa: S102 - a table of statements
            except Exception as error:  # noqa: BLE001 - whatever it is
                raised.append((type(error).__name__, str(error)))
        outcomes.append((given["a"], given["n"], raised))
    (a, n, raised), (found_a, found_n, found_raised) = outcomes
    assert_same(found_a, a)
    assert_same(found_n, n)
    assert [name for name, _ in found_raised] == [name for name, _ in raised]


def test_updates_of_read_only_parts_are_refused():
    a = oxinp.ones((N, N))
    for i in range(20):
        a[i, i:] *= 0.5
    part = a[30, 30:]
    part.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        part *= 0.5
    assert float(a[30, 30]) == 1.0


def test_updates_are_left_to_python_where_errors_are_told_of(monkeypatch):
    a, left = oxinp.ones((N, N)), []
    for i in range(20):
        a[i, i:] /= 2.0
    before = straight.update
    monkeypatch.setattr(straight, "update", lambda *given: (left.append(given), before(*given))[1])
    a[29, 29:] /= 2.0
    assert not left
    with oxinp.errstate(divide="raise"):
        a[30, 30:] /= 2.0
    assert left
    assert float(a[30, 30]) == 0.5


def _parts(rng, count):
    """Yield slices of one length of two axes, as text, some of them overlapping."""
    for _ in range(count):
        rows, columns = rng.choice([1, 2, 3, 7]), rng.choice([513, 520, 530])  # not small
        texts = []
        for _ in range(3):
            bounds = []
            for n in (rows, columns):
                step = rng.choice([1, 1, 2, -1, -2])
                first = rng.randrange(16) + (-step * (n - 1) if step < 0 else 0)
                stop = first + step * n
                bounds.append(f"{first}:{'' if stop < 0 else stop}:{step}")
            if rows == 1 and rng.random() < 0.8:
                bounds[0] = str(rng.randrange(8))
            texts.append(", ".join(rng.sample(bounds, 2)) if rows == 1 else ", ".join(bounds))
        yield texts


@pytest.mark.parametrize("seed", range(12))
def test_parts_that_overlap_are_as_numpy_has_them(seed):
    statements = []
    for one, other, third in _parts(random.Random(seed), 12):
        statements += [f"a[{one}] = COPIED(a[{other}])", f"a[{one}] -= a[{other}] * 0.5"]
        statements += [f"a[{one}] = a[{other}] * 0.5 + a[{third}]", f"a[{one}] += a[{other}] * a[{third}]"]
    found, expected = (_all(xp, statements) for xp in (oxinp, numpy))
    for one, other in itertools.zip_longest(found, expected):
        assert_same(one, other)


def _all(xp, statements):
    """Run statements on one array; return it after every eighth."""
    a, kept = xp.array(numpy.random.default_rng(5).random((1100, 1100))), []
    for number, statement in enumerate(statements):
        try:  # NumPy copies lines that overlap in the one order or the other
            exec(statement, {"a": a, "COPIED": numpy.copy if xp is numpy else lambda x: x})  # noqa: S102 - made above
        except ValueError:  # of other shapes
            kept.append(xp.zeros(1))
        if number % 8 == 0:
            kept.append(a.copy())
    return kept


def test_readers_of_what_is_written_are_computed_first():
    kept = {}
    for xp in (numpy, oxinp):
        a, kept[xp] = xp.arange(float(N * N)).reshape(N, N) + 0.0, []
        for i in range(60):
            kept[xp].append(a[i, i:] + a[i:, i])
            other = a[i + 1, i:] * 2.0  # which may wait
            a[i, i:] *= 0.5
            a[i:, i] = a[i, i:]
            kept[xp].append(other + 1.0)
    for found, wanted in zip(kept[oxinp], kept[numpy], strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize(
    "operand",
    ["a[i, i:] * 2.0", "a[i - 1, i:] * 2.0", "a[i:, i] * 2.0", "a[i:, i - 1] * 2.0", "a[i - 1, i - 1 : -1] + a[i, i:]"],
)
def test_an_operand_that_is_used_again_keeps_its_values(operand):
    kept = {}
    for xp in (numpy, oxinp):
        a, kept[xp] = xp.arange(float(N * N)).reshape(N, N) / N**2 + 0.5, []
        for i in range(1, 40):
            value = eval(operand, {"a": a, "i": i})  # noqa: S307 - a table's
            a[i, i:] += value
            kept[xp].append(value + 1.0)
            a[i - 1, i - 1 :] *= 0.5
            a[i:, i - 1] *= 0.5
            kept[xp].append(value)
    for found, wanted in zip(kept[oxinp], kept[numpy], strict=True):
        assert_same(found, wanted)


def test_what_is_gone_is_taken_from_what_is_pending():
    a, b = (oxinp.array(numpy.ones((N + 60, N + 60))) * 2.0 for _ in range(2))  # rows are as long as no test has met
    oxinp.evaluate(a, b)
    with balance.suspended():
        for i in range(40):
            a[i, i:] = b[i, i:] * 0.5 + 1.0
    assert len(schedule.PENDING) <= 4
    assert not CALLS


def test_a_value_that_has_been_written_over_its_operands_is_read_back():
    kept = {}
    for xp in (numpy, oxinp):
        a, kept[xp] = xp.arange(float(N * N)).reshape(N, N) + 0.0, []
        for i in range(1, 60):
            value = (a[i, i:] - a[i - 1, i:]) * 0.5
            a[i, i:] = value
            kept[xp].append(value)
            a[i, i:] += 1.0
    for found, wanted in zip(kept[oxinp], kept[numpy], strict=True):
        assert_same(found, wanted)


OVER_THEMSELVES = ["a[i, 3:]", "a[i]", "a[1:, i]", "a[i, ::-2]", "a[i:i + 2]", "a[2:, ::3]"]


@pytest.mark.parametrize("kind", ["f8", "i4", "c16"])
@pytest.mark.parametrize("part", OVER_THEMSELVES)
def test_what_comes_again_is_read_back_by_machine_code(part, kind, monkeypatch):
    code = compile(f"value = {part} + {part} * 2; {part} = value; kept.append(value); {part} += 1", "line", "exec")
    kept, asked, counts = {}, [], []

    def read_back(*given, before=lazy_writing._read_back):
        asked.append(given)
        before(*given)

    monkeypatch.setattr(lazy_writing, "_read_back", read_back)
    for xp in (numpy, oxinp):
        names = {"a": (xp.arange(N * N) % 7).reshape(N, N).astype(kind), "kept": []}
        if xp is oxinp:
            oxinp.evaluate(names["a"])
        with balance.suspended():
            for names["i"] in [*range(2, 16), *range(2, 16)]:
                exec(code, names)  # noqa: S102 - a table of parts
                if names["i"] == 15:
                    counts.append(len(asked))
        kept[xp] = [*names["kept"], names["a"]]
    assert counts[3] - counts[2] <= 6 or kind == "c16"  # whose chains are written by Python
    for found, wanted in zip(kept[oxinp], kept[numpy], strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize("has_version", [True, False])
def test_settings_that_change_are_followed(has_version, in_python):
    a = oxinp.ones((N, N))
    for i in range(40):
        a[i, i:] *= 0.5
    in_python.clear()
    if has_version:
        oxinp.config.renew()  # kernels are loaded anew
        a[50, 50:] *= 0.5
        assert in_python
    else:
        executor._ANYWHERE.clear()
        a[50, 50:] *= 0.5
        assert in_python
    assert float(a[50, 51]) == 0.5


def test_what_a_launch_raises_is_raised_and_the_lock_is_free(monkeypatch):
    a = oxinp.ones((N, N))
    for i in range(40):
        a[i, i:] *= 0.5
    before = dict(executor._ANYWHERE)

    class LaunchRefusedError(Exception):
        pass

    def refuse(*_):
        raise LaunchRefusedError

    for kernel, (version, launch, backend) in before.items():
        if launch is not None:
            monkeypatch.setitem(executor._ANYWHERE, kernel, (version, refuse, backend))
    with pytest.raises(LaunchRefusedError):
        a[50, 50:] *= 0.5
    assert not FIRST_LOCK._is_owned()
    monkeypatch.undo()
    a[50, 50:] *= 0.5
    assert float(a[50, 51]) == 0.5


def test_it_waits_for_the_lock_that_another_thread_has(in_python, held_elsewhere):
    a = oxinp.ones((N, N))
    for i in range(40):
        a[i, i:] *= 0.5
    in_python.clear()
    with held_elsewhere(0.05):
        a[50, 50:] *= 0.5
    assert len(in_python) == 1
    assert float(a[50, 51]) == 0.5


def test_references_are_given_back():
    a, b, c = (oxinp.ones(shape) for shape in ((N, N), (N, N), N))
    kept, counts = (a._storage, a._known, b._storage, FIRST_LOCK), []
    for start in (0, 30, 50, 70):
        for i in range(start, start + 20):
            a[i, i:] *= 0.5
            a[i : i + 9, i:] *= c[i:]
            a[i, i:] = b[i, i:] * 0.5 + c[i:]
            a[i:, i] = a[i, i:]
        counts.append([sys.getrefcount(each) for each in kept])
    assert all(abs(n - m) <= 4 for n, m in zip(counts[2], counts[3], strict=True))  # tables keep some


def test_the_balance_counts_writes(monkeypatch):
    a = oxinp.ones((N, N))
    for i in range(40):
        a[i, i:] *= 0.5
    begun = balance._beyond
    monkeypatch.setattr(balance, "reach", 0)
    balance.has_waited = True
    a[50, 50:] *= 0.5
    assert balance._beyond == begun + 1
    assert balance.has_waited is False
    assert balance._last == NUM_SIZES


def test_uploads_for_writes_that_are_not_weighed_are_not_either(monkeypatch):
    a = oxinp.ones((N, N))
    for i in range(40):
        a[i, i:] *= 0.5
    monkeypatch.setattr(balance, "reach", 0)
    weights, entered = list(balance._weights), set()
    balance._upload = 20.0
    sys.setprofile(lambda frame, event, _: event == "call" and entered.add(frame.f_code.co_name))
    try:
        a[50, 50:] *= 0.5
    finally:
        sys.setprofile(None)
    assert balance._upload == 0.0
    assert balance._weights == weights
    assert "weigh_write" not in entered


def test_the_code_is_written():
    assert writing._address(oxinp.ndarray)


def test_a_chain_of_the_same_leaves_by_another_layout_is_computed_before_they_are_written():
    # A cast of the whole array has the very leaves that a copy of its first part has, which reads none that is written.
    program = Program(
        tuple(
            Statement("regression", line)
            for line in (
                "a1 = np.arange(0.5, 4)",
                "a1[:-4] += True",
                "a2 = np.asarray(a1, dtype=np.uint8)",
                "a1[2:] = a1[:-2]",
            )
        ),
        "own",
    )
    assert [find_difference(program, oxinp) for _ in range(6)] == [None] * 6
