"""Binding reductions: a chain, with the casts, masks and parameters that a reduction has, as an operation on leaves."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.lazy.expr import MAX_NDIM, Graph, Node, Structure, Unsupported, cast, new_table, remember, structure_of
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, FLOAT64
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.memory.recent import MEETINGS
from oxinp._core.reduction import near_lines, planning
from oxinp._core.reduction.planning import Reduced
from oxinp._core.reduction.table import ReductionRow, with_initial
from oxinp._kernels.problem import ReduceOp

_BOUND = new_table()
PRODUCT_WEIGHT = 0.25
"""How much longer NumPy takes for products than to add so many bytes, on many cores."""


@cache
def operation(row: ReductionRow) -> Op:
    """Return the operation of a row."""
    return Op(
        row.name,
        planning.plan,
        host=row.numpy,
        host_weight=PRODUCT_WEIGHT if row.is_product else 0.5,
        num_loops=None if row.is_product else _num_loops,
        price=15.0 if row.is_product else 20.0,
        weighs_chains=not row.is_product,
        plan_again=planning.plan_again,
        run_near=None if row.is_product else near_lines.run_near,  # these have a way of their own
        takes_chains=True,
        takes_views=True,
        rows=planning.row_walk,
        along_rows=planning.along_rows,
        gives_views=True,
        plan_variant=planning.plan,
    )


def _num_loops(bound: BoundOp) -> int:
    """Return over how many rows NumPy goes after the first: axes reduced, or kept, as the last one is are one to it."""
    shape, axes = bound.graphs[0].shape, bound.parameters.axes
    last = len(shape) - 1
    axis = last
    while axis > 0 and (axis - 1 in axes) == (last in axes):
        axis -= 1
    return math.prod(shape[:axis]) - 1


# -- dtypes and parameters ---------------------------------------------------------------------------------------------


class Dtypes(NamedTuple):
    """What is accumulated, and what results."""

    accumulated: np.dtype[Any]
    result: np.dtype[Any]


class Wanted(NamedTuple):
    """What of a reduction its graph depends on: all but the values."""

    row: ReductionRow
    chain: Graph
    axes: tuple[int, ...]
    dtypes: Dtypes
    keepdims: bool
    is_masked: bool
    starts: bool


def bind(wanted: Wanted) -> BoundOp:
    """Return a reduction of leaves that are laid out as those of a chain."""
    bound: BoundOp | None = _BOUND.get(wanted) or (_BOUND.recall(wanted) if _BOUND.old else None)
    if bound is None:
        bound = _bind(wanted)
        if _BOUND.has_met((wanted.row, wanted.chain.structure, wanted.chain.shape, wanted.axes), wanted.chain):
            remember(_BOUND, wanted, bound)
            bound.met = MEETINGS
    return bound


class _Lifted(NamedTuple):
    """A chain with what a reduction needs of it, whatever its layouts."""

    structure: Structure
    op: ReduceOp
    mask: int | None


def _bind(wanted: Wanted) -> BoundOp:
    row, chain, axes, dtypes, keepdims, is_masked, starts = wanted
    source = chain.layout
    shape = source.shape
    if len(shape) > MAX_NDIM or (not chain.nodes and not source.is_aligned):
        raise Unsupported("the layout has no kernel")
    key = ("reduced", row, dtypes, is_masked, starts)
    lifted: _Lifted | None = chain.structure.plans.get(key)
    if lifted is None:
        lifted = chain.structure.plans[key] = _lift(wanted)
    kept = (
        [] if len(axes) == len(shape) and not keepdims else [a for a in range(len(shape)) if keepdims or a not in axes]
    )
    along = tuple([1 if a in axes else shape[a] for a in kept]) if kept else ()
    if source.is_contiguous or len(along) < 2 or row.takes_one_axis:  # NumPy's positions of extrema are in C order
        layout = Layout.of(dtypes.result, along)
    else:
        strides = tuple([source.strides[a] for a in kept])
        layout = result_layout(dtypes.result, along, [Layout.at(dtypes.result, along, strides, 0)])
    parameters = lifted.structure.kinds[len(chain.leaves) :]
    whole = source.dense if source.dtype is dtypes.accumulated else Layout.of(dtypes.accumulated, shape)
    graph = Graph(lifted.structure, whole, (*chain.leaves, *parameters))
    return BoundOp(operation(row), (graph,), (layout,), Reduced(lifted.op, axes, lifted.mask))


def _lift(wanted: Wanted) -> _Lifted:
    """Append to a chain the casts, masks and parameters that a reduction has."""
    row, chain, _, dtypes, _, is_masked, starts = wanted
    for needed in (chain.dtype, *dtypes):
        if needed not in DEVICE_TYPES:
            raise Unsupported(f"dtype {needed} has no kernels yet")
    if is_masked and not row.has_identity and not starts:
        raise Unsupported("NumPy says that a mask needs something to start from")
    skips_nan = row.skips_nan and chain.dtype.kind in "fc"
    op = row.op(chain.dtype, dtypes.accumulated, is_masked or skips_nan)
    if op is None:
        raise Unsupported(f"{row.name} has no kernel for {chain.dtype}")
    parameters = [FLOAT64] * op.num_parameters
    if starts:
        op = with_initial(op)
        parameters.append(dtypes.accumulated)
    nodes, value, mask = _with_room(chain, len(parameters), is_masked=is_masked)
    first = len(chain.leaves) + len(parameters)

    def append(node: Node) -> int:
        nodes.append(node)
        return first + len(nodes) - 1

    if skips_nan:
        number = append(Node(_is_number, BOOL, (value,)))
        mask = number if mask is None else append(Node(_both, BOOL, (number, mask)))
    if chain.dtype != dtypes.accumulated:
        value = append(Node(cast(chain.dtype, dtypes.accumulated), dtypes.accumulated, (value,)))
    structure = chain.structure
    kinds, are_arrays = (*structure.kinds, *parameters), (*structure.are_arrays, *[False] * len(parameters))
    return _Lifted(structure_of(kinds, are_arrays, tuple(nodes), value), op, mask)


def _with_room(chain: Graph, count: int, *, is_masked: bool) -> tuple[list[Node], int, int | None]:
    """Return the chain's nodes, its value and its mask, numbered for `count` more leaves behind its own."""
    own = len(chain.leaves)

    def moved(number: int) -> int:
        return number if number < own else number + count

    nodes = [Node(node.lower, node.dtype, tuple([moved(a) for a in node.args])) for node in chain.nodes]
    if not is_masked:
        return nodes, moved(chain.result), None
    assert chain.result == own + len(nodes) - 1
    value, mask = nodes.pop().args
    return nodes, value, mask


def _is_number(k: Any, value: Any) -> Any:
    return ~k.isnan(value)


def _both(k: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    return a & b
