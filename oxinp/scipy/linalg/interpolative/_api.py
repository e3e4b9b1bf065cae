"""`scipy.linalg.interpolative`: by QR with pivoting and singular values, where SciPy draws samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.interpolative as scipys

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, host_view
from oxinp._core.ops import factorise
from oxinp._core.ops.triangular import Triangle, solve_triangular
from oxinp.linalg import _spectral
from oxinp.linalg._spectral import adjoint
from oxinp.scipy.linalg._given import matrices

_NAME = "scipy.linalg.interpolative"


def _matrix(a: Any) -> Any:
    """Return one matrix in double precision."""
    if not isinstance(a, (np.ndarray, Handle)):
        raise Unsupported("an operator")
    (a,) = matrices(a, check_finite=False)
    if a.ndim != 2 or a.dtype.char not in "dD":
        raise Unsupported("stacks, or dtypes that SciPy refuses")
    return a


@implements(f"{_NAME}.interp_decomp")
@placed("qr", scipys.interp_decomp)
def interp_decomp(A: Any, eps_or_k: Any, rand: bool = True, rng: Any = None) -> Any:  # noqa: ARG001 - nothing is drawn
    """See `scipy.linalg.interpolative.interp_decomp`: by QR with pivoting, drawing nothing."""
    a = _matrix(A)
    order, r = factorise.pivoted_qr(a, "r")
    diagonal = np.abs(host_view(as_ours(np.diagonal(r))))
    known = eps_or_k if eps_or_k >= 1 else np.count_nonzero(diagonal > eps_or_k * diagonal[0])
    if known > len(diagonal) or not known:
        raise Unsupported("a rank that SciPy refuses, or none")
    k = int(known)
    projection = solve_triangular(r[:k, :k], r[:k, k:], Triangle()) if k < a.shape[1] else r[:k, k:]
    columns = order.astype(np.intp)
    return (columns, projection) if eps_or_k >= 1 else (k, columns, projection)


@implements(f"{_NAME}.reconstruct_interp_matrix")
def reconstruct_interp_matrix(idx: Any, proj: Any) -> Any:
    """See `scipy.linalg.interpolative.reconstruct_interp_matrix`."""
    p = _matrix(proj)
    eye = np.eye(len(p), dtype=p.dtype, like=p)
    return np.concatenate([eye, p], axis=1)[:, np.argsort(as_ours(idx))]


@implements(f"{_NAME}.reconstruct_matrix_from_id")
def reconstruct_matrix_from_id(B: Any, idx: Any, proj: Any) -> Any:
    """See `scipy.linalg.interpolative.reconstruct_matrix_from_id`."""
    b, p = _matrix(B), _matrix(proj)
    return np.concatenate([b, b @ p], axis=1)[:, np.argsort(as_ours(idx))]


@implements(f"{_NAME}.reconstruct_skel_matrix")
def reconstruct_skel_matrix(A: Any, k: Any, idx: Any) -> Any:
    """See `scipy.linalg.interpolative.reconstruct_skel_matrix`."""
    return as_ours(A)[:, as_ours(idx)[:k]]


def _singular(a: Any, count: int | None, epsilon: float) -> tuple[Any, Any, Any]:
    """Return U, the first singular values or those above a share of the first, and V."""
    u, s, vh = _spectral.svd(a, full_matrices=False)
    k = count or max(1, int(np.count_nonzero(s > s[0] * epsilon)))
    return u[:, :k], s[:k], adjoint(vh[:k])


@implements(f"{_NAME}.id_to_svd")
@placed("svd", scipys.id_to_svd)
def id_to_svd(B: Any, idx: Any, proj: Any) -> Any:
    """See `scipy.linalg.interpolative.id_to_svd`."""
    b = _matrix(B)
    return _singular(reconstruct_matrix_from_id(b, idx, proj), b.shape[1], 0.0)


@implements(f"{_NAME}.svd")
@placed("svd", scipys.svd)
def svd(A: Any, eps_or_k: Any, rand: bool = True, rng: Any = None) -> Any:  # noqa: ARG001 - nothing is drawn
    """See `scipy.linalg.interpolative.svd`: the first of all singular values, drawing nothing."""
    a = _matrix(A)
    if eps_or_k > min(a.shape):
        raise Unsupported("a rank that SciPy refuses")
    return _singular(a, int(eps_or_k) if eps_or_k >= 1 else None, eps_or_k)


@implements(f"{_NAME}.estimate_rank")
@placed("svdvals", scipys.estimate_rank)
def estimate_rank(A: Any, eps: Any, rng: Any = None) -> int:  # noqa: ARG001 - nothing is drawn
    """See `scipy.linalg.interpolative.estimate_rank`: by singular values, drawing nothing."""
    s = _spectral.svdvals(_matrix(A))
    return int(np.count_nonzero(s > s[0] * eps))


@implements(f"{_NAME}.estimate_spectral_norm")
@placed("svdvals", scipys.estimate_spectral_norm)
def estimate_spectral_norm(A: Any, its: int = 20, rng: Any = None) -> float:  # noqa: ARG001
    """See `scipy.linalg.interpolative.estimate_spectral_norm`: the largest singular value itself."""
    return float(_spectral.svdvals(_matrix(A))[0])


@implements(f"{_NAME}.estimate_spectral_norm_diff")
@placed("svdvals", scipys.estimate_spectral_norm_diff)
def estimate_spectral_norm_diff(A: Any, B: Any, its: int = 20, rng: Any = None) -> float:  # noqa: ARG001
    """See `scipy.linalg.interpolative.estimate_spectral_norm_diff`: the largest singular value of the difference."""
    a, b = _matrix(A), _matrix(B)
    if a.shape != b.shape:
        raise Unsupported("what SciPy refuses")
    return float(_spectral.svdvals(a - b)[0])


__all__ = [
    "estimate_rank",
    "estimate_spectral_norm",
    "estimate_spectral_norm_diff",
    "id_to_svd",
    "interp_decomp",
    "reconstruct_interp_matrix",
    "reconstruct_matrix_from_id",
    "reconstruct_skel_matrix",
    "svd",
]
