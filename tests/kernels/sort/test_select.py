"""`select` alone: ranks of every type, special values, several rows and ranks that share digits."""

import numpy as np
import pytest

from oxinp._kernels.sort import select
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def values(dtype, shape):
    rng = np.random.default_rng(dtype.num)
    if dtype.kind in "iu":
        return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    x[rng.random(shape) < 0.1] = np.inf
    x[rng.random(shape) < 0.1] = np.nan
    return np.where(rng.random(shape) < 0.2, dtype.type(0), x)


CASES = [(dtype, 3, 150, [149, 70]) for dtype in "?bBhHiIlLefd"]
CASES += [(dtype, 1, 2500, [1250, 0, 2499, 1251]) for dtype in "fl"]  # several blocks


@pytest.mark.parametrize(("code", "num_rows", "length", "ranks"), CASES, ids=str)
def test_ranks(session, num_rows, length, ranks, code):
    dtype = np.dtype(code)
    x = values(dtype, (num_rows, length))
    output = np.empty((len(ranks), num_rows), dtype)
    plan = select.select(num_rows, length, ranks, from_dtype(dtype), session.device)
    session.run(plan, [output], [session.pointer(x)])
    assert_same(output, np.sort(x, axis=1)[:, ranks].T.copy())


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in "efd"], ids=str)
def test_zeros_that_are_all_negative(session, dtype):
    for zeros in (-np.zeros(60, dtype), np.zeros(60, dtype)):
        x = np.concatenate([zeros, np.ones(20, dtype), -np.ones(20, dtype)]).reshape(1, -1)
        output = np.empty((2, 1), dtype)
        plan = select.select(1, 100, [50, 90], from_dtype(dtype), session.device)
        session.run(plan, [output], [session.pointer(x)])
        assert_same(output[:, 0], np.array([zeros[0], 1], dtype))
