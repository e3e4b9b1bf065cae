"""QR of matrices of more rows than a panel may have: by Cholesky's factors where these are accurate, else by groups.

The inner products of the columns have Cholesky's factor R; a second round, with the columns that the first one made,
brings them from nearly orthogonal to orthogonal. Signs are those of Householder's method: a matrix with orthonormal
columns and the same first rows has them, and all of its other rows may be a triangle.

Source: Y. Yamamoto, Y. Nakatsukasa, Y. Yanagisawa and T. Fukaya, Roundoff error analysis of the CholeskyQR2 algorithm,
2015.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.ops import factorise
from oxinp._core.ops.perform import perform
from oxinp._core.ops.triangular import Triangle, solve_triangular

MOST_COLUMNS = 128
GROUP = 2048  # rows whose inner products are summed up by one product
NEAR = 0.1  # 1-norm of the difference to the identity up to which a second round leaves what rounding does


def qr(a: Any, mode: str) -> Any:
    """Return the factors of a matrix, "reduced", or "r" alone."""
    found = _by_cholesky(a) if a.ndim == 2 and a.dtype.char in "dD" and a.shape[-1] <= MOST_COLUMNS else None
    if found is None:
        return _by_groups(a, mode)
    return found[1] if mode == "r" else found


def _by_groups(a: Any, mode: str) -> Any:
    """Return the factors by those of groups of rows (TSQR).

    The first rows stay as they are, above the R of all groups: so signs are those of Householder's method.

    Source: J. Demmel, L. Grigori, M. Hoemmen and J. Langou, Communication-optimal parallel and sequential QR and LU
    factorizations, 2012.
    """
    rows, columns = a.shape[-2:]
    group: int = factorise.planner().rows_of_groups(DEVICE_TYPES[a.dtype], columns, device().capability)
    if a.ndim != 2 or not group:
        factorise.possible(a)
    count = (rows - columns) // group
    top = rows - count * group
    groups = a[top:].reshape(count, group, columns)
    (*own, r) = results if type(results := perform(factorise.QR, (groups,), (mode,))) is tuple else (results,)
    inner: Any = np.concatenate([a[:top], r.reshape(-1, columns)])
    if mode == "r":
        return factorise.qr(inner, mode)
    q, r = factorise.qr(inner, mode)
    rest = own[0] @ q[top:].reshape(count, columns, columns)
    return np.concatenate([q[:top], rest.reshape(-1, columns)]), r


def _by_cholesky(a: Any) -> tuple[Any, Any] | None:
    """Return the factors; None where columns depend on each other too much, or are not finite."""
    columns = a.shape[1]
    eye: Any = np.eye(columns, dtype=a.dtype, like=a)
    try:
        first = factorise.cholesky(_inner_products(a))
        turned = solve_triangular(first, _adjoint(a), Triangle(0, True))  # Q^H, nearly
        gram = _inner_products(_adjoint(turned))
        if not float(np.abs(gram - eye).sum(axis=0).max()) <= NEAR:
            return None
        second = factorise.cholesky(gram)
        q: Any = _adjoint(turned) @ _adjoint(solve_triangular(second, eye, Triangle(0, True)))
        top = q[:columns]
        below = factorise.cholesky(eye - _adjoint(top) @ top)
    except LinAlgError:
        return None
    both: Any = np.concatenate([top, _adjoint(below)])
    diagonal = np.diagonal(factorise.qr(both, "r")).real
    signs = np.where(diagonal < 0, diagonal.dtype.type(-1), diagonal.dtype.type(1))
    return q * signs, np.triu(_adjoint(first @ second)) * signs[:, None]


def _adjoint(a: Any) -> Any:
    return factorise.conjugate(a.swapaxes(-1, -2))


def _inner_products(a: Any) -> Any:
    """Return those of columns, which groups of rows have summed up."""
    rows, columns = a.shape
    count = rows // GROUP
    groups = a[: count * GROUP].reshape(count, GROUP, columns)
    rest = a[count * GROUP :]
    return (_adjoint(groups) @ groups).sum(axis=0) + _adjoint(rest) @ rest


__all__ = ["qr"]
