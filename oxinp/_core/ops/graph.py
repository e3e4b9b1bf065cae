"""Graphs in compressed rows as operations: rounds of components, of breadth-first search and of shortest paths."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._kernels.plan import Plan

INT32 = np.dtype(np.int32)
Layouts = tuple[Layout, ...]


def _family(name: str = "graph") -> Any:
    return importlib.import_module(f"oxinp._kernels.sparse.{name}")


def _infer_hook(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001 - the rows' one signature
    return (Layout.of(INT32, layouts[2].shape), Layout.of(INT32, (1,)))


def _plan_hook(bound: BoundOp) -> Plan:
    indptr, indices, _ = (graph.layout for graph in bound.graphs)
    plan: Plan = _family().hook(indptr.size - 1, indices.size, DEVICE_TYPES[indices.dtype])
    return plan


HOOK = Op("graph.hook", _plan_hook, _infer_hook)
"""Operands indptr, indices and the root of every vertex, int32; results the roots after a round, and if any changed."""


def _infer_first(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[0],)


def _plan_first(bound: BoundOp) -> Plan:
    before, reached, _ = (graph.layout for graph in bound.graphs)
    plan: Plan = _family().first(before.size, reached.size, DEVICE_TYPES[reached.dtype])
    return plan


FIRST = Op("graph.first", _plan_first, _infer_first)
"""Operands numbers of edges that reached vertices first, int64, the vertices that more edges reach, and the number of
the first of these, int64, of one element."""


def _infer_relax(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[3],)


def _plan_relax(bound: BoundOp) -> Plan:
    indptr, indices, weights, before = (graph.layout for graph in bound.graphs)
    types = (DEVICE_TYPES[each.dtype] for each in (indices, weights, before))
    plan: Plan = _family().relax(indptr.size - 1, indices.size, *types)
    return plan


RELAX = Op("graph.relax", _plan_relax, _infer_relax)
"""Operands a matrix, whose row holds what leads to a vertex, and distances; the distances one edge further."""


def _infer_least(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[2],)


def _plan_least(bound: BoundOp) -> Plan:
    indptr, indices, before = (graph.layout for graph in bound.graphs)
    index, key = (DEVICE_TYPES[each.dtype] for each in (indices, before))
    (has_own,) = bound.parameters
    plan: Plan = _family().relax(indptr.size - 1, indices.size, index, None, key, has_own=has_own)
    return plan


LEAST = Op("graph.least", _plan_least, _infer_least)
"""Operands indptr, indices and a key of each vertex; the parameter is whether a vertex' own key counts, too. The least
key of those that each row names, the greatest number there is where it names none."""


def _infer_color(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[3],)


def _plan_color(bound: BoundOp) -> Plan:
    indptr, indices, *_ = (graph.layout for graph in bound.graphs)
    plan: Plan = _family("coloring").color(indptr.size - 1, indices.size, DEVICE_TYPES[indices.dtype])
    return plan


COLOR = Op("graph.color", _plan_color, _infer_color)
"""A round of coloring. Operands indptr and indices of a symmetric pattern, priorities, uint32, and the color of every
vertex, int32, less than 0 for none; the colors after the round."""


def _infer_span(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (layouts[5], layouts[6], Layout.of(INT32, (1,)))


def _plan_span(bound: BoundOp) -> Plan:
    indptr, indices, *_ = (graph.layout for graph in bound.graphs)
    plan: Plan = _family("trees").span(indptr.size - 1, indices.size, DEVICE_TYPES[indices.dtype])
    return plan


SPAN = Op("graph.span", _plan_span, _infer_span)
"""A round of a spanning forest. Operands indptr and indices, the row of each edge, its rank by weight, int32, the edges
by rank, the root of every vertex, int32, and which edges are in the forest; results the last two after the round, and
if any edge was entered."""


def _infer_reach(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (Layout.of(BOOL, layouts[3].shape),)


def _plan_reach(bound: BoundOp) -> Plan:
    indptr, indices, *_ = (graph.layout for graph in bound.graphs)
    plan: Plan = _family("trees").reach(indptr.size - 1, indices.size, DEVICE_TYPES[indices.dtype])
    return plan


REACH = Op("graph.reach", _plan_reach, _infer_reach)
"""Operands indptr, indices, classes, int32, and which vertices are marked; what is, or has an edge to one of its class
that is."""


def _infer_predecessors(layouts: Layouts, parameters: Any) -> Layouts:  # noqa: ARG001
    return (Layout.of(INT32, layouts[3].shape),)


def _plan_predecessors(bound: BoundOp) -> Plan:
    indptr, indices, weights, _ = (graph.layout for graph in bound.graphs)
    types = (DEVICE_TYPES[each.dtype] for each in (indices, weights))
    plan: Plan = _family("trees").predecessors(indptr.size - 1, indices.size, *types)
    return plan


PREDECESSORS = Op("graph.predecessors", _plan_predecessors, _infer_predecessors)
"""Operands a matrix, whose row holds what leads to a vertex, and the distances of shortest paths; the vertex before
each on one, the nearest to the start, then the first; SciPy's number for none."""
