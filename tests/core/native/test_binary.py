"""Operators that machine code records of arrays on the device: NumPy's results, and Python's for all else."""

import operator
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
N = 640  # elements of rows and columns, which are not small
FEW = 64  # of the rows of which a matrix has few, and of the columns of another one
OPERATORS = ["add", "sub", "truediv", "mod", "and_", "lshift"]
OPERANDS = [
    "a, b",
    "a, a",
    "a[i:], b[i:]",
    "a[i:], a[:-i]",
    "a[i, i:], t[i:, i]",
    "t[i:, i], 2",
    "2, t[i:, i]",
    "a * b, a",
    "a + b, a * b",
    "a[i:] + b[i:], 3",
    "3, a[i:] + b[i:]",
    "a[i:] + b[i:], c",
    "a[i:], c",
    "c, a[i:]",
    "a[i:], c[i]",
    "a, c.max()",
    "m[i:], b[i:]",
    "b[i:], m[i:]",
    "a * 2 + b, b * 2 + a",
    "a[i:] * b[i:] - c, b[i:] * c",
    "a + a.dtype.type(2), a.dtype.type(3)",
    "xp.int64(2), a[i:] + b[i:]",
    "xp.uint8(3), a",
]
CALLS = [
    "-a",
    "abs(a - b)",
    "-(a[i:] * b[i:])",
    "xp.sqrt(a[i:])",
    "xp.square(a * b)",
    "xp.exp(a[i, i:])",
    "xp.maximum(a[i:], b[i:])",
    "xp.maximum(a[i:] - b[i:], b[i:] - a[i:])",
    "xp.minimum(a, 3)",
    "xp.add(2.5, a)",
    "xp.power(a, 2)",
    "xp.equal(a, b)",
    "a == b",
    "a[i:] < 3",
    "3 <= a[i, i:]",
    "(a == 2) | (a == 3)",
    "(a > b) & (b != a[0])",
    "a == None",
    "a != 'x'",
    "a == 2**70",
    "a**2",
    "(a - b) ** 2",
    "a[i:] ** 2 + b[i:] ** 2",
    "a**2.0",
    "a[i:] + xp.float32(2)",
    "xp.logical_not(a > 3)",
    "xp.isnan(a)",
    "xp.abs(a[i:] - c)",
    "xp.multiply(a[i:], m[i:])",
    "a[i:] / c.max()",
    "c.max() * a[i:]",
    "xp.multiply(c.max(), a[i:])",
    "xp.maximum(c.max(), c[i])",
    "c[i] + xp.subtract(c.max(), c[i])",
    "xp.add(c.max(), 2) + xp.add(2, c.max())",
    "xp.add(c.max(), a.sum()) - c.max()",
    "(c + c).max() * c.min() + c[i]",
]


ENTERED = {"operator", "reflected", "general", "__call__", "paired"}


def given(xp, kind):
    rng = numpy.random.default_rng(3)
    shapes = {"a": (FEW, N), "b": (FEW, N), "c": N, "m": (FEW, N), "t": (N, FEW)}
    made = {name: xp.array(rng.integers(1, 9, shape).astype(kind)) for name, shape in shapes.items()}
    made = {name: x if name == "m" else x | x if kind == "i8" else x + 0.0 for name, x in made.items()}
    if xp is oxinp:
        oxinp.evaluate(*[x for name, x in made.items() if name != "m"])
        oxinp.evaluate(made["m"] + made["m"])  # which has both sides from now on
    return made


@pytest.mark.parametrize("kind", ["f8", "i8"])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("operands", OPERANDS)
def test_operators_are_numpys(name, operands, kind):
    if kind != "i8" and name in OPERATORS[4:]:
        pytest.skip("floats have no bits")
    found, expected = [], []
    for xp, kept in ((oxinp, found), (numpy, expected)):
        names = given(xp, kind)
        code = compile(operands, "operands", "eval")
        for i in (1, 2, 3, 3):
            one, other = eval(code, {"i": i, "xp": xp, **names})  # noqa: S307 - a table's
            kept.append(getattr(operator, name)(one, other))
            kept.append(kept[-1] * 2)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "u1"])
@pytest.mark.parametrize("called", CALLS)
def test_functions_of_arrays_are_numpys(called, kind):
    found, expected = [], []
    code = compile(called, "called", "eval")
    for xp, kept in ((oxinp, found), (numpy, expected)):
        names = given(xp, kind)
        for i in (1, 2, 3, 3):
            try:
                kept.append(eval(code, {"i": i, "xp": xp, **names}))  # noqa: S307 - a table's
            except Exception as error:  # noqa: BLE001 - whatever it is
                kept.append(type(error).__name__)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, str):
            assert one == other
        else:
            assert_same(one, other, ulp=4)


@pytest.mark.parametrize(
    "statement",
    [
        "a[i:] * 0.5",
        "(a[i:] * 2 + b[i:]) * (b[i:] - a[i:])",
        "(a[i:] + b[i:]) ** 2 - xp.int64(2) * abs(a[i:])",
        "xp.sqrt(xp.maximum(a[i:], b[i:])) > 2",
        "(a[i:] == 2) | (a[i:] == 3)",
        "0.5 * a[i:]",
        "a[i:] + b[i:]",
        "a[i:] - a[i - 1 : -1]",
        "a[i, i:] + b[i, i:] * 2",
        "(a[i:] + b[i:]) * a[i:]",
        "1 / a[i, i:] - b[i, i:]",
        "a[i:] / most",
        "xp.maximum(a[i:], most)",
        "xp.copysign(most, least)",
        "most - least",
        "most + xp.copysign(least, most)",
    ],
)
def test_no_function_is_entered_for_what_has_been_met(statement):
    names, entered = given(oxinp, "f8"), []
    names |= {"most": names["c"].max(), "least": names["c"].min()}
    oxinp.evaluate(names["most"], names["least"])
    code = compile(f"for i in numbers:\n    {statement}", "statement", "exec")

    def note(frame, event, argument):
        del argument
        if event == "call" and frame.f_code.co_name in ENTERED:
            entered.append(frame.f_code.co_name)

    with balance.suspended():
        exec(code, {"numbers": range(1, 40), "xp": oxinp, **names})  # noqa: S102 - a table's
        sys.setprofile(note)
        try:
            exec(code, {"numbers": range(40, 60), "xp": oxinp, **names})  # noqa: S102 - a table's
        finally:
            sys.setprofile(None)
    assert len(entered) <= 4  # of other alignments


@pytest.mark.parametrize("other", ["'x'", "None", "10**40", "2j", "True", "[1.0] * 640", "1 << 30", "a.astype('c16')"])
def test_other_operands_are_as_numpy_has_them(other):
    outcomes = []
    for xp in (oxinp, numpy):
        names = given(xp, "f8")
        value = eval(other, dict(names))  # noqa: S307 - a table's
        kept = []
        for pair in ((names["a"], value), (value, names["a"])):
            for _ in range(3):
                try:
                    kept.append(pair[0] + pair[1])
                except Exception as error:  # noqa: BLE001 - whatever it is
                    kept.append(type(error).__name__)
        outcomes.append(kept)
    for one, two in zip(*outcomes, strict=True):
        if isinstance(two, str):
            assert one == two
        else:
            assert_same(one, two)


def test_references_are_given_back():
    names = given(oxinp, "f8")
    a, b = names["a"], names["b"]
    total = names["c"].max()
    oxinp.evaluate(total)
    counts = []
    for _ in range(4):
        for _ in range(20):
            a * 0.5 + b
            a + a
            a / total
            total + names["c"].max()
            total + oxinp.copysign(total, total)
        oxinp.evaluate()
        kept = a, b, a._storage, a._storage.value[1][0], a._known, total, total._storage, total._known
        counts.append([sys.getrefcount(x) for x in kept])
    assert counts[2] == counts[3]


def test_room_is_made_among_what_is_pending():
    a = given(oxinp, "f8")["a"]
    for _ in range(schedule.MAX_PENDING + 100):
        kept = a * 0.5
    assert len(schedule.PENDING) <= schedule.MAX_PENDING + 1
    assert_same(kept, numpy.array(a) * 0.5)
