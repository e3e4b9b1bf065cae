"""Hessenberg forms as operations: the reduction, products with its reflectors, and what QR iterations are made of."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.factorise import operand
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.stacks import alone, sparing

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Plan


def planner() -> Any:
    """Return the module that plans, imported for the first operation."""
    return importlib.import_module("oxinp._kernels.lapack.hessenberg")


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    (a,) = layouts
    order = a.shape[0]
    shapes = (a.shape, planner().reflectors_shape(order), (order,))
    return tuple(Layout.of(a.dtype, shape) for shape in shapes)


def _plan(bound: BoundOp, device: Device) -> Plan:
    layout = bound.graphs[0].layout
    plan: Plan = planner().plan_reduce(layout.shape[0], operand(layout), device)
    return plan


def _infer_product(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    *_, c = layouts
    return (Layout.of(c.dtype, c.shape),)


def _plan_product(bound: BoundOp, device: Device) -> Plan:
    c = bound.graphs[2].layout
    plan: Plan = planner().plan_apply(c.shape, DEVICE_TYPES[c.dtype], device)
    return plan


def iterations() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.multishift")


def chain(dtype: np.dtype[Any]) -> Any:
    """Return the Spec of the chains of bulges that sweeps chase; see `oxinp._kernels.lapack.multishift`."""
    return iterations().chain(DEVICE_TYPES[dtype], device().capability)


def _infer_step(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (_, hops), (h, z, *_) = parameters, layouts
    band = (Layout.of(h.dtype, (2, h.shape[0])),) if hops else ()
    return (Layout.of(h.dtype, h.shape), Layout.of(z.dtype, z.shape), *band)


def _plan_step(bound: BoundOp) -> Plan:
    (has_vectors, hops), h = bound.parameters, bound.graphs[0].layout
    plan: Plan = iterations().plan_step(h.shape[0], hops, chain(h.dtype), has_vectors=has_vectors)
    return plan


HESSENBERG = Op("hessenberg", infer=_infer, takes_views=True, **sparing(alone(_plan)))
MULTIPLY = Op("multiply_reflectors", infer=_infer_product, linear_in=(2,), **sparing(alone(_plan_product)))
STEP = Op("qr_iterations", _plan_step, _infer_step)


def has_kernel(a: Handle) -> bool:
    """Whether there is a device, and kernels for a matrix of the order and dtype."""
    layout, backend = a._layout, _runtime.current()
    if backend is None or layout.ndim != 2 or layout.dtype.char not in "fdFD":
        return False
    is_possible: bool = planner().is_possible(DEVICE_TYPES[layout.dtype], layout.shape[0], backend.capability)
    return is_possible


def reduce(a: Handle) -> tuple[Any, Any, Any]:
    """Return H of Q^H A Q = H, and the reflectors whose product Q is, with their tau.

    Parameters
    ----------
    a : Handle
        (N, N), float or complex; squares of its elements are normal numbers.

    Raises
    ------
    Unsupported
        There is no kernel for it.
    """
    if not has_kernel(a):
        msg = f"Hessenberg forms of matrices of shape {a._layout.shape}"
        raise Unsupported(msg)
    h, v, tau = perform_on_device(HESSENBERG, (a,))
    return h, v, tau


def multiply(v: Any, tau: Any, c: Any) -> Any:
    """Return Q C for the reflectors of `reduce`; C (N, K), of their dtype."""
    return perform_on_device(MULTIPLY, (v, tau, c))


def sweep(h: Any, z: Any, shifts: Any, bounds: Any, hops: int, *, has_vectors: bool) -> tuple[Any, Any, Any]:
    """Return H and Z after a sweep, and the diagonal of H and what is below it; see `_kernels.lapack.multishift`."""
    found: tuple[Any, Any, Any] = perform_on_device(STEP, (h, z, shifts, bounds), (has_vectors, hops))
    return found


def put_window(h: Any, z: Any, given: Any, bounds: Any, *, has_vectors: bool) -> tuple[Any, Any]:
    """Return H and Z with a window of H that has been transformed, and what that changes beside it."""
    found: tuple[Any, Any] = perform_on_device(STEP, (h, z, given, bounds), (has_vectors, 0))
    return found


__all__ = ["HESSENBERG", "MULTIPLY", "STEP", "chain", "has_kernel", "multiply", "put_window", "reduce", "sweep"]
