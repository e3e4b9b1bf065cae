"""Matrices whose elements are sorted for products with many vectors, as `oxinp._kernels.sparse.sweep` has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import creation, gather, sort
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ANY, MAX
from oxinp._kernels.sparse.sweep import NUM_WARPS, WORD_BITS
from oxinp.sparse import _rows
from oxinp.sparse._rows import INT32, Rows, taken

MIN_SWEPT = 1 << 60
"""Elements from which on a matrix is sorted."""
MAX_LENGTH = 1024
"""Of a row; longer ones, which warps cannot share, are a matrix of their own."""
BLOCKS_PER_SM = (2, 4, 8)
"""Blocks for each multiprocessor, one after the other: so many that rows of a warp have numbers of few enough bits."""
SUMS_NBYTES = 136 << 10
"""Of a block at most, so that as much is left to the L1 cache."""


class Swept(NamedTuple):
    """A matrix whose warps have their elements by columns.

    Attributes
    ----------
    parts : tuple of ndarray
        Where the elements of warps begin, their rows, words, elements.
    parameters : tuple of int
        The number of rows, the bits of a column in a word, and the most rows of a block.
    long_rows : tuple or None
        The numbers of long rows, their matrix, the longest one, and what products find out about it before.
    """

    parts: tuple[Any, Any, Any, Any]
    parameters: tuple[int, int, int]
    long_rows: tuple[Any, Rows, int, tuple[Any, ...]] | None

    def times(self, x: Any) -> Any:
        """Return the product with a vector of the matrix' dtype."""
        made = perform_on_device(ops.SWEPT, (*self.parts, x), self.parameters)
        if self.long_rows is not None:
            which, rows, longest, known = self.long_rows
            made[which] = _rows.matvec(rows, x, longest, known)
        return made


def swept(rows: Rows) -> Swept | None:
    """Return a matrix with its elements sorted; None if it is small, or its rows and columns have no room in words."""
    if rows.indices.size < MIN_SWEPT or rows.indptr.dtype != INT32 or rows.data.dtype.char not in "fd":
        return None
    short, long_rows = _parted(rows)
    count = short.indices.size
    column_bits = max(1, (rows.num_columns - 1).bit_length())
    if not count or column_bits >= WORD_BITS:
        return None
    for blocks in BLOCKS_PER_SM:
        num_blocks = blocks * device().capability.num_sms
        shares = np.arange(num_blocks * NUM_WARPS + 1) * count // (num_blocks * NUM_WARPS)
        bounds = fetch(sort.searchsorted(short.indptr, types.from_host(shares.astype(np.int32)), is_right=False))
        bounds[-1] = rows.num_rows
        room = int(np.diff(bounds[::NUM_WARPS]).max())
        if np.diff(bounds).max() <= 1 << (WORD_BITS - column_bits) and room * rows.data.dtype.itemsize <= SUMS_NBYTES:
            parts = _sorted(short, types.from_host(bounds.astype(np.int32)), column_bits)
            return Swept(parts, (rows.num_rows, column_bits, room), long_rows)
    return None


def _parted(rows: Rows) -> tuple[Rows, tuple[Any, Rows, int, tuple[Any, ...]] | None]:
    """Return a matrix without its long rows, and these."""
    lengths = rows.indptr[1:] - rows.indptr[:-1]
    is_long = lengths > MAX_LENGTH
    if not bool(reduce(ANY, is_long)):
        return rows, None
    which = gather.flatnonzero(is_long)
    picked = _rows.pick_rows(rows, which)
    kept = _rows.kept(rows, ~taken(is_long, _rows.numbers(rows)))
    longest = int(reduce(MAX, lengths))
    is_uneven = ops.is_uneven(picked.num_rows, picked.indices.size, longest)
    return kept, (which, picked, longest, (_rows.tiles(picked),) if is_uneven else ())


def _sorted(rows: Rows, bounds: Any, column_bits: int) -> tuple[Any, Any, Any, Any]:
    """Return the parts of a matrix; `bounds` are the rows of warps."""
    warps = sort.searchsorted(bounds[1:], creation.arange(0, rows.num_rows, 1, INT32), is_right=True)
    numbers = _rows.numbers(rows)
    warps = taken(warps, numbers)
    columns = astype(rows.indices, INT64)
    order = sort.argsort((astype(warps, INT64) << np.int64(column_bits)) | columns)
    places = astype(numbers - taken(bounds, warps), INT64)
    words = astype((places << np.int64(column_bits)) | columns, np.dtype(np.uint32))
    return taken(rows.indptr, bounds), bounds, taken(words, order), taken(rows.data, order)


__all__ = ["Swept", "swept"]
