"""Sorts: `sort`, `argsort`, `lexsort`, and what is read off sorted elements: `unique`, `searchsorted`.

All are stable, which NumPy's are, too, or leave open. Elements are never changed: zeros keep their signs.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, host_view
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device, may_be_host
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import axes_of, copy, own, permuted
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import creation, distinct, gather
from oxinp._core.ops.index import getitem, setitem
from oxinp._core.ops.perform import perform, perform_on_device
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import CUMSUM
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.plan import Plan

MAX_KEYS = 64  # of rows that are sorted, by one column after the other
_FAMILY = "oxinp._kernels.sort.plan"


def _rows(layout: Layout) -> tuple[int, int]:
    """Return how many rows an array has along its last axis, and their length."""
    length = layout.shape[-1]
    return layout.size // length, length


def _infer_sort(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, layouts[0].shape),)


def _infer_argsort(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(INT64, layouts[0].shape),)


def _plan_with(name: str) -> Any:
    """Return what plans a sort of rows by a function of the family."""

    def plan(bound: BoundOp) -> Plan:
        layout = bound.graphs[0].layout
        make = getattr(importlib.import_module(_FAMILY), name)
        (is_descending,) = bound.parameters
        type_ = DEVICE_TYPES[layout.dtype]
        planned: Plan = make(*_rows(layout), type_, device().capability, is_descending=is_descending)
        return planned

    return plan


def _host_sort(array: Any, is_descending: bool) -> Any:
    return np.sort(array, axis=-1, stable=True, **_numpys_order(is_descending))


def _host_argsort(array: Any, is_descending: bool) -> Any:
    return np.argsort(array, axis=-1, stable=True, **_numpys_order(is_descending))


def _numpys_order(is_descending: bool) -> dict[str, Any]:
    """Return the keyword for an order; NumPy has one since 2.5, and no caller asks for it before."""
    return {"descending": True} if is_descending else {}


SORT = Op("sort", _plan_with("sort"), _infer_sort, host=_host_sort, host_weight=16.0, price=45.0)
ARGSORT, STABLE_ARGSORT = [
    Op("argsort", _plan_with("argsort"), _infer_argsort, host=_host_argsort, host_weight=weight, price=40.0)
    for weight in (64.0, 112.0)  # NumPy has faster ones than those that are stable
]


def _infer_search(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(INT64, layouts[1].shape),)


def _plan_search(bound: BoundOp) -> Plan:
    (array, values), (is_right,) = (graph.layout for graph in bound.graphs), bound.parameters
    make = importlib.import_module("oxinp._kernels.sort.search").search
    planned: Plan = make(array.size, values.size, DEVICE_TYPES[array.dtype], device().capability, is_right=is_right)
    return planned


def _host_search(array: Any, values: Any, is_right: bool) -> Any:
    return np.searchsorted(array, values, "right" if is_right else "left")


SEARCHSORTED = Op("searchsorted", _plan_search, _infer_search, host=_host_search)


def _check(array: Handle) -> None:
    layout = array._layout
    if layout.dtype not in DEVICE_TYPES or not layout.size or not layout.is_aligned:
        raise Unsupported(f"dtype {layout.dtype} has no kernels, or there are no elements")


def along(op: Op, array: Handle, axis: Any, parameters: tuple[Hashable, ...], order: str = "C") -> Any:
    """Perform an operation on the rows along an axis; None: on the elements in C order. The result is in an order."""
    _check(array)
    if axis is None:
        return perform(op, (ravel(array),), parameters)
    axis = normalize_axis_index(axis, array._layout.ndim)
    axes = axes_of(array._layout, order)
    if axes is not None:
        return permuted(array, axes, lambda turned: along(op, turned, axes.index(axis), parameters))
    if axis == array._layout.ndim - 1:
        return perform(op, (array,), parameters)
    turned = perform(op, (view(array, lambda seen: np.swapaxes(seen, axis, -1)),), parameters)
    return copy(view(turned, lambda seen: np.swapaxes(seen, axis, -1)))


def ordinals(array: Handle) -> Any:
    """Return dates, or spans of time, as integers in NumPy's order, which has NaT last; anything else as it is."""
    layout = array._layout
    if layout.dtype.kind not in "mM" or not layout.dtype.isnative:
        return array
    if array._storage.host is not None:  # where dates stay until they are integers
        numbers = creation.from_host(host_view(array).view(INT64))
    else:
        numbers = view(array, lambda seen: seen.view(INT64))
    return OBJECTS["subtract"](numbers, 1)  # NaT, the least number, wraps


def of_ordinals(numbers: Any, dtype: np.dtype[Any]) -> Any:
    """Return what `ordinals` have been made of."""
    if dtype.kind not in "mM":
        return numbers
    return own(view(OBJECTS["add"](numbers, 1), lambda seen: seen.view(dtype)))


def sort(array: Handle, axis: Any = -1, *, is_descending: bool = False) -> Any:
    """Return the elements sorted along an axis, None for all of them; see `numpy.sort`."""
    dtype = array._layout.dtype
    if dtype.kind in "mM" and is_descending:
        raise Unsupported("dates from the last to the first")
    return of_ordinals(along(SORT, ordinals(array), axis, (is_descending,), "K"), dtype)


def of_line(op: Op, array: Handle) -> Any:
    """Return what an operation makes of a vector that is on the device; None where that is to be asked."""
    layout, storage = array._known or array._layout, array._held or array._storage
    is_sorted = layout.ndim == 1 and layout.dtype in DEVICE_TYPES and layout.size and layout.is_aligned
    if not is_sorted or layout.dtype.kind in "mM" or may_be_host(storage):
        return None
    return perform_on_device(op, (array,), (False,))


def argsort(array: Handle, axis: Any = -1, *, is_descending: bool = False, is_stable: bool = False) -> Any:
    """Return where the elements are that come first, second, ... along an axis; see `numpy.argsort`.

    All sorts are stable; whether that is asked for says what NumPy takes for one.
    """
    if array._layout.dtype.kind in "mM":
        if is_descending:
            raise Unsupported("dates from the last to the first")
        array = ordinals(array)
    return along(STABLE_ARGSORT if is_stable else ARGSORT, array, axis, (is_descending,))


def lexsort(keys: Sequence[Handle], axis: int = 0) -> Any:
    """Return the order along an axis by the last of some keys, then by the one before it; see `numpy.lexsort`."""
    check_placement(*keys)
    keys = [ordinals(key) for key in keys]
    for key in keys:
        _check(key)
    take = _taken if keys[0]._layout.ndim == 1 else partial(gather.take_along, axis=axis)
    order = argsort(keys[0], axis)
    for key in keys[1:]:
        order = take(order, argsort(take(key, order), axis))
    return order


def _taken(array: Handle, index: Handle) -> Any:
    """Return elements of a vector by indices that are known to be in bounds."""
    return gather.take(array, index, is_checked=False)


def searchsorted(array: Handle, values: Handle, *, is_right: bool) -> Any:
    """Return where values have their places in a sorted vector of the same dtype; see `numpy.searchsorted`."""
    array, values = ordinals(array), ordinals(values)
    _check(array)
    _check(values)
    return perform(SEARCHSORTED, (array, values), (is_right,))


class Unique:
    """The distinct elements of an array, and what `numpy.unique` says of them; each is computed when asked for.

    Parameters
    ----------
    array : Handle
    with_places : bool
        Whether `index` or `inverse` will be asked for.
    equal_nan : bool
        NaNs are one element.
    """

    def __init__(self, array: Handle, *, with_places: bool, equal_nan: bool) -> None:
        check_placement(array)
        self._dtype = array._layout.dtype
        if self._dtype.kind in "mM" and not equal_nan:
            raise Unsupported("NaT that differs from itself")
        array = ordinals(array)
        _check(array)
        self._shape: tuple[int, ...] = array._layout.shape
        elements = ravel(array)
        self._order = argsort(elements) if with_places else None
        self._sorted = sort(elements) if self._order is None else _taken(elements, self._order)
        self._is_first = _is_first(self._sorted, equal_nan=equal_nan)
        self._starts: Any = None

    @classmethod
    def of_rows(cls, rows: Handle) -> Unique:
        """Return what is distinct among the rows of a matrix, sorted by their first columns, then by the others.

        Raises
        ------
        Unsupported
            A NaN, which NumPy finds in no place, or rows that are long.
        """
        check_placement(rows)
        _check(rows)
        length, width = rows._layout.shape
        if width > MAX_KEYS or rows._layout.dtype.kind == "c":
            raise Unsupported("long rows, or complex numbers, whose zeros have signs")
        if rows._layout.dtype.kind == "f" and bool(OBJECTS["isnan"](rows).any()):
            raise Unsupported("NaN")
        self = cls.__new__(cls)
        self._dtype, self._shape, self._starts = rows._layout.dtype, (length,), None
        columns = view(rows, lambda seen: seen.T)
        self._order = lexsort([copy(getitem(columns, i)) for i in reversed(range(width))])
        self._sorted = _taken(rows, self._order)
        self._is_first = creation.ones((length,), BOOL)
        if length > 1:
            after, before = getitem(self._sorted, slice(1, None)), getitem(self._sorted, slice(None, -1))
            setitem(self._is_first, slice(1, None), OBJECTS["not_equal"](after, before).any(1))
        return self

    @property
    def values(self) -> Any:
        """The distinct elements, sorted."""
        if self._sorted._layout.ndim > 1:
            return _taken(self._sorted, self.starts)
        return of_ordinals(gather.select(self._sorted, self._is_first), self._dtype)

    @property
    def starts(self) -> Any:
        """Where they begin among all elements, sorted."""
        if self._starts is None:
            self._starts = gather.flatnonzero(self._is_first)
        return self._starts

    @property
    def index(self) -> Any:
        """Where each is first."""
        assert self._order is not None
        return _taken(self._order, self.starts)

    @property
    def inverse(self) -> Any:
        """For each element of the array the number of the distinct one."""
        assert self._order is not None
        numbers = OBJECTS["subtract"](accumulate(CUMSUM, self._is_first, 0, INT64), 1)
        return view(_taken(numbers, argsort(self._order)), lambda seen: seen.reshape(self._shape))

    @property
    def counts(self) -> Any:
        """How often each is there."""
        starts = self.starts
        ends = creation.full(starts._layout.shape, self._sorted._layout.shape[0], INT64)
        setitem(ends, slice(None, -1), getitem(starts, slice(1, None)))
        return OBJECTS["subtract"](ends, starts)


def distinct_values(array: Handle, *, equal_nan: bool) -> Any:
    """Return the distinct elements of an array alone, sorted; see `Unique`."""
    check_placement(array)
    if array._layout.dtype.kind in "mM":
        return Unique(array, with_places=False, equal_nan=equal_nan).values
    _check(array)
    found = distinct.of_narrow_range(ravel(array))
    return Unique(array, with_places=False, equal_nan=equal_nan).values if found is None else found


def _is_first(elements: Handle, *, equal_nan: bool) -> Any:
    """Whether each of some sorted elements is the first one of its value."""
    dtype, size = elements._layout.dtype, elements._layout.size
    result = creation.ones((size,), BOOL)
    if size > 1:
        before = getitem(elements, slice(None, -1))
        differs = OBJECTS["not_equal"](getitem(elements, slice(1, None)), before)
        if equal_nan and dtype.kind in "fc":  # behind a NaN there are only NaNs
            differs = OBJECTS["logical_and"](differs, OBJECTS["logical_not"](OBJECTS["isnan"](before)))
        setitem(result, slice(1, None), differs)
    return result
