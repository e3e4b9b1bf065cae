"""Banded systems: LAPACK factors the band on the host, the device solves for many right-hand sides.

A factorisation goes along the band row by row, a few multiply-adds each: nothing of it is parallel, and it is small
beside the right-hand sides, each of which is a thread's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import may_overwrite
from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.fallback import call
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import is_hosted
from oxinp._core.ops import banded, factorise
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import HAS_STACKS, LAPACK, VECTORS, each_of_stacks, given, or_scipy

MIN_COLUMNS = 32  # a warp of right-hand sides
DENSE = 256  # rows up to which the matrices of stacks are solved with as dense ones
HOST_WEIGHT = 8.0  # of substitutions, which go over the right-hand sides' rows a few times

for _function in (scipy.linalg.solve_banded, scipy.linalg.solveh_banded, scipy.linalg.cho_solve_banded):
    may_overwrite(_function)


def _right(b: Any, order: int, bands: tuple[int, int]) -> None:
    """Raise `Unsupported` for right-hand sides that are left to SciPy."""
    if b.ndim != 2 or b.shape[0] != order or b.shape[1] < MIN_COLUMNS or order < 2 or b.dtype.char not in LAPACK:
        raise Unsupported("few right-hand sides, or what SciPy refuses")
    if is_hosted((b,)) and placement.is_host(b.nbytes, HOST_WEIGHT):
        raise Unsupported("few elements on the host")
    if not banded.is_possible(*bands):
        raise Unsupported("a band that is too wide for a thread's registers")


def _rows(band: np.ndarray[Any, Any], first: int, count: int, step: int) -> np.ndarray[Any, Any]:
    """Return for every column of a stored band `count` elements, from its row `first` on, down or right of each other.

    Parameters
    ----------
    step : int
        1 for elements of a column, below each other; -1 for those of a row, which lie in the columns to the right.
    """
    order = band.shape[1]
    table = np.zeros((order, count), band.dtype)
    for i in range(min(count, order)):
        table[: order - i, i] = band[first + i, : order - i] if step > 0 else band[first - i, i:]
    return table


def _lu(ab: np.ndarray[Any, Any], lower: int, upper: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of L and U, and how far below each row the one is with which it changes places."""
    (gbtrf,) = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs(("gbtrf",), (ab,))
    whole = np.zeros((2 * lower + upper + 1, ab.shape[1]), gbtrf.dtype)
    whole[lower:] = ab
    factors, pivots, info = gbtrf(whole, lower, upper)
    if info:
        raise Unsupported("a band of which SciPy says what is wrong")
    places = (pivots - np.arange(len(pivots))).astype(np.uint32)
    diagonal = lower + upper
    return _rows(factors, diagonal, lower + 1, 1), _rows(factors, diagonal, diagonal + 1, -1), places


def _cholesky_tables(c: np.ndarray[Any, Any], *, is_lower: bool) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of L and L^H of a factor's band."""
    count = len(c)
    table = _rows(c, 0, count, 1) if is_lower else _rows(c, count - 1, count, -1)
    return (table, table.conj()) if is_lower else (table.conj(), table)


def _factored(ab: np.ndarray[Any, Any], *, is_lower: bool) -> tuple[np.ndarray[Any, Any], ...]:
    (pbtrf,) = importlib.import_module("scipy.linalg.lapack").get_lapack_funcs(("pbtrf",), (ab,))
    c, info = pbtrf(ab, lower=is_lower)
    if info:
        raise Unsupported("a band of which SciPy says what is wrong")
    return _cholesky_tables(c, is_lower=is_lower)


def _operands(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a band and right-hand sides in the dtype that LAPACK computes in."""
    dtype = factorise.result_dtype(a, b)
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def _solved(band: Any, b: Any, widths: tuple[int, int], tables: Callable[[Any], Any], name: str) -> Any:
    """Return solutions of systems whose factors LAPACK finds on the host.

    Parameters
    ----------
    band, b : ndarray
    widths : tuple of int
        Elements below the diagonal of the first factor, and above that of the second one.
    tables : callable
        Returns what the device solves with, of the band as NumPy's array.
    name : str
        What it is counted as.
    """
    _right(b, band.shape[1], widths)
    band, b = _operands(band, b)
    factors = call(tables, (band,), {}, name=f"scipy.linalg.{name}")
    return banded.solve(b, *map(as_ours, factors))


def _are_dense(ab: Any, b: Any) -> bool:
    """Whether there are several systems, of so few rows that their matrices may be dense ones.

    Raises
    ------
    Unsupported
        SciPy takes no stacks, or says what is wrong.
    """
    if ab.ndim == 2 and b.ndim <= 2:
        return False
    order = ab.shape[-1]
    if not HAS_STACKS or not b.size or b.shape[0 if b.ndim == 1 else -2] != order or b.dtype.char not in LAPACK:
        raise Unsupported("what SciPy refuses")
    if is_hosted((ab, b)) and placement.is_host(max(ab.nbytes, b.nbytes), HOST_WEIGHT):
        raise Unsupported("few elements on the host")
    return bool(order <= DENSE)


def _dense(ab: Any, diagonal: int) -> Any:
    """Return the matrices of bands, of which a row has the diagonals."""
    *_, height, order = ab.shape
    row, column = np.arange(order, like=ab)[:, None], np.arange(order, like=ab)
    stored = row - column + diagonal
    is_stored = (stored >= 0) & (stored < height)
    return np.where(is_stored, ab[..., np.clip(stored, 0, height - 1), column], ab.dtype.type(0))


def _solved_by_triangles(factor: Any, b: Any, steps: tuple[Triangle, Triangle]) -> Any:
    for step in steps:
        b = solve_triangular(factor, b, step)
    return b


_BY_LOWER = Triangle(0, True), Triangle(2, True)
_BY_UPPER = Triangle(2), Triangle(0)


@implements("scipy.linalg.solve_banded")
@or_scipy
def solve_banded(
    l_and_u: Any,
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.solve_banded`."""
    lower, upper = map(int, l_and_u)
    ab, b = given(ab, b, check_finite=check_finite)
    if ab.ndim < 2 or min(lower, upper) < 0 or ab.shape[-2] != lower + upper + 1 or ab.dtype.char not in LAPACK:
        raise Unsupported("what SciPy refuses")
    if _are_dense(ab, b):
        return factorise.solve(_dense(ab, upper), b)
    return _solve_band(ab, b, lower, upper)


@each_of_stacks(scipy.linalg.solve_banded, ab=2, b=VECTORS)
def _solve_band(ab: Any, b: Any, lower: int, upper: int) -> Any:
    return _solved(ab, b, (lower, lower + upper), lambda ab: _lu(ab, lower, upper), "solve_banded: factors")


@implements("scipy.linalg.solveh_banded")
@or_scipy
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,  # noqa: ARG001
    overwrite_b: bool = False,  # noqa: ARG001
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.solveh_banded`: by the Cholesky factor, tridiagonal systems too."""
    ab, b = given(ab, b, check_finite=check_finite)
    if ab.ndim < 2 or not ab.size or ab.dtype.char not in LAPACK:
        raise Unsupported("what SciPy refuses")
    if _are_dense(ab, b):
        whole = _dense(ab, 0) if lower else adjoint(_dense(ab, ab.shape[-2] - 1))
        return _solved_by_triangles(factorise.cholesky(whole), b, _BY_LOWER)
    return _solve_definite_band(ab, b, is_lower=bool(lower))


@each_of_stacks(scipy.linalg.solveh_banded, ab=2, b=VECTORS)
def _solve_definite_band(ab: Any, b: Any, *, is_lower: bool) -> Any:
    widths = (len(ab) - 1,) * 2
    return _solved(ab, b, widths, lambda ab: _factored(ab, is_lower=is_lower), "solveh_banded: factors")


@implements("scipy.linalg.cho_solve_banded")
@or_scipy
def cho_solve_banded(
    cb_and_lower: Any,
    b: Any,
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.cho_solve_banded`."""
    cb, lower = cb_and_lower
    cb, b = given(cb, b, check_finite=check_finite)
    is_lower = bool(np.asarray(lower).all())
    if cb.ndim < 2 or not cb.size or cb.dtype.char not in LAPACK or is_lower != bool(np.asarray(lower).any()):
        raise Unsupported("triangles of both kinds, or what SciPy refuses")
    if _are_dense(cb, b):
        factor = _dense(cb, 0 if is_lower else cb.shape[-2] - 1)
        return _solved_by_triangles(factor, b, _BY_LOWER if is_lower else _BY_UPPER)
    return _cho_solve_band(cb, b, is_lower=is_lower)


@each_of_stacks(scipy.linalg.cho_solve_banded, cb=2, b=VECTORS)
def _cho_solve_band(cb: Any, b: Any, *, is_lower: bool) -> Any:
    widths = (len(cb) - 1,) * 2
    return _solved(cb, b, widths, lambda cb: _cholesky_tables(cb, is_lower=is_lower), "cho_solve_banded: tables")
