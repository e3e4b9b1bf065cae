"""Parlett's recurrence as an operation: functions of triangular matrices."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    return (Layout.of(layouts[0].dtype, layouts[0].shape),)


def _planner() -> Any:
    return importlib.import_module("oxinp._kernels.lapack.parlett")


def _plan(bound: BoundOp, device: Device) -> Plan:
    layout = bound.graphs[0].layout
    plan: Plan = _planner().plan(layout.shape[0], operand(layout), device)
    return plan


PARLETT = Op("parlett", infer=_infer, **sparing(alone(_plan)))


def recur(t: Handle, diagonal: Handle) -> Any:
    """Return a function of an upper triangular matrix, (N, N), complex, of the function on its diagonal, (N,).

    Raises
    ------
    Unsupported
        There is no device, or the matrix is too large.
    """
    if _runtime.current() is None or t._layout.shape[0] > _planner().MAX_ORDER:
        raise Unsupported("no device, or too many diagonals")
    return perform_on_device(PARLETT, (t, diagonal))


__all__ = ["PARLETT", "recur"]
