"""Eigenvalues of symmetric sparse matrices, and singular values, by the Lanczos method with thick restarts.

ARPACK's implicit restarts, in exact arithmetic, on the device: a cycle waits for it once, for the small projected
problem, which the host solves. Vectors are made orthogonal to all others by two passes of the classical Gram-Schmidt
method. What this does not do, for want of a kernel or because it finds an invariant subspace, it leaves to ARPACK.

Source: K. Wu, H. Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems, SIAM J. Matrix Anal.
Appl. 22, 2000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence

from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.results import types
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.ops import creation, factorise
from oxinp.sparse import _rows
from oxinp.sparse._base import is_ours, is_small
from oxinp.sparse.linalg._gmres import krylov_space
from oxinp.sparse.linalg._krylov import norm_of

# WHICH EIGENVALUES. SciPy's name -> numbers that are the greater the more an eigenvalue is wanted.
WANTED: dict[str, Callable[[Any], Any]] = {
    "LM": np.abs,
    "LA": lambda values: values,
    "SA": lambda values: -values,
    "SM": lambda values: -np.abs(values),
}
MORE_VECTORS = 32
"""Vectors that a cycle has beyond those asked for, unless told."""


class Problem(NamedTuple):
    """What is asked for.

    Attributes
    ----------
    apply : callable
        The operator, which is its own adjoint.
    matrices : tuple of sparse objects of ours
        Those by which `apply` multiplies, one after the other.
    n : int
    dtype : dtype
    k : int
        Eigenvalues.
    which : str
    num_vectors : int
        Of a cycle.
    maxiter : int
        Cycles.
    tol : float
    """

    apply: Callable[[Any], Any]
    matrices: tuple[Any, ...]
    n: int
    dtype: np.dtype[Any]
    k: int
    which: str
    num_vectors: int
    maxiter: int
    tol: float


def _problem(
    apply: Any, matrices: tuple[Any, ...], n: int, dtype: Any, k: Any, which: Any, ncv: Any, maxiter: Any, tol: Any
) -> Problem:
    """Return the problem with SciPy's defaults.

    Raises
    ------
    Unsupported
        ARPACK is to solve it, or SciPy refuses it.
    """
    if which not in WANTED or not isinstance(k, int | np.integer) or not 0 < k < n - 2 or tol < 0:
        raise Unsupported("another part of the spectrum, or what SciPy refuses")
    num_vectors = min(n - 1, max(2 * k, k + MORE_VECTORS)) if ncv is None else int(ncv)
    maxiter = 10 * n if maxiter is None else int(maxiter)
    if not k + 1 < num_vectors < n or maxiter <= 0:
        raise Unsupported("vectors that fill the space, or what SciPy refuses")
    return Problem(apply, matrices, n, dtype, int(k), which, num_vectors, maxiter, tol or float(np.finfo(dtype).eps))


def _start(v0: Any, rng: Any, n: int, dtype: np.dtype[Any]) -> Any:
    """Return the first vector: given, drawn from a generator that is given, or the same each time."""
    if v0 is not None:
        v0 = dispatch.functions[np.asarray](v0)
        if v0.shape != (n,):
            raise Unsupported("what SciPy refuses")
        return astype(v0, dtype)
    if rng is not None:
        return types.from_host(np.random.default_rng(rng).uniform(-1, 1, n).astype(dtype))
    return astype(_rows.scrambled(n), dtype) - dtype.type(1 << 31)


def _solve(problem: Problem, start: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """Return eigenvalues, the most wanted last, and the rows that are their eigenvectors.

    Raises
    ------
    Unsupported
        The start lies in an invariant subspace.
    ArpackNoConvergence
        So many cycles were not enough.
    """
    count, k, eps = problem.num_vectors, problem.k, float(np.finfo(problem.dtype).eps)
    num_kept = k + (count - k) // 2
    given = (start / norm_of(start)).reshape(1, -1)
    kept = coupling = np.zeros(0)
    first = 0
    for _ in range(problem.maxiter):
        basis, components = krylov_space(problem.apply, problem.matrices, given, count)
        following = components[np.arange(first, count), np.arange(first, count) + 1].real
        projected = _projected(kept, coupling, components.diagonal()[first:].real, following)
        if not np.isfinite(projected).all() or (following <= eps * np.abs(projected).max()).any():
            raise Unsupported("an invariant subspace, or elements that are not finite")
        values, vectors = np.linalg.eigh(projected, UPLO="U")
        order = np.argsort(WANTED[problem.which](values), kind="stable")
        wanted = order[-k:]
        errors = following[-1] * np.abs(vectors[-1, wanted])
        has_converged = errors <= problem.tol * np.maximum(eps ** (2 / 3), np.abs(values[wanted]))
        if has_converged.all():
            return values[wanted], _combined(vectors[:, wanted], basis[:count])
        of_cycle, first = order[-num_kept:], num_kept
        kept, coupling = values[of_cycle], following[-1] * vectors[-1, of_cycle]
        given = creation.empty((first + 1, problem.n), problem.dtype)
        given[:first] = _combined(vectors[:, of_cycle], basis[:count])
        given[first] = basis[count]
    converged = wanted[has_converged]
    raise ArpackNoConvergence(
        f"No convergence ({problem.maxiter} iterations, {len(converged)}/{k} eigenvectors converged)",
        values[converged],
        _combined(vectors[:, converged], basis[:count]).T if len(converged) else np.zeros((problem.n, 0)),
    )


def _projected(
    kept: np.ndarray[Any, Any],
    coupling: np.ndarray[Any, Any],
    diagonal: np.ndarray[Any, Any],
    following: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Return the upper triangle of the operator among the vectors of a cycle: an arrowhead, then a tridiagonal matrix.

    What else there is of computed components is rounding, which would hide how small errors have become.
    """
    first, count = len(kept), len(kept) + len(diagonal)
    made = np.diag(np.concatenate([kept, diagonal]).astype(np.result_type(coupling, diagonal)))
    made[:first, first] = coupling
    made[np.arange(first, count - 1), np.arange(first + 1, count)] = following[:-1]
    return made


def _combined(coefficients: np.ndarray[Any, Any], basis: Any) -> Any:
    return types.from_host(np.ascontiguousarray(coefficients.T)) @ basis


def _check(A: Any) -> None:
    if not is_ours(A) or is_small(A) or A.ndim != 2 or A.dtype.char not in "fdFD" or not A.nnz:
        raise Unsupported("a small matrix, or an operator")


def eigsh(
    A: Any,
    k: Any = 6,
    M: Any = None,
    sigma: Any = None,
    which: Any = "LM",
    v0: Any = None,
    ncv: Any = None,
    maxiter: Any = None,
    tol: Any = 0,
    return_eigenvectors: bool = True,
    Minv: Any = None,
    OPinv: Any = None,
    mode: str = "normal",
    rng: Any = None,
) -> Any:
    """See `scipy.sparse.linalg.eigsh`."""
    _check(A)
    if any(each is not None for each in (M, sigma, Minv, OPinv)) or mode != "normal" or A.shape[0] != A.shape[1]:
        raise Unsupported("systems to solve, or what SciPy refuses")
    n = A.shape[0]
    problem = _problem(A.__matmul__, (A,), n, A.dtype, k, which, ncv, maxiter, tol)
    values, vectors = _solve(problem, _start(v0, rng, n, A.dtype))
    if not return_eigenvectors:
        return types.from_host(values)
    order = np.argsort(values)
    return types.from_host(values[order]), copy(vectors[types.from_host(order)].T)


def svds(
    A: Any,
    k: Any = 6,
    ncv: Any = None,
    tol: Any = 0,
    which: Any = "LM",
    v0: Any = None,
    maxiter: Any = None,
    return_singular_vectors: Any = True,
    solver: str = "arpack",
    rng: Any = None,
    options: Any = None,
    *,
    random_state: Any = None,
) -> Any:
    """See `scipy.sparse.linalg.svds`: eigenvectors of the smaller Gram matrix, and what the matrix makes of them."""
    _check(A)
    if solver != "arpack" or which != "LM" or options is not None or random_state is not None:
        raise Unsupported("another method, or the smallest singular values")
    adjoint = A.conj().T
    is_wide = A.shape[0] < A.shape[1]
    forward, backward = (adjoint, A) if is_wide else (A, adjoint)
    n = min(A.shape)
    problem = _problem(
        lambda x: backward @ (forward @ x), (forward, backward), n, A.dtype, k, "LM", ncv, maxiter, tol**2
    )
    _, rows = _solve(problem, _start(v0, rng, n, A.dtype))
    right = rows.T
    orthonormal, triangle = factorise.qr(forward @ copy(right), "reduced")
    u, s, vh = np.linalg.svd(fetch(triangle))
    if not return_singular_vectors:
        return types.from_host(s[::-1].copy())
    # The matrix is (Q u) s (vh right^H), or the adjoint of that where it is wide.
    outer = orthonormal @ types.from_host(u[:, ::-1].copy())
    inner = right @ types.from_host(vh[::-1].conj().T.copy())
    left, other = (inner, outer) if is_wide else (outer, inner)
    found = left, types.from_host(s[::-1].copy()), other.conj().T
    has_u, has_vh = (return_singular_vectors in (True, each) for each in ("u", "vh"))
    return found[0] if has_u else None, found[1], found[2] if has_vh else None


__all__ = ["eigsh", "svds"]
