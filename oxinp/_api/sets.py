"""Set routines: the distinct elements of arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._api.manipulation import concatenate
from oxinp._core.array import dispatch
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, copy, own
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.ops import gather
from oxinp._core.ops.index import getitem
from oxinp._core.ops.sort import Unique, argsort, distinct_values, searchsorted, sort
from oxinp._core.ufunc.objects import UFUNC_OBJECTS


def _array(a: Any) -> Any:
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    return as_ours(a)


def _distinct(a: Any, *, with_places: bool, equal_nan: bool) -> Unique:
    return Unique(_array(a), with_places=with_places, equal_nan=bool(equal_nan))


@implements("unique")
def unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    """See `numpy.unique`; the elements are sorted whether that is asked for or not."""
    del sorted
    if axis is not None:
        return _unique_along(_array(ar), axis, bool(return_index), bool(return_inverse), bool(return_counts))
    if not (return_index or return_inverse or return_counts):
        return distinct_values(_array(ar), equal_nan=bool(equal_nan))
    found = _distinct(ar, with_places=bool(return_index or return_inverse), equal_nan=equal_nan)
    wanted = [found.values]
    if return_index:
        wanted.append(found.index)
    if return_inverse:
        wanted.append(found.inverse)
    if return_counts:
        wanted.append(found.counts)
    return tuple(wanted)


def _unique_along(array: Any, axis: Any, *flags: bool) -> Any:
    """Return the distinct slices of an axis, and where they are first, of which each is, and how many there are."""
    shape = array._layout.shape
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape) or not array._layout.size:
        raise Unsupported("what NumPy refuses, or no elements")
    axis %= len(shape)
    turned = view(array, lambda seen: np.moveaxis(seen, axis, 0))
    found = Unique.of_rows(copy(reshape(turned, (shape[axis], -1))))
    slices = reshape(found.values, (-1, *turned._layout.shape[1:]))
    wanted = [own(view(slices, lambda seen: np.moveaxis(seen, 0, axis)))]
    if flags[0]:
        wanted.append(found.index)
    if flags[1]:  # which NumPy gives other shapes from version to version
        alike = np.unique(np.zeros(tuple([2 if i == axis else 1 for i in range(len(shape))])), False, True, axis=axis)[
            1
        ]
        wanted.append(reshape(found.inverse, tuple([shape[axis] if n == 2 else 1 for n in alike.shape])))
    if flags[2]:
        wanted.append(found.counts)
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@implements("unique_values", is_hosted=False)
def unique_values(x: Any, /) -> Any:
    """See `numpy.unique_values`; sorted, as others have it and NumPy had it before it left the order open."""
    return dispatch.functions[np.unique](x, equal_nan=False)


@implements("unique_counts")
def unique_counts(x: Any, /) -> Any:
    """See `numpy.unique_counts`."""
    found = _distinct(x, with_places=False, equal_nan=False)
    return _result("unique_counts")(found.values, found.counts)


@implements("unique_inverse")
def unique_inverse(x: Any, /) -> Any:
    """See `numpy.unique_inverse`."""
    found = _distinct(x, with_places=True, equal_nan=False)
    return _result("unique_inverse")(found.values, found.inverse)


@implements("unique_all")
def unique_all(x: Any, /) -> Any:
    """See `numpy.unique_all`."""
    found = _distinct(x, with_places=True, equal_nan=False)
    return _result("unique_all")(found.values, found.index, found.inverse, found.counts)


@implements("isin")
def isin(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False, *, kind: Any = None) -> Any:
    """See `numpy.isin`: every element is searched among the sorted ones."""
    del assume_unique
    if kind not in (None, "sort"):
        raise Unsupported("a table, or what NumPy refuses")
    array, tested = as_ours(element), as_ours(test_elements)
    if not array._layout.ndim or not tested._layout.size:
        raise Unsupported("a scalar, or nothing to look for")
    dtype = np.result_type(array._layout.dtype, tested._layout.dtype)
    array, tested = (astype(x, dtype, copy_wanted=False) for x in (array, tested))
    check_placement(array, tested)
    among = sort(tested, None)
    places = UFUNC_OBJECTS["minimum"](searchsorted(among, array, is_right=False), among._layout.size - 1)
    found = gather.take(among, places, is_checked=False)
    return UFUNC_OBJECTS["not_equal" if invert else "equal"](found, array)


@implements("union1d")
def union1d(ar1: Any, ar2: Any) -> Any:
    """See `numpy.union1d`."""
    return unique(concatenate((as_ours(ar1), as_ours(ar2)), axis=None))


@implements("setdiff1d")
def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """See `numpy.setdiff1d`."""
    check_placement(as_ours(ar1), as_ours(ar2))
    array = ravel(as_ours(ar1)) if assume_unique else unique(as_ours(ar1))
    return gather.select(array, isin(array, ar2, invert=True))


@implements("intersect1d")
def intersect1d(ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False) -> Any:
    """See `numpy.intersect1d`."""
    check_placement(as_ours(ar1), as_ours(ar2))
    arrays, places = [ravel(as_ours(x)) for x in (ar1, ar2)], []
    if not assume_unique and return_indices:
        distinct = [Unique(x, with_places=True, equal_nan=True) for x in arrays]
        arrays, places = [found.values for found in distinct], [found.index for found in distinct]
    elif not assume_unique:
        arrays = [unique(x) for x in arrays]
    joined = concatenate(arrays)
    order = argsort(joined) if return_indices else None
    together = sort(joined) if order is None else gather.take(joined, order, is_checked=False)
    first, second = _neighbours(together)
    is_double = UFUNC_OBJECTS["equal"](first, second)
    values = gather.select(first, is_double)
    if order is None:
        return values
    low, high = [gather.select(x, is_double) for x in _neighbours(order)]
    found = [low, UFUNC_OBJECTS["subtract"](high, arrays[0]._layout.size)]
    if places:
        found = [gather.take(own_places, x, is_checked=False) for own_places, x in zip(places, found, strict=True)]
    return (values, *found)


def _neighbours(array: Any) -> tuple[Any, Any]:
    """Return the elements that have one behind them, and those behind."""
    return getitem(array, slice(None, -1)), getitem(array, slice(1, None))


@cache
def _result(name: str) -> Any:
    """Return NumPy's class of what a function returns."""
    return type(getattr(np, name)(np.zeros(1)))
