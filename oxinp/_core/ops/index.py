"""Indexing: basic keys, read and write; masks and arrays of integers as far as `gather` goes. The rest is NumPy's."""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from oxinp._config import config
from oxinp._core.errors.frames import call_as_user
from oxinp._core.host.fallback import call, placed_on_host
from oxinp._core.lazy import explain, placement, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import is_waiting
from oxinp._core.lazy.chains import copying, read
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import (
    Handle,
    begin_writing,
    device_value,
    end_writing,
    expression,
    fetch,
    fetch_storage,
    host_and_view,
    host_view,
)
from oxinp._core.lazy.placement import SMALL_NBYTES
from oxinp._core.lazy.record import WHERE, express
from oxinp._core.lazy.results import is_device_scalar, types, wrap_host, wrap_pending
from oxinp._core.lazy.stores import store, target_of
from oxinp._core.lazy.views import host_part, view, view_at
from oxinp._core.manipulation.copy import assign, axes_of, from_elsewhere, own
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.memory.layout import Layout, result_layout
from oxinp._core.memory.storage import SIDES, WRITING, Stale
from oxinp._core.ops import advanced, gather, scatter
from oxinp._core.subclass import SUBCLASSES
from oxinp._core.subclass import plain as without_class

_INTEGERS = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer)}
BASIC = frozenset({int, slice, NoneType, EllipsisType, *_INTEGERS})
_NUMBERS = frozenset({int, bool})
_accesses = placement.accesses

MAX_KEY = 32  # longer ones may have more than NumPy's dimensions
_ONE = np.ones((), np.bool_)

_NumpyArray = np.ndarray
_Generic = np.generic


def is_basic(key: Any) -> bool:
    """Whether a key is made of integers, slices, newaxis and ellipsis alone, so that it selects a view."""
    if type(key) is tuple:
        for part in key:  # noqa: SIM110 - `all` costs more than the rest of an access
            if type(part) not in BASIC:
                return False
        return True
    return type(key) in BASIC


def getitem(array: Handle, key: Any) -> Any:
    """Return ``array[key]``: a view, or for one element a scalar."""
    storage = array._held or array._storage
    host = storage.host
    located = None
    if host is None:
        layout = array._known or array._layout
        if type(key) is slice:  # `_plain`, spelled out
            plain: Any = (_SLICE, key.start, key.stop, key.step)
            if not (type(plain[1]) in _BOUNDS and type(plain[2]) in _BOUNDS and type(plain[3]) in _BOUNDS):
                plain = None
        else:
            plain = _plain(key)
        located = None if layout.parts is None else layout.parts.get(plain)
        if located is None and plain is not None:
            located = _located(layout, key, plain)
    if located is None and not is_basic(key):
        valued = _with_values(key)
        return _gathered(array, key) if valued is key else getitem(array, valued)
    if host is None:
        layout, is_element = locate(layout, key) if located is None else located
        if layout.nbytes > SMALL_NBYTES and not (_accesses or is_element):  # `wants_mirror`, spelled out
            return view_at(array, layout)
        if is_element and not (layout.is_aligned and layout.dtype in DEVICE_TYPES):
            return fetch(view_at(array, layout))[()]
        if not placement.wants_mirror(storage, layout.nbytes):
            return _element(array, layout) if is_element else view_at(array, layout)
        host = fetch_storage(storage)
    if array._host is host:
        seen = array._seen
    else:
        host, seen = host_and_view(array)
    part = seen[key]
    if type(part) is not _NumpyArray or (seen.dtype.hasobject and part.base is not seen and part.base is not seen.base):
        return part
    return host_part(array, host, part)


def key_on_host(key: Any) -> Any:
    """Return an advanced key as NumPy takes it; None if not all of its arrays are small and valid on the host."""
    parts = []
    for part in key if type(key) is tuple else (key,):
        kind = type(part)
        if kind is types.ndarray:
            if (part._held or part._storage).host is None:
                return None
            seen = host_view(part)
            if seen.nbytes >= config.offload_threshold and not balance.takes(seen.nbytes):
                return None
            parts.append(seen)
        elif kind in BASIC or (kind is list and _NUMBERS.issuperset(map(type, part))):
            parts.append(part)
        else:
            return None
    return tuple(parts) if type(key) is tuple else parts[0]


def gather_on_host(array: Handle, seen: Any, key: Any) -> Any:
    """Return what an advanced key selects of an array that is valid on the host."""
    is_small = seen.nbytes < config.offload_threshold or balance.takes(seen.nbytes)
    if is_small and not explain.REPORTS and type(array) is types.ndarray:
        place = key_on_host(key)
        if place is not None:
            found = seen[place]
            if type(found) is not _NumpyArray:
                return found
            if found.base is None and found.flags.carray:
                return wrap_host(found)
    return getitem(array, key)


def _gathered(array: Handle, key: Any) -> Any:
    """Return ``array[key]`` for a key that is not basic: on the device an array of integers, or a mask."""
    if type(array) is types.ndarray:
        if advanced.is_light(array, key):
            return placed_on_host(np.ndarray.__getitem__, (array, key), {})
        try:
            return _by_key(array, key)
        except Unsupported:
            pass
    return call(np.ndarray.__getitem__, (array, key), {}, name="ndarray.__getitem__")


def _by_key(array: Handle, key: Any) -> Any:
    """Return the elements that a key selects, on the device; raises Unsupported."""
    single = key[0] if type(key) is tuple and len(key) == 1 else key
    if type(single) is types.ndarray and single._layout.dtype == BOOL and single._layout.ndim == array._layout.ndim:
        return gather.select(array, single)
    found = advanced.selection(array, key)
    seen, place, count = found.array, found.num_outer, found.num_indexed
    if seen._layout.ndim == 1:
        return _in_order_of_index(found)
    # NumPy's result has the axes of the index outermost in memory, then the others in the order of the array.
    layout = seen._layout
    free = [axis for axis in range(layout.ndim) if not place <= axis < place + count]
    shape, strides = (tuple([each[axis] for axis in free]) for each in (layout.shape, layout.strides))
    dense = result_layout(layout.dtype, shape, [Layout.at(layout.dtype, shape, strides, layout.offset)])
    order = sorted(range(len(free)), key=lambda i: -dense.strides[i])
    axes = (*range(place, place + count), *[free[i] for i in order])
    turned = seen if axes == tuple(range(layout.ndim)) else view(seen, lambda x: x.transpose(axes))
    result = gather.gathered(turned, found.index, 0, count, found.error, is_checked=found.is_checked)
    ndim = found.index._layout.ndim
    places = [ndim + order.index(i) for i in range(len(free))]
    back = (*places[:place], *range(ndim), *places[place:])
    return result if back == tuple(range(len(back))) else own(view(result, lambda x: x.transpose(back)))


def _in_order_of_index(found: advanced.Selection) -> Any:
    """Return elements of a vector, in memory in the order of their indices."""
    axes = axes_of(found.index._layout, "K")
    if axes is None:
        return gather.gathered(found.array, found.index, 0, 1, found.error, is_checked=found.is_checked)
    index = view(found.index, lambda x: x.transpose(axes))
    result = gather.gathered(found.array, index, 0, 1, found.error, is_checked=found.is_checked)
    return own(view(result, lambda x: x.transpose(np.argsort(axes))))


def setitem(array: Handle, key: Any, value: Any) -> None:
    """Write ``array[key] = value``.

    Raises
    ------
    IndexError, ValueError, TypeError
        As NumPy, with nothing written.
    """
    if array._view is not None and not array._view[1]:
        raise ValueError("assignment destination is read-only")
    # Views that are made to write are nobody's to finalize.
    array = without_class(array) if type(array) in SUBCLASSES else array
    storage = array._held or array._storage
    host = storage.host
    located = None
    if host is None:
        layout = array._known or array._layout
        plain = _plain(key)
        located = None if layout.parts is None else layout.parts.get(plain)
        if located is None and plain is not None:
            located = _located(layout, key, plain)
    if located is None and not is_basic(key):
        _set_by_key(array, key, value)
        return
    if host is None:
        layout, is_element = locate(array._layout, key) if located is None else located
        given_storage = (value._held or value._storage) if type(value) is types.ndarray else None
        if given_storage is storage and value._layout.same(layout):
            return  # what an in-place operator on a view leaves behind, as in x[1:] += 1
        if placement.wants_mirror_to_write(storage, layout.nbytes, given_storage):
            fetch_storage(storage)
        elif given_storage is not None and given_storage.host is None and _is_plain_copy(array, layout, value._layout):
            held = expression(value)
            source = given_storage if is_waiting(held) else None
            try:
                store(view_at(array, layout), held, source, depth=5)  # `__setitem__` is between
            except Unsupported:  # a dtype that has no kernels, or elements that are not at multiples of their size
                pass
            else:
                return
    else:
        host, seen = host_and_view(array)
        given = _on_host(value)
        if (
            given is not None
            and (seen.nbytes < config.offload_threshold or seen.nbytes < balance.limit)
            and not explain.REPORTS
            and storage.host is host
            and storage.stale is None
            and storage.value is None
        ):
            storage.stale = WRITING  # no other thread has run since the last three conditions
            try:
                if type(given) is np.ndarray and given.dtype is not seen.dtype:
                    call_as_user(seen.__setitem__, (key, given), {})  # a cast may warn
                else:
                    seen[key] = given
            finally:
                end_writing(storage)
            return
        if seen.dtype.hasobject or seen.dtype.names is not None:
            records = begin_writing(array)  # the storage may be that of numbers, whose view this is
            try:
                records[key] = fetch(value) if seen.dtype.names is not None and isinstance(value, Handle) else value
            finally:
                end_writing(storage)
            return
        parts = _as_view_key(key)
        part = seen[parts]
        is_element = _is_element(key, parts, part.ndim)
        layout = host_part(array, host, part)._layout
    if is_element and not isinstance(value, np.generic | int | float):
        value = _single(value, layout)
    assign(array if layout.same(array._layout) else view_at(array, layout), value)


def write_part(array: Handle, host: Any, seen: Any, key: Any, given: Any) -> bool:
    """Write to a part of an array that is valid on the host alone, if placement leaves the part there.

    Parameters
    ----------
    array : Handle
    host, seen : numpy.ndarray
        The host side of its storage, and its view there.
    key : object
        A basic one.
    given : numpy.ndarray or number

    Returns
    -------
    bool
        Whether that has been done.
    """
    storage = array._held or array._storage
    try:
        nbytes = seen[_as_view_key(key)].nbytes
    except IndexError:  # NumPy says of the write what is wrong
        nbytes = 0
    if explain.REPORTS or seen.dtype.hasobject or not placement.is_host(nbytes):
        return False
    if storage.stale is None and storage.value is None and storage.host is host:
        storage.stale = WRITING  # no other thread has run since the last three conditions
        try:
            seen[key] = given
        finally:
            end_writing(storage)
        return True
    touched = _touched(array, seen, key)
    with SIDES:
        stale = storage.stale
        if stale is None or storage.value is not None or storage.host is not host:
            return False
        stale.widen(*touched)
        seen[key] = given
        if type(stale) is Stale and not stale.is_uploading and stale.is_worn():
            storage.stale = None
    return True


def _touched(array: Handle, seen: Any, key: Any) -> tuple[int, int]:
    """Return the range of bytes of the storage in which lies what a basic key selects, by its first index."""
    low, high = (0, seen.nbytes) if array._view is None else array._layout.byte_bounds
    first = key[0] if type(key) is tuple and key else key
    if seen.ndim and type(first) is int:
        start = first if first >= 0 else first + len(seen)
        stop = start + 1
    elif seen.ndim and type(first) is slice:
        start, stop, stride = first.indices(len(seen))
        if stride < 0:
            start, stop = stop + 1, start + 1
    else:
        return low, high
    step = seen.strides[0]
    return (low + start * step, high - (len(seen) - stop) * step) if step > 0 and start < stop else (low, high)


def _set_by_key(array: Handle, key: Any, value: Any) -> None:
    """Write ``array[key] = value`` for a key that is not basic."""
    known = _with_values(key)
    if known is not key:
        setitem(array, known, value)
    elif type(array) is types.ndarray and advanced.is_light(array, key):
        placed_on_host(np.ndarray.__setitem__, (array, key, value), {}, mutates=(0,))
    elif not _fills(array, key, value) and not _scatters(array, key, value):
        call(np.ndarray.__setitem__, (array, key, value), {}, name="ndarray.__setitem__", mutates=(0,))


def _fills(array: Handle, key: Any, value: Any) -> bool:
    """Write one number where a mask is true, on the device; tell whether that has been done."""
    is_number = isinstance(value, bool | int | float | complex | np.number | np.bool_)
    if not (type(key) is types.ndarray and is_number and key._layout.shape == array._layout.shape):
        return False
    dtype = array._layout.dtype
    if not (key._layout.dtype == BOOL and dtype in DEVICE_TYPES and array._layout.ndim):
        return False
    element = np.zeros(1, dtype)
    # NumPy's scalars are cast as arrays are, Python's numbers have to fit.
    element[:] = np.asarray(value) if isinstance(value, np.generic) else value
    try:
        filled = express(WHERE, (key, element[0], array), target_of(array))
    except Unsupported:
        return False
    assign(array, wrap_pending(filled, as_array=True))
    return True


def _scatters(array: Handle, key: Any, value: Any) -> bool:
    """Write to what an advanced key selects, on the device; tell whether that has been done."""
    if type(array) is not types.ndarray or array._layout.dtype.names is not None:  # of which a key may be a field
        return False
    try:
        if is_device_scalar(value):
            value = (
                fetch(value)[()]
                if (value._held or value._storage).host is not None
                else view(value, lambda x: x.reshape(()))
            )
        elif not isinstance(value, Handle | np.generic | bool | int | float | complex):
            value = from_elsewhere(value, array._layout.dtype)
        if isinstance(value, Handle) and value._layout.ndim > 1 and _is_whole_mask(array, key):
            return False  # NumPy refuses what is not in a row
        try:
            selected = advanced.selection(array, key)
        except IndexError:
            _let_raise(array._layout, key, value)
            raise
        scatter.assign(selected, value)
    except Unsupported:
        return False
    return True


def _let_raise(layout: Layout, key: Any, value: Any) -> None:
    """Let NumPy say what it finds first: values that do not fit, or an index out of bounds."""
    target = np.lib.stride_tricks.as_strided(np.empty((), layout.dtype), layout.shape, (0,) * layout.ndim)
    parts = [fetch(part) if isinstance(part, Handle) else part for part in (key if type(key) is tuple else (key,))]
    target[tuple(parts)] = np.empty(np.shape(value), layout.dtype)


def _is_whole_mask(array: Handle, key: Any) -> bool:
    """Whether a key is one mask of all dimensions."""
    single = key[0] if type(key) is tuple and len(key) == 1 else key
    return isinstance(single, Handle) and single._layout.dtype == BOOL and single._layout.ndim == array._layout.ndim


def _is_plain_copy(array: Handle, layout: Layout, given: Layout) -> bool:
    """Whether a part of an array, in `layout`, is assigned as many elements of its dtype as it has, each its own."""
    return (
        given.shape == layout.shape
        and given.dtype == layout.dtype
        and layout.ndim > 0
        and layout.is_injective
        and not (array._view is None and layout.same(array._layout))
    )


def _on_host(value: Any) -> Any:
    """Return a number, or NumPy's view of an array of ours that is valid on the host; None for anything else."""
    kind = type(value)
    if kind is types.ndarray:
        return None if (value._held or value._storage).host is None else host_view(value)
    return value if kind is float or kind is int or isinstance(value, _Generic) else None


def _with_values(key: Any) -> Any:
    """Return a key with the values of scalars that are on the device; the key itself if there is none."""
    if type(key) is tuple:
        if any(is_device_scalar(part) for part in key):
            return tuple(part[()] if is_device_scalar(part) else part for part in key)
        return key
    return key[()] if is_device_scalar(key) else key


def _as_view_key(key: Any) -> tuple[Any, ...]:
    """Return a basic key as a tuple that selects a view, also where the key selects one element."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        if part is ...:
            return parts
    return (*parts, ...)


def locate(layout: Layout, key: Any) -> tuple[Layout, bool]:
    """Return the layout of a basic index's view, and whether NumPy would give a scalar instead."""
    plain = _plain(key)
    known = layout.parts
    if plain is None or known is None or (located := known.get(plain)) is None:
        located = _located(layout, key, plain)
    return located


def _located(layout: Layout, key: Any, plain: Any) -> tuple[Layout, bool]:
    found = layout.sliced(key) if type(key) is slice and layout.ndim == 1 else None
    if found is not None:
        located = found, False
    else:
        parts = _as_view_key(key)
        if len(parts) > MAX_KEY:
            np.broadcast_to(_ONE, layout.shape)[parts]  # NumPy's own error
        found = layout.select(parts) or layout.view(lambda seen: seen[parts])
        located = found, _is_element(key, parts, found.ndim)
    if plain is not None:
        layout.keep_part(plain, located)
    return located


_BOUNDS = frozenset({int, NoneType})
_PLAIN = frozenset({int, NoneType, EllipsisType, object})
_SLICE = object()  # what bounds follow in a plain key


def _plain(key: Any) -> Any:
    """Return a key of slices, integers, newaxis and ellipsis as a tuple of numbers; None for anything else.

    Numbers that are equal may be of other types, which mean other things or nothing: so all are looked at.
    """
    if type(key) is tuple:
        if len(key) == 2:
            first, second = key
            if type(first) is type(second) is slice:  # the most common key, spelled out
                a, b, c = first.start, first.stop, first.step
                d, e, f = second.start, second.stop, second.step
                if (
                    type(a) in _BOUNDS
                    and type(b) in _BOUNDS
                    and type(c) in _BOUNDS
                    and type(d) in _BOUNDS
                    and type(e) in _BOUNDS
                    and type(f) in _BOUNDS
                ):
                    return _SLICE, a, b, c, _SLICE, d, e, f
                return None
    elif type(key) is slice:
        a, b, c = key.start, key.stop, key.step
        return (_SLICE, a, b, c) if type(a) in _BOUNDS and type(b) in _BOUNDS and type(c) in _BOUNDS else None
    else:
        key = (key,)
    plain: list[Any] = []
    for part in key:
        if type(part) is slice:
            plain += (_SLICE, part.start, part.stop, part.step)
        else:
            plain.append(part)
    return tuple(plain) if _PLAIN.issuperset(map(type, plain)) else None


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
    storage, value = array._storage, None
    while value is None:  # as long as other threads bring it to the host in between
        device_value(storage)
        value = schedule.materialise(storage)
    element, leaves, mask = read(layout, value)
    return wrap_pending((copying(element.layout, layout.dtype), leaves, mask))
