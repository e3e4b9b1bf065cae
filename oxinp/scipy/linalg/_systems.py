"""Systems of linear equations, and inverses, as `scipy.linalg`'s, of matrices with a structure that is told or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from oxinp._api.crossovers import placed
from oxinp._api.fronts import as_ours, implements
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import host_view
from oxinp._core.ops import factorise
from oxinp._core.ops.lu import lu as _lu
from oxinp._core.ops.triangular import Triangle
from oxinp._core.ops.triangular import solve_triangular as _solve_triangular
from oxinp.scipy.linalg._given import HAS_STACKS, given, matrices, or_scipy
from oxinp.scipy.linalg._structures import STRUCTURES, structured

_TRANS = {"N": 0, "T": 1, "C": 2, 0: 0, 1: 1, 2: 2}
_LOWER, _UPPER, _UNIT_LOWER = Triangle(0, True), Triangle(), Triangle(0, True, True)


@implements("scipy.linalg.solve_triangular")
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,  # noqa: ARG001 - a permission, of which no use is made
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.solve_triangular`."""
    if trans not in _TRANS:
        raise Unsupported("what SciPy refuses")
    a, b = given(a, b, check_finite=check_finite)
    if max(a.ndim, b.ndim) > 2 and not (a.size and b.size):
        raise Unsupported("stacks that SciPy refuses")
    return _solve_triangular(a, b, Triangle(_TRANS[trans], bool(lower), bool(unit_diagonal)))


_TRIANGLES = {"upper triangular": _UPPER, "lower triangular": _LOWER}
_TRANSPOSED = dict(zip(_TRIANGLES, reversed(_TRIANGLES), strict=True))
_ADJOINT = _LOWER._replace(trans=2)


def _structure(assume_a: Any) -> str:
    """Return SciPy's shortest name of a structure."""
    if not isinstance(assume_a, str | None) or assume_a not in STRUCTURES:
        raise Unsupported("what SciPy refuses")
    return STRUCTURES[assume_a]


@implements("scipy.linalg.solve")
@placed("solve", scipy.linalg.solve)
@or_scipy
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,  # noqa: ARG001
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Any:
    """See `scipy.linalg.solve`, which warns, on the host, of what is ill-conditioned."""
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    (b,) = given(b, check_finite=check_finite)
    is_stack = max(a.ndim, b.ndim) > 2
    rows = b.shape[0 if b.ndim == 1 else -2] if b.ndim else 0
    if rows != a.shape[-1] or not b.size or rows == 1 or (is_stack and not HAS_STACKS):
        raise Unsupported("what SciPy refuses")
    if transposed and a.dtype.kind == "c":
        raise Unsupported("what SciPy refuses")
    prepared: Any = factorise.prepared(b[:, None] if b.ndim == 1 else b, a, are_square=False)
    right, whole = prepared
    if transposed:
        whole, lower = whole.swapaxes(-1, -2), not lower
        assume_a = _TRANSPOSED.get(assume_a, assume_a)
    structure = _structure(assume_a)
    whole = structured(whole, structure, lower=lower)
    x = _solved_stacks(whole, right, structure) if is_stack else _solved_alone(whole, right, structure)
    return x[..., 0] if b.ndim == 1 else x


def _solved_alone(a: Any, b: Any, structure: str) -> Any:
    system = _System(a, structure)
    x = system.solve(b)
    if bool(system.norm * system.inverse_norm() * np.finfo(x.dtype).eps > 1):
        raise Unsupported("a matrix that is ill-conditioned")
    return x


def _solved_stacks(a: Any, b: Any, structure: str) -> Any:
    """Return solutions of stacks of systems, none of which is ill-conditioned."""
    x = _stacked_solution(a, b, structure)
    inverse = _stacked_solution(a, np.eye(a.shape[-1], dtype=a.dtype, like=a), structure)
    if not bool((_norm(a) * _norm(inverse) * np.finfo(x.dtype).eps < 1).all()):
        raise Unsupported("a matrix that is ill-conditioned")
    return x


def _stacked_solution(a: Any, b: Any, structure: str) -> Any:
    if structure in _TRIANGLES:
        return _solve_triangular(a, b, _TRIANGLES[structure])
    if structure != "pos":
        return factorise.solve(a, b)
    factor = factorise.cholesky(a)
    return _solve_triangular(factor, _solve_triangular(factor, b, _LOWER), _ADJOINT)


class _System:
    """A matrix, factored as its structure allows.

    Parameters
    ----------
    a : ndarray, (M, M)
    structure : str
        See `structured`.
    """

    def __init__(self, a: Any, structure: str) -> None:
        self.order, self.permutation = len(a), None
        if structure == "pos":
            factor = factorise.cholesky(a)
            self.steps = [(factor, _LOWER), (factor, _ADJOINT)]
        elif structure in _TRIANGLES:
            self.steps = [(a, _TRIANGLES[structure])]
        else:
            factors, _, self.permutation = _lu(a)
            self.steps = [(factors, _UNIT_LOWER), (factors, _UPPER)]
        self.norm = _norm(a)

    def solve(self, b: Any) -> Any:
        """Return X of A X = B."""
        x = b if self.permutation is None else b[self.permutation]
        for matrix, triangle in self.steps:
            x = _solve_triangular(matrix, x, triangle)
        return x

    def solve_adjoint(self, b: Any) -> Any:
        """Return X of A^H X = B."""
        x = b
        for matrix, triangle in reversed(self.steps):
            x = _solve_triangular(matrix, x, triangle._replace(trans=2 - triangle.trans))
        return x if self.permutation is None else x[np.argsort(self.permutation)]

    def inverse_norm(self) -> Any:
        """Return the 1-norm of the inverse, estimated as LAPACK does, from one gradient step.

        Source: N. Higham, FORTRAN codes for estimating the one-norm of a matrix, 1988.
        """
        n, dtype = self.order, self.steps[0][0].dtype
        numbers = np.arange(n)
        alternating = np.where(numbers % 2, -1.0, 1.0) * (1 + numbers / max(1, n - 1))
        start = as_ours(np.stack([np.full(n, 1 / n), alternating], axis=-1).astype(dtype))
        y = self.solve(start)
        first, second = (np.abs(y[:, i]).sum() for i in range(2))
        size = np.abs(y[:, :1])
        one = dtype.type(1)
        direction = np.where(size > 0, y[:, :1] / np.where(size > 0, size, size.dtype.type(1)), one)
        gradient = np.abs(self.solve_adjoint(direction)[:, 0])
        chosen = (as_ours(numbers) == np.argmax(gradient)).astype(dtype)
        third = np.abs(self.solve(chosen[:, None])).sum()
        return np.maximum(np.maximum(first, third), second * (2 / (3 * n)))


@implements("scipy.linalg.lu_solve")
def lu_solve(
    lu_and_piv: Any,
    b: Any,
    trans: Any = 0,
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.lu_solve`. Pivots become a permutation on the host."""
    factors, pivots = lu_and_piv
    (factors,) = matrices(factors, check_finite=check_finite, are_square=True)
    b = _right(factors, b, check_finite=check_finite)
    pivots = host_view(as_ours(pivots))
    if trans not in (0, 1, 2) or pivots.ndim < 1 or pivots.shape[-1] != factors.shape[-1]:
        raise Unsupported("what SciPy refuses")
    order = _permutation(pivots)
    right = b[:, None] if b.ndim == 1 else b
    if not trans:
        inner = _solve_triangular(factors, _permuted(right, order), _UNIT_LOWER)
        x = _solve_triangular(factors, inner, _UPPER)
    else:
        inner = _solve_triangular(factors, right, _UPPER._replace(trans=trans))
        inner = _solve_triangular(factors, inner, _UNIT_LOWER._replace(trans=trans))
        x = _permuted(inner, np.argsort(order, axis=-1))
    return x[..., 0] if b.ndim == 1 else x


def _right(a: Any, b: Any, *, check_finite: bool) -> Any:
    """Return right-hand sides of factored systems, or stacks of them.

    Raises
    ------
    Unsupported
        SciPy refuses them.
    """
    (b,) = given(b, check_finite=check_finite)
    is_stack = max(a.ndim, b.ndim) > 2
    if not b.ndim or b.shape[0 if b.ndim == 1 else -2] != a.shape[-1] or (is_stack and not (HAS_STACKS and b.size)):
        raise Unsupported("what SciPy refuses")
    return b


def _permutation(pivots: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the row that each row was, before rows changed places with those that pivots name, of every matrix."""
    *batch, num_rows = pivots.shape
    orders = []
    for each in pivots.reshape(-1, num_rows).tolist():
        order = list(range(num_rows))
        for row, other in enumerate(each):
            order[row], order[other] = order[other], order[row]
        orders.append(order)
    return np.array(orders, np.intp).reshape(*batch, num_rows)


def _permuted(x: Any, order: np.ndarray[Any, Any]) -> Any:
    """Return matrices with the rows that an order says, of all or of each."""
    if order.ndim == 1:
        return x[..., order, :]
    batch = np.broadcast_shapes(order.shape[:-1], x.shape[:-2])
    wide = np.broadcast_to(x, (*batch, *x.shape[-2:]))
    return np.take_along_axis(wide, np.broadcast_to(as_ours(order)[..., None], wide.shape), axis=-2)


@implements("scipy.linalg.cho_solve")
def cho_solve(
    c_and_lower: Any,
    b: Any,
    overwrite_b: bool = False,  # noqa: ARG001
    check_finite: bool = True,
) -> Any:
    """See `scipy.linalg.cho_solve`."""
    c, lower = c_and_lower
    (c,) = matrices(c, check_finite=check_finite, are_square=True)
    b = _right(c, b, check_finite=check_finite)
    is_lower = np.asarray(lower, dtype=bool)
    if not is_lower.size or is_lower.all() != is_lower.any():
        raise Unsupported("triangles of both kinds")
    first, second = (_LOWER, _ADJOINT) if is_lower.all() else (_UPPER._replace(trans=2), _UPPER)
    x = _solve_triangular(c, _solve_triangular(c, b[:, None] if b.ndim == 1 else b, first), second)
    return x[..., 0] if b.ndim == 1 else x


@implements("scipy.linalg.inv")
@placed("inv", scipy.linalg.inv)
@or_scipy
def inv(
    a: Any,
    overwrite_a: bool = False,  # noqa: ARG001
    check_finite: bool = True,
    *,
    assume_a: Any = None,
    lower: bool = False,
) -> Any:
    """See `scipy.linalg.inv`, which warns, on the host, of what is ill-conditioned."""
    structure = _structure(assume_a)
    (a,) = matrices(a, check_finite=check_finite, are_square=True)
    if structure in ("tridiagonal", "banded"):
        raise Unsupported("what SciPy refuses")
    (whole,) = factorise.prepared(a)
    a = structured(whole, structure, lower=lower)
    if structure == "pos" or structure in _TRIANGLES:
        eye = np.eye(a.shape[-1], dtype=a.dtype, like=a)
        found = structured(_stacked_solution(a, np.broadcast_to(eye, a.shape), structure), structure, lower=True)
    else:
        found = factorise.inv(a)
    if bool((_norm(a) * _norm(found) * np.finfo(found.dtype).eps > 1).any()):
        raise Unsupported("a matrix that is ill-conditioned")
    if structure != "diagonal":
        return found
    return np.where(np.eye(a.shape[-1], dtype=bool, like=a), found, whole)  # the rest is what it was, as in SciPy


def _norm(a: Any) -> Any:
    """Return 1-norms of matrices."""
    return np.abs(a).sum(axis=-2).max(axis=-1)


__all__ = ["cho_solve", "inv", "lu_solve", "solve", "solve_triangular"]
