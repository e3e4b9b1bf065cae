"""Bunch and Kaufman's factorisations of symmetric and Hermitian matrices as an operation."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.factorise import operand
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.stacks import alone, sparing

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Plan


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    (a,) = layouts
    order = a.shape[:1]
    return (Layout.of(a.dtype, a.shape), *(Layout.of(a.dtype, order),) * 2, Layout.of(np.dtype("i4"), order))


def _plan(bound: BoundOp, device: Device) -> Plan:
    layout, planner = bound.graphs[0].layout, importlib.import_module("oxinp._kernels.lapack.ldl")
    problem = planner.Problem(layout.shape[0], *bound.parameters)
    plan: Plan = planner.plan(problem, operand(layout), device)
    return plan


LDL = Op("ldl", infer=_infer, takes_views=True, **sparing(alone(_plan)))


def ldl(a: Handle, *, is_hermitian: bool, is_reversed: bool) -> tuple[Any, Any, Any, Any]:
    """Return L, the diagonal of D, what is below it, and p, of A[p][:, p] = L D L^T, or L D L^H.

    Parameters
    ----------
    a : Handle
        (N, N), float or complex, finite, both triangles.
    is_hermitian : bool
        Which of the two.
    is_reversed : bool
        Whether rows are in reverse, so that pivots are those of LAPACK's upper triangles.

    Returns
    -------
    l : ndarray, (N, N)
    d, e : ndarray, (N,)
        `e` is zero but for blocks of two rows, of which it is the element below the diagonal, in the first row's place.
    p : ndarray, (N,), int32
    """
    if _runtime.current() is None:
        raise Unsupported("no device")
    found: tuple[Any, Any, Any, Any] = perform_on_device(LDL, (a,), (is_hermitian, is_reversed))
    return found


__all__ = ["LDL", "ldl"]
