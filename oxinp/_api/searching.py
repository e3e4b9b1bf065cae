"""Sorting, searching and counting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._api import indexing
from oxinp._api.fronts import as_ours, implements
from oxinp._core.host.exchange import holds_arrays, is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import fetch
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import WEAK_TYPES
from oxinp._core.ops import creation, ranks
from oxinp._core.ops import sort as sorts
from oxinp._core.ops.where import of_known
from oxinp._core.ops.where import where as where_of_three
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_NoValue = np._NoValue


@implements("where", ahead=of_known)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """See `numpy.where`."""
    if x is None and y is None:
        return indexing.nonzero(condition)
    if x is None or y is None:
        raise Unsupported("what NumPy refuses")
    if any(holds_arrays(value) for value in (condition, x, y)):
        raise Unsupported("lists of arrays")
    return where_of_three(condition, x, y)


@implements("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """See `numpy.select`: one choice after the other, the last one first."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise Unsupported("what NumPy refuses")
    conditions = [as_ours(condition) for condition in condlist]
    choices = [choice if type(choice) in WEAK_TYPES else as_ours(choice) for choice in (*choicelist, default)]
    if any(condition._layout.dtype != np.bool_ for condition in conditions):
        raise Unsupported("what NumPy refuses")
    dtype = np.result_type(*[x._layout.dtype if is_array(x) else x for x in choices])
    shape = np.broadcast_shapes(*[x._layout.shape for x in (*conditions, *choices) if is_array(x)])
    last = choices.pop()
    choices = [x if is_array(x) else _cast(x, dtype, "same_kind") for x in choices]
    if is_array(last):
        result = astype(view(last, lambda seen: np.broadcast_to(seen, shape)), dtype)
    else:
        result = creation.full(shape, _cast(last, dtype, "unsafe"), dtype)
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        result = where_of_three(condition, choice, result)
    return result


def _cast(number: complex, dtype: np.dtype[Any], casting: Any) -> Any:
    """Return a Python number as `select` casts it: as an array's, so that -1 is the largest uint8."""
    array = np.asarray(number)
    if array.dtype.hasobject or not np.can_cast(array.dtype, dtype, casting):
        raise Unsupported("what NumPy refuses")
    return array.astype(dtype)[()]


def _sortable(a: Any, kind: Any, order: Any, stable: Any, descending: Any = _NoValue) -> Any:
    """Return an array_like as an array of ours that sorts as NumPy sorts it, in whatever way it is told to."""
    if descending is not _NoValue and not _HAS_DESCENDING:
        raise Unsupported("what NumPy refuses")
    keywords = (None if descending is _NoValue else descending, stable)
    if order is not None or (kind is not None and keywords != (None, None)) or kind not in _KINDS:
        raise Unsupported("fields, or what NumPy refuses")
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    array = as_ours(a)
    if not array._layout.ndim:
        raise Unsupported("a scalar")
    return array


_KINDS = (None, "quicksort", "heapsort", "mergesort", "stable")
_STABLE = _KINDS[3:]
_HAS_DESCENDING = np.lib.NumpyVersion(np.__version__) >= "2.5.0"


def _is_of_line(axis: Any, kind: Any) -> bool:
    """Whether a vector is sorted, in whatever way."""
    return type(axis) is int and -1 <= axis <= 0 and (kind is None or type(kind) is str) and kind in _KINDS


def _sort_line(a: Any, axis: Any = -1, kind: Any = None, *others: Any, **options: Any) -> Any:
    """Return a vector that is on the device sorted; None for anything else."""
    return None if others or options or not _is_of_line(axis, kind) else sorts.of_line(sorts.SORT, a)


@implements("sort", ahead=_sort_line)
def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: Any = _NoValue
) -> Any:
    """See `numpy.sort`."""
    array = _sortable(a, kind, order, stable, descending)
    return sorts.sort(array, axis, is_descending=descending is not _NoValue and bool(descending))


def _argsort_line(a: Any, axis: Any = -1, kind: Any = None, *others: Any, **options: Any) -> Any:
    """Return the order of a vector that is on the device; None for anything else."""
    if others or options or not _is_of_line(axis, kind):
        return None
    return sorts.of_line(sorts.STABLE_ARGSORT if kind in _STABLE else sorts.ARGSORT, a)


@implements("argsort", ahead=_argsort_line)
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: Any = _NoValue
) -> Any:
    """See `numpy.argsort`."""
    array = _sortable(a, kind, order, stable, descending)
    is_descending = descending is not _NoValue and bool(descending)
    return sorts.argsort(array, axis, is_descending=is_descending, is_stable=bool(stable) or kind in _STABLE)


def _ranks(kth: Any, array: Any, axis: Any) -> Any:
    """Return the numbers of elements that are to be in their places; let NumPy raise what is wrong with them."""
    size = array._layout.size if axis is None else array._layout.shape[normalize_axis_index(axis, array._layout.ndim)]
    if not (isinstance(kth, int | np.integer) or (isinstance(kth, tuple | list) and kth)) and not is_array(kth):
        raise Unsupported("what NumPy refuses")
    numbers = np.asarray(fetch(kth) if is_array(kth) else kth)
    if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or ((numbers >= size) | (numbers < -size)).any():
        raise Unsupported("what NumPy refuses")
    return numbers.ravel().astype(np.int64)


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """See `numpy.partition`."""
    return _partitioned(a, kth, axis, kind, order, gives_places=False)


@implements("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """See `numpy.argpartition`."""
    return _partitioned(a, kth, axis, kind, order, gives_places=True)


def _partitioned(a: Any, kth: Any, axis: Any, kind: Any, order: Any, *, gives_places: bool) -> Any:
    array = _sortable(a, None, order, None)
    if kind != "introselect":
        raise Unsupported("what NumPy refuses")
    return ranks.partition(array, _ranks(kth, array, axis), axis, gives_places=gives_places)


@implements("lexsort")
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """See `numpy.lexsort`."""
    rows = list(keys) if isinstance(keys, tuple | list) else list(as_ours(keys)) if np.ndim(keys) else []
    arrays = [as_ours(key) for key in rows]
    if not arrays or not arrays[0]._layout.ndim or len({x._layout.shape for x in arrays}) > 1:
        raise Unsupported("no keys, scalars, or what NumPy refuses")
    return sorts.lexsort(arrays, normalize_axis_index(axis, arrays[0]._layout.ndim))


@implements("searchsorted")
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """See `numpy.searchsorted`."""
    if side not in ("left", "right"):
        raise Unsupported("what NumPy refuses")
    array, values = as_ours(a), as_ours(v)
    if array._layout.ndim != 1 or not values._layout.ndim:
        raise Unsupported("what NumPy refuses, or a scalar")
    dtype = np.result_type(array._layout.dtype, values._layout.dtype)
    if sorter is not None:
        array = indexing.take(array, sorter)
    array, values = (astype(x, dtype, copy_wanted=False) for x in (array, values))
    return sorts.searchsorted(array, values, is_right=side == "right")


@implements("digitize")
def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    """See `numpy.digitize`."""
    array, edges = as_ours(x), as_ours(bins)
    is_complex = "c" in (array._layout.dtype.kind, edges._layout.dtype.kind)
    if is_complex or edges._layout.ndim != 1 or edges._layout.size < 2:
        raise Unsupported("what NumPy refuses, or edges that have no direction")
    before, behind = (view(edges, lambda seen, part=part: seen[part]) for part in (slice(None, -1), slice(1, None)))
    rises = bool(UFUNC_OBJECTS["less_equal"](before, behind).all())
    if not rises and not bool(UFUNC_OBJECTS["greater_equal"](before, behind).all()):
        raise Unsupported("what NumPy refuses")
    side = "left" if right else "right"
    if rises:
        return searchsorted(edges, array, side)
    places = searchsorted(view(edges, lambda seen: seen[::-1]), array, side)
    return UFUNC_OBJECTS["subtract"](edges._layout.size, places)
