"""Least squares of tall matrices by their normal equations, where columns are nearly independent, and one correction.

The device reads the matrix for A^H A and A^H b, and for the residual b - A x and A^H (b - A x); the host factors A^H A,
whose order is small. Its condition is the square of that of A, which x has as an error; the correction, of the residual
that A itself leaves, has this error only in itself.

Source: A. Bjorck, Stability analysis of the method of seminormal equations for linear least squares problems, 1987.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.fronts import as_ours
from oxinp._core.lazy.handle import host_view
from oxinp._core.ops import factorise, tall

LEAST_ROWS, LEAST_SHAPE = 1 << 13, 32  # rows, and rows over columns, from which the host's part is small
MOST_CONDITION = 32.0  # up to which singular values of A^H A give those of A to some units of rounding of the largest
LEAST_SQUARE, MOST_SQUARE = 2.0**-800, 2.0**800  # norms of columns, squared, of which no product vanishes or overflows


def is_possible(a: Any) -> bool:
    """Whether a matrix is so tall, and of double precision."""
    rows, columns = a.shape
    is_tall = rows >= max(LEAST_ROWS, LEAST_SHAPE * columns)
    return is_tall and columns <= tall.MOST_COLUMNS and a.dtype.char in "dD"


def solve(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return the least-squares solution, residuals, rank and singular values; None where only QR gives them.

    Parameters
    ----------
    a, b : ndarray, (M, N) and (M, K)
        Of double precision, see `is_possible`.
    rcond : float
        Singular values that are not above this times the largest one count as zeros.
    """
    columns = a.shape[1]
    adjoint = factorise.conjugate(a.swapaxes(0, 1))
    products = _read(np.concatenate([tall.inner_products(a), adjoint @ b], axis=1))
    gram, right = products[:, :columns], products[:, columns:]
    squares = np.diagonal(gram).real
    if not (np.isfinite(products).all() and squares.min() > LEAST_SQUARE and squares.max() < MOST_SQUARE):
        return None
    try:
        lower = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    s = np.linalg.svdvals(lower)
    if not (s[0] <= MOST_CONDITION * s[-1] and s[-1] > s[0] * rcond):
        return None
    x = scipy.linalg.cho_solve((lower, True), right, check_finite=False)
    left = b - a @ as_ours(x)
    norms = left.real**2 + left.imag**2 if left.dtype.kind == "c" else left**2
    read = _read(np.concatenate([adjoint @ left, norms.sum(axis=0)[None]]))
    correction = scipy.linalg.cho_solve((lower, True), read[:-1], check_finite=False)
    # What the correction takes off the squares of the residuals' norms.
    less = (correction.conj() * read[:-1]).real.sum(axis=0)
    residuals = np.maximum(read[-1].real - less, 0)
    return as_ours(x + correction), as_ours(residuals), columns, as_ours(s)


def _read(array: Any) -> np.ndarray[Any, Any]:
    """Return an array on the host."""
    return host_view(as_ours(array))


__all__ = ["is_possible", "solve"]
