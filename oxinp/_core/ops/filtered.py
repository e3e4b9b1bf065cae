"""A transform back of what is made of a transform that nothing else uses: ``ifft(fft(x) * h)`` as one operation."""

from __future__ import annotations

import importlib
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
from oxinp._core.lazy.expr import Graph, leaf, new_table, remember, scalar
from oxinp._core.lazy.op import BoundOp, Op, bind
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.results import wrap_result
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.fft import FFT, array_of, chained, compiled, reading, strides_of
from oxinp._core.ops.fft_request import COMPLEX, HALF, REAL, Request, resolve, scale_of
from oxinp._core.ops.overwriting import defer_like

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._kernels.plan import Plan

BACK = {COMPLEX: COMPLEX, REAL: HALF}  # kinds of transforms, and of those that undo them
_BOUND = new_table()
"""Operations that are both, by the first transform, the chain of it, its place in that, and the way back."""


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001 - the rows' signature
    _, back, graph, _ = parameters
    found = resolve(Request(*back), graph.shape, graph.dtype)
    return (Layout.of(found.dtype, found.shape),)


def _wanted(given: Graph, parameters: Any) -> tuple[Any, Any]:
    """What is computed of an array with a graph, as the planner takes it, and in which type; None for what is not."""
    there, back = Request(*parameters[0]), Request(*parameters[1])
    graph, place = parameters[2:]
    layout = given.layout
    ways = resolve(there, layout.shape, layout.dtype), resolve(back, graph.shape, graph.dtype)
    types = {DEVICE_TYPES[np.result_type(each.dtype, np.complex64)] for each in ways}
    is_there_and_back = (
        ways[0].axes == ways[1].axes
        and BACK.get(there.kind.kind) == back.kind.kind
        and there.kind.is_forward != back.kind.is_forward
        and not (there.rotated or there.given_rotated or back.rotated or back.given_rotated)
    )
    chain = chained(graph, place, len(given.leaves)) if is_there_and_back and len(types) == 1 else None
    if chain is None:
        return None, None
    axes, filters = (importlib.import_module(f"oxinp._kernels.fft.{name}") for name in ("axes", "filters"))
    problems = [
        axes.Problem(
            each.kind.kind, way.axes, way.lengths[-1], each.kind.is_forward, scale_of(each, way.lengths, dtype)
        )
        for each, way, dtype in zip((there, back), ways, (layout.dtype, graph.dtype), strict=True)
    ]
    return filters.Filter(*problems, chain, strides_of(graph, place)), types.pop()


def _source(given: Graph) -> Any:
    return reading(given) if given.nodes else array_of("in0", given.layout)


@lru_cache(1 << 10)
def _is_joined(given: Graph, parameters: Any, capability: Any) -> bool:
    """Whether one plan does both transforms, and what is between."""
    source = _source(given)
    wanted, type_ = _wanted(given, parameters)
    if source is None or wanted is None:
        return False
    (made,) = _infer((given.layout,), parameters)
    is_filter = importlib.import_module("oxinp._kernels.fft.filters").is_filter
    return bool(is_filter(source, array_of("out0", made), type_, wanted, capability))


def _planned(bound: BoundOp, target: Any) -> Plan:
    wanted, type_ = _wanted(bound.graphs[0], bound.parameters)
    module = importlib.import_module("oxinp._kernels.fft.filters")
    given = _source(bound.graphs[0]), target, type_, wanted, device().capability
    plan = compiled(lambda: module.plan_filter(*given))
    assert plan is not None
    return plan


def _plan(bound: BoundOp) -> Plan:
    return _planned(bound, array_of("out0", bound.layouts[0]))


def _fuse(bound: BoundOp, graph: Graph, place: int) -> Plan | None:
    """The plan of all that and of what a graph makes of the result."""
    chain = chained(graph, place, sum(len(each.leaves) for each in bound.graphs))
    if chain is None or not graph.layout.is_contiguous:
        return None
    target = array_of("out0", bound.layouts[0])
    steps, others = graph.layout.element_strides, strides_of(graph, place)
    return _planned(bound, target._replace(steps=steps, alignment=graph.layout.alignment, chain=chain, others=others))


def _cost(layouts: tuple[Layout, ...], parameters: Any) -> float:
    graph = parameters[2]
    return 2.0 * float(max(layouts[0].nbytes, math.prod(graph.shape) * graph.dtype.itemsize))


FILTERED = Op("filtered transform", _plan, _infer, cost=_cost, host_weight=24.0, fuse=_fuse)


def filtered(x: Handle, request: Request) -> Any:
    """Return a transform of an array that is made of the transform that it undoes; None where `x` is no such thing.

    None as well where something else has or reads the transform, where that has run, or where no kernel does both. If
    `x` is asked for, too, it is made of a transform of its own.

    Parameters
    ----------
    x : Handle
    request : Request
        That `resolve` has found to be valid.
    """
    value = None if x._view is not None else (x._held or x._storage).value
    if value is None or not value[0].nodes or value[0].structure.is_flagged:
        return None
    graph, entries, mask = value
    layout, own = graph.layout, x._known or x._layout
    if not layout.is_contiguous or not (layout is own or layout.same(own)):
        return None
    for place in range(len(entries)):  # not `enumerate`, which keeps what it has given
        entry = entries[place]
        call = entry.call if type(entry) is Pending else None
        leaves = None if call is None else call.leaves
        if call is None or leaves is None or call.bound.op is not FFT or not call.is_from_here():
            continue
        read, written = graph.leaves[place], call.bound.layouts[0]
        if not (read is written or read.same(written)) or sum([other is entry for other in entries]) != 1:
            continue
        if entry.is_held() or not entry.is_read_once(schedule.pending_storages):
            continue
        key = call.bound, graph, place, request, config.version
        made = _BOUND.get(key) or _BOUND.recall(key)
        if made is None:
            made = _bound(call.bound, graph, place, request)
            if made is None:
                continue
            remember(_BOUND, key, made)
        given = (*leaves, *entries[:place], *entries[place + 1 :])
        result = attempt(defer_like, call, made, leaves, given, call.mask | mask)
        return None if result is None else wrap_result(result, as_array=True)
    return None


def _bound(there: BoundOp, graph: Graph, place: int, back: Request) -> BoundOp | None:
    """The operation that is both; None where there is none."""
    (given,), parameters = there.graphs, (tuple(there.parameters), tuple(back), graph, place)
    if not _is_joined(given, parameters, device().capability):
        return None
    rest = (*graph.leaves[:place], *graph.leaves[place + 1 :])
    others = [leaf(entry) if isinstance(entry, Layout) else scalar(entry) for entry in rest]
    return bind(FILTERED, (given, *others), parameters)


__all__ = ["FILTERED", "filtered"]
