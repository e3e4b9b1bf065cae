"""Matrix equations, as `scipy.linalg`'s: those of Sylvester, Lyapunov and Riccati, by products and inverses alone.

SciPy takes Schur forms and substitutes row by row. Here Newton's iteration for the matrix sign function, and doubling,
converge where spectra allow it, as those of stable systems do; corrections of what is left follow, and where residuals
do not prove in the end that an equation is solved, SciPy solves it on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import each_of_stacks, in_double, matrices, or_scipy
from oxinp.scipy.linalg._matrix_functions import norm, signm

MAX_STEPS = 40  # of iterations that converge quadratically, once they do
MAX_CORRECTIONS = 3
NEAR = 1e-2  # of a change to the norm, from which iterations are not scaled any more
ALLOWED = 10  # times the rounding unit and the order: what a residual may be, over the norms of the terms it is of
SYMMETRIC = 100  # units in the last place of a norm by which SciPy lets matrices differ from their adjoints


def _doubles(*arrays: Any) -> tuple[Any, ...]:
    """Return matrices of one dtype, in double precision, which SciPy's results are in but where it is told."""
    if any(x.ndim != 2 for x in arrays):
        raise Unsupported("stacks")
    prepared: Any = factorise.prepared(*arrays, are_square=False)
    return tuple(in_double(x) for x in prepared)


def _eye(a: Any) -> Any:
    return np.eye(len(a), dtype=a.dtype, like=a)


def _ratio(terms: tuple[Any, ...]) -> tuple[Any, float]:
    """Return the sum of terms, and its norm over theirs, the order and the rounding unit."""
    total = sum(terms[1:], terms[0])
    unit = max(total.shape) * float(np.finfo(total.dtype).eps)
    return total, norm(total) / (unit * (sum(map(norm, terms)) or 1.0))


def _corrected(x: Any, terms: Callable[[Any], tuple[Any, ...]], correction: Callable[[Any, Any], Any]) -> Any:
    """Return the solution of an equation, corrected as long as that halves its residual.

    Parameters
    ----------
    x : ndarray
    terms : callable
        Of X, which a solution makes zero together.
    correction : callable
        ``correction(x, residual)`` is to be added.

    Raises
    ------
    Unsupported
        The residual is more than what rounding makes of the terms.
    """
    left, ratio = _ratio(terms(x))
    for _ in range(MAX_CORRECTIONS):
        if not np.isfinite(ratio):
            break
        following = x + correction(x, left)
        rest, smaller = _ratio(terms(following))
        if not smaller < ratio:
            break
        x, left, ratio, is_halved = following, rest, smaller, smaller < ratio / 2
        if not is_halved:
            break
    if ratio <= ALLOWED:
        return x
    raise Unsupported("an equation of which the residual stays large")


class _Sign(NamedTuple):
    """Newton's iterations for the signs of A and B, which are the identity, or both its negative.

    Attributes
    ----------
    steps : list of (float, ndarray, ndarray)
        By what A and B are divided, and their inverses before.
    sign : float
    """

    steps: list[tuple[float, Any, Any]]
    sign: float

    def solve(self, q: Any) -> Any:
        """Return X of A X + X B = Q. Source: J. Roberts, Linear model reduction and solution of the Riccati, 1980."""
        for scale, a, b in self.steps:
            q = (q * (1 / scale) + (a @ q @ b) * scale) * 0.5
        return q * (self.sign / 2)


def _signs(a: Any, b: Any = None) -> _Sign:
    """Return the iterations of A and B; B is the adjoint of A where there is none.

    Raises
    ------
    Unsupported
        The eigenvalues of both are not on the same side of the imaginary axis.
    """
    steps, is_near = [], False
    for _ in range(MAX_STEPS):
        inverse = factorise.inv(a)
        other = adjoint(inverse) if b is None else factorise.inv(b)
        size = norm(a) if b is None else (norm(a) * norm(b)) ** 0.5
        back = norm(inverse) if b is None else (norm(inverse) * norm(other)) ** 0.5
        if not np.isfinite(size) or not np.isfinite(back):
            break
        scale = 1.0 if is_near else (size / back) ** 0.5
        steps.append((scale, inverse, other))
        following = (a * (1 / scale) + inverse * scale) * 0.5
        change = norm(following - a) / norm(following)
        a = following
        if b is not None:
            following = (b * (1 / scale) + other * scale) * 0.5
            change = max(change, norm(following - b) / norm(following))
            b = following
        if is_near and change <= len(a) * float(np.finfo(a.dtype).eps):
            sign = 1.0 if float(np.trace(a).real) > 0 else -1.0
            if all(norm(x - _eye(x) * sign) < NEAR for x in (a, b) if x is not None):
                return _Sign(steps, sign)
            break
        is_near = change < NEAR
    raise Unsupported("spectra on both sides of the imaginary axis, or close to it")


def _sylvester(a: Any, b: Any, q: Any, signs: _Sign | None = None) -> Any:
    """Return X of A X + X B = Q."""
    found = _signs(a, b) if signs is None else signs
    return _corrected(found.solve(q), lambda x: (q, -(a @ x), -(x @ b)), lambda _, left: found.solve(left))


@implements("scipy.linalg.solve_sylvester")
@placed("eig", scipy.linalg.solve_sylvester)
@or_scipy
@each_of_stacks(scipy.linalg.solve_sylvester, a=2, b=2, q=2)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """See `scipy.linalg.solve_sylvester`."""
    given = (*matrices(a, b, check_finite=True, are_square=True), *matrices(q, check_finite=False))
    a, b, q = _doubles(*given)
    if q.shape != (len(a), len(b)):
        raise Unsupported("shapes that SciPy refuses")
    return _sylvester(a, b, q).astype(factorise.result_dtype(*given), copy=False)


@implements("scipy.linalg.solve_continuous_lyapunov", "scipy.linalg.solve_lyapunov")
@placed("eig", scipy.linalg.solve_continuous_lyapunov)
@or_scipy
@each_of_stacks(scipy.linalg.solve_continuous_lyapunov, a=2, q=2)
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """See `scipy.linalg.solve_continuous_lyapunov`."""
    given = matrices(a, q, check_finite=True, are_square=True)
    a, q = _doubles(*given)
    if a.shape != q.shape:
        raise Unsupported("shapes that SciPy refuses")
    return _sylvester(a, adjoint(a), q, _signs(a)).astype(factorise.result_dtype(*given), copy=False)


def _powers(a: Any) -> list[Any]:
    """Return A, A^2, A^4 and so on, until what follows vanishes.

    Raises
    ------
    Unsupported
        It does not: there are eigenvalues outside the unit circle, or close to it.
    """
    found = [a]
    while len(found) < MAX_STEPS:
        size = norm(found[-1])
        if not np.isfinite(size):
            break
        if size <= float(np.finfo(a.dtype).eps):
            return found
        found.append(found[-1] @ found[-1])
    raise Unsupported("eigenvalues outside the unit circle, or close to it")


def _summed(powers: list[Any], q: Any) -> Any:
    """Return the sum of A^i Q (A^i)^H. Source: R. Smith, Matrix equation XA + BX = C, 1968, with squared steps."""
    for a in powers:
        q = q + a @ q @ adjoint(a)
    return q


@implements("scipy.linalg.solve_discrete_lyapunov")
@placed("eig", scipy.linalg.solve_discrete_lyapunov)
@or_scipy
@each_of_stacks(scipy.linalg.solve_discrete_lyapunov, a=2, q=2)
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    """See `scipy.linalg.solve_discrete_lyapunov`; there is one algorithm, whatever the method."""
    if method is not None and str(method).lower() not in ("direct", "bilinear"):
        raise Unsupported("a method that SciPy refuses")
    a, q = _doubles(*matrices(a, q, check_finite=True, are_square=True))
    if a.shape != q.shape:
        raise Unsupported("shapes that SciPy refuses")
    powers = _powers(a)
    start = _summed(powers, q)
    return _corrected(start, lambda x: (a @ x @ adjoint(a), -x, q), lambda _, left: _summed(powers, left))


def _hermitian(x: Any) -> Any:
    return (x + adjoint(x)) * 0.5


def _riccati(a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> tuple[Any, ...]:
    """Return A, B, Q and R of an equation of Riccati without E and S, and B R^-1 B^H.

    With E, of which the equation has the products E^H X E, A, Q and S become A E^-1, E^-H Q E^-1 and E^-H S; then, with
    S, A and Q become A - B R^-1 S^H and Q - S R^-1 S^H.

    Raises
    ------
    Unsupported
        Matrices are what SciPy refuses, or R or E is nearly singular.
    """
    more = [x for x in (e, s) if x is not None]
    a, b, q, r, *more = _doubles(*matrices(a, b, q, r, *more, check_finite=True))
    if not a.shape == q.shape == (len(b), len(b)) or r.shape != (b.shape[1],) * 2:
        raise Unsupported("shapes that SciPy refuses")
    e = more.pop(0) if e is not None else None
    s = more.pop(0) if s is not None else None
    if (e is not None and e.shape != a.shape) or (s is not None and s.shape != b.shape):
        raise Unsupported("shapes that SciPy refuses")
    for x in (q, r):
        if norm(x - adjoint(x)) > SYMMETRIC * float(np.spacing(norm(x))):
            raise Unsupported("what is not Hermitian, which SciPy refuses")
    inverse = _inverse(r)
    if e is not None:
        back = _inverse(e)
        a, q = a @ back, _hermitian(adjoint(back) @ q @ back)
        s = None if s is None else adjoint(back) @ s
    if s is not None:
        weighted = inverse @ adjoint(s)
        a, q = a - b @ weighted, _hermitian(q - s @ weighted)
    return a, b, q, r, _hermitian(b @ inverse @ adjoint(b))


def _inverse(x: Any) -> Any:
    found = factorise.inv(x)
    if not norm(x) * norm(found) * float(np.finfo(x.dtype).eps) < NEAR**2:
        raise Unsupported("weights that are nearly singular")
    return found


@implements("scipy.linalg.solve_continuous_are")
@placed("eig", scipy.linalg.solve_continuous_are)
@or_scipy
@each_of_stacks(scipy.linalg.solve_continuous_are, a=2, b=2, q=2, r=2, e=2, s=2)
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.solve_continuous_are`: by the sign of the Hamiltonian matrix, and Newton's corrections.

    Source: J. Roberts, 1980; D. Kleinman, On an iterative technique for Riccati equation computations, 1968.
    """
    a, b, q, r, g = _riccati(a, b, q, r, e, s)
    order, eye = len(a), _eye(a)
    sign = signm(np.concatenate([np.concatenate([a, -g], axis=1), np.concatenate([-q, -adjoint(a)], axis=1)]))
    left = np.concatenate([sign[:order, order:], sign[order:, order:] + eye])
    right = np.concatenate([sign[:order, :order] + eye, sign[order:, :order]])
    basis, triangle = factorise.qr(left, "reduced")
    x = _hermitian(solve_triangular(triangle, adjoint(basis) @ -right, Triangle()))

    def gain(x: Any) -> Any:
        return factorise.solve(r, adjoint(b) @ x)

    def terms(x: Any) -> tuple[Any, ...]:
        return adjoint(a) @ x, x @ a, -(x @ b @ gain(x)), q

    def correction(x: Any, left: Any) -> Any:
        signs = _signs(adjoint(a - b @ gain(x)))
        if signs.sign > 0:
            raise Unsupported("a solution that does not stabilise")
        return _hermitian(signs.solve(-left))

    return _corrected(x, terms, correction)


@implements("scipy.linalg.solve_discrete_are")
@placed("eig", scipy.linalg.solve_discrete_are)
@or_scipy
@each_of_stacks(scipy.linalg.solve_discrete_are, a=2, b=2, q=2, r=2, e=2, s=2)
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:  # noqa: ARG001
    """See `scipy.linalg.solve_discrete_are`: by doubling that keeps the structure, and Newton's corrections.

    Source: E. Chu, H. Fan, W. Lin and C. Wang, Structure-preserving algorithms for periodic discrete-time algebraic
    Riccati equations, 2004.
    """
    a, b, q, r, g = _riccati(a, b, q, r, e, s)
    order, eye = len(a), _eye(a)
    x, power = q, a
    for _ in range(MAX_STEPS):
        solved = factorise.solve(eye + g @ x, np.concatenate([power, g], axis=1))
        change = _hermitian(adjoint(power) @ x @ solved[:, :order])
        g = _hermitian(g + power @ solved[:, order:] @ adjoint(power))
        x, power = x + change, power @ solved[:, :order]
        size = norm(change)
        if not np.isfinite(size):
            raise Unsupported("doubling that does not converge")
        if size <= float(np.finfo(a.dtype).eps) * norm(x):
            break

    def gain(x: Any) -> Any:
        return factorise.solve(r + adjoint(b) @ x @ b, adjoint(b) @ x @ a)

    def terms(x: Any) -> tuple[Any, ...]:
        return adjoint(a) @ x @ a, -x, -(adjoint(a) @ x @ b @ gain(x)), q

    return _corrected(x, terms, lambda x, left: _hermitian(_summed(_powers(adjoint(a - b @ gain(x))), left)))


__all__ = [
    "solve_continuous_are",
    "solve_continuous_lyapunov",
    "solve_discrete_are",
    "solve_discrete_lyapunov",
    "solve_sylvester",
]
