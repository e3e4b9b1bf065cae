"""LU factors of sparse matrices that fill in, as dense matrices on the device."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import FLOAT64
from oxinp._core.ops import gather, sort
from oxinp._core.ops.lu import lu
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.sparse import _compressed, _rows
from oxinp.sparse._base import COMPRESSED, build, is_ours, is_small
from oxinp.sparse._rows import INT32

MAX_ROWS = 8192
HOST_RATE, DEVICE_RATE = 2e9, 2e13
"""Operations per second of factorisations, of sparse matrices on the host and of dense ones on the device."""
DEVICE_SECONDS = 2e-3
"""What the device takes for the smallest."""
GAIN = 4
"""How much faster the device has to be: systems are solved faster with sparse factors than with dense ones."""
DENSE = 8
"""Of a matrix with more than one element in so many, all of the factors' are taken to be there."""
LOWER, UPPER = Triangle(is_lower=True, has_unit_diagonal=True), Triangle()


class DenseFactorisation:
    """The factors of a sparse matrix, dense on the device; see `scipy.sparse.linalg.SuperLU`, whose attributes it has.

    Parameters
    ----------
    A : csr_array, csc_array or the matrices of these names, (n, n)

    Raises
    ------
    Unsupported
        SciPy is to factorise it: it has few elements beside its factors', or is small, or singular.

    Notes
    -----
    Columns stay in their order; rows are pivoted by the largest element.
    """

    def __init__(self, A: Any) -> None:
        if not fills_in(A):
            raise Unsupported("a matrix whose factors are sparse")
        A = A if A.dtype.char in "fdFD" else A.astype(FLOAT64)
        self.shape, self._dtype = A.shape, A.dtype
        self._factors, _, self._order = lu(A.toarray())

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return the solution of linear systems; see `Factorisation.solve`."""
        rhs = dispatch.functions[np.asarray](rhs)
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        if rhs.ndim not in (1, 2) or rhs.shape[0] != self.shape[0]:
            raise ValueError("b is of incompatible size")
        x = astype(rhs, self._dtype, casting="safe", copy_wanted=False)
        number = "NTH".index(trans)
        if not number:
            x = gather.take(x, self._order, axis=0, is_checked=False)
            return solve_triangular(self._factors, solve_triangular(self._factors, x, LOWER), UPPER)
        x = solve_triangular(self._factors, x, UPPER._replace(trans=number))
        x = solve_triangular(self._factors, x, LOWER._replace(trans=number))
        return gather.take(x, self.perm_r, axis=0, is_checked=False)

    @cached_property
    def perm_r(self) -> Any:
        """Where each row of the matrix is among those of the factors' product."""
        return astype(sort.argsort(self._order), INT32)

    @cached_property
    def perm_c(self) -> Any:
        """Where each column is: where it was."""
        return dispatch.functions[np.arange](self.shape[0], dtype=INT32)

    @cached_property
    def L(self) -> Any:
        """The lower triangular factor, with ones on its diagonal."""
        below = dispatch.functions[np.tril](self._factors, -1)
        return self._sparse(below + dispatch.functions[np.eye](self.shape[0], dtype=self._dtype))

    @cached_property
    def U(self) -> Any:
        """The upper triangular factor."""
        return self._sparse(dispatch.functions[np.triu](self._factors))

    @property
    def nnz(self) -> int:
        """How many elements both factors have."""
        return int(self.L.nnz + self.U.nnz)

    def _sparse(self, dense: Any) -> Any:
        rows = _rows.from_dense(dense.T)
        parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        return build("csc_array", parts, self.shape, canonical=True)


def fills_in(A: Any) -> bool:
    """Return whether a matrix is factorised dense, on the device, much faster than sparse, on the host.

    What it takes on the host is estimated by the envelope in the order of Cuthill and McKee, without rows that are
    nearly dense, which the host's orders put last.
    """
    if not is_ours(A) or A.format not in COMPRESSED or A.ndim != 2 or A.shape[0] != A.shape[1] or is_small(A):
        return False
    n = A.shape[0]
    if not 1 < n <= MAX_ROWS or not A.nnz:
        return False
    on_device = DEVICE_SECONDS + 2 / 3 * n**3 / DEVICE_RATE
    work = n**3 / 3 if A.nnz * DENSE > n * n else _envelope_work(A, n)
    return 2 * work / HOST_RATE > GAIN * on_device


def _envelope_work(A: Any, n: int) -> float:
    """Return the sum of the squares of the rows' widths in the order of Cuthill and McKee."""
    rows, _ = _compressed.of_rows(A)
    indptr, indices = fetch(rows.indptr), fetch(rows.indices)
    lengths = np.diff(indptr) + np.bincount(indices, minlength=n)
    numbers = np.repeat(np.arange(n), np.diff(indptr))
    is_dense = lengths > max(32, 20 * n**0.5)
    kept = ~(is_dense[numbers] | is_dense[indices])
    pattern = scipy.sparse.csr_array((kept[kept], (numbers[kept], indices[kept])), shape=(n, n))
    places = np.argsort(reverse_cuthill_mckee(pattern))
    ends = places[numbers[kept]], places[indices[kept]]
    widths = np.zeros(n)
    np.maximum.at(widths, np.maximum(*ends), abs(ends[0] - ends[1]))
    return float((widths**2).sum())


__all__ = ["DenseFactorisation", "fills_in"]
