"""Singular value decompositions of any shape, and what is made of them, by kernels for small matrices and by QR."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.ops import factorise, spectral
from oxinp._core.ops.factorise import prepared

TALL = 1.6  # rows over columns from which R is decomposed in the place of the matrix


def adjoint(a: Any) -> Any:
    """Return conjugate transposes."""
    return factorise.conjugate(a.swapaxes(-1, -2))


def hermitian(a: Any) -> Any:
    """Return the Hermitian matrices that lower triangles are those of."""
    (a,) = prepared(a)
    return np.tril(a) + adjoint(np.tril(a, -1))


def completed(vectors: Any) -> Any:
    """Return matrices of orthonormal columns, of which the last ones were zeros.

    Of the Householder reflectors of such columns, those of zeros are what is orthogonal to all before.
    """
    q, r = factorise.qr(vectors, "reduced")
    is_given = np.abs(np.diagonal(r, axis1=-2, axis2=-1)) > 0.5
    return np.where(is_given[..., None, :], vectors, q)


def _economic(a: Any) -> tuple[Any, Any, Any]:
    """Return U, the values and V^H, by the kernels."""
    (u, s, vh), num_zero = spectral.svd(a)
    if num_zero:
        if u.shape[-2] >= vh.shape[-1]:
            u = completed(u)
        else:
            vh = adjoint(completed(adjoint(vh)))
    return u, s, vh


def svd(a: Any, *, full_matrices: bool) -> tuple[Any, Any, Any]:
    """Return U, singular values and V^H; see `numpy.linalg.svd`."""
    (a,) = prepared(a, are_square=False)
    rows, columns = a.shape[-2:]
    if columns > rows:
        if is_direct(a, full_matrices=full_matrices):
            return _economic(a)
        u, s, vh = svd(adjoint(a), full_matrices=full_matrices)
        return adjoint(vh), s, adjoint(u)
    if is_direct(a, full_matrices=full_matrices):
        return _economic(a)
    q, r = factorise.qr(a, "complete" if full_matrices else "reduced")
    u, s, vh = _economic(r[..., :columns, :])
    first = q[..., :columns] @ u
    return np.concatenate([first, q[..., columns:]], axis=-1) if full_matrices and rows > columns else first, s, vh


def is_direct(a: Any, *, full_matrices: bool) -> bool:
    """Whether the kernels take the matrix itself, not R of it: where it is square, or nearly and small."""
    rows, columns = sorted(a.shape[-2:], reverse=True)
    if rows == columns:
        return True
    return not full_matrices and rows <= TALL * columns and spectral.has_kernel(a, spectral.SINGULAR, has_vectors=True)


def svdvals(a: Any) -> Any:
    """Return singular values, descending; see `numpy.linalg.svdvals`."""
    (a,) = prepared(a, are_square=False)
    rows, columns = a.shape[-2:]
    if columns > rows:
        a, rows, columns = a.swapaxes(-1, -2), columns, rows
    if rows > TALL * columns or not spectral.has_kernel(a, spectral.SINGULAR, has_vectors=False):
        a = factorise.qr(a, "r")
    return spectral.svd(a, has_vectors=False)[0][0]


def lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution of least norm, residuals, rank and singular values, of matrices both."""
    a, b = prepared(a, b, are_square=False)
    rows, columns = a.shape
    u, s, vh = svd(a, full_matrices=False)
    is_large = s > s[0] * s.dtype.type(rcond)
    rank = np.count_nonzero(is_large)
    inner = adjoint(u) @ b
    one = s.dtype.type(1)
    scaled = np.where(is_large[:, None], inner / np.where(is_large, s, one)[:, None], inner.dtype.type(0))
    x = adjoint(vh) @ scaled
    return x, _residuals(a, b, x) if int(rank) == columns < rows else None, rank, s


def _residuals(a: Any, b: Any, x: Any) -> Any:
    """Return the squares of the norms of the columns of B - A X."""
    left = b - a @ x
    squares = left.real**2 + left.imag**2 if left.dtype.kind == "c" else left**2
    return squares.sum(axis=0)


__all__ = ["adjoint", "completed", "hermitian", "lstsq", "svd", "svdvals"]
