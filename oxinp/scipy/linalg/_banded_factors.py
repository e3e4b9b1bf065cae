"""Cholesky factors of bands, as `scipy.linalg.cholesky_banded`: a wide one by blocks, many narrow ones at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import may_overwrite
from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import is_hosted
from oxinp._core.lazy.views import view
from oxinp._core.ops import banded, factorise
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import LAPACK, given, or_scipy

WIDE = 224  # elements beside the diagonal from which one band is factored by blocks of so many rows
MANY = 64  # bands from which each is a thread's
HOST_WEIGHT = 8.0  # of a factor of a band, over reading it
_HAS_STACKS = hasattr(scipy.linalg.cholesky_banded, "__wrapped__")

may_overwrite(scipy.linalg.cholesky_banded)


@implements("scipy.linalg.cholesky_banded")
@or_scipy
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:  # noqa: ARG001 - a permission, of which no use is made
    """See `scipy.linalg.cholesky_banded`."""
    (ab,) = given(ab, check_finite=check_finite)
    if ab.ndim < 2 or not ab.size or ab.dtype.char not in LAPACK or ab.shape[-2] > ab.shape[-1]:
        raise Unsupported("what SciPy refuses, or what has no elements")
    if is_hosted((ab,)) and placement.is_host(ab.nbytes, HOST_WEIGHT):
        raise Unsupported("few elements on the host")
    ab = ab.astype(factorise.result_dtype(ab), copy=False)
    band, count = ab.shape[-2] - 1, ab.size // (ab.shape[-2] * ab.shape[-1])
    if count >= MANY and _HAS_STACKS:
        return banded.cholesky(ab, is_lower=bool(lower))
    if ab.ndim > 2 or band < WIDE:
        raise Unsupported("few narrow bands, row by row")
    return _by_blocks(ab) if lower else _turned(_by_blocks(_turned(ab, band)), -band, ab)


def _turned(ab: Any, shift: int, outside: Any = None) -> Any:
    """Return the adjoint of a stored triangle, as diagonals of the other one, shifted as these begin.

    Parameters
    ----------
    ab : ndarray, (1 + band, N)
    shift : int
        The band, of upper triangles; its negative, of lower ones.
    outside : ndarray, optional
        What is stored where the matrix has nothing.
    """
    rows, order = ab.shape
    number = np.arange(rows, like=ab)[:, None]
    distance = number if shift > 0 else number - (rows - 1)
    column = np.arange(order, like=ab) + distance
    made = factorise.conjugate(np.take_along_axis(ab[::-1], column % order, axis=1))
    return made if outside is None else np.where(column >= 0, made, outside)


def _windows(x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Return a view of contiguous elements by its strides in elements."""
    return view(
        x, lambda seen: np.lib.stride_tricks.as_strided(seen, shape, [step * seen.itemsize for step in strides])
    )


def _by_blocks(ab: Any) -> Any:
    """Return the factor of a lower triangle, as block tridiagonal: a block below the diagonal is upper triangular.

    A column of the band and what follows is a row of memory; so the columns of a block, and of the one below, are
    windows of it, each one element further.
    """
    rows, order = ab.shape
    band = rows - 1
    count = -(-order // band)
    padded = np.zeros_like(ab, shape=(count * band + 2, rows))
    padded[:order] = ab.T
    padded[order:, 0] = 1
    number = np.arange(count * band + 2, like=ab)[:, None]
    is_inside = number + np.arange(rows, like=ab) < order
    stored = np.where(is_inside | (np.arange(rows, like=ab) == 0), padded, ab.dtype.type(0)).reshape(-1)
    blocks = _windows(stored, (count, band, 2 * band), (band * rows, band, 1))
    diagonal = np.tril(blocks[..., :band].swapaxes(-1, -2))
    below = np.triu(blocks[..., band:].swapaxes(-1, -2))
    made, taken = np.zeros_like(ab, shape=(count, band, 2 * band)), None
    for i in range(count):
        block = diagonal[i] if taken is None else diagonal[i] - taken
        factor = factorise.cholesky(block)
        made[i, :, :band] = factor.T
        if i + 1 < count:
            beside = solve_triangular(factor, adjoint(below[i]), Triangle(0, True))
            made[i, :, band:] = factorise.conjugate(beside)
            taken = adjoint(beside) @ beside
    step = 2 * band
    columns = _windows(made.reshape(-1), (count, band, rows), (band * step, step + 1, 1)).reshape(-1, rows)[:order]
    is_inside = is_inside[:order]
    return as_ours(np.where(is_inside, columns, ab.T).T.copy())


__all__ = ["cholesky_banded"]
