"""LOBPCG of a sparse matrix, with SciPy's steps: products on the device, small dense problems on the host.

An iteration waits for the device three times: for the norms of residuals, for the Gram matrices that make residuals and
directions orthonormal, and for those of the whole basis, which hold every block that the Rayleigh-Ritz procedure takes.

Source: A. Knyazev, Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate
gradient method, SIAM J. Sci. Comput. 23, 2001, as `scipy.sparse.linalg.lobpcg` has it.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.linalg import LinAlgError

from oxinp._core.array import dispatch
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.results import types
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import SUM
from oxinp.sparse._base import is_ours
from oxinp.sparse._executed import executed

Host = np.ndarray[Any, Any]
MIN_ROWS_PER_VECTOR = 5
"""Below which SciPy computes all eigenvalues."""


def lobpcg(
    A: Any,
    X: Any,
    B: Any = None,
    M: Any = None,
    Y: Any = None,
    tol: Any = None,
    maxiter: Any = None,
    largest: bool = True,
    verbosityLevel: int = 0,
    retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False,
    restartControl: int = 20,
) -> Any:
    """See `scipy.sparse.linalg.lobpcg`; what is not a standard problem of a sparse matrix is solved by its own code."""
    is_plain = B is None and Y is None and not (verbosityLevel or retLambdaHistory or retResidualNormsHistory)
    if not is_plain or not _is_ours(A, X) or not (M is None or is_ours(M)):
        solve = executed("scipy.sparse.linalg._eigen.lobpcg.lobpcg").lobpcg
        names = (verbosityLevel, retLambdaHistory, retResidualNormsHistory, restartControl)
        return solve(A, X, B, M, Y, tol, maxiter, largest, *names)
    if tol is None or tol <= 0:
        tol = np.sqrt(np.finfo(X.dtype).eps) * X.shape[0]
    solver = _Solver(A, M, X, tol, 20 if maxiter is None else maxiter, bool(largest), restartControl)
    return solver.solve()


def _is_ours(A: Any, X: Any) -> bool:
    """Return whether a matrix and vectors to begin with are such as SciPy would take no other way with."""
    if not (is_ours(A) and is_array(X)) or X.ndim != 2 or A.ndim != 2 or X.dtype.char not in "fdFD":
        return False
    n, count = X.shape
    return bool(A.shape == (n, n) and A.dtype == X.dtype and n >= MIN_ROWS_PER_VECTOR * count > 0)


class _Ritz(NamedTuple):
    """What the Rayleigh-Ritz procedure finds: eigenvalues, and coefficients of their vectors in the basis."""

    values: Host
    vectors: Host


class _Solver:
    """A problem while it is solved.

    Attributes
    ----------
    x, ax : ndarray, (n, k)
        Ritz vectors, and what the matrix makes of them.
    values : numpy.ndarray, (k,)
        Ritz values.
    p, ap : ndarray or None
        The directions of the last step.
    """

    def __init__(
        self, A: Any, M: Any, X: Any, tol: float, maxiter: int, is_largest: bool, restart_control: int
    ) -> None:
        self.matrix, self.inverse, self.tol, self.maxiter = A, M, tol, maxiter
        self.is_largest, self.restart_control = is_largest, restart_control
        self.count = X.shape[1]
        made = _orthonormal(fetch(_gram(X, X)))
        if made is None:
            raise ValueError("Linearly dependent initial approximations")
        x = _times(X, made)
        ax = A @ x
        values, vectors = scipy.linalg.eigh(fetch(_gram(x, ax)), check_finite=False)
        ritz = self.wanted(values, vectors)
        self.values, self.x, self.ax = ritz.values, _times(x, ritz.vectors), _times(ax, ritz.vectors)
        self.p = self.ap = None
        self.best, self.least, self.best_iteration = self.x, float(np.finfo(X.dtype).max), maxiter
        self.is_active = np.ones(self.count, bool)
        self.has_restarted = self.is_explicit = False

    def solve(self) -> tuple[Any, Any]:
        """Return eigenvalues and eigenvectors."""
        iteration = -1
        while iteration < self.maxiter:
            iteration += 1
            residual = self.residual()
            norms = self.norms(residual)
            mean = float(norms.sum()) / self.count
            if mean < self.least:
                self.best, self.least, self.best_iteration = self.x, mean, iteration
            elif mean > 2**self.restart_control * self.least:
                self.has_restarted, self.ax = True, self.matrix @ self.x
            self.is_active &= norms > self.tol
            if not self.is_active.any() or not self.step(residual, norms, iteration):
                break
        norms = self.norms(self.residual())
        mean = float(norms.sum()) / self.count
        if mean < self.least:
            self.best, self.least, self.best_iteration = self.x, mean, iteration + 1
        if norms.max() > self.tol:
            warnings.warn(
                f"Exited at iteration {iteration} with accuracies \n{norms}\n"
                f"not reaching the requested tolerance {self.tol}.\n"
                f"Use iteration {self.best_iteration} instead with accuracy \n{self.least}.\n",
                UserWarning,
                stacklevel=2,
            )
        return self.finish()

    def finish(self) -> tuple[Any, Any]:
        """Return the best of what there was, made of orthonormal vectors once more."""
        x, ax = self.best, self.matrix @ self.best
        grams = [_hermitian(fetch(_gram(x, each))) for each in (ax, x)]
        try:
            values, vectors = scipy.linalg.eigh(*grams, check_finite=False)
        except LinAlgError as error:
            raise ValueError("eigh has failed in lobpcg postprocessing") from error
        ritz = self.wanted(values, vectors)
        self.values, self.x, self.ax = ritz.values, _times(x, ritz.vectors), _times(ax, ritz.vectors)
        norms = self.norms(self.residual())
        if norms.max() > self.tol:
            warnings.warn(
                f"Exited postprocessing with accuracies \n{norms}\nnot reaching the requested tolerance {self.tol}.",
                UserWarning,
                stacklevel=2,
            )
        return types.from_host(self.values), self.x

    def residual(self) -> Any:
        """Return what is left of the matrix' products and Ritz vectors times Ritz values."""
        return self.ax - self.x * types.from_host(self.values.astype(self.x.dtype))

    def norms(self, residual: Any) -> Host:
        """Return the norms of residuals."""
        squares = residual.real**2 + residual.imag**2 if residual.dtype.kind == "c" else residual * residual
        found: Host = np.sqrt(fetch(reduce(SUM, squares, 0)))
        return found

    def step(self, r: Any, norms: Host, iteration: int) -> bool:
        """Take a step along the active residuals; return False where there is none."""
        p, ap = self.p, self.ap
        if not self.is_active.all():
            chosen = types.from_host(np.flatnonzero(self.is_active))
            r, p, ap = (each if each is None else each[:, chosen] for each in (r, p, ap))
        r = r if self.inverse is None else self.inverse @ r
        r = r - self.x @ _gram(self.x, r)
        grams = [_gram(each, each) for each in (r, p) if each is not None]
        of_r, *of_p = (_orthonormal(fetch(each)) for each in grams)
        if of_r is None:
            warnings.warn(
                f"Failed at iteration {iteration} with accuracies {norms}\n not reaching the requested "
                f"tolerance {self.tol}.",
                UserWarning,
                stacklevel=2,
            )
            return False
        r = _times(r, of_r)
        ar = self.matrix @ r
        scale = of_p[0] if of_p and not self.has_restarted else None
        p, ap = (None, None) if scale is None else (_times(p, scale), _times(ap, scale))
        self.is_explicit |= bool(norms.max() <= (1 if r.dtype == np.float32 else np.sqrt(np.finfo(r.dtype).eps)))
        concatenate = dispatch.functions[np.concatenate]
        basis = concatenate([each for each in (self.x, r, p) if each is not None], 1)
        images = concatenate([each for each in (self.ax, ar, ap) if each is not None], 1)
        found = self.ritz(_gram(basis, images), _gram(basis, basis), r.shape[1], iteration)
        if found is None:
            return False
        (self.values, vectors), used = found
        moves = vectors.copy()
        moves[: self.count] = 0
        basis, images = ((each if used == each.shape[1] else each[:, :used]) for each in (basis, images))
        self.x, self.p = _times(basis, vectors), _times(basis, moves)
        self.ax, self.ap = _times(images, vectors), _times(images, moves)
        return True

    def ritz(self, gram_a: Any, gram_b: Any, active: int, iteration: int) -> tuple[_Ritz, int] | None:
        """Return what is found in the basis, without the directions if it takes that, and how much of it was used."""
        a, b = (np.array(fetch(each)) for each in (gram_a, gram_b))
        k, size = self.count, len(a)
        parts = [slice(0, k), slice(k, k + active), slice(k + active, size)]
        if self.is_explicit:
            for part in parts:
                a[part, part] = _hermitian(a[part, part])
        else:
            a[parts[0], parts[0]] = np.diag(self.values)
            b[parts[0], parts[1]] = b[parts[1], parts[0]] = 0
            for part in parts:
                b[part, part] = np.eye(part.stop - part.start)
        for row in range(1, len(parts)):
            for column in range(row):  # SciPy takes what is above the diagonal
                a[parts[row], parts[column]] = a[parts[column], parts[row]].conj().T
                b[parts[row], parts[column]] = b[parts[column], parts[row]].conj().T
        sizes = [size, k + active] if size > k + active else [size]
        for used in sizes:
            try:
                values, vectors = scipy.linalg.eigh(a[:used, :used], b[:used, :used], check_finite=False)
            except LinAlgError as error:
                if used == sizes[-1]:
                    warnings.warn(
                        f"eigh failed at iteration {iteration} with error\n{error}\n", UserWarning, stacklevel=2
                    )
                continue
            return self.wanted(values, vectors), used
        return None

    def wanted(self, values: Host, vectors: Host) -> _Ritz:
        """Return the eigenvalues that are asked for, the outermost first."""
        order = np.argsort(values)
        order = order[: -self.count - 1 : -1] if self.is_largest else order[: self.count]
        return _Ritz(values[order], vectors[:, order])


def _gram(a: Any, b: Any) -> Any:
    """Return the inner products of columns."""
    return (a.conj().T if a.dtype.kind == "c" else a.T) @ b


def _times(vectors: Any, coefficients: Host) -> Any:
    """Return combinations of columns."""
    return vectors @ types.from_host(np.ascontiguousarray(coefficients, vectors.dtype))


def _hermitian(gram: Host) -> Host:
    """Return the Hermitian part."""
    return (gram + gram.conj().T) / 2


def _orthonormal(gram: Host) -> Host | None:
    """Return what makes vectors with some inner products orthonormal; None where they depend on each other."""
    try:
        made: Host = scipy.linalg.inv(scipy.linalg.cholesky(gram))
    except LinAlgError:
        return None
    return made


__all__ = ["lobpcg"]
