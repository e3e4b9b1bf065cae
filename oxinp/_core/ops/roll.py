"""Circular shifts: no pass over memory of their own, but reads of other elements by the chain that uses the result."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from oxinp._core.host import weights
from oxinp._core.lazy import schedule
from oxinp._core.lazy.balance import WEIGHTS
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import Pending
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
from oxinp._runtime import here

MAX_SIZE = 1 << 31  # of indices in 32 bits
HOST_WEIGHT = weights.WEIGHTS["roll"]
UINT8, UINT64 = np.dtype(np.uint8), np.dtype(np.uint64)

_Turns = tuple[tuple[int | None, int], ...]
_GRAPHS = Recent(1 << 10)  # by the layout that is read, the axes, and by how many elements
ASKED = Recent(1 << 10)
"""Calls: the form that is read, the shift and the axis -> a graph of its elements in C order, and the numbers behind
its leaf."""


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
    layout = array._known or array._layout
    if layout.dtype not in DEVICE_TYPES or layout.size >= MAX_SIZE:
        raise Unsupported("a dtype without kernels, or indices beyond 32 bits")
    if layout.dtype == BOOL:  # whose bytes may be others than 0 and 1, and are moved as they are
        made = roll(view_at(array, Layout.at(UINT8, layout.shape, layout.strides, layout.offset)), turns)
        return own(view_at(made, Layout.at(BOOL, layout.shape, made._layout.strides, 0)))
    axes = None if layout.is_contiguous or None in turns else axes_of(layout, "K")
    if axes is not None:
        inner: Any = {axes.index(axis): turn for axis, turn in turns.items()}
        return permuted(array, axes, lambda turned: roll(turned, inner))
    return wrap_pending(attempt(_value, array, tuple(turns.items())), as_array=True) if turns else copy(array)


def again(array: Handle, shift: Any, axis: Any) -> Any:
    """Return what `roll` does, where arrays that lie like this one have been shifted so; None where they have not.

    Parameters
    ----------
    array : Handle
        Of the device.
    shift, axis : int or tuple of int
    """
    layout, storage = array._known or array._layout, array._held or array._storage
    key = layout._form or layout.form, shift, axis
    found = ASKED.get(key) or ASKED.recall(key)
    if found is None or here.are_several:
        return None
    if not layout.is_contiguous:
        storage = copy(array)._held
    value: Any = storage.value
    if value is not None and (value[0].nodes or type(value[1][0]) is Pending):
        value = schedule.materialise(storage)
    if value is None or (layout.is_contiguous and value[0].layout is not layout):  # a part, or brought to the host
        return None
    rolled, numbers = found
    return wrap_pending((rolled, value[1] + numbers, value[2]), as_array=True)


def remember(layout: Layout, shift: Any, axis: Any, turns: dict[int | None, int]) -> None:
    """Let `again` know a call, of an array that lies like this and has been shifted by the turns that it comes to."""
    if layout.dtype != BOOL and (layout.is_contiguous or axes_of(layout, "K") is None):
        form = layout.form
        found = _GRAPHS.get((form if layout.is_contiguous else form.dense, tuple(turns.items())))
        if found is not None:
            ASKED.remember((form, shift, axis), found)


def _value(array: Handle, turns: _Turns) -> Any:
    source = array if (array._known or array._layout).is_contiguous else copy(array)
    schedule.materialise(source._held or source._storage)
    graph, leaves, mask = expression(source)
    key = graph.layout, turns
    found = _GRAPHS.get(key) or _GRAPHS.recall(key)
    if found is None:
        found = _graph_of(*key)
        _GRAPHS.remember(key, found)
    rolled, numbers = found
    return rolled, (*leaves, *numbers), mask


def _graph_of(layout: Layout, turns: _Turns) -> tuple[Graph, tuple[int, ...]]:
    """Return the graph of shifts, and its numbers, the same objects for the same axes of the same shape."""
    numbers: list[int] = []
    has_divisor = []
    for axis, turn in turns:
        inner = 1 if axis is None else prod(layout.shape[axis + 1 :])
        length, distance = layout.size if axis is None else layout.shape[axis] * inner, turn * inner
        has_divisor.append(length != layout.size)
        numbers += (distance | length << 32, *((_divisor(length),) if has_divisor[-1] else ()))
    count = 1 + len(numbers)
    node = Node(_lowering(tuple(has_divisor)), layout.dtype, tuple(range(count)))
    kinds = (layout, *[UINT64] * len(numbers))
    return Graph.of(Layout.of(layout.dtype, layout.shape), kinds, (node,), count), tuple(numbers)


@cache
def _divisor(length: int) -> int:
    multiplier, shift = magic(length)
    return multiplier | shift << 32


@cache
def _lowering(has_divisor: tuple[bool, ...]) -> Any:
    """Return what reads what shifts bring, one after the other; of the whole array's length there is no divisor."""

    def roll(k: Any, index: Any, source: Any, *numbers: Any) -> Any:
        number, given = k.cast(index, u32), iter(numbers)
        for is_part in has_divisor:
            packed = next(given)
            distance, length = k.cast(packed, u32), k.cast(packed >> 32, u32)
            place = number
            if is_part:
                divisor = next(given)
                quotient = (k.mulhi(number, k.cast(divisor, u32)) + number) >> k.cast(divisor >> 32, u32)
                place = number - quotient * length
            number = number - distance + k.where(place < distance, length, k.const(0, u32))
        return source[k.cast(number, i64)]

    lower: Any = roll
    lower.wants_index = lower.wants_pointer = True
    WEIGHTS[lower] = HOST_WEIGHT
    return lower


__all__ = ["ASKED", "HOST_WEIGHT", "again", "remember", "roll"]
