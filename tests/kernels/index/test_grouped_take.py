"""Elements by many indices, grouped by region first: every size of tiles and buckets, and indices of every kind."""

import numpy as np
import pytest

from oxinp._kernels.index import grouped_take
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine
from tests.thinned import thinned

ITEMS = 4  # of a thread
TILE = 512 * ITEMS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def taken(session, x, index, shift, *, tiles_each=2):
    """What the kernels read, and what they report."""
    extent, stride = x.size, x.strides[0] // x.itemsize
    output, report = np.empty(index.size, x.dtype), session.machine.upload(np.zeros(2, np.int64))
    types = from_dtype(x.dtype), from_dtype(index.dtype)
    plan = grouped_take.take(index.size, extent, stride, shift, *types, items=ITEMS, tiles_each=tiles_each)
    session.run(plan, [output], [session.pointer(x), session.pointer(index), report])
    return output, session.machine.download(report, 16).view(np.int64)


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    thinned(
        [(3 * TILE, 40_000, 7), (5 * TILE + 77, 5000, 5), (TILE - 1, 9000, 6), (17, 900, 2), (2 * TILE + 5, 900, 1)],
        [np.dtype("f4"), np.dtype("i8")],
    ),
    ids=str,
)
def test_any_size(session, sizes, dtype):
    count, extent, shift = sizes
    rng = np.random.default_rng([count, dtype.num])
    x, index = rng.integers(0, 1000, extent).astype(dtype), rng.integers(-extent, extent, count)
    found, report = taken(session, x, index, shift)
    assert_same(found, x[index])
    assert not report.any()


def in_order(rng, extent, count):
    return np.sort(rng.integers(0, extent, count))


def of_few_buckets(rng, extent, count):
    return rng.permutation(np.resize(np.arange(0, extent, extent // 7), count))


def of_both(rng, extent, count):
    half = count // 2 // TILE * TILE
    return np.concatenate([in_order(rng, extent, half), rng.integers(0, extent, count - half)])


@pytest.mark.parametrize("make", [in_order, of_few_buckets, of_both])
def test_neighbours_are_read_at_once(session, make):
    rng = np.random.default_rng(1)
    x, index = rng.random(6000, "f4")[::-2], make(rng, 3000, 4 * TILE + 5).astype("i4")
    found, _ = taken(session, x, index, 4)
    assert_same(found, x[index])


def test_an_index_out_of_bounds_is_reported(session):
    x, index = np.arange(9000.0), np.random.default_rng(2).integers(0, 9000, 2 * TILE)
    index[TILE + 9] = 9000
    found, report = taken(session, x, index, 6)
    assert_same(found, x[np.where(index < 9000, index, 0)])
    assert report[1] == 9000


def test_where_indices_are_grouped():
    shift_of = grouped_take.shift_of
    assert shift_of(1 << 24, 1 << 26, 4) == 18
    assert shift_of(1 << 27, 1 << 27, 4) == 19
    assert shift_of(1 << 27, (1 << 27) + 1, 8) == 19
    assert shift_of(1 << 27, (1 << 28) + 1, 4) is None
    assert shift_of(1 << 24, 1 << 20, 4) is None  # the cache holds it
    assert shift_of(1 << 22, 1 << 26, 4) is None  # few
    assert shift_of(1 << 24, 1 << 26, 2) is None
