"""Wrapping results: a value, or NumPy's array, becomes an array or a scalar of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.calls import Pending
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import SHARED, Storage, Value, make_storage

if TYPE_CHECKING:
    from oxinp._core.lazy.op import BoundOp

_new = object.__new__
_NumpyArray = np.ndarray
_OBJECT = np.dtype(object)


class _Types:
    """Classes that results are wrapped in, and functions they fall back on: of the layers above, which enter them."""

    ndarray: Any = None
    bare: Any = None  # an iterator of new ones without attributes, faster than `object.__new__`, which takes arguments
    scalar: Any = None  # the class of device scalars,
    scalar_type: Any = None  # its own class,
    scalars: Any = None  # and the classes below it that scalars are made in, by NumPy's
    dressed: Any = None  # the class between ndarray and users' classes
    finalize: Any = None  # a new array of a user's class, and what it was made from -> the array, finalised
    from_host: Any = None  # NumPy array that others may change -> ndarray
    fall_back: Any = None  # fallback.call
    selected: Any = None  # an array, a mask -> the elements where that is true
    count_true: Any = None  # a mask -> how many of its elements are true
    invert: Any = None  # the operator ``~``
    array_ufunc: Any = None  # what `dispatch` does for NumPy's own ufuncs and functions
    array_function: Any = None
    find: Any = None  # a function or ufunc of NumPy's -> ours, or None


types = _Types()


def wrap(value: Value | None, layout: Layout, host: np.ndarray[Any, Any] | None = None) -> Any:
    """Return a new array that owns a new storage with these sides."""
    storage = make_storage(value, host)
    array = _new(types.ndarray)
    array._known = layout
    array._held = storage
    array._view = None
    array._host = array._seen = None
    return array


def wrap_host(result: Any) -> Any:
    """Return what NumPy gave as ours: an array that nobody else holds becomes the host side of a new one."""
    if type(result) is not _NumpyArray:
        return result
    array = next(types.bare)
    array._known = array._view = array._held = None
    array._host = array._seen = result
    if result.dtype is _OBJECT:
        array._held = make_storage(None, result)
        array._host = None
    return array


def wrap_pending(value: Value, *, as_array: bool = False) -> Any:
    """Return a new array, or scalar where NumPy returns one (unless `as_array`), that is pending."""
    array = pending(*value)
    if len(schedule.PENDING) > schedule.room:
        schedule.make_room(array._held, 3)
    if value[2] & SHARED:  # others may change what it reads at any time
        schedule.materialise(array._held)
    if as_array and not array._known.ndim:
        scalar, array = array, next(types.bare)
        array._known, array._held = scalar._known, scalar._held
        array._view = array._host = array._seen = None
    return array


def pending(graph: Any, leaves: tuple[Any, ...], mask: int) -> Any:
    """Return a new array, or scalar, that is pending; whoever calls this makes room where there are too many."""
    storage = Storage()  # `make_storage`, spelled out
    storage.has_objects = False
    storage.value = graph, leaves, mask
    storage.host = storage.stale = None
    schedule.PENDING.append(ref(storage))
    layout = graph.layout
    array = next(types.bare) if layout.ndim else _new(types.scalars[layout.dtype.type])
    array._known = layout
    array._held = storage
    array._view = array._host = array._seen = None
    return array


def wrap_result(value: Value, *, as_array: bool = False) -> Any:
    """Return a new array, or scalar where NumPy returns one (unless `as_array`), of what `schedule.defer` gave."""
    storage = Storage()  # `make_storage`, spelled out
    storage.has_objects = False
    storage.value = value
    storage.host = storage.stale = None
    entry = value[1][0]
    if type(entry) is Pending:
        entry.owner = ref(storage)
    layout = value[0].layout
    array = next(types.bare) if as_array or layout.ndim else _new(types.scalars[layout.dtype.type])
    array._known = layout
    array._held = storage
    array._view = None
    array._host = array._seen = None
    return array


def deferred(bound: BoundOp, leaves: tuple[Any, ...], mask: int) -> Any:
    """Ask for an operation of one result, see `schedule.defer`; return that as `wrap_result` does."""
    (value,) = schedule.defer(bound, leaves, mask, depth=5)
    return wrap_result(value)


def is_device_scalar(value: Any) -> bool:
    """Whether a value is a scalar of ours; `isinstance` would ask arrays for their `__class__`, which takes longer."""
    return type(type(value)) is types.scalar_type


def as_array(result: Any) -> Any:
    """Return a new result as an array where it is a scalar: what NumPy gives for ``out=...``."""
    if is_device_scalar(result):
        array = _new(types.ndarray)
        array._known = result._layout
        array._held = result._storage
        array._view = None
        array._host = array._seen = None
        return array
    return wrap_host(np.asarray(result)) if isinstance(result, np.generic) else result
