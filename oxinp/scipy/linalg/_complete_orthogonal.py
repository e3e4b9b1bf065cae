"""Least squares by a complete orthogonal factorisation, as LAPACK's xGELSY: QR with pivoting, and of R's first rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.handle import host_view
from oxinp._core.ops import factorise
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg._spectral import adjoint


def rank(r: np.ndarray[Any, Any], rcond: float) -> int:
    """Return how many rows and columns of a triangle have a condition number below 1 / rcond, as it is estimated.

    Estimates grow row by row: singular vectors of the triangle so far, and one more number, are those of a triangle of
    order two, which is that of LAPACK's xLAIC1.

    Parameters
    ----------
    r : ndarray, (K, K)
        Its diagonal descends in magnitude.
    rcond : float
    """
    if not len(r) or r[0, 0] == 0:
        return 0
    sizes = [abs(r[0, 0])] * 2  # of the largest and the smallest singular value
    vectors = [np.ones(1, r.dtype)] * 2
    for i in range(1, len(r)):
        found = []
        for which, (size, x) in enumerate(zip(sizes, vectors, strict=True)):
            two = np.array([[size, np.vdot(x, r[:i, i])], [0, r[i, i]]])
            u, s, _ = np.linalg.svd(two)
            number = 0 if which == 0 else 1
            found.append((s[number], np.append(u[0, number] * x, u[1, number])))
        if found[0][0] * rcond > found[1][0]:
            return i
        sizes, vectors = [size for size, _ in found], [x for _, x in found]
    return len(r)


def solve(a: Any, b: Any, rcond: float) -> tuple[Any, int]:
    """Return X of least norm that minimises B - A X, and the rank of A; matrices both, of one dtype.

    Raises
    ------
    Unsupported
        There are no kernels.
    """
    order, q, r = factorise.pivoted_qr(a, "reduced")
    columns, depth = a.shape[1], r.shape[0]
    known = rank(host_view(r)[:, :depth], rcond)
    if not known:
        return np.zeros_like(b, shape=(columns, b.shape[1])), 0
    c = adjoint(q[:, :known]) @ b
    if known == columns:
        y = solve_triangular(r[:columns], c, Triangle())
    else:
        basis, lower = factorise.qr(adjoint(r[:known]), "reduced")
        y = basis @ solve_triangular(lower, c, Triangle(2))
    return y[np.argsort(order)], known


__all__ = ["rank", "solve"]
