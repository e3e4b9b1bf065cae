"""Methods of sparse classes that compute: products, operators on two sparse objects, functions of each element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, FLOAT64, INT64
from oxinp._core.ops.sparse import is_uneven
from oxinp._core.ufunc.object import OBJECTS
from oxinp.sparse import _products, _rows
from oxinp.sparse._base import COMPRESSED, Sparse, as_ours, is_ours, sparray
from oxinp.sparse._compressed import build_rows, canonical_major, copied, is_number, major_rows, of_rows, with_data
from oxinp.sparse._conversions import add_duplicates, drop_zeros, to_coo
from oxinp.sparse._rows import Rows, Shape

PRODUCTS = 3
"""With vectors, from which on what makes these faster is worth its own time."""


def _let_raise(
    self: Sparse, operation: Callable[[Any, Any], Any], shape: tuple[int, ...], *, flip: bool = False
) -> None:
    """Let SciPy raise for shapes that do not go together, on objects without elements."""
    theirs = self._theirs(self.shape)
    other = np.broadcast_to(np.zeros(()), shape)
    operation(*((other, theirs) if flip else (theirs, other)))


def matmul(self: Sparse, other: Any) -> Any:
    """``self @ other``."""
    other = as_ours(other)
    if is_ours(other):
        return _product(self, other)
    other = _dense(other)
    if self.ndim != 2 or (self.format == "coo" and self.shape[0] == 1 and other.ndim == 1):
        raise Unsupported("a vector, or one row of COO, of which SciPy gives a number")
    if other.ndim not in (1, 2) or other.shape[0] != self.shape[1]:
        _let_raise(self, operator.matmul, other.shape)
        raise Unsupported("a product of more dimensions")
    return _times(self, other, is_transposed=False)


def rmatmul(self: Sparse, other: Any) -> Any:
    """``other @ self``."""
    other = _dense(other)
    if self.ndim != 2:
        raise Unsupported("a vector")
    if other.ndim not in (1, 2) or other.shape[-1] != self.shape[0]:
        _let_raise(self, operator.matmul, other.shape, flip=True)
        raise Unsupported("a product of more dimensions")
    if other.ndim == 1:
        return _times(self, other, is_transposed=True)
    return copy(_times(self, other.T, is_transposed=True).T)


def _dense(other: Any) -> Any:
    if type(other) is np.ndarray:
        other = types.from_host(other)
    if not is_array(other) or other.dtype not in DEVICE_TYPES or not other.size:
        raise Unsupported("what is no array, or has no kernels")
    return other


def _times(self: Sparse, other: Any, *, is_transposed: bool) -> Any:
    has_rows = (self.format == "csc") == is_transposed  # a transpose knows what its matrix does, and the reverse
    factor = self._cached(
        f"factor {has_rows}", tuple(self._parts), lambda: Factor(*of_rows(self, is_transposed=is_transposed))
    )
    if other.ndim == 1:
        return factor.times(other)
    if other.shape[1] == 1:
        return factor.times(other.ravel()).reshape(-1, 1)
    return _rows.matmat(factor.rows, other)


class Factor:
    """What products take of a matrix in rows, and what they find out about it before.

    Parameters
    ----------
    rows : Rows
    longest : int
        The length of the longest row.
    """

    def __init__(self, rows: Rows, longest: int) -> None:
        self.rows, self.longest = rows, longest
        is_even = not is_uneven(rows.num_rows, rows.indices.size, longest)
        self._tiles = () if is_even else (_rows.tiles(rows),)
        self._of_vectors, self._left = rows, PRODUCTS

    def times(self, x: Any) -> Any:
        """Return the product with a vector."""
        if self._left:
            self._left -= 1
            if not self._left:
                with suppress(MemoryError):  # products go on as they are
                    self._of_vectors = _rows.narrow(self.rows, self.longest)
        return _rows.matvec(self._of_vectors, x, self.longest, self._tiles)


def _product(self: Sparse, other: Sparse) -> Any:
    if other.ndim != 2 or self.ndim != 2:
        raise Unsupported("vectors")
    if self.shape[1] != other.shape[0]:
        _ = self._theirs(self.shape) @ other._theirs(other.shape)
    self = self if self.format in COMPRESSED else self.tocsr()
    other = _as_format(other, self.format)
    shape = (self.shape[0], other.shape[1])
    (a, longest_a), (b, longest_b) = (_canonical_operand(each) for each in (self, other))
    if self.format == "csc":
        a, b, longest_a, longest_b = b, a, longest_b, longest_a
    made, longest = _products.product(a, b, longest_a, longest_b)
    result = build_rows(self, self.format, made, shape)
    count = made.indices.size
    if count:  # what the next product would have to look for
        result._cached("shape", ("indptr", "indices"), lambda: Shape(count, longest, is_sorted=True, is_canonical=True))
    return result


def _canonical_operand(self: Sparse) -> tuple[Rows, int]:
    """Return the rows of a matrix, or the columns as rows, in canonical format, and a bound of their lengths."""
    rows, found = major_rows(self)
    return (rows if found.is_canonical else canonical_major(self)), found.longest


def _as_format(other: Sparse, format_: str) -> Any:
    return other if other.format == format_ else getattr(other, f"to{format_}")()


def combine(name: str) -> Callable[[Sparse, Any], Any]:
    """Return the method that combines two sparse objects by an operator of `union.OPERATORS`."""

    def method(self: Sparse, other: Any) -> Any:
        other = as_ours(other)
        if not is_ours(other) or other.shape != self.shape or self.ndim != 2:
            raise Unsupported("what is not sparse, of another shape, or no matrix")
        self = self if self.format in COMPRESSED else self.tocsr()
        other = _as_format(other, self.format)
        a, b = (canonical_major(each) for each in (self, other))
        if name == "subtract" and np.result_type(a.data.dtype, b.data.dtype) == BOOL:
            raise Unsupported("a difference of truth values, which NumPy refuses")
        made = _rows.combined(a, b, name)
        return build_rows(self, self.format, made, self.shape)

    return method


def compare(name: str, matrices: Callable[[Sparse, Any], Any] | None = None) -> Callable[[Sparse, Any], Any]:
    """Return the method that compares with a number, by the ufunc `name`, or with what is sparse, if there is one."""

    def method(self: Sparse, other: Any) -> Any:
        if isinstance(other, int | float | np.number) and self.format in COMPRESSED:
            if self._parts["data"].dtype not in DEVICE_TYPES or getattr(np, name)(0, other):
                raise Unsupported("elements without kernels, or what holds of elements that are not stored")
            add_duplicates(self)
            made = with_data(self, OBJECTS[name](self._parts["data"], other))
            drop_zeros(made)
            return made
        if matrices is None:
            raise Unsupported("what holds of elements that are not stored")
        return matrices(self, other)

    return method


_MULTIPLIED = combine("multiply")


def multiply(self: Sparse, other: Any) -> Any:
    """``self.multiply(other)``: by a number, by what is sparse as well, by a dense matrix, row or column."""
    if is_number(other):
        return with_data(self, self._parts["data"] * other)
    if is_ours(as_ours(other)):
        return _MULTIPLIED(self, other)
    return _multiplied_by_dense(self, _dense(other))


def _multiplied_by_dense(self: Sparse, other: Any) -> Any:
    """Multiply elements by those of a dense array at their places; what SciPy gives is in COO."""
    shape = (1, *other.shape)[-2:]
    if shape == (1, 1) or any(n not in (1, extent) for n, extent in zip(shape, self.shape, strict=True)):
        raise Unsupported("a shape that broadcasts the matrix, or that SciPy refuses")
    made = to_coo(self)
    row, column = made._parts["coords"]
    if shape[0] == 1:
        places = column
    elif shape[1] == 1:
        places = row
    else:
        places = astype(row, INT64) * np.int64(shape[1]) + column
    made._parts["data"] = made._parts["data"] * _rows.taken(other.ravel(), places)
    return made


def divide(self: Sparse, other: Any) -> Any:
    """``self / other``, by a number."""
    if not is_number(other):
        raise Unsupported("a quotient that is dense")
    data = self._parts["data"]
    if np.can_cast(data.dtype, np.float64):
        data = astype(data, FLOAT64, copy_wanted=False)
    return with_data(self, data * (1.0 / other))


def matrix_multiply(self: Sparse, other: Any) -> Any:
    """``self * other``: of arrays elementwise, of matrices their product."""
    return multiply(self, other) if isinstance(self, sparray) or is_number(other) else matmul(self, other)


def matrix_rmultiply(self: Sparse, other: Any) -> Any:
    """``other * self``; see `matrix_multiply`."""
    return multiply(self, other) if isinstance(self, sparray) or is_number(other) else rmatmul(self, other)


def map_data(name: str, *, is_linear: bool = False) -> Callable[[Sparse], Any]:
    """Return the method that applies a ufunc which keeps zeros; linear ones do not ask for duplicates."""

    def method(self: Sparse) -> Any:
        if self._parts["data"].dtype not in DEVICE_TYPES:
            raise Unsupported("elements without kernels")
        if not is_linear:
            add_duplicates(self)
        return with_data(self, OBJECTS[name](self._parts["data"]))

    return method


def as_type(self: Sparse, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
    """``self.astype(dtype)``."""
    wanted = np.dtype(dtype)
    if wanted == self.dtype and not copy:
        return self
    return with_data(self, astype(self._parts["data"], wanted, casting=casting))


def conjugated(self: Sparse, copy: bool = True) -> Any:
    """``self.conj()``."""
    if self.dtype.kind != "c":
        return copied(self) if copy else self
    return with_data(self, OBJECTS["conjugate"](self._parts["data"]))


def raised(self: Sparse, n: Any) -> Any:
    """``self ** n``, of arrays elementwise."""
    if not isinstance(self, sparray):
        raise Unsupported("the power of a matrix")
    return power(self, n)


def power(self: Sparse, n: Any, dtype: Any = None) -> Any:
    """``self.power(n)``."""
    if not is_number(n) or n == 0 or dtype is not None:
        raise Unsupported("what SciPy refuses, or another dtype")
    add_duplicates(self)
    return with_data(self, self._parts["data"] ** n)


__all__ = [
    "as_type",
    "combine",
    "compare",
    "conjugated",
    "divide",
    "map_data",
    "matmul",
    "matrix_multiply",
    "matrix_rmultiply",
    "multiply",
    "power",
    "raised",
    "rmatmul",
]
