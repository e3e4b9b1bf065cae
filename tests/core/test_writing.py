"""What NumPy is handed for writing stays on the host until its call has ended, whoever reads or writes meanwhile."""

# ruff: noqa: ICN001 - oxinp is np

import operator
import random
import threading

import numpy
import pytest

import oxinp as np
from oxinp._core.host.sharing import share
from oxinp._core.lazy import writing
from oxinp._core.lazy.inlining import compiled
from oxinp._core.memory.layout import make_layout
from oxinp._core.memory.storage import Pin
from tests.comparator import assert_same
from tests.patience import PATIENCE

ROWS, COLUMNS = 4, 6


@pytest.fixture(autouse=True)
def _everything_on_the_device(on_device):
    del on_device


def both_sides(array):
    """Return an array's elements as the device has them, and as the host does, which keeps them to itself then."""
    return numpy.asarray(array + 0), numpy.asarray(array)


def elsewhere(body):
    """Run a body to its end in a thread of its own; raise what it raised."""
    errors = []

    def run():
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the thread hangs"
    if errors:
        raise errors[0]


def here(body):
    body()


class Number:
    """An element whose conversion to a float runs a body, as any class of the user's may."""

    def __init__(self, value, body):
        self.value = value
        self.body = body

    def __float__(self):
        self.body()
        return float(self.value)


@pytest.fixture(params=[here, elsewhere], ids=["same-thread", "other-thread"])
def run(request):
    """Run a body while NumPy is at work, in the thread that called NumPy or in another."""
    return request.param


def test_a_callback_reads_the_device_and_then_writes_its_row(run):
    x = np.zeros((ROWS, COLUMNS))
    seen = []

    def mark(row):
        run(lambda: seen.append((x + 0).tolist()))
        row[0] = len(seen)
        return row.sum()

    np.apply_along_axis(mark, 1, x)
    expected = numpy.zeros((ROWS, COLUMNS))
    snapshots = []
    for i in range(ROWS):
        snapshots.append(expected.tolist())
        expected[i, 0] = i + 1
    assert seen == snapshots
    for side in both_sides(x):
        assert_same(side, expected)


WRITES = {
    "element": lambda _, x: x.__setitem__((ROWS - 1, 1), 7.0),
    "row": lambda np, x: x.__setitem__(ROWS - 1, np.arange(float(COLUMNS))),
    "part in place": lambda _, x: x[ROWS - 1].__iadd__(3.0),
    "whole": lambda _, x: x.__setitem__(..., 5.0),
    "whole in place": lambda _, x: x.__iadd__(1.0),
    "out": lambda np, x: np.add(x, 2, out=x),
    "sort of a part": lambda _, x: x[ROWS - 1].sort(),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_callback_writes_to_the_array_that_numpy_writes_to(run, write, order):
    def body(np, run):
        x = np.array(numpy.arange(float(ROWS * COLUMNS))[::-1].reshape(ROWS, COLUMNS), order=order)
        x = x * 1
        times = []

        def change(row):
            if not times:
                run(lambda: write(np, x))
            times.append(row.copy().tolist())
            row[2] = -1.0
            return row.sum()

        sums = np.apply_along_axis(change, 1, x)
        return times, numpy.asarray(sums), *both_sides(x)

    assert_same(body(np, run), body(numpy, here))


def test_elements_are_converted_while_the_array_is_read(run):
    x = np.ones((ROWS, COLUMNS))
    seen = []
    numbers = [Number(i, lambda: run(lambda: seen.append((x + 0)[0].tolist()))) for i in range(COLUMNS)]
    x[0] = numpy.array(numbers)
    expected = numpy.ones((ROWS, COLUMNS))
    expected[0] = range(COLUMNS)
    for side in both_sides(x):
        assert_same(side, expected)
    assert seen[-1] == [*range(COLUMNS - 1), 1]


@pytest.mark.parametrize("threshold", [0, 65536])
def test_small_host_arrays_take_elements_that_read_them(run, config, threshold):
    config.offload_threshold = threshold
    x = np.asarray(numpy.ones(COLUMNS))
    y = np.array([Number(i, lambda: run(lambda: np.evaluate(on_device_now(x)))) for i in range(COLUMNS)], object)
    x[1:5] = y[1:5]
    x[5] = Number(9, lambda: run(lambda: np.evaluate(on_device_now(x))))
    expected = numpy.array([1.0, 1, 2, 3, 4, 9])
    with config.override(offload_threshold=0):
        for side in both_sides(x):
            assert_same(side, expected)


def on_device_now(x):
    with np.config.override(offload_threshold=0):
        return x + 0


_TEXT = """
def make(function):
    def front(a, seen, key):
        write 'function(seen, key)' of a, seen at key, and return a
    return front
"""
MEANWHILE = {
    "read": lambda x: np.evaluate(on_device_now(x)),
    "part": lambda x: x.__setitem__([4, 5], on_device_now(np.ones(2))),
    "whole": lambda x: x.__setitem__(..., on_device_now(np.ones(COLUMNS))),
    "shared": share,
}


@pytest.mark.parametrize("body", MEANWHILE.values(), ids=MEANWHILE)
def test_what_numpy_writes_to_an_array_that_has_no_storage_counts(run, body):
    """The array gets one meanwhile, and a device side that may be written to."""
    with np.config.override(offload_threshold=65536):
        x = np.asarray(numpy.zeros(COLUMNS))
    assert x._held is None

    def write(seen, key):
        run(lambda: body(x))
        seen[key] = 7

    compiled("writes", _TEXT)(write)(x, x._seen, slice(1, 3))
    expected = numpy.zeros(COLUMNS)
    expected[4:] += body in (MEANWHILE["part"], MEANWHILE["whole"])
    expected[:4] += body is MEANWHILE["whole"]
    expected[1:3] = 7
    assert_same(numpy.asarray(x + 0), expected)
    assert_same(numpy.asarray(x), expected)


def test_ufunc_calls_convert_while_the_array_is_read(run, config):
    x = np.zeros(COLUMNS)
    numpy.asarray(x)
    numbers = np.array([Number(i, lambda: None) for i in range(COLUMNS)], object)
    for number in numpy.asarray(numbers):
        number.body = lambda: run(lambda: np.evaluate(on_device_now(x)))
    config.offload_threshold = float("inf")
    np.positive(np.array([float(i) for i in range(COLUMNS)], object), out=x, casting="unsafe")
    for side in both_sides(x):
        assert_same(side, numpy.arange(float(COLUMNS)))


def test_records_over_numbers_are_written_on_both_sides():
    x = np.zeros(4) + 1
    list(x)  # which leaves it on both sides
    records = x.view([("a", "f8")])
    records[1] = (3.0,)
    for side in both_sides(x):
        assert_same(side, numpy.array([1.0, 3, 1, 1]))


def test_afterwards_the_device_side_is_kept_again(stats):
    x = np.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
    np.evaluate(x)
    x[1:2].setfield(7.0, "f8")
    assert not isinstance(x._storage.stale, Pin)
    before = stats().h2d_bytes
    np.evaluate(x + 1)
    assert stats().h2d_bytes - before == COLUMNS * x.itemsize  # the row that was written, and nothing else
    np.evaluate(x + 2)
    assert stats().h2d_bytes - before == COLUMNS * x.itemsize


def test_a_call_that_fails_lets_go():
    x = np.zeros((ROWS, COLUMNS))

    def fail(row):
        row[0] = 1.0
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        np.apply_along_axis(fail, 1, x)
    assert not isinstance(x._storage.stale, Pin)
    assert both_sides(x)[0][0, 0] == 1


def test_an_array_lent_in_a_callback_stays_lent():
    x = np.zeros((ROWS, COLUMNS))
    lent = []

    def lend(row):
        lent.append(np.nditer(x, op_flags=["readwrite"]))
        return row.sum()

    np.apply_along_axis(lend, 1, x)
    for element in lent[0]:
        element[...] = 3.0
    assert_same(both_sides(x)[1], numpy.full((ROWS, COLUMNS), 3.0))


def beside_readers(write, read, times):
    """Run a write again and again while two threads read."""
    is_over = threading.Event()
    errors = []

    def reading():
        try:
            while not is_over.is_set():
                read()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=reading, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for step in range(times):
            write(step)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.mark.slow
@pytest.mark.usefixtures("takes_turns")
def test_sorts_beside_readers():
    for seed in range(4):
        theirs = numpy.random.default_rng(seed).random(20_000)
        x = np.asarray(theirs)
        beside_readers(lambda _, x=x: x.sort(), lambda x=x: np.evaluate(x + 0), times=1)
        theirs.sort()
        for side in both_sides(x):
            assert_same(side, theirs)


SMALL = {
    "in place": lambda x, step: x.__iadd__(1.0 if step % 2 else np.asarray(numpy.ones(4000))),
    "in place in a view": lambda x, _: x[:].__iadd__(1.0),
    "assigned": lambda x, step: x.__setitem__(slice(None), np.asarray(numpy.full(4000, step + 1.0))),
    "out": lambda x, _: np.add(x, 1, out=x),
}


@pytest.mark.usefixtures("takes_turns")
@pytest.mark.parametrize("write", SMALL.values(), ids=SMALL)
def test_writes_to_small_host_arrays_beside_readers(config, write):
    config.offload_threshold = 65536  # the arrays stay on the host, and are read on the device all the same
    x = np.asarray(numpy.zeros(4000))
    large = np.zeros((3, 4000))
    beside_readers(lambda step: write(x, step), lambda: np.evaluate(x + large), times=200)
    for side in (numpy.asarray(x), numpy.asarray(x + large)[0]):
        assert_same(side, numpy.full(4000, 200.0))


def test_text_written_to_characters_is_a_sequence(twin):
    def body(np):
        x = np.zeros((2, 5), "c")
        x[0] = np.str_("asdfg")
        x[1] = "hjkl;"
        return x

    twin(body)


def _layouts(rng):
    """Yield two layouts of random strides, and where they begin."""
    layouts = []
    for _ in range(2):
        ndim = rng.choice([1, 2, 2, 3])
        shape = tuple(rng.randrange(1, 5) for _ in range(ndim))
        strides = tuple(rng.choice([0, 8, 16, 24, 48, 80, 96, -8, -16, -48, -96]) for _ in range(ndim))
        layouts.append(make_layout(numpy.dtype(rng.choice(["f8", "f8", "f4"])), shape, strides, 0))
    return *layouts, rng.randrange(-20, 20) * 8


def _bytes_of(layout, start):
    places = [start + sum(map(operator.mul, index, layout.strides)) for index in numpy.ndindex(layout.shape)]
    return {place + k for place in places for k in range(layout.dtype.itemsize)}


def test_parts_that_are_said_to_lie_apart_do():
    rng, count = random.Random(11), 0
    for _ in range(20_000):
        where, layout, start = _layouts(rng)
        if writing._miss(0, where, start, layout):
            count += 1
            assert not _bytes_of(where, 0) & _bytes_of(layout, start), (where, layout, start)
    assert count > 5000


@pytest.mark.parametrize("step", [8, -8, 16])
def test_some_columns_lie_beside_others(step):
    column = make_layout(numpy.dtype(float), (50, 20), (800, 0), 0)
    for first in range(100):
        low = first if step > 0 else first - 19
        high = first + 19 * abs(step) // 8 if step > 0 else first
        if not (low >= 0 and high < 100):
            continue
        block = make_layout(numpy.dtype(float), (50, 20), (800, step), 0)
        for beside in (0, 37, 99):
            is_inside = low <= beside <= high
            assert writing._miss(8 * beside, column, 8 * first, block) == (not is_inside) or (step == 16 and is_inside)
