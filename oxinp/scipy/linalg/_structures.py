"""Functions of `scipy.linalg` that make matrices of parts, ask for their structure, or use it: of two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.ops import factorise
from oxinp.linalg import _spectral
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._functions import toeplitz
from oxinp.scipy.linalg._given import VECTORS, each_of_stacks, given, matrices, or_scipy

LEVINSON = 1024  # rows from which elimination on the device takes less time than SciPy's recursion
MOST = 1 << 15  # rows of a matrix that is made of a column and a row


def _vector(x: Any) -> Any:
    """Return an array of one dimension with elements."""
    (x,) = given(x, check_finite=False)
    if x.ndim != 1 or not x.size:
        raise Unsupported("stacks, or what has no elements")
    return x


def _matrix(a: Any, *, check_finite: bool = False) -> Any:
    """Return one matrix with elements, of a dtype that LAPACK takes."""
    (a,) = matrices(a, check_finite=check_finite)
    if a.ndim != 2:
        raise Unsupported("stacks")
    return a


# -- matrices of parts -------------------------------------------------------------------------------------------------


@implements("scipy.linalg.block_diag", is_hosted=False)
def block_diag(*arrs: Any) -> Any:
    """See `scipy.linalg.block_diag`."""
    blocks = given(*arrs, check_finite=False)
    if not blocks or any(x.ndim > 2 for x in blocks):
        raise Unsupported("stacks, or nothing")
    blocks = tuple(np.atleast_2d(x) for x in blocks)
    rows, columns = (sum(sizes) for sizes in zip(*(x.shape for x in blocks), strict=True))
    out = np.zeros((rows, columns), np.result_type(*(x.dtype for x in blocks)), like=blocks[0])
    row, column = 0, 0
    for x in blocks:
        out[row : row + x.shape[0], column : column + x.shape[1]] = x
        row, column = row + x.shape[0], column + x.shape[1]
    return out


@implements("scipy.linalg.diagsvd", is_hosted=False)
def diagsvd(s: Any, M: Any, N: Any) -> Any:
    """See `scipy.linalg.diagsvd`."""
    s = _vector(s)
    if len(s) != min(M, N):
        raise Unsupported("what SciPy refuses")
    out = np.zeros((M, N), s.dtype, like=s)
    out[: len(s), : len(s)] = np.diag(s)
    return out


@implements("scipy.linalg.companion", is_hosted=False)
def companion(a: Any) -> Any:
    """See `scipy.linalg.companion`."""
    a = _vector(a)
    if len(a) < 2 or bool(a[0] == 0):
        raise Unsupported("what SciPy refuses")
    row = -a[1:] / (1.0 * a[0])
    below = np.eye(len(row) - 1, len(row), dtype=row.dtype, like=row)
    return np.concatenate([row[None], below])


@implements("scipy.linalg.leslie", is_hosted=False)
def leslie(f: Any, s: Any) -> Any:
    """See `scipy.linalg.leslie`."""
    f, s = _vector(f), _vector(s)
    if len(f) != len(s) + 1:
        raise Unsupported("what SciPy refuses")
    dtype = (f[:1] + s[:1]).dtype
    below = np.concatenate([np.diag(s), np.zeros((len(s), 1), s.dtype, like=s)], axis=1)
    return np.concatenate([f[None].astype(dtype, copy=False), below.astype(dtype, copy=False)])


@implements("scipy.linalg.fiedler", is_hosted=False)
def fiedler(a: Any) -> Any:
    """See `scipy.linalg.fiedler`."""
    a = _vector(a)
    if len(a) == 1:
        raise Unsupported("one number")
    return np.abs(a[:, None] - a)


@implements("scipy.linalg.khatri_rao", is_hosted=False)
def khatri_rao(a: Any, b: Any) -> Any:
    """See `scipy.linalg.khatri_rao`."""
    a, b = given(a, b, check_finite=False)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or not a.size or not b.size:
        raise Unsupported("stacks, what has no elements, or what SciPy refuses")
    return (a[:, None] * b).reshape(-1, a.shape[1])


@implements("scipy.linalg.convolution_matrix", is_hosted=False)
def convolution_matrix(a: Any, n: Any, mode: str = "full") -> Any:
    """See `scipy.linalg.convolution_matrix`."""
    a = _vector(a)
    if n <= 0 or mode not in ("full", "valid", "same"):
        raise Unsupported("what SciPy refuses")
    trim = {"full": 0, "same": min(n, len(a)) - 1, "valid": 2 * (min(n, len(a)) - 1)}[mode]
    before, after = trim // 2, trim - trim // 2
    column, row = np.pad(a, (0, n - 1)), np.pad(a[::-1], (0, n - 1))
    end = len(row) - before
    return toeplitz(column[before : len(column) - after], row[end - n : end])


# -- structure ---------------------------------------------------------------------------------------------------------


def _is_own_adjoint(a: Any, atol: Any, rtol: Any, *, is_conjugate: bool) -> bool:
    """Whether a matrix is its transpose, or the conjugate of that, bit by bit."""
    if atol is not None or rtol is not None:
        raise Unsupported("tolerances")
    (a,) = matrices(a, check_finite=False, are_square=True)
    if a.ndim != 2:
        raise Unsupported("stacks")
    other, below = (adjoint(a), 0) if is_conjugate and a.dtype.kind == "c" else (a.T, -1)
    return bool((np.tril(a, below) == np.tril(other, below)).all())


@implements("scipy.linalg.issymmetric")
def issymmetric(a: Any, atol: Any = None, rtol: Any = None) -> bool:
    """See `scipy.linalg.issymmetric`."""
    return _is_own_adjoint(a, atol, rtol, is_conjugate=False)


@implements("scipy.linalg.ishermitian")
def ishermitian(a: Any, atol: Any = None, rtol: Any = None) -> bool:
    """See `scipy.linalg.ishermitian`."""
    return _is_own_adjoint(a, atol, rtol, is_conjugate=True)


@implements("scipy.linalg.bandwidth")
def bandwidth(a: Any) -> tuple[int, int]:
    """See `scipy.linalg.bandwidth`."""
    a = _matrix(a)
    rows, columns = (np.arange(n, like=a) for n in a.shape)
    below = np.where(a != 0, rows[:, None] - columns, 0)
    return int(below.max()), -int(below.min())


# -- what structure is used for ----------------------------------------------------------------------------------------


@implements("scipy.linalg.orthogonal_procrustes")
@placed("svd", scipy.linalg.orthogonal_procrustes)
@each_of_stacks(scipy.linalg.orthogonal_procrustes, A=2, B=2)
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    """See `scipy.linalg.orthogonal_procrustes`."""
    a, b = matrices(A, B, check_finite=check_finite)
    if a.ndim != 2 or a.shape != b.shape:
        raise Unsupported("stacks, or what SciPy refuses")
    u, w, vt = _spectral.svd((b.T @ factorise.conjugate(a)).T, full_matrices=False)
    return u @ vt, w.sum()


@implements("scipy.linalg.qr_multiply")
@placed("qr", scipy.linalg.qr_multiply)
@each_of_stacks(scipy.linalg.qr_multiply, a=2, c=VECTORS)
def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    overwrite_c: bool = False,
) -> Any:
    """See `scipy.linalg.qr_multiply`."""
    a = _matrix(a, check_finite=True)
    (c,) = given(c, check_finite=True)
    is_left, rows = mode == "left", len(a)
    if mode not in ("left", "right") or (is_left and overwrite_c) or c.ndim not in (1, 2) or not c.size:
        raise Unsupported("what SciPy refuses, or leaves to a permission")
    wide = c if c.ndim == 2 else c[:, None] if is_left else c[None]
    if (wide.shape[0] != min(a.shape)) if is_left else (wide.shape[1] != rows):
        raise Unsupported("shapes that SciPy refuses")
    *order, q, r = factorise.pivoted_qr(a, "reduced") if pivoting else factorise.qr(a, "reduced")
    q = factorise.conjugate(q) if conjugate else q
    found = q @ wide if is_left else wide @ q
    found = found if c.ndim == 2 else found.ravel()
    return (found, r, *order)


@implements("scipy.linalg.solve_circulant")
def solve_circulant(
    c: Any,
    b: Any,
    singular: str = "raise",  # noqa: ARG001 - SciPy deals with these
    tol: Any = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Any:
    """See `scipy.linalg.solve_circulant`: by Fourier transforms."""
    c = _vector(c)
    (b,) = given(b, check_finite=False)
    if (caxis, baxis, outaxis) != (-1, 0, 0) or b.ndim not in (1, 2) or len(b) != len(c) or not b.size:
        raise Unsupported("other axes, stacks, or what SciPy refuses")
    transformed = np.fft.fft(c)
    size = np.abs(transformed)
    limit = size.max() * len(c) * np.finfo(np.float64).eps if tol is None else tol
    if bool((size <= limit).any()):
        raise Unsupported("a matrix that is singular, or nearly")
    x = np.fft.ifft(np.fft.fft(b, axis=0) / (transformed if b.ndim == 1 else transformed[:, None]), axis=0)
    return x if "c" in (c.dtype.kind, b.dtype.kind) else x.real


@implements("scipy.linalg.solve_toeplitz")
@or_scipy
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """See `scipy.linalg.solve_toeplitz`: by elimination, whose steps are parallel, where matrices are large."""
    c, r, b = _toeplitz_operands(c_or_cr, b, check_finite=check_finite)
    if not LEVINSON <= len(c) == len(r) <= MOST or len(b) != len(c):
        raise Unsupported("small matrices, such that have no room, or what SciPy refuses")
    wide = "D" if "c" in (c.dtype.kind, r.dtype.kind, b.dtype.kind) else "d"
    return factorise.solve(toeplitz(c.astype(wide), r.astype(wide)), b.astype(wide))


def _toeplitz_operands(c_or_cr: Any, x: Any, *, check_finite: bool) -> tuple[Any, Any, Any]:
    """Return the first column and the first row of a matrix, and vectors beside it."""
    pair = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    c = _vector(pair[0])
    r = factorise.conjugate(c) if pair[1] is None else _vector(pair[1])
    (x,) = given(x, check_finite=False)
    c, r, x = given(c, r, x, check_finite=check_finite)
    if x.ndim not in (1, 2) or not x.size:
        raise Unsupported("stacks, or what has no elements")
    return c, r, x


@implements("scipy.linalg.matmul_toeplitz")
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Any:  # noqa: ARG001
    """See `scipy.linalg.matmul_toeplitz`: by Fourier transforms."""
    c, r, x = _toeplitz_operands(c_or_cr, x, check_finite=check_finite)
    if len(x) != len(r):
        raise Unsupported("what SciPy refuses")
    wide = np.concatenate([c, r[:0:-1]])
    right = x if x.ndim == 2 else x[:, None]
    n, is_complex = len(wide), "c" in (wide.dtype.kind, x.dtype.kind)
    forward, back = (np.fft.fft, np.fft.ifft) if is_complex else (np.fft.rfft, np.fft.irfft)
    found = back(forward(wide)[:, None] * forward(right, n, axis=0), n, axis=0)[: len(c)]
    return found if x.ndim == 2 else found[:, 0]


__all__ = [
    "bandwidth",
    "block_diag",
    "companion",
    "convolution_matrix",
    "diagsvd",
    "fiedler",
    "ishermitian",
    "issymmetric",
    "khatri_rao",
    "leslie",
    "matmul_toeplitz",
    "orthogonal_procrustes",
    "qr_multiply",
    "solve_circulant",
    "solve_toeplitz",
]
