"""Counts between equidistant edges: elements at edges and next to them, too, are in NumPy's bins."""

import numpy as np
import pytest

from oxinp._kernels.sort import bins, count
from oxinp._ptx.types import from_dtype
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine


@pytest.mark.parametrize("num_bins", [1, 7, 100, 20_000])
@pytest.mark.parametrize("limits", [(-4, 4), (0.1, 0.7), (-1e-3, 5e3)])
@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_equidistant(dtype, limits, num_bins):
    edges = np.linspace(*limits, num_bins + 1).astype(dtype)
    near = edges[:: max(1, num_bins // 300)]
    x = np.concatenate(
        [
            near,
            *(np.nextafter(near, dtype.type(end)) for end in (9e9, -9e9)),
            [np.nan, np.inf, -np.inf],
            np.random.default_rng(0).uniform(*limits, 3000),
        ]
    ).astype(dtype)
    deviation = count.deviation(edges)
    assert deviation is not None
    session, found = Session(machine()), np.empty(num_bins, np.int64)
    type_ = from_dtype(dtype)
    plan = count.count(x.size, num_bins, type_, type_, session.device, is_uniform=True)
    session.run(plan, [found], [session.pointer(x), session.pointer(np.append(edges, dtype.type(deviation)))])
    assert_same(found, np.histogram(x[np.isfinite(x)], edges)[0])
    numbers = np.empty(x.size, np.int32)
    plan = bins.bins(x.size, num_bins, bins.BinsSpec(type_, type_), session.device)
    session.run(plan, [numbers], [session.pointer(x), session.pointer(np.append(edges, dtype.type(deviation)))])
    session.close()
    expected = np.minimum(np.searchsorted(edges, x, "right") - 1, num_bins - 1)
    expected[~((x >= edges[0]) & (x <= edges[-1]))] = num_bins
    assert_same(numbers, expected.astype(np.int32))


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
@pytest.mark.parametrize("num_bins", [1, 100, 5000])
def test_far_outside(dtype, num_bins):
    edges = np.linspace(-4, 4, num_bins + 1).astype(dtype)
    sizes = 2.0 ** np.arange(-130, 127, 0.25)
    x = np.concatenate([sizes, -sizes, np.random.default_rng(1).normal(0, 4, 9000)]).astype(dtype)
    x = np.random.default_rng(2).permutation(x)
    deviation = count.deviation(edges)
    session, found = Session(machine()), np.empty(num_bins, np.int64)
    type_ = from_dtype(dtype)
    plan = count.count(x.size, num_bins, type_, type_, session.device, is_uniform=True)
    session.run(plan, [found], [session.pointer(x), session.pointer(np.append(edges, dtype.type(deviation)))])
    session.close()
    assert_same(found, np.histogram(x, edges)[0])


def test_edges_that_products_miss():
    start = np.float64(1e16)
    assert count.deviation(np.linspace(start, start + 64, 101)) is None
    assert count.deviation(np.linspace(0, 1, 65)) == 0
