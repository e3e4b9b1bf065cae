"""Values of scalars that are on the device, and small arrays of integers that are fetched with their elements."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np

SIZE = 1000


@pytest.fixture(autouse=True)
def _settings(config):
    config.offload_threshold = 65_536
    config.adaptive_placement = False


def orders(xp):
    rng = numpy.random.default_rng(3)
    points = xp.asarray(rng.random((SIZE, 9)))
    return xp.argsort((points * points).sum(axis=1), kind="stable")


def test_an_index_that_is_read_brings_a_small_array_to_the_host(stats, launches):
    order, expected = orders(np), orders(numpy)
    labels, known = np.arange(SIZE), numpy.arange(SIZE)
    np.evaluate(order)
    before = stats().d2h_bytes
    assert labels[order[2]] == known[expected[2]]
    assert stats().d2h_bytes - before == 8 * SIZE
    assert order._storage.host is not None
    assert order._storage.value is not None  # it stays where it is, too

    def voted():
        return np.bincount(labels[order[:7]] % 3, minlength=3)

    assert launches(voted) == 0
    assert (voted() == numpy.bincount(known[expected[:7]] % 3, minlength=3)).all()
    assert stats().d2h_bytes - before == 8 * SIZE
    order += 1  # on the host or on the device, it is one array
    assert (np.asnumpy(order) == expected + 1).all()


def test_an_index_is_the_element_that_was_there_when_it_was_read(stats):
    order, expected = orders(np), orders(numpy)
    first, part = order[1], order[5:].view(np.int32)[4]
    known = expected[5:].view(numpy.int32)[4]
    order[1] = SIZE
    before = stats().d2h_bytes
    assert int(first) == expected[1]
    assert int(part) == known
    assert int(order[1]) == SIZE
    assert stats().d2h_bytes - before <= 8 * SIZE + 16


def test_truth_values_come_whole_where_numbers_do_not(stats):
    points = np.asarray(numpy.random.default_rng(3).random((SIZE, 9)))
    sums = points.sum(axis=1)
    are_large = sums > 4.5
    np.evaluate(sums, are_large)
    before = stats().d2h_bytes
    assert bool(are_large[3]) == bool(np.asnumpy(points)[3].sum() > 4.5)
    assert are_large._storage.host is not None
    assert stats().d2h_bytes - before == SIZE + points.nbytes
    before = stats().d2h_bytes
    assert float(sums[3])
    assert sums._storage.host is None
    assert stats().d2h_bytes - before == 8


def test_of_a_large_array_an_index_comes_alone(stats):
    order = np.argsort(np.asarray(numpy.random.default_rng(3).random(20_000)))
    np.evaluate(order)
    before = stats().d2h_bytes
    assert 0 <= int(order[4]) < 20_000
    assert order._storage.host is None
    assert stats().d2h_bytes - before == 8


def test_an_index_outlives_its_array():
    expected = orders(numpy)
    order = orders(np)
    first = order[3]
    del order
    assert int(first) == expected[3]


def pivots(xp, a):
    """Numbers made of results of reductions, which are read at once."""
    for k in range(2, 6):
        found = xp.argmax(xp.abs(a[k:, k]))
        yield k + found
        yield found - k
        yield xp.argmax(a[:, k]) * 3 + k
        yield 2 - xp.argmin(a[:, k]) * (1 << 60)


def test_what_is_added_to_a_result_that_is_read_takes_no_launch_of_its_own(launches):
    drawn = numpy.random.default_rng(5).standard_normal((20_000, 6))
    a = np.asarray(drawn) * 1
    np.evaluate(a)
    for _ in range(3):
        with numpy.errstate(over="ignore"):
            expected = [*pivots(numpy, drawn)]
        made, found = pivots(np, a), []
        for turn in range(len(expected)):  # the second is made of what the first is
            count = launches(lambda made=made, found=found: found.append(int(next(made))))
            assert count == (turn % 4 != 1)
        assert found == expected


def test_the_host_adds_as_the_device_does():
    """Sums that overflow, of which nobody is warned; what reads the number later; and what is no sum of integers."""
    x = np.arange(20_000, dtype=np.int64)
    most = numpy.iinfo(numpy.int64).max
    total = int(numpy.arange(20_000).sum())
    number = x.sum() + most
    later = x[:3] + number
    assert int(number) == (total + most) - 2**64
    assert later.tolist() == [(total + most + i) - 2**64 for i in range(3)]
    kept = x.sum()
    number = kept * kept - 1
    assert int(number) == total**2 - 1
    assert int(kept) == total
    assert int(x.sum() // 7) == total // 7
    assert float(x.sum() + 0.5) == total + 0.5
    small = np.asarray(numpy.arange(20_000, dtype=numpy.int32)).max()
    assert int(small + 1) == 20_000
    assert int(x.max() + x.min()) == 19_999
