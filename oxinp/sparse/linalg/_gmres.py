"""GMRES, and orthonormal vectors of Krylov spaces, in cycles that wait for the device once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import copy
from oxinp._core.ops import creation
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.sparse import arnoldi_s_step
from oxinp._kernels.sparse.arnoldi import MAX_VECTORS
from oxinp.sparse import _compressed
from oxinp.sparse.linalg._krylov import System, norm_of, residual, system_of, where

WIDTHS = {8: (3, 2), 4: (2,)}
"""Vectors that are made at a time, and where too little is left of products, by the bytes of an element."""


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: Any = 1e-5,
    atol: Any = 0.0,
    restart: Any = None,
    maxiter: Any = None,
    M: Any = None,
) -> tuple[Any, int]:
    """See `scipy.sparse.linalg.gmres`.

    A cycle waits for the device once: the projected problem is solved on the host, which also finds the step at which
    SciPy would have stopped. Vectors are made orthogonal by two passes of the classical Gram-Schmidt method, each two
    products with all of them; with a sparse matrix and no preconditioner several at a time, unless too little is left.
    """
    system, x = system_of("gmres", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    n, dtype = len(system.b), x.dtype
    restart = min(20 if restart is None else restart, n)
    preconditioned_norm = float(norm_of(system.solve(system.b))[0]) if system.is_preconditioned else system.b_norm
    factor = 1.0
    tolerance = preconditioned_norm * min(factor, system.atol / system.b_norm)
    r = residual(system, x)
    left = norm_of(r)
    if float(left[0]) < system.atol:
        return x, 0
    widths = _widths(system, dtype, restart)
    for _ in range(system.maxiter):
        start = system.solve(r)
        norm = norm_of(start) if system.is_preconditioned else left
        first = (start / norm).reshape(1, -1)
        space = None
        while widths and space is None:
            space = _space_by_s_steps(system.matrix, first, restart, widths[0])
            widths = widths if space else widths[1:]
        basis, hessenberg = space or _space(system, first, restart)
        y, presid, has_broken_down = _project(hessenberg, float(norm[0].real), tolerance)
        x = x + reduce(SUM, basis[: len(y)] * types.from_host(y[:, None]), 0)
        r = system.b - system.matvec(x)
        left = norm_of(r)
        evaluate(x, left)
        r_norm = float(left[0].real)
        if r_norm <= system.atol or has_broken_down:
            return x, 0 if r_norm <= system.atol else system.maxiter
        factor = max(np.finfo(dtype).eps, 0.25 * factor) if presid <= tolerance else min(1.0, 1.5 * factor)
        tolerance = presid * min(factor, system.atol / r_norm)
    return x, system.maxiter


def _space(system: System, first: Any, count: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return orthonormal vectors of a Krylov space, and the Hessenberg matrix."""
    if system.is_preconditioned:
        return krylov_space(lambda v: system.solve(system.matvec(v)), (), first, count)
    return krylov_space(system.matvec, () if system.matrix is None else (system.matrix,), first, count)


def _widths(system: System, dtype: np.dtype[Any], count: int) -> tuple[int, ...]:
    """Return how many vectors may be made at a time: so many, and where too little is left, the next."""
    is_plain = system.matrix is not None and not system.is_preconditioned and system.matrix.dtype == dtype
    can = is_plain and dtype.kind == "f" and 1 < count < arnoldi_s_step.MAX_VECTORS
    return WIDTHS.get(dtype.itemsize, ()) if can else ()


def _space_by_s_steps(matrix: Any, first: Any, count: int, steps: int) -> tuple[Any, np.ndarray[Any, Any]] | None:
    """Return what `_space` does, by products with powers of the matrix; None if too little was left."""
    rows, longest = _compressed.narrow_rows(matrix)
    basis, projected = perform_on_device(ops.ARNOLDI_S_STEP, (*rows.parts, first), (count, longest, steps))
    h = np.array(projected.tolist(), first.dtype).reshape(count, count + 2)
    if h[:, -1].any():
        return None
    made = h.copy()
    for row in range(count):
        if row % steps:  # of A w, of which what A makes of the other vectors that w has is taken
            made[row] = (h[row] - h[row - 1, :row] @ made[:row]) / h[row - 1, row]
    return basis, made[:, :-1]


def krylov_space(
    apply: Callable[[Any], Any], matrices: tuple[Any, ...], given: Any, count: int
) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return orthonormal vectors of a Krylov space; wait for the device once.

    Parameters
    ----------
    apply : callable
        The operator.
    matrices : tuple of sparse objects of ours
        One or two, by which `apply` multiplies, one after the other: all steps are one plan; none where it is no such.
    given : ndarray, (first + 1, n)
        The vectors that there are, orthonormal.
    count : int
        Products.

    Returns
    -------
    basis : ndarray, (count + 1, n)
        Where the operator leads nowhere new, the rest is zero.
    components : numpy.ndarray, (count, count + 1)
        Row j, from `first` on: of what the operator makes of vector j, along the vectors.
    """
    dtype = given.dtype
    if matrices and dtype.kind == "f" and all(each.dtype == dtype for each in matrices) and count < MAX_VECTORS:
        rows, longest = zip(*map(_compressed.narrow_rows, matrices), strict=True)
        parts = [part for each in rows for part in each.parts]
        basis, projected = perform_on_device(ops.ARNOLDI, (*parts, copy(given)), (count, *longest))
    else:
        basis = creation.empty((count + 1, given.shape[1]), dtype)
        basis[: len(given)] = given
        projected = _extended(apply, basis, len(given) - 1)
    return basis, np.array(projected.tolist(), dtype).reshape(count, count + 2)[:, : count + 1]


def _extended(apply: Callable[[Any], Any], basis: Any, first: int) -> Any:
    """Write the vectors after those up to `first`; return the components, with a column more."""
    dtype, count = basis.dtype, len(basis) - 1
    eps = np.finfo(dtype).eps
    projected = creation.zeros((count, count + 2), dtype)
    for column in range(first, count):
        w = apply(copy(basis[column]))
        before = norm_of(w)
        known = basis[: column + 1]
        for _ in range(2):
            along = OBJECTS["conjugate"](known) if dtype.kind == "c" else known
            h = reduce(SUM, along * w, 1)
            projected[column, : column + 1] += h
            w = w - reduce(SUM, known * h[:, None], 0)
            evaluate(w)
        after = norm_of(w)
        is_nothing = after <= eps * before
        projected[column, column + 1 : column + 2] = where(is_nothing, 0.0, after)
        basis[column + 1] = where(is_nothing, 0.0, w / after)
    return projected


def _project(
    hessenberg: np.ndarray[Any, Any], norm: float, tolerance: float
) -> tuple[np.ndarray[Any, Any], float, bool]:
    """Return the solution of the least-squares problem, the residual, and whether the space was exhausted.

    SciPy rotates column by column and stops at the first one at which the residual is small, or nothing is left of a
    product. Here all columns are factorised at once: the residual after each is a product of the rotations' sines.
    """
    left = abs(hessenberg.diagonal(1))
    q, r = np.linalg.qr(hessenberg.T)
    sizes = abs(r.diagonal())
    sines = np.divide(left, sizes, out=np.zeros_like(left), where=left != 0)
    residuals = norm * np.cumprod(sines)
    ends = np.flatnonzero((residuals <= tolerance) | (left == 0))
    size = int(ends[0]) + 1 if ends.size else len(left)
    y = np.zeros(size, hessenberg.dtype)
    rank = size - int(sizes[size - 1] == 0)
    right = norm * q[0, :rank].conj()
    y[:rank] = scipy.linalg.solve_triangular(r[:rank, :rank], right, check_finite=False) if rank else right
    return y, float(residuals[size - 1]), bool(left[size - 1] == 0)


__all__ = ["gmres", "krylov_space"]
