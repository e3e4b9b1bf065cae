"""Values of small host arrays that are written to device arrays again and again: read where they have been uploaded."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.ops import recurring
from tests.comparator import assert_same

NUM_ROWS, NUM_COLUMNS = 50, 64


@pytest.fixture(autouse=True)
def arrays(config):
    """Return an array and an index on the device, as NumPy's, of a program whose small arrays are on the host."""
    config.offload_threshold = 1024
    recurring.forget()
    rng = numpy.random.default_rng(0)
    yield rng.random((NUM_ROWS, NUM_COLUMNS)), rng.permutation(NUM_ROWS)
    recurring.forget()


def on_device(x):
    """Return an array that the device alone has."""
    with np.config.override(offload_threshold=0):
        made = np.asarray(x) + x.dtype.type(0)
        np.evaluate(made)
    assert made._storage.host is None
    return made


def uploaded(body, stats):
    before = stats().h2d_bytes
    body()
    np.evaluate()
    return stats().h2d_bytes - before


@pytest.mark.parametrize(("dtype", "given"), [("f8", "i8"), ("f8", "i4"), ("f4", "?"), ("i8", "i8"), ("f8", "f8")])
def test_values_alike_are_not_uploaded_for_long(arrays, stats, dtype, given):
    a, i = arrays[0].astype(dtype), arrays[1]
    ours, index = on_device(a), on_device(i)
    moved = []
    for column in range(NUM_COLUMNS):
        value = np.arange(NUM_ROWS).astype(given)
        moved.append(uploaded(lambda value=value, column=column: ours.__setitem__((index, column), value), stats))
        a[i, column] = numpy.arange(NUM_ROWS).astype(given)
        del value
    assert_same(ours, a)
    assert not any(moved[NUM_COLUMNS // 2 :])


def test_values_are_those_of_now(arrays):
    a, i = arrays
    ours, index = on_device(a), on_device(i)
    values = numpy.arange(NUM_ROWS), numpy.arange(NUM_ROWS)[::-1].copy(), numpy.arange(0.0, NUM_ROWS)
    host = [np.asarray(x) for x in values]
    for turn in range(36):
        which = turn // 2 % 3
        column = turn % NUM_COLUMNS
        ours[index, column] = host[which]
        a[i, column] = values[which]
        if turn > 20:
            for x in (*values, *host):
                x[turn] = turn
        assert_same(ours, a)


def test_views_and_signs_of_zeros(arrays):
    a, i = arrays
    ours, index = on_device(a), on_device(i)
    rows = numpy.zeros((4, 2 * NUM_ROWS))
    rows[1], rows[2] = -0.0, numpy.nan
    host = np.asarray(rows.copy())
    for turn in range(16):
        ours[index, turn % NUM_COLUMNS] = host[turn // 4, ::-2]
        a[i, turn % NUM_COLUMNS] = rows[turn // 4, ::-2]
    assert_same(ours, a)
    assert numpy.array_equal(numpy.signbit(np.asnumpy(ours)), numpy.signbit(a))


def test_what_is_kept_is_nobodys(arrays):
    a, i = arrays
    ours, index = on_device(a[:, 0]), on_device(i)
    for _ in range(4):
        value = np.arange(0.0, NUM_ROWS)
        ours[index] = value
        value += 1
        ours *= 2
        assert_same(value, numpy.arange(1.0, NUM_ROWS + 1))
    a = a[:, 0].copy()
    a[i] = numpy.arange(0.0, NUM_ROWS)
    assert_same(ours, a * 2)


def test_casts_warn_each_time(arrays):
    a, i = numpy.zeros(NUM_ROWS, "i4"), arrays[1]
    ours, index = on_device(a), on_device(i)
    for _ in range(4):
        with pytest.warns(RuntimeWarning, match="invalid value"):
            ours[index] = np.full(NUM_ROWS, numpy.nan)
    for dtype, value in (("f4", 1e300), ("f2", 70000)):
        ours = on_device(numpy.zeros(NUM_ROWS, dtype))
        for _ in range(4):
            with pytest.warns(RuntimeWarning, match="overflow"):
                ours[index] = np.full(NUM_ROWS, value)


def test_what_is_not_cast_is_read_as_it_is(arrays):
    a, i = numpy.zeros(NUM_ROWS), arrays[1]
    ours, index = on_device(a), on_device(i)
    for _ in range(6):
        np.add.at(ours, index, np.arange(NUM_ROWS))
        np.add.at(ours, index, np.arange(0.0, NUM_ROWS))
        numpy.add.at(a, i, 2 * numpy.arange(NUM_ROWS))
    assert_same(ours, a)


def test_integers_that_casts_round_or_wrap(arrays):
    i = arrays[1]
    for dtype, given in (("f4", "i8"), ("i2", "i8"), ("u1", "i8"), ("c16", "i8"), ("?", "i8")):
        a = numpy.zeros(NUM_ROWS, dtype)
        ours, index = on_device(a), on_device(i)
        values = (numpy.arange(NUM_ROWS) << 31) - 7
        for _ in range(4):
            ours[index] = np.asarray(values.astype(given))
            a[i] = values
            assert_same(ours, a)


def test_little_is_kept(arrays):
    ours, index = on_device(arrays[0]), on_device(arrays[1])
    for number in range(3 * recurring.MOST_KEPT):
        for _ in range(3):
            ours[index, 0] = np.full(NUM_ROWS, number, [numpy.int64, numpy.int32, numpy.uint8][number % 3])
        assert len(recurring._MET) <= recurring.MOST_KEPT
    np.config.offload_threshold = 1 << 30
    large = on_device(numpy.zeros(recurring.MOST_NBYTES // 8 + 1))
    index = on_device(numpy.arange(len(large)))
    before = dict(recurring._MET)
    for _ in range(4):
        large[index] = np.zeros(len(large))
    assert before == recurring._MET


@pytest.mark.usefixtures("on_device")
def test_what_is_on_the_device_is_read_there(arrays):
    a, i = arrays
    ours, index, value = on_device(a), on_device(i), on_device(numpy.arange(NUM_ROWS))
    for _ in range(4):
        ours[index, 0] = value
    a[i, 0] = numpy.arange(NUM_ROWS)
    assert not recurring._MET
    assert_same(ours, a)


def test_nothing_is_kept_of_a_backend_that_is_left(arrays):
    ours, index = on_device(arrays[0]), on_device(arrays[1])
    for _ in range(4):
        ours[index, 0] = np.arange(NUM_ROWS)
    assert recurring._MET
    for run in _runtime.hooks.before_leaving:
        if getattr(run, "__self__", None) is recurring._MET:
            run()
    assert not recurring._MET
