"""Functions of `scipy.linalg` that are made of products and factorisations: least squares, bases, exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.fallback import placed_on_host
from oxinp._core.lazy import placement
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import host_view
from oxinp._core.lazy.record import is_hosted
from oxinp._core.ops import exponential, factorise, spectral
from oxinp._core.ops.crossover import HOST_WEIGHT, crossover
from oxinp.linalg import _spectral
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg import _complete_orthogonal
from oxinp.scipy.linalg._given import (
    SCIPY,
    VECTORS,
    each_of_stacks,
    finite_matrix,
    given,
    in_double,
    matrices,
    or_scipy,
    several,
)

POWERS, FIRST = (1, 2, 3, 6), 19  # whose norms are found; what the error of Taylor's polynomial begins with
THETA = {"f": 3.010066362817634, "d": 1.090863719290036}
"""1-norm up to which its backward error is below the rounding unit."""
MAX_NBYTES = 1 << 28
"""Of a stack of matrices of which exponentials are taken together."""
TAKES_VECTORS = SCIPY >= (1, 17)
"""Whether SciPy makes matrices of each of several vectors."""
_TELLS_OF_LOST_RANK = SCIPY >= (1, 18)
"""Whether SciPy's residuals are NaN where there are too few independent columns for them."""


@implements("scipy.linalg.lstsq")
@placed("svd", scipy.linalg.lstsq)
@or_scipy
@each_of_stacks(scipy.linalg.lstsq, a=2, b=VECTORS)
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,  # noqa: ARG001
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:
    """See `scipy.linalg.lstsq`."""
    (a,) = matrices(a, check_finite=check_finite)
    (b,) = given(b, check_finite=check_finite)
    if a.ndim != 2 or b.ndim not in (1, 2) or len(a) != len(b) or not b.size or b.dtype.char not in "fdFDilqILQ":
        raise Unsupported("stacks, or what SciPy refuses")
    if lapack_driver not in (None, "gelsd", "gelss", "gelsy"):
        raise Unsupported("a driver that SciPy refuses")
    dtype = factorise.result_dtype(a, b)
    if lapack_driver == "gelsy":
        right = (b[:, None] if b.ndim == 1 else b).astype(dtype, copy=False)
        limit = np.finfo(dtype).eps if cond is None else cond
        x, rank = _complete_orthogonal.solve(a.astype(dtype, copy=False), right, limit)
        return x[:, 0] if b.ndim == 1 else x, as_ours(np.array([], dtype)), rank, None
    limit = np.finfo(dtype).eps if cond is None or cond < 0 else cond
    x, residuals, rank, s = _spectral.lstsq(a, b[:, None] if b.ndim == 1 else b, limit)
    if residuals is None:
        is_told = _TELLS_OF_LOST_RANK and len(a) > a.shape[1]
        residuals = as_ours(np.full(b.shape[1:] if is_told else 0, np.nan, dtype))
    elif b.ndim == 1:
        residuals = residuals[0]
    return x[:, 0] if b.ndim == 1 else x, residuals, int(rank), s


def _limit(s: Any, shape: tuple[int, ...], atol: Any, rtol: Any) -> Any:
    """Return the value up to which singular values count as zeros."""
    atol = 0.0 if atol is None else atol
    rtol = max(shape) * np.finfo(s.dtype).eps if rtol is None else rtol
    if atol < 0 or rtol < 0:
        raise ValueError("atol and rtol values must be positive.")
    return atol + s.max(axis=-1) * s.dtype.type(rtol)


def _reciprocals(s: Any, limit: Any) -> tuple[Any, Any]:
    """Return one over values, zero for those up to a limit, and which were more."""
    is_large = np.abs(s) > limit
    one = s.dtype.type(1)
    return np.where(is_large, one / np.where(is_large, s, one), s.dtype.type(0)), is_large


@implements("scipy.linalg.pinv")
@placed("svd", scipy.linalg.pinv)
@or_scipy
@each_of_stacks(scipy.linalg.pinv, a=2)
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """See `scipy.linalg.pinv`."""
    (a,) = matrices(a, check_finite=check_finite)
    if a.ndim != 2:
        raise Unsupported("stacks")
    u, s, vh = _spectral.svd(a, full_matrices=False)
    inverses, is_large = _reciprocals(s, _limit(s, a.shape, atol, rtol))
    made = adjoint(vh) @ (inverses[:, None] * adjoint(u))
    return (made, np.count_nonzero(is_large)) if return_rank else made


@implements("scipy.linalg.pinvh")
@placed("eigh", scipy.linalg.pinvh)
@or_scipy
@each_of_stacks(scipy.linalg.pinvh, a=2)
def pinvh(
    a: Any,
    atol: Any = None,
    rtol: Any = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.pinvh`."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    if a.ndim != 2:
        raise Unsupported("stacks")
    w, v = spectral.eigh(a, is_upper=not lower)
    inverses, is_large = _reciprocals(w, _limit(np.abs(w), a.shape, atol, rtol))
    made = (v * inverses) @ adjoint(v)
    return (made, int(np.count_nonzero(is_large))) if return_rank else made


@implements("scipy.linalg.polar")
@placed("svd", scipy.linalg.polar)
@or_scipy
def polar(a: Any, side: str = "right") -> Any:
    """See `scipy.linalg.polar`."""
    if side not in ("right", "left"):
        raise Unsupported("what SciPy refuses")
    (a,) = matrices(a, check_finite=True)
    u, s, vh = _spectral.svd(a, full_matrices=False)
    wide = s[..., None, :]
    found = u @ vh, (adjoint(vh) * wide) @ vh if side == "right" else (u * wide) @ adjoint(u)
    return several(scipy.linalg.polar, found) if a.ndim > 2 else found


def _rank(s: Any, shape: tuple[int, ...], rcond: Any) -> int:
    """Return how many singular values are not negligible."""
    rcond = np.finfo(s.dtype).eps * max(shape) if rcond is None else rcond
    return int(np.count_nonzero(s > s.max() * s.dtype.type(rcond)))


@implements("scipy.linalg.orth")
@placed("svd", scipy.linalg.orth)
@or_scipy
@each_of_stacks(scipy.linalg.orth, A=2)
def orth(A: Any, rcond: Any = None) -> Any:
    """See `scipy.linalg.orth`."""
    (a,) = matrices(A, check_finite=True)
    if a.ndim != 2:
        raise Unsupported("stacks")
    u, s, _ = _spectral.svd(a, full_matrices=False)
    return u[:, : _rank(s, a.shape, rcond)]


@implements("scipy.linalg.subspace_angles")
@or_scipy
@each_of_stacks(scipy.linalg.subspace_angles, A=2, B=2)
def subspace_angles(A: Any, B: Any) -> Any:
    """See `scipy.linalg.subspace_angles`."""
    a, b = matrices(A, B, check_finite=True)
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise Unsupported("what SciPy refuses")
    a, b = orth(a), orth(b)
    inner = adjoint(a) @ b
    cosines = _spectral.svdvals(inner)
    is_small = cosines**2 >= 0.5
    outer = b - a @ inner if a.shape[1] >= b.shape[1] else a - b @ adjoint(inner)
    by_cosine = np.arccos(np.clip(cosines[::-1], -1.0, 1.0))
    if not bool(is_small.any()):
        return by_cosine
    return np.where(is_small, np.arcsin(np.clip(_spectral.svdvals(outer), -1.0, 1.0)), by_cosine)


@implements("scipy.linalg.rq")
@each_of_stacks(scipy.linalg.rq, a=2)
def rq(
    a: Any,
    overwrite_a: bool = False,  # noqa: ARG001
    lwork: Any = None,  # noqa: ARG001
    mode: str = "full",
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.rq`: QR of the adjoint, rows and columns in reverse."""
    (a,) = matrices(a, check_finite=check_finite)
    if a.ndim != 2 or mode not in ("full", "r", "economic"):
        raise Unsupported("stacks, or what SciPy refuses")
    q, r = factorise.qr(adjoint(a[::-1, ::-1]), "reduced" if mode == "economic" else "complete")
    r = adjoint(r)[::-1, ::-1]
    return r if mode == "r" else (r, adjoint(q)[::-1, ::-1])


@implements("scipy.linalg.null_space")
@placed("svd", scipy.linalg.null_space)
@or_scipy
@each_of_stacks(scipy.linalg.null_space, A=2)
def null_space(
    A: Any,
    rcond: Any = None,
    *,
    overwrite_a: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """See `scipy.linalg.null_space`."""
    (a,) = matrices(A, check_finite=check_finite)
    if a.ndim != 2 or lapack_driver not in ("gesdd", "gesvd"):
        raise Unsupported("stacks, or what SciPy refuses")
    _, s, vh = _spectral.svd(a, full_matrices=True)
    return adjoint(vh[_rank(s, a.shape, rcond) :])


@implements("scipy.linalg.norm")
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """See `scipy.linalg.norm`."""
    (a,) = given(a, check_finite=check_finite)
    return np.linalg.norm(a, ord=ord, axis=axis, keepdims=keepdims)


@implements("scipy.linalg.expm")
@placed("solve", scipy.linalg.expm)
@or_scipy
def expm(A: Any) -> Any:
    """See `scipy.linalg.expm`: scaling and squaring of Taylor's polynomial of degree 18, alike for all of a stack.

    By as much as norms of powers ask for, see A. Al-Mohy and N. Higham, A new scaling and squaring algorithm for the
    matrix exponential, 2009: what the errors begin with is the power 19.
    """
    a: Any = factorise.prepared(*matrices(A, check_finite=False, are_square=True))[0]
    if a.shape[-1] == 1:
        raise Unsupported("what SciPy computes element by element")
    return _exponential(a, 0)


def _exponential(a: Any, num_squares: int) -> Any:
    """Return the exponential of a matrix, squared some times."""
    if not exponential.has_device():
        raise Unsupported("no device")
    *powers, found = exponential.powers(a)
    norms = host_view(found).tolist()
    if not all(map(math.isfinite, norms)):
        if not math.isfinite(norms[0]):
            raise Unsupported("infinities or NaNs")
        exponent = math.frexp(norms[0])[1]
        return _exponential(a * a.real.dtype.type(2.0**-exponent), num_squares + exponent)
    more = _scale(norms, THETA[a.real.dtype.char])
    return exponential.polynomial(a, tuple(powers), more, num_squares + more)


def _scale(norms: list[float], theta: float) -> int:
    """Return the power of two by which a matrix is divided, for the norms of its powers of `POWERS`.

    The error begins with the power 19: no later one may be larger than that of a matrix of norm theta. The norm of a
    power is at most the product of those of powers that it is made of; from 38 on, these are of 19 to 37.
    """
    logarithms = {degree: math.log2(x) if x else -math.inf for degree, x in zip(POWERS, norms, strict=True)}
    bounds = [0.0]
    for degree in range(1, 2 * FIRST):
        bounds.append(min(bounds[degree - part] + x for part, x in logarithms.items() if part <= degree))
    largest = max(bounds[degree] / degree for degree in range(FIRST, 2 * FIRST))
    return max(0, math.ceil(largest - math.log2(theta))) if math.isfinite(largest) else 0


@implements("scipy.linalg.expm_frechet")
@or_scipy
@each_of_stacks(scipy.linalg.expm_frechet, A=2, E=2)
def expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    """See `scipy.linalg.expm_frechet`: of the exponential of [[A, E], [0, A]], whatever the method."""
    a, e = matrices(A, E, check_finite=check_finite, are_square=True)
    if method not in (None, "SPS", "blockEnlarge") or a.ndim != 2 or a.shape != e.shape or len(a) == 1:
        raise Unsupported("stacks, numbers, or what SciPy refuses")
    a, e = map(in_double, factorise.prepared(a, e))
    order = len(a)
    above, below = np.concatenate([a, e], axis=1), np.concatenate([np.zeros_like(a), a], axis=1)
    found = _exponential(np.concatenate([above, below]), 0)
    derivative = found[:order, order:]
    return (found[:order, :order], derivative) if compute_expm else derivative


@implements("scipy.linalg.expm_cond")
@or_scipy
@each_of_stacks(scipy.linalg.expm_cond, A=2)
def expm_cond(A: Any, check_finite: bool = True) -> Any:
    """See `scipy.linalg.expm_cond`: the derivatives for all elements at once, of which singular values are taken."""
    a = finite_matrix(A, check_finite=check_finite, are_square=True)
    if len(a) == 1:
        raise Unsupported("a number")
    prepared: Any = factorise.prepared(a)
    a = in_double(prepared[0])
    order = len(a)
    if is_hosted((a,)):
        cost = crossover("svdvals", a.dtype).cost(order * order, 1)
        if placement.takes_to_host("expm_cond", cost, HOST_WEIGHT):
            return placed_on_host(scipy.linalg.expm_cond, (A,), {"check_finite": check_finite})
    unit = np.eye(order * order, dtype=a.dtype, like=a).reshape(-1, order, order)
    at_once = max(1, MAX_NBYTES // (4 * order * order * a.dtype.itemsize))
    exponentials = [_derivatives(a, unit[i : i + at_once]) for i in range(0, len(unit), at_once)]
    whole = exponentials[0][0, :order, :order]
    kronecker = np.concatenate([x[:, :order, order:].reshape(len(x), -1) for x in exponentials])
    return _spectral.svdvals(kronecker)[0] * np.linalg.norm(a) / np.linalg.norm(whole)


def _derivatives(a: Any, directions: Any) -> Any:
    """Return the exponentials of [[A, E], [0, A]], whose upper right blocks are derivatives, for a stack of E."""
    wide = np.broadcast_to(a, directions.shape)
    above = np.concatenate([wide, directions], axis=-1)
    return _exponential(np.concatenate([above, np.concatenate([np.zeros_like(directions), wide], axis=-1)], axis=-2), 0)


def _numbers(count: int) -> Any:
    return as_ours(np.arange(count))


def vectors(x: Any) -> Any:
    """Return vectors with elements, several where SciPy takes them."""
    (x,) = given(x, check_finite=False)
    if not x.size or x.ndim < 1 or (x.ndim > 1 and not TAKES_VECTORS):
        raise Unsupported("stacks that SciPy refuses, or what has no elements")
    return x


def column_and_row(c: Any, r: Any, default: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the first columns and one more row of matrices; the row is what a function makes of the column."""
    c = vectors(c)
    r = default(c) if r is None else vectors(r)
    batch = np.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    return tuple(x if x.shape[:-1] == batch else np.broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r))


@implements("scipy.linalg.toeplitz")
def toeplitz(c: Any, r: Any = None) -> Any:
    """See `scipy.linalg.toeplitz`."""
    c, r = column_and_row(c, r, methodcaller("conjugate"))
    diagonals = np.concatenate([c[..., ::-1], r[..., 1:]], axis=-1)
    return diagonals[..., _numbers(c.shape[-1])[::-1, None] + _numbers(r.shape[-1])]


@implements("scipy.linalg.hankel")
def hankel(c: Any, r: Any = None) -> Any:
    """See `scipy.linalg.hankel`."""
    c, r = column_and_row(c, r, np.zeros_like)
    if c.ndim > 1:
        raise Unsupported("several vectors, of which SciPy makes one")
    return np.concatenate([c, r[1:]])[_numbers(len(c))[:, None] + _numbers(len(r))]


@implements("scipy.linalg.circulant")
def circulant(c: Any) -> Any:
    """See `scipy.linalg.circulant`."""
    c = vectors(c)
    places = _numbers(c.shape[-1])
    return c[..., (places[:, None] - places) % len(places)]
