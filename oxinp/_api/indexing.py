"""Indexing routines: elements by index, elements that a condition chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.exchange import holds_arrays, is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, own
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import BOOL, INT64
from oxinp._core.ops import creation, gather
from oxinp._core.ops.index import getitem, setitem


def _taken(value: Any) -> Any:
    """Return an array_like as an array of ours that has dimensions."""
    if type(value) is types.ndarray and value._layout.ndim:
        return value
    if holds_arrays(value) or (isinstance(value, np.ndarray) and type(value) is not np.ndarray):
        raise Unsupported("lists of arrays, or a subclass to pass through")
    array = as_ours(value)
    if not array._layout.ndim:
        raise Unsupported("a scalar")
    return array


@implements("take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """See `numpy.take`."""
    if out is not None or mode != "raise":
        raise Unsupported("an output, or indices that are never out of bounds")
    array, index = _taken(a), _taken(indices)
    given = None if is_array(indices) else np.asarray(indices)
    check_placement(array, index)
    if axis is None:
        array, axis = array if array._layout.ndim == 1 else ravel(array), 0
    return gather.take(array, index, axis, given=given)


@implements("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """See `numpy.take_along_axis`."""
    array, index = _taken(arr), _taken(indices)
    if axis is None:
        array, axis = ravel(array), 0
    ndim, given = array._layout.ndim, index._layout
    axis = normalize_axis_index(axis, ndim)
    if given.dtype.kind not in "iu" or given.ndim != ndim:
        raise Unsupported("what NumPy refuses")
    check_placement(array, index)
    return gather.take_along(array, index, axis)


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """See `numpy.compress`."""
    mask, array = _taken(condition), _taken(a)
    if out is not None or mask._layout.ndim != 1 or mask._layout.dtype != BOOL:
        raise Unsupported("an output, or conditions that are no vector of truth")
    check_placement(array, mask)
    array, axis = (ravel(array), 0) if axis is None else (array, axis)
    extent = array._layout.shape[normalize_axis_index(axis, array._layout.ndim)]
    if mask._layout.size > extent:
        if bool(getitem(mask, slice(extent, None)).any()):
            raise Unsupported("an element that is not there, of which NumPy says which")
        mask = getitem(mask, slice(None, extent))
    return gather.take(array, gather.flatnonzero(mask), axis, is_checked=False)


@implements("extract")
def extract(condition: Any, arr: Any) -> Any:
    """See `numpy.extract`."""
    mask, array = _taken(condition), _taken(arr)
    if mask._layout.size != array._layout.size:
        raise Unsupported("what NumPy takes of arrays of other sizes")
    check_placement(array, mask)
    return gather.select(ravel(array), ravel(astype(mask, BOOL, copy_wanted=False)))


@implements("nonzero")
def nonzero(a: Any) -> Any:
    """See `numpy.nonzero`."""
    return gather.nonzero(_truth_of(a))


@implements("argwhere")
def argwhere(a: Any) -> Any:
    """See `numpy.argwhere`."""
    found = gather.nonzero(_truth_of(a))
    count = found[0]._layout.size
    result = creation.empty((len(found), count), INT64)
    for number, indices in enumerate(found):
        setitem(result, number, indices)
    return own(view(result, lambda x: x.T))


@implements("flatnonzero")
def flatnonzero(a: Any) -> Any:
    """See `numpy.flatnonzero`."""
    return gather.flatnonzero(_truth_of(a))


def _truth_of(value: Any) -> Any:
    array = _taken(value)
    if not array._layout.size:
        raise Unsupported("no elements")
    check_placement(array)
    gather.need_kernel(array._layout)
    return astype(array, BOOL, copy_wanted=False)
