"""Incomplete factorisations as preconditioners, made and applied on the device; SciPy has none of these."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from oxinp import _runtime
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import FLOAT64
from oxinp._core.ops import creation
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import ALL
from oxinp._core.ufunc.object import OBJECTS
from oxinp._driver import errors
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import as_ours, build, is_ours
from oxinp.sparse._rows import Rows
from oxinp.sparse.linalg._api import LinearOperator


def square_rows(A: Any) -> Rows:
    """Return a square matrix in rows, in canonical format, of a dtype that factorisations are computed in.

    Raises
    ------
    TypeError
        It is not sparse.
    ValueError
        It is not square, or has no elements.
    NotSupported
        There is no device.
    """
    if _runtime.current() is None:
        raise errors.NotSupported(f"this preconditioner needs a GPU: {_runtime.why_host()}")
    A = as_ours(A)
    if not is_ours(A):
        raise TypeError("a sparse array or matrix is needed")
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"a square matrix is needed, not one of shape {A.shape}")
    if not A.nnz:
        raise ValueError("a matrix without elements in its diagonal")
    if A.dtype.char not in "fdFD":
        A = A.astype(FLOAT64)
    return _compressed.canonical_rows(A if A.format in ("csr", "csc") else A.tocsr())


def as_matrix(rows: Rows) -> Any:
    """Return rows as a sparse array."""
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return build("csr_array", parts, (rows.num_rows, rows.num_columns), canonical=True)


class IncompleteFactors(LinearOperator):  # type: ignore[misc]  # of SciPy's source
    """The inverse of a product of triangular factors, as a linear operator: what `ilu0` and `ic0` return.

    Attributes
    ----------
    L, U : csr_array, (n, n)
        The factors; of IC(0) the second one is the first one's transpose.
    shape : tuple of int
    dtype : dtype
    """

    def __init__(self, lower: Rows, upper: Rows, order: Any, *, has_unit_diagonal: bool) -> None:
        super().__init__(upper.data.dtype, (upper.num_rows, upper.num_rows))
        self._lower, self._upper, self._is_unit = lower, upper, has_unit_diagonal
        self._orders = order, _rows.order_of(upper, is_lower=False)

    @property
    def L(self) -> Any:
        """The lower triangular factor."""
        made = as_matrix(self._lower)
        return made + _identity(self.shape[0], self.dtype) if self._is_unit else made

    @property
    def U(self) -> Any:
        """The upper triangular factor."""
        return as_matrix(self._upper)

    @cached_property
    def _adjoints(self) -> list[tuple[Rows, Any]]:
        """The conjugate transposes of U and L, and the orders of their rows."""
        made = [_rows.transposed(each) if each.indices.size else each for each in (self._upper, self._lower)]
        made = [each._replace(data=OBJECTS["conjugate"](each.data)) for each in made]
        return [
            (each, _rows.order_of(each, is_lower=is_lower) if each.indices.size else None)
            for each, is_lower in zip(made, (True, False), strict=True)
        ]

    def _matvec(self, x: Any) -> Any:
        below = self._solved(self._lower, self._orders[0], x, is_lower=True, has_unit_diagonal=self._is_unit)
        return self._solved(self._upper, self._orders[1], below, is_lower=False, has_unit_diagonal=False)

    def _rmatvec(self, x: Any) -> Any:
        upper, lower = self._adjoints
        below = self._solved(*upper, x, is_lower=True, has_unit_diagonal=False)
        return self._solved(*lower, below, is_lower=False, has_unit_diagonal=self._is_unit)

    _matmat, _rmatmat = _matvec, _rmatvec

    def _solved(self, rows: Rows, order: Any, x: Any, *, is_lower: bool, has_unit_diagonal: bool) -> Any:
        dtype = np.result_type(rows.data.dtype, x.dtype)
        x = astype(x, dtype, copy_wanted=False)
        if not rows.indices.size:  # the unit diagonal alone
            return x
        rows = rows._replace(data=astype(rows.data, dtype, copy_wanted=False))
        return _rows.solve_triangular(rows, x, order, is_lower=is_lower, has_unit_diagonal=has_unit_diagonal)


def _identity(n: int, dtype: np.dtype[Any]) -> Any:
    numbers, ones = creation.arange(0, n + 1, 1, _rows.INT32), creation.ones((n,), dtype)
    return as_matrix(Rows(numbers, numbers[:-1].copy(), ones, n))


def ilu0(A: Any) -> IncompleteFactors:
    """Return the incomplete LU factorisation of a matrix in its own pattern, ILU(0), as a preconditioner.

    Parameters
    ----------
    A : sparse array or matrix, (n, n), float or complex
        With all elements of the diagonal; integers are computed in float64.

    Returns
    -------
    IncompleteFactors
        A `LinearOperator` that solves with the factors, for the parameter `M` of iterative solvers.

    Raises
    ------
    TypeError, ValueError
        The matrix is not sparse, not square, or has no element somewhere in its diagonal.
    LinAlgError
        A pivot is zero.

    Notes
    -----
    Rows are eliminated without pivoting and in the order of their columns, so the factors have the same bits every
    time. A product with the operator is two triangular solves on the device, which wait for nothing on the host.

    Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 10.4.
    """
    rows = square_rows(A)
    order = _rows.order_of(rows, is_lower=True)
    rows = rows._replace(data=_rows.incomplete(rows, order, is_symmetric=False))
    numbers = _rows.numbers(rows)
    upper = _rows.kept(rows, rows.indices >= numbers)
    _check_pivots(upper, is_positive=False)
    return IncompleteFactors(_rows.kept(rows, rows.indices < numbers), upper, order, has_unit_diagonal=True)


def ic0(A: Any) -> IncompleteFactors:
    """Return the incomplete Cholesky factorisation of a matrix in its own pattern, IC(0), as a preconditioner.

    Parameters
    ----------
    A : sparse array or matrix, (n, n), float
        Symmetric: only the lower triangle is read. With all elements of the diagonal.

    Returns
    -------
    IncompleteFactors
        A symmetric positive definite `LinearOperator`, for the parameter `M` of `cg`.

    Raises
    ------
    TypeError, ValueError
        The matrix is complex, not sparse, not square, or has no element somewhere in its diagonal.
    LinAlgError
        A pivot is not positive. Matrices with a dominant diagonal have none; of others add to the diagonal.

    Notes
    -----
    See `ilu0`. Source: Y. Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., section 10.3.2.
    """
    rows = square_rows(A)
    if rows.data.dtype.kind == "c":
        raise TypeError("the incomplete Cholesky factorisation is of real matrices")
    lower = _rows.kept(rows, rows.indices <= _rows.numbers(rows))
    order = _rows.order_of(lower, is_lower=True)
    lower = lower._replace(data=_rows.incomplete(lower, order, is_symmetric=True))
    _check_pivots(lower, is_positive=True)
    return IncompleteFactors(lower, _rows.transposed(lower), order, has_unit_diagonal=False)


def _check_pivots(rows: Rows, *, is_positive: bool) -> None:
    pivots = _rows.diagonal(rows, 0)
    are_fine = OBJECTS["isfinite"](pivots) & ((pivots > 0) if is_positive else (pivots != 0))
    if not bool(reduce(ALL, are_fine)):
        raise LinAlgError("a pivot is not positive" if is_positive else "a pivot is zero")


__all__ = ["IncompleteFactors", "as_matrix", "ic0", "ilu0", "square_rows"]
