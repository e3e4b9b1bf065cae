"""Functions of `scipy.linalg` of matrices as such: trigonometric and hyperbolic ones, roots, logarithms, signs."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise
from oxinp.scipy.linalg._functions import expm
from oxinp.scipy.linalg._general import schur
from oxinp.scipy.linalg._given import each_of_stacks, finite_matrix, in_double, matrices, or_scipy

MAX_STEPS = 20  # of Newton's iteration, which doubles the digits once it converges
MAX_ROOTS = 60  # of which a logarithm is taken: of the largest and the smallest norms
NEAR = 0.25  # 1-norm of the difference to the identity up to which 7 nodes give a logarithm in double precision
NODES = 7
INACCURATE = 1000  # rounding units of double precision from which SciPy warns
ALLOWED = 8  # times the rounding unit and the order: what a residual may be, over the norms that it is of


def _square(a: Any) -> Any:
    """Return a square matrix, in single or double precision; SciPy says what becomes of infinities and NaNs."""
    return factorise.prepared(finite_matrix(a, check_finite=False, are_square=True))[0]


def _exponentials(a: Any, *, is_imaginary: bool) -> tuple[Any, Any]:
    """Return the exponentials of a matrix, or of i times it, and of its negative."""
    if is_imaginary:
        a = a * np.result_type(a.dtype, np.complex64).type(1j)
    return expm(a), expm(-a)


@implements("scipy.linalg.cosm")
@placed("solve", scipy.linalg.cosm)
@or_scipy
@each_of_stacks(scipy.linalg.cosm, A=2)
def cosm(A: Any) -> Any:
    """See `scipy.linalg.cosm`."""
    a = _square(A)
    if a.dtype.kind != "c":
        return expm(a * np.result_type(a.dtype, np.complex64).type(1j)).real
    forward, back = _exponentials(a, is_imaginary=True)
    return (forward + back) * a.real.dtype.type(0.5)


@implements("scipy.linalg.sinm")
@placed("solve", scipy.linalg.sinm)
@or_scipy
@each_of_stacks(scipy.linalg.sinm, A=2)
def sinm(A: Any) -> Any:
    """See `scipy.linalg.sinm`."""
    a = _square(A)
    if a.dtype.kind != "c":
        return expm(a * np.result_type(a.dtype, np.complex64).type(1j)).imag
    forward, back = _exponentials(a, is_imaginary=True)
    return (forward - back) * a.dtype.type(-0.5j)


@implements("scipy.linalg.tanm")
@placed("solve", scipy.linalg.tanm)
@or_scipy
@each_of_stacks(scipy.linalg.tanm, A=2)
def tanm(A: Any) -> Any:
    """See `scipy.linalg.tanm`."""
    a = _square(A)
    if a.dtype.kind != "c":
        both = expm(a * np.result_type(a.dtype, np.complex64).type(1j))
        return factorise.solve(both.real, both.imag)
    forward, back = _exponentials(a, is_imaginary=True)
    return factorise.solve(forward + back, (forward - back) * a.dtype.type(-1j))


@implements("scipy.linalg.coshm")
@placed("solve", scipy.linalg.coshm)
@or_scipy
@each_of_stacks(scipy.linalg.coshm, A=2)
def coshm(A: Any) -> Any:
    """See `scipy.linalg.coshm`."""
    a = _square(A)
    forward, back = _exponentials(a, is_imaginary=False)
    return (forward + back) * a.real.dtype.type(0.5)


@implements("scipy.linalg.sinhm")
@placed("solve", scipy.linalg.sinhm)
@or_scipy
@each_of_stacks(scipy.linalg.sinhm, A=2)
def sinhm(A: Any) -> Any:
    """See `scipy.linalg.sinhm`."""
    a = _square(A)
    forward, back = _exponentials(a, is_imaginary=False)
    return (forward - back) * a.real.dtype.type(0.5)


@implements("scipy.linalg.tanhm")
@placed("solve", scipy.linalg.tanhm)
@or_scipy
@each_of_stacks(scipy.linalg.tanhm, A=2)
def tanhm(A: Any) -> Any:
    """See `scipy.linalg.tanhm`."""
    forward, back = _exponentials(_square(A), is_imaginary=False)
    return factorise.solve(forward + back, forward - back)


def norm(a: Any) -> float:
    """Return the 1-norm of a matrix."""
    return float(np.abs(a).sum(axis=0).max())


def _is_small(residual: Any, scale: float) -> bool:
    """Whether a residual is what rounding makes of matrices of a norm; not where it is NaN."""
    return norm(residual) <= ALLOWED * len(residual) * float(np.finfo(residual.dtype).eps) * scale


@implements("scipy.linalg.sqrtm")
@placed("solve", scipy.linalg.sqrtm)
@or_scipy
@each_of_stacks(scipy.linalg.sqrtm, A=2)
def sqrtm(A: Any, *args: Any, **kwargs: Any) -> Any:
    """See `scipy.linalg.sqrtm`: the iteration of Denman and Beavers, where its residual proves that it has converged.

    Source: N. Higham, Functions of Matrices, 2008, (6.29): product form, scaled by determinants.
    """
    if args or kwargs:
        inspect.signature(scipy.linalg.sqrtm).bind(A, *args, **kwargs)
        raise Unsupported("options, which are SciPy's")
    a = _square(A)
    eye, real = np.eye(len(a), dtype=a.dtype, like=a), a.real.dtype.type
    x, m, is_near = a, a, False
    for _ in range(MAX_STEPS):
        inverse = factorise.inv(m)
        scale = real(1)
        if not is_near:
            scale = real(np.exp(-float(factorise.slogdet(m)[1]) / (2 * len(a))))
        x = x @ (eye + inverse * scale**-2) * (scale / 2)
        m = (eye + (m * scale**2 + inverse * scale**-2) * real(0.5)) * real(0.5)
        distance = norm(m - eye)
        if not np.isfinite(distance):
            break
        if distance <= len(a) * np.finfo(real).eps:
            if _is_small(x @ x - a, norm(x) ** 2):
                return x
            break
        is_near = distance < 1e-2
    raise Unsupported("a matrix of which the iteration finds no root")


@implements("scipy.linalg.signm")
@placed("solve", scipy.linalg.signm)
@or_scipy
@each_of_stacks(scipy.linalg.signm, A=2)
def signm(A: Any, *args: Any, **kwargs: Any) -> Any:
    """See `scipy.linalg.signm`: Newton's iteration, where its residual proves that it has converged.

    Source: N. Higham, Functions of Matrices, 2008, (5.16) and (5.34).
    """
    if args or kwargs:
        inspect.signature(scipy.linalg.signm).bind(A, *args, **kwargs)
        raise Unsupported("options, which are SciPy's")
    x = _square(A)
    real, is_near = x.real.dtype.type, False
    for _ in range(MAX_STEPS):
        inverse = factorise.inv(x)
        scale = real(1) if is_near else real(np.exp(-float(factorise.slogdet(x)[1]) / len(x)))
        following = (x * scale + inverse * (1 / scale)) * real(0.5)
        change, size = norm(following - x), norm(following)
        x = following
        if not np.isfinite(change):
            break
        if change <= len(x) * np.finfo(real).eps * size:
            if _is_small(x @ x - np.eye(len(x), dtype=x.dtype, like=x), size**2):
                return x
            break
        is_near = change < 1e-2 * size
    raise Unsupported("a matrix of which the iteration finds no sign")


def _double(a: Any) -> Any:
    """Return a square matrix in double precision, which SciPy's results are in."""
    a = _square(a)
    if len(a) == 1:
        raise Unsupported("a number")
    return in_double(a)


def _logarithm(a: Any) -> Any:
    """Return the logarithm by square roots until the identity is near, then Gauss and Legendre's nodes.

    Source: N. Higham, Functions of Matrices, 2008, algorithm 11.9, with the partial fractions of (11.18).

    Raises
    ------
    Unsupported
        There is no root, or the exponential of what is found is not the matrix.
    """
    eye, x, num_roots = np.eye(len(a), dtype=a.dtype, like=a), a, 0
    while norm(x - eye) > NEAR:
        if num_roots == MAX_ROOTS:
            raise Unsupported("a matrix whose roots stay far from the identity")
        x, num_roots = sqrtm(x), num_roots + 1
    x = x - eye
    found: Any = np.zeros_like(x)
    for node, weight in zip(*np.polynomial.legendre.leggauss(NODES), strict=True):
        found = found + factorise.solve(eye + x * ((node + 1) / 2), x * (weight / 2))
    found = found * 2.0**num_roots
    if not norm(expm(found) - a) < INACCURATE * np.finfo(np.float64).eps * norm(a):
        raise Unsupported("a logarithm that is inaccurate, of which SciPy warns")
    return found


@implements("scipy.linalg.logm")
@placed("solve", scipy.linalg.logm)
@or_scipy
@each_of_stacks(scipy.linalg.logm, A=2)
def logm(A: Any, *args: Any, **kwargs: Any) -> Any:
    """See `scipy.linalg.logm`: where the exponential proves that it is one."""
    if args or kwargs:
        inspect.signature(scipy.linalg.logm).bind(A, *args, **kwargs)
        raise Unsupported("options, which are SciPy's")
    return _logarithm(_double(A))


@implements("scipy.linalg.fractional_matrix_power")
@placed("solve", scipy.linalg.fractional_matrix_power)
@or_scipy
@each_of_stacks(scipy.linalg.fractional_matrix_power, A=2)
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """See `scipy.linalg.fractional_matrix_power`: exponentials of multiples of the logarithm, where there is one."""
    (a,) = matrices(A, check_finite=False, are_square=True)
    if a.ndim != 2 or not isinstance(t, int | float | np.integer | np.floating) or not np.isfinite(t):
        raise Unsupported("stacks, or what SciPy refuses")
    if float(t).is_integer():
        return np.linalg.matrix_power(a, int(t))
    a, whole = _double(a), round(float(t))
    rest = float(t) - whole
    # Divided by a power of two next to its eigenvalues' mean, it has a small logarithm, whose exponential errs least.
    mean = float(factorise.slogdet(a)[1]) / (len(a) * math.log(2))
    if not math.isfinite(mean):
        raise Unsupported("a singular matrix")
    scale = 2.0 ** round(mean)
    root = expm(_logarithm(a / scale) * rest) * scale**rest
    power = np.linalg.matrix_power(a, whole) @ root if whole else root
    return power if _has_its_type(a) else power.astype(np.complex128)


def _has_its_type(a: Any) -> bool:
    """Whether a power has the type of its matrix, which has a logarithm: complex, or of a triangular Schur form."""
    return a.dtype.kind == "c" or bool((a == a.T).all()) or not bool(np.diagonal(schur(a)[0], -1).any())


__all__ = [
    "coshm",
    "cosm",
    "fractional_matrix_power",
    "logm",
    "norm",
    "signm",
    "sinhm",
    "sinm",
    "sqrtm",
    "tanhm",
    "tanm",
]
