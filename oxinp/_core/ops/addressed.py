"""Scalars of the device gathered into a vector, which waits for none of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.chains import on_device
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device, singles
from oxinp._core.lazy.results import is_device_scalar, wrap_result
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._core.lazy.handle import Handle
    from oxinp._core.memory.storage import Storage, Value
    from oxinp._kernels.plan import Again, Plan

_FAMILY = "oxinp._kernels.elementwise.addressed"
_ADDRESS = np.dtype(np.int64)


def _problem(bound: BoundOp) -> tuple[int, int, int]:
    (layout,) = bound.layouts
    word = layout.dtype.alignment
    return layout.size, word, layout.dtype.itemsize // word


def _plan(bound: BoundOp) -> Plan:
    plan: Plan = importlib.import_module(_FAMILY).plan(*_problem(bound))
    return plan


def _plan_again(bound: BoundOp, variant: Any) -> Again:  # noqa: ARG001
    again: Again = importlib.import_module(_FAMILY).again(*_problem(bound))
    return again


GATHER = Op("gather", _plan, lambda layouts, _: layouts, plan_again=_plan_again)


def are_scalars(values: Sequence[Any], dtype: Any) -> bool:
    """Whether `gathered` takes values for an array of a dtype, or of their own."""
    if len(values) < 2 or here.are_several or not is_device_scalar(values[0]):
        return False
    own = values[0].dtype
    if own not in DEVICE_TYPES or (dtype is not None and np.dtype(dtype) is not own):
        return False
    kind, are_here = type(values[0]), True
    for each in values:
        if type(each) is not kind or (value := each._storage.value) is None or value[2] & SHARED:
            return False
        are_here = are_here and each._storage.host is not None
    return not are_here


def gathered(scalars: Sequence[Handle]) -> Any:
    """Return scalars of one dtype, which are on the device, as a vector."""
    return wrap_result(attempt(_gathered, scalars), as_array=True)


def _gathered(scalars: Sequence[Handle]) -> Value:
    """Gather at once, in an attempt: what a scalar is an element of may be written to from then on."""
    held = [_entry(scalar._storage) for scalar in scalars]
    addresses = np.array([entry.ptr for entry in held], _ADDRESS)
    layout = Layout.of(scalars[0]._layout.dtype, (len(held),))
    bound = BoundOp(GATHER, (leaf(Layout.of(_ADDRESS, layout.shape)),), (layout,))
    table = device().allocate(addresses.nbytes)
    device().upload(table.ptr, addresses)
    (buffer,) = bound.run((table,))
    balance.ran(layout.nbytes, (buffer,))
    singles.num_fetched += layout.size  # as if each had been
    singles.num_used += layout.size
    return on_device(layout, buffer)


def _entry(storage: Storage) -> Any:
    """Return where a scalar lies: itself, computed, or the element of another array that it is a copy of."""
    value = storage.value
    assert value is not None
    graph = value[0]
    if not graph.is_copy or graph.leaves[0].size > 1 or not graph.leaves[0].is_aligned:
        value = schedule.materialise(storage)
    return value[1][0]


__all__ = ["are_scalars", "gathered"]
