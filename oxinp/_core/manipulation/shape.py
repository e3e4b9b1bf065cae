"""Shapes: reshape, and what it needs to know of strides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oxinp._core.lazy.handle import Handle, host_view
from oxinp._core.lazy.views import NumpyArray, host_part, moved, view, view_at
from oxinp._core.manipulation.copy import axes_of, copy, order_of, own
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.memory.view_functions import VIEWS, shape_of_copy, view_layout


def reshape(array: Handle, shape: Any, order: Any = "C", *, copy_wanted: bool | None = None) -> Any:
    """Return `array` with another shape: a view where NumPy gives one, else of a copy (ValueError if refused)."""
    storage = array._held or array._storage
    host = storage.host
    if host is not None and storage.value is None and order == "C" and not copy_wanted:
        seen = array._seen if array._host is host else host_view(array)
        if seen.flags.c_contiguous:
            return host_part(array, host, seen.reshape(shape))
    if host is None and order == "C" and not copy_wanted:
        layout = array._known or array._layout
        if copy_wanted is None and not layout.is_contiguous and (target := shape_of_copy(layout, shape)):
            return _viewed(copy(array), target)
        made = view_layout(VIEWS[np.reshape], layout, (shape,), {})
        if made is not None:
            return view_at(array, made)
    target = resolve_shape(array._layout.size, shape)
    if order not in ("C", "F", "A"):
        np.empty(0).reshape((0,), order=order)  # NumPy's own error
        order = order_of(order, "C")
    if order == "A":
        order = "F" if array._layout.is_fortran and not array._layout.is_contiguous else "C"
    if copy_wanted:
        array = copy(array)
    try:
        return view(array, lambda seen: _reshape_view(seen, target, order))
    except _NeedsCopyError:
        if copy_wanted is False:
            msg = "Unable to avoid creating a copy while reshaping."
            raise ValueError(msg) from None
    array = moved(copy(moved(array, np.transpose)), np.transpose) if order == "F" else copy(array)
    return view(array, lambda seen: _reshape_view(seen, target, order))


def _viewed(array: Handle, shape: tuple[int, ...]) -> Any:
    """Return a view of another shape of what has just been copied, in C order."""
    if array._known and (held := array._held) is not None and held.host is None:
        return view_at(array, Layout.of(array._known.dtype, shape))
    return moved(array, np.reshape, shape)


def ravel(array: Handle, order: Any = "C") -> Any:
    """Return the elements of `array` in one dimension: a view where NumPy gives one."""
    storage = array._held or array._storage
    host = storage.host
    if host is not None and storage.value is None and order == "C":
        seen = array._seen if array._host is host else host_view(array)
        if seen.flags.c_contiguous:
            return host_part(array, host, seen.ravel())
    layout = array._layout
    order = order_of(order, "C")
    if order == "K":  # NumPy's iterator decides, which unlike copies leaves broadcast axes where they are
        layout = result_layout(layout.dtype, layout.shape, [layout])
    axes = axes_of(layout, order)
    turned = array if axes is None else moved(array, np.transpose, axes)
    if not turned._layout.is_contiguous:
        # Unlike reshape, which also gives a view of elements that lie at regular distances.
        return own(_viewed(copy(turned), (layout.size,)))
    return moved(turned, np.reshape, -1)


def flat(array: Handle, count: int = -1) -> Any:
    """Return the elements of an array in C order, or the parts at its first `count` axes, along one axis.

    A view of what has no gaps, on whichever side it is; else of a copy.
    """
    layout = array._known or array._layout
    if count in (-1, layout.ndim):
        if layout.ndim == 1 and layout.is_contiguous:
            return array
        shape: tuple[int, ...] = (layout.size,)
    else:
        shape = (math.prod(layout.shape[:count]), *layout.shape[count:])
    if not layout.is_contiguous:
        return reshape(array, shape)
    dense = Layout.of(layout.dtype, shape)
    return view_at(array, dense if not layout.offset else Layout.at(dense.dtype, shape, dense.strides, layout.offset))


class _NeedsCopyError(Exception):
    pass


def _reshape_view(seen: NumpyArray, shape: tuple[int, ...], order: str) -> NumpyArray:
    if _HAS_COPY_FALSE:
        try:
            return seen.reshape(shape, order=order, copy=False)  # type: ignore[call-overload,no-any-return]
        except ValueError:
            raise _NeedsCopyError from None
    seen = seen.T if order == "F" else seen.view()
    try:
        seen.shape = shape[::-1] if order == "F" else shape
    except AttributeError:
        raise _NeedsCopyError from None
    return seen.T if order == "F" else seen


_HAS_COPY_FALSE = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def resolve_shape(size: int, shape: Any) -> tuple[int, ...]:
    """Return `shape` for `size` elements as a tuple with its -1 filled in; raises what NumPy raises."""
    return np.lib.stride_tricks.as_strided(np.empty(1, np.bool_), (size,), (0,)).reshape(shape).shape  # type: ignore[no-any-return]
