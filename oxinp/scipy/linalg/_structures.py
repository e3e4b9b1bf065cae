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
from oxinp.scipy.linalg._functions import TAKES_VECTORS, column_and_row, toeplitz, vectors
from oxinp.scipy.linalg._given import HAS_STACKS, SCIPY, VECTORS, each_of_stacks, given, matrices, or_scipy

_BANDWIDTH_TAKES_STACKS = SCIPY >= (1, 18)
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
    if not blocks or (any(x.ndim > 2 for x in blocks) and not TAKES_VECTORS):
        raise Unsupported("stacks that SciPy refuses, or nothing")
    blocks = tuple(np.atleast_2d(x) for x in blocks)
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in blocks))
    rows, columns = (sum(sizes) for sizes in zip(*(x.shape[-2:] for x in blocks), strict=True))
    out = np.zeros((*batch, rows, columns), np.result_type(*(x.dtype for x in blocks)), like=blocks[0])
    row, column = 0, 0
    for x in blocks:
        height, width = x.shape[-2:]
        out[..., row : row + height, column : column + width] = x
        row, column = row + height, column + width
    return out


@implements("scipy.linalg.diagsvd", is_hosted=False)
@each_of_stacks(scipy.linalg.diagsvd, s=1)
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
    a = vectors(a)
    if a.shape[-1] < 2 or bool((a[..., 0] == 0).any()):
        raise Unsupported("what SciPy refuses")
    row = -a[..., 1:] / (1.0 * a[..., :1])
    order = row.shape[-1]
    below = np.eye(order - 1, order, dtype=row.dtype, like=row)
    below = np.broadcast_to(below, (*row.shape[:-1], *below.shape)) if row.ndim > 1 else below
    return np.concatenate([row[..., None, :], below], axis=-2)


@implements("scipy.linalg.leslie", is_hosted=False)
@each_of_stacks(scipy.linalg.leslie, f=1, s=1)
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
    a = vectors(a)
    if a.shape[-1] == 1:
        raise Unsupported("one number")
    return np.abs(a[..., None] - a[..., None, :])


@implements("scipy.linalg.khatri_rao", is_hosted=False)
def khatri_rao(a: Any, b: Any) -> Any:
    """See `scipy.linalg.khatri_rao`."""
    a, b = given(a, b, check_finite=False)
    is_stack = max(a.ndim, b.ndim) > 2
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-1] or not a.size or not b.size or is_stack > HAS_STACKS:
        raise Unsupported("what has no elements, or what SciPy refuses")
    made = a[..., None, :] * b[..., None, :, :]
    return made.reshape(*made.shape[:-3], -1, made.shape[-1])


@implements("scipy.linalg.convolution_matrix", is_hosted=False)
def convolution_matrix(a: Any, n: Any, mode: str = "full") -> Any:
    """See `scipy.linalg.convolution_matrix`."""
    a = vectors(a)
    if n <= 0 or mode not in ("full", "valid", "same"):
        raise Unsupported("what SciPy refuses")
    least = min(n, a.shape[-1]) - 1
    trim = {"full": 0, "same": least, "valid": 2 * least}[mode]
    before, after = trim // 2, trim - trim // 2
    widths = [(0, 0)] * (a.ndim - 1) + [(0, n - 1)]
    column, row = np.pad(a, widths), np.pad(a[..., ::-1], widths)
    end = row.shape[-1] - before
    return toeplitz(column[..., before : column.shape[-1] - after], row[..., end - n : end])


# -- structure ---------------------------------------------------------------------------------------------------------


STRUCTURES = {
    None: "gen", "gen": "gen", "general": "gen", "diagonal": "diagonal", "tridiagonal": "tridiagonal",
    "banded": "banded", "upper triangular": "upper triangular", "lower triangular": "lower triangular", "pos": "pos",
    "positive definite": "pos", "sym": "sym", "symmetric": "sym", "her": "her", "hermitian": "her",
}  # fmt: skip
"""What `scipy.linalg.solve` may assume of matrices -> its shortest name."""


def structured(a: Any, structure: str, *, lower: bool) -> Any:
    """Return the matrices that elements count for where a structure is assumed, by its shortest name.

    Parameters
    ----------
    a : ndarray, (..., M, M), float or complex
    structure : str
    lower : bool
        Which triangle counts of symmetric, Hermitian and positive definite matrices.
    """
    if structure in ("gen", "banded"):
        return a
    if structure.endswith("triangular"):
        return np.triu(a) if structure.startswith("upper") else np.tril(a)
    if structure.endswith("diagonal"):
        width = 1 if structure.startswith("tri") else 0
        return np.tril(np.triu(a, -width), width)
    turned = _spectral.adjoint if structure != "sym" else lambda x: x.swapaxes(-1, -2)
    below = np.tril(a, -1) if lower else turned(np.triu(a, 1))
    diagonal = np.triu(np.tril(a))
    if structure != "sym" and a.dtype.kind == "c":
        diagonal = diagonal.real.astype(a.dtype)
    return below + diagonal + turned(below)


def _is_own_adjoint(a: Any, atol: Any, rtol: Any, *, is_conjugate: bool) -> Any:
    """Whether matrices are their transposes, or the conjugates of those, bit by bit, or within tolerances."""
    (a,) = matrices(a, check_finite=False, are_square=True)
    if a.ndim > 2 and not HAS_STACKS:
        raise Unsupported("stacks that SciPy refuses")
    turned, below = a.swapaxes(-1, -2), -1
    if is_conjugate and a.dtype.kind == "c":
        turned, below = np.conjugate(turned), 0
    if atol is None and rtol is None:
        is_same = np.tril(a, below) == np.tril(turned, below)
    else:
        is_same = np.isclose(a, turned, rtol=rtol or 0.0, atol=atol or 0.0)
    found = is_same.all(axis=(-2, -1))
    return found if a.ndim > 2 else bool(found)


@implements("scipy.linalg.issymmetric")
def issymmetric(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """See `scipy.linalg.issymmetric`."""
    return _is_own_adjoint(a, atol, rtol, is_conjugate=False)


@implements("scipy.linalg.ishermitian")
def ishermitian(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """See `scipy.linalg.ishermitian`."""
    return _is_own_adjoint(a, atol, rtol, is_conjugate=True)


@implements("scipy.linalg.bandwidth")
def bandwidth(a: Any) -> tuple[Any, Any]:
    """See `scipy.linalg.bandwidth`."""
    (a,) = matrices(a, check_finite=False)
    if a.ndim > 2 and not _BANDWIDTH_TAKES_STACKS:
        raise Unsupported("stacks that SciPy refuses")
    rows, columns = (np.arange(n, like=a) for n in a.shape[-2:])
    below = np.where(a != 0, rows[:, None] - columns, 0)
    lower, upper = below.max(axis=(-2, -1)), -below.min(axis=(-2, -1))
    return (lower, upper) if a.ndim > 2 else (int(lower), int(upper))


# -- what structure is used for ----------------------------------------------------------------------------------------


@implements("scipy.linalg.orthogonal_procrustes")
@placed("svd", scipy.linalg.orthogonal_procrustes)
@or_scipy
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
    c, b = (np.atleast_1d(x) for x in given(c, b, check_finite=False))
    is_there = -c.ndim <= caxis < c.ndim and -b.ndim <= baxis < b.ndim
    if not is_there or c.shape[caxis] != b.shape[baxis] or not b.size or not c.size:
        raise Unsupported("what SciPy refuses, or what has no elements")
    transformed = np.fft.fft(np.moveaxis(c, caxis, -1))
    size = np.abs(transformed)
    limit = size.max(axis=-1, keepdims=True) * c.shape[caxis] * np.finfo(np.float64).eps if tol is None else tol
    if bool((size <= limit).any()):
        raise Unsupported("a matrix that is singular, or nearly")
    x = np.fft.ifft(np.fft.fft(np.moveaxis(b, baxis, -1)) / transformed)
    x = x if "c" in (c.dtype.kind, b.dtype.kind) else x.real
    return x if outaxis == -1 else np.moveaxis(x, -1, outaxis)


@implements("scipy.linalg.solve_toeplitz")
@or_scipy
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """See `scipy.linalg.solve_toeplitz`: by elimination, whose steps are parallel, where matrices are large."""
    c, r, b = _toeplitz_operands(c_or_cr, b, check_finite=check_finite)
    order, count = c.shape[-1], c.size // c.shape[-1]
    rows = b.shape[0 if b.ndim == 1 else -2]
    if order * count < LEVINSON or order > MOST or not order == r.shape[-1] == rows:
        raise Unsupported("small matrices, such that have no room, or what SciPy refuses")
    wide = "D" if "c" in (c.dtype.kind, r.dtype.kind, b.dtype.kind) else "d"
    return factorise.solve(toeplitz(c.astype(wide), r.astype(wide)), b.astype(wide))


def _toeplitz_operands(c_or_cr: Any, x: Any, *, check_finite: bool) -> tuple[Any, Any, Any]:
    """Return the first columns and the first rows of matrices, and vectors beside them."""
    pair = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    c, r = column_and_row(*pair, factorise.conjugate)
    (x,) = given(x, check_finite=False)
    c, r, x = given(c, r, x, check_finite=check_finite)
    if not x.ndim or not x.size:
        raise Unsupported("what has no elements")
    return c, r, x


@implements("scipy.linalg.matmul_toeplitz")
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Any:  # noqa: ARG001
    """See `scipy.linalg.matmul_toeplitz`: by Fourier transforms."""
    c, r, x = _toeplitz_operands(c_or_cr, x, check_finite=check_finite)
    if x.shape[0 if x.ndim == 1 else -2] != r.shape[-1]:
        raise Unsupported("what SciPy refuses")
    c, r, x = (each.astype("D" if each.dtype.kind == "c" else "d") for each in (c, r, x))  # as SciPy computes
    wide = np.concatenate([c, r[..., :0:-1]], axis=-1)
    right = x[:, None] if x.ndim == 1 else x
    n, is_complex = wide.shape[-1], "c" in (wide.dtype.kind, x.dtype.kind)
    forward, back = (np.fft.fft, np.fft.ifft) if is_complex else (np.fft.rfft, np.fft.irfft)
    found = back(forward(wide)[..., None] * forward(right, n, axis=-2), n, axis=-2)[..., : c.shape[-1], :]
    return found[..., 0] if x.ndim == 1 else found


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
