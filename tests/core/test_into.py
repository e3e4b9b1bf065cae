"""Calls of ufuncs whose result goes to an array on the device: NumPy's results and errors, in few steps."""

import sys
from contextlib import nullcontext

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.lazy.balance import balance
from oxinp._core.ufunc.objects import UFUNC_OBJECTS
from tests.comparator import assert_same, same_outcome

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")

STATEMENTS = [
    "np.add(a, b, out=a)",
    "np.add(a, b, a)",
    "np.subtract(b, a, out=a)",
    "np.multiply(a, a, out=a)",
    "np.multiply(a, 0.5, out=a)",
    "np.multiply(a, np.float64(0.5), out=a)",
    "np.subtract(1, a, out=a)",
    "np.maximum(a, 0.25, out=a)",
    "np.add(a, c, out=b)",
    "np.add(c, a, out=b)",
    "np.add(a, b, out=f)",
    "np.add(a, b.T, out=a)",
    "np.add(a.T, b.T, out=a)",
    "np.add(a, h, out=a)",
    "np.sqrt(a, out=a)",
    "np.sqrt(a, out=b)",
    "np.sqrt(a, a)",
    "np.negative(a[i:, i:], out=a[i:, i:])",
    "np.negative(b[i:, i:], out=a[: n - i, : n - i])",
    "np.sqrt(a.T, out=a)",
    "np.power(a, 2, out=a)",
    "np.power(a, 2.0, out=b)",
    "np.multiply(a[i:, i:], b[i:, i:], out=a[i:, i:])",
    "np.multiply(b[i:, i:], a[i:, i:], out=a[i:, i:])",
    "np.multiply(a[i:, i:], b[i:, i:], out=a[: n - i, : n - i])",
    "np.multiply(a[i:, i:], 2.0, out=a[i:, i:])",
    "np.multiply(a[i:, i:], np.float64(2.0), out=a[i:, i:])",
    "np.multiply(2.0, a[i:, i:], out=a[i:, i:])",
    "np.add(a[1:], a[:-1], out=a[1:])",
    "np.add(a[1:], a[:-1], out=a[:-1])",
    "np.add(a[i, i:], c[i:], out=a[i, i:])",
    "np.add(a[i, i:], c[i:], out=a[i:, i])",
    "np.add(a[i], c, out=c)",
    "np.add(a[i:i + 1], 1.0, out=a[i:i + 1])",
    "np.add(a[i, i], 1.0, out=c[i:i + 1])",
    "np.greater(a, b, out=t)",
    "np.greater(a[i:, i:], 0.5, out=t[i:, i:])",
    "np.logical_and(t, t.T, out=t)",
    "np.add(a, b, out=s)",
    "np.add(k, 3, out=k)",
    "np.add(k, k.T, out=a)",
    "np.add(a, b, out=a[:])",
    "np.add(a[a > 0.5], 1.0, out=a[a > 0.5])",
    "np.add(c[:1], c[0], out=c[:1])",
    "np.add(np.float64(1.0), np.float64(2.0), out=c)",
    "np.add(a, b, out=(a,))",
    "d = np.add(a, b, out=a) is a; np.add(a, d, out=a)",
    "d = a[i:] * 2.0; np.add(a, b, out=a); np.add(a[i:], d, out=a[i:])",
    "d = a.copy(); np.add(a, b, out=d); np.add(a, d, out=a)",
    "a.flags.writeable = i % 3 > 0; np.add(a, 1.0, out=b) if i % 3 == 0 else np.add(a, 1.0, out=a)",
]
N, TURNS = 70, 18


def run(xp, statement):
    rng = numpy.random.default_rng(3)
    given = {name: xp.array(rng.random(shape)) for name, shape in (("a", (N, N)), ("b", (N, N)), ("c", N))}
    given |= {"f": xp.array(rng.random((N, N)).T), "s": xp.array(rng.random((N, N)), xp.float32)}
    given |= {"k": xp.array(rng.integers(0, 9, (N, N))), "t": xp.array(rng.random((N, N)) > 0.5), "h": rng.random(N)}
    code = compile(statement, "statement", "exec")
    for i in range(TURNS):
        exec(code, {"np": xp, "i": i, "n": N, **given})  # noqa: S102 - a table of statements
    return [given[name] for name in "abcfskt"]


@pytest.fixture
def in_general(monkeypatch):
    """Let all calls go the general way."""

    def leave():
        for called in UFUNC_OBJECTS.values():
            monkeypatch.setattr(called, "_direct", None)

    return leave


@pytest.mark.parametrize("statement", STATEMENTS)
def test_results_are_numpys(statement):
    with balance.suspended():
        found = run(oxinp, statement)
    for ours, numpys in zip(found, run(numpy, statement), strict=True):
        assert_same(ours, numpys)


@pytest.mark.parametrize("threshold", [1000, 65536])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_results_are_numpys_where_placement_decides(statement, threshold, config):
    config.offload_threshold = threshold
    for ours, numpys in zip(run(oxinp, statement), run(numpy, statement), strict=True):
        assert_same(ours, numpys)


@pytest.mark.parametrize("statement", [each for each in STATEMENTS if "float64" not in each])
def test_launches_are_no_more_than_those_of_the_general_way(statement, launches, in_general):
    with balance.suspended():
        run(oxinp, statement)
        directly = launches(lambda: tuple(run(oxinp, statement)))
        in_general()
        assert directly <= launches(lambda: tuple(run(oxinp, statement)))


FAILING = [
    "np.add(a, b, out=c)",
    "np.add(a, c, out=a[:, :3])",
    "np.add(a, b[:3], out=a)",
    "np.add(a, b, out=k)",
    "np.add(a, 1.0, out=k)",
    "np.add(a, 1j, out=a)",
    "np.add(k, 2**70, out=k)",
    "np.add(u, 300, out=u)",
    "np.add(a, None, out=a)",
    "np.add(a, 'x', out=a)",
    "np.add(a, out=a)",
    "np.sqrt(a, b, out=a)",
    "np.add(a, b, out=r)",
    "np.add(a, b, out=r[2:])",
    "np.invert(a, out=a)",
    "np.power(k, -2, out=k)",
]


@pytest.mark.parametrize("statement", FAILING)
def test_errors_are_numpys_and_nothing_is_written(statement):
    def body(np):
        a, b, c = np.arange(4900.0).reshape(70, 70), np.ones((70, 70)) * 0.5, np.ones(70) * 2.0
        k, u = np.arange(4900).reshape(70, 70), np.ones(9, np.uint8)
        r = np.ones((70, 70)) * 3.0
        r.flags.writeable = False
        given = {"a": a, "b": b, "c": c, "k": k, "u": u, "r": r}
        for _ in range(3):
            try:
                exec(statement, {"np": np, **given})  # noqa: S102 - a table of statements
            except (ValueError, TypeError, OverflowError) as error:
                given[type(error).__name__ + str(error)] = True
        return given

    same_outcome(body, oxinp, numpy)


@pytest.mark.parametrize("statement", ["np.multiply(a, 1e300, out=a)", "np.multiply(a[1:], 1e300, out=a[1:])"])
def test_floating_point_errors_are_told_of(statement, config):
    config.floating_point_errors = "numpy"
    code = compile(statement, "statement", "exec")
    for how in ("ignore", "raise", "ignore"):
        a = oxinp.ones((70, 70)) * 1e300
        with oxinp.errstate(all=how), pytest.raises(FloatingPointError) if how == "raise" else nullcontext():
            exec(code, {"np": oxinp, "a": a})  # noqa: S102 - a table of statements
            oxinp.evaluate(a)
            numpy.asarray(a)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="machine code of device arrays is written from 3.12 on")
@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("np.add(a, b, out=a)", 8),
        ("np.sqrt(a, out=b)", 8),
        ("np.multiply(a, 2.0, out=a)", 9),
        ("np.multiply(a[3:, 3:], b[3:, 3:], out=a[3:, 3:])", 12),
        ("np.negative(b[3:, 3:], out=a[3:, 3:])", 14),
    ],
)
def test_few_functions_are_entered(statement, most, entered):
    given = {"np": oxinp, "a": oxinp.ones((300, 300)), "b": oxinp.ones((300, 300)) * 0.5}
    oxinp.evaluate(given["a"], given["b"])
    code = compile(statement, "statement", "exec")
    with balance.suspended():
        for _ in range(30):
            exec(code, given)  # noqa: S102 - a table of statements
            oxinp.evaluate(given["a"], given["b"])
        names = entered(lambda: exec(code, given))  # noqa: S102
    assert len(names) <= most, names
