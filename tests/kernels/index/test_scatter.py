"""`scatter` alone: the last of equal indices, numbers for all, updates, indices out of bounds."""

import numpy as np
import pytest

from oxinp._kernels.index import resident_scatter, scatter
from oxinp._ptx.types import from_dtype, i16, i64
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, Session, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def loops(*arrays):
    """Return loops over arrays of one shape, of all axes."""
    strides = [[step // x.itemsize for step in x.strides] for x in arrays]
    return list(zip(arrays[0].shape, *strides, strict=True))


def run(session, x, index, values, *, operator="", **options):
    """Write to the second axis of three; return the address of the report and what is in it."""
    report = session.machine.upload(np.zeros(2, np.int64))
    spread = np.broadcast_to(values, (x.shape[0], index.size, x.shape[2]))
    outer, (extent, stride, step), inner = loops(x, spread)
    plan = scatter.scatter(
        [outer], (index.size, stride, step), [inner], x.shape[1], from_dtype(x.dtype), i64, (16, 16),
        TINY_DEVICE, operator=operator, **options,
    )  # fmt: skip
    del extent
    session.run(plan, [x], [session.pointer(index), session.pointer(values), report])
    return report, session.machine.download(report, 16).view(np.int64)


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("?", "i2", "f4", "c16")], ids=str)
@pytest.mark.parametrize("shape", [(1, 50, 1), (3, 40, 4), (2, 600, 3)], ids=str)
def test_the_last_of_equal_indices(session, shape, dtype):
    rng = np.random.default_rng(0)
    x = np.zeros(shape, dtype)
    index = rng.integers(-shape[1], shape[1], 1500)
    values = rng.integers(0, 2 if dtype.kind == "b" else 100, (shape[0], 1500, shape[2])).astype(dtype)
    expected = x.copy()
    expected[:, index] = values
    assert not run(session, x, index, values)[1].any()
    assert_same(x, expected)


@pytest.mark.parametrize("shape", [(1, 9000, 1), (2, 3000, 4)], ids=str)
def test_the_last_of_few_indices_among_many_elements(session, shape):
    rng = np.random.default_rng(3)
    x = np.zeros(shape)
    index = np.concatenate([rng.integers(-shape[1], shape[1], 200), rng.integers(0, 20, 100)])
    values = rng.random((shape[0], 300, shape[2]))
    expected = x.copy()
    expected[:, index] = values
    assert not run(session, x, index, values)[1].any()
    assert_same(x, expected)
    beyond = index.copy()
    beyond[7] = shape[1]
    assert run(session, x, beyond, values + 1)[1][1] == shape[1]
    assert_same(x, expected)


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("u1", "f4", "c16")], ids=str)
@pytest.mark.parametrize("extent", [3000, 50_000], ids=["a claim each", "a table"])
@pytest.mark.parametrize("count", [2, 1500, 2 * 1024 + 700, 5000])
def test_writes_of_one_launch(session, count, extent, dtype):
    rng = np.random.default_rng(count)
    whole, index = np.zeros((extent, 2), dtype), rng.integers(-extent, extent, count)
    index[::3] = index[0]
    values = rng.integers(0, 100, (count, 3)).astype(dtype)[:, 1]
    expected = whole.copy()
    expected[:, 1][index] = values
    plan = scatter.scatter([], (count, 2, 3), [], extent, from_dtype(dtype), i64, (1, 1), TINY_DEVICE)
    assert len(plan.steps) == 1
    report = session.machine.upload(np.zeros(2, np.int64))
    given = [session.pointer(index), session.pointer(values), report]
    session.run(plan, [whole[:, 1]], given)
    assert_same(whole, expected)
    index[-1] = extent
    session.run(plan, [whole[:, 1]], [session.pointer(index.copy()), *given[1:]])
    assert session.machine.download(report, 16).view(np.int64)[1] == extent
    assert_same(whole, expected)


def test_more_writes_than_resident_threads_have(session):
    count = TINY_DEVICE.num_sms * resident_scatter.BLOCK * resident_scatter.MAX_ITEMS + 1
    rng = np.random.default_rng(6)
    x, index, values = np.zeros(300_000, "i2"), rng.integers(-300_000, 300_000, count), rng.integers(9, 99, count)
    values = values.astype("i2")
    expected = x.copy()
    expected[index] = values
    plan = scatter.scatter([], (count, 1, 1), [], x.size, i16, i64, (2, 2), TINY_DEVICE)
    assert len(plan.steps) > 1
    report = session.machine.upload(np.zeros(2, np.int64))
    session.run(plan, [x], [session.pointer(index), session.pointer(values), report])
    assert_same(x, expected)


def test_values_that_do_not_depend_on_the_index(session):
    x, index, values = np.zeros((2, 9, 5), "i4"), np.array([3, 3, -1]), np.arange(10, dtype="i4").reshape(2, 1, 5)
    expected = x.copy()
    expected[:, index] = values
    assert not run(session, x, index, values)[1].any()
    assert_same(x, expected)


def test_distinct_indices_need_no_check(session):
    x, index, values = np.zeros((2, 9, 5)), np.array([3, 0, 8]), np.random.default_rng(1).random((2, 3, 5))
    expected = x.copy()
    expected[:, index] = values
    run(session, x, index, values, is_checked=False, may_repeat=False)
    assert_same(x, expected)


@pytest.mark.parametrize("values", [np.ones((1, 700, 1)), np.ones((1, 1, 1))], ids=["each", "all"])
@pytest.mark.parametrize("beyond", [40, -41, 2**40])
def test_nothing_is_written_where_an_index_is_out_of_bounds(session, values, beyond):
    x, index = np.zeros((1, 40, 1)), np.arange(700) % 40
    index[500] = beyond
    report, written = run(session, x, index, values)
    assert_same(written, np.array([report, beyond]))
    assert_same(x, np.zeros((1, 40, 1)))


@pytest.mark.parametrize("operator", scatter.ATOMIC_TYPES)
@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("i4", "u4", "i8", "u8")], ids=str)
def test_updates(session, dtype, operator):
    rng = np.random.default_rng(2)
    low = 0 if dtype.kind == "u" else -100
    x = rng.integers(low, 100, (2, 30, 3)).astype(dtype)
    index, values = rng.integers(-30, 30, 1100), rng.integers(low, 100, (2, 1100, 3)).astype(dtype)
    ufunc = {"min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    expected = x.copy()
    ufunc.get(operator, np.add).at(expected, (slice(None), index), values)
    run(session, x, index, values, operator=operator)
    assert_same(x, expected)


@pytest.mark.parametrize("operator", scatter.ATOMIC_TYPES)
@pytest.mark.parametrize("dtype", [np.dtype("i4"), np.dtype("u8")], ids=str)
def test_no_update_stays_where_an_index_is_out_of_bounds(session, dtype, operator):
    rng = np.random.default_rng(3)
    x, values = rng.integers(0, 100, (2, 30, 1)).astype(dtype), rng.integers(0, 100, (2, 1600, 1)).astype(dtype)
    index, expected = rng.integers(-30, 30, 1600), x.copy()
    index[411] = 30
    report, written = run(session, x, index, values, operator=operator)
    assert_same(written, np.array([report, 30]))
    assert_same(x, expected)
