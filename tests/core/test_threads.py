"""Recording, flushing and writing from several threads at once."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from tests.comparator import assert_same
from tests.turns import run_at_once

pytestmark = pytest.mark.usefixtures("offload_threshold")

NUM_THREADS = 4
STEPS = 12


def test_each_thread_computes_its_own():
    results = {}

    def work(number):
        x = np.arange(200.0) + number
        for step in range(STEPS):
            y = x * 2 - number
            x[step : step + 50] = y[:50] + 1
            x += y[step]
            x[-1] = step
        results[number] = (x, x.sum(), y)

    def expected(number):
        x = numpy.arange(200.0) + number
        for step in range(STEPS):
            y = x * 2 - number
            x[step : step + 50] = y[:50] + 1
            x += y[step]
            x[-1] = step
        return x, x.sum(), y

    with numpy.errstate(all="ignore"):
        run_at_once(*[lambda number=number: work(number) for number in range(NUM_THREADS)])
        for number, result in results.items():
            assert_same(result[0], expected(number)[0])
            assert_same(result[2], expected(number)[2])


def test_all_threads_read_the_same_arrays():
    theirs = numpy.arange(300.0)
    x = np.asarray(theirs)
    y, s = x * 2 + 1, (x * x).sum()
    z = y - x

    def read():
        for step in range(STEPS):
            assert_same([y, z, y[step : step + 7]], [theirs * 2 + 1, theirs + 1, (theirs * 2 + 1)[step : step + 7]])
            assert s == (theirs * theirs).sum()
            assert float(z[step]) == step + 1
            np.evaluate()

    run_at_once(*[read] * NUM_THREADS)


def test_whole_array_updates_are_not_lost_to_readers():
    x = np.zeros(100)

    def write():
        nonlocal x
        for _ in range(4 * STEPS):
            x += 1

    def read():
        for _ in range(4 * STEPS):
            seen = np.asnumpy(x)
            assert seen.min() == seen.max()
            np.evaluate(x)

    def lend():
        last = 0.0
        for _ in range(4 * STEPS):
            seen = numpy.asarray(x)  # which changes while it is looked at
            assert last <= seen[0] <= 4 * STEPS
            last = seen[0]

    run_at_once(write, read, lend)
    assert_same(x, numpy.full(100, 4.0 * STEPS))


@pytest.mark.parametrize("repeat", range(8))
def test_partial_writes_of_several_threads_all_arrive(repeat):
    del repeat
    x = np.zeros((NUM_THREADS, 50))

    def write(row):
        for step in range(STEPS):
            x[row, 10:40] += row + 1
            x[row, 0] = step
            x[row] *= 1

    run_at_once(*[lambda row=row: write(row) for row in range(NUM_THREADS)])
    theirs = numpy.zeros((NUM_THREADS, 50))
    theirs[:, 10:40] = STEPS * numpy.arange(1, NUM_THREADS + 1)[:, None]
    theirs[:, 0] = STEPS - 1
    assert_same(x, theirs)


def test_element_writes_are_not_lost_to_device_readers(config):
    config.offload_threshold = 400
    x = np.zeros(300)

    def write(number):
        for i in range(number, 300, 2):
            x[i] = i

    def read():
        for _ in range(2 * STEPS):
            assert numpy.asarray(x + 0).max() < 300

    run_at_once(lambda: write(0), lambda: write(1), read)
    assert_same([x, x + 0], [numpy.arange(300.0)] * 2)


def test_chains_captured_before_a_write_keep_their_values():
    x = np.zeros(64)
    captured = []

    def record():
        captured.extend(x * 2 + 1 for _ in range(4 * STEPS))

    def write():
        for step in range(4 * STEPS):
            x[...] = step

    def flush():
        for _ in range(4 * STEPS):
            np.evaluate()

    run_at_once(record, write, flush)
    for y in captured:
        seen = numpy.asarray(y)
        assert seen.min() == seen.max()


def test_scalars_are_read_by_all():
    for _ in range(STEPS):
        s = np.arange(50.0).sum()
        e = (np.arange(50.0) * 2)[7]
        seen = []
        run_at_once(*[lambda s=s, e=e, seen=seen: seen.append((float(s), float(e), s + 1))] * NUM_THREADS)
        assert all(a == 1225 and b == 14 and c == 1226 for a, b, c in seen)


def test_settings_change_while_others_work(config):
    theirs = numpy.arange(100.0)
    x = np.asarray(theirs)
    going = True

    def change():
        while going:
            for threshold in (0, 400, float("inf")):
                config.offload_threshold = threshold
                config.synchronous = not config.synchronous

    def work():
        nonlocal going
        expected = theirs * 3
        expected[5:] += theirs[:-5]
        try:
            for _ in range(STEPS):
                y = x * 3
                y[5:] += x[:-5]
                assert_same(y, expected)
        finally:
            going = False

    run_at_once(change, work, work)
