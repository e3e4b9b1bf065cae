"""Distinct integers whose range is narrow, found by a bit per number of the range instead of a sort."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.table import MAX, MIN
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.plan import Plan, Scratch

MIN_SIZE = 1 << 22
"""Elements from which a sort takes longer than to look at their extrema, and to wait for these."""


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    """One result, of a size that only the device knows."""
    return (Layout.of(INT64, (0,)),)


def _plan(bound: BoundOp) -> Plan:
    """Find which numbers there are, read how many, then write them."""
    layout, (most,), scratch = bound.graphs[0].layout, bound.parameters, Scratch()
    family, select = (importlib.import_module(f"oxinp._kernels.index.{name}") for name in ("distinct", "select"))
    found = family.distinct(layout.size, most, DEVICE_TYPES[layout.dtype], device().capability, scratch)
    write: Plan = select.select(most, None, found, None)
    return Plan(found.steps, scratch.nbytes, then=lambda _: write)


def _sized(bound: BoundOp, words: tuple[int, ...]) -> tuple[Layout, ...]:
    return (Layout.of(bound.layouts[0].dtype, words),)


DISTINCT = Op("distinct integers", _plan, _infer, sized=_sized)


def of_narrow_range(array: Handle) -> Any:
    """Return the distinct elements of a vector, sorted; None where they are not integers of a narrow range.

    Waits for the extrema of many integers, then for how many distinct ones there are.
    """
    dtype, size = array._layout.dtype, array._layout.size
    if dtype.kind not in "iu" or dtype == np.uint64 or size < MIN_SIZE:
        return None
    least, greatest = (int(reduce(row, array)) for row in (MIN, MAX))
    most = importlib.import_module("oxinp._kernels.index.distinct").most_numbers(device().capability)
    if greatest - least >= most:
        return None
    room = 1 << (greatest - least).bit_length()
    numbers = perform_on_device(DISTINCT, (array, (INT64, least)), (room,))
    return astype(OBJECTS["add"](numbers, least), dtype)


__all__ = ["of_narrow_range"]
