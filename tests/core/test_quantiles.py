"""Medians and quantiles on the device: NumPy's values, bit for bit, of every method."""

# ruff: noqa: ICN001 - oxinp is np

import warnings

import numpy
import pytest
from numpy.lib import _function_base_impl as numpys

import oxinp as np
from oxinp._core.ops import ranks
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")


def fallbacks(stats):
    """Return what NumPy computed, but for what this test read."""
    return set(stats().fallbacks) - {"__array__"}


def values(code):
    rng = numpy.random.default_rng(ord(code))
    x = (rng.random((6, 41)) * 50).astype(code)
    if code in "efd":
        x[1, 5] = x[2, :] = numpy.nan
    return x


@pytest.mark.parametrize("code", "efdBi")
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)], ids=str)
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_median(name, axis, code, stats):
    x = values(code)
    for seen, ours in ((x, np.asarray(x)), (x[:, ::2].T, np.asarray(x)[:, ::2].T), (x[:2, 6:], np.asarray(x)[:2, 6:])):
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            expected = getattr(numpy, name)(seen, axis)
            count = len(raised)
            assert_same(getattr(np, name)(ours, axis), expected)
        assert len(raised) == 2 * count
    assert not fallbacks(stats)


@pytest.mark.parametrize("method", numpys._QuantileMethods)
@pytest.mark.parametrize("name", ["percentile", "nanpercentile"])
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_every_method(name, method, stats):
    for code, axis, q in (
        ("d", 1, [0, 25.5, 100]),
        ("f", 0, 30),
        ("e", None, numpy.float32(40)),
        ("i", 1, [[0.0, 90]]),
    ):
        x = values(code)
        options = {"axis": axis, "method": method, "keepdims": code == "d"}
        assert_same(getattr(np, name)(np.asarray(x), q, **options), getattr(numpy, name)(x, q, **options))
    assert not fallbacks(stats)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_weights(name, stats):
    for code, axis, q in (("d", 1, [0, 0.3, 1]), ("i", None, 0.5), ("f", 0, 0.25)):
        x = values(code)
        is_single = axis is not None and name == "quantile"  # with which NumPy's nanquantile fails
        weights = numpy.random.default_rng(0).integers(1, 9, x.shape[axis] if is_single else x.shape).astype("d")
        options = {"axis": axis, "method": "inverted_cdf"}
        ours = getattr(np, name)(np.asarray(x), q, weights=np.asarray(weights), **options)
        assert_same(ours, getattr(numpy, name)(x, q, weights=weights, **options))
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "efi")
def test_of_long_rows(code, stats, monkeypatch):
    monkeypatch.setattr(ranks, "MIN_LENGTH", 1)  # those that are long on a GPU take the emulator minutes
    x = values(code)
    for axis in (None, 1):
        assert_same(np.median(np.asarray(x), axis), numpy.median(x, axis))
        assert_same(np.percentile(np.asarray(x), [10, 90], axis), numpy.percentile(x, [10, 90], axis))
    assert_same(np.median(np.asarray(x[3:])), numpy.median(x[3:]))
    assert not fallbacks(stats)


def test_outputs(stats):
    x = values("d")
    out, expected = np.zeros(6), numpy.zeros(6)
    assert np.median(np.asarray(x), axis=1, out=out) is out
    numpy.median(x, axis=1, out=expected)
    assert_same(out, expected)
    assert np.quantile(np.asarray(x), 0.2, axis=1, out=out) is out
    numpy.quantile(x, 0.2, axis=1, out=expected)
    assert_same(out, expected)
    assert not fallbacks(stats)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.percentile(x, 101),
        lambda xp, x: xp.percentile(x, 10, method="nonsense"),
        lambda xp, x: xp.quantile(x, 0.5, axis=2),
        lambda xp, x: xp.quantile(x, 0.5, weights=x[:, 0]),
        lambda xp, x: xp.quantile(x, 0.5, axis=1, weights=x[0] * 0, method="inverted_cdf"),
        lambda xp, x: xp.median(x, axis=3),
        lambda xp, x: xp.partition(x, 50),
        lambda xp, x: xp.partition(x, 1.5),
        lambda xp, x: xp.partition(x, 1, kind="quicksort"),
        lambda _, x: x.partition(3, axis=None),
        lambda xp, x: xp.broadcast_to(x, (2, 6, 41)).sort(),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_numpy_refuses(call):
    x = numpy.random.default_rng(0).random((6, 41))
    with pytest.raises(Exception) as expected:
        call(numpy, x.copy())
    with pytest.raises(expected.type):
        call(np, np.asarray(x))


def test_methods_that_sort_in_place(stats):
    x = values("d")
    ours, expected = np.asarray(x), x.copy()
    for target, numpys_ in ((ours[::2], expected[::2]), (ours.T, expected.T), (ours[:, 0], expected[:, 0])):
        target.sort(axis=0)
        numpys_.sort(axis=0)
        assert_same(ours, expected)
    ours.partition(3)
    expected.sort()
    assert_same(np.sort(ours), expected)
    assert_same(ours[:, 3], expected[:, 3])
    assert_same(np.partition(ours, (1, -2), axis=0)[-2], numpy.partition(expected, (1, -2), axis=0)[-2])
    found = ours.argpartition(5)
    assert_same(np.take_along_axis(ours, found, 1)[:, 5], expected[:, 5])
    assert_same(ours.argsort(kind="stable"), expected.argsort(kind="stable"))
    assert_same(ours[0].searchsorted(ours[1]), expected[0].searchsorted(expected[1]))
    assert_same(np.sort_complex(ours), numpy.sort_complex(expected))
    assert fallbacks(stats) <= {"take_along_axis"}
