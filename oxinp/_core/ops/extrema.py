"""The least and the greatest element together, which are waited for once."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import may_be_host
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.binding import Dtypes, Wanted, bind
from oxinp._core.reduction.planning import plan
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import MAX, MIN
from oxinp._kernels.plan import Argument, Plan

_ROWS = MIN, MAX


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, (len(_ROWS),)),)


def _plan(bound: BoundOp) -> Plan:
    """The plans of both reductions, one after the other, each into an element."""
    (graph,) = bound.graphs
    dtype, axes = graph.layout.dtype, tuple(range(graph.layout.ndim))
    plans = [plan(bind(Wanted(row, graph, axes, Dtypes(dtype, dtype), False, False, False))) for row in _ROWS]
    steps = [step for i, each in enumerate(plans) for step in each.on(out0=Argument("out0", i * dtype.itemsize))]
    return Plan(tuple(steps), max(each.scratch_nbytes for each in plans))


EXTREMA = Op("extrema", _plan, _infer, price=40.0, takes_views=True)


def extrema(array: Handle) -> np.ndarray[Any, Any]:
    """Return the least and the greatest element of an array of numbers that is not empty, waiting for them.

    Raises
    ------
    Unsupported
        The device has no kernel.
    """
    if may_be_host(array._held or array._storage):
        found = [reduce(row, array) for row in _ROWS]
        return np.array([fetch(each) if isinstance(each, Handle) else each for each in found])
    return fetch(perform_on_device(EXTREMA, (array,)))


__all__ = ["extrema"]
