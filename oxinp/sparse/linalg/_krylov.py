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
import scipy.linalg

from oxinp._core.array import dispatch
from oxinp._core.lazy.evaluate import evaluate
from oxinp._core.lazy.record import types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.ops import creation
from oxinp._core.ops import sparse as ops
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.sparse.arnoldi import MAX_VECTORS
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


def _where(condition: Any, a: Any, b: Any) -> Any:
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
        self.code = _where(self.is_running & condition, np.int32(code), self.code)

    def look(self) -> int:
        """Return the code, for which this waits."""
        return int(self.code[0])


def _system(name: str, A: Any, b: Any, x0: Any, M: Any, rtol: Any, atol: Any, maxiter: Any) -> tuple[System, Any]:
    """Return the system and the start; raises what SciPy raises."""
    made, inverse, x, b = executed("scipy.sparse.linalg._isolve.utils").make_system(A, M, x0, b)
    b_norm = float(norm_of(b)[0])
    atol, _ = executed(_ITERATIVE)._get_atol_rtol(name, b_norm, atol, rtol)
    is_preconditioned = type(inverse).__name__ != "IdentityOperator"
    solve = inverse.matvec if is_preconditioned else lambda v: v
    maxiter = len(b) * 10 if maxiter is None else maxiter
    matvec = A.__matmul__ if is_ours(A) else made.matvec
    return System(matvec, solve, b, b_norm, atol, maxiter, is_preconditioned, A if is_ours(A) else None), x


def _residual(system: System, x: Any) -> Any:
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
    system, x = _system("cg", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    if is_ours(A) and not system.is_preconditioned and x.dtype.kind == "f" and A.dtype == x.dtype:
        return _plain_cg(A, system, x)
    outcome = Outcome()
    r, p, rho_before = _residual(system, x), None, None

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
        x, r = (_where(outcome.is_running, new, old) for new, old in ((x + alpha * p, x), (r - alpha * q, r)))
        rho_before = rho
        return x, r

    status = _run(system, outcome, step)
    return x, status


def _plain_cg(A: Any, system: System, x: Any) -> tuple[Any, int]:
    """Solve with a matrix in CSR and no preconditioner: some steps are one plan."""
    rows, longest = _compressed.of_rows(A)
    r = _residual(system, x)
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
    system, x = _system("bicgstab", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    if is_ours(A) and not system.is_preconditioned and x.dtype.kind == "f" and A.dtype == x.dtype:
        return _plain_bicgstab(A, system, x)
    outcome, tiny = Outcome(), np.finfo(x.dtype).eps ** 2
    r = _residual(system, x)
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
        x = _where(outcome.is_running, halfway + omega * s_hat, _where(was_running, halfway, x))
        r = _where(outcome.is_running, s - omega * t, r)
        rho_before = rho
        return x, r

    status = _run(system, outcome, step)
    return x, status


def _plain_bicgstab(A: Any, system: System, x: Any) -> tuple[Any, int]:
    """Solve with a matrix in CSR and no preconditioner: some steps are one plan."""
    rows, longest = _compressed.of_rows(A)
    r = _residual(system, x)
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
    system, x = _system("cgs", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    outcome, tiny = Outcome(), np.finfo(x.dtype).eps ** 2
    r = _residual(system, x)
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
        x = _where(outcome.is_running, x + alpha * u_hat, x)
        evaluate(x)
        r = _where(outcome.is_running, system.b - system.matvec(x), r)
        rho_before = rho
        return x, r, q

    status = _run(system, outcome, step)
    return x, status


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: Any = 1e-5,
    atol: Any = 0.0,
    restart: Any = None,
    maxiter: Any = None,
    M: Any = None,
) -> tuple[Any, int]:
    """See `scipy.sparse.linalg.gmres`.

    A cycle waits for the device once: the projected problem is solved on the host, which also finds the step at which
    SciPy would have stopped. Vectors are made orthogonal by two passes of the classical Gram-Schmidt method, each two
    products with all of them.
    """
    system, x = _system("gmres", A, b, x0, M, rtol, atol, maxiter)
    if system.b_norm == 0:
        return system.b, 0
    n, dtype = len(system.b), x.dtype
    restart = min(20 if restart is None else restart, n)
    preconditioned_norm = float(norm_of(system.solve(system.b))[0]) if system.is_preconditioned else system.b_norm
    factor = 1.0
    tolerance = preconditioned_norm * min(factor, system.atol / system.b_norm)
    r = _residual(system, x)
    if float(norm_of(r)[0]) < system.atol:
        return x, 0
    for _ in range(system.maxiter):
        basis, hessenberg, norm = _arnoldi(system, r, restart)
        y, presid, has_broken_down = _project(hessenberg, norm, tolerance, dtype)
        x = x + reduce(SUM, basis[: len(y)] * types.from_host(y[:, None]), 0)
        r = system.b - system.matvec(x)
        evaluate(x, r)
        r_norm = float(norm_of(r)[0])
        if r_norm <= system.atol or has_broken_down:
            return x, 0 if r_norm <= system.atol else system.maxiter
        factor = max(np.finfo(dtype).eps, 0.25 * factor) if presid <= tolerance else min(1.0, 1.5 * factor)
        tolerance = presid * min(factor, system.atol / r_norm)
    return x, system.maxiter


def _arnoldi(system: System, r: Any, count: int) -> tuple[Any, np.ndarray[Any, Any], float]:
    """Return orthonormal vectors of a Krylov space, the Hessenberg matrix, and the norm of the first vector."""
    start = system.solve(r)
    norm = norm_of(start)
    first = (start / norm).reshape(1, -1)
    if system.is_preconditioned:
        basis, hessenberg = krylov_space(lambda v: system.solve(system.matvec(v)), None, first, count)
    else:
        basis, hessenberg = krylov_space(system.matvec, system.matrix, first, count)
    return basis, hessenberg, float(norm[0].real)


def krylov_space(apply: Callable[[Any], Any], matrix: Any, given: Any, count: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return orthonormal vectors of a Krylov space; wait for the device once.

    Parameters
    ----------
    apply : callable
        The operator.
    matrix : sparse object of ours or None
        The matrix whose products `apply` gives, where it is one: all steps are one plan.
    given : ndarray, (first + 1, n)
        The vectors that there are, orthonormal.
    count : int
        Products.

    Returns
    -------
    basis : ndarray, (count + 1, n)
        Where the operator leads nowhere new, the rest is zero.
    components : numpy.ndarray, (count, count + 1)
        Row j, from `first` on: of what the operator makes of vector j, along the vectors.
    """
    dtype = given.dtype
    if matrix is not None and dtype.kind == "f" and matrix.dtype == dtype and count < MAX_VECTORS:
        rows, longest = _compressed.of_rows(matrix)
        basis, projected = perform_on_device(ops.ARNOLDI, (*rows.parts, copy(given)), (count, longest))
    else:
        basis = creation.empty((count + 1, given.shape[1]), dtype)
        basis[: len(given)] = given
        projected = _extended(apply, basis, len(given) - 1)
    return basis, np.array(projected.tolist(), dtype).reshape(count, count + 2)[:, : count + 1]


def _extended(apply: Callable[[Any], Any], basis: Any, first: int) -> Any:
    """Write the vectors after those up to `first`; return the components, with a column more."""
    dtype, count = basis.dtype, len(basis) - 1
    eps = np.finfo(dtype).eps
    projected = creation.zeros((count, count + 2), dtype)
    for column in range(first, count):
        w = apply(copy(basis[column]))
        before = norm_of(w)
        known = basis[: column + 1]
        for _ in range(2):
            along = OBJECTS["conjugate"](known) if dtype.kind == "c" else known
            h = reduce(SUM, along * w, 1)
            projected[column, : column + 1] += h
            w = w - reduce(SUM, known * h[:, None], 0)
            evaluate(w)
        after = norm_of(w)
        is_nothing = after <= eps * before
        projected[column, column + 1 : column + 2] = _where(is_nothing, 0.0, after)
        basis[column + 1] = _where(is_nothing, 0.0, w / after)
    return projected


def _project(
    hessenberg: np.ndarray[Any, Any], norm: float, tolerance: float, dtype: Any
) -> tuple[np.ndarray[Any, Any], float, bool]:
    """Return the solution of the least-squares problem, the residual, and whether the space was exhausted.

    Rotations are done as SciPy does them, column by column, up to the one that it would stop at.
    """
    (rotate,) = scipy.linalg.get_lapack_funcs(("lartg",), dtype=dtype)
    count = len(hessenberg)
    h = hessenberg.copy()
    right = np.zeros(count + 1, dtype)
    right[0] = norm
    rotations: list[tuple[Any, Any]] = []
    presid, has_broken_down, size = 0.0, False, count
    for column in range(count):
        row = h[column]
        has_broken_down = row[column + 1] == 0
        for k, (c, s) in enumerate(rotations):
            row[k : k + 2] = c * row[k] + s * row[k + 1], -np.conj(s) * row[k] + c * row[k + 1]
        c, s, magnitude = rotate(row[column], row[column + 1])
        rotations.append((c, s))
        row[column : column + 2] = magnitude, 0
        following = -np.conj(s) * right[column]
        right[column : column + 2] = c * right[column], following
        presid = abs(following)
        if presid <= tolerance or has_broken_down:
            size = column + 1
            break
    if h[size - 1, size - 1] == 0:
        right[size - 1] = 0
    y = right[:size].copy()
    for k in range(size - 1, 0, -1):
        if y[k] != 0:
            y[k] /= h[k, k]
            y[:k] -= y[k] * h[k, :k]
    if y[0] != 0:
        y[0] /= h[0, 0]
    return y, float(presid), bool(has_broken_down)


__all__ = ["bicgstab", "cg", "cgs", "gmres"]
