"""Eigenvalues and Schur forms of general matrices, as SciPy's functions, with QR iterations on the host."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.fallback import call
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import host_view
from oxinp._core.ops import factorise
from oxinp.linalg import _eig, _pencils
from oxinp.scipy.linalg._given import each_of_stacks, finite_matrix, or_scipy


def _matrix(a: Any, *, check_finite: bool) -> Any:
    """Return a finite matrix of a dtype that LAPACK computes in."""
    a = finite_matrix(a, check_finite=check_finite, are_square=True)
    if a.dtype.char not in "fdFDil":
        raise Unsupported("dtypes that SciPy converts otherwise")
    return factorise.prepared(a)[0]


def _pencil(a: Any, b: Any, *, check_finite: bool) -> tuple[Any, Any]:
    """Return a matrix, and another one of its dtype where there is one."""
    if b is None:
        # Whether asked for or not: LAPACK's balancing refuses NaN, and what SciPy does then writes beyond its arrays.
        return _matrix(a, check_finite=True), None
    found = [finite_matrix(x, check_finite=check_finite, are_square=True) for x in (a, b)]
    if found[0].shape != found[1].shape:
        raise Unsupported("what SciPy refuses")
    a, b = factorise.prepared(*found)
    return a, b


def _eigenvalues(found: _pencils.Eigen) -> Any:
    """Return alpha / beta, infinite where beta is zero."""
    alpha, beta = found.alpha, found.beta
    is_zero = beta == 0
    return as_ours(np.where(is_zero, np.inf, alpha / np.where(is_zero, 1, beta)).astype(alpha.dtype, copy=False))


@implements("scipy.linalg.eig")
@placed("eig", scipy.linalg.eig)
@or_scipy
@each_of_stacks(scipy.linalg.eig, a=2, b=2)
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
    a, b = _pencil(a, b, check_finite=check_finite)
    if b is None and not left:
        w, *v = _eig.eig(a, "scipy.linalg.eig") if right else (_eig.eigvals(a, "scipy.linalg.eig"),)
    else:
        found = _pencils.eig(a, b, "scipy.linalg.eig", has_left=left)
        w = _eigenvalues(found) if b is None or not homogeneous_eigvals else _homogeneous(found, a, b)
        v = [x for x, is_wanted in ((found.left, left), (found.right, right)) if is_wanted]
    if homogeneous_eigvals and b is None:
        w = np.stack([w, np.ones_like(w)])
    return (w, *v) if v else w


def _homogeneous(found: _pencils.Eigen, a: Any, b: Any) -> Any:
    """Return alpha and beta of eigenvalues, of the sizes that they have first in a generalised Schur form.

    A vector x of norm one is a first column of Z there, and A x and B x are multiples of the first column of Q: their
    norms are the diagonal elements, beta not negative. LAPACK's pairs are of the form in its own order.
    """
    norms = [host_view(as_ours(_pencils.norms(x @ found.right))) for x in (a, b)]
    alpha, beta = found.alpha, found.beta
    turned = np.where(beta == 0, alpha, alpha * beta.conj())
    unit = turned / np.where(turned == 0, 1, np.abs(turned))
    pair = np.stack([norms[0] * unit, np.where(beta == 0, 0, norms[1])])
    return as_ours(pair.astype(alpha.dtype, copy=False))


@implements("scipy.linalg.eigvals")
@placed("eigvals", scipy.linalg.eigvals)
@or_scipy
@each_of_stacks(scipy.linalg.eigvals, a=2, b=2)
def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """See `scipy.linalg.eigvals`."""
    return eig(
        a,
        b,
        right=False,
        overwrite_a=overwrite_a,
        check_finite=check_finite,
        homogeneous_eigvals=homogeneous_eigvals,
    )


@implements("scipy.linalg.schur")
@placed("eig", scipy.linalg.schur)
@or_scipy
@each_of_stacks(scipy.linalg.schur, a=2)
def schur(
    a: Any,
    output: str = "real",
    lwork: Any = None,  # noqa: ARG001
    overwrite_a: bool = False,  # noqa: ARG001
    sort: Any = None,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.schur`."""
    chosen = sort if callable(sort) else SORTS.get(sort)
    if output not in ("real", "complex", "r", "c") or (chosen is None and sort is not None):
        raise Unsupported("what SciPy refuses")
    a = _matrix(a, check_finite=check_finite)
    if output in ("complex", "c") and a.dtype.kind != "c":
        a = a.astype(a.dtype.char.upper())
    form = _eig.schur(a, "scipy.linalg.schur")
    if chosen is None:
        return form
    t, z, count = call(lambda t, z: _reordered(chosen, t, z), form, {}, name="scipy.linalg.schur: order")
    return as_ours(t), as_ours(z), int(count)


SORTS: dict[Any, Callable[..., Any]] = {
    "lhp": lambda x, y=0.0: x.real < 0,  # noqa: ARG005 - as SciPy calls them
    "rhp": lambda x, y=0.0: x.real >= 0,  # noqa: ARG005
    "iuc": lambda x, y=0.0: abs(x + y * 1j) <= 1,
    "ouc": lambda x, y=0.0: abs(x + y * 1j) > 1,
}
"""Which eigenvalues come first, by SciPy's names; of real forms their real and imaginary parts are given."""


def _reordered(
    is_first: Callable[..., Any], t: np.ndarray[Any, Any], z: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Any]:
    """Return a form with chosen eigenvalues first, and how many they are; LAPACK exchanges blocks."""
    (trsen,) = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs(("trsen",), (t,))
    diagonal = np.diagonal(t)
    if t.dtype.kind == "c":
        select = [bool(is_first(x)) for x in diagonal]
    else:
        below, above = np.diagonal(t, -1), np.diagonal(t, 1)
        imaginary = np.zeros_like(diagonal)
        for i in np.flatnonzero(below):
            size = np.sqrt(np.abs(below[i])) * np.sqrt(np.abs(above[i]))
            imaginary[i : i + 2] = size, -size
        select = [bool(is_first(x, y)) for x, y in zip(diagonal, imaginary, strict=True)]
    found = trsen(select, t, z, job="N")
    if found[-1]:
        raise Unsupported("eigenvalues of which SciPy says that they are not separated")
    return found[0], found[1], found[-4]


@implements("scipy.linalg.hessenberg")
@placed("hessenberg", scipy.linalg.hessenberg)
@each_of_stacks(scipy.linalg.hessenberg, a=2)
def hessenberg(a: Any, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.hessenberg`."""
    h, q = _eig.hessenberg_form(_matrix(a, check_finite=check_finite), has_vectors=calc_q)
    return (h, q) if calc_q else h


@implements("scipy.linalg.matrix_balance")
@placed("hessenberg", scipy.linalg.matrix_balance)
@each_of_stacks(scipy.linalg.matrix_balance, A=2)
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
