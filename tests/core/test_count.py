"""Counts on the device: NumPy's bins exactly."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy.expr import new_table
from oxinp._core.ops import binned, count
from oxinp._kernels.index import sums
from tests.comparator import assert_same
from tests.core.test_sort import fallbacks

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.mark.parametrize("code", "bhilBHI")
def test_bincount(code, stats):
    rng = numpy.random.default_rng(0)
    for high, size in ((1, 5), (100, 3000)):
        x = rng.integers(0, high, size).astype(code)
        for minlength in (0, 7, 300):
            assert_same(np.bincount(np.asarray(x), minlength=minlength), numpy.bincount(x, minlength=minlength))
    assert not fallbacks(stats)


def test_many_bins(stats):
    x = numpy.random.default_rng(1).integers(0, 40_000, 5000)
    assert_same(np.bincount(np.asarray(x)), numpy.bincount(x))
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "iIH")
def test_many_numbers_in_many_bins_are_grouped(code, monkeypatch, kernels, stats):
    monkeypatch.setattr(sums, "MIN_COUNT", dict.fromkeys("iuf", 1))
    x = numpy.random.default_rng(2).integers(0, 20_000, 11_000).astype(code)
    for step in (1, -2):
        assert_same(np.bincount(np.asarray(x)[::step]), numpy.bincount(x[::step]))
    assert any("sum_by_bucket_whole" in text for text in kernels)
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "bilH")
@pytest.mark.parametrize("has_weights", [False, True])
def test_numbers_below_a_minimal_length_are_looked_at_once(code, has_weights, monkeypatch, kernels, stats):
    monkeypatch.setattr(sums, "MIN_COUNT", dict.fromkeys("iuf", 1))
    monkeypatch.setattr(binned, "MAX_COUNTERS", 100)
    rng = numpy.random.default_rng(3)
    x = rng.integers(0, 120, 11_000).astype(code)
    weights = rng.standard_normal(x.size).astype("f4") if has_weights else None
    given = () if weights is None else (np.asarray(weights)[::-1],)
    expected = () if weights is None else (weights[::-1],)
    found = np.bincount(np.asarray(x), *given, minlength=300)
    assert any("sum_by_bucket_whole" in text for text in kernels)
    assert not any("reduce" in text for text in kernels)
    assert found.base is None
    numpy.testing.assert_allclose(found, numpy.bincount(x, *expected, minlength=300), rtol=1e-12, atol=1e-12)
    more = numpy.append(x, numpy.array([7, 126], code)) if not has_weights else x + numpy.array(5, code)
    for minlength in (120, 125, 126, 127):
        found = np.bincount(np.asarray(more), *given, minlength=minlength)
        expected_here = numpy.bincount(more, *expected, minlength=minlength)
        numpy.testing.assert_allclose(found, expected_here, rtol=1e-12, atol=1e-12)
    assert not fallbacks(stats)
    if code != "H":
        x[5000] = -1
        with pytest.raises(ValueError, match="negative"):
            np.bincount(np.asarray(x), *given, minlength=300)


@pytest.mark.parametrize("has_weights", [False, True])
def test_as_many_bins_as_before_are_looked_at_once(has_weights, monkeypatch, stats):
    monkeypatch.setattr(sums, "MIN_COUNT", dict.fromkeys("iuf", 1))
    monkeypatch.setattr(count, "_GUESSES", new_table())
    reduced = []
    reduce = count.reduce
    monkeypatch.setattr(count, "reduce", lambda *args: reduced.append(args) or reduce(*args))
    rng = numpy.random.default_rng(4)
    weights = (rng.standard_normal(30_000),) if has_weights else ()

    def check(x, minlength=0):
        reduced.clear()
        found = np.bincount(np.asarray(x), *map(np.asarray, weights), minlength=minlength)
        assert found.base is None
        numpy.testing.assert_allclose(found, numpy.bincount(x, *weights, minlength=minlength), rtol=1e-12, atol=1e-12)
        return len(reduced) > 0

    x = rng.integers(0, 20_000, 30_000)
    x[17] = 20_000
    assert check(x)
    assert not check(x)
    assert not check(x[::-1].copy())
    for greatest in (20_001, 19_999):  # another number of bins, each time looked at twice
        x[x >= 19_999] = 0
        x[17] = greatest
        assert check(x)
    assert check(x), "guessed after as many misses"
    assert not fallbacks(stats)
    x[3] = -1
    with pytest.raises(ValueError, match="negative"):
        np.bincount(np.asarray(x), *map(np.asarray, weights))


def test_what_numpy_refuses():
    for wrong in (numpy.array([1, -1]), numpy.ones(3), numpy.ones((2, 2), int)):
        with pytest.raises((ValueError, TypeError)) as ours:
            np.bincount(np.asarray(wrong))
        with pytest.raises(type(ours.value)):
            numpy.bincount(wrong)


BINS = [10, 100, 7, [0.0, 0.5, 0.5, 1, 3], numpy.linspace(-1, 1, 12), [-numpy.inf, 0, numpy.inf], [3, 3]]


@pytest.mark.parametrize("code", "efdilBH")
def test_histogram(code, stats):
    rng = numpy.random.default_rng(2)
    x = (rng.standard_normal(3000) * 2 if code in "efd" else rng.integers(0, 50, 3000)).astype(code)
    x[:500] = numpy.round(x[:500], 1)
    for bins in BINS:
        for options in ({}, {"range": (-1.5, 2.5)}, {"density": True}):
            if code == "e" and type(bins) is int and bins == 100:
                continue  # NumPy's float16 is then out by more than a bin
            with numpy.errstate(all="ignore"):
                found, expected = np.histogram(np.asarray(x), bins, **options), numpy.histogram(x, bins, **options)
            for a, b in zip(found, expected, strict=True):
                assert_same(a, b)
    assert not fallbacks(stats)


def test_elements_at_edges_and_outside(stats):
    edges = numpy.linspace(0, 1, 101)
    x = numpy.concatenate([edges, numpy.nextafter(edges, 2), numpy.nextafter(edges, -2), [numpy.nan, 5, -5]])
    found = np.histogram(np.asarray(x), 100, (0, 1))
    for a, b in zip(found, numpy.histogram(x, 100, (0, 1)), strict=True):
        assert_same(a, b)
    assert not fallbacks(stats)


def test_errors_of_histograms():
    x = np.asarray(numpy.array([1.0, numpy.nan]))
    for wrong in ({}, {"bins": 0}, {"bins": [3, 2, 1]}, {"range": (1, 0)}, {"bins": 2.5}):
        with pytest.raises((ValueError, TypeError)) as ours:
            np.histogram(x, **wrong)
        with pytest.raises(type(ours.value)):
            numpy.histogram(numpy.array([1.0, numpy.nan]), **wrong)


@pytest.mark.parametrize("code", "fdiB")
@pytest.mark.parametrize("has_gaps", [False, True])
def test_weights_between_equidistant_edges(code, has_gaps, kernels, stats):
    rng = numpy.random.default_rng(5)
    x = (rng.standard_normal(800) * 2 if code in "fd" else rng.integers(0, 50, 800)).astype(code)
    x[:500] = numpy.round(x[:500], 1)
    for dtype in ("d", "i"):
        weights = rng.integers(-9, 9, x.size).astype(dtype)
        a, b = (x.reshape(-1, 8)[:, ::2], weights.reshape(-1, 8)[:, ::2]) if has_gaps else (x, weights)
        ours = [np.asarray(x), np.asarray(weights)]
        ours = [each.reshape(-1, 8)[:, ::2] for each in ours] if has_gaps else ours
        for options in ({}, {"range": (-1.5, 2.5)}, {"range": (0.25, 3), "bins": 30}, {"bins": [0, 0.5, 0.5, 1, 9]}):
            found = np.histogram(ours[0], weights=ours[1], **options)
            for mine, theirs in zip(found, numpy.histogram(a, weights=b, **options), strict=True):
                assert_same(mine, theirs)
                assert mine.base is None
    assert any("bins" in text for text in kernels)
    assert not any("search" in text and "bins" in text for text in kernels)
    assert not fallbacks(stats)


def test_weights_are_those_when_the_histogram_was_asked_for():
    rng = numpy.random.default_rng(6)
    x, weights = rng.random(3000), rng.integers(0, 9, 3000).astype(float)
    ours, given = np.asarray(x), np.asarray(weights)
    found = np.histogram(ours, 20, weights=given)[0]
    given[:] = 0
    ours += 1
    assert_same(found, numpy.histogram(x, 20, weights=weights)[0])
    found += 1
    assert_same(found, numpy.histogram(x, 20, weights=weights)[0] + 1)


def test_edges_that_are_kept_are_nobodys():
    x = numpy.random.default_rng(7).random(3000)
    for options in ({}, {"range": (0.0, 1.0)}):
        for _ in range(3):
            _, edges = np.histogram(np.asarray(x), 10, **options)
            assert_same(edges, numpy.histogram(x, 10, **options)[1])
            edges *= 0
    low = numpy.where(x < 0.5, -0.0, x)
    for given in (low, numpy.where(x < 0.5, 0.0, x)):  # zeros are equal, edges are not
        assert_same(np.histogram(np.asarray(given), 10)[1], numpy.histogram(given, 10)[1])


@pytest.mark.parametrize("code", "fd")
def test_edges_between_any_extrema(code, stats):
    rng = numpy.random.default_rng(8)
    ends = [
        (0, 1e-3),
        (-1e-3, 1e-3),
        (5, 5),
        (0, 0),
        (1e37, 3e37),
        (-1e37, 3e38),
        (1, numpy.nextafter(1, 2)),
        (3e-310, 1),
    ]
    for low, high in [*ends, *rng.standard_normal((8, 2)) * 10.0 ** rng.integers(-5, 6, (8, 1))]:
        x = numpy.array([low, high, *[(low + high) / 2] * 5], code)
        for bins in (1, 7):
            try:
                expected = numpy.histogram(x, bins)
            except ValueError as error:
                with pytest.raises(ValueError, match=str(error)[:20]):
                    np.histogram(np.asarray(x), bins)
                continue
            for mine, theirs in zip(np.histogram(np.asarray(x), bins), expected, strict=True):
                assert_same(mine, theirs)
    assert not fallbacks(stats)
