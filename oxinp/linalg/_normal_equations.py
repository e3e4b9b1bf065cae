"""Least squares of tall matrices by their normal equations, where columns are nearly independent, and one correction.

The device reads the matrix for A^T A and A^T b, for the residual r = b - A x and for A^T r; the host factors A^T A,
whose order is small. Its condition is the square of that of A, which x has as an error; the correction, of the residual
that A itself leaves, has this error only in itself.

Source: A. Bjorck, Stability analysis of the method of seminormal equations for linear least squares problems, 1987.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours
from oxinp._core.ops import inner_products

LEAST_ROWS, LEAST_SHAPE = 1 << 13, 32  # rows, and rows over columns, from which the host's part is small
MOST_CONDITION = 32.0  # up to which singular values of A^T A give those of A to some units of rounding of the largest
LEAST_SQUARE, MOST_SQUARE = 2.0**-800, 2.0**800  # norms of columns, squared, of which no product vanishes or overflows


def is_possible(a: Any, b: Any) -> bool:
    """Whether a matrix is so tall, and there are kernels for it and its right-hand sides."""
    rows, columns = a.shape
    return rows >= max(LEAST_ROWS, LEAST_SHAPE * columns) and inner_products.is_possible(a, b)


def solve(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return the least-squares solution, residuals, rank and singular values; None where only QR gives them.

    Parameters
    ----------
    a, b : ndarray, (M, N) and (M, K)
        See `is_possible`.
    rcond : float
        Singular values that are not above this times the largest one count as zeros.
    """
    columns = a.shape[1]
    products = inner_products.inner_products(a, b)[:columns]
    gram, right = products[:, :columns], products[:, columns:]
    squares = np.diagonal(gram)
    if not (np.isfinite(products).all() and squares.min() > LEAST_SQUARE and squares.max() < MOST_SQUARE):
        return None
    try:
        lower = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    s = np.linalg.svdvals(lower)
    if not (s[0] <= MOST_CONDITION * s[-1] and s[-1] > s[0] * rcond):
        return None
    x = np.linalg.solve(gram, right)
    left = inner_products.inner_products(a, b - a @ as_ours(x))[:, columns:]
    slopes, squares = left[:columns], np.diagonal(left[columns:])
    correction = np.linalg.solve(gram, slopes)
    # The correction takes as much off the squares of the residuals' norms.
    residuals = np.maximum(squares - (correction * slopes).sum(axis=0), 0)
    return as_ours(x + correction), as_ours(residuals), columns, as_ours(s)


__all__ = ["is_possible", "solve"]
