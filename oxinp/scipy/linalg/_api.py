"""Functions of `scipy.linalg` on the device: systems and factorisations, eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import host_view
from oxinp._core.ops import factorise
from oxinp._core.ops.lu import lu as _lu
from oxinp._core.ops.triangular import Triangle
from oxinp._core.ops.triangular import solve_triangular as _solve_triangular
from oxinp.linalg import _spectral
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg import (  # noqa: F401 - for what they register
    _banded,
    _banded_factors,
    _equations,
    _functions,
    _general,
    _generalised_schur,
    _hermitian,
    _indefinite,
    _matrix_functions,
    _special_matrices,
    _structures,
    _triangular_forms,
)
from oxinp.scipy.linalg._given import HAS_STACKS, SCIPY, given, matrices, or_scipy

_TRANS = {"N": 0, "T": 1, "C": 2, 0: 0, 1: 1, 2: 2}
_LOWER, _UPPER, _UNIT_LOWER = Triangle(0, True), Triangle(), Triangle(0, True, True)


# -- systems -----------------------------------------------------------------------------------------------------------


@implements("scipy.linalg.solve_triangular")
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.solve_triangular`."""
    if trans not in _TRANS:
        raise Unsupported("what SciPy refuses")
    a, b = given(a, b, check_finite=check_finite)
    if max(a.ndim, b.ndim) > 2 and not (a.size and b.size):
        raise Unsupported("stacks that SciPy refuses")
    return _solve_triangular(a, b, Triangle(_TRANS[trans], bool(lower), bool(unit_diagonal)))


_GENERAL, _SYMMETRIC, _HERMITIAN = (None, "gen", "general"), ("sym", "symmetric"), ("her", "hermitian")
_POSITIVE, _TRIANGLES = ("pos", "positive definite"), {"upper triangular": _UPPER, "lower triangular": _LOWER}

_TRANSPOSED = dict(zip(_TRIANGLES, reversed(_TRIANGLES), strict=True))


@implements("scipy.linalg.solve")
@placed("solve", scipy.linalg.solve)
@or_scipy
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,  # noqa: ARG001
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Any:
    """See `scipy.linalg.solve`, which warns, on the host, of what is ill-conditioned."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    (b,) = given(b, check_finite=check_finite)
    if a.ndim > 2 and HAS_STACKS and assume_a in _GENERAL and not transposed:
        return _solved_stacks(a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or len(b) != len(a) or not b.size or len(a) == 1:
        raise Unsupported("stacks of matrices with a structure, or what SciPy refuses")
    if transposed and a.dtype.kind == "c":
        raise Unsupported("what SciPy refuses")
    prepared: Any = factorise.prepared(b[:, None] if b.ndim == 1 else b, a, are_square=False)
    right, whole = prepared
    if assume_a in _HERMITIAN or assume_a in _SYMMETRIC:
        stored = np.tril(whole) if lower else np.triu(whole).T
        other = np.tril(stored, -1).T
        is_hermitian = assume_a in _HERMITIAN and whole.dtype.kind == "c"
        whole = stored + (np.conjugate(other) if is_hermitian else other)
        whole = whole if lower or not is_hermitian else np.conjugate(whole)
    elif assume_a in _POSITIVE or assume_a in _TRIANGLES or assume_a in _GENERAL:
        if transposed:
            whole, lower = whole.T, not lower
            assume_a = _TRANSPOSED.get(assume_a, assume_a)
    else:
        raise Unsupported("a structure that has no kernel")
    system = _System(whole, assume_a, lower=lower)
    x = system.solve(right)
    if bool(system.norm * system.inverse_norm() * np.finfo(x.dtype).eps > 1):
        raise Unsupported("a matrix that is ill-conditioned")
    return x[:, 0] if b.ndim == 1 else x


def _solved_stacks(a: Any, b: Any) -> Any:
    """Return solutions of stacks of systems, none of which is ill-conditioned."""
    rows = b.shape[0 if b.ndim == 1 else -2]
    if not b.size or rows != a.shape[-1]:
        raise Unsupported("what SciPy refuses")
    x = factorise.solve(a, b)
    conditions = _norm(a) * _norm(factorise.inv(a))
    if not bool((conditions * np.finfo(x.dtype).eps < 1).all()):
        raise Unsupported("a matrix that is ill-conditioned")
    return x


class _System:
    """A matrix, factored as its structure allows.

    Parameters
    ----------
    a : ndarray, (M, M)
    structure : str or None
        As `scipy.linalg.solve` names it.
    lower : bool
        Which triangle of a positive definite matrix counts.
    """

    def __init__(self, a: Any, structure: Any, *, lower: bool) -> None:
        self.order, self.permutation = len(a), None
        if structure in _POSITIVE:
            a = _spectral.hermitian(a if lower else adjoint(a))
            factor = factorise.cholesky(a)
            self.steps = [(factor, _LOWER), (factor, _LOWER._replace(trans=2))]
        elif structure in _TRIANGLES:
            a = np.triu(a) if structure.startswith("upper") else np.tril(a)
            self.steps = [(a, _TRIANGLES[structure])]
        else:
            factors, _, self.permutation = _lu(a)
            self.steps = [(factors, _UNIT_LOWER), (factors, _UPPER)]
        self.norm = _norm(a)

    def solve(self, b: Any) -> Any:
        """Return X of A X = B."""
        x = b if self.permutation is None else b[self.permutation]
        for matrix, triangle in self.steps:
            x = _solve_triangular(matrix, x, triangle)
        return x

    def solve_adjoint(self, b: Any) -> Any:
        """Return X of A^H X = B."""
        x = b
        for matrix, triangle in reversed(self.steps):
            x = _solve_triangular(matrix, x, triangle._replace(trans=2 - triangle.trans))
        return x if self.permutation is None else x[np.argsort(self.permutation)]

    def inverse_norm(self) -> Any:
        """Return the 1-norm of the inverse, estimated as LAPACK does, from one gradient step.

        Source: N. Higham, FORTRAN codes for estimating the one-norm of a matrix, 1988.
        """
        n, dtype = self.order, self.steps[0][0].dtype
        numbers = np.arange(n)
        alternating = np.where(numbers % 2, -1.0, 1.0) * (1 + numbers / max(1, n - 1))
        start = as_ours(np.stack([np.full(n, 1 / n), alternating], axis=-1).astype(dtype))
        y = self.solve(start)
        first, second = (np.abs(y[:, i]).sum() for i in range(2))
        size = np.abs(y[:, :1])
        one = dtype.type(1)
        direction = np.where(size > 0, y[:, :1] / np.where(size > 0, size, size.dtype.type(1)), one)
        gradient = np.abs(self.solve_adjoint(direction)[:, 0])
        chosen = (as_ours(numbers) == np.argmax(gradient)).astype(dtype)
        third = np.abs(self.solve(chosen[:, None])).sum()
        return np.maximum(np.maximum(first, third), second * (2 / (3 * n)))


@implements("scipy.linalg.lu_solve")
def lu_solve(
    lu_and_piv: Any,
    b: Any,
    trans: Any = 0,
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.lu_solve`. Pivots become a permutation on the host."""
    factors, pivots = lu_and_piv
    (factors,) = matrices(factors, check_finite=check_finite, are_square=True)
    (b,) = given(b, check_finite=check_finite)
    if factors.ndim != 2 or b.ndim not in (1, 2) or len(b) != len(factors) or trans not in (0, 1, 2):
        raise Unsupported("what SciPy refuses, or stacks")
    order = _permutation(host_view(as_ours(pivots)), len(factors))
    if not trans:
        inner = _solve_triangular(factors, b[order], _UNIT_LOWER)
        return _solve_triangular(factors, inner, _UPPER)
    inner = _solve_triangular(factors, b, _UPPER._replace(trans=trans))
    return _solve_triangular(factors, inner, _UNIT_LOWER._replace(trans=trans))[np.argsort(order)]


def _permutation(pivots: np.ndarray[Any, Any], num_rows: int) -> np.ndarray[Any, Any]:
    """Return the row that each row was, before rows changed places with those that pivots name."""
    order = list(range(num_rows))
    for row, other in enumerate(pivots.tolist()):
        order[row], order[other] = order[other], order[row]
    return np.array(order)


@implements("scipy.linalg.cho_solve")
def cho_solve(
    c_and_lower: Any,
    b: Any,
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.cho_solve`."""
    c, lower = c_and_lower
    (c,) = matrices(c, check_finite=check_finite, are_square=True)
    (b,) = given(b, check_finite=check_finite)
    if c.ndim != 2 or b.ndim not in (1, 2) or len(b) != len(c):
        raise Unsupported("what SciPy refuses, or stacks")
    first, second = (_LOWER, _LOWER._replace(trans=2)) if lower else (_UPPER._replace(trans=2), _UPPER)
    return _solve_triangular(c, _solve_triangular(c, b, first), second)


@implements("scipy.linalg.inv")
@placed("inv", scipy.linalg.inv)
@or_scipy
def inv(
    a: Any,
    overwrite_a: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    *,
    assume_a: Any = None,
    lower: bool = False,  # noqa: ARG001 - whole matrices are read
) -> Any:
    """See `scipy.linalg.inv`, which warns, on the host, of what is ill-conditioned."""
    if assume_a not in (None, "gen", "general"):
        raise Unsupported("matrices of which only a part is read")
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    found = factorise.inv(a)
    if bool((_norm(a) * _norm(found) * np.finfo(found.dtype).eps > 1).any()):
        raise Unsupported("a matrix that is ill-conditioned")
    return found


def _norm(a: Any) -> Any:
    """Return 1-norms of matrices."""
    return np.abs(a).sum(axis=-2).max(axis=-1)


@implements("scipy.linalg.det")
@placed("slogdet", scipy.linalg.det)
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.det`: in double precision."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    return factorise.det(a.astype("D" if a.dtype.kind == "c" else "d", copy=False))


# -- factors -----------------------------------------------------------------------------------------------------------


@implements("scipy.linalg.lu_factor")
@placed("lu", scipy.linalg.lu_factor)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.lu_factor`, which warns, on the host, of what is singular."""
    factors, pivots, _ = _lu(*matrices(a, check_finite=check_finite))
    return factors, pivots


@implements("scipy.linalg.lu")
@placed("lu", scipy.linalg.lu)
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """See `scipy.linalg.lu`."""
    factors, _, permutation = _lu(*matrices(a, check_finite=check_finite))
    rows, columns = factors.shape[-2:]
    depth = min(rows, columns)
    below = np.tril(factors[..., :depth], -1) + np.eye(rows, depth, dtype=factors.dtype, like=factors)
    above = np.triu(factors[..., :depth, :])
    if p_indices and not permute_l:
        return np.argsort(permutation, axis=-1).astype("i4"), below, above
    real = factors.dtype.char.lower()
    p = (permutation[..., None, :] == np.arange(rows, dtype="i4", like=permutation)[:, None]).astype(real)
    return (p.astype(factors.dtype) @ below, above) if permute_l else (p, below, above)


@implements("scipy.linalg.cholesky")
@placed("cholesky", scipy.linalg.cholesky)
@or_scipy
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.cholesky`."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    return factorise.cholesky(a, upper=not lower)


_TELLS_FROM = 2 if SCIPY >= (1, 18) else 3
"""Dimensions from which SciPy's function says of every matrix which triangle it has, in an array."""


@implements("scipy.linalg.cho_factor")
@placed("cholesky", scipy.linalg.cho_factor)
@or_scipy
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.cho_factor`."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    c = factorise.cholesky(a, upper=not lower)
    rest = np.triu(a, 1) if lower else np.tril(a, -1)
    tells_of_each = a.ndim >= _TELLS_FROM
    return c + rest.astype(c.dtype, copy=False), np.full(a.shape[:-2], lower) if tells_of_each else lower


@implements("scipy.linalg.qr")
@placed("qr", scipy.linalg.qr)
def qr(
    a: Any,
    overwrite_a: bool = False,  # noqa: ARG001
    lwork: Any = None,  # noqa: ARG001
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.qr`."""
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise Unsupported("a mode that SciPy refuses")
    (a,) = matrices(a, check_finite=check_finite)
    rows, columns = a.shape[-2:]
    if pivoting:
        return _pivoted(a, mode)
    if mode == "economic":
        return tuple(factorise.qr(a, "reduced"))
    if mode == "raw":
        turned, tau = factorise.qr(a, "raw")
        factors = turned.swapaxes(-1, -2)
        return (factors, tau), np.triu(factors[..., : min(rows, columns), :])
    if mode != "r":
        return tuple(factorise.qr(a, "complete"))
    r = factorise.qr(a, "r")
    if rows > columns:
        r = np.concatenate([r, np.zeros_like(r, shape=(*r.shape[:-2], rows - columns, columns))], axis=-2)
    return (r,)


def _pivoted(a: Any, mode: str) -> Any:
    """Return what `qr` does with pivoting."""
    if mode == "raw":
        order, factors, tau = factorise.pivoted_qr(a, "raw")
        return (factors, tau), np.triu(factors[: min(factors.shape)]), order
    order, *factors = factorise.pivoted_qr(a, {"r": "r", "economic": "reduced"}.get(mode, "complete"))
    return (*factors, order)


# -- eigenvalues and singular values -----------------------------------------------------------------------------------


@implements("scipy.linalg.svd")
@placed("svd", scipy.linalg.svd)
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """See `scipy.linalg.svd`; there is one algorithm, whatever the driver."""
    if lapack_driver not in ("gesdd", "gesvd"):
        raise Unsupported("a driver that SciPy refuses")
    (a,) = matrices(a, check_finite=check_finite)
    return _spectral.svd(a, full_matrices=full_matrices) if compute_uv else _spectral.svdvals(a)


@implements("scipy.linalg.svdvals")
@placed("svdvals", scipy.linalg.svdvals)
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.svdvals`."""
    return _spectral.svdvals(*matrices(a, check_finite=check_finite))
