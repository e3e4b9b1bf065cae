"""Circular shifts: no pass over memory of their own, but reads of other elements by the chain that uses the result."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import WEIGHTS
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.expr import Graph, Node, Unsupported
from oxinp._core.lazy.handle import Handle, expression
from oxinp._core.lazy.results import wrap_pending
from oxinp._core.lazy.views import view_at
from oxinp._core.manipulation.copy import axes_of, copy, own, permuted
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.recent import Recent
from oxinp._kernels.nest import magic
from oxinp._ptx.types import i64, u32

MAX_SIZE = 1 << 31  # of indices in 32 bits
HOST_WEIGHT = 4.0
UINT8, UINT64 = np.dtype(np.uint8), np.dtype(np.uint64)

_GRAPHS = Recent(1 << 10)  # by the layout that is read, the axis, and by how many elements


def roll(array: Handle, turns: dict[int | None, int]) -> Any:
    """Return a new array whose elements have moved along some axes; those beyond the end come in at the beginning.

    Parameters
    ----------
    array : Handle
        Of at least two elements.
    turns : dict
        Axis, or None for all elements in C order, which is the only one then -> by how many elements, from 1 to the
        length less 1. Without one, the array is copied.

    Raises
    ------
    Unsupported
        The device has no kernel for the dtype, or there are `MAX_SIZE` elements.
    """
    layout = array._layout
    if layout.dtype not in DEVICE_TYPES or layout.size >= MAX_SIZE:
        raise Unsupported("a dtype without kernels, or indices beyond 32 bits")
    if layout.dtype == BOOL:  # whose bytes may be others than 0 and 1, and are moved as they are
        made = roll(view_at(array, Layout.at(UINT8, layout.shape, layout.strides, layout.offset)), turns)
        return own(view_at(made, Layout.at(BOOL, layout.shape, made._layout.strides, 0)))
    axes = None if layout.is_contiguous or None in turns else axes_of(layout, "K")
    if axes is not None:
        inner: Any = {axes.index(axis): turn for axis, turn in turns.items()}
        return permuted(array, axes, lambda turned: roll(turned, inner))
    rolled = array
    for axis, turn in turns.items():
        rolled = wrap_pending(attempt(_value, rolled, axis, turn), as_array=True)
    return rolled if turns else copy(array)


def _value(array: Handle, axis: int | None, turn: int) -> Any:
    source = array if array._layout.is_contiguous else copy(array)
    schedule.materialise(source._storage)
    graph, leaves, mask = expression(source)
    key = graph.layout, axis, turn
    found = _GRAPHS.get(key) or _GRAPHS.recall(key)
    if found is None:
        found = _graph_of(*key)
        _GRAPHS.remember(key, found)
    rolled, numbers = found
    return rolled, (*leaves, *numbers), mask


def _graph_of(layout: Layout, axis: int | None, turn: int) -> tuple[Graph, tuple[int, ...]]:
    """Return the graph of one axis's shift, and its numbers, the same objects for the same axis of the same shape."""
    inner = 1 if axis is None else prod(layout.shape[axis + 1 :])
    length, distance = layout.size if axis is None else layout.shape[axis] * inner, turn * inner
    is_whole = length == layout.size
    numbers = (distance | length << 32, *(() if is_whole else (_divisor(length),)))
    count = 1 + len(numbers)
    node = Node(_LOWER, layout.dtype, tuple(range(count)))
    kinds = (layout, *[UINT64] * len(numbers))
    return Graph.of(Layout.of(layout.dtype, layout.shape), kinds, (node,), count), numbers


@cache
def _divisor(length: int) -> int:
    multiplier, shift = magic(length)
    return multiplier | shift << 32


def _lower(k: Any, index: Any, source: Any, packed: Any, divisor: Any = None) -> Any:
    """Read what a shift by `distance` inside of pieces of `length` elements brings; there may be one."""
    number = k.cast(index, u32)
    distance, length = k.cast(packed, u32), k.cast(packed >> 32, u32)
    place = number
    if divisor is not None:
        quotient = (k.mulhi(number, k.cast(divisor, u32)) + number) >> k.cast(divisor >> 32, u32)
        place = number - quotient * length
    return source[k.cast(number - distance + k.where(place < distance, length, k.const(0, u32)), i64)]


_LOWER: Any = _lower
_LOWER.wants_index = _LOWER.wants_pointer = True
_LOWER.__name__ = "roll"
WEIGHTS[_LOWER] = HOST_WEIGHT


__all__ = ["HOST_WEIGHT", "roll"]
