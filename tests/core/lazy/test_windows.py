"""Elements of large arrays on the device are read in windows, which go when the array is written to."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import placement, windows
from tests.comparator import assert_same

SIZE = 8192


@pytest.fixture(autouse=True)
def _small_windows(config, monkeypatch):
    config.offload_threshold = 0
    monkeypatch.setattr(placement, "MIN_WINDOWED_NBYTES", 4 * SIZE)
    monkeypatch.setattr(windows, "NBYTES", SIZE)
    monkeypatch.setattr(windows, "COPY_RATE", 20)


def made():
    """Return an array that has been fetched whole for a loop, and written to since."""
    x = np.arange(float(SIZE)) * 1
    np.evaluate(x)
    read(x)
    assert x._storage.host is not None
    x[::2] = x[::2] * 1
    np.evaluate(x)
    assert x._storage.host is None
    return x


def read(x):
    """Read as many elements as it takes until more is fetched."""
    for i in range(placement.ACCESSES_BEFORE_MIRROR + 1):
        assert x[i] == i


def begun(x):
    read(x)
    assert type(x._storage.value) is windows.Windowed
    return x


def test_a_loop_over_elements_fetches_windows(stats):
    x = made()
    before = stats().d2h_bytes
    for i in range(4000):
        element = x[i]
        assert element == i
    assert type(element) is numpy.float64
    assert stats().d2h_bytes - before <= 4000 * 8 + 2 * windows.NBYTES
    assert x._storage.host is None


def test_a_loop_from_the_end(stats):
    x = begun(made())
    before = stats().d2h_bytes
    for i in range(SIZE - 1, SIZE - 4000, -1):
        assert x[i] == i
    assert stats().d2h_bytes - before <= 4000 * 8 + 2 * windows.NBYTES


@pytest.mark.parametrize(
    "write",
    [
        "x[::3] = -1.0",
        "np.multiply(x, 2, out=x)",
        "x[5:] += 1",
        "np.add.at(x, np.asarray([3, 5, 7]), 0.5)",
        "x[x > 6] = 1.5",
        "x.sort()",
        "np.copyto(x[1:9], 4)",
        "x.view(np.int64)[3:9] = 0",
    ],
)
def test_what_is_written_is_read(write, stats):
    ours, theirs = begun(made()), numpy.arange(float(SIZE))
    for _ in range(3):
        exec(write, {"np": np, "x": ours})  # noqa: S102
        exec(write, {"np": numpy, "x": theirs})  # noqa: S102
        before = stats().d2h_bytes
        assert [ours[i].item() for i in range(40)] == [theirs[i].item() for i in range(40)]
        assert stats().d2h_bytes - before <= 2 * windows.NBYTES
    assert_same(numpy.asarray(ours), theirs)


def test_elements_of_views_and_of_other_types():
    x = begun(made())
    for view in (x[3:], x[::-1], x.reshape(-1, 8).T, x.view(np.int64), x.view(np.int16)[1:]):
        expected = numpy.asarray(view.copy()).reshape(-1)
        for i in (0, 1, 5, 3, -1):
            read = view[i] if view.ndim == 1 else view[i % 8, i]
            wanted = expected[i] if view.ndim == 1 else numpy.asarray(view.copy())[i % 8, i]
            assert_same(numpy.asarray(read), numpy.asarray(wanted))


def test_elements_read_anywhere_have_the_whole_array_fetched():
    x = begun(made())
    random = numpy.random.default_rng(2)
    for i in random.integers(0, SIZE, 1000).tolist():
        assert x[i] == i
    assert x._storage.host is not None


def test_a_loop_that_finds_nothing_in_its_windows_gets_none():
    x = begun(made())
    for i in range(3 * windows.MAX_CREDIT):
        x[: SIZE // 2] = float(i)
        assert x[i] == i
    assert not windows._READERS


def test_small_arrays_are_fetched_whole():
    x = np.arange(1000.0) * 1
    np.evaluate(x)
    for i in range(placement.ACCESSES_BEFORE_MIRROR + 1):
        assert x[i] == i
    assert x._storage.host is not None


def test_readers_go_with_their_arrays():
    x = begun(made())
    assert windows._READERS
    del x
    assert not windows._READERS


def test_short_writes_to_an_array_have_it_fetched_the_later_the_larger_it_is(stats, monkeypatch):
    monkeypatch.setattr(placement, "MIRRORED_NBYTES", SIZE * 8 // 40)
    x = made()
    for i in range(40):
        x[i : i + 3] = float(i)
    assert x._storage.host is None
    for i in range(40, 80):
        x[i : i + 3] = float(i)
    assert stats().d2h_bytes <= x.nbytes + placement.ACCESSES_BEFORE_MIRROR * 8
    assert x[::2][:5].tolist() == [0, 2, 4, 6, 8]
