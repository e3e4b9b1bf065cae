"""Eigenvalues and singular values as operations. Stacks go by leading axes.

Whether they were found is asked of the device: one of two words that kernels leave beside the results.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import LinAlgError

from oxinp import _runtime
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import host_view
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.crossover import HOST_WEIGHT, cost_of, crossover
from oxinp._core.ops.factorise import conjugate, operand, prepared
from oxinp._core.ops.perform import perform

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.plan import Plan

EIGEN, SINGULAR = "eigen", "singular"
STATUS = Layout.of(np.dtype("i8"), (2,))


def planner() -> Any:
    """Return the module that plans, imported for the first operation."""
    return importlib.import_module("oxinp._kernels.lapack.spectrum")


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(dtype.char.lower())


def _cost_of(routine: str, of_values: str) -> Any:
    """Return the cost of a routine that may be asked for values alone."""
    costs = cost_of(of_values), cost_of(routine)

    def cost(layouts: tuple[Layout, ...], parameters: Any) -> float:
        (has_vectors,) = parameters
        return costs[has_vectors](layouts, parameters)

    return cost


def _infer_eigh(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (a,), (has_vectors,) = layouts, parameters
    vectors = (Layout.of(a.dtype, a.shape),) if has_vectors else ()
    return (Layout.of(_real(a.dtype), a.shape[:-1]), *vectors, STATUS)


def _plan_eigh(bound: BoundOp) -> Plan:
    (has_vectors,), layout = bound.parameters, bound.graphs[0].layout
    plan: Plan = planner().plan_eigh(layout.shape, operand(layout), device().capability, has_vectors=has_vectors)
    return plan


def _host_eigh(a: np.ndarray[Any, Any], has_vectors: Any) -> tuple[Any, ...]:
    return tuple(np.linalg.eigh(a)) if has_vectors else (np.linalg.eigvalsh(a),)


def _infer_svd(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (a,), (has_vectors,) = layouts, parameters
    *batch, rows, columns = a.shape
    depth = min(rows, columns)
    values = Layout.of(_real(a.dtype), (*batch, depth))
    if not has_vectors:
        return values, STATUS
    u, vh = (Layout.of(a.dtype, (*batch, *shape)) for shape in ((rows, depth), (depth, columns)))
    return u, values, vh, STATUS


def _plan_svd(bound: BoundOp) -> Plan:
    (has_vectors,), layout = bound.parameters, bound.graphs[0].layout
    plan: Plan = planner().plan_svd(layout.shape, operand(layout), device().capability, has_vectors=has_vectors)
    return plan


def _host_svd(a: np.ndarray[Any, Any], has_vectors: Any) -> tuple[Any, ...]:
    found = np.linalg.svd(a, full_matrices=False, compute_uv=has_vectors)
    return tuple(found) if has_vectors else (found,)


def _tridiagonal() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.conquer")


def _infer_tridiagonal(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    diagonal, (has_vectors,) = layouts[0], parameters
    if not has_vectors:
        return (Layout.of(diagonal.dtype, diagonal.shape),)
    padded = _tridiagonal().tree(diagonal.shape[0]).padded
    return Layout.of(diagonal.dtype, (padded,)), Layout.of(diagonal.dtype, (padded, padded))


def _plan_tridiagonal(bound: BoundOp) -> Plan:
    (has_vectors,), layout = bound.parameters, bound.graphs[0].layout
    type_, order = DEVICE_TYPES[layout.dtype], layout.shape[0]
    plan: Plan
    if has_vectors:
        plan = _tridiagonal().plan(type_, 1, order, device().capability)
    else:
        plan = importlib.import_module("oxinp._kernels.lapack.sturm").plan(type_, 1, order)
    return plan


def _host_tridiagonal(
    diagonal: np.ndarray[Any, Any], beside: np.ndarray[Any, Any], has_vectors: Any
) -> tuple[Any, ...]:
    linalg = importlib.import_module("scipy.linalg")
    found = linalg.eigh_tridiagonal(diagonal, beside[:-1], eigvals_only=not has_vectors)
    return tuple(found) if has_vectors else (found,)


def _cost_of_tridiagonal(layouts: tuple[Layout, ...], parameters: Any) -> float:  # noqa: ARG001
    (diagonal, _) = layouts
    return crossover("eigh_tridiagonal", diagonal.dtype).cost(diagonal.size, 1)


EIGH = Op("eigh", _plan_eigh, _infer_eigh, _host_eigh, _cost_of("eigh", "eigvalsh"), HOST_WEIGHT, takes_views=True)
TRIDIAGONAL = Op(
    "eigh_tridiagonal",
    _plan_tridiagonal,
    _infer_tridiagonal,
    _host_tridiagonal,
    _cost_of_tridiagonal,
    HOST_WEIGHT,
)
SVD = Op("svd", _plan_svd, _infer_svd, _host_svd, _cost_of("svd", "svdvals"), HOST_WEIGHT, takes_views=True)


def has_kernel(a: Handle, what: str, *, has_vectors: bool) -> bool:
    """Whether there is a kernel for matrices of these sizes."""
    layout, backend = a._layout, _runtime.current()
    if backend is None:
        return True  # NumPy computes
    type_, limits = DEVICE_TYPES[layout.dtype], backend.capability
    is_possible: bool = planner().is_possible(type_, layout.shape, what, limits, has_vectors=has_vectors)
    return is_possible


def _performed(op: Op, a: Handle, message: str, *, has_vectors: bool) -> tuple[tuple[Any, ...], int]:
    """Compute an operation; return its results, and how many singular vectors are zero."""
    results = perform(op, (a,), (has_vectors,))
    (*results, status) = results if type(results) is tuple else (results,)
    if status._layout is not STATUS and status._layout.dtype.kind != "i":
        return (*results, status), 0  # NumPy has computed
    failed, num_zero = host_view(status).tolist()
    if failed >= 0:
        raise LinAlgError(message)
    return tuple(results), num_zero


def eigh(a: Handle, *, is_upper: bool = False, has_vectors: bool = True) -> tuple[Any, ...]:
    """Return eigenvalues, ascending, and vectors of Hermitian matrices; see `numpy.linalg.eigh`.

    Raises
    ------
    LinAlgError
        They were not found.
    Unsupported
        There is no kernel for matrices as large.
    """
    (a,) = prepared(a)
    if is_upper:
        a = conjugate(view(a, lambda seen: seen.swapaxes(-1, -2)))
    if not has_kernel(a, EIGEN, has_vectors=has_vectors):
        msg = f"eigenvalues of matrices of {a._layout.shape[-1]} rows"
        raise Unsupported(msg)
    return _performed(EIGH, a, "Eigenvalues did not converge", has_vectors=has_vectors)[0]


def eigh_tridiagonal(diagonal: Handle, beside: Handle, *, has_vectors: bool = True) -> tuple[Any, ...]:
    """Return eigenvalues, ascending, and vectors of a real symmetric tridiagonal matrix, or the values alone.

    Parameters
    ----------
    diagonal, beside : array, (N,), float32 or float64
        Of one dtype and of magnitudes whose squares are normal numbers; the last element of `beside` is not used.

    Raises
    ------
    Unsupported
        There is no kernel for matrices as large.
    """
    layout, backend = diagonal._layout, _runtime.current()
    order = layout.shape[0]
    if backend is not None and order > _tridiagonal().most_rows(DEVICE_TYPES[layout.dtype], backend.capability):
        msg = f"eigenvalues of tridiagonal matrices of {order} rows"
        raise Unsupported(msg)
    found = perform(TRIDIAGONAL, (diagonal, beside), (has_vectors,))
    if not has_vectors:
        return (found[0] if type(found) is tuple else found,)
    w, v = found
    return w[:order], v[:order, :order]


def svd(a: Handle, *, has_vectors: bool = True) -> tuple[tuple[Any, ...], int]:
    """Return U, singular values, descending, and V^H, or the values alone; and how many vectors are zero.

    Zero vectors are of those of U, of V^H where matrices have more columns than rows; their values are zero, and come
    last.

    Raises
    ------
    LinAlgError
        They were not found.
    Unsupported
        There is no kernel for matrices as large.
    """
    (a,) = prepared(a, are_square=False)
    if not has_kernel(a, SINGULAR, has_vectors=has_vectors):
        msg = f"singular values of matrices of {a._layout.shape[-2:]} elements"
        raise Unsupported(msg)
    return _performed(SVD, a, "SVD did not converge", has_vectors=has_vectors)


__all__ = ["EIGEN", "EIGH", "SINGULAR", "SVD", "TRIDIAGONAL", "eigh", "eigh_tridiagonal", "has_kernel", "svd"]
