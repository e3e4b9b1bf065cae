"""`take` and `select` alone: widths of units, types of indices, distances beyond 32 bits."""

import re

import numpy as np
import pytest

from oxinp._kernels.index import gather
from oxinp._ptx.types import from_dtype, i32, i64
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


@pytest.mark.parametrize(
    "dtype", [np.dtype(name) for name in ("?", "u1", "i2", "f2", "f4", "f8", "c8", "c16")], ids=str
)
@pytest.mark.parametrize("shape", [(1, 9, 1), (3, 50, 1), (2, 7, 16), (5, 4, 3), (1, 300, 64)], ids=str)
@pytest.mark.parametrize("index_dtype", [np.dtype("i8"), np.dtype("u1"), np.dtype("i2")], ids=str)
def test_take(session, shape, dtype, index_dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    low = 0 if index_dtype.kind == "u" else -min(shape[1], 128)
    index = rng.integers(low, min(shape[1], 128), 1100).astype(index_dtype)
    output = np.empty((shape[0], 1100, shape[2]), dtype)
    plan = gather.take(*shape, 1100, from_dtype(dtype), from_dtype(index_dtype), 16)
    session.run(plan, [output], [session.pointer(y) for y in (x, index)])
    assert_same(output, np.take(x, index, 1))


@pytest.mark.parametrize("size", [1, 1024, 5003])
@pytest.mark.parametrize("position_type", [i32, i64], ids=repr)
def test_select(session, size, position_type):
    rng = np.random.default_rng(1)
    x, mask = rng.random(size), rng.random(size) < 0.5
    mask[0] = True
    positions = np.cumsum(mask, dtype=position_type.dtype)
    elements, numbers = np.empty(positions[-1]), np.empty(positions[-1], np.int64)
    inputs = [session.pointer(y) for y in (mask, positions, x)]
    session.run(gather.select(size, from_dtype(x.dtype), position_type), [elements], inputs)
    session.run(gather.select(size, None, position_type), [numbers], inputs[:2])
    assert_same(elements, x[mask])
    assert_same(numbers, np.flatnonzero(mask))


def test_far_elements_have_wide_distances():
    plans = [gather.take(1, 2**31, 2, 5, from_dtype(np.dtype("f4")), i64, 16), gather.take(1, 9, 2, 5, i32, i64, 16)]
    assert [re.search(r"m(ul|ad)\.lo\.s64", plan.launch.kernel.ptx) is not None for plan in plans] == [True, False]
