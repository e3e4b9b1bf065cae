"""Products of two sparse matrices in compressed rows, on the device."""

from __future__ import annotations

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import sparse
from oxinp._core.ops import spgemm as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._kernels.sparse import spgemm_merge, spgemm_rows
from oxinp.sparse._rows import MAX_INT32, Rows, nothing, pointers, same_indices, slice_rows

MAX_PRODUCTS = 1 << 27
"""Products of rows that are multiplied at a time, unless it is one row: the staging area has room for them."""


def product(a: Rows, b: Rows, longest_a: int, longest_b: int) -> Rows:
    """Return the product of two matrices in canonical format, whose rows are at most so long.

    The elements of the result are sums in the order of the inner index.
    """
    if b.num_columns > spgemm_rows.MAX_COLUMNS:
        raise Unsupported("columns whose numbers take more than 32 bits")
    a, b = same_indices(a, b)
    is_small = a.indices.dtype == INT64 or a.indices.size * longest_b <= MAX_INT32
    return _merged(a, b, longest_a) if is_small and spgemm_merge.takes(longest_a, longest_b) else _in_bins(a, b)


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


def _in_bins(a: Rows, b: Rows) -> Rows:
    """Return the product by bins of rows, some rows at a time where there are very many products."""
    if not a.indices.size:
        return _nothing(a, b)
    matrices = (*a.parts, *b.parts)
    census = ops.census_of([x._layout for x in matrices])
    counted, *listed = perform_on_device(ops.CENSUS, matrices, (b.num_columns,))
    words = tuple(counted.tolist()[: census.num_read])
    if not words[census.products]:
        return _nothing(a, b)
    if words[census.products] > MAX_PRODUCTS and a.num_rows > 1:
        middle = a.num_rows // 2
        parts = ((0, middle), (middle, a.num_rows))
        return _stacked([_in_bins(slice_rows(a, *part), b) for part in parts])
    indptr, indices, data = perform_on_device(ops.PRODUCT, (*listed, *matrices), (words, b.num_columns))
    return Rows(indptr, indices, data, b.num_columns)


def _stacked(parts: list[Rows]) -> Rows:
    """Return matrices one below the other, with indices of int64 where these take more than int32."""
    first, second = parts
    count = first.indices.size
    concatenate = dispatch.functions[np.concatenate]
    indptr, indices, later = first.indptr, concatenate([first.indices, second.indices]), second.indptr[1:]
    if indices.size > MAX_INT32:
        indptr, indices, later = (astype(x, INT64, copy_wanted=False) for x in (indptr, indices, later))
    indptr = concatenate([indptr, later + indptr.dtype.type(count)])
    return Rows(indptr, indices, concatenate([first.data, second.data]), first.num_columns)


__all__ = ["product"]
