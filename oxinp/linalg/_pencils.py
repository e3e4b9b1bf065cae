"""Eigenvalues and vectors of pencils A - w B, and left vectors: of one matrix, and corrected until residuals are small.

LAPACK's xGGEV iterates on both matrices. Here the pencil becomes B^-1 A, or where B is nearly singular that of a
rotated pair, cA + sB and cB - sA, whose eigenvectors are the same; what the inverse costs of accuracy a correction of
all vectors at once, as Newton's, brings back. Where residuals are larger than LAPACK's in the end, LAPACK computes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._api.fronts import as_ours
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch, host_view
from oxinp._core.ops import factorise
from oxinp.linalg import _eig
from oxinp.linalg._spectral import adjoint

ROTATIONS = ((1.0, 0.0), (math.cos(1.0), math.sin(1.0)), (0.0, 1.0))
"""c and s of pairs that are tried, one after the other."""
MAX_CORRECTIONS = 3
ALLOWED = 4.0
"""Rounding units that a residual may be over the norms of what it is of: LAPACK's are one to three."""
NEAR = 1e-8  # over the largest one: eigenvalues of so small a distance do not correct each other's vectors


class Eigen(NamedTuple):
    """Eigenvalues alpha / beta of a pencil.

    Attributes
    ----------
    alpha, beta : ndarray, (N,), complex
        NumPy's.
    right, left : ndarray, (N, N), or None
        Vectors as columns of norm 1; real where the pencil and all eigenvalues are.
    """

    alpha: np.ndarray[Any, Any]
    beta: np.ndarray[Any, Any]
    right: Any
    left: Any


def norms(a: Any) -> Any:
    """Return the norms of columns."""
    squares = a.real**2 + a.imag**2 if a.dtype.kind == "c" else a * a
    return np.sqrt(squares.sum(axis=0))


class _Pair:
    """A pencil while its vectors are corrected.

    Parameters
    ----------
    a, b : ndarray, (N, N)
        Of one dtype; B is not singular, or None for the identity.
    """

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b
        self.size_a, self.size_b = (1.0 if x is None else float(np.abs(x).sum(axis=0).max()) for x in (a, b))

    def times_b(self, v: Any) -> Any:
        """Return B V."""
        return v if self.b is None else self.b @ v

    def over_b(self, v: Any) -> Any:
        """Return B^-1 V."""
        return v if self.b is None else factorise.solve(self.b, v)

    def residual(self, w: Any, v: Any) -> tuple[Any, Any]:
        """Return A V - B V W, and the norms of its columns over what rounding may make of them."""
        left = self.a @ v - self.times_b(v) * w
        unit = float(np.finfo(v.dtype).eps)
        return left, norms(left) / ((np.abs(w) * self.size_b + self.size_a) * norms(v) * unit)

    def corrected(self, w: Any, v: Any) -> tuple[Any, Any, float]:
        """Return eigenvalues and vectors, columns by columns those of the least residual, and the largest of these."""
        left, ratio = self.residual(w, v)
        worst = float(ratio.max())
        for _ in range(MAX_CORRECTIONS):
            if not worst > 1 or not math.isfinite(worst):
                break
            try:
                change = factorise.solve(v, self.over_b(left))
            except LinAlgError:
                break
            following, vectors = self.step(w, v, change)
            rest, smaller = self.residual(following, vectors)
            is_better = smaller < ratio
            w, v = np.where(is_better, following, w), np.where(is_better, vectors, v)
            left, ratio = np.where(is_better, rest, left), np.where(is_better, smaller, ratio)
            before, worst = worst, float(ratio.max())
            if worst > before / 2:
                break
        return w, v, worst

    def step(self, w: Any, v: Any, change: Any) -> tuple[Any, Any]:
        """Return eigenvalues and vectors with a change, V^-1 B^-1 of the residual, of first order."""
        real = w.real.dtype.type
        gap = w - w[:, None]
        is_far = np.abs(gap) > real(NEAR) * np.abs(w).max()
        one, zero = w.dtype.type(1), w.dtype.type(0)
        vectors = v + v @ np.where(is_far, change / np.where(is_far, gap, one), zero)
        return w + np.diagonal(change), vectors / norms(vectors)


def _is_second(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which eigenvalues of a real pencil are conjugates of those before them."""
    is_complex = values.imag != 0
    return is_complex & (np.cumsum(is_complex) % 2 == 0)


def _in_pairs(v: Any, values: np.ndarray[Any, Any]) -> Any:
    """Return vectors of a real pencil as they are: those of conjugates conjugate, those of real eigenvalues real."""
    is_second = _is_second(values)
    v = v[:, as_ours(np.arange(len(values)) - is_second)]
    v = np.where(as_ours(is_second), np.conjugate(v), v)
    return np.where(as_ours(values.imag == 0), v.real.astype(v.dtype), v)


def _conjugates(w: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return eigenvalues of a real pencil, corrected ones, as those that were found before are: real, or conjugate."""
    found = np.where(values.imag == 0, w.real, w)
    second = np.flatnonzero(_is_second(values))
    found[second] = found[second - 1].conj()
    return found


def _vectors(pair: _Pair, values: np.ndarray[Any, Any], v: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """Return eigenvalues and vectors, corrected, whose residuals are LAPACK's.

    Raises
    ------
    Unsupported
        They are not.
    """
    is_real = pair.a.dtype.kind != "c"
    is_whole = is_real and v.dtype.kind != "c"
    start = values.real if is_whole else values
    w, v, worst = pair.corrected(as_ours(start.astype(v.dtype)), v)
    found = fetch(w)
    if is_real and not is_whole:
        found, v = _conjugates(found, values), _in_pairs(v, values)
        worst = float(pair.residual(as_ours(found), v)[1].max())
    if not worst <= ALLOWED:
        raise Unsupported("vectors whose residuals stay large")
    return found.astype(values.dtype), v / norms(v)


def scale_of(a: Any) -> float:
    """Return the power of two at a matrix's largest element."""
    largest = float(np.abs(a).max())
    if not largest or not math.isfinite(largest):
        raise Unsupported("zeros, infinities or NaNs")
    return math.ldexp(1.0, math.frexp(largest)[1])


def _left(pair: _Pair, v: Any) -> Any:
    """Return left vectors to begin with: of V^-1 B^-1, whose rows they are."""
    inverse = adjoint(factorise.inv(v))
    return inverse if pair.b is None else factorise.solve(adjoint(pair.b), inverse)


def eig(a: Any, b: Any, name: str, *, has_left: bool = False) -> Eigen:
    """Return eigenvalues of a pencil, and vectors.

    Parameters
    ----------
    a : ndarray, (N, N), float or complex
        Finite.
    b : ndarray, (N, N), or None
        Of the same dtype; None for the identity.
    name : str
        What is counted of the host.
    has_left : bool
        Left vectors, too.

    Raises
    ------
    LinAlgError
        Iterations did not converge.
    Unsupported
        The pencil is singular, or residuals are larger than LAPACK's.
    """
    if b is None:
        values, v = _eig.eig(a, name)
        values, pair = host_view(as_ours(values)), _Pair(a, None)
        left = _left_vectors(pair, values, v) if has_left else None
        return Eigen(values, np.ones_like(values), v, left)
    real = a.real.dtype.type
    scales = scale_of(a), scale_of(b)
    a, b = a * real(1 / scales[0]), b * real(1 / scales[1])
    for c, s in ROTATIONS:
        try:
            found = _rotated(a, b, (c, s), name, has_left=has_left)
        except (LinAlgError, Unsupported):
            continue
        return found._replace(alpha=found.alpha * real(scales[0]), beta=found.beta * real(scales[1]))
    raise Unsupported("a pencil that is singular, or nearly, in every direction")


def _rotated(a: Any, b: Any, rotation: tuple[float, float], name: str, *, has_left: bool) -> Eigen:
    """Return eigenvalues and vectors of a pencil by those of a rotated pair."""
    real = a.real.dtype.type
    c, s = map(real, rotation)
    pair = _Pair(a * c + b * s, b * c - a * s) if s else _Pair(a, b)
    start, v = _eig.eig(pair.over_b(pair.a), name)
    values, right = _vectors(pair, host_view(as_ours(start)), v)
    left = _left_vectors(pair, values, right) if has_left else None
    alpha, beta = values * c - s, values * s + c
    size = np.hypot(np.abs(alpha), np.abs(beta))
    alpha, beta = alpha / size, beta / size
    # As LAPACK, which takes for zero what is below a rounding unit of the norm.
    unit = len(values) * float(np.finfo(values.dtype).eps)
    return Eigen(alpha, np.where(np.abs(beta) <= unit, 0, beta), right, left)


def _left_vectors(pair: _Pair, values: np.ndarray[Any, Any], v: Any) -> Any:
    """Return left vectors, of the adjoint pair, in the order of the right ones."""
    other = _Pair(adjoint(pair.a), None if pair.b is None else adjoint(pair.b))
    return _vectors(other, values.conj(), _left(pair, v))[1]


__all__ = ["ROTATIONS", "Eigen", "eig", "norms", "scale_of"]
