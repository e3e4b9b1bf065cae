"""Singular value decompositions of any shape, and what is made of them, by kernels for small matrices and by QR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise, spectral
from oxinp._core.ops.factorise import prepared
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg import _normal_equations

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


def _weights(low: float) -> tuple[float, float, float]:
    """Return a, b and c of an iteration x (a + b x^2) / (1 + c x^2) that is best on [low, 1]."""
    d = math.cbrt(4 * (1 - low * low) / low**4)
    root = math.sqrt(1 + d)
    a = root + math.sqrt(8 - 4 * d + 8 * (2 - low * low) / (low * low * root)) / 2
    b = (a - 1) ** 2 / 4
    return a, b, a + b - 1


def _unitary(x: Any) -> Any:
    """Return the unitary polar factors of square matrices of norm at most 1.

    Source: Y. Nakatsukasa, Z. Bai, F. Gygi, Optimizing Halley's iteration for computing the matrix polar decomposition,
    2010. What singular values below `low` belong to is not unitary.
    """
    real = x.real.dtype.type
    epsilon = float(np.finfo(real).eps)
    low, order = epsilon / 4, x.shape[-1]
    eye = np.eye(order, dtype=x.dtype, like=x)
    while abs(1 - low) > 4 * epsilon:
        a, b, c = _weights(low)
        if c > 100:
            whole = np.broadcast_to(eye, x.shape)
            both: Any = np.concatenate([x * real(math.sqrt(c)), whole], axis=-2)
            q, _ = factorise.qr(both, "reduced")
            step = q[..., :order, :] @ adjoint(q[..., order:, :]) * real((a - b / c) / math.sqrt(c))
        else:
            factor = factorise.cholesky(adjoint(x) @ x * real(c) + eye)
            half = solve_triangular(factor, adjoint(x), Triangle(0, True))
            step = adjoint(solve_triangular(factor, half, Triangle(2, True))) * real(a - b / c)
        x = x * real(b / c) + step
        low = min(1.0, low * (a + b * low * low) / (1 + c * low * low))
    return x


def _polar(a: Any) -> tuple[Any, Any]:
    """Return the unitary and the Hermitian polar factors of square matrices, these by their lower triangles."""
    magnitude = np.abs(a)
    rows, columns = magnitude.sum(axis=-1).max(axis=-1), magnitude.sum(axis=-2).max(axis=-1)
    bound = np.sqrt(rows) * np.sqrt(columns)
    if not bool(np.isfinite(bound).all()):
        raise Unsupported("infinities or NaNs, of which NumPy says what becomes")
    bound = np.where(bound > 0, bound, bound.dtype.type(1))
    u = _unitary(a / bound[..., None, None])
    h = adjoint(u) @ a
    return u, (h + adjoint(h)) * a.real.dtype.type(0.5)


def _by_polar(a: Any) -> tuple[Any, Any, Any]:
    """Return U, the values and V^H of square matrices that no block holds: by those of the Hermitian polar factor.

    Source: N. Higham and P. Papadimitriou, A parallel algorithm for computing the polar decomposition, 1994.
    """
    unitary, h = _polar(a)
    w, v = spectral.eigh(h)
    # Copies: products of columns in the opposite order would have no fast kernel, here or where they are used.
    s, v = np.maximum(w[..., ::-1], w.dtype.type(0)), v[..., ::-1].copy()
    u = unitary @ v
    # Of values that are negligible, what the unitary factor has is not.
    if bool((s[..., -1] <= s[..., 0] * (a.shape[-1] * np.finfo(s.dtype).eps)).any()):
        q, r = factorise.qr(u, "reduced")
        diagonal = np.diagonal(r, axis1=-2, axis2=-1)
        sign = np.where(diagonal.real < 0, diagonal.dtype.type(-1), diagonal.dtype.type(1))
        u = q * sign[..., None, :]
    return u, s, adjoint(v).copy()


def _economic(a: Any) -> tuple[Any, Any, Any]:
    """Return U, the values and V^H, by the kernels."""
    if not spectral.has_kernel(a, spectral.SINGULAR, has_vectors=True):
        _possible(a)
        return _by_polar(a)
    (u, s, vh), num_zero = spectral.svd(a)
    if num_zero:
        if u.shape[-2] >= vh.shape[-1]:
            u = completed(u)
        else:
            vh = adjoint(completed(adjoint(vh)))
    return u, s, vh


def _possible(a: Any) -> None:
    """Raise `Unsupported` where there are no kernels for the polar factors' spectra."""
    if a.shape[-1] != a.shape[-2] or not spectral.has_kernel(a, spectral.EIGEN, has_vectors=True):
        msg = f"singular values of matrices of {a.shape[-2:]} elements"
        raise Unsupported(msg)


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
        a = a if rows == columns else factorise.qr(a, "r")
    if spectral.has_kernel(a, spectral.SINGULAR, has_vectors=False):
        return spectral.svd(a, has_vectors=False)[0][0]
    _possible(a)
    (w,) = spectral.eigh(_polar(a)[1], has_vectors=False)
    return np.maximum(w[..., ::-1], w.dtype.type(0))


def lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution of least norm, residuals, rank and singular values, of matrices both."""
    a, b = prepared(a, b, are_square=False)
    rows, columns = a.shape
    found = _normal_equations.solve(a, b, rcond) if _normal_equations.is_possible(a, b) else None
    if found is not None:
        return found
    if rows > TALL * columns:
        q, r = factorise.qr(a, "reduced")
        u, s, vh = _economic(r)
        inner = adjoint(u) @ (adjoint(q) @ b)
    else:
        u, s, vh = svd(a, full_matrices=False)
        inner = adjoint(u) @ b
    is_large = s > s[0] * s.dtype.type(rcond)
    rank = np.count_nonzero(is_large)
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
