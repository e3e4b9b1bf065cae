"""Inner products of the columns of two tall matrices as an operation; the host makes a matrix of its sums."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._core.lazy.handle import host_view
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.plan import Plan


def _planner() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.inner_products")


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' one signature
    a, _ = layouts
    return (Layout.of(a.dtype, (_planner().spec_of(a.shape[1], device().capability).size,)),)


def _plan(bound: BoundOp) -> Plan:
    a, b = (graph.layout for graph in bound.graphs)
    plan: Plan = _planner().plan(*a.shape, b.shape[1], device().capability)
    return plan


INNER_PRODUCTS = Op("inner_products", _plan, _infer)


def is_possible(a: Handle, b: Handle) -> bool:
    """Whether there are a device and kernels for matrices A and B."""
    if _runtime.current() is None or a._layout.dtype.char != "d" or b._layout.dtype.char != "d":
        return False
    family = _planner()
    return bool(a._layout.shape[1] <= family.MOST_COLUMNS and b._layout.shape[1] <= family.MOST_OTHERS)


def inner_products(a: Handle, b: Handle) -> np.ndarray[Any, Any]:
    """Return [A B]^T [A B] of matrices of as many rows, on the host; see `is_possible`."""
    sums = perform_on_device(INNER_PRODUCTS, (a, b))
    shapes = a._layout.shape[1], b._layout.shape[1]
    found: np.ndarray[Any, Any] = _planner().unpacked(host_view(sums), *shapes, device().capability)
    return found


__all__ = ["INNER_PRODUCTS", "inner_products", "is_possible"]
