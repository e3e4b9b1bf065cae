"""Elements by keys that are not basic, on the device: arrays of integers and masks, mixed with slices and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import put
from oxinp._core.errors.state import current, quiet
from oxinp._core.host.exchange import numbers_in
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, fetch, host_view
from oxinp._core.lazy.masked import places, written
from oxinp._core.lazy.placement import followers
from oxinp._core.lazy.record import COPY, WHERE, express, settled
from oxinp._core.lazy.results import is_device_scalar, types
from oxinp._core.lazy.stores import store, target_of
from oxinp._core.lazy.views import moved, view
from oxinp._core.manipulation.copy import axes_of, from_elsewhere, own
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.ops import advanced, again, gather, masks, scatter
from oxinp._core.ops.keys import BASIC

FIRST_AXIS = "elements along the first axis"
"""What an array of integers alone as a key asks for; see `again`."""

MAX_SCALAR_NBYTES = 8  # of a number that kernels are given as it is
_PLAIN = frozenset({int, bool, float, complex})
_ELEMENTS: dict[tuple[np.dtype[Any], int], Any] = {}
"""Dtypes and integers -> what these are as elements."""
MAX_ELEMENTS = 256
_TAKEN = Handle | np.generic | bool | int | float | complex  # as values, as they are


def key_on_host(key: Any) -> Any:
    """Return an advanced key as NumPy takes it; None if not all of its arrays are small and valid on the host."""
    parts: list[Any] = []
    for part in key if type(key) is tuple else (key,):
        kind = type(part)
        if kind is types.ndarray:
            if (part._held or part._storage).host is None:
                return None
            seen = host_view(part)
            if seen.nbytes >= config.offload_threshold and not balance.takes(seen.nbytes, 8.0, gather.TAKE.price):
                return None
            parts.append(seen)
        elif kind in BASIC:
            parts.append(part)
        elif kind is list and (made := numbers_in(part)) is not None and made.dtype.kind in "iub":
            parts.append(made)
        elif kind is tuple or kind is list:  # which NumPy makes an array of, as of what `where` returns
            if (inner := key_on_host(tuple(part))) is None:
                return None
            parts.append(list(inner) if kind is list else inner)
        else:
            return None
    return tuple(parts) if type(key) is tuple else parts[0]


def selected(array: Handle, key: Any) -> Any:
    """Return the elements that a key selects, on the device; raises Unsupported."""
    what: Any = FIRST_AXIS
    axis = 0
    if type(key) is tuple:
        key = advanced.without_rest(key, (array._known or array._layout).ndim)
        if type(key) is tuple and (line := advanced.on_line(array, key)) is not None:
            array, key, axis = line
            what = FIRST_AXIS, axis
            known = again.read(what, array, key)
            if known is not None:
                return known
    if type(key) is types.ndarray:
        mask = key._known or key._layout
        if mask.dtype == BOOL and mask.ndim == (array._known or array._layout).ndim:
            return masks.select(array, key)
    found = advanced.selection(array, key, axis=axis)
    seen, place, count = found.array, found.num_outer, found.num_indexed
    if seen._layout.ndim == 1:
        result = _in_order_of_index(found)
        if key is found.index:
            again.keep_read(what, array, key, found.error, result)
        return result
    # NumPy's result has the axes of the index outermost in memory, then the others in the order of the array: those
    # along which it repeats itself innermost.
    layout = seen._layout
    if layout.is_contiguous and not place and count == 1:  # rows of an array in C order, as most keys select
        result = gather.gathered(seen, found.index, 0, 1, found.error, is_checked=found.is_checked)
        if key is found.index:
            again.keep_read(what, array, key, found.error, result)
        return result
    free = [axis for axis in range(layout.ndim) if not place <= axis < place + count]
    order = sorted(range(len(free)), key=lambda i: -abs(layout.strides[free[i]]))
    axes = (*range(place, place + count), *[free[i] for i in order])
    turned = seen if axes == tuple(range(layout.ndim)) else moved(seen, np.transpose, axes)
    result = gather.gathered(turned, found.index, 0, count, found.error, is_checked=found.is_checked)
    ndim = found.index._layout.ndim
    places = [ndim + order.index(i) for i in range(len(free))]
    back = (*places[:place], *range(ndim), *places[place:])
    return result if back == tuple(range(len(back))) else own(moved(result, np.transpose, back))


def _in_order_of_index(found: advanced.Selection) -> Any:
    """Return elements of a vector, in memory in the order of their indices."""
    axes = axes_of(found.index._layout, "K")
    if axes is None:
        return gather.gathered(found.array, found.index, 0, 1, found.error, is_checked=found.is_checked)
    index = moved(found.index, np.transpose, axes)
    result = gather.gathered(found.array, index, 0, 1, found.error, is_checked=found.is_checked)
    return own(moved(result, np.transpose, tuple(np.argsort(axes).tolist())))


def fill(array: Handle, key: Any, value: Any) -> bool:
    """Write one number where a mask is true, on the device; tell whether that has been done."""
    if type(key) is not types.ndarray or type(value) is types.ndarray:
        return False
    layout, own = array._known or array._layout, key._known or key._layout
    if own.dtype != BOOL:  # as most keys
        return False
    dtype = layout.dtype
    if own.shape != layout.shape or dtype not in DEVICE_TYPES or not layout.ndim:
        return False
    if not isinstance(value, bool | int | float | complex | np.number | np.bool_):
        return False
    element = _element_of(dtype, value)
    try:
        target = array._known if array._view is None else None  # `target_of`, spelled out
        store(array, express(WHERE, (key, element, array), target or target_of(array)))
    except Unsupported:
        return False
    if current() is not quiet.state:
        settled(array)
    return True


def fill_all(array: Handle, value: Any) -> bool:
    """Write one number to a whole array of the device, which owns its elements; tell whether that has been done."""
    layout: Any = array._known
    if layout.dtype not in DEVICE_TYPES:
        return False
    element = _element_of(layout.dtype, value)
    try:
        store(array, express(COPY, (element,), layout))
    except Unsupported:
        return False
    if current() is not quiet.state:
        settled(array)
    return True


def _element_of(dtype: np.dtype[Any], value: Any) -> Any:
    """Return what a number is as an element, or raise what NumPy raises."""
    is_kept = type(value) is int or type(value) is bool
    element = _ELEMENTS.get((dtype, value)) if is_kept else None
    if element is None:
        # NumPy's scalars are cast as arrays are, Python's numbers have to fit.
        put(single := np.zeros(1, dtype), slice(None), np.asarray(value) if isinstance(value, np.generic) else value)
        element = single[0]
        if is_kept:
            if len(_ELEMENTS) >= MAX_ELEMENTS:
                _ELEMENTS.clear()
            _ELEMENTS[dtype, value] = element
    return element


def write_masked(array: Handle, key: Handle, value: Handle) -> bool:
    """Write where a mask is true what was computed of elements selected by it; tell whether that has been done."""
    found = written(array, key, value) if type(array) is types.ndarray else None
    if found is None:
        return False
    try:
        target = array._known if array._view is None else None  # `target_of`, spelled out
        store(array, express(WHERE, (*found, array), target or target_of(array)))
    except Unsupported:
        return False
    if current() is not quiet.state:
        settled(array)
    return True


def write_at(array: Handle, key: tuple[Any, ...], value: Any) -> bool:
    """Write to the elements at indices that have not been selected, before any is; tell whether that has been done."""
    layout = array._known or array._layout
    if type(array) is not types.ndarray or len(key) != layout.ndim:
        return False
    found = places(array, key, value)
    if found is None:
        return False
    mask, indices, given = found
    if type(given) is types.ndarray:
        if given._layout.dtype != layout.dtype:
            return False
    elif type(given) not in _PLAIN or layout.dtype.itemsize > MAX_SCALAR_NBYTES:
        return False
    try:
        scatter.assign(advanced.masked_places(array, mask, indices), given, skips=True)
    except Unsupported:
        return False
    return True


def write_again(array: Handle, key: Any, value: Any) -> bool:
    """Write what an array of integers on the device selects, alone or beside numbers, as has been done before.

    Whether it has been is all that there is to be found out, where an array and the values are what was written then;
    of what has not been computed or selected yet, or may be the host's, more is.
    """
    if type(array) is not types.ndarray or type(value) is not types.ndarray or balance.limit or followers:
        return False
    if value._known is None and value._seen is None:
        return False
    what: Any = FIRST_AXIS
    if type(key) is tuple:
        for part in key:
            if type(part) is types.ndarray and part._known is None:
                return False
        line = advanced.on_line(array, key)
        if line is None:
            return False
        array, key, axis = line
        what = FIRST_AXIS, axis
    return key._known is not None and again.write(what, array, key, value, casts=True)


def scatter_values(array: Handle, key: Any, value: Any) -> bool:
    """Write to what an advanced key selects, on the device; tell whether that has been done."""
    if type(array) is not types.ndarray:
        return False
    layout = array._known or array._layout
    if layout.dtype.names is not None:  # of which a key may be a field
        return False
    try:
        if is_device_scalar(value):
            value = (
                fetch(value)[()]
                if (value._held or value._storage).host is not None
                else view(value, lambda x: x.reshape(()))
            )
        elif type(value) is not types.ndarray and not isinstance(value, _TAKEN):
            value = from_elsewhere(value, layout.dtype)
        if type(value) is types.ndarray and value._layout.ndim > 1 and _is_whole_mask(array, key):
            return False  # NumPy refuses what is not in a row
        what: Any = FIRST_AXIS
        axis = 0
        if type(key) is tuple:
            key = advanced.without_rest(key, layout.ndim)
            if type(key) is tuple and (line := advanced.on_line(array, key)) is not None:
                array, key, axis = line
                what = FIRST_AXIS, axis
        if type(key) is types.ndarray and again.write(what, array, key, value, casts=True):
            return True
        shape = (value._known or value._layout).shape if isinstance(value, Handle) else ()
        found = advanced.selection(array, key, shape, axis=axis)
        bound = scatter.assign(found, value)
        if bound is not None and key is found.index:
            again.keep_write(what, array, key, value, found.error, bound, casts=True)
    except Unsupported:
        return False
    except IndexError:
        if not isinstance(value, Handle):
            np.zeros(1, layout.dtype)[:] = value  # NumPy refuses a value that does not fit before an index
        raise
    return True


def _is_whole_mask(array: Handle, key: Any) -> bool:
    """Whether a key is one mask of all dimensions."""
    single: Any = key[0] if type(key) is tuple and len(key) == 1 else key
    if isinstance(single, list | bool | np.bool_):
        single = np.asarray(single)
    is_array = isinstance(single, Handle | np.ndarray)
    return is_array and bool(single.dtype == BOOL and single.ndim == array._layout.ndim)


__all__ = [
    "FIRST_AXIS",
    "fill",
    "fill_all",
    "key_on_host",
    "scatter_values",
    "selected",
    "write_again",
    "write_at",
    "write_masked",
]
