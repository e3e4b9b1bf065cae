"""Eigenvalues and Schur forms of general matrices, as SciPy's functions, with QR iterations on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp.linalg import _eig
from oxinp.scipy.linalg._given import matrices, or_scipy


def _matrix(a: Any, *, check_finite: bool) -> Any:
    """Return a finite matrix of a dtype that LAPACK computes in."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    if a.ndim != 2 or a.dtype.char not in "fdFD":
        raise Unsupported("stacks, or dtypes that SciPy converts")
    if not check_finite and not bool(np.isfinite(a).all()):
        raise Unsupported("infinities or NaNs, of which LAPACK says what becomes")
    return a


@implements("scipy.linalg.eig")
@placed("eig", scipy.linalg.eig)
@or_scipy
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """See `scipy.linalg.eig`."""
    if b is not None or left or homogeneous_eigvals:
        raise Unsupported("generalised problems, left vectors, or homogeneous eigenvalues")
    a = _matrix(a, check_finite=check_finite)
    return _eig.eig(a, "scipy.linalg.eig") if right else _eig.eigvals(a, "scipy.linalg.eig")


@implements("scipy.linalg.eigvals")
@placed("eigvals", scipy.linalg.eigvals)
@or_scipy
def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """See `scipy.linalg.eigvals`."""
    if b is not None or homogeneous_eigvals:
        raise Unsupported("generalised problems, or homogeneous eigenvalues")
    return _eig.eigvals(_matrix(a, check_finite=check_finite), "scipy.linalg.eigvals")


@implements("scipy.linalg.schur")
@placed("eig", scipy.linalg.schur)
@or_scipy
def schur(
    a: Any,
    output: str = "real",
    lwork: Any = None,  # noqa: ARG001
    overwrite_a: bool = False,  # noqa: ARG001
    sort: Any = None,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.schur`."""
    if sort is not None or output not in ("real", "complex", "r", "c"):
        raise Unsupported("sorted forms, or what SciPy refuses")
    a = _matrix(a, check_finite=check_finite)
    if output in ("complex", "c") and a.dtype.kind != "c":
        a = a.astype(a.dtype.char.upper())
    return _eig.schur(a, "scipy.linalg.schur")


@implements("scipy.linalg.hessenberg")
@placed("hessenberg", scipy.linalg.hessenberg)
def hessenberg(a: Any, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.hessenberg`."""
    h, q = _eig.hessenberg_form(_matrix(a, check_finite=check_finite), has_vectors=calc_q)
    return (h, q) if calc_q else h


@implements("scipy.linalg.matrix_balance")
@placed("hessenberg", scipy.linalg.matrix_balance)
def matrix_balance(
    A: Any,
    permute: bool = True,  # noqa: ARG001 - of what is balanced, nothing
    scale: bool = True,
    separate: bool = False,
    overwrite_a: bool = False,  # noqa: ARG001
) -> Any:
    """See `scipy.linalg.matrix_balance`: LAPACK computes where there is anything to permute or to scale."""
    a = _matrix(A, check_finite=True)
    if not _eig.is_balanced(a, is_scaled=bool(scale)):
        raise Unsupported("a matrix that is permuted or scaled")
    order = len(a)
    if separate:
        return a.copy(), (np.ones(order, like=a), np.arange(order, like=a))
    return a.copy(), np.eye(order, like=a)
