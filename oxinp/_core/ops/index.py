"""Basic indexing, read and write. Everything else (integer arrays, masks, fields) is NumPy's, through the fallback."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from oxinp._core import placement, schedule
from oxinp._core.fallback import call
from oxinp._core.handle import Handle, device_value, fetch_storage, host_view
from oxinp._core.layout import Layout
from oxinp._core.ops.copy import assign
from oxinp._core.ops.views import host_view_of, view, view_at
from oxinp._core.programs import copying, read
from oxinp._core.ufunc import types, wrap_pending

_BASIC = frozenset({int, slice, NoneType, EllipsisType})


def is_basic(key: Any) -> bool:
    """Whether a key is made of integers, slices, newaxis and ellipsis alone, so that it selects a view."""
    if type(key) is tuple:
        return all(type(part) in _BASIC or isinstance(part, np.integer) for part in key)
    return type(key) in _BASIC or isinstance(key, np.integer)


def getitem(array: Handle, key: Any) -> Any:
    """Return ``array[key]``: a view, or for one element a scalar."""
    if type(key) is types.scalar or (type(key) is tuple and any(type(part) is types.scalar for part in key)):
        key = _with_values(key)
    if not is_basic(key):
        return call(np.ndarray.__getitem__, (array, key), {}, name="ndarray.__getitem__")
    storage = array._storage
    host = storage.host
    if host is None:
        layout, is_element = locate(array._layout, key)
        if not placement.wants_mirror(storage, layout.nbytes) and (not is_element or layout.is_aligned):
            return _element(array, layout) if is_element else view_at(array, layout)
        host = fetch_storage(storage)
    seen = host_view(array)
    part = seen[key]
    if type(part) is not np.ndarray or (part.base is None and part is not seen):
        return part
    return host_view_of(array, host, seen, part)


def setitem(array: Handle, key: Any, value: Any) -> None:
    """Write ``array[key] = value``.

    Raises
    ------
    IndexError, ValueError, TypeError
        As NumPy, with nothing written.
    """
    if array._view is not None and not array._view[1]:
        msg = "assignment destination is read-only"
        raise ValueError(msg)
    if type(key) is types.scalar or (type(key) is tuple and any(type(part) is types.scalar for part in key)):
        key = _with_values(key)
    if not is_basic(key):
        call(np.ndarray.__setitem__, (array, key, value), {}, name="ndarray.__setitem__", mutates=(0,))
        return
    storage = array._storage
    host = storage.host
    if host is None:
        layout, is_element = locate(array._layout, key)
        if placement.wants_mirror(storage, layout.nbytes) and placement.is_host(layout.nbytes):
            fetch_storage(storage)
    else:
        seen = host_view(array)
        if seen.dtype.hasobject or seen.dtype.names is not None:
            seen[key] = value
            return
        parts = _as_view_key(key)
        part = seen[parts]
        is_element = _is_element(key, parts, part.ndim)
        layout = host_view_of(array, host, seen, part)._layout
    if is_element and not isinstance(value, np.generic | int | float):
        value = _single(value, layout)
    assign(array if array._view is None and layout.same(array._layout) else view_at(array, layout), value)


def _with_values(key: Any) -> Any:
    """Replace scalars that are still on the device by their values."""
    if type(key) is tuple:
        return tuple(part[()] if type(part) is types.scalar else part for part in key)
    return key[()]


def _as_view_key(key: Any) -> tuple[Any, ...]:
    """Return a basic key as a tuple that selects a view, also where the key selects one element."""
    parts = key if type(key) is tuple else (key,)
    return parts if any(part is ... for part in parts) else (*parts, ...)


def locate(layout: Layout, key: Any) -> tuple[Layout, bool]:
    """Return the layout of a basic index's view, and whether NumPy would give a scalar instead."""
    parts = _as_view_key(key)
    found = layout.view(lambda seen: seen[parts])
    return found, _is_element(key, parts, found.ndim)


def _is_element(key: Any, parts: tuple[Any, ...], ndim: int) -> bool:
    """Whether a basic key selects one element, for which NumPy gives a scalar: no dimension left, and no ellipsis."""
    return ndim == 0 and parts is not key and key is not ...


def _single(value: Any, layout: Layout) -> Any:
    """Return what is assigned to one element as a scalar; NumPy says which arrays it takes there."""
    element = np.zeros(1, layout.dtype)
    if not isinstance(value, Handle):
        element[0] = value
        return element[0]
    seen = value._layout
    if seen.ndim:
        element[0] = np.zeros(seen.shape if seen.size <= 1 else (2,), seen.dtype)
        return view(value, lambda array: array.reshape(()))
    return value


def _element(array: Handle, layout: Layout) -> Any:
    """Return one element as a scalar: a copy, made when it is read or when the array is about to change."""
    device_value(array._storage)
    element, leaves, mask = read(layout, schedule.materialise(array._storage))
    return wrap_pending((copying(element.layout, layout.dtype), leaves, mask))
