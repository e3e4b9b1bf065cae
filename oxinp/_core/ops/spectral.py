"""Eigenvalues and singular values as operations. Stacks go by leading axes.

Whether they were found is asked of the device: one of two words that kernels leave beside the results.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.views import view
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.crossover import HOST_WEIGHT, cost_of, crossover
from oxinp._core.ops.factorise import conjugate, operand, prepared
from oxinp._core.ops.perform import is_placed_on_host, perform, perform_on_host, perform_sized
from oxinp._core.ops.stacks import alone, planned, raising, sparing

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Plan
    from oxinp._kernels.problem import Operand

EIGEN, SINGULAR = "eigen", "singular"
NUM_WORDS = 2
"""Of a status: the first matrix of which nothing was found, negative where there is none; how many vectors are zero."""


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
    return (Layout.of(_real(a.dtype), a.shape[:-1]), *vectors)


def _plan_with(name: str) -> dict[str, Any]:
    """Return what an `Op` is told of its plan, of a function of `planner`."""

    def plan(bound: BoundOp, *, is_short: bool) -> Plan:
        (has_vectors,), layout = bound.parameters, bound.graphs[0].layout
        *batch, rows, columns = layout.shape
        function = getattr(planner(), name)

        def made(device: Device, batch: tuple[int, ...], a: Operand) -> Plan:
            found: Plan = function((*batch, rows, columns), a, device, has_vectors=has_vectors)
            return found

        return planned(bound, tuple(batch), (operand(layout),), made, is_short=is_short, num_words=NUM_WORDS)

    return sparing(plan)


def _raising(message: str) -> Any:
    """Return what an operation does with its status."""
    sized = raising(message)
    return lambda bound, words: sized(bound, words[::NUM_WORDS])


def _host_eigh(a: np.ndarray[Any, Any], has_vectors: Any) -> tuple[Any, ...]:
    return tuple(np.linalg.eigh(a)) if has_vectors else (np.linalg.eigvalsh(a),)


def _infer_svd(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (a,), (has_vectors,) = layouts, parameters
    *batch, rows, columns = a.shape
    depth = min(rows, columns)
    values = Layout.of(_real(a.dtype), (*batch, depth))
    if not has_vectors:
        return (values,)
    u, vh = (Layout.of(a.dtype, (*batch, *shape)) for shape in ((rows, depth), (depth, columns)))
    return u, values, vh


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


def _plan_tridiagonal(bound: BoundOp, device: Device) -> Plan:
    (has_vectors,), layout = bound.parameters, bound.graphs[0].layout
    type_, order = DEVICE_TYPES[layout.dtype], layout.shape[0]
    plan: Plan
    if has_vectors:
        plan = _tridiagonal().plan(type_, 1, order, device)
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


EIGH = Op(
    "eigh",
    infer=_infer_eigh,
    host=_host_eigh,
    cost=_cost_of("eigh", "eigvalsh"),
    host_weight=HOST_WEIGHT,
    takes_views=True,
    sized=_raising("Eigenvalues did not converge"),
    **_plan_with("plan_eigh"),
)
TRIDIAGONAL = Op(
    "eigh_tridiagonal",
    infer=_infer_tridiagonal,
    host=_host_tridiagonal,
    cost=_cost_of_tridiagonal,
    host_weight=HOST_WEIGHT,
    **sparing(alone(_plan_tridiagonal)),
)
SVD = Op(
    "svd",
    infer=_infer_svd,
    host=_host_svd,
    cost=_cost_of("svd", "svdvals"),
    host_weight=HOST_WEIGHT,
    takes_views=True,
    sized=_raising("SVD did not converge"),
    **_plan_with("plan_svd"),
)


def has_kernel(a: Handle, what: str, *, has_vectors: bool) -> bool:
    """Whether there is a kernel for matrices of these sizes."""
    layout, backend = a._layout, _runtime.current()
    if backend is None:
        return True  # NumPy computes
    type_, limits = DEVICE_TYPES[layout.dtype], backend.capability
    is_possible: bool = planner().is_possible(type_, layout.shape, what, limits, has_vectors=has_vectors)
    return is_possible


def _performed(op: Op, a: Handle, *, has_vectors: bool) -> tuple[tuple[Any, ...], int]:
    """Compute an operation; return its results, and how many singular vectors are zero."""
    if is_placed_on_host(op, (a,), (has_vectors,)):
        found = perform_on_host(op, (a,), (has_vectors,))
        return found if type(found) is tuple else (found,), 0
    results, words = perform_sized(op, (a,), (has_vectors,))
    return results, sum(words[1::NUM_WORDS])


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
    if a._layout.shape[-1] == 1:
        return _of_numbers(a, has_vectors=has_vectors)
    if is_upper:
        a = conjugate(view(a, lambda seen: seen.swapaxes(-1, -2)))
    if not has_kernel(a, EIGEN, has_vectors=has_vectors):
        msg = f"eigenvalues of matrices of {a._layout.shape[-1]} rows"
        raise Unsupported(msg)
    return _performed(EIGH, a, has_vectors=has_vectors)[0]


def _of_numbers(a: Any, *, has_vectors: bool) -> tuple[Any, ...]:
    """Return eigenvalues and vectors of matrices of one element, whatever it is."""
    w = a[..., 0].real.copy()
    return (w, np.ones_like(a)) if has_vectors else (w,)


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
    return _performed(SVD, a, has_vectors=has_vectors)


__all__ = ["EIGEN", "EIGH", "SINGULAR", "SVD", "TRIDIAGONAL", "eigh", "eigh_tridiagonal", "has_kernel", "svd"]
