"""Every reduction, of every dtype, over every kind of axes, on the device: NumPy's values, and how many launches."""

# ruff: noqa: ARG005, ICN001 - programs of one signature, and oxinp is np

import math
import warnings
from fractions import Fraction

import numpy
import pytest

import oxinp as np
from oxinp._core.reduction import reduce
from oxinp._core.reduction import table as reduction_table
from tests.comparator import assert_same, assert_within, same_outcome
from tests.thinned import thinned
from tests.tolerances import REDUCTIONS

pytestmark = [
    pytest.mark.usefixtures("on_device"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
]

CODES = "?bhilBHILefdFD"
USUAL = "?blBefdD"  # the others with --full
NAMES = (*[row.name for row in reduction_table.REDUCTIONS], "count_nonzero", "ptp", "average")
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "steps backwards": lambda x: x[::-1, ::-2],
    "columns": lambda x: x[:, 3:9],
    "broadcast": lambda x: x[:1],
}
# Every axis of the plain layout, and one of each other, since each is a kernel of its own.
CASES = (
    *(("contiguous", axis, axis == 1) for axis in (None, 0, 1, (0, 1))),
    *(("transposed", 0, True), ("steps backwards", None, False), ("columns", -1, False), ("broadcast", 0, True)),
    ("steps backwards", (), False),
)


def values(code, shape=(19, 66), seed=0):
    """Return numbers of a few magnitudes, many of them equal."""
    rng = numpy.random.default_rng([seed, ord(code)])
    dtype = numpy.dtype(code)
    if dtype.kind in "biu":
        return rng.integers(0 if dtype.kind in "bu" else -3, 2 if dtype.kind == "b" else 9, shape).astype(dtype)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 2, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    x = x.astype(dtype)
    x[0, 1::5] = 0
    x[:, 7] = x[:, 11]
    return x


def factors(code, shape=(19, 66)):
    """Return numbers whose product neither overflows nor underflows, in whatever order."""
    x = values(code, shape)
    return x if x.dtype.kind in "biu" else (x / numpy.abs(numpy.where(x == 0, 1, x)) + (x == 0)).astype(code)


def with_nan(x):
    x = x.copy()
    x[2, 5], x[7], x[4, 4] = numpy.nan, numpy.nan, -numpy.inf
    x[7, 0] = 1
    return x


def inputs_of(name, code):
    return factors(code) if "prod" in name else values(code)


def check(name, x, make, **arguments):
    """Hold one call against NumPy's."""
    ours = getattr(np, name)(make(np.asarray(x)), **arguments)
    seen = make(x)
    numpys = getattr(numpy, name)(seen, **arguments)
    plain = name.removeprefix("nan")
    if numpys.dtype.kind not in "fc" or plain not in REDUCTIONS:
        assert_same(ours, numpys, where=name)
        return
    accumulated = seen.astype(numpy.result_type(seen.dtype, numpys.dtype))
    bound = REDUCTIONS[plain].bound(accumulated, arguments.get("axis"), arguments.get("keepdims", False))
    assert_within(ours, numpys, bound, where=name)


def cases_of(name):
    return [case for case in CASES if "arg" not in name or not isinstance(case[1], tuple)]


@pytest.mark.parametrize("code", [c if c in USUAL else pytest.param(c, marks=pytest.mark.slow) for c in CODES])
@pytest.mark.parametrize("name", NAMES)
def test_is_numpys(name, code, stats):
    x = inputs_of(name, code)
    fallbacks = dict(stats().fallbacks)
    for layout, axis, keepdims in cases_of(name) if (name, code) != ("ptp", "?") else ():
        with numpy.errstate(all="ignore"):
            check(name, x, LAYOUTS[layout], axis=axis, keepdims=keepdims)
    done = {key for key, count in stats().fallbacks.items() if count > fallbacks.get(key, 0)}
    assert done <= {"__array__"}


@pytest.mark.parametrize(("name", "code"), thinned(NAMES, "efdFD"))
def test_nan_and_infinities_are_numpys(name, code):
    x = with_nan(inputs_of(name, code))
    for layout, axis in (("contiguous", None), ("contiguous", 1), ("transposed", 1), ("steps backwards", None)):
        with numpy.errstate(all="ignore"):
            check(name, x, LAYOUTS[layout], axis=axis)


METHODS = [row.name for row in reduction_table.REDUCTIONS if hasattr(numpy.ndarray, row.name)]


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_functions(name):
    x = values("d")
    ours = np.asarray(x)
    for axis in (None, 0, 1):
        assert_same(getattr(ours, name)(axis), getattr(np, name)(ours, axis))
        assert_same(getattr(ours, name)(axis=axis, keepdims=True), getattr(np, name)(ours, axis=axis, keepdims=True))


MASKED = ("sum", "prod", "any", "all", "mean", "var", "std", "nansum", "nanmean", "nanvar", "nanstd", "nanprod")


@pytest.mark.parametrize(("name", "code"), thinned(MASKED, "?ibBlefdD"))
def test_where(name, code, stats):
    x = inputs_of(name, code)
    mask = numpy.random.default_rng(5).random(x.shape) < 0.6
    mask[3] = False
    before = dict(stats().fallbacks)
    for axis, masks in ((None, (mask, numpy.True_)), (0, (mask, mask[:, :1])), (1, (mask[:1],))):
        for given in masks:
            ours = getattr(np, name)(np.asarray(x), axis=axis, where=np.asarray(given))
            numpys = getattr(numpy, name)(x, axis=axis, where=given)
            bound = 0.0
            if numpys.dtype.kind in "fc" and name.removeprefix("nan") in REDUCTIONS:
                accumulated = x.astype(numpy.result_type(x.dtype, numpys.dtype))
                bound = REDUCTIONS[name.removeprefix("nan")].bound(accumulated, axis, keepdims=False).max()
            assert_within(ours, numpys, bound, where=f"{name} {axis}")
    assert {key for key, count in stats().fallbacks.items() if count > before.get(key, 0)} <= {"__array__"}


@pytest.mark.parametrize("code", "efdFD")
def test_a_sum_of_minus_zeros_that_starts_from_one(code):
    x = numpy.full((3, 50), -0.0, code)
    for axis in (None, 0, 1):
        for initial in (-0.0, 0.0):
            ours, numpys = np.sum(np.asarray(x), axis, initial=initial), numpy.sum(x, axis, initial=initial)
            assert numpy.asarray(ours).tobytes() == numpys.tobytes()


@pytest.mark.parametrize("code", "?blBefd")
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "nansum", "nanmax", "nanmin", "nanprod"])
def test_initial(name, code, stats):
    x = inputs_of(name, code)
    mask = x > 0
    before = dict(stats().fallbacks)
    for initial in (1, 3, 0):
        for axis in (None, 0):
            check(name, x, LAYOUTS["contiguous"], axis=axis, initial=bool(initial) if code == "?" else initial)
            if name in ("max", "min"):
                ours = getattr(np, name)(np.asarray(x), axis, initial=initial, where=np.asarray(mask))
                assert_same(ours, getattr(numpy, name)(x, axis, initial=initial, where=mask))
    if code != "?":
        assert {key for key, count in stats().fallbacks.items() if count > before.get(key, 0)} <= {"__array__"}


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("code", "ifdD")
def test_degrees_of_freedom(name, code):
    x = values(code)
    for axis in (None, 0, 1):
        for ddof in (1, 1.5, 19, 70):
            arguments = {"correction": ddof} if ddof == 1.5 else {"ddof": ddof}
            ours, numpys = (getattr(xp, name)(xp.asarray(x), axis, **arguments) for xp in (np, numpy))
            assert_within(ours, numpys, 1e-5 * numpy.nan_to_num(abs(numpys), posinf=0.0))
    for raising in (lambda xp: getattr(xp, name)(xp.asarray(x), ddof=1, correction=1),):
        same_outcome(raising, np, numpy)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("code", "ifd")
def test_a_mean_that_is_given(name, code, launches):
    x = values(code)
    for axis in (0, 1):
        mean = x.mean(axis, keepdims=True)
        ours = np.asarray(x), np.asarray(mean)
        np.evaluate(*ours)
        results = []
        assert launches(lambda: results.append(getattr(np, name)(ours[0], axis, mean=ours[1], ddof=1))) <= 2  # noqa: B023
        assert_within(results[0], getattr(numpy, name)(x, axis, mean=mean, ddof=1), 1e-5)


OUTPUTS = [
    *(("sum", code, out) for code, out in [("f", "d"), ("d", "f"), ("i", "l"), ("l", "i"), ("i", "d"), ("?", "l")]),
    *(("prod", code, out) for code, out in [("f", "d"), ("l", "i"), ("b", "h")]),
    *(("mean", code, out) for code, out in [("f", "d"), ("d", "f"), ("i", "d"), ("e", "f")]),
    *(("var", code, out) for code, out in [("f", "d"), ("d", "f"), ("l", "f")]),
    *(("any", code, out) for code, out in [("f", "?"), ("d", "d"), ("?", "B")]),
    *(("max", "d", "d"), ("min", "i", "i"), ("argmax", "f", "l"), ("nansum", "f", "d"), ("std", "d", "d")),
]


@pytest.mark.parametrize(("name", "code", "out"), OUTPUTS)
def test_output_of_another_dtype(name, code, out, stats):
    x = values(code)
    before = dict(stats().fallbacks)
    for axis, shape in ((0, (66,)), (1, (19,)), (None, ())):
        ours, numpys = (xp.zeros(shape, out) for xp in (np, numpy))
        given = getattr(np, name)(np.asarray(x), axis=axis, out=ours)
        expected = getattr(numpy, name)(x, axis=axis, out=numpys)
        assert given is ours
        eps = max(float(numpy.finfo(c).eps) if numpy.dtype(c).kind == "f" else 0.0 for c in (code, out))
        assert_within(ours, numpys, 40 * eps * numpy.abs(x.astype("D")).sum() if expected.dtype.kind == "f" else 0.0)
    assert {key for key, count in stats().fallbacks.items() if count > before.get(key, 0)} <= {"__array__"}


DTYPES = [
    *(("sum", "f", "d"), ("sum", "d", "f"), ("sum", "d", "i"), ("sum", "l", "b"), ("prod", "i", "d")),
    *(("mean", "f", "d"), ("mean", "i", "f"), ("mean", "e", "d"), ("var", "f", "d"), ("std", "l", "f")),
]


@pytest.mark.parametrize(("name", "code", "dtype"), DTYPES)
def test_dtype(name, code, dtype):
    x = values(code)
    for axis in (None, 0):
        ours, numpys = (getattr(xp, name)(xp.asarray(x), axis, dtype=dtype) for xp in (np, numpy))
        eps = float(numpy.finfo(dtype).eps) if numpy.dtype(dtype).kind == "f" else 0.0
        assert_within(ours, numpys, 40 * eps * (1 + numpy.abs(x.astype("d")).sum() + numpy.abs(numpys).max()))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean"])
def test_averages_that_have_been_bound_are_not_bound_again(name, axis, monkeypatch):
    """Of other sizes they divide by another number; with other degrees of freedom they are something else."""
    x, function, numpys = numpy.arange(40_000.0).reshape(200, 200) % 77, getattr(np, name), getattr(numpy, name)
    ours = np.asarray(x)
    float(function(ours * 2.0, axis=axis).sum())
    known = function(ours[:150] * 2.0, axis=axis)
    if name in ("var", "std"):
        assert_within(function(ours * 2.0, axis=axis, ddof=3), numpys(x * 2.0, axis=axis, ddof=3), 1e-10)

    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(reduce, "bind", refuse)
    for rows in (199, 120):
        assert_within(function(ours[:rows] * 2.0, axis=axis), numpys(x[:rows] * 2.0, axis=axis), 1e-10)
    assert_within(known, numpys(x[:150] * 2.0, axis=axis), 1e-10)


FAILING = {
    "no axis": lambda xp, x: x.sum(axis=2),
    "an axis twice": lambda xp, x: xp.mean(x, axis=(0, 0)),
    "axes of argmax": lambda xp, x: x.argmax(axis=(0, 1)),
    "wrong output": lambda xp, x: xp.sum(x, axis=0, out=xp.zeros(3)),
    "wrong output of argmax": lambda xp, x: xp.argmax(x, axis=0, out=xp.zeros(66)),
    "output that takes no float": lambda xp, x: xp.sum(x, axis=0, out=xp.zeros(66, int)),
    "mask without a start": lambda xp, x: xp.max(x, where=x > 0),
    "all NaN": lambda xp, x: xp.nanargmax(x * xp.nan, axis=1),
    "empty maximum": lambda xp, x: x[:0].max(),
    "empty argmin": lambda xp, x: xp.argmin(x[:, :0]),
    "empty mean": lambda xp, x: xp.mean(x[:0], axis=0),
    "empty sum": lambda xp, x: (x[:0].sum(), x[:0].prod(axis=0), xp.any(x[:, :0], axis=1), xp.all(x[:0])),
    "weights that add to nothing": lambda xp, x: xp.average(x, weights=x * 0),
    "weights of another shape": lambda xp, x: xp.average(x, weights=x[0]),
    "weights of a wrong shape": lambda xp, x: xp.average(x, axis=0, weights=x[0]),
    "integer dtype of a NaN mean": lambda xp, x: xp.nanmean(x, dtype=int),
    "a mask that is not bool": lambda xp, x: xp.sum(x, where=xp.ones(x.shape, int)),
    "a mask of another shape": lambda xp, x: xp.sum(x, where=xp.ones((3, 4), bool)),
    "unknown argument": lambda xp, x: x.sum(nonsense=3),
    "an argument twice": lambda xp, x: x.sum(0, axis=0),
    "too many arguments": lambda xp, x: x.any(0, None, None, False, True),
    "a start that does not fit": lambda xp, x: xp.sum(x.astype("b"), dtype="b", initial=300),
}


@pytest.mark.parametrize("body", FAILING.values(), ids=FAILING)
def test_errors_are_numpys(body):
    x = values("d")
    with numpy.errstate(all="ignore"):
        same_outcome(lambda xp: body(xp, xp.asarray(x)), np, numpy)


def test_averages():
    x, w = values("d"), abs(values("d", seed=1))
    calls = [
        lambda xp, x, w: xp.average(x, weights=w),
        lambda xp, x, w: xp.average(x, axis=0, weights=w[:, 0]),
        lambda xp, x, w: xp.average(x, axis=1, weights=w[0], returned=True),
        lambda xp, x, w: xp.average(x, axis=1, returned=True),
        lambda xp, x, w: xp.average(x.astype("i"), axis=(1, 0), weights=w.T, keepdims=True),
    ]
    for call in calls:
        ours, numpys = call(np, np.asarray(x), np.asarray(w)), call(numpy, x, w)
        for a, b in zip(ours, numpys, strict=True) if isinstance(numpys, tuple) else [(ours, numpys)]:
            assert_within(a, b, 1e-12)


CHAINS = {
    "mean": lambda xp, a, b: xp.mean(a * b + 1),
    "variance": lambda xp, a, b: xp.var(a - b, axis=0),
    "deviation along rows": lambda xp, a, b: (a * 2).std(axis=1),
    "any": lambda xp, a, b: (a > b).any(),
    "all": lambda xp, a, b: xp.all(a < b + 100, axis=1),
    "index": lambda xp, a, b: xp.argmax(a * b),
    "index along columns": lambda xp, a, b: xp.argmin(a - b, axis=0),
    "count": lambda xp, a, b: xp.count_nonzero(a > b, axis=0),
    "masked sum": lambda xp, a, b: xp.sum(a * 2, where=b > 0),
    "masked mean": lambda xp, a, b: xp.mean(a, axis=1, where=b > 0),
    "product": lambda xp, a, b: xp.prod(a > -100, axis=1),
    "NaN": lambda xp, a, b: xp.nansum(a + b),
    "NaN variance": lambda xp, a, b: xp.nanvar(a + b, axis=1),
    "started": lambda xp, a, b: xp.max(a - b, initial=0),
}


@pytest.mark.parametrize("shape", [(19, 66), (700, 130)])
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_fuses_with_the_chain_before_it(chain, shape, launches):
    a, b = (values("d", shape, seed) for seed in (0, 1))
    ours = np.asarray(a), np.asarray(b)
    np.evaluate(*ours)
    results = []
    count = launches(lambda: results.append(chain(np, *ours)) or results[0])
    assert count == 1 if shape[0] < 100 else count <= 2  # and at most the pass that joins what blocks came to
    assert_within(results[0], chain(numpy, a, b), 1e-9)


def test_ties_and_signed_zeros_and_nan_come_first():
    for x in (
        numpy.array([1.0, 5.0, 5.0, 3.0] * 3000),
        numpy.array([0.0, -0.0, 0.0] * 3000),
        numpy.array([1.0, numpy.inf, numpy.nan, 9.0, numpy.nan] * 3000),
        numpy.full(7000, -numpy.inf),
        numpy.full(7000, numpy.nan),
        numpy.full(7000, numpy.iinfo(numpy.int64).min),
        numpy.full((70, 70), True),
        numpy.zeros((70, 70), numpy.uint8),
    ):
        for view in (
            lambda a: a,
            lambda a: a[::-1],
            lambda a: a.reshape(10, -1).T,
            lambda a: a.reshape(-1, 10)[:, ::3],
        ):
            ours, numpys = view(np.asarray(x)), view(x)
            for name in ("argmax", "argmin"):
                for axis in (None, *range(numpys.ndim)):
                    assert_same(getattr(ours, name)(axis), getattr(numpys, name)(axis))


def exact_variance(x):
    """The variance of floats, in rational numbers."""
    numbers = [Fraction(float(value)) for value in x]
    total, squares, count = sum(numbers), sum(n * n for n in numbers), len(numbers)
    return float((count * squares - total * total) / (count * count))


def distributions(rng, size):
    yield "far from zero", 1e8 + rng.standard_normal(size)
    yield "graded", numpy.geomspace(1e-8, 1e8, size)
    yield "graded downwards", numpy.geomspace(1e8, 1e-8, size)
    yield "an outlier first", numpy.concatenate([[1e10], rng.standard_normal(size - 1)])
    yield "an outlier last", numpy.concatenate([rng.standard_normal(size - 1), [-1e10]])
    yield "two far heaps", numpy.where(rng.random(size) < 0.5, 1e6, -1e6) + rng.standard_normal(size)
    yield "drifting", numpy.linspace(0, 1e6, size) + rng.standard_normal(size)
    yield "constant", numpy.full(size, 0.1)
    yield "tiny", rng.standard_normal(size) * 1e-18


@pytest.mark.parametrize("size", [2, 37, 1000, 20_011])
@pytest.mark.parametrize("code", "fd")
def test_variances_are_as_exact_as_their_dtype(code, size):
    eps = float(numpy.finfo(code).eps)
    for kind, x in distributions(numpy.random.default_rng(size), size):
        seen = x.astype(code)
        exact = exact_variance(seen)
        for ours in (np.var(np.asarray(seen)), np.var(np.asarray(numpy.stack([seen] * 2, 1)), axis=0)[1]):
            bound = 16 * eps * exact + (4 * eps * float(abs(seen).max())) ** 2 * (kind == "constant")
            assert abs(float(ours) - exact) <= bound, (kind, float(ours), exact, float(numpy.var(seen)))


@pytest.mark.parametrize("code", "fd")
def test_means_and_sums_are_better_than_pairwise(code):
    rng = numpy.random.default_rng(3)
    x = (rng.standard_normal(50_000) * 10.0 ** rng.integers(-8, 9, 50_000)).astype(code)
    eps, magnitude = float(numpy.finfo(code).eps), math.fsum(abs(x).tolist())
    exact = math.fsum(x.tolist())
    assert abs(float(np.sum(np.asarray(x))) - exact) <= 4 * eps * magnitude
    assert abs(float(np.mean(np.asarray(x))) - exact / x.size) <= 4 * eps * magnitude / x.size


@pytest.mark.parametrize("name", ["sum", "mean", "var", "argmax", "prod"])
def test_the_same_call_gives_the_same_bits(name):
    x = np.asarray(values("d", (300, 300)))
    for axis in (None, 0, 1):
        first = numpy.asarray(getattr(np, name)(x, axis))
        for _ in range(3):
            assert_same(getattr(np, name)(x * 1, axis), numpy.asarray(first)[()])


def test_degrees_of_freedom_warn_as_numpys():
    x = np.asarray(values("d"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.var(x, axis=0, ddof=19)
        x.std(ddof=x.size)
    assert [str(w.message) for w in told if w.category is RuntimeWarning] == ["Degrees of freedom <= 0 for slice"] * 2
    assert {w.filename for w in told} == {__file__}


def test_every_row_is_tried():
    rows = {row.name for row in vars(reduction_table).values() if isinstance(row, reduction_table.ReductionRow)}
    by_ufunc = {row.name for row in reduction_table.BY_UFUNC.values()}
    assert rows == (set(NAMES) | by_ufunc) - {"count_nonzero", "ptp", "average"}


NEGATIONS = (
    lambda x: -x,
    lambda x: 0 - x,
    lambda x: x - x - x,
    lambda x: x * (x.dtype.type(0) - x.dtype.type(1)),
    lambda x: x - (x + x),
)


@pytest.mark.filterwarnings("ignore:overflow encountered in scalar subtract")  # minus one, unsigned
@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4"])
def test_extrema_of_negated_elements(config, dtype):
    # NVIDIA's compiler lost the sign of narrow integers.
    config.offload_threshold = 0
    x = numpy.arange(-3, 117).astype("i8").astype(dtype)
    y, z = x[::-1].copy(), numpy.roll(x, 7)
    ours, others, last = np.asarray(x), np.asarray(y), np.asarray(z)
    for negate in NEGATIONS:
        assert np.max(negate(ours)) == numpy.max(negate(x))
        assert np.min(negate(ours)) == numpy.min(negate(x))
        for name in ("maximum", "minimum"):
            choose, numpys = getattr(np, name), getattr(numpy, name)
            assert_same(choose(choose(ours, negate(others)), last), numpys(numpys(x, negate(y)), z), where=name)
            assert_same(choose(negate(others), choose(last, ours)), numpys(negate(y), numpys(z, x)), where=name)


@pytest.mark.parametrize(
    "view",
    [lambda m: m.T, lambda m: m.reshape(3, 4), lambda m: m.ravel()[:4], lambda m: m.T[::-1]],
    ids=["transposed", "reshaped", "flat", "reversed"],
)
def test_a_view_of_a_result_that_waits(twin, config, view):
    config.offload_threshold = 0

    def body(n):
        x, z = n.asarray(numpy.arange(60.0).reshape(4, 3, 5)), n.ones((5, 4))
        z[1:4] = view(x.sum(-1))
        y = n.asarray(numpy.array(3.0))
        z[0, :1] = y.sum().ravel()
        return z

    twin(body)


@pytest.mark.parametrize("code", "?bHIq")
@pytest.mark.parametrize("name", reduction_table.BY_UFUNC)
def test_reduce_of_ufuncs(name, code, stats):
    """The rows that are `reduce` of a ufunc, with what only that takes: an initial value and a mask."""
    x = values(code, (5, 70))
    x[3] = 2**15 - 1 if code in "Iq" else 1
    ours, numpys, ours_x = getattr(np, name), getattr(numpy, name), np.asarray(x)
    for axis in (0, 1, None):
        assert_same(ours.reduce(ours_x, axis), numpys.reduce(x, axis))
        assert_same(
            ours.reduce(ours_x.T, axis, initial=1, where=ours_x.T > 1),
            numpys.reduce(x.T, axis, initial=1, where=x.T > 1),
        )
    assert not set(stats().fallbacks) - {"__array__"}


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_floats_are_refused(name):
    x = numpy.ones((3, 70))
    same_outcome(lambda xp: getattr(xp, name).reduce(xp.asarray(x), 1), np, numpy)


def test_columns_of_a_long_narrow_matrix_and_one_element(config):
    """Rows are folded there, and an operand of one element moves along none of the new axes."""
    config.offload_threshold = 0
    x = numpy.random.default_rng(0).normal(size=(40_000, 12))
    x[x > 1] = numpy.nan
    ours = np.asarray(x)
    smallest = np.min(np.where(np.isnan(ours), np.asarray(np.inf), ours), axis=0)
    assert_same(smallest, numpy.nanmin(x, axis=0))
