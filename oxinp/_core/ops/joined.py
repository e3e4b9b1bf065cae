"""Arrays joined along their first axis by one launch, where each is a range of bytes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oxinp._core.lazy import explain
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.results import wrap_result
from oxinp._core.memory.layout import Layout
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
    """Whether `join` takes arrays, which are contiguous and alike but for their first extents."""
    sizes = [part._layout.nbytes for part in parts]
    return sum(sizes) >= MIN_NBYTES and min(sizes) > 0 and len(sizes) <= MAX_COUNT


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


__all__ = ["are_joined", "join"]
