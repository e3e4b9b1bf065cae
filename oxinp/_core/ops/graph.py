"""Graphs in compressed rows as operations: rounds of components, of breadth-first search and of shortest paths."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._kernels.plan import Plan

INT32 = np.dtype(np.int32)
Layouts = tuple[Layout, ...]


def _family() -> Any:
    return importlib.import_module("oxinp._kernels.sparse.graph")


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
    plan: Plan = _family().relax(indptr.size - 1, indices.size, index, None, key)
    return plan


LEAST = Op("graph.least", _plan_least, _infer_least)
"""Operands indptr, indices and a key of each vertex: the least key of each vertex and those that its row names."""
