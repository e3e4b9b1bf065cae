"""Sums and counts by number, as `numpy.bincount` gives them."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, fetch
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.views import view_at
from oxinp._core.manipulation.copy import copy, own
from oxinp._core.memory.dtypes import DEVICE_TYPES, FLOAT64, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import advanced, creation, scatter
from oxinp._core.ops.gather import BYTES_PER_INDEX, UINT64
from oxinp._core.ops.keys import locate
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ops.updates import FAMILY, lowering
from oxinp._kernels.plan import Argument, Fill, Plan

NUM_REPORTED = 2
"""Words of a report."""
MAX_COUNTERS = 1 << 14
"""Bins that a block counts in shared memory; of more it would count in memory."""


@cache
def _family() -> Any:
    return importlib.import_module("oxinp._kernels.index.sums")


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (parameters[0],)


def _infer_sums(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(FLOAT64, (parameters[0],)),)


def _plan_sums(bound: BoundOp) -> Plan:
    """The plan that fills with zeros, then adds."""
    index, (count,), type_ = bound.graphs[0].layout, bound.parameters, DEVICE_TYPES[FLOAT64]
    plan: Plan = importlib.import_module(FAMILY).update(
        index.size,
        count,
        1,
        type_,
        DEVICE_TYPES[index.dtype],
        lowering("add", FLOAT64),
        device().capability,
        is_scalar=False,
        is_sum=True,
    )
    return Plan((Fill(Argument("out0"), count * type_.nbytes, 0), *plan.steps), plan.scratch_nbytes)


def _cost_of_sums(layouts: tuple[Layout, ...], parameters: Any) -> float:  # noqa: ARG001
    return 2 * BYTES_PER_INDEX * layouts[0].size


SUMS = Op("sums of weights by number", _plan_sums, _infer_sums, cost=_cost_of_sums, price=40.0)


def sums(index: Handle, weights: Handle, count: int) -> Any:
    """Return the sums of weights by number, f64, in the order of weights that are few; see `numpy.bincount`.

    Parameters
    ----------
    index : Handle, (N,)
        From 0 to ``count - 1``.
    weights : Handle, (N,), float64
    """
    given = weights if (weights._known or weights._layout).is_aligned else copy(weights)
    return perform_on_device(SUMS, (index, given, (UINT64, 0)), (count,))


def _plan_within(bound: BoundOp) -> Plan:
    """The plan that fills with zeros, then adds; the last words of the output are for a report."""
    index, (target, count) = bound.graphs[0].layout, bound.parameters
    type_, family = DEVICE_TYPES[target.dtype], _family()
    shift = family.shift_of(index.size, count, type_, device().capability)
    plan: Plan = family.add(
        index.size,
        count,
        1,
        shift,
        type_,
        DEVICE_TYPES[index.dtype],
        is_scalar=bound.graphs[1].is_scalar,
        wraps=False,
        status=Argument("out0", count * type_.nbytes),
    )
    zeros = Fill(Argument("out0"), (count + NUM_REPORTED) * type_.nbytes, 0)
    return Plan((zeros, *plan.steps), plan.scratch_nbytes)


WITHIN = Op("sums by number", _plan_within, _infer, takes_views=True, mutates=(0,))


def sums_within(index: Handle, weights: Handle | None, count: int, *, is_reached: bool = False) -> Any:
    """Return sums by number, or counts, as `sums` and `counts`; None where a number is not from 0 to ``count - 1``.

    Waits to know that, when all has been queued: it takes less than to look at the numbers first.

    Parameters
    ----------
    index, weights : Handle
    count : int
        Of bins.
    is_reached : bool, optional
        Return None also where the last bin is zero.

    Raises
    ------
    Unsupported
        Updates so few, or of so many bins, are not grouped.
    """
    dtype = INT64 if weights is None else FLOAT64
    size = index._layout.size
    if _family().shift_of(size, count, DEVICE_TYPES[dtype], device().capability) is None:
        raise Unsupported("updates that are not grouped")
    made = creation.empty(count + NUM_REPORTED, dtype)
    given = scatter.scalar_bits(np.ones(1, dtype)) if weights is None else weights
    operands = [x if not isinstance(x, Handle) or x._layout.is_contiguous else copy(x) for x in (index, given)]
    scatter.write(WITHIN, made, operands, (count,))
    sums, told = (view_at(made, locate(made._layout, part)[0]) for part in (slice(count), slice(count - 1, None)))
    last, *report = fetch(told).tolist()
    return None if any(report) or (is_reached and not last) else own(sums)


def are_grouped(index: Handle, count: int) -> bool:
    """Whether numbers are so many, and bins more than a block has counters for, that `counts` is the fastest."""
    shift = _family().shift_of(index._layout.size, count, DEVICE_TYPES[INT64], device().capability)
    return shift is not None and count > MAX_COUNTERS


def counts(index: Handle, count: int) -> Any:
    """Return how often each number is there, int64; see `numpy.bincount`.

    Parameters
    ----------
    index : Handle, (N,)
        From 0 to ``count - 1``.
    count : int
        Of bins.
    """
    result = creation.zeros(count, INT64)
    selected = advanced.Selection(result, index, index._layout.shape, 0, 1, True, None, False)
    scatter.assign(selected, 1, "add")
    return result


__all__ = ["are_grouped", "counts", "sums", "sums_within"]
