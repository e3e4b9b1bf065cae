"""Statements on parts of arrays that are one launch without being recorded: NumPy's results, and where they are not."""

import random
import sys

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy import placement, straight
from oxinp._core.lazy.balance import balance
from oxinp._runtime.counters import stats
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")

STATEMENTS = [
    "a[1:-1, 1:-1] += 0.25 * (a[:-2, 1:-1] - a[2:, 1:-1])",
    "a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])",
    "a[i:, i:] = a[i:, i:] * 0.5 + a[: a.shape[0] - i, : a.shape[0] - i]",
    "a[i, i:] *= 0.5",
    "a[i, i:] += 2",
    "a[i:, i] -= b[i, i:]",
    "a[i:, i:] *= b[i:, i:]",
    "a[i, i:] -= a[i + 1, i:]",
    "a[i:, i:] -= np.outer(c[i:], c[i:] * 2.0)",
    "a[i:, i:] /= c[i]",
    "a[i, i:] = b[i, i:]",
    "a[i:, i] = a[i, i:]",
    "a[i, i:] = a[i, i:] * 0.5 + b[i:, i]",
    "a[i:, 2:] = b[i:, 2:]",
    "a[i] = c * 3.0",
    "a[1:] += a[:-1]",
    "a[i, 1:] = a[i, :-1]",
    "a[i, ::-1] += a[i]",
    "a[i, ::2] = c[::-2]",
    "a[1:-1, 1:-1] = a[:-2, 1:-1]",
    "a[1:, 2:] = a[:-1, :-2]",
    "a[i, 2::2] = a[i, :-2:2]",
    "a[1:] = a[:-1]",
    "a[:-1] = a[1:]",
    "a[i, :-3] = a[i, 3:]",
    "c[1:] = c[:-1]; a[i] = c",
    "c[:50] = c[:100:2]; a[i] = c",
    "c[::2][1:] = c[::2][:-1]; a[i] = c",
    "a[i:, i:] -= a[i:, i, None] * a[i, i:] * 0.01",
    "a[i:, i:] -= np.outer(a[i:, i], a[i, i:] * 0.01)",
    "a[i:, i:] += a[i, i:] * 0.01",
    "a[i:, i:] += a[i, i:]; a[i:, i:] *= 0.5",
    "a[i:, i:] -= a[i : i + 1, i : i + 1]",
    "a[i:, i:] *= a[i:, i : i + 1]",
    "a[i:, i:] -= a[i:, i, None] * a[i, i:] * 0.01 + a[i:, i:] * 0.01",
    "a[i:, ::-2] -= a[i:, i, None] * a[i, ::-2] * 0.01",
    "x = a[i:, i, None] * a[i, i:] * 0.01; a[i:, i:] -= x; b[i:, i:] += x; a[i] += 1.0; b[:20, :20] += x[:20, :20]",
    "x = np.outer(a[i:, i], a[i, i:]); a[i:, i:] -= x; a[i:, i] = 0.5; a[i, i:] = x[0] * 0.1",
]


N = 640  # rows that are not small, which a loop over them would have fetched


FEW = 160  # of the rows and columns where statements are on parts that are no vectors


def is_on_vectors(statement):
    """Whether a statement has to do with rows or columns: what is on most of a matrix takes the emulator long."""
    return "outer" in statement or statement.startswith(("a[i] ", "a[i, ", "a[i:, i] "))


def turns(statement):
    return 60 if statement.startswith(("a[i] ", "a[i, ", "a[i:, i] ")) else 24


def run(xp, statement):
    rng = numpy.random.default_rng(3)
    n = N if is_on_vectors(statement) else FEW
    given = {name: xp.array(rng.random(shape)) for name, shape in (("a", (n, n)), ("b", (n, n)), ("c", n))}
    code = compile(statement, "statement", "exec")
    for i in range(turns(statement)):
        exec(code, {"np": xp, "i": i, **given})  # noqa: S102 - a table of statements
    return given["a"]


@pytest.fixture
def calls(monkeypatch, config):
    """Count how often a statement was done straight, by Python, and how often it was left to others."""
    config.machine_code = False
    counts = {True: 0, False: 0}
    for name in ("update", "assign"):
        function = getattr(straight, name)

        def counted(*args, function=function):
            done = function(*args)
            counts[done] += 1
            return done

        monkeypatch.setattr(straight, name, counted)
    return counts


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_give_numpys_results(statement):
    with balance.suspended():
        found = run(oxinp, statement)
    assert_same(found, run(numpy, statement))


@pytest.mark.parametrize("statement", [statement for statement in STATEMENTS if "a[i:, " in statement])
def test_rows_and_columns_that_are_overwritten_are_copied_first(statement, monkeypatch):
    monkeypatch.setattr(straight, "LARGE_NBYTES", 0)
    with balance.suspended():
        found = run(oxinp, statement)
    assert_same(found, run(numpy, statement))


@pytest.mark.parametrize("statement", STATEMENTS[:14])
def test_statements_of_new_sizes_are_done_straight(statement, calls):
    with balance.suspended():
        run(oxinp, statement)
    assert calls[True] >= turns(statement) - 20, calls


def test_a_chain_that_reads_what_is_written_keeps_its_values():
    for xp in (numpy, oxinp):
        a = xp.arange(96.0 * 96).reshape(96, 96) + 0.0
        kept = []
        for i in range(60):
            kept.append(a[i, i:] * 2.0)
            a[i, i:] = kept[-1]
            a[i, i:] += 1.0
        if xp is numpy:
            expected = [numpy.array(x) for x in kept]
    for found, wanted in zip(kept, expected, strict=True):
        assert_same(found, wanted)


def test_a_chain_that_is_computed_before_elements_that_it_reads_are_written_keeps_its_values():
    for xp in (numpy, oxinp):
        a = xp.arange(96.0 * 96).reshape(96, 96) + 0.0
        kept = []
        for i in range(40):
            kept.append(a[i + 1 :, 1:] - a[i:-1, :-1])
            later = kept[-1] * 2.0
            a[i + 1 :, 1:] = kept[-1]
            kept.append(later)
        if xp is numpy:
            expected, wanted_whole = [numpy.array(x) for x in kept], a
    for found, wanted in zip(kept, expected, strict=True):
        assert_same(found, wanted)
    assert_same(a, wanted_whole)


def test_what_lies_without_gaps_is_moved_without_a_launch():
    expected = numpy.arange(96.0 * 96).reshape(96, 96)
    with balance.suspended():
        a = oxinp.array(expected) + 0.0
        for i in range(20):
            oxinp.evaluate(a)
            before = stats.launches
            a[1:] = a[:-1]
            a[i : i + 40] = a[i + 3 : i + 43]
            a[:-2] = a[2:]
            assert stats.launches == before
            expected[1:] = expected[:-1].copy()
            expected[i : i + 40] = expected[i + 3 : i + 43].copy()
            expected[:-2] = expected[2:].copy()
            kept, wanted = a[2:5] * 2.0, expected[2:5] * 2.0
            a[i % 2 :] = a[: 96 - i % 2] if i % 2 else a[:]
            a[3:5] = a[2:4]
            expected[i % 2 :] = expected[: 96 - i % 2].copy()
            expected[3:5] = expected[2:4].copy()
            assert_same(kept, wanted)
    assert_same(a, expected)


def test_pending_readers_of_a_part_are_computed_before_it_is_written():
    for xp in (numpy, oxinp):
        a = xp.arange(96.0 * 96).reshape(96, 96) + 0.0
        kept = []
        for i in range(60):
            kept.append(a[i, i:] + a[i:, i])
            a[i, i:] *= 0.5
            a[i:, i] = a[i, i:]
        if xp is numpy:
            expected = [numpy.array(x) for x in kept]
    for found, wanted in zip(kept, expected, strict=True):
        assert_same(found, wanted)


def test_numbers_that_do_not_fit_are_refused_as_numpy_does():
    for xp in (numpy, oxinp):
        a = xp.zeros((96, 96), xp.uint8)
        for i in range(20):
            a[i, i:] += 3
        with pytest.raises(OverflowError):
            a[20, 20:] += 300
        with pytest.raises(TypeError, match="Cannot cast"):
            a[21, 21:] += 0.5
        assert int(a.sum()) == sum(3 * (96 - i) for i in range(20))


def test_read_only_parts_are_refused():
    a = oxinp.ones((96, 96))
    for i in range(20):
        a[i, i:] *= 0.5
    part = a[30, 30:]
    part.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        part *= 0.5
    with pytest.raises(ValueError, match="read-only"):
        part[1:] = part[:-1]


def test_a_number_times_a_vector_is_computed_with_its_outer_product(launches):
    a, b, c = (oxinp.array(numpy.random.default_rng(5).random(shape)) for shape in ((N, N), N, N))
    expected = [numpy.array(x) for x in (a, b, c)]
    oxinp.evaluate(a * 1, b * 1, c * 1)

    def update(i):
        a[i:, i:] -= oxinp.outer(2 * b[i:], c[i:])
        return a

    def update_whole():
        nonlocal a
        a -= oxinp.outer(2 * b, c)
        return a

    with balance.suspended():
        for i in range(4):
            launches(lambda i=i: update(i))
        assert launches(update_whole) == 1
    for i in range(4):
        expected[0][i:, i:] -= numpy.outer(2 * expected[1][i:], expected[2][i:])
    expected[0] -= numpy.outer(2 * expected[1], expected[2])
    assert_same(a, expected[0])


OUTER = [
    "a[i:, i:] -= np.outer(c[i:], c[i:] * 2.0)",
    "a[i:, i:] += np.outer(c[i:][::-1], c[::-1][: len(c) - i])",
    "a[i::2, i:] -= np.outer(s[i // 2 :][: a[i::2].shape[0]], c[i:])",
    "a[i:, i:] -= np.outer(c[i:] - 1, t[i:])",
    "a[i:, i:] -= np.outer(2 * (a[i:, i:] @ c[i:]), c[i:]) * 0.01",
]


@pytest.mark.parametrize("statement", OUTER)
def test_outer_products_of_vectors_of_the_host_are_recorded_in_a_few_calls(statement, config):
    """Those below the threshold lie there; each that is new is uploaded, and nothing is asked of it twice."""
    config.offload_threshold = 65536
    rng = numpy.random.default_rng(5)
    given = {"a": rng.random((N, N)), "c": rng.random(N), "s": rng.random(N)[::2], "t": rng.random(N)}
    given["t"].flags.writeable = False
    ours = {name: oxinp.array(x) for name, x in given.items()}
    ours["t"] = oxinp.asarray(given["t"])
    code = compile(statement, "statement", "exec")
    asked = []
    for i in range(turns(statement)):
        exec(code, {"np": numpy, "i": i, **given})  # noqa: S102 - a table of statements
        if i == turns(statement) - 1:
            sys.setprofile(lambda frame, event, _: event == "call" and asked.append(frame.f_code.co_name))
        exec(code, {"np": oxinp, "i": i, **ours})  # noqa: S102
        sys.setprofile(None)
    assert_same(ours["a"], given["a"], ulp=2000)
    assert "undecided" not in asked
    assert "is_recorded_on_host" not in asked
    assert "copy" not in asked


BROUGHT = [
    "a[i] = c * 2.0",
    "a[i, i:] = c[i:]",
    "a[:, i] = c - 1",
    "a[i] = c[::-1]",
    "a[i, ::-1] = c + i",
    "a[i : i + 2] = np.outer(c[:2], c)",
    "a[i : i + 2] = d[:, : 2].T",
    "a[i] = c.astype('f4')",
    "a[i : i + 30, i:] = c[i:] * 2.0",
    "a[i : i + 30, i:] = (c[i : i + 30] * 2.0)[:, None]",
    "a[i : i + 30, i:] = c[i : i + 1] * 2.0",
    "a[i : i + 30, i:] = a[i + 1, i:]",
    "a[i : i + 30, i:] = a[i + 31, i:] * 2.0 + a[i + 32, i:]",
    "a[i : i + 30, i:] = a[i : i + 30, i][:, None] * 2.0",
    "a[i : i + 30, i:] -= c[i:] * 2.0",
    "a[i : i + 30, i:] *= (c[i : i + 30] * 2.0)[:, None]",
    "a[i, i:] += c[i:] * 2.0",
    "a[i : i + 30, i:] += k[i:] + i",
    "a[i] = k",
    "a[i] = t",
    "a[i : i + 3] = c * 0.5",
    "b[:] = a[i] * 2; a[i] = c + 1; a[i + 1] = b",
    "s = a[i] + 1; r = a[i + 1] * 2; a[i] = c * i; a[i + 2] = s; a[i + 3] = r",
]


@pytest.mark.parametrize("statement", BROUGHT)
def test_what_lies_on_the_host_is_written_to_parts_as_numpy_does(statement, config):
    config.offload_threshold = 65536
    rng = numpy.random.default_rng(7)
    given = {"a": rng.random((N, N)), "b": rng.random(N), "c": rng.random(N), "d": rng.random((N, 3))}
    given |= {"t": rng.random(N), "k": numpy.arange(N)}
    given["t"].flags.writeable = False
    ours = {name: oxinp.array(x) for name, x in given.items()} | {"t": oxinp.asarray(given["t"])}
    code = compile(statement, "statement", "exec")
    for i in range(40):
        exec(code, {"np": numpy, "i": i, **given})  # noqa: S102 - a table of statements
        exec(code, {"np": oxinp, "i": i, **ours})  # noqa: S102
    for name, x in given.items():
        assert_same(ours[name], x, where=name)


def test_a_contiguous_part_is_copied_to_its_place(config, stats, launches):
    config.offload_threshold = 65536
    a, c = oxinp.array(numpy.zeros((N, N))), oxinp.arange(float(N))
    oxinp.evaluate(a + 0)
    for i in range(4):
        a[i] = c * i
    before = stats().h2d_bytes
    assert not launches(lambda: a.__setitem__(5, c + 1))
    assert stats().h2d_bytes - before == 8 * N
    later = a[5] * 2
    a[5] = c + 2
    assert_same(later, (numpy.arange(N) + 1.0) * 2)
    assert_same(a[5], numpy.arange(N) + 2.0)
    with pytest.raises(ValueError, match="could not broadcast"):
        a[5] = c[:7]
    assert_same(a[5], numpy.arange(N) + 2.0)


def test_numbers_of_places_are_those_of_the_vectors_in_outer_products():
    k = oxinp.arange(600)
    assert_same(oxinp.outer(k, oxinp.arange(400)), numpy.outer(numpy.arange(600), numpy.arange(400)))
    assert_same(oxinp.outer(k * 2, k), numpy.outer(numpy.arange(600) * 2, numpy.arange(600)))


DTYPES = ["f8", "f4", "i4", "i8", "u1", "?", "c16", "i2"]
PARTS = [
    "a[i]",
    "a[i, i:]",
    "a[i:, i]",
    "a[i:, i:]",
    "a[:, i]",
    "a[i::2, 1:]",
    "a[::-1, i]",
    "a[1:, i:]",
    "a[i : i + 3]",
]
VALUES = [
    *("{b}", "{b} * 2", "({b} + {a})", "({a} * 3 - {b})", "3", "0.5", "True", "abs({b})", "c[i]", "{b}.copy()"),
    *("({b} > 1)", "({b} * c[1])", "-{a}", "({a}[::-1] + 1)", "np.minimum({b}, {a})"),
]


def outcome(xp, seed, statement, kept, dtypes):
    """Return an array that a statement has written to, what was read of it before, and the errors."""
    rng = numpy.random.default_rng(seed)
    names = {"np": xp, "kept": []}
    for (name, shape), dtype in zip({"a": (24, 24), "b": (24, 24), "c": 24}.items(), dtypes, strict=True):
        names[name] = xp.array((rng.random(shape) * 5 - 1).astype(dtype))
    errors = []
    for i in range(1, 13):
        names["i"] = i
        try:
            exec(f"{kept}\n{statement}", names)  # noqa: S102 - of a table's parts
        except (TypeError, ValueError, OverflowError) as error:
            errors.append((i, type(error)))
    return names["a"], names["kept"], errors


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore")
def test_random_statements_on_parts(seed, monkeypatch):
    monkeypatch.setattr(placement, "ACCESSES_BEFORE_MIRROR", 10**9)  # small as they are, rows stay on the device
    draw = random.Random(seed)
    dtypes = [draw.choice(DTYPES) for _ in range(3)]
    part = draw.choice(PARTS)
    value = draw.choice(VALUES).format(a=part, b=part.replace("a[", "b["))
    statement = f"{part} {draw.choice(['=', '+=', '-=', '*='])} {value}"
    kept = draw.choice(["", f"kept.append({part} + 1)", f"kept.append({part} * b[0, 0])"])
    with balance.suspended(), numpy.errstate(all="ignore"):
        ours = outcome(oxinp, seed, statement, kept, dtypes)
    with numpy.errstate(all="ignore"):
        theirs = outcome(numpy, seed, statement, kept, dtypes)
    assert ours[2] == theirs[2], statement
    for found, expected in zip([ours[0], *ours[1]], [theirs[0], *theirs[1]], strict=True):
        assert_same(found, expected, ulp=4, where=statement)


def _cubes(xp, seed, statement, kept):
    rng = numpy.random.default_rng(seed)
    names = {"np": xp, "kept": [], **{name: xp.array(rng.random((12, 11, 10))) for name in "ab"}}
    for _ in range(9):
        exec(f"{kept}\n{statement}\na, b = b, a", names)  # noqa: S102 - of a table's parts
    return names["a"], names["b"], *names["kept"]


PARTS_OF_CUBES = ["[1:-1, 1:-1, 1:-1]", "[1:, :-1]", "[:, ::2, 1:]", "[::-1]", "[..., 2:5]", "[:-1, 1:, 3:]"]
VALUES_OF_CUBES = [
    *("({b} * 2 + {a}) / 3", "{b} - {a} * {b}", "{a} + {c}", "({a}[::-1] + 1) / 2", "{c} * {b}", "np.sqrt({c})"),
    *("({a} > {b}) * 0.5", "{b} * {b}[:, :1]", "-{d}", "{d} * {b}"),
]


@pytest.mark.parametrize("value", VALUES_OF_CUBES)
@pytest.mark.parametrize("part", PARTS_OF_CUBES)
def test_statements_on_parts_of_cubes(part, value):
    """In parts that are not what they read, what they read, and that overlap it."""
    names = {"a": f"a{part}", "b": f"b{part}", "c": f"np.roll(a, 1, 0){part}", "d": f"a[::-1]{part}"}
    for operator in ("=", "+="):
        for kept in ("", f"kept.append(a{part} + 1)"):
            statement = f"a{part} {operator} {value.format(**names)}"
            with balance.suspended():
                ours = _cubes(oxinp, 7, statement, kept)
            for found, expected in zip(ours, _cubes(numpy, 7, statement, kept), strict=True):
                assert_same(found, expected, ulp=4, where=statement)


@pytest.mark.parametrize("shift", [(1, 0), (0, 1)], ids=["ahead", "behind"])
def test_parts_of_a_cube_that_overlap_what_is_read(shift):
    first, last = shift
    wanted = numpy.random.default_rng(3).random((14, 13, 12))
    ours = oxinp.asarray(wanted) * 1.0

    def step(x):
        x[first : 13 + first] = x[last : 13 + last] * 0.5 + 1

    for _ in range(12):
        step(ours)
        step(wanted)
    assert_same(ours, wanted)


def test_parts_of_cubes_are_written_in_few_functions(entered, launches):
    wanted = numpy.random.default_rng(3).random((14, 13, 12))
    given = numpy.random.default_rng(4).random((14, 13, 12))
    ours, other = oxinp.asarray(wanted) * 1.0, oxinp.asarray(given) * 1.0
    oxinp.evaluate(ours, other)

    def step(x, y):
        x[1:-1, 1:-1, 1:-1] = y[1:-1, 1:-1, 1:-1] * 0.5 + y[2:, 1:-1, 1:-1] * 0.25

    for _ in range(80):
        step(ours, other)
    assert launches(lambda: (step(ours, other), ours)[1]) == 1
    names = entered(lambda: step(ours, other))
    assert not {"store", "expression", "_write", "view_at"} & {*names}
    step(wanted, given)
    assert_same(ours, wanted)


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("a[i : i + 30, i:] = c[i:] * 2.0", 20),
        ("a[i : i + 30, i:] -= c[i:] * 2.0", 20),
        ("a[i, i:] += c[i:] * 2.0", 20),
    ],
)
def test_rows_of_the_host_are_spread_in_few_functions(statement, most, config, entered, launches):
    config.offload_threshold = 65536
    a, c = oxinp.array(numpy.zeros((N, N))), oxinp.arange(float(N))
    oxinp.evaluate(a + 0)
    code = compile(statement, "statement", "exec")
    with balance.suspended():
        for i in range(80):
            exec(code, {"i": i, "a": a, "c": c})  # noqa: S102 - a table of statements
        assert launches(lambda: exec(code, {"i": 80, "a": a, "c": c})) == 1  # noqa: S102
        lists = [entered(lambda i=i: exec(code, {"i": i, "a": a, "c": c})) for i in range(81, 88)]  # noqa: S102
    names = min(lists, key=len)  # one in some tells placement, or makes room for parts
    assert len(names) <= (most if sys.version_info >= (3, 12) else most + 16), names  # with machine code


def test_results_go_to_elements_in_few_functions(entered, launches):
    x = oxinp.asarray(numpy.arange(600.0)) * 2
    found, wanted = oxinp.zeros(64) + 1, numpy.ones(64)
    oxinp.evaluate(x, found)

    def write(n):
        found[n] = x.mean()

    for n in range(60):
        write(n)
        wanted[n] = 599.0
    assert launches(lambda: (write(60), found)[1]) == 1
    write(61)  # of which there is a layout then
    assert len(entered(lambda: write(61))) <= (24 if sys.version_info >= (3, 12) else 30)  # with machine code
    wanted[60:62] = 599.0
    assert_same(found, wanted)


ELEMENTS = [
    "v[0] += np.copysign(np.linalg.norm(v), v[0])",
    "v[i] = v[i + 1] * v[i + 2] - v[i]",
    "v[i] -= v[i + 1] * v[i]",
    "v[i] = np.sqrt(v @ v)",
    "v[i] = v @ w",
    "v[i] = w[i]",
    "v[-1] = -v[0]",
    "m[i, i] = m[i, i + 1] + v[i]",
    "m[i, -1] -= v @ m[:, i]",
    "v[i] = v[i]",
    "w[i] = v[i] * v[i]",
    "c[i] = v[i] + w[i]",
    "n[i] = w[i]",
    "v[i:][0] = v.sum() / v[i]",
]


def run_elements(xp, statement, count=20):
    """Return what loops over elements leave behind: arrays, and scalars that were read and made before writes."""
    rng = numpy.random.default_rng(3)
    shapes = {"v": 600, "w": 600, "m": (600, 600), "c": 600, "n": 600}
    kinds = {"c": complex, "n": numpy.float32}
    given = {name: xp.array(rng.random(shape).astype(kinds.get(name, float))) * 1 for name, shape in shapes.items()}
    code = compile(statement, "statement", "exec")
    kept = []
    for i in range(count):
        kept.append(given["v"][i] - given["v"][0])
        kept.append(given["v"][1:3] * 2.0)
        exec(code, {"np": xp, "i": i, **given})  # noqa: S102 - a table of statements
        if i % 3 == 0:
            given["v"] /= 1.5
    return [*given.values(), *kept]


@pytest.mark.parametrize("statement", ELEMENTS)
@pytest.mark.parametrize("is_native", [False, True])
def test_elements_that_are_given_scalars_are_numpys(statement, is_native, config):
    config.machine_code = is_native
    expected = run_elements(numpy, statement)
    with balance.suspended():
        found = run_elements(oxinp, statement)
    for each, wanted in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(numpy.asarray(each), wanted, rtol=1e-5 if wanted.dtype == "f4" else 1e-12)


def test_an_element_of_an_array_is_not_given_what_it_is_already(config):
    config.machine_code = False
    v = oxinp.ones(600) * 2.0
    scalar = v[3]
    v[3] = scalar
    assert float(v[3]) == float(scalar) == 2.0


def test_what_a_slice_is_made_of_is_asked_once(config):
    config.machine_code = False
    asked = []

    class Index:
        def __index__(self):
            asked.append(self)
            return 3

    a = oxinp.ones((600, 600)) * 2.0
    a[2, Index() : 7] = a[0, 0] * 3.0
    assert len(asked) == 1
    assert float(a[2, 3]) == 6.0


def test_an_element_of_what_may_not_be_written_to_is_refused():
    v = oxinp.ones(600) * 2.0
    v.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        v[0] = v[1]
    with pytest.raises(IndexError):
        (oxinp.ones(600) * 2.0)[600] = v[1]


def test_flags_are_told_of_where_an_element_is_written():
    def write(v):
        for i in range(20):
            v[i] = v[i + 1] * v[i + 2]
            float(v[i])

    for xp in (numpy, oxinp):
        v = xp.ones(600) * 1e300
        with xp.errstate(all="raise"), pytest.raises(FloatingPointError):
            write(v)


def test_numbers_of_numpy_go_to_short_rows_by_few_functions(entered):
    found, wanted = oxinp.zeros((9, 200)) + 1, numpy.ones((9, 200))
    values = numpy.random.default_rng(5).random(60)
    oxinp.evaluate(found)
    for i, value in enumerate(values):
        found[i % 9, :] = value
        wanted[i % 9, :] = value
        found *= 2.0  # so that it is no loop over rows alone
        wanted *= 2.0
    oxinp.evaluate(found)
    names = entered(lambda: found.__setitem__((0, slice(None)), values[0]))
    wanted[0, :] = values[0]
    assert "view_at" not in names
    assert len(names) <= (8 if sys.version_info >= (3, 12) else 20)  # with machine code
    assert_same(found, wanted)
