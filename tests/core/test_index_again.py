"""Reads, writes and updates by an index that have been asked for before in the same layouts: NumPy's all the same."""

# ruff: noqa: ICN001 - oxinp is np

import sys
from functools import partial

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import advanced
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

TIMES = 3


def computed(x):
    """Return an array that the device alone has."""
    made = np.asarray(x) + x.dtype.type(0)
    np.evaluate(made)
    return made


def read(xp, a, i, v):
    del xp, v
    return a[i]


def take(xp, a, i, v):
    del v
    return xp.take(a, i, 0)


def assign(xp, a, i, v):
    del xp
    a[i] = v
    return a


def update(name, xp, a, i, v):
    getattr(xp, name).at(a, i, v)
    return a


OPERATIONS = [read, take, assign, *[partial(update, name) for name in ("add", "subtract", "maximum")]]


@pytest.mark.parametrize("use", OPERATIONS)
@pytest.mark.parametrize("dtype", ["f4", "i8", "f8"])
@pytest.mark.parametrize("shape", [(60,), (60, 1), (20, 3), (60, 1, 1)], ids=str)
def test_again_and_again(shape, dtype, use):
    rng = numpy.random.default_rng(0)
    for _ in range(TIMES):
        a = rng.integers(0, 100, shape).astype(dtype)
        i = rng.integers(-shape[0], shape[0], 40)
        v = rng.integers(0, 100, (40, *shape[1:])).astype(dtype)
        found = use(np, computed(a), computed(i), computed(v))
        assert_same(found, use(numpy, a, i, v))


def test_along_an_axis():
    rng = numpy.random.default_rng(0)
    for axis in (0, 1, 0, 1, -1):
        x, i = rng.random((20, 30)), rng.integers(-20, 20, (20, 30))
        found = np.take_along_axis(computed(x), computed(i), axis)
        assert_same(found, numpy.take_along_axis(x, i, axis))
    row = rng.integers(0, 20, (1, 30))
    for _ in range(TIMES):
        assert_same(np.take_along_axis(computed(x), computed(row), 0), numpy.take_along_axis(x, row, 0))


def test_nothing_is_selected_anew(monkeypatch):
    x, i, v = numpy.random.default_rng(1).random(50), numpy.arange(0, 50, 5), numpy.ones(10)
    ours, index, given = computed(x), computed(i), computed(v)

    def use():
        found = ours[index]
        ours[index] = given
        np.add.at(ours, index, given)
        return found

    use()
    monkeypatch.setattr(advanced, "selection", None)
    found = use()
    assert_same(found, numpy.full(10, 2.0))
    x[i] = 2
    assert_same(ours, x)


@pytest.mark.parametrize("use", OPERATIONS)
def test_what_is_out_of_bounds_is_said_each_time(use):
    a, i, v = numpy.zeros(50), numpy.arange(20), numpy.ones(20)
    ours, index, given = computed(a), computed(i), computed(v)
    use(np, ours, index, given)
    expected = numpy.asarray(ours).copy()
    for beyond in (50, -51):
        i[7] = beyond
        wrong = computed(i)
        found = use(np, ours, wrong, given)
        with pytest.raises(IndexError, match=f"index {beyond} is out of bounds for axis 0 with size 50"):
            numpy.asarray(found)
        assert_same(ours, expected)


def test_operands_that_lie_otherwise():
    rng = numpy.random.default_rng(2)
    a, i, v = rng.random(60), rng.integers(-60, 60, 60), rng.random(60)
    x, index, given = computed(a), computed(i), computed(v)
    for _ in range(2):
        x[index] = given
        a[i] = v
        np.add.at(x, index, given)
        numpy.add.at(a, i, v)
        assert_same(x[index], a[i])
    x[index] = x  # the array itself
    a[i] = a.copy()
    np.add.at(x, index, x)
    numpy.add.at(a, i, a.copy())
    x[index] = given * 2  # pending
    a[i] = v * 2
    x[np.asarray(i)] = given  # an index that the host has
    a[i] = v
    assert_same(x[index - 0], a[i])
    assert_same(x, a)
    assert_same((x * 2)[index], (a * 2)[i])
    found = x[np.asarray(i + 60)]
    with pytest.raises(IndexError):
        numpy.asarray(found)


def test_an_index_in_the_order_of_columns():
    rng = numpy.random.default_rng(3)
    x = rng.random(60)
    for _ in range(TIMES):
        i = rng.integers(-60, 60, (4, 6))
        for index, seen in ((computed(i), i), (computed(i).T, i.T), (computed(i)[::-1], i[::-1])):
            found = computed(x)[index]
            assert_same(found, x[seen])
            assert found.strides == x[seen].strides


@pytest.mark.parametrize("key", [lambda i: i, lambda i: (i, 1), lambda i: (2, i)], ids=["rows", "column", "row"])
@pytest.mark.usefixtures("unwatched")
def test_a_write_that_has_been_done_before_is_found_at_once(key):
    rng = numpy.random.default_rng(0)
    a, i = rng.random((50, 60)), rng.permutation(50)
    value = rng.random(a[key(i)].shape)
    ours, index, given = computed(a), computed(i), computed(value)
    for _ in range(20):
        ours[key(index)] = given
    calls = []
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code.co_name))
    try:
        ours[key(index)] = given
    finally:
        sys.setprofile(None)
    a[key(i)] = value
    assert_same(ours, a)
    assert not {"located_part", "with_values", "_set_by_key", "scatter_values", "selection"} & {*calls}


def test_a_write_alike_looks_at_what_it_is_given():
    rng = numpy.random.default_rng(0)
    a, i, value = rng.random((50, 60)), rng.integers(0, 50, 30), rng.random(30)
    ours = computed(a)
    for number in range(4):
        for index, given in ((i, value), (i.astype("i4"), value), (i, (9 * value).astype("i8")), (i, value[:1])):
            ours[computed(index), number] = computed(given)
            a[index, number] = given
        picked = a[:, 0] > 0.5
        ours[computed(a[:, 0]) > 0.5, number] = computed(value)[0]
        a[picked, number] = value[0]
        assert_same(ours, a)
    ours[computed(i + 50), 1] = computed(value)
    with pytest.raises(IndexError):
        np.asnumpy(ours)
