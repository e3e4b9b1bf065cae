"""Products of two sparse matrices in compressed rows, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import sparse
from oxinp._core.ops import spgemm as ops
from oxinp._core.ops.perform import perform_sized
from oxinp._kernels.sparse import spgemm_merge, spgemm_rows
from oxinp.sparse._rows import MAX_INT32, Rows, nothing, same_indices, slice_rows

MAX_PRODUCTS = 1 << 27
"""Products of rows that are multiplied at a time, unless it is one row: the staging area has room for them."""


def product(a: Rows, b: Rows, longest_a: int, longest_b: int) -> tuple[Rows, int]:
    """Return the product of two matrices in canonical format, whose rows are at most so long, and its longest row.

    The elements of the result are sums in the order of the inner index.
    """
    if b.num_columns > spgemm_rows.MAX_COLUMNS:
        raise Unsupported("columns whose numbers take more than 32 bits")
    a, b = same_indices(a, b)
    is_small = a.indices.dtype == INT64 or a.indices.size * longest_b <= MAX_INT32
    if is_small and spgemm_merge.takes(longest_a, longest_b):
        return _made(a, b, perform_sized(ops.MERGED, (*a.parts, *b.parts), (longest_a,)))
    return _in_bins(a, b)


def _made(a: Rows, b: Rows, performed: Any) -> tuple[Rows, int]:
    """Return the product from the results of an operation, and the words that it has read."""
    (indptr, indices, data), (count, longest) = performed
    return (Rows(indptr, indices, data, b.num_columns), longest) if count else _nothing(a, b)


def _nothing(a: Rows, b: Rows) -> tuple[Rows, int]:
    dtype = sparse.result_type(a.data.dtype, b.data.dtype)
    return nothing((a.num_rows, b.num_columns), a.indptr.dtype, dtype), 0


def _in_bins(a: Rows, b: Rows) -> tuple[Rows, int]:
    """Return the product by bins of rows, some rows at a time where there are very many products."""
    if not a.indices.size:
        return _nothing(a, b)
    matrices = (*a.parts, *b.parts)
    census = ops.census_of([x._layout for x in matrices])
    listed, words = perform_sized(ops.CENSUS, matrices, (b.num_columns,))
    if not words[census.products]:
        return _nothing(a, b)
    if words[census.products] > MAX_PRODUCTS and a.num_rows > 1:
        middle = a.num_rows // 2
        parts = ((0, middle), (middle, a.num_rows))
        return _stacked([_in_bins(slice_rows(a, *part), b) for part in parts])
    return _made(a, b, perform_sized(ops.PRODUCT, (*listed, *matrices), (words, b.num_columns)))


def _stacked(parts: list[tuple[Rows, int]]) -> tuple[Rows, int]:
    """Return matrices one below the other, with indices of int64 where these take more than int32."""
    (first, longest), (second, other) = parts
    count = first.indices.size
    concatenate = dispatch.functions[np.concatenate]
    indptr, indices, later = first.indptr, concatenate([first.indices, second.indices]), second.indptr[1:]
    if indices.size > MAX_INT32:
        indptr, indices, later = (astype(x, INT64, copy_wanted=False) for x in (indptr, indices, later))
    indptr = concatenate([indptr, later + indptr.dtype.type(count)])
    made = Rows(indptr, indices, concatenate([first.data, second.data]), first.num_columns)
    return made, max(longest, other)


__all__ = ["product"]
