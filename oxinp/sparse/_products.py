"""Products of two sparse matrices in compressed rows, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import creation, gather, sort, sparse
from oxinp._core.ops import spgemm as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import CUMSUM, MAX, SUM
from oxinp._kernels.sparse import spgemm, spgemm_merge
from oxinp.sparse._rows import (
    INT32,
    MAX_INT32,
    Rows,
    from_keys,
    nothing,
    numbers,
    pick_rows,
    pointers,
    same_indices,
    taken,
)

MAX_EXPANDED = 1 << 27
"""Products that are expanded and sorted at a time."""


def product(a: Rows, b: Rows, longest_a: int, longest_b: int) -> Rows:
    """Return the product of two matrices in canonical format, whose rows are at most so long.

    The elements of the result are sums in the order of the inner index.
    """
    if b.num_columns > spgemm.EMPTY:
        raise Unsupported("columns whose numbers take more than 32 bits")
    a, b = same_indices(a, b)
    is_small = a.indices.dtype == INT64 or a.indices.size * longest_b <= MAX_INT32
    return _merged(a, b, longest_a) if is_small and spgemm_merge.takes(longest_a, longest_b) else _hashed(a, b)


def _merged(a: Rows, b: Rows, longest: int) -> Rows:
    """Return the product of a matrix with short rows."""
    counts = perform_on_device(ops.MERGE_COUNTS, (a.indptr, a.indices, b.indptr, b.indices), (longest,))
    indptr = pointers(counts, a.indptr.dtype)
    count = int(indptr[-1])
    if not count:
        return _nothing(a, b)
    indices, data = perform_on_device(ops.MERGE, (indptr, *a.parts, *b.parts), (longest, count))
    return Rows(indptr, indices, data, b.num_columns)


def _nothing(a: Rows, b: Rows) -> Rows:
    dtype = sparse.result_type(a.data.dtype, b.data.dtype)
    return nothing((a.num_rows, b.num_columns), a.indptr.dtype, dtype)


def _hashed(a: Rows, b: Rows) -> Rows:
    """Return the product by tables, each row by a bin for its number of products."""
    counted = perform_on_device(ops.NUM_PRODUCTS, (a.indptr, a.indices, b.indptr))
    most = int(reduce(MAX, counted))
    dtype = a.indptr.dtype
    if not most:
        return _nothing(a, b)
    if dtype == INT32 and int(reduce(SUM, counted)) > MAX_INT32:
        wide = [
            each._replace(indptr=astype(each.indptr, INT64), indices=astype(each.indices, INT64)) for each in (a, b)
        ]
        (a, b), dtype = wide, INT64
    bins, lists = _bins(counted, most)
    flags = (bins, bool(lists))
    heavy = _expanded(a, b, counted) if most > spgemm.BINS[-1].most else []
    if bins:
        counts = perform_on_device(ops.PRODUCT_COUNTS, (a.indptr, a.indices, b.indptr, b.indices, *lists), flags)
    else:
        counts = creation.zeros((a.num_rows,), dtype)
    for each in heavy:
        counts = counts + (each.indptr[1:] - each.indptr[:-1])
    indptr = pointers(counts, dtype)
    count = int(indptr[-1])
    if not count:
        return _nothing(a, b)
    if bins:
        indices, data = perform_on_device(ops.PRODUCT, (indptr, *a.parts, *b.parts, *lists), (*flags, count))
    else:
        result = sparse.result_type(a.data.dtype, b.data.dtype)
        indices, data = creation.empty((count,), dtype), creation.empty((count,), result)
    for each in heavy:
        shifts = indptr[:-1] - each.indptr[:-1]
        places = taken(shifts, numbers(each)) + creation.arange(0, each.indices.size, 1, dtype)
        indices[places], data[places] = each.indices, each.data
    return Rows(indptr, indices, data, b.num_columns)


def _bins(counted: Any, most: int) -> tuple[tuple[int, ...], list[Any]]:
    """Return the bins that rows with so many products are in, and the rows of each; no lists where one bin has all."""
    for number, each in enumerate(spgemm.BINS[:2]):
        if most <= each.most:
            return (number,), []
    bins, lists, before = [], [], -1
    for number, each in enumerate(spgemm.BINS):
        found = gather.flatnonzero((counted > before) & (counted <= each.most))
        if found.size:
            bins.append(number)
            lists.append(found)
        before = each.most
    return tuple(bins), lists


def _expanded(a: Rows, b: Rows, counted: Any) -> list[Rows]:
    """Return the rows of a product that no table takes, a matrix for every `MAX_EXPANDED` products."""
    which = gather.flatnonzero(counted > spgemm.BINS[-1].most)
    through = accumulate(CUMSUM, taken(counted, which), 0, INT64)
    portions = -(-int(through[-1]) // MAX_EXPANDED)
    wanted = creation.arange(0, portions + 1, 1, INT64) * MAX_EXPANDED
    cuts = np.unique(np.append(np.asarray(sort.searchsorted(through, wanted, is_right=False).tolist()), which.size))
    found = []
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        rows = which[first:last].copy()
        picked = pick_rows(a, rows)
        row = astype(taken(rows, numbers(picked)), INT64)
        lengths = taken(b.indptr, picked.indices + 1) - taken(b.indptr, picked.indices)
        starts = pointers(lengths, INT64)
        places = creation.arange(0, picked.indices.size, 1, INT64)
        given = (starts[:-1].copy(), places, row, picked.indices, picked.data, *b.parts)
        keys, products = perform_on_device(ops.EXPAND, given, (int(starts[-1]), b.num_columns))
        found.append(from_keys(keys, products, (a.num_rows, b.num_columns), a.indptr.dtype))
    return found


__all__ = ["product"]
