"""Functions of `scipy.linalg` on the device: factorisations, determinants, singular values; and all others' modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise
from oxinp._core.ops.lu import lu as _lu
from oxinp.linalg import _spectral
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
    _systems,
    _triangular_forms,
)
from oxinp.scipy.linalg._given import SCIPY, each_of_stacks, matrices, or_scipy, several


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
    return several(scipy.linalg.lu_factor, (factors, pivots)) if factors.ndim > 2 else (factors, pivots)


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
        found = _pivoted(a, mode)
        return ((found[0], found[1]), *found[2:]) if mode == "raw" else found
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


@each_of_stacks(scipy.linalg.qr, a=2)
def _pivoted(a: Any, mode: str) -> Any:
    """Return what `qr` does with pivoting, of which the first two are one for it where the mode is "raw"."""
    if mode == "raw":
        order, factors, tau = factorise.pivoted_qr(a, "raw")
        return factors, tau, np.triu(factors[: min(factors.shape)]), order
    order, *factors = factorise.pivoted_qr(a, {"r": "r", "economic": "reduced"}.get(mode, "complete"))
    return (*factors, order)


# -- eigenvalues and singular values -----------------------------------------------------------------------------------


@implements("scipy.linalg.svd")
@placed("svd", scipy.linalg.svd)
@or_scipy
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
@or_scipy
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.svdvals`."""
    return _spectral.svdvals(*matrices(a, check_finite=check_finite))
