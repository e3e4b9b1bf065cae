"""Eigenvalues and vectors of Hermitian matrices, dense ones, banded ones and tridiagonal ones, as `scipy.linalg`'s."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import host_view
from oxinp._core.ops import factorise, spectral
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg import _spectral
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import LAPACK, SCIPY, each_of_stacks, given, matrices, or_scipy, several

_HAS_STEVD = SCIPY >= (1, 17)
_LOWER = Triangle(0, True)
_OF_THE_WHOLE, _BY_VALUE, _BY_INDEX = ("a", "all", 0), ("v", "value", 1), ("i", "index", 2)


def _indices(subset: Any, order: int) -> tuple[int, int]:
    """Return which eigenvalues are wanted: from one number up to another one."""
    low, high = map(int, subset)
    if not 0 <= low <= high < order:
        raise Unsupported("indices that SciPy refuses")
    return low, high + 1


def _within(w: Any, interval: Any) -> tuple[Any, int]:
    """Return which eigenvalues lie in an interval, open below: from which number on, of every matrix, and how many.

    Raises
    ------
    Unsupported
        Matrices of a stack have various numbers, of which SciPy says what becomes.
    """
    low, high = map(float, interval)
    if not low < high:
        raise Unsupported("intervals that SciPy refuses")
    first, end = (host_view(as_ours((w <= w.dtype.type(x)).sum(axis=-1, keepdims=True))) for x in (low, high))
    counts = end - first
    if (counts != counts.flat[0]).any():
        raise Unsupported("parts of the spectra of stacks, of various sizes")
    return first, int(counts.flat[0])


def _chosen(found: tuple[Any, ...], subset: tuple[Any, Any]) -> Any:
    """Return of eigenvalues, and vectors, those of a subset, by index or by value, if either is told."""
    w, *v = found
    by_index, by_value = subset
    if by_index is not None:
        first, end = by_index
        w, v = w[..., first:end], [x[..., first:end] for x in v]
    elif by_value is not None:
        starts, count = _within(w, by_value)
        first = int(starts.flat[0])
        if (starts == first).all():
            return _chosen(found, ((first, first + count), None))
        numbers = as_ours(starts + np.arange(count))
        w = np.take_along_axis(w, numbers, axis=-1)
        v = [np.take_along_axis(x, np.broadcast_to(numbers[..., None, :], (*x.shape[:-1], count)), axis=-1) for x in v]
    return (w, *v) if v else w


def _selected(select: Any, select_range: Any, order: int) -> tuple[Any, Any]:
    """Return a subset, as `_chosen` takes it, as functions of banded matrices are told of it."""
    if select in _OF_THE_WHOLE:
        return None, None
    bounds = np.asarray(select_range)
    if bounds.shape != (2,) or bounds.dtype.kind not in "if":
        raise Unsupported("what SciPy refuses")
    if select in _BY_INDEX and bounds.dtype.kind == "i":
        return _indices(bounds, order), None
    if select in _BY_VALUE:
        return None, bounds
    raise Unsupported("what SciPy refuses")


@implements("scipy.linalg.eigh")
@placed("eigh", scipy.linalg.eigh)
@or_scipy
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,  # noqa: ARG001
    overwrite_b: bool = False,  # noqa: ARG001
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """See `scipy.linalg.eigh`; there is one algorithm, whatever the driver."""
    if driver not in (None, "ev", "evd", "evr", "evx", "gv", "gvd", "gvx") or type not in (1, 2, 3):
        raise Unsupported("a driver, or a problem, that SciPy refuses")
    if driver is not None and (driver[0] == "e") != (b is None):
        raise Unsupported("a driver that SciPy refuses")
    num_subsets = (subset_by_index is not None) + (subset_by_value is not None)
    if num_subsets > 1 or (num_subsets and driver not in (None, "evr", "evx", "gvx")):
        raise Unsupported("parts of the spectrum that SciPy refuses")
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    if subset_by_index is not None:
        subset_by_index = _indices(subset_by_index, a.shape[-1])
    is_upper, factor = not lower, None
    if b is not None:
        (b,) = matrices(b, check_finite=check_finite, are_square=True)
        if b.shape != a.shape:
            raise Unsupported("shapes that SciPy refuses")
        a, factor = _standard(a, b, lower=lower, type=type)
        is_upper = False
    w, *v = spectral.eigh(a, is_upper=is_upper, has_vectors=not eigvals_only)
    if v and factor is not None:
        v = [factor @ v[0] if type == 3 else solve_triangular(factor, v[0], _LOWER._replace(trans=2))]
    found = _chosen((w, *v), (subset_by_index, subset_by_value))
    return several(scipy.linalg.eigh, found) if v and a.ndim > 2 else found


def _standard(a: Any, b: Any, *, lower: bool, type: int) -> tuple[Any, Any]:
    """Return a Hermitian matrix with the eigenvalues, and L of B = L L^H.

    Of A x = w B x, type 1, it is C = L^-1 A L^-H with vectors y = L^H x; of A B x = w x and B A x = w x, types 2 and
    3, L^H A L with y = L^H x and y = L^-1 x.
    """
    a, b = factorise.prepared(a, b)
    whole = _spectral.hermitian(a if lower else adjoint(a))
    factor = factorise.cholesky(b if lower else adjoint(b))
    if type != 1:
        return adjoint(factor) @ whole @ factor, factor
    half = solve_triangular(factor, whole, _LOWER)
    return solve_triangular(factor, adjoint(half), _LOWER), factor


@implements("scipy.linalg.eigvalsh")
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """See `scipy.linalg.eigvalsh`."""
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        overwrite_a=overwrite_a,
        overwrite_b=overwrite_b,
        type=type,
        check_finite=check_finite,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
        driver=driver,
    )


@implements("scipy.linalg.eigh_tridiagonal")
@or_scipy
@each_of_stacks(scipy.linalg.eigh_tridiagonal, d=1, e=1)
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: Any = False,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,  # noqa: ARG001 - no accuracy is given up
    lapack_driver: str = "auto",
) -> Any:
    """See `scipy.linalg.eigh_tridiagonal`: by divide and conquer, or, of values alone, by counting."""
    d, e = given(d, e, check_finite=check_finite)
    allowed = ("auto", "stebz", "stemr")
    if select in _OF_THE_WHOLE:
        allowed += ("stev", "stevd", "sterf") if eigvals_only else ("stev", "stevd")
    if lapack_driver not in allowed or (lapack_driver == "stevd" and not _HAS_STEVD):
        raise Unsupported("a driver that SciPy refuses")
    if d.ndim != 1 or d.size < 2 or e.shape != (d.size - 1,) or d.dtype.char not in "fd" or e.dtype != d.dtype:
        raise Unsupported("what SciPy refuses, or converts")
    subset = _selected(select, select_range, d.size)
    largest = float(np.maximum(np.abs(d).max(), np.abs(e).max()))
    if not math.isfinite(largest):
        raise Unsupported("infinities or NaNs")
    scale = d.dtype.type(math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0)
    beside = np.concatenate([e, np.zeros_like(e, shape=1)])
    w, *v = spectral.eigh_tridiagonal(d / scale, beside / scale, has_vectors=not eigvals_only)
    return _chosen((w * scale, *v), subset)


@implements("scipy.linalg.eigvalsh_tridiagonal")
def eigvalsh_tridiagonal(
    d: Any,
    e: Any,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """See `scipy.linalg.eigvalsh_tridiagonal`."""
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite, tol, lapack_driver)


@implements("scipy.linalg.eig_banded")
@or_scipy
@each_of_stacks(scipy.linalg.eig_banded, a_band=2)
def eig_banded(
    a_band: Any,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,  # noqa: ARG001
    select: Any = "a",
    select_range: Any = None,
    max_ev: int = 0,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.eig_banded`: of the matrix as a dense one."""
    (band,) = given(a_band, check_finite=check_finite or not eigvals_only)
    if band.ndim != 2 or not band.size or band.shape[0] > band.shape[1] or band.dtype.char not in LAPACK or max_ev:
        raise Unsupported("what SciPy refuses, or how much memory it takes")
    subset = _selected(select, select_range, band.shape[1])
    found = spectral.eigh(_dense(band, is_lower=lower), is_upper=not lower, has_vectors=not eigvals_only)
    return _chosen(found, subset)


def _dense(band: Any, *, is_lower: bool) -> Any:
    """Return the matrix of which a band stores columns: one triangle, and zeros.

    One element beyond a row of its transpose is the diagonal of the next, so that columns are rows of a matrix that is
    one column wider.
    """
    height, order = band.shape
    stored, column = np.arange(height, like=band), np.arange(order, like=band)[:, None]
    is_inside = stored + column < order if is_lower else stored + column >= height - 1
    rows = np.zeros_like(band, shape=(order, order + 1))
    rows[:, :height] = np.where(is_inside, band.T, band.dtype.type(0))
    first = 0 if is_lower else height - 1
    return rows.reshape(-1)[first : first + order * order].reshape(order, order).T


@implements("scipy.linalg.eigvals_banded")
def eigvals_banded(
    a_band: Any,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.eigvals_banded`."""
    return eig_banded(a_band, lower, True, overwrite_a_band, select, select_range, 0, check_finite)
