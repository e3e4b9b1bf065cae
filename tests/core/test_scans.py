"""Cumulative sums and products and `accumulate`, of every dtype and layout, on the device: NumPy's values."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.reduction.table import BY_UFUNC
from tests.comparator import assert_same, assert_within
from tests.thinned import thinned

pytestmark = [pytest.mark.usefixtures("on_device"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]

CODES = "?bhilBHILefdFD"
CUMULATIVE = ("cumsum", "cumprod", "nancumsum", "nancumprod")
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "steps backwards": lambda x: x[::-1, ::-2],
    "columns": lambda x: x[:, 3:9],
    "broadcast": lambda x: x[:1],
}


def values(code, shape=(19, 66)):
    """Return numbers whose sums and products are exact, whatever their order."""
    rng = numpy.random.default_rng(ord(code))
    if code == "?":
        return rng.random(shape) < 0.5
    if code in "eF":
        return rng.choice([1.0, -1.0, 0.5 if code == "F" else 1.0], shape, p=(0.4, 0.55, 0.05)).astype(code)
    if code in "fdD":
        return rng.choice([1.0, -2.0, 0.5], shape).astype(code)
    return rng.integers(-3 if code in "bhil" else 0, 5, shape).astype(code)


def fallbacks(stats):
    """Return what NumPy computed, but for what this test read."""
    return set(stats().fallbacks) - {"__array__"}


def check(ours, numpys):
    if numpys.dtype.kind == "c":  # the signs of zeros depend on the order
        assert_same(numpy.asarray(ours) + 0, numpys + 0)
    else:
        assert_same(ours, numpys)
    assert ours.strides == numpys.strides


@pytest.mark.parametrize(("code", "layout"), thinned(CODES, list(LAYOUTS)))
@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative(name, layout, code, stats):
    make, x = LAYOUTS[layout], values(code)
    for axis in (None, 0, 1, -1):
        check(getattr(np, name)(make(np.asarray(x)), axis), getattr(numpy, name)(make(x), axis))
    assert not fallbacks(stats)
    if not name.startswith("nan"):
        check(getattr(make(np.asarray(x)), name)(1), getattr(make(x), name)(1))
        check(getattr(make(np.asarray(x)), name)(), getattr(make(x), name)())
    assert stats().launches


@pytest.mark.parametrize(("code", "name"), thinned(CODES, BY_UFUNC))
def test_accumulate(code, name, stats):
    if name.startswith("bitwise") and code in "efdFD":
        return
    for layout in ("contiguous", "steps backwards"):
        make, x = LAYOUTS[layout], values(code)
        for axis in (0, 1):
            check(
                getattr(np, name).accumulate(make(np.asarray(x)), axis), getattr(numpy, name).accumulate(make(x), axis)
            )
    assert not fallbacks(stats)


@pytest.mark.parametrize(("code", "name"), thinned("hiefd", ["logaddexp", "logaddexp2"]))
def test_logarithms_of_sums(name, code, stats):
    x = values(code)
    for axis in (0, 1):
        ours = getattr(np, name).accumulate(np.asarray(x), axis)
        numpys = getattr(numpy, name).accumulate(x, axis)
        assert ours.dtype == numpys.dtype
        rounding = numpy.finfo(numpys.dtype).eps * (1 + abs(numpys.astype(float)))
        assert_within(ours, numpys, x.shape[axis] * rounding)  # NumPy rounds once for each element
    x = numpy.random.default_rng(1).standard_normal(9000)
    assert_within(getattr(np, name).accumulate(np.asarray(x)), getattr(numpy, name).accumulate(x), 1e-12)
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "efd")
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "add"])
def test_nan(name, code):
    x = values(code)
    x[2, 5], x[7], x[4, 4] = numpy.nan, numpy.nan, -numpy.inf
    for axis in (0, 1):
        ours = getattr(np, name).accumulate(np.asarray(x), axis)
        assert_same(ours, getattr(numpy, name).accumulate(x, axis))
    for cumulative in ("nancumsum", "nancumprod"):
        assert_same(getattr(np, cumulative)(np.asarray(x), 1), getattr(numpy, cumulative)(x, 1))


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 3), (1, 1), ()])
def test_few_elements(shape):
    x = numpy.ones(shape)
    for axis in (None, *range(x.ndim)):
        assert_same(np.asarray(x).cumsum(axis), x.cumsum(axis))


def test_dtypes_and_outputs(stats):
    x = numpy.random.default_rng(0).integers(0, 100, (40, 70)).astype("i2")
    ours = np.asarray(x)
    for dtype in ("i2", "u1", "f4", "f8", "c8", bool):
        assert_same(np.cumsum(ours, 1, dtype), numpy.cumsum(x, 1, dtype))
        assert_same(np.add.accumulate(ours, 0, dtype=dtype), numpy.add.accumulate(x, 0, dtype=dtype))
    assert_same(np.logical_or.accumulate(ours, 1), numpy.logical_or.accumulate(x, 1))
    out, expected = np.zeros((40, 140), "i8"), numpy.zeros((40, 140), "i8")
    assert np.cumsum(ours, 1, out=out[:, ::2]).base is out
    numpy.cumsum(x, 1, out=expected[:, ::2])
    assert_same(out, expected)
    assert not fallbacks(stats)
    narrow, expected = np.zeros((40, 70), "f4"), numpy.zeros((40, 70), "f4")
    np.cumsum(ours, 1, out=narrow)  # NumPy accumulates in the dtype of `out`
    numpy.cumsum(x, 1, out=expected)
    assert_same(narrow, expected)


def test_in_place_and_overlapping():
    x = numpy.random.default_rng(1).integers(0, 100, (40, 70))
    for source, target in ((slice(None), slice(None)), (slice(0, 50), slice(20, 70)), (slice(20, 70), slice(0, 50))):
        ours, numpys = np.asarray(x), x.copy()
        np.cumsum(ours[:, source], 1, out=ours[:, target])
        numpy.cumsum(numpys[:, source], 1, out=numpys[:, target])
        assert_same(ours, numpys)


def test_fused_with_the_chain_before(stats):
    x = numpy.random.default_rng(2).integers(0, 9, (30, 700)).astype(float)
    ours = np.asarray(x)
    before = stats().launches
    result = np.cumsum(ours * 2 + 1, axis=1)
    assert_same(result, numpy.cumsum(x * 2 + 1, axis=1))
    assert stats().launches == before + 1
    assert_same(
        np.cumsum(result + ours[:, :1], 0).sum(1), numpy.cumsum(numpy.cumsum(x * 2 + 1, 1) + x[:, :1], 0).sum(1)
    )
    assert not fallbacks(stats)


def test_writes_after_recording_do_not_reach_it():
    ours, x = np.arange(600.0).reshape(6, 100), numpy.arange(600.0).reshape(6, 100)
    pending, expected = np.cumsum(ours, 0), numpy.cumsum(x, 0)
    ours[2:4] = 0
    x[2:4] = 0
    assert_same(pending, expected)
    assert_same(np.cumsum(ours, 0), numpy.cumsum(x, 0))


def test_rounded_sums():
    x = numpy.random.default_rng(3).standard_normal((50, 3000)).astype("f4")
    exact = numpy.cumsum(x.astype("f8"), 1)
    assert_within(np.cumsum(np.asarray(x), 1), exact.astype("f4"), numpy.spacing(numpy.abs(exact).astype("f4")))


def test_with_initial(stats):
    x = numpy.random.default_rng(4).integers(1, 5, (20, 30))
    for name in ("cumulative_sum", "cumulative_prod"):
        if hasattr(numpy, name):
            for given in ({"axis": 1}, {"axis": 0, "include_initial": True}, {"axis": 1, "dtype": "f8"}):
                assert_same(getattr(np, name)(np.asarray(x), **given), getattr(numpy, name)(x, **given))
    assert not fallbacks(stats)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.cumsum(x, 2),
        lambda xp, x: xp.cumsum(x, -3),
        lambda xp, x: xp.cumsum(x, (0, 1)),
        lambda xp, x: xp.add.accumulate(x, None),
        lambda xp, x: xp.add.accumulate(x[0, 0]),
        lambda xp, x: xp.cumsum(x, 0, out=xp.zeros((2, 2))),
        lambda xp, x: xp.cumsum(x, 0, "nonsense"),
        lambda _, x: x.cumsum(0, None, None, 1),
        lambda xp, x: xp.subtract.accumulate(x, 5),
    ],
)
def test_what_numpy_refuses(call):
    x = numpy.arange(24.0).reshape(4, 6)
    with pytest.raises(Exception) as expected:
        call(numpy, x)
    with pytest.raises(expected.type.__mro__[1] if expected.type.__name__.startswith("_") else expected.type):
        call(np, np.asarray(x))
