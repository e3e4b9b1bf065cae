"""`numpy.ufunc.at` and weighted counts on the device: NumPy's values, in the order of the elements."""

# ruff: noqa: ICN001 - oxinp is np

import sys

import numpy
import pytest

import oxinp as np
from oxinp._kernels.index import scatter, sums
from tests.comparator import assert_same
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("on_device")

CODES = "bhilBHILefdFD"


def fallbacks(stats):
    """Return what NumPy computed, but for what this test read."""
    return set(stats().fallbacks) - {"__array__"}


def draws(size, seed=0):
    return numpy.random.default_rng(seed).integers(-30, 30, size)


@pytest.mark.parametrize(("code", "name"), thinned(CODES, ["add", "subtract", "multiply", "maximum", "bitwise_xor"]))
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_at(name, code, stats):
    if code in "efdFD" and name.startswith("bitwise"):
        return
    rng = numpy.random.default_rng(ord(code))
    index, x = draws(400), rng.integers(0, 9, 30).astype(code)
    values = rng.integers(0, 3, 400).astype(code)
    ours, expected = np.asarray(x) * 1, x * 1
    for value in (values, values[0], *([2] if code != "L" else [])):  # of which NumPy makes floats
        getattr(np, name).at(ours, np.asarray(index), np.asarray(value) if numpy.ndim(value) else value)
        getattr(numpy, name).at(expected, index, value)
        assert_same(ours, expected)
    assert not fallbacks(stats)


def test_sums_of_few_are_in_the_order_of_the_elements(stats):
    rng = numpy.random.default_rng(1)
    index, values = rng.integers(0, 200, 1000), rng.random(1000)
    ours, expected = np.zeros(200), numpy.zeros(200)
    np.add.at(ours, np.asarray(index), np.asarray(values))
    numpy.add.at(expected, index, values)
    assert_same(ours, expected)  # one tile: bit for bit
    assert not fallbacks(stats)


def test_sums_of_many_are_the_same_every_time(stats):
    rng = numpy.random.default_rng(2)
    index, values = rng.integers(0, 3, 6000), rng.random(6000)
    found = []
    for _ in range(2):
        ours = np.zeros(5)
        np.add.at(ours, np.asarray(index), np.asarray(values))
        found.append(numpy.asarray(ours))
    assert_same(*found)
    expected = [numpy.sum(values[index == i]) for i in range(5)]
    assert numpy.allclose(found[0], expected, rtol=1e-12, atol=0)
    assert not fallbacks(stats)


def test_rows_and_views(stats):
    rng = numpy.random.default_rng(3)
    x, rows, index = rng.random((30, 7)), rng.random((100, 7)), draws(100)
    ours, expected, given = np.asarray(x) * 1, x * 1, np.asarray(index) * 1
    np.add.at(ours, given, np.asarray(rows))
    numpy.add.at(expected, index, rows)
    assert_same(ours, expected)
    np.subtract.at(ours[:, ::-1], (slice(None), given[:20] % 7), np.asarray(rows.T[0, :20]))
    numpy.subtract.at(expected[:, ::-1], (slice(None), index[:20] % 7), rows.T[0, :20])
    assert_same(ours, expected)
    np.maximum.at(ours, (given, given % 7), 0.75)
    numpy.maximum.at(expected, (index, index % 7), 0.75)
    assert_same(ours, expected)
    np.add.at(ours, ours > 0.5, np.asarray(2.0))
    numpy.add.at(expected, expected > 0.5, 2.0)
    assert_same(ours, expected)
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", [*"bf", *(pytest.param(code, marks=pytest.mark.slow) for code in "iD")])
def test_reduceat(code, stats):
    x = numpy.random.default_rng(5).integers(-4, 5, (6, 90)).astype(code)
    for name in ("add", "multiply", "maximum"):
        if code == "D" and name == "maximum":
            continue
        for axis, starts in ((1, [0, 7, 8, 60]), (0, [2, 5]), (1, [3, 70, 5, 5, 2, 80, 89]), (0, [3, 1])):
            ours, expected = (
                getattr(xp, name).reduceat(a, starts, axis) for xp, a in ((np, np.asarray(x)), (numpy, x))
            )
            assert_same(ours + 0, expected + 0)  # whatever the signs of zeros
    assert not fallbacks(stats)
    for starts in ([90], [0, -1]):
        with pytest.raises(IndexError):
            np.add.reduceat(np.asarray(x), starts, 1)


@pytest.mark.parametrize("code", "di")
def test_nothing_is_written_where_an_index_is_out_of_bounds(code):
    ours = np.zeros((30, 2), code)
    for key in (np.asarray([1, 2, 35]) * 1, (np.asarray([1, 2, 29]) * 1, np.asarray([0, 1, 2]) * 1)):
        np.add.at(ours, key, 1)
        with pytest.raises(IndexError, match="out of bounds for axis"):
            np.cuda.synchronize()
    assert_same(ours, numpy.zeros((30, 2), code))


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.add.at(x, xp.asarray([0, 1]), xp.ones(3)),
        lambda xp, x: xp.add.at(x, xp.asarray([0.5]), 1),
        lambda xp, x: xp.bitwise_or.at(x, xp.asarray([0]), 1),
        lambda xp, x: xp.add.at(xp.broadcast_to(x, (2, 30)), xp.asarray([0]), 1),
    ],
)
def test_what_numpy_refuses(call):
    with pytest.raises(Exception) as expected:
        call(numpy, numpy.arange(30.0))
    with pytest.raises(expected.type.__mro__[1] if expected.type.__name__.startswith("_") else expected.type):
        call(np, np.arange(30.0))


@pytest.mark.parametrize("code", "dfi")
def test_weights(code, stats):
    rng = numpy.random.default_rng(4)
    numbers, x = rng.integers(0, 40, 900), rng.random(900)
    weights = (rng.random(900) * 9).astype(code)
    given = [np.asarray(a) for a in (numbers, x, weights)]
    assert_same(np.bincount(given[0], given[2], 60), numpy.bincount(numbers, weights, 60))
    for bins in (7, [0, 0.2, 0.2, 0.9]):
        ours, expected = np.histogram(given[1], bins, weights=given[2]), numpy.histogram(x, bins, weights=weights)
        assert numpy.allclose(numpy.asarray(ours[0]), expected[0], rtol=1e-6)
        assert ours[0].dtype == expected[0].dtype
        assert_same(ours[1], expected[1])
    ours = np.histogram2d(given[1], given[1] * 2, (3, 5), weights=given[2])
    expected = numpy.histogram2d(x, x * 2, (3, 5), weights=weights)
    assert all(numpy.allclose(numpy.asarray(a), b, rtol=1e-12) for a, b in zip(ours, expected, strict=True))
    assert_same(np.histogramdd(given[1].reshape(300, 3), 4)[0], numpy.histogramdd(x.reshape(300, 3), 4)[0])
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", "?fdD")
def test_many_writes_are_sorted_by_region(code, monkeypatch, kernels, stats, config):
    for name in ("MIN_SORTED", "MIN_SORTED_NBYTES"):
        monkeypatch.setattr(scatter, name, 1)
    x, index, values = numpy.zeros(3011, code), draws(4099) * 100 + 7, draws(4099, 1).astype(code)
    for step, given in ((1, values), (-2, values), (1, code == "?")):
        ours, expected = np.asarray(x) + x.dtype.type(0), x.copy()
        chosen = index % (3011 // abs(step))
        ours[::step][np.asarray(chosen)] = np.asarray(given) if numpy.ndim(given) else given
        expected[::step][chosen] = given
        assert_same(ours, expected)
    assert any("scatter_latest" in text for text in kernels)
    config.synchronous, chosen[3] = True, 3011
    with pytest.raises(IndexError):
        ours[np.asarray(chosen)] = np.asarray(values)
    assert_same(ours, expected)
    assert not fallbacks(stats)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("code", "?efD")
def test_put_along_axis(axis, code, stats, config):
    rng = numpy.random.default_rng(6)
    whole = rng.integers(0, 2, (12, 20, 30)).astype(code)
    for turn in (lambda x: x, lambda x: x[::-1, :, ::-2]):
        x = turn(whole).copy()
        shape = {0: (25, 20, x.shape[2]), 1: (12, 30, 1), -1: (12, 20, 18)}[axis]
        index = rng.integers(-x.shape[axis], x.shape[axis], shape)
        selected = tuple(shape[i] if i == axis % 3 else n for i, n in enumerate(x.shape))
        for value in (rng.integers(0, 2, selected).astype(code), rng.integers(0, 2, selected[-1]).astype(code), 1):
            made, expected = np.asarray(whole) + whole.dtype.type(0), whole.copy()
            np.put_along_axis(turn(made), np.asarray(index), np.asarray(value) if numpy.ndim(value) else value, axis)
            numpy.put_along_axis(turn(expected), index, value, axis)
            assert_same(made, expected)
    assert not fallbacks(stats)
    made, index = np.asarray(whole) + whole.dtype.type(0), numpy.zeros(whole.shape, int)
    index[3, 1, 0], config.synchronous = 30, True
    with pytest.raises(IndexError):
        np.put_along_axis(made, np.asarray(index), 1, axis)
    assert_same(made, whole)


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_put_along_the_axis_of_a_part_of_a_vector(step, config):
    config.synchronous = True
    x, places = numpy.zeros(60), numpy.array([3, -1, 7, 0])
    made = np.asarray(x) + 0.0
    np.put_along_axis(made[::step], np.asarray(places), 2.0, 0)
    numpy.put_along_axis(x[::step], places, 2.0, 0)
    assert_same(made, x)
    with pytest.raises(IndexError, match="index 60 is out of bounds for axis 0"):
        np.put_along_axis(made[::step], np.asarray([1, 60]), 2.0, 0)
    assert_same(made, x)


@pytest.mark.parametrize("code", "if")
def test_many_sums_are_grouped_by_bucket(code, monkeypatch, kernels, stats, config):
    monkeypatch.setattr(sums, "MIN_COUNT", dict.fromkeys("iuf", 1))
    rng = numpy.random.default_rng(8)
    index, values = rng.integers(-700, 700, 2000), rng.integers(-99, 99, 2000).astype(code)
    ours, expected = np.zeros(700, code), numpy.zeros(700, code)
    for given in (values, values[0]):
        np.add.at(ours, np.asarray(index), np.asarray(given) if numpy.ndim(given) else given)
        numpy.add.at(expected, index, given)
        np.subtract.at(ours[::-1], np.asarray(index), np.asarray(given) if numpy.ndim(given) else given)
        numpy.subtract.at(expected[::-1], index, given)
        assert_same(ours, expected)
    weighted = (np.asarray(numpy.abs(index)), np.asarray(values))
    assert_same(np.bincount(*weighted), numpy.bincount(numpy.abs(index), values))
    assert any("sum_by_bucket_whole" in text for text in kernels)
    config.synchronous, index[3] = True, 700
    with pytest.raises(IndexError):
        np.add.at(ours, np.asarray(index), np.asarray(values))
    assert_same(ours, expected)
    assert not fallbacks(stats)


@pytest.mark.parametrize(
    ("code", "name"), thinned("bhiqBQfd", ["add", "subtract", "multiply", "maximum", "bitwise_or"])
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_values_of_other_dtypes(code, name):
    for other in "bhiqBIQfd":
        # Signed integers and uint64 are float64 to NumPy, of which small integers do not hold every one.
        large = 2**53 if {code, other} <= set("qQ") else 5
        for values in (numpy.array([1, large + 1], other), numpy.array([3], other)[0]):

            def update(np, values=values):
                a = np.array([100, 1, 2**53 + 1 if code in "qQ" else 7], dtype=code)
                try:
                    getattr(np, name).at(a, [0, 2], values)
                except TypeError as error:
                    return type(error).__name__
                return a

            assert_same(update(np), update(numpy), where=f"{other}, {values!r}")


def test_few_updates_of_what_is_on_the_host_are_numpys_at_once(stats):
    entered = []
    with np.config.override(offload_threshold=65536):
        ours, theirs = [(xp.arange(7.0), xp.arange(20) % 5, xp.linspace(0, 1, 20)) for xp in (np, numpy)]
        for xp, (a, i, w) in ((numpy, theirs), (np, ours)):
            for call in (xp.add.at, xp.maximum.at, xp.subtract.at):
                call(a, i, w)
                call(a[1:], i, 2.5)
                with pytest.raises(IndexError):
                    call(a, i + 5, w)
        sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_filename))
        try:
            np.add.at(ours[0], ours[1], 1.0)
        finally:
            sys.setprofile(None)
        assert sum("/oxinp/" in name for name in entered) <= 14
        assert not stats().fallbacks
    numpy.add.at(theirs[0], theirs[1], 1.0)
    assert_same(ours[0], theirs[0])
