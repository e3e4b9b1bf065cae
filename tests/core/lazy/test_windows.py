"""Elements of large arrays on the device are read in windows, which go when the array is written to."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import executor, placement, windows
from tests.comparator import assert_same

SIZE = 8192


@pytest.fixture(autouse=True)
def _small_windows(config, monkeypatch):
    config.offload_threshold = 0
    monkeypatch.setattr(placement, "MIN_WINDOWED_NBYTES", 4 * SIZE)
    monkeypatch.setattr(windows, "NBYTES", SIZE)
    monkeypatch.setattr(windows, "COPY_RATE", 20)
    monkeypatch.setattr(windows, "MIN_STEP", 1000)


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


def test_elements_of_a_window_are_found_by_arithmetic(monkeypatch):
    x = begun(made())
    views = x, x.reshape(-1, 8), x.view(np.int32), x.view(np.uint8)[1:], x.reshape(8, -1)[::2], x[::-1]
    theirs = numpy.arange(float(SIZE))
    expected = (
        *(theirs, theirs.reshape(-1, 8), theirs.view(numpy.int32), theirs.view(numpy.uint8)[1:]),
        *(theirs.reshape(8, -1)[::2], theirs[::-1]),
    )
    kept = windows.element

    def element(*_):
        pytest.fail("it was looked for in another way")

    for ours, wanted in zip(views, expected, strict=True):
        start = SIZE - 30 if wanted.strides[0] < 0 else 1
        for i in range(start, start + 5):
            key = i if wanted.ndim == 1 else (0, i)
            monkeypatch.setattr(windows, "element", element if i > start else kept)
            assert_same(numpy.asarray(ours[key]), numpy.asarray(wanted[key]))
            assert type(ours[key]) is type(wanted[key])


def test_elements_out_of_bounds_are_refused():
    x = begun(made()).reshape(-1, 8)
    assert x[1, 1] == x[1, 1] == 9
    assert x[1, -7] == 9
    for key in ((1, 8), (1, -9), (SIZE // 8, 0), (-1 - SIZE // 8, 0), SIZE // 8):
        with pytest.raises(IndexError):
            x[key]
    assert x[1].shape == (8,)
    assert x[1, numpy.int64(1)] == 9
    assert x[1, None, 1].shape == (1,)
    assert x[True, 1, 1].tolist() == [9]


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


def test_short_accesses_to_an_array_have_it_fetched_the_later_the_larger_it_is(monkeypatch):
    monkeypatch.setattr(placement, "MIRRORED_NBYTES", SIZE * 8 // 40)
    x = np.arange(float(SIZE)) * 1
    np.evaluate(x)  # which has had no mirror yet
    for i in range(19):  # twice each
        x[i + 100 : i + 103] = x[i : i + 3]
    assert x._storage.host is None
    for i in range(5):
        x[i + 200 : i + 203] = x[i : i + 3]
    assert x._storage.host is not None
    assert x[200:205].tolist() == [0, 1, 2, 3, 4]


def matrix():
    """Return a matrix that is on the device alone."""
    n = SIZE // 64
    x = np.arange(float(n * n)).reshape(n, n) * 1
    np.evaluate(x)
    return x


STEPS = {
    "a diagonal": lambda n: [(i, i) for i in range(n)],
    "a diagonal from its end": lambda n: [(i, i) for i in range(n - 1, -1, -1)],
    "the other diagonal": lambda n: [(i, n - 1 - i) for i in range(n)],
    "every third row of a column": lambda n: [(i, 5) for i in range(0, n, 3)],
    "column after column": lambda n: [(i, j) for j in range(3) for i in range(n)],
}


@pytest.mark.parametrize("places", STEPS.values(), ids=STEPS.keys())
def test_elements_far_apart_are_gathered(places, stats):
    x = matrix()
    n = len(x)
    places = places(n)
    before = stats().d2h_bytes
    assert [x[place].item() for place in places] == [float(i * n + j) for i, j in places]
    assert stats().d2h_bytes - before <= len(places) * 8 + 2 * windows.NBYTES
    assert x._storage.host is None


def test_elements_of_a_diagonal_that_is_written_to(stats):
    x = matrix()
    n = len(x)
    for turn in range(3):
        before = stats().d2h_bytes
        assert [x[i, i].item() for i in range(40)] == [float(i * n + i) + turn for i in range(40)]
        assert stats().d2h_bytes - before <= 2 * windows.NBYTES
        x += 1
    assert x._storage.host is None


def test_elements_are_gathered_while_uses_of_memory_are_noted(monkeypatch):
    """As where memory is short: then kernels that are known are not launched by what is known of them."""
    monkeypatch.setattr(executor, "_ANYWHERE", {})
    for notes_uses in (False, True, True):
        monkeypatch.setattr(placement.device().pool, "notes_uses", notes_uses)
        x = matrix()
        n = len(x)
        for turn in range(3):
            assert [x[i, i].item() for i in range(40)] == [float(i * n + i) + turn for i in range(40)]
            x += 1
        assert x._storage.host is None
        executor._ANYWHERE.clear()


def test_parts_of_gathered_elements():
    x = matrix()
    n = len(x)
    assert [x[i, i].item() for i in range(30)] == [float(i * n + i) for i in range(30)]
    assert type(x._storage.value) is windows.Windowed
    bits = numpy.arange(float(n * n)).reshape(n, n).view(numpy.int32)
    ours = x.view(np.int32)
    for i, j in [(40, 80), (40, 81), (40, 82), (41, 82), (41, 83), (2, 3), (n - 1, 2 * n - 1)]:
        assert ours[i, j] == bits[i, j]


def test_a_diagonal_read_with_its_neighbours_has_the_whole_array_fetched():
    x = matrix()
    n = len(x)
    for i in range(60):
        for j in (i, i + 1) if i > 20 else (i,):
            assert x[i, j] == i * n + j
    assert x._storage.host is not None


def test_a_loop_that_writes_between_gets_few_windows(stats):
    x = matrix()
    n = len(x)
    before = stats().d2h_bytes
    for i in range(100):
        x[i + 1 :] += 1.0
        assert x[i, i] == i * n + i + i
    assert not windows._READERS
    assert stats().d2h_bytes - before <= 100 * 8 + windows.CREDIT * windows.NBYTES


def test_gathering_that_fails_is_done_another_time(monkeypatch):
    x = matrix()
    n = len(x)
    for i in range(placement.ACCESSES_BEFORE_MIRROR):
        assert x[i, i] == i * n + i
    with monkeypatch.context() as patched:
        patched.setattr(windows.schedule, "evaluate", _no_memory)
        with pytest.raises(MemoryError):
            x[16, 16]
    assert [x[i, i].item() for i in range(16, n)] == [float(i * n + i) for i in range(16, n)]
    assert x._storage.host is None


def _no_memory(_value):
    raise MemoryError
