"""Elements by index and by mask, on the device: NumPy's values, layouts and errors."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp import _runtime
from oxinp._core.lazy import executor, op
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ops import advanced, masks
from oxinp._kernels.index import gather, grouped_take
from oxinp._ptx.types import i64
from tests.comparator import assert_same
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("on_device")

CODES = "?bhilBHILefdFD"
SHAPES = [(50,), (20, 30), (7, 5, 8)]


def values(code, shape):
    rng = numpy.random.default_rng(ord(code))
    return rng.integers(0, 2 if code == "?" else 100, shape).astype(code)


def fallbacks(stats):
    """Return what NumPy computed, but for what this test read."""
    return set(stats().fallbacks) - {"__array__"}


def check(ours, numpys):
    assert_same(ours, numpys)
    assert ours.strides == numpys.strides


@pytest.mark.parametrize(("code", "shape"), thinned(CODES, SHAPES), ids=str)
def test_arrays_of_integers(shape, code, stats):
    x = values(code, shape)
    rng = numpy.random.default_rng(0)
    for kind in "bhilBHIL":
        low = 0 if kind in "BHIL" else -shape[0]
        for index in (rng.integers(low, shape[0], (9,)).astype(kind), rng.integers(low, shape[0], (4, 5)).astype(kind)):
            check(np.asarray(x)[np.asarray(index)], x[index])
    check(np.asarray(x)[index], x[index])
    check(np.asarray(x)[[1, 0, -1]], x[[1, 0, -1]])
    assert not fallbacks(stats)


@pytest.mark.parametrize(("code", "shape"), thinned(CODES, SHAPES), ids=str)
def test_masks(shape, code, stats):
    x, mask = values(code, shape), numpy.random.default_rng(1).random(shape) < 0.4
    for chosen in (mask, mask & False, mask | True, mask[..., 0] if len(shape) > 1 else mask, mask.reshape(shape)):
        check(np.asarray(x)[np.asarray(chosen)], x[chosen])
    check(np.asarray(x).T[np.asarray(mask).T], x.T[mask.T])
    check(np.asarray(x)[::-1, ...][np.asarray(mask)], x[::-1, ...][mask])
    check(np.asarray(x)[mask], x[mask])
    assert not fallbacks(stats)


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("limit", [-1.0, 0.3, 2.0])
def test_masks_whose_elements_are_written_before_they_are_counted(limit, monkeypatch):
    pool, cut = _runtime.current().pool, []
    shrink = pool.shrink
    monkeypatch.setattr(executor, "MIN_BOUNDED", 1)
    monkeypatch.setattr(type(pool), "has_room", lambda *_: True)
    monkeypatch.setattr(type(pool), "shrink", lambda _, *given: (cut.append(given[1]), shrink(*given))[1])
    np.config.renew()
    x = numpy.random.default_rng(3).random(5000)
    for _ in range(2):
        assert_same(np.asarray(x)[np.asarray(x) > limit], x[x > limit])
        assert_same(np.flatnonzero(np.asarray(x) > limit), numpy.flatnonzero(x > limit))
    assert cut == 4 * [8 * (x > limit).sum()]


@pytest.mark.usefixtures("unwatched")
def test_masks_where_room_has_gone_meanwhile(monkeypatch):
    x, refused, backend = numpy.random.default_rng(3).random(5000), [], _runtime.current()
    ours, allocate = np.asarray(x) * 1, backend.allocate
    np.evaluate(ours)

    def refuse(nbytes):
        if nbytes == x.nbytes:
            refused.append(nbytes)
            raise MemoryError
        return allocate(nbytes)

    monkeypatch.setattr(executor, "MIN_BOUNDED", 1)
    monkeypatch.setattr(type(backend.pool), "has_room", lambda *_: True)
    monkeypatch.setattr(backend, "allocate", refuse)
    np.config.renew()
    assert_same(ours[ours > 0.3], x[x > 0.3])
    assert refused
    np.config.renew()


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize(("least", "first"), [(1, 5000), (executor.MIN_BOUNDED, 5010)])
def test_masks_of_new_sizes_are_planned_by_arithmetic(least, first, monkeypatch):
    x = numpy.random.default_rng(3).random(7000)
    ours, made, make = np.asarray(x), [], op.Executable
    monkeypatch.setattr(executor, "MIN_BOUNDED", least)
    monkeypatch.setattr(op, "Executable", lambda *given: made.append(given) or make(*given))
    np.config.renew()
    for size in range(first, first + 12):
        for limit in (0.3, 2.0 if size % 2 else -1.0):
            assert_same(ours[:size][ours[:size] > limit], x[:size][x[:size] > limit])
            assert_same(np.flatnonzero(ours[:size] > limit), numpy.flatnonzero(x[:size] > limit))
        # One of another alignment may have kernels of its own.
        assert size < first + 8 or not made, (_runtime.current().pool.notes_uses, np.config.version, made)
        made.clear()


@pytest.mark.parametrize("code", CODES)
def test_a_number_where_a_mask_is_true(code, stats):
    for shape in SHAPES:
        x, mask = values(code, shape), numpy.random.default_rng(2).random(shape) < 0.4
        ours, expected = np.asarray(x), x.copy()
        for value in (0, 1, True, numpy.float32(1.0), numpy.int8(1)):
            ours[np.asarray(mask)] = value
            expected[mask] = value
            assert_same(ours, expected)
        ours[::2][np.asarray(mask)[::2]] = 1
        expected[::2][mask[::2]] = 1
        assert_same(ours, expected)
    assert not fallbacks(stats)
    floats, truth = np.zeros(50), np.arange(50) % 3 == 0
    floats[truth] = numpy.nan
    other = floats * 2
    floats[truth] = 5
    assert float(np.isnan(other).sum()) == 17
    assert float(floats.sum()) == 85


def test_functions_and_methods(stats):
    rng = numpy.random.default_rng(3)
    x, index = rng.random((30, 40)), numpy.array([3, 1, -1, 3])
    ours, indices = np.asarray(x), np.asarray(index)
    pairs = [
        (np.take(ours, indices, 1), numpy.take(x, index, 1)),
        (np.take(ours.T, indices, 0), numpy.take(x.T, index, 0)),
        (np.take(ours, [[1, 2]], axis=-1), numpy.take(x, [[1, 2]], axis=-1)),
        (ours.take(indices), x.take(index)),
        (np.compress(ours[0] > 0.5, ours, 1), numpy.compress(x[0] > 0.5, x, 1)),
        (np.extract(ours > 0.5, ours), numpy.extract(x > 0.5, x)),
        (np.flatnonzero(ours > 0.5), numpy.flatnonzero(x > 0.5)),
        (ours[np.where(ours[:, 0] > 0.5)[0]], x[numpy.where(x[:, 0] > 0.5)[0]]),
        *zip(np.nonzero(ours > 0.5), numpy.nonzero(x > 0.5), strict=True),
        *zip((ours[::2].T > 0.7).nonzero(), (x[::2].T > 0.7).nonzero(), strict=True),
        *zip(np.where(ours > 0.9), numpy.where(x > 0.9), strict=True),
        *zip(np.nonzero(ours.reshape(5, 6, 40) > 0.9), numpy.nonzero(x.reshape(5, 6, 40) > 0.9), strict=True),
    ]
    for mine, numpys in pairs:
        assert_same(mine, numpys)
    assert not fallbacks(stats)


def test_what_is_read_stays_as_it_was():
    ours = np.arange(300.0)
    chosen, pending = ours[np.arange(0, 300, 7)], (ours * 2)[np.arange(5)]
    ours[:] = 0
    assert_same(chosen, numpy.arange(0.0, 300, 7))
    assert_same(pending, numpy.arange(0.0, 10, 2))
    chosen[:] = 1
    assert float(ours.sum()) == 0


def test_what_is_out_of_bounds_is_raised_by_whoever_waits_next():
    ours, index = np.arange(20.0), np.asarray([1, 3]) * 10
    chosen = ours[index]
    with pytest.raises(IndexError, match="index 30 is out of bounds for axis 0 with size 20") as raised:
        numpy.asarray(chosen)
    assert any(__file__ in note for note in raised.value.__notes__)
    ours[index] = 7
    with pytest.raises(IndexError, match="index 30 is out of bounds for axis 0 with size 20"):
        np.cuda.synchronize()
    assert_same(ours, numpy.arange(20.0))
    matrix = np.ones((20, 5))
    with pytest.raises(IndexError, match="index -6 is out of bounds for axis 1 with size 5"):
        numpy.asarray(matrix[np.asarray([1, 2]) * 2, np.asarray([1, -3]) * 2])
    np.cuda.synchronize()


@pytest.mark.parametrize("num_between", [260, 4200])
def test_an_error_is_of_the_operation_that_was_wrong_though_others_came_between(num_between):
    ours, others = np.arange(10.0) + 0, np.arange(2000.0) + 0
    index, right = np.asarray([1000, 1004]) + 0, np.asarray([1, 2]) + 0
    np.evaluate(ours, others, index, right)
    chosen = ours[index]
    line = test_an_error_is_of_the_operation_that_was_wrong_though_others_came_between.__code__.co_firstlineno + 5
    for _ in range(num_between):
        others[right]
    is_known = num_between < 4096
    found = r"^index 1004 is out of bounds for axis 0 with size 10\n" if is_known else r"^an index is out of bounds\n"
    with pytest.raises(IndexError, match=found) as raised:
        numpy.asarray(chosen)
    (note,) = [x for x in raised.value.__notes__ if x.startswith("found")]
    assert note == (
        f"found by the device in what line {line} of {__file__} asked for"
        if is_known
        else "found by the device in what was asked for over 4096 reports ago"
    )
    np.cuda.synchronize()


def test_a_gather_does_not_wait(stats):
    ours, index = np.arange(300.0), np.arange(0, 300, 7) + 0
    before = stats().d2h_bytes
    chosen = ours[index]
    ours[index] = chosen + 1
    np.evaluate(ours, chosen)
    assert stats().d2h_bytes == before


KEYS = [
    lambda i, _: (i, i),
    lambda i, _: (slice(None), i),
    lambda i, _: (i[:, None] % 4, i % 3),
    lambda i, _: (slice(1, None, 2), i[:2, None] % 4, i % 8),
    lambda i, _: (i, slice(None), i),
    lambda i, _: (i, None, 2, ...),
    lambda i, _: (..., 2, i),
    lambda i, _: (None, i, ..., i),
    lambda _, m: (m[:, 0, 0],),
    lambda _, m: (m[:, :, 0], 3),
    lambda _, m: (slice(None, None, -1), m[0]),
    lambda _, m: (m[:, 0, 0], slice(1, 3)),
    lambda _, m: (..., m[0, 0]),
    lambda i, _: (abs(i).astype("u1"), numpy.int64(1)),
    lambda i, _: ([0, 1, 0], i[:3]),
    lambda i, _: (i[:0],),
    lambda _, m: (m & False,),
]  # fmt: skip


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::-1, :, ::-1], lambda x: x.transpose(1, 0, 2)[:, ::2]])
@pytest.mark.parametrize("key", KEYS)
def test_every_form_of_key(key, view, stats):
    x, i = values("f", (7, 5, 8)), numpy.array([1, -2, 1, 0])
    seen = view(x)
    wanted = key(i, seen > 50)
    given = tuple(np.asarray(part) if isinstance(part, numpy.ndarray) else part for part in wanted)
    ours = np.asarray(x)
    found, expected = view(ours)[given], seen[wanted]
    assert_same(found, expected)
    if expected.size and 1 not in expected.shape:
        assert found.strides == expected.strides
    for value in (3, numpy.arange(seen[wanted].size, dtype="i4").reshape(seen[wanted].shape), seen[wanted][:1] * 2):
        view(ours)[given] = np.asarray(value) if isinstance(value, numpy.ndarray) else value
        seen[wanted] = value
        assert_same(ours, x)
        view(ours)[given] += 1
        seen[wanted] += 1
        assert_same(ours, x)
    assert not fallbacks(stats)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("index_code", "lHb")
def test_take_along_axis(axis, index_code, stats):
    rng = numpy.random.default_rng(8)
    for code in ("?", "e", "f", "D"):
        x = values(code, (12, 20, 15))
        extent = x.size if axis is None else x.shape[axis]
        shape = {0: (30, 20, 15), 1: (12, 3, 15), -1: (1, 20, 7), None: (40,)}[axis]
        index = rng.integers(0 if index_code == "H" else -min(extent, 128), min(extent, 128), shape).astype(index_code)
        ours = np.take_along_axis(np.asarray(x), np.asarray(index), axis)
        assert_same(ours, numpy.take_along_axis(x, index, axis))
    if axis is not None:
        turned, given = np.asarray(x)[::-1, :, ::2], np.asarray(index)[..., :1]
        expected = numpy.take_along_axis(x[::-1, :, ::2], index[..., :1] // 2, axis)
        assert_same(np.take_along_axis(turned, given // 2, axis), expected)
    assert not fallbacks(stats)


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("index_code", "lHb")
def test_take_along_axis_with_neighbouring_results_of_a_thread(index_code, width, monkeypatch, stats):
    monkeypatch.setattr(gather, "ALONG_WIDTH", width)
    rng = numpy.random.default_rng(width)
    for code in ("?", "e", "f", "d", "D"):
        x = values(code, (12, 20))
        for count in (3, 16, 1030):
            index = rng.integers(0 if index_code == "H" else -20, 20, (12, count)).astype(index_code)
            ours = np.asarray(index)
            assert_same(np.take_along_axis(np.asarray(x), ours, 1), numpy.take_along_axis(x, index, 1))
            seen, given = x[::2, ::-1], index[1::2, 1:]  # begins at an odd place
            assert_same(
                np.take_along_axis(np.asarray(x)[::2, ::-1], ours[1::2, 1:], 1), numpy.take_along_axis(seen, given, 1)
            )
            assert_same(np.take_along_axis(np.asarray(x[0]), ours[5], 0), numpy.take_along_axis(x[0], index[5], 0))
            alike = numpy.broadcast_to(index[:1], index.shape)
            assert_same(np.take_along_axis(np.asarray(x), ours[:1], 1), numpy.take_along_axis(x, alike, 1))
    wrong = np.take_along_axis(np.asarray(values("f", (12, 20))), np.full((12, 5000), 20), 1)
    with pytest.raises(IndexError, match="index 20 is out of bounds for axis 1 with size 20"):
        numpy.asarray(wrong)
    assert not fallbacks(stats)


def test_take_along_axis_of_whole_strips_of_columns(stats):
    x, index = numpy.arange(3 * 5 * 2048.0).reshape(3, 5, 2048), numpy.arange(3 * 4 * 2048).reshape(3, 4, 2048) % 7 % 5
    for y, i in ((x, index), (x[0], index[0])):
        assert_same(np.take_along_axis(np.asarray(y), np.asarray(i), -2), numpy.take_along_axis(y, i, -2))
    assert not fallbacks(stats)


@pytest.mark.parametrize("code", CODES)
def test_of_equal_indices_the_last_one_counts(code, stats):
    x, index = values(code, (300,)), numpy.random.default_rng(4).integers(-300, 300, 2000)
    given, ours = values(code, (2000,)), np.asarray(x)
    ours[np.asarray(index)] = np.asarray(given)
    x[index] = given
    assert_same(ours, x)
    ours[np.asarray(index)] = ours[np.asarray(index[::-1])]
    x[index] = x[index[::-1]]
    assert_same(ours, x)
    assert not fallbacks(stats)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: x[xp.asarray([0, 30])],
        lambda xp, x: x[xp.asarray([-31, 1])],
        lambda xp, x: xp.take(x, xp.asarray([40]), 1),
        lambda xp, x: xp.take(x, xp.asarray([1200])),
        lambda xp, x: xp.take(x, xp.asarray([1]), 2),
        lambda xp, x: xp.take_along_axis(x, xp.asarray([[1], [40]]), 1),
        lambda xp, x: xp.take_along_axis(x, xp.full((30, 5000), -41), 1),
        lambda xp, x: xp.take_along_axis(x, xp.ones((30, 1)), 1),
        lambda xp, x: xp.take_along_axis(x, xp.asarray([1]), 1),
        lambda xp, x: xp.take(x, xp.asarray([1]), mode="nonsense"),
        lambda xp, x: x[xp.ones((30, 39), bool)],
        lambda xp, x: x[xp.ones(29, bool)],
        lambda xp, x: x[xp.ones((30, 40, 1), bool)],
        lambda xp, x: xp.compress(xp.ones(50, bool), x, 1),
        lambda xp, x: x[xp.ones(3)],
        lambda xp, x: x.__setitem__(xp.ones((30, 39), bool), 1),
        lambda _, x: x.__setitem__(x > 0, 1j),
        lambda xp, x: xp.where(x, 1),
    ],
)
def test_what_numpy_refuses(call, config):
    config.synchronous = True
    x = numpy.arange(1200.0).reshape(30, 40)
    with pytest.raises(Exception) as expected:
        call(numpy, x.copy())
    with pytest.raises(expected.type.__mro__[1] if expected.type.__name__.startswith("_") else expected.type) as raised:
        call(np, np.asarray(x))
    if expected.type is IndexError:
        assert str(raised.value) == str(expected.value)


CHAINS = {
    "scaled": (lambda xp, x, i: x[i] * 2 + 1, 1),  # noqa: ARG005
    "with others": (lambda xp, x, i: xp.sqrt(abs(x[i] * 1.0)) + x[:1, 0], 1),
    "of an axis": (lambda xp, x, i: (x[i, 3] * 3 > 2) | (x[i, 3] < -5), 2),  # noqa: ARG005
    "of columns": (lambda xp, x, i: x.T[:, i] * 3 - 1, 2),  # noqa: ARG005
    "along": (lambda xp, x, i: xp.take_along_axis(x, i[:50, None] % 8, 1) * 2 + x[:, :1], 3),
    "used twice": (lambda xp, x, i: (y := x[i]) * 2 - y, 1),  # noqa: ARG005
    "transposed": (lambda xp, x, i: x[i].T * 2, 2),  # noqa: ARG005
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("code", "bedFD")
def test_chains_are_computed_with_the_gather(name, code, launches, config):
    body, taken = CHAINS[name]
    rng = numpy.random.default_rng(9)
    x, index = rng.integers(-9, 9, (50, 8)).astype(code), rng.integers(-50, 50, 77)
    if code in "FD" and name == "of an axis":
        return
    given = [np.asarray(each) + each.dtype.type(0) for each in (x, index)]
    results = []
    assert launches(lambda: results.append(body(np, *given)) or results[0]) == taken
    assert_same(results[0] + 0, body(numpy, x, index) + 0)
    index[5], config.synchronous = 50, True
    with pytest.raises(IndexError, match="index 50 is out of bounds for axis 0 with size 50"):
        np.evaluate(given[0][np.asarray(index) * 1] * 2)


def test_a_gather_that_somebody_holds_is_stored():
    x, index = np.arange(90.0) + 0, np.asarray(numpy.arange(0, 90, 4)) * 1
    held = x[index]
    twice = held * 2
    assert_same(twice, numpy.arange(0.0, 180, 8))
    assert_same(held, numpy.arange(0.0, 90, 4))


@pytest.mark.parametrize("key", [([1], slice(None, 1)), (slice(None), [[0]], None), ([0, 1, 1],)], ids=str)
def test_a_complex_number_written_by_index(key):
    ours, theirs = np.ones((2, 3, 4), "c16"), numpy.ones((2, 3, 4), "c16")
    for x in (ours, theirs):
        x[key] = numpy.complex128(2 - 3j)
    assert_same(ours, theirs)


def test_a_mask_computed_with_a_complex_number():
    x = values("D", (30, 20))
    ours = np.asarray(x)
    assert_same(ours[np.abs(ours * (1 + 2j)) > 90], x[numpy.abs(x * (1 + 2j)) > 90])


def test_a_mask_in_a_tuple_is_read_as_the_mask(launches, monkeypatch):
    monkeypatch.setattr(masks, "_latest", {})  # of which it depends how the first use of a mask is read
    x = numpy.random.default_rng(8).random(3000)
    ours = np.asarray(x) * 1
    keep = ours > 0.5
    np.evaluate(ours, keep)
    assert launches(lambda: ours[(keep,)]) == launches(lambda: ours[keep])
    assert_same(ours[(keep,)], x[x > 0.5])
    assert_same(np.delete(ours, numpy.arange(0, 3000, 7)), numpy.delete(x, numpy.arange(0, 3000, 7)))


@pytest.mark.parametrize("code", ["f", pytest.param("F", marks=pytest.mark.slow)])
def test_many_indices_of_a_vector_are_grouped(code, monkeypatch, launches, stats, config):
    for name in ("MIN_COUNT", "MIN_ARRAY_NBYTES"):
        monkeypatch.setattr(grouped_take, name, 1)
    rng = numpy.random.default_rng(10)
    x, index = rng.integers(-9, 9, 6000).astype(code), rng.integers(-3000, 3000, (3, 3001))
    ours, chosen = np.asarray(x) + x.dtype.type(0), np.asarray(index) * 1
    np.evaluate(ours, chosen)
    for step in (1, -2):
        results = []
        bodies = [lambda step=step: ours[::step][chosen], lambda step=step: ours[::step][chosen] * 2 - 1]
        for body, taken in zip(bodies, (3, 4), strict=True):
            assert launches(lambda body=body, to=results: to.append(body()) or to[-1]) == taken
        check(results[0], x[::step][index])
        assert_same(results[1], x[::step][index] * 2 - 1)
    assert_same(np.take(ours.reshape(2, 3000), chosen), numpy.take(x.reshape(2, 3000), index))
    assert not fallbacks(stats)
    index[1, 7], config.synchronous = 6000, True
    with pytest.raises(IndexError, match="index 6000 is out of bounds for axis 0 with size 6000"):
        np.evaluate(ours[np.asarray(index) * 1])


def test_many_indices_are_read_one_by_one_where_memory_is_short(monkeypatch, launches):
    for name in ("MIN_COUNT", "MIN_ARRAY_NBYTES"):
        monkeypatch.setattr(grouped_take, name, 1)
    x, index = np.arange(6001.0) + 0, np.asarray(numpy.random.default_rng(11).integers(0, 6001, 9000)) * 1
    np.evaluate(x, index)
    run_all = executor.Executable.run_all

    def without_room(executable, *args):
        if executable.scratch_nbytes:
            raise MemoryError
        return run_all(executable, *args)

    monkeypatch.setattr(executor.Executable, "run_all", without_room)
    results = []
    assert launches(lambda: results.append(x[index]) or results[0]) == 1
    assert_same(results[0], numpy.arange(6001.0)[numpy.asarray(index)])


def test_indices_of_several_axes_are_arrays_of_their_own():
    matrix = numpy.random.default_rng(3).random((20, 30)) > 0.4
    rows, columns = np.nonzero(np.asarray(matrix))
    expected = numpy.nonzero(matrix)
    rows += 100
    columns[0] = -1
    assert_same(rows, expected[0] + 100)
    assert_same(columns[1:], expected[1][1:])
    assert columns[0] == -1


@pytest.mark.parametrize("is_checked", [False, True])
@pytest.mark.parametrize("code", ["f", "D"])
def test_vectors_of_other_sizes_are_read_by_arithmetic(code, is_checked):
    for count, extent, stride in [
        (5, 9, 1),
        (3000, 70_000, -3),
        (100_000, 31, 2),
        (1 << 31, 5, 1),
        (1 << 22, 1 << 25, 1),
    ]:
        type_ = DEVICE_TYPES[numpy.dtype(code)]
        options = {"is_checked": is_checked, "may_group": True}
        plan = gather.take([], (count, stride), [], extent, type_, i64, 16, **options)
        first = gather.take([], (7, 1), [], 11, type_, i64, 16, **options).steps[0].kernel
        again = gather.take_again(first, count, stride, extent, type_.nbytes, is_checked=is_checked)
        is_other = len(plan.steps) > 1 or plan.steps[0].kernel is not first
        assert (again is None) == is_other
        if again is not None:
            (step,) = plan.steps
            assert again == (step.kernel, step.grid, step.constants)


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)], ids=str)
def test_nothing_is_prepared_for_ever_new_numbers_of_indices(shape, monkeypatch):
    """As in a loop that keeps ever fewer elements: what has been planned once takes arithmetic."""
    draw = numpy.random.default_rng(3)
    kept = draw.random((2000, *shape)), draw.integers(-9, 9, (2000, *shape))
    ours = [np.asarray(x) * 1 for x in kept]
    for turn in range(8):
        number = len(kept[0]) - 7 * (turn + 1)
        index = draw.permutation(len(kept[0]))[:number]
        kept = [x[index] for x in kept]
        mine = np.asarray(index)
        np.evaluate(mine)
        ours = [x[mine] for x in ours]
        if turn == 5:
            monkeypatch.setattr(op.BoundOp, "_build", None)
        np.evaluate(*ours)
    for x, y in zip(ours, kept, strict=True):
        check(x, y)


def test_arrays_alike_for_every_axis_take_no_views(monkeypatch):
    """As in ``escaped[xi[is_out], yi[is_out]] = n``."""
    x, y = values("d", (30, 20)), values("d", (7, 5, 8))
    draw = numpy.random.default_rng(2)
    monkeypatch.setattr(advanced, "_parts", None)
    for given in (x, x[::2, 3:], y):
        ours = np.asarray(x)[::2, 3:] if given.base is x else np.asarray(given)
        index = tuple([draw.integers(-n, n, (4, 6)) for n in given.shape])
        mine = tuple([np.asarray(i) * 1 for i in index])
        check(ours[mine], given[index])
        ours[mine], given[index] = 3.0, 3.0
        assert_same(ours, given)
        far = (*mine[:-1], mine[-1] + 2 * given.shape[-1])
        with pytest.raises(IndexError, match=f"out of bounds for axis {given.ndim - 1}"):
            numpy.asarray(ours[far])


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("shape", [(2, 2), (3, 1, 1, 2), (1, 2, 1), (3, 4, 2, 2)])
def test_what_is_repeated_lies_innermost_in_the_result(shape, axes):
    given = values("d", shape)
    for key in ([1, 0],), (slice(None), [0, 0]), (..., [0, 1]), ([0, 1], [1, 0]), (slice(None), [0, 1], [1, 0]):
        found, expected = (xp.broadcast_to(xp.asarray(given), (3, 4, 2, 2)).transpose(axes)[key] for xp in (np, numpy))
        assert_same(found, expected)
        extents = [i for i, extent in enumerate(expected.shape) if extent > 1]
        assert [found.strides[i] for i in extents] == [expected.strides[i] for i in extents]
