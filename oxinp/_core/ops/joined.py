"""Arrays joined by one launch: along their first axis, where each is a range of bytes, and columns side by side."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from oxinp._core.lazy import explain
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.expr import Loop, Operation
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.record import express
from oxinp._core.lazy.results import wrap_pending, wrap_result
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.numbers import INT32, numbers
from oxinp._core.ops.perform import bound_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Value
    from oxinp._kernels.plan import Again, Plan

_FAMILY = "oxinp._kernels.elementwise.joined"
MAX_COUNT = 8
MIN_NBYTES = 1 << 20
"""Of the result. Of less, launches of their own take the device no time, and need no plan for each new size."""
MAX_NBYTES = 1 << 20
"""Of columns that are joined by an elementwise operation, which looks at each of them for each element."""


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    first = layouts[0]
    return (Layout.of(first.dtype, (sum([x.shape[0] for x in layouts]), *first.shape[1:])),)


def _ranges(bound: BoundOp) -> tuple[list[int], int]:
    layouts = [graph.layout for graph in bound.graphs]
    return [layout.nbytes for layout in layouts], min([layout.alignment for layout in layouts])


def _plan(bound: BoundOp) -> Plan:
    plan: Plan = importlib.import_module(_FAMILY).plan(*_ranges(bound))
    return plan


def _plan_again(bound: BoundOp, variant: Any) -> Again:  # noqa: ARG001
    again: Again = importlib.import_module(_FAMILY).again(*_ranges(bound))
    return again


JOIN = Op("concatenate", _plan, _infer, plan_again=_plan_again)


def are_joined(parts: Sequence[Handle]) -> bool:
    """Whether `join` takes arrays that are alike but for their first extents: they are contiguous, and large."""
    if len(parts) > MAX_COUNT:
        return False
    nbytes = 0
    for part in parts:
        layout = part._known or part._layout
        if not layout.is_contiguous or not layout.size or layout.dtype not in DEVICE_TYPES:
            return False
        nbytes += layout.nbytes
    return nbytes >= MIN_NBYTES


def join(parts: Sequence[Handle]) -> Any:
    """Return arrays one after the other along their first axis."""
    return wrap_result(attempt(_joined, parts), as_array=True)


def _joined(parts: Sequence[Handle]) -> Value:
    """Join at once, in an attempt, as any write of parts would."""
    bound, leaves, _ = bound_to(JOIN, parts, ())
    (buffer,) = bound.run(leaves)
    (layout,) = bound.layouts
    balance.ran(layout.nbytes, leaves)
    if explain.REPORTS:
        explain.note("device", bound.describe(), f"{layout.nbytes} B result, {len(leaves)} inputs")
    return on_device(layout, buffer)


def are_columns(parts: Sequence[Handle], axis: int) -> bool:
    """Whether `columns` takes arrays that are alike but for their extents along an axis."""
    last = len((parts[0]._known or parts[0]._layout).shape) - 1
    if not 0 < axis == last or not 1 < len(parts) <= MAX_COUNT:
        return False
    nbytes = 0
    for part in parts:
        layout = part._known or part._layout
        if layout.shape[last] != 1 or not layout.size or layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
            return False
        value = (part._held or part._storage).value
        if value is None or value[0].nodes:  # chains are computed into their places
            return False
        nbytes += layout.nbytes
    return nbytes <= MAX_NBYTES


def columns(parts: Sequence[Handle]) -> Any:
    """Return arrays of one column each side by side, pending."""
    operands = numbers(0, len(parts)), *parts
    return wrap_pending(express(_columns(len(parts)), operands), as_array=True)


@cache
def _columns(count: int) -> Operation:
    def lower(k: Any, number: Any, *given: Any) -> Any:
        found = given[-1]
        for place in reversed(range(count - 1)):
            found = k.where(number == place, given[place], found)
        return found

    return Operation("columns", lambda kinds: Loop((INT32, *kinds[1:]), kinds[1], lower))


__all__ = ["are_columns", "are_joined", "columns", "join"]
