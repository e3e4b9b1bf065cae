"""Matrices in compressed rows on the device: what can be made of them, without a thought for classes and formats.

A matrix in compressed columns is the transpose of one in compressed rows, so that this serves both. Everything here
takes checked indices; what depends on how many elements there will be waits for the device once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import INT64
from oxinp._core.ops import creation, gather, sort
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device, perform_sized
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ALL, CUMSUM, MAX, MIN
from oxinp._kernels.sparse.types import BLOCK

INT16, INT32 = np.dtype(np.int16), np.dtype(np.int32)
MAX_INT32 = 2**31 - 1
MIN_NARROW = 2**20
"""Elements from which on indices are made narrow for products."""
MAX_KEYS = 2**30
"""Elements from which on they are not sorted with their keys, but their numbers are."""


class Rows(NamedTuple):
    """A matrix in compressed rows.

    Attributes
    ----------
    indptr, indices, data : ndarray
        On the device, or wherever they are. The first two are of one dtype, int32 or int64; for products with vectors
        indices may be `narrow`.
    num_columns : int
    """

    indptr: Any
    indices: Any
    data: Any
    num_columns: int

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.indptr.size) - 1

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """The arrays."""
        return self.indptr, self.indices, self.data


class Shape(NamedTuple):
    """What indices say: the elements, the longest row, whether columns ascend, and whether none is there twice."""

    count: int  # type: ignore[assignment]  # instead of the method of tuples
    longest: int
    is_sorted: bool
    is_canonical: bool


def index_dtype(*extents: int) -> np.dtype[Any]:
    """Return the dtype that SciPy keeps indices below some extents in."""
    return INT32 if max(extents, default=0) <= MAX_INT32 else INT64


def nothing(shape: tuple[int, ...], index: np.dtype[Any], dtype: np.dtype[Any]) -> Rows:
    """Return a matrix without elements."""
    indptr, indices, data = (creation.zeros((n,), kind) for n, kind in ((shape[0] + 1, index), (0, index), (0, dtype)))
    return Rows(indptr, indices, data, shape[1])


def taken(array: Any, places: Any) -> Any:
    """Return elements of a vector at places that are known to be in bounds."""
    return gather.take(array, places, is_checked=False)


def survey(indptr: Any, indices: Any, num_columns: int) -> Shape:
    """Look through indices, which nobody has checked.

    Raises
    ------
    ValueError
        As SciPy's `check_format`.
    """
    lengths = indptr[1:] - indptr[:-1]
    longest, shortest = reduce(MAX, lengths), reduce(MIN, lengths)
    count = int(indptr[-1])
    if int(indptr[0]) != 0 or count > indices.size:
        raise ValueError("Last value of index pointer should be less than the size of index and data arrays")
    if int(shortest) < 0:
        raise ValueError("indptr values must form a non-decreasing sequence")
    if count != indices.size:
        indices = indices[:count]
    if not count:
        return Shape(0, 0, True, True)
    if int(reduce(MAX, indices)) >= num_columns:
        raise ValueError(f"indices must be < {num_columns}")
    if int(reduce(MIN, indices)) < 0:
        raise ValueError("indices must be >= 0")
    if indices.size == 1:
        return Shape(count, int(longest), True, True)
    numbers = perform_on_device(ops.ROW_NUMBERS, (indptr,), (indices.size,))
    begins = numbers[1:] != numbers[:-1]
    is_canonical = bool(reduce(ALL, begins | (indices[1:] > indices[:-1])))
    is_sorted = is_canonical or bool(reduce(ALL, begins | (indices[1:] >= indices[:-1])))
    return Shape(count, int(longest), is_sorted, is_canonical)


def numbers(rows: Rows) -> Any:
    """Return of every element the number of its row."""
    return perform_on_device(ops.ROW_NUMBERS, (rows.indptr,), (rows.indices.size,))


def pointers(counts: Any, dtype: np.dtype[Any]) -> Any:
    """Return where rows of some lengths begin, and where the last one ends."""
    made = creation.zeros((counts.size + 1,), dtype)
    made[1:] = accumulate(CUMSUM, counts, 0, dtype)
    return made


def starts_in(sorted_rows: Any, num_rows: int, dtype: np.dtype[Any]) -> Any:
    """Return where each row begins among sorted numbers of rows."""
    wanted = creation.arange(0, num_rows + 1, 1, sorted_rows.dtype)
    return astype(sort.searchsorted(sorted_rows, wanted, is_right=False), dtype)


def scrambled(n: int) -> Any:
    """Return the numbers below `n`, uint32, by a function that makes them look random (the end of MurmurHash3)."""
    mixed = astype(creation.arange(0, n, 1, INT64), np.dtype(np.uint32))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return mixed


# -- conversions -------------------------------------------------------------------------------------------------------


def from_coordinates(row: Any, column: Any, data: Any, shape: tuple[int, int]) -> Rows:
    """Return the matrix of elements at some places, in canonical format: those at one place are added in their order.

    Parameters
    ----------
    row, column : ndarray, (nnz,), int
        In bounds.
    data : ndarray, (nnz,)
    shape : tuple of int
    """
    num_rows, num_columns = shape
    wide = np.dtype(np.uint32) if num_rows * num_columns < 1 << 32 else INT64
    keys = astype(row, wide) * wide.type(num_columns) + astype(column, wide)
    return from_keys(keys, data, shape, np.result_type(row.dtype, index_dtype(num_columns, data.size)))


def from_keys(keys: Any, data: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Rows:
    """Return the matrix of elements with keys, the number of the row times the columns, plus the column."""
    num_rows, num_columns = shape
    order = sort.argsort(keys)
    keys, data = taken(keys, order), taken(data, order)
    if keys.size > 1:
        is_first = creation.ones((keys.size,), bool)
        is_first[1:] = keys[1:] != keys[:-1]
        if not bool(reduce(ALL, is_first)):
            if data.dtype.kind == "b":
                raise Unsupported("sums of truth values")
            starts = gather.flatnonzero(is_first)
            keys = taken(keys, starts)
            data = perform_on_device(ops.ADD_RUNS, (data, starts))
    columns = keys.dtype.type(num_columns)
    row = keys // columns
    return Rows(starts_in(row, num_rows, dtype), astype(keys - row * columns, dtype), data, num_columns)


def transposed(rows: Rows) -> Rows:
    """Return the transpose, whose columns ascend: elements in a column keep their order."""
    dtype = rows.indices.dtype
    if rows.data.dtype.itemsize in (4, 8) and rows.indices.size < MAX_KEYS:
        indptr, row, data = perform_on_device(ops.TRANSPOSE, rows.parts, (rows.num_columns,))
        return Rows(indptr, row, data, rows.num_rows)
    order = sort.argsort(rows.indices)
    columns = taken(rows.indices, order)
    indptr = starts_in(columns, rows.num_columns, dtype)
    return Rows(indptr, taken(numbers(rows), order), taken(rows.data, order), rows.num_rows)


def canonical(rows: Rows) -> Rows:
    """Return the matrix in canonical format."""
    return from_coordinates(numbers(rows), rows.indices, rows.data, (rows.num_rows, rows.num_columns))


def ordered(rows: Rows) -> Rows:
    """Return the matrix with the columns of each row ascending, equal ones in their order."""
    wide = np.dtype(np.uint32) if rows.num_rows * rows.num_columns < 1 << 32 else INT64
    keys = astype(numbers(rows), wide) * wide.type(rows.num_columns) + astype(rows.indices, wide)
    order = sort.argsort(keys)
    return rows._replace(indices=taken(rows.indices, order), data=taken(rows.data, order))


def from_dense(array: Any) -> Rows:
    """Return the elements of a matrix that are not zero."""
    num_rows, num_columns = array.shape
    dtype = index_dtype(num_rows, num_columns)
    found = gather.flatnonzero(array != 0)
    if not found.size:
        return nothing(array.shape, dtype, array.dtype)
    wanted = creation.arange(0, num_rows + 1, 1, INT64) * num_columns
    indptr = astype(sort.searchsorted(found, wanted, is_right=False), dtype)
    return Rows(indptr, astype(found % num_columns, dtype), taken(array.ravel(), found), num_columns)


def to_dense(rows: Rows, *, is_fortran: bool = False) -> Any:
    """Return a matrix without duplicates as a dense one, or the transpose of it."""
    return perform_on_device(ops.DENSE, rows.parts, (rows.num_columns, is_fortran))


def without_zeros(rows: Rows) -> Rows:
    """Return the matrix without stored zeros; itself where there are none."""
    mask = rows.data != 0
    return rows if bool(reduce(ALL, mask)) else kept(rows, mask)


def kept(rows: Rows, mask: Any) -> Rows:
    """Return the matrix of the elements that a mask names."""
    dtype = rows.indptr.dtype
    before = pointers(mask, dtype)
    indptr = taken(before, rows.indptr)
    if not int(indptr[-1]):
        return nothing((rows.num_rows, rows.num_columns), dtype, rows.data.dtype)
    return rows._replace(indptr=indptr, indices=gather.select(rows.indices, mask), data=gather.select(rows.data, mask))


# -- rows and elements -------------------------------------------------------------------------------------------------


def slice_rows(rows: Rows, start: int, stop: int) -> Rows:
    """Return some rows that follow each other, as copies."""
    first, last = int(rows.indptr[start]), int(rows.indptr[stop])
    if first == last:
        return nothing((stop - start, rows.num_columns), rows.indptr.dtype, rows.data.dtype)
    indptr = rows.indptr[start : stop + 1] - rows.indptr.dtype.type(first)
    return Rows(indptr, rows.indices[first:last].copy(), rows.data[first:last].copy(), rows.num_columns)


def pick_rows(rows: Rows, which: Any) -> Rows:
    """Return rows by their numbers, int64, of which negative ones count from the end.

    Raises
    ------
    IndexError
        A number is out of bounds.
    """
    (indptr, indices, data, _), (count, num_outside) = perform_sized(ops.PICKED, (which, *rows.parts))
    if num_outside:
        highest = int(reduce(MAX, which))
        raise IndexError(f"index ({highest if highest >= rows.num_rows else int(reduce(MIN, which))}) out of range")
    if count > MAX_INT32 and rows.indptr.dtype == INT32:
        wide = rows._replace(indptr=astype(rows.indptr, INT64), indices=astype(rows.indices, INT64))
        return pick_rows(wide, which)
    if not count:
        return nothing((which.size, rows.num_columns), rows.indptr.dtype, rows.data.dtype)
    return Rows(indptr, indices, data, rows.num_columns)


def diagonal(rows: Rows, offset: int) -> Any:
    """Return the elements (i, i + offset)."""
    first = max(0, -offset)
    size = min(rows.num_rows - first, rows.num_columns - max(0, offset))
    if size <= 0 or rows.data.dtype.kind == "b":
        raise Unsupported("no elements, or truth values")
    return perform_on_device(ops.DIAGONAL, rows.parts, (size, first, offset))


def sums(rows: Rows, longest: int) -> Any:
    """Return the sum of every row."""
    return matvec(rows, creation.ones((rows.num_columns,), rows.data.dtype), longest)


# -- triangular systems ------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    """The rows of a triangle by levels, each after all that its system waits for; and how many levels there are."""

    rows: Any
    num_levels: int


def order_of(rows: Rows, *, is_lower: bool) -> Order:
    """Return the order in which rows of a triangle can be solved for."""
    levels = perform_on_device(ops.LEVELS, (rows.indptr, rows.indices), (is_lower,))
    return Order(astype(sort.argsort(levels), rows.indices.dtype), int(reduce(MAX, levels)) + 1)


def solve_triangular(rows: Rows, right: Any, order: Order, *, is_lower: bool, has_unit_diagonal: bool) -> Any:
    """Return the solution for one or several right-hand sides of the matrix' dtype; other elements do not count.

    Parameters
    ----------
    rows : Rows
    right : ndarray, (n,) or (n, k)
    order : Order
    is_lower, has_unit_diagonal : bool
    """
    parameters = (is_lower, has_unit_diagonal, order.num_levels)
    if right.ndim == 1:
        return perform_on_device(ops.SOLVE_TRIANGULAR, (*rows.parts, right, order.rows), parameters)
    if right.shape[1] == 1:
        return perform_on_device(ops.SOLVE_TRIANGULAR, (*rows.parts, right.ravel(), order.rows), parameters).reshape(
            -1, 1
        )
    right = dispatch.functions[np.ascontiguousarray](right)
    return perform_on_device(ops.SOLVE_TRIANGULAR, (*rows.parts, right, order.rows), parameters)


def incomplete(rows: Rows, order: Order, *, is_symmetric: bool) -> Any:
    """Return the elements of ILU(0), or of IC(0) of the lower triangle of a symmetric matrix, at the matrix' places.

    Raises
    ------
    ValueError
        There is no element in the diagonal of some row.
    """
    places = gather.flatnonzero(rows.indices == numbers(rows))
    if places.size != rows.num_rows:
        raise ValueError("an incomplete factorisation needs all elements of the diagonal")
    diagonal = astype(places, rows.indices.dtype)
    return perform_on_device(ops.INCOMPLETE, (*rows.parts, diagonal, order.rows), (is_symmetric, order.num_levels))


# -- products and elementwise operators --------------------------------------------------------------------------------


def tiles(rows: Rows) -> Any:
    """Return what products with vectors find out before about a matrix that `is_uneven`."""
    return perform_on_device(ops.TILES, (rows.indptr,), (rows.indices.size,))


def narrow(rows: Rows, longest: int) -> Rows:
    """Return a matrix for products with vectors alone: with indices of 16 bits, if it gains by them and they can be.

    Products load as many bytes less. What is kept is the column less the first row of the block that the row is in.
    """
    if rows.indices.size < MIN_NARROW or ops.is_uneven(rows.num_rows, rows.indices.size, longest):
        return rows
    numbers_of_rows = numbers(rows)
    distances = rows.indices - (numbers_of_rows - numbers_of_rows % numbers_of_rows.dtype.type(BLOCK))
    limits = np.iinfo(INT16)
    if int(reduce(MIN, distances)) < limits.min or int(reduce(MAX, distances)) > limits.max:
        return rows
    return rows._replace(indices=astype(distances, INT16))


def matvec(rows: Rows, x: Any, longest: int, known: tuple[Any, ...] = ()) -> Any:
    """Return the product with a vector; `longest` is the length of the longest row, `known` are `tiles`, if any."""
    return perform_on_device(ops.MATVEC, (*rows.parts, x, *known), (longest,))


def matmat(rows: Rows, b: Any) -> Any:
    """Return the product with a dense matrix."""
    return perform_on_device(ops.MATMAT, (*rows.parts, b))


def sampled(rows: Rows, x: Any, y: Any) -> Rows:
    """Return the matrix with its elements times those of the product of two dense matrices at their places."""
    dtype = np.result_type(x.dtype, y.dtype)
    contiguous = dispatch.functions[np.ascontiguousarray]
    left, right = (contiguous(astype(each, dtype, copy_wanted=False)) for each in (x, y.T))
    return rows._replace(data=perform_on_device(ops.SAMPLED, (numbers(rows), rows.indices, rows.data, left, right)))


def same_indices(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """Return two matrices with indices of one dtype."""
    if a.indices.dtype == b.indices.dtype == a.indptr.dtype == b.indptr.dtype:
        return a, b
    dtype = np.result_type(a.indices.dtype, b.indices.dtype)
    made = [
        each._replace(
            indptr=astype(each.indptr, dtype, copy_wanted=False), indices=astype(each.indices, dtype, copy_wanted=False)
        )
        for each in (a, b)
    ]
    return made[0], made[1]


def combined(a: Rows, b: Rows, name: str) -> Rows:
    """Return what an operator (`union.OPERATORS`) makes of two matrices in canonical format, without zeros."""
    if a.indices.size + b.indices.size > MAX_INT32:
        wide = (
            each._replace(indptr=astype(each.indptr, INT64), indices=astype(each.indices, INT64)) for each in (a, b)
        )
        a, b = wide
    a, b = same_indices(a, b)
    counts = perform_on_device(ops.UNION_COUNT, (a.indptr, a.indices, b.indptr, b.indices))
    indptr = pointers(counts, a.indptr.dtype)
    indices, data = perform_on_device(ops.UNION, (indptr, *a.parts, *b.parts), (int(indptr[-1]), name))
    return without_zeros(Rows(indptr, indices, data, a.num_columns))


__all__ = ["Order", "Rows", "Shape"]
