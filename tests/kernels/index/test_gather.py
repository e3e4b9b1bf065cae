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
    outer, extent, inner = shape
    loops = [(outer, extent * inner)], (1100, inner), [(inner, 1)]
    plan = gather.take(*loops, extent, from_dtype(dtype), from_dtype(index_dtype), 16, is_checked=True)
    report = session.machine.upload(np.zeros(2, np.int64))
    session.run(plan, [output], [*[session.pointer(y) for y in (x, index)], report])
    assert_same(output, np.take(x, index, 1))
    assert not session.machine.download(report, 16).any()


def test_take_reports_what_is_out_of_bounds(session):
    x, index = np.arange(50.0), np.array([3, -51, 4])
    output, report = np.empty(3), session.machine.upload(np.zeros(2, np.int64))
    plan = gather.take([], (3, 1), [], 50, from_dtype(x.dtype), i64, 16, is_checked=True)
    session.run(plan, [output], [session.pointer(x), session.pointer(index), report])
    assert_same(output, np.array([3.0, 0.0, 4.0]))
    assert_same(session.machine.download(report, 16).view(np.int64), np.array([report, -51]))


@pytest.mark.parametrize("is_checked", [True, False])
def test_take_along_loops_of_any_strides(session, is_checked):
    rng = np.random.default_rng(2)
    x, index = rng.integers(0, 99, (7, 4, 6, 5)).astype("i4"), rng.integers(0, 6, 30)
    seen = x.transpose(1, 0, 2, 3)[::2]
    loops = list(zip(seen.shape, (s // 4 for s in seen.strides), strict=True))
    output = np.empty((2, 7, 30, 5), "i4")
    along = loops[:2], (30, loops[2][1]), loops[3:]
    plan = gather.take(*along, 6, from_dtype(x.dtype), i64, 16, is_checked=is_checked)
    report = [session.machine.upload(np.zeros(2, np.int64))] * is_checked
    session.run(plan, [output], [session.pointer(x), session.pointer(index), *report])
    assert_same(output, seen[:, :, index])


def test_far_elements_have_wide_distances():
    plans = [gather.take([], (5, 2), [(2, 1)], extent, i32, i64, 16, is_checked=True) for extent in (2**31, 9)]
    assert [re.search(r"m(ul|ad)\.lo\.s64", plan.launch.kernel.ptx) is not None for plan in plans] == [True, False]
