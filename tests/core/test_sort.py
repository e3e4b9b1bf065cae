"""Sorts and what is read off sorted elements, on the device: NumPy's values, layouts and errors."""

# ruff: noqa: ICN001 - oxinp is np

import re

import numpy
import pytest
from numpy.lib import NumpyVersion

import oxinp as np
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

CODES = "?bhilBHILefdFD"


def fallbacks(stats):
    """Return what NumPy computed, but for what this test read."""
    return set(stats().fallbacks) - {"__array__"}


def values(code, shape):
    """Return values with many equal ones, and of floats the special ones."""
    rng = numpy.random.default_rng(ord(code))
    x = rng.integers(0, 2 if code == "?" else 20, shape).astype(code)
    if code in "efdFD":
        x = numpy.where(rng.random(shape) < 0.1, rng.choice([0.0, -0.0, numpy.nan, numpy.inf], shape), x).astype(code)
    return x


def check(ours, numpys):
    assert_same(ours, numpys)
    assert ours.strides == numpys.strides


@pytest.mark.parametrize("code", CODES)
def test_sort_and_argsort(code, stats):
    x = values(code, (6, 40))
    ours = np.asarray(x)
    for axis in (-1, 0, None):
        check(np.sort(ours, axis, kind="stable"), numpy.sort(x, axis, kind="stable"))
        check(np.argsort(ours, axis, stable=True), numpy.argsort(x, axis, stable=True))
    assert not fallbacks(stats)


def test_any_axis_and_layout(stats):
    x = abs(values("d", (5, 6, 7)))  # NumPy's sorts by vectors, on some processors, mix zeros of both signs
    ours = np.asarray(x)
    for axis in range(-3, 3):
        check(np.sort(ours, axis), numpy.sort(x, axis))
        assert_same(np.sort(ours.T, axis), numpy.sort(x.T, axis))
        assert_same(np.argsort(ours[::2, ::-1], axis, kind="stable"), numpy.argsort(x[::2, ::-1], axis, kind="stable"))
    assert not fallbacks(stats)


def test_errors():
    x = np.asarray(values("d", (5, 6)))
    for wrong, error in (({"axis": 2}, numpy.exceptions.AxisError), ({"kind": "bogus"}, ValueError)):
        with pytest.raises(error):
            np.sort(x, **wrong)
    with pytest.raises(ValueError, match="kind"):
        np.argsort(x, kind="stable", stable=True)
    with pytest.raises(numpy.exceptions.AxisError):
        np.sort(np.asarray(3.0))


def test_chains_are_computed_first(stats):
    x = values("i", (300,))
    assert_same(np.sort(np.asarray(x) * 3 - 7) + 1, numpy.sort(x * 3 - 7) + 1)
    assert not fallbacks(stats)


DESCENDING = pytest.mark.skipif(
    NumpyVersion(numpy.__version__) < "2.5.0", reason="NumPy has no such keyword before 2.5"
)


@DESCENDING
@pytest.mark.parametrize("code", CODES)
def test_descending(code, stats):
    for shape in ((40,), (3, 400)):
        x = values(code, shape)
        ours = np.asarray(x)
        for axis in (-1, 0, None):
            check(np.sort(ours, axis, descending=True), numpy.sort(x, axis, descending=True, stable=True))
            check(np.argsort(ours, axis, descending=1), numpy.argsort(x, axis, descending=True, stable=True))
            assert_same(ours.argsort(axis, descending=True), x.argsort(axis, descending=True, stable=True))
        assert_same(np.sort(ours, descending=False), numpy.sort(x, stable=True))
        ours.sort(0, descending=True)
        x.sort(0, descending=True, stable=True)
        assert_same(ours + 0, x + 0)
    assert not fallbacks(stats)


@DESCENDING
@pytest.mark.parametrize("method", ["sort", "argsort"])
def test_descending_is_refused_as_numpys(method):
    for more in ({"kind": "stable"}, {"order": "a"}):
        for call in (
            lambda np, more: getattr(np, method)(np.ones(3), **more),
            lambda np, more: getattr(np.ones(3), method)(**more),
        ):
            with pytest.raises(ValueError) as expected:
                call(numpy, {"descending": False, **more})
            with pytest.raises(ValueError, match=re.escape(str(expected.value))):
                call(np, {"descending": False, **more})


@pytest.mark.skipif(not DESCENDING.args[0], reason="NumPy has the keyword")
@pytest.mark.parametrize("method", ["sort", "argsort"])
def test_descending_is_no_keyword_before_numpy_has_it(method):
    for x in (np.ones(3), numpy.ones(3)):
        with pytest.raises(TypeError):
            getattr(np, method)(x, descending=True)
    with pytest.raises(TypeError):
        getattr(np.ones(3), method)(descending=True)


def test_lexsort(stats):
    a, b, c = values("i", (200,)), values("e", (200,)), values("F", (200,))
    for keys in ((a, b), (b, a, c), (c, a)):
        assert_same(np.lexsort([np.asarray(key) for key in keys]), numpy.lexsort(keys))
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", CODES)
def test_searchsorted(code, stats):
    x, wanted = numpy.sort(values(code, (100,))), values(code, (3, 20))
    for side in ("left", "right"):
        check(np.searchsorted(np.asarray(x), np.asarray(wanted), side), numpy.searchsorted(x, wanted, side))
    assert not fallbacks(stats)


def test_searchsorted_of_other_dtypes_and_lengths(stats):
    for size in (1, 2, 7):
        x = numpy.sort(values("f", (size,)))
        wanted = numpy.arange(-1, 21, dtype="i2")
        assert_same(np.searchsorted(np.asarray(x), np.asarray(wanted)), numpy.searchsorted(x, wanted))
    x, wanted = values("d", (50,)), values("d", (9,))
    sorter = numpy.argsort(x)
    ours = np.searchsorted(np.asarray(x), np.asarray(wanted), sorter=np.asarray(sorter))
    assert_same(ours, numpy.searchsorted(x, wanted, sorter=sorter))
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", CODES)
def test_unique(code, stats):
    x = values(code, (10, 20))
    ours = np.asarray(x)
    for options in (
        {},
        {"return_counts": True},
        {"return_index": True, "return_inverse": True, "return_counts": True},
        {"equal_nan": False},
    ):
        found, expected = np.unique(ours, **options), numpy.unique(x, **options)
        for a, b in zip(found, expected, strict=True) if options.keys() - {"equal_nan"} else [(found, expected)]:
            with numpy.errstate(invalid="ignore"):  # NumPy's conversion of a NaN to float16
                assert_same(a + 0, b + 0)  # NumPy keeps any of the equal elements, of whatever sign zeros are
    assert not fallbacks(stats)


def test_unique_functions(stats):
    x = numpy.nan_to_num(values("d", (200,)))  # NumPy numbers NaNs as its unstable sort leaves them
    ours = np.asarray(x)
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        found, expected = getattr(np, name)(ours), getattr(numpy, name)(x)
        assert found._fields == expected._fields
        for a, b in zip(found[1:], expected[1:], strict=True):
            assert_same(a, b)
        assert_same(found[0] + 0, expected[0] + 0)
    assert_same(np.unique_values(ours) + 0, numpy.sort(numpy.unique_values(x)) + 0)
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "bhiqBHILefd")
def test_median(code, stats):
    rng = numpy.random.default_rng(5)
    x = (rng.standard_normal((7, 8, 5)) * 100).astype(code)
    ours = np.asarray(x)
    for axis in (None, 0, 1, -1):
        assert_same(np.median(ours, axis), numpy.median(x, axis))
    assert_same(np.median(ours[:6]), numpy.median(x[:6]))
    if code in "efd":
        x[3, 4, 2] = numpy.nan
        for axis in (None, 0, 1, -1):
            assert_same(np.median(np.asarray(x), axis), numpy.median(x, axis))
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "bhilBHILefdFD")
def test_sets(code, stats):
    x, y = values(code, (20, 10)), numpy.concatenate([values(code, 30)[:5], numpy.array([100, 7]).astype(code)])
    ours, others = np.asarray(x), np.asarray(y)
    for options in ({}, {"invert": True}):
        assert_same(np.isin(ours, others, **options), numpy.isin(x, y, **options))
    for name in ("union1d", "setdiff1d", "intersect1d"):
        with numpy.errstate(invalid="ignore"):
            assert_same(getattr(np, name)(ours, others) + 0, getattr(numpy, name)(x, y) + 0)
    assert not fallbacks(stats)


def test_digitize(stats):
    x = values("d", (6, 50))
    for bins in ([0.0, 3, 3, 9], [9.0, 4, 1], numpy.linspace(0, 20, 9)):
        for right in (False, True):
            ours = np.digitize(np.asarray(x), np.asarray(bins), right)
            assert_same(ours, numpy.digitize(x, bins, right))
    assert not fallbacks(stats)
    with pytest.raises(ValueError, match="monoton"):
        np.digitize(np.asarray(x), [1.0, 3, 2])


@pytest.mark.parametrize("code", ["M8[s]", "m8[ns]"])
def test_dates_are_sorted_by_their_integers(code, stats):
    rng = numpy.random.default_rng(9)
    x = rng.integers(-99, 99, (30, 70)).astype(code)
    x[3, 5:9] = "NaT"
    line, wanted = numpy.sort(x, None), x[::2].ravel()
    ours = np.asarray(x)
    for axis in (0, 1, None):
        assert_same(np.sort(ours, axis), numpy.sort(x, axis))
        assert_same(np.argsort(ours, axis, kind="stable"), numpy.argsort(x, axis, kind="stable"))
    assert_same(np.unique(ours), numpy.unique(x))
    for found, expected in zip(np.unique(ours, True, True, True), numpy.unique(x, True, True, True), strict=True):
        assert_same(found, expected)
    for side in ("left", "right"):
        found = np.searchsorted(np.asarray(line), np.asarray(wanted), side)
        assert_same(found, numpy.searchsorted(line, wanted, side))
    numbers = rng.integers(0, 3, x.size)
    assert_same(np.lexsort((ours.ravel(), np.asarray(numbers))), numpy.lexsort((x.ravel(), numbers)))
    assert not fallbacks(stats)
