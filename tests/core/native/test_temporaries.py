"""Results take the place of operands that the interpreter alone holds, and of no others."""

import functools
import operator
import warnings
import weakref

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy.balance import SAMPLED, balance
from oxinp._core.native import install, temporaries
from tests.comparator import assert_same

OPERATORS = {"+": "add", "-": "subtract", "*": "multiply", "/": "true_divide"}
SHAPE = 180, 200  # so many that loops are left to NumPy
pytestmark = pytest.mark.skipif(
    temporaries.caller("add") is temporaries.UNKNOWN, reason="where the interpreter calls from is not known here"
)


@pytest.fixture(autouse=True, params=["learned", "host"])
def learned(request):
    """Have arrays of this size belong on the host, where everything does or not, and the operators in machine code."""
    elsewhere = {"backend": "host"} if request.param == "host" else {}
    with config.override(offload_threshold=65536, adaptive_placement=True, machine_code=True, **elsewhere):
        balance.begin(65536, is_adaptive=True)
        install.install(oxinp.ndarray)
        balance._settle(5)
        balance._return = 1e18
        yield
        balance.begin(65536, is_adaptive=True)


def operands(dtype=np.float64):
    draw = np.random.default_rng(7)
    both = [(draw.random(SHAPE) + 0.5 + np.issubdtype(dtype, np.integer)).astype(dtype) for _ in range(2)]
    ours = [oxinp.asarray(each) for each in both]
    for each in ours:
        np.asarray(each)
    return {"a": ours[0], "b": ours[1]}, {"a": both[0], "b": both[1]}


class Watch:
    """Notes where an array lies that passes."""

    def __init__(self):
        self.seen = []

    def __call__(self, array):
        self.seen.append(id(array))
        return array


def evaluate(text, names):
    """Return what an expression makes, and whether that is what `watch` has seen, often enough to be weighed."""
    code = compile(text, "<program>", "eval")
    found, reused = None, []
    for _ in range(SAMPLED + 2):
        watch = Watch()
        found = eval(code, names | {"watch": watch, "operator": operator})  # noqa: S307 - what this is about
        reused.append(id(found) in watch.seen)
    return found, reused


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize(
    "text",
    [
        "watch(a + b) {} 2.0",
        "watch(a + b) {} 3",
        "watch(a + b) {} a",
        "a {} watch(a + b)",
        "2.5 {} watch(a * b)",
        "watch(a + b) {} a[0]",
        "watch(a + b) {} a[:, :1]",
        "1.5 {} (watch(a + b) {} b - a)",
    ],
)
def test_what_nobody_else_holds_is_replaced(text, symbol, dtype):
    text = text.replace("{}", symbol)
    ours, numpys = operands(dtype)
    found, reused = evaluate(text, ours)
    assert_same(found, evaluate(text, numpys)[0])
    assert all(reused)
    assert_same(ours["a"], numpys["a"])
    assert_same(ours["b"], numpys["b"])


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("text", ["watch(a * 7) {} b", "watch(a * 7) {} 3", "3 {} watch(a * 7)", "watch(a * 7) {} 2.5"])
def test_integers_are_replaced_by_integers(text, symbol, dtype):
    text = text.replace("{}", symbol)
    ours, numpys = operands(dtype)
    found, reused = evaluate(text, ours)
    assert_same(found, evaluate(text, numpys)[0])
    assert all(reused) if symbol != "/" and "2.5" not in text else not any(reused)


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize(
    "text",
    [
        "watch(a) {} 2.0",
        "b {} watch(a)",
        "watch(a + b)[:] {} 2.0",
        "watch(a + b) {} 2j",
        "watch(a + b) {} b.astype('f4')",
        "watch(a[0] + 1) {} b",
        "watch(a + b).view() {} b",
        "watch(a + b) {} np.float32(2)",
    ],
)
def test_what_others_hold_or_does_not_fit_is_not_replaced(text, symbol):
    text = text.replace("{}", symbol)
    ours, numpys = operands()
    found, reused = evaluate(text, ours | {"np": np})
    assert_same(found, evaluate(text, numpys | {"np": np})[0])
    assert not any(reused)
    assert_same(ours["a"], numpys["a"])


@pytest.mark.parametrize("name", ["mul", "add", "sub", "truediv"])
def test_functions_in_c_may_go_on_with_what_they_hold(name):
    ours, numpys = operands()
    applied = getattr(operator, name)
    for _ in range(SAMPLED + 2):
        again = getattr(ours["a"] + ours["b"], f"__{name}__")
        first, second = again(2.0), again(2.0)
    expected = applied(numpys["a"] + numpys["b"], 2.0)
    assert_same(first, expected)
    assert_same(second, expected)
    text = f"operator.{name}(watch(a + b), 2.0)"
    found, reused = evaluate(text, ours)
    assert_same(found, expected)
    assert not any(reused)
    parts = [ours["a"], ours["b"], ours["a"] * 0.5]
    assert_same(
        functools.reduce(applied, parts), functools.reduce(applied, [numpys["a"], numpys["b"], numpys["a"] * 0.5])
    )


def test_arrays_that_others_see_are_not_replaced():
    ours, numpys = operands()
    a, b = ours["a"], ours["b"]
    kept = []

    def shown(array, how):
        kept.append(how(array))
        return array

    for how in (weakref.ref, np.asarray, memoryview, operator.itemgetter(0), lambda x: x.T, lambda x: x._seen):
        for _ in range(3):
            found = shown(a + b, how) * 2.0
        assert_same(found, (numpys["a"] + numpys["b"]) * 2.0)
        if how is not weakref.ref:
            last = np.asarray(kept[-1])
            assert last.flat[0] == numpys["a"].flat[0] + numpys["b"].flat[0]


def test_arithmetic_warns_and_raises_in_the_line():
    ours, _ = operands()
    a = ours["a"]
    for _ in range(3):
        (a - a) / 2.0
    with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
        found = 1.0 / (a - a)
    assert caught[0].filename == __file__
    assert np.isinf(np.asarray(found)).all()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        1.0 / (a - a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            1.0 / (a - a)


def test_who_calls_is_the_interpreter():
    callers = [temporaries.caller(name) for name in OPERATORS.values()]
    assert len({each.interpreter for each in callers}) == 1
    assert len({place for each in callers for place in each[:2]}) == 2 * len(callers)
    assert all(0 < each.depth < 200 and each.of_both for each in callers)
    assert temporaries.caller("and") is temporaries.UNKNOWN
