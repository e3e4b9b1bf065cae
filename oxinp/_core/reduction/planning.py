"""Plans of reductions: of a chain and what reduces it, and how that goes along rows."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from oxinp._core.lazy.chains import arrays, input_types, instructions, line_of, operand
from oxinp._core.lazy.expr import Graph
from oxinp._core.lazy.op import AlongRows, BoundOp, RowWalk, along
from oxinp._core.lazy.placement import device
from oxinp._core.memory.layout import Layout
from oxinp._core.reduction.near_lines import keep_near
from oxinp._kernels.plan import Again, Flagged, Joined, Plan
from oxinp._kernels.problem import ReduceOp
from oxinp._runtime import here


class Reduced(NamedTuple):
    """What is reduced of a chain: the value and the mask among its numbers, over which axes, and how."""

    op: ReduceOp
    axes: tuple[int, ...]
    mask: int | None


def plan(bound: BoundOp, target: Layout | None = None) -> Plan:
    """Plan the chain and the reduction after it, into a layout if one is given."""
    planner, problem = _planner(bound, target)
    made: Plan = planner.plan(*problem, device().capability)
    return made


def plan_again(bound: BoundOp, target: Layout | None) -> Plan | Again | Flagged | Joined | None:
    """Return the same, if other sizes have been planned."""
    wanted: Reduced = bound.parameters
    (graph,) = bound.graphs
    if len(graph.shape) == 2 and wanted.axes in {(0,), (1,)}:
        written = bound.layouts[0] if target is None else target
        # `key_of`, spelled out
        planner = graph.structure.plans.get(("reduction", wanted.op, wanted.mask, written.dtype))
        matrix = None if planner is None else _matrix_of(planner, graph, wanted.axes[0], written)
        if matrix is not None:
            return matrix
    line = line_of(graph.leaves) if len(wanted.axes) == graph.layout.ndim else None
    if line is not None:
        planner = graph.structure.plans.get(key_of(wanted, bound.layouts[0] if target is None else target))
        num_sms = device().capability.num_sms
        again: Again | None = planner and planner.line_again(*line, num_sms)
        if planner is not None and again is not None:
            near = None if here.are_several or target is not None else planner.near_line(*line, num_sms)
            if near is not None:
                keep_near(bound, near)
            return again
    if len(wanted.axes) == graph.layout.ndim and (all_again := _all_of(bound, line, target)) is not None:
        return all_again
    planner, problem = _problem(bound, target)
    made: Plan | None = None if planner is None else planner.plan_again(*problem, device().capability)
    if planner is not None and made is not None and line is not None and graph.layout.ndim == 1:
        planner.keep_line(*line, device().capability.num_sms, made)
    return made


def _all_of(bound: BoundOp, line: Any, target: Layout | None) -> Again | Joined | None:
    """Return how all elements of what is one loop, or a matrix, are reduced, if others have been."""
    wanted: Reduced = bound.parameters
    (graph,) = bound.graphs
    planner = graph.structure.plans.get(key_of(wanted, bound.layouts[0] if target is None else target))
    if planner is None or (line is None and len(graph.shape) != 2):
        return None
    if line is None:
        operands = _operands_of(graph)
        return None if operands is None else planner.all_again(graph.shape, *operands, device().capability)
    size, steps, alignments = line
    return planner.all_again((size,), tuple([(step,) for step in steps]), alignments, device().capability)  # type: ignore[no-any-return]


def _matrix_of(planner: Any, graph: Graph, axis: int, target: Layout) -> Again | Flagged | Joined | None:
    """Return how a matrix is reduced along an axis into a vector, if others have been."""
    operands = _operands_of(graph)
    if operands is None or target.ndim != 1:
        return None
    written = target.strides[0] // target.dtype.itemsize
    find = planner.rows_again if axis else planner.columns_again
    again: Again | Flagged | Joined | None = find(graph.shape, *operands, written, device().capability)
    return again


def _operands_of(graph: Graph) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]] | None:
    """Return strides in elements and alignments of what a matrix is made of; None where some are not aligned."""
    steps: tuple[tuple[int, int], ...] = ()
    alignments: tuple[int, ...] = ()
    for entry in graph.leaves:
        if type(entry) is Layout:
            if not entry.is_aligned:
                return None
            itemsize = entry.dtype.itemsize
            down, along = entry.strides
            steps += ((down // itemsize, along // itemsize),)
            alignments += (entry.alignment,)
    return steps, alignments


def along_rows(bound: BoundOp) -> AlongRows | None:
    """Return the reduction of a matrix along its rows, or of a vector, see `Op.along_rows`."""
    wanted: Reduced = bound.parameters
    (graph,) = bound.graphs
    (result,) = bound.layouts
    structure, shape = graph.structure, graph.shape
    if wanted.axes != (len(shape) - 1,) or len(shape) > 2 or result.ndim != len(shape) - 1:
        return None
    planner = structure.plans.get(("reduction", wanted.op, wanted.mask, result.dtype))  # `key_of`, spelled out
    if planner is None or structure.is_flagged or structure.has_parts:
        return None
    if wanted.op.num_parameters or wanted.op.wants_index:
        return None
    operands: Any
    if len(shape) == 2:
        operands = _operands_of(graph)
    elif (operands := line_of(graph.leaves)) is not None:
        _, *operands = operands
    if operands is None:
        return None
    found: AlongRows = along((planner, shape, *operands))
    return found


def row_walk(bound: BoundOp) -> RowWalk | None:
    """Return how a reduction goes along rows, see `lazy.rowwise`; None where it goes otherwise."""
    wanted: Reduced = bound.parameters
    (graph,) = bound.graphs
    if 0 in graph.shape or not wanted.axes or graph.structure.is_flagged:
        return None
    planner, problem = _planner(bound, None)
    module = importlib.import_module("oxinp._kernels.rowwise.plan")
    walk = module.walk_of(planner.passes(*problem, device().capability))
    return None if walk is None else RowWalk(wanted.op, wanted.axes, wanted.mask, walk)


def _planner(bound: BoundOp, target: Layout | None) -> tuple[Any, tuple[Any, ...]]:
    """Return the planner of a reduction, which is kept by structure, and what it plans."""
    planner, problem = _problem(bound, target)
    if planner is None:
        graph, wanted = bound.graphs[0], bound.parameters
        structure = graph.structure
        module = importlib.import_module("oxinp._kernels.reduce.plan")  # which only who reduces pays for
        own = instructions(structure), structure.result, wanted.op, problem[-1].type, wanted.mask
        planner = module.Reduction(input_types(structure), *own, has_flags=True)
        structure.plans[key_of(wanted, bound.layouts[0] if target is None else target)] = planner
    return planner, problem


def key_of(wanted: Reduced, target: Layout) -> Any:
    """Return what a structure keeps the planner of a reduction by."""
    return "reduction", wanted.op, wanted.mask, target.dtype


def _problem(bound: BoundOp, target: Layout | None) -> tuple[Any, tuple[Any, ...]]:
    """Return the planner of a reduction if there is one, and what it plans."""
    wanted: Reduced = bound.parameters
    (graph,) = bound.graphs
    target = bound.layouts[0] if target is None else target
    output = operand(target)
    if target.ndim != len(graph.shape) - len(wanted.axes):  # keepdims
        kept = [axis for axis in range(target.ndim) if axis not in wanted.axes]
        output = output.replace(strides=tuple([output.strides[axis] for axis in kept]))
    return graph.structure.plans.get(key_of(wanted, target)), (graph.shape, wanted.axes, arrays(graph), output)
