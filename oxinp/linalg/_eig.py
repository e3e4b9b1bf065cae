"""Eigenvalues and vectors of general matrices: balanced, reduced and transformed back as LAPACK's xGEEV does.

The reduction to Hessenberg form, the products that make vectors of Schur vectors, and the sweeps of QR iterations on
large matrices are the device's, which also finds that most matrices are balanced. Balancing others, deflation,
iterations on small matrices, and eigenvectors of triangular ones are LAPACK's on the host, and counted as such.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._api.fronts import as_ours
from oxinp._core.host.fallback import call, count
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch, host_view
from oxinp._core.ops import hessenberg
from oxinp.linalg import _multishift, _qr_iterations


def _factor(a: Any) -> float:
    """Return the power of two that divides a matrix so that squares of its elements are normal, as xGEEV's scaling."""
    largest, info = float(np.abs(a).max()), np.finfo(a.dtype)
    exponent, most = math.frexp(largest)[1] if largest else 0, info.maxexp // 2 - info.nmant
    return math.ldexp(1.0, exponent - max(-most, min(most, exponent)))


class Balanced(NamedTuple):
    """A matrix with rows and columns permuted and scaled, as LAPACK's xGEBAL leaves it.

    Attributes
    ----------
    a : ndarray, (N, N)
    active : (int, int)
        First and last row of what is not triangular already.
    factor : float
        By which eigenvalues are multiplied.
    scale : ndarray, (N,), or None
        By which rows of vectors are multiplied; None where they remain as they are.
    rows : ndarray, (N,), or None
        Then, which row of vectors each row is.
    """

    a: Any
    active: tuple[int, int]
    factor: float
    scale: Any = None
    rows: Any = None

    def vectors(self, made: Any) -> Any:
        """Return vectors of the matrix that was balanced, of those of what was made of it."""
        return made if self.scale is None else (made * self.scale[:, None])[self.rows]


def is_balanced(a: Any, *, is_scaled: bool) -> bool:
    """Whether xGEBAL leaves a matrix as it is: no row or column is isolated, and norms are within a factor of two."""
    is_other = (a != 0) & ~np.eye(len(a), dtype=bool, like=a)
    is_kept = is_other.any(axis=0) & is_other.any(axis=1)
    if is_scaled:
        squares = a.real**2 + a.imag**2 if a.dtype.kind == "c" else a * a
        columns, rows = squares.sum(axis=0), squares.sum(axis=1)
        is_kept = is_kept & (rows <= 4 * columns) & (columns < 4 * rows)
    return bool(is_kept.all())


def balanced(a: Any, *, is_scaled: bool) -> Balanced:
    """Return a matrix permuted, scaled if asked for, and of such a size that squares neither overflow nor vanish.

    Raises
    ------
    Unsupported
        There is no kernel for it.
    """
    if not hessenberg.has_kernel(a) or a.shape[0] != a.shape[1]:
        raise Unsupported("stacks, or matrices that have no kernel")
    order, factor = len(a), _factor(a)
    if factor != 1:
        a = a / a.dtype.type(factor)
    if is_balanced(a, is_scaled=is_scaled):
        return Balanced(a, (0, order - 1), factor)
    lapack = importlib.import_module("scipy.linalg.lapack")
    host = host_view(as_ours(a))
    (gebal,) = lapack.get_lapack_funcs(("gebal",), (host,))
    made, low, high, told, _ = gebal(host, permute=True, scale=is_scaled)
    scale, rows = np.ones(order, told.dtype), np.arange(order)
    scale[low : high + 1] = told[low : high + 1]
    for row in (*range(low - 1, -1, -1), *range(high + 1, order)):
        other = int(told[row]) - 1
        rows[[row, other]] = rows[[other, row]]
    return Balanced(as_ours(made), (low, high), factor, as_ours(scale), as_ours(rows))


def _iterated(h: Any, active: tuple[int, int], name: str, *, has_vectors: bool) -> Any:
    """Return eigenvalues of a Hessenberg matrix, T and Z: what LAPACK has a part in, on the host, which is counted."""
    name = f"{name}: QR iterations"
    if len(h) >= _multishift.ORDER:
        count(name)
        return _multishift.iterate(h, active, has_vectors=has_vectors)
    return call(lambda h: tuple(_qr_iterations.iterate(h, active, has_vectors=has_vectors)), (h,), {}, name=name)


def eigvals(a: Any, name: str) -> Any:
    """Return eigenvalues of a matrix, complex, in the order of LAPACK's QR iterations.

    Parameters
    ----------
    a : ndarray, (N, N), float or complex
        Finite.
    name : str
        What is counted of the host.

    Raises
    ------
    LinAlgError
        They did not converge.
    Unsupported
        There is no kernel.
    """
    start = balanced(a, is_scaled=True)
    h, _, _ = hessenberg.reduce(start.a)
    values, _, _ = _iterated(h, start.active, name, has_vectors=False)
    return as_ours(values) * start.factor


def eig(a: Any, name: str) -> tuple[Any, Any]:
    """Return eigenvalues, complex, and vectors, columns of norm 1, whose largest component is real; see `eigvals`.

    Vectors of real matrices with real eigenvalues are real.
    """
    start = balanced(a, is_scaled=True)
    h, v, tau = hessenberg.reduce(start.a)
    values, t, z = _iterated(h, start.active, name, has_vectors=True)
    values = as_ours(values)
    vectors = start.vectors(hessenberg.multiply(v, tau, z @ _triangular_vectors(t)))
    return values * start.factor, _normalised(host_view(values), vectors)


def _triangular_vectors(t: Any) -> Any:
    """Return right eigenvectors of a quasi-triangular matrix, from the host; the device transposes T and them."""
    return as_ours(_qr_iterations.triangular_vectors(fetch(as_ours(t).T).T).T).T


def _normalised(values: np.ndarray[Any, Any], vectors: Any) -> Any:
    """Return vectors of norm 1, complex ones with their largest component real, of columns of their parts.

    That component is positive, but keeps the sign of its real part where the matrix is real, as in LAPACK.
    """
    is_real = values.imag == 0
    is_of_real = vectors.dtype.kind != "c"
    if is_of_real and is_real.all():
        vectors = vectors / np.abs(vectors).max(axis=0)
        return vectors / np.sqrt((vectors * vectors).sum(axis=0))
    if is_of_real:
        number = np.arange(len(values))
        above = values.imag > 0
        real, imag = as_ours(np.where(values.imag < 0, number - 1, number)), as_ours(number + above)
        sign = as_ours(np.where(is_real, 0.0, np.where(above, 1.0, -1.0)).astype(vectors.dtype))
        vectors = vectors[:, real] + 1j * (vectors[:, imag] * sign)
    vectors = vectors / np.maximum(np.abs(vectors.real), np.abs(vectors.imag)).max(axis=0)
    squares = vectors.real**2 + vectors.imag**2
    vectors = vectors / np.sqrt(squares.sum(axis=0))
    largest = np.argmax(squares, axis=0)[None]
    component = np.take_along_axis(vectors, largest, axis=0)
    turn = np.conjugate(component) / np.abs(component)
    kept = as_ours(is_real & is_of_real)
    if is_of_real:
        one = component.dtype.type(1)
        turn = np.where(kept, one, np.where(component.real < 0, -turn, turn))
    turned = vectors * turn
    rows = as_ours(np.arange(len(values)))[:, None]
    return np.where((rows == largest) & ~kept, turned.real.astype(turned.dtype), turned)


def schur(a: Any, name: str) -> tuple[Any, Any]:
    """Return T and Z of A = Z T Z^H, quasi-triangular of real matrices; see `eigvals`."""
    start = balanced(a, is_scaled=False)
    h, v, tau = hessenberg.reduce(start.a)
    _, t, z = _iterated(h, start.active, name, has_vectors=True)
    return t * t.dtype.type(start.factor), start.vectors(hessenberg.multiply(v, tau, z))


def hessenberg_form(a: Any, *, has_vectors: bool) -> tuple[Any, Any]:
    """Return H and, where it is asked for, Q of A = Q H Q^H."""
    if not hessenberg.has_kernel(a) or a.shape[0] != a.shape[1]:
        raise Unsupported("stacks, or matrices that have no kernel")
    if _factor(a) != 1:
        raise Unsupported("squares beyond the range")
    h, v, tau = hessenberg.reduce(a)
    return h, hessenberg.multiply(v, tau, np.eye(len(a), dtype=a.dtype, like=a)) if has_vectors else None


def refused(a: Any) -> None:
    """Raise NumPy's error for infinities and NaNs."""
    if not bool(np.isfinite(a).all()):
        raise LinAlgError("Array must not contain infs or NaNs")


__all__ = ["Balanced", "balanced", "eig", "eigvals", "hessenberg_form", "is_balanced", "refused", "schur"]
