"""Krylov methods whose iterations do not wait for the device.

SciPy's methods ask for a norm before every step. Here a step is recorded whether or not it will be needed, with the
outcome, a word on the device, choosing between old and new vectors: once a method has converged, or broken down, they
stay as they are. The host looks at the word every few steps. So the iterate returned is SciPy's, up to rounding.

Scalars are arrays of one element, so that nothing here is ever a number of Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.array import dispatch
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.ops import creation
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM
from oxinp._core.ufunc.object import OBJECTS
from oxinp.sparse import _compressed
from oxinp.sparse._base import is_ours
from oxinp.sparse._executed import executed

RUNNING, CONVERGED = 0, 1
STEPS_PER_LOOK = (4, 8, 16, 32)
"""Steps between looks at the outcome, the last again and again."""

_ITERATIVE = "scipy.sparse.linalg._isolve.iterative"


class System(NamedTuple):
    """A linear system, as SciPy makes it: operators, right-hand side, tolerance."""

    matvec: Callable[[Any], Any]
    solve: Callable[[Any], Any]
    b: Any
    b_norm: float
    atol: float
    maxiter: int
    is_preconditioned: bool
    matrix: Any


def _dot(a: Any, b: Any) -> Any:
    """The inner product, of one element; of complex vectors with the first conjugated."""
    a = OBJECTS["conjugate"](a) if a.dtype.kind == "c" else a
    return reduce(SUM, a * b, None, keepdims=True)


def norm_of(a: Any) -> Any:
    return OBJECTS["sqrt"](_squares(a))


def _squares(a: Any) -> Any:
    if a.dtype.kind == "c":
        return reduce(SUM, a.real * a.real + a.imag * a.imag, None, keepdims=True)
    return _dot(a, a)


def where(condition: Any, a: Any, b: Any) -> Any:
    return dispatch.functions[np.where](condition, a, b)


class Outcome:
    """How a method has ended: `RUNNING`, `CONVERGED`, or SciPy's code of a breakdown; on the device."""

    def __init__(self) -> None:
        self.code = creation.zeros((1,), np.dtype(np.int32))

    @property
    def is_running(self) -> Any:
        """Whether it has not ended, of one element."""
        return self.code == RUNNING

    def end(self, condition: Any, code: int) -> None:
        """End with a code where a condition holds, and it has not ended before."""
        self.code = where(self.is_running & condition, np.int32(code), self.code)

    def look(self) -> int:
        """Return the code, for which this waits."""
        return int(self.code[0])


def system_of(name: str, A: Any, b: Any, x0: Any, M: Any, rtol: Any, atol: Any, maxiter: Any) -> tuple[System, Any]:
    """Return the system and the start; raises what SciPy raises."""
    made, inverse, x, b = executed("scipy.sparse.linalg._isolve.utils").make_system(A, M, x0, b)
    b_norm = float(norm_of(b)[0])
    atol, _ = executed(_ITERATIVE)._get_atol_rtol(name, b_norm, atol, rtol)
    is_preconditioned = type(inverse).__name__ != "IdentityOperator"
    solve = inverse.matvec if is_preconditioned else lambda v: v
    maxiter = len(b) * 10 if maxiter is None else maxiter
    matvec = A.__matmul__ if is_ours(A) else made.matvec
    return System(matvec, solve, b, b_norm, atol, maxiter, is_preconditioned, A if is_ours(A) else None), x


def residual(system: System, x: Any) -> Any:
    return system.b - system.matvec(x) if bool(x.any()) else copy(system.b)


def _run(system: System, outcome: Outcome, step: Callable[[int], tuple[Any, ...]]) -> int:
    """Do steps, which return the vectors they compute, until the outcome says so; return SciPy's status."""
    looks, iteration = list(STEPS_PER_LOOK), 0
    while iteration < system.maxiter:
        count = min(looks[0], system.maxiter - iteration)
        looks = looks[1:] or looks
        for _ in range(count):
            vectors = step(iteration)
            evaluate(*vectors, outcome.code)
            iteration += 1
        code = outcome.look()
        if code != RUNNING:
            return 0 if code == CONVERGED else code
    return system.maxiter


def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Any, int]:
    """See `scipy.sparse.linalg.cg`."""
    system, x = system_of("cg", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    if is_ours(A) and not system.is_preconditioned and x.dtype.kind == "f" and A.dtype == x.dtype:
        return _plain_cg(A, system, x)
    outcome = Outcome()
    r, p, rho_before = residual(system, x), None, None

    def step(iteration: int) -> tuple[Any, ...]:
        nonlocal x, r, p, rho_before
        if system.is_preconditioned:
            norm, z = norm_of(r), system.solve(r)
            rho = _dot(r, z)
        else:
            z, rho = r, _squares(r)
            norm = OBJECTS["sqrt"](rho)
        outcome.end(norm < system.atol, CONVERGED)
        p = z if iteration == 0 else z + (rho / rho_before) * p
        evaluate(p)
        q = system.matvec(p)
        alpha = rho / _dot(p, q)
        x, r = (where(outcome.is_running, new, old) for new, old in ((x + alpha * p, x), (r - alpha * q, r)))
        rho_before = rho
        return x, r

    status = _run(system, outcome, step)
    return x, status


def _plain_cg(A: Any, system: System, x: Any) -> tuple[Any, int]:
    """Solve with a matrix in CSR and no preconditioner: some steps are one plan."""
    rows, longest = _compressed.narrow_rows(A)
    r = residual(system, x)
    square = _squares(r)
    tolerance = types.from_host(np.array([system.atol], x.dtype))
    outcome = astype(OBJECTS["sqrt"](square) < tolerance, np.dtype(np.int32))
    state = (x, r, copy(r), square, outcome)
    looks, left = list(STEPS_PER_LOOK), system.maxiter - 1
    while left > 0 and not int(state[4][0]):
        count = min(looks[0], left)
        looks, left = looks[1:] or looks, left - count
        state = perform_on_device(ops.CG_STEPS, (*rows.parts, *state, tolerance), (count, longest))
    if system.maxiter <= 0 or not int(state[4][0]):  # SciPy does not look at the residual after the last step
        if system.maxiter > 0:
            state = perform_on_device(ops.CG_STEPS, (*rows.parts, *state, tolerance), (1, longest))
        return state[0], system.maxiter
    return state[0], 0


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, rtol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Any, int]:
    """See `scipy.sparse.linalg.bicgstab`."""
    system, x = system_of("bicgstab", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    if is_ours(A) and not system.is_preconditioned and x.dtype.kind == "f" and A.dtype == x.dtype:
        return _plain_bicgstab(A, system, x)
    outcome, tiny = Outcome(), np.finfo(x.dtype).eps ** 2
    r = residual(system, x)
    shadow = copy(r)
    p: Any = None
    v = rho_before = alpha = omega = p

    def step(iteration: int) -> tuple[Any, ...]:
        nonlocal x, r, p, v, rho_before, alpha, omega
        outcome.end(norm_of(r) < system.atol, CONVERGED)
        rho = _dot(shadow, r)
        outcome.end(abs(rho) < tiny, -10)
        if iteration == 0:
            p = r
        else:
            outcome.end(abs(omega) < tiny, -11)
            p = r + (rho / rho_before) * (alpha / omega) * (p - omega * v)
        evaluate(p)
        p_hat = system.solve(p)
        v = system.matvec(p_hat)
        rv = _dot(shadow, v)
        outcome.end(rv == 0, -11)
        alpha = rho / rv
        was_running = outcome.is_running
        s = r - alpha * v
        evaluate(s)
        outcome.end(was_running & (norm_of(s) < system.atol), CONVERGED)
        s_hat = system.solve(s)
        t = system.matvec(s_hat)
        omega = _dot(t, s) / _squares(t)
        halfway = x + alpha * p_hat
        x = where(outcome.is_running, halfway + omega * s_hat, where(was_running, halfway, x))
        r = where(outcome.is_running, s - omega * t, r)
        rho_before = rho
        return x, r

    status = _run(system, outcome, step)
    return x, status


def _plain_bicgstab(A: Any, system: System, x: Any) -> tuple[Any, int]:
    """Solve with a matrix in CSR and no preconditioner: some steps are one plan."""
    rows, longest = _compressed.narrow_rows(A)
    r = residual(system, x)
    tolerance = types.from_host(np.array([system.atol], x.dtype))
    nothing = creation.zeros(x.shape, x.dtype)
    outcome = creation.zeros((1,), np.dtype(np.int32))
    state = (x, r, nothing, copy(nothing), creation.ones((3,), x.dtype), outcome)
    looks, left, shadow = list(STEPS_PER_LOOK), system.maxiter, copy(r)
    while left > 0:
        count = min(looks[0], left)
        looks, left = looks[1:] or looks, left - count
        state = perform_on_device(ops.BICGSTAB_STEPS, (*rows.parts, *state, shadow, tolerance), (count, longest))
        code = int(state[5][0])
        if code != RUNNING:
            return state[0], 0 if code == CONVERGED else code
    return state[0], system.maxiter


def cgs(
    A: Any, b: Any, x0: Any = None, *, rtol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Any, int]:
    """See `scipy.sparse.linalg.cgs`."""
    system, x = system_of("cgs", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    outcome, tiny = Outcome(), np.finfo(x.dtype).eps ** 2
    r = residual(system, x)
    shadow = copy(r)
    p: Any = None
    q = rho_before = p

    def step(iteration: int) -> tuple[Any, ...]:
        nonlocal x, r, p, q, rho_before
        outcome.end(norm_of(r) < system.atol, CONVERGED)
        rho = _dot(shadow, r)
        outcome.end(abs(rho) < tiny, -10)
        if iteration == 0:
            p = u = r
        else:
            beta = rho / rho_before
            u = r + beta * q
            p = u + beta * (q + beta * p)
        evaluate(p, u)
        v_hat = system.matvec(system.solve(p))
        rv = _dot(shadow, v_hat)
        outcome.end(rv == 0, -11)
        alpha = rho / rv
        q = u - alpha * v_hat
        u_hat = system.solve(u + q)
        x = where(outcome.is_running, x + alpha * u_hat, x)
        evaluate(x)
        r = where(outcome.is_running, system.b - system.matvec(x), r)
        rho_before = rho
        return x, r, q

    status = _run(system, outcome, step)
    return x, status


__all__ = ["System", "bicgstab", "cg", "cgs", "norm_of", "residual", "system_of", "where"]
