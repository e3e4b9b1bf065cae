"""Reductions along rows: how a kernel that computes what is made of them goes through the rows, see `lazy.rowwise`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from oxinp._core.lazy.chains import arrays, input_types, instructions, operand
from oxinp._core.lazy.op import RowWalk
from oxinp._core.lazy.placement import device

if TYPE_CHECKING:
    from oxinp._core.lazy.op import BoundOp


def row_walk(bound: BoundOp) -> RowWalk | None:
    """Return how a reduction runs along the last axes; None where it does not, or is no one to be merged."""
    wanted, (graph,), (layout,) = bound.parameters, bound.graphs, bound.layouts
    if 0 in graph.shape or not wanted.axes:
        return None
    output = operand(layout)
    if layout.ndim == len(graph.shape):  # keepdims
        kept = [step for axis, step in enumerate(output.strides) if axis not in wanted.axes]
        output = output.replace(strides=tuple(kept))
    structure = graph.structure
    key = ("rows", wanted.op, wanted.mask, layout.dtype)
    planner = structure.plans.get(key)
    if planner is None:
        module = importlib.import_module("oxinp._kernels.reduce.plan")
        own = instructions(structure), structure.result, wanted.op, output.type, wanted.mask
        planner = structure.plans[key] = module.Reduction(input_types(structure), *own)
    passes = planner.passes(graph.shape, wanted.axes, arrays(graph), output, device().capability)
    walk = importlib.import_module("oxinp._kernels.rowwise.plan").walk_of(passes)
    return None if walk is None else RowWalk(wanted.op, wanted.axes, wanted.mask, walk)
