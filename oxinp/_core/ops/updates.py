"""Unbuffered updates, the same every run: `numpy.ufunc.at`, and weighted counts."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._config import config
from oxinp._core.errors.hearing import call_numerical
from oxinp._core.host.exchange import PLAIN, numbers_in
from oxinp._core.lazy import reports
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.expr import Placed, Unsupported
from oxinp._core.lazy.handle import Handle, begin_writing, end_writing, fetch, is_writeable
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.lazy.placement import device
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype, copy
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, INT64, WEAK_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import advanced, again, creation, scatter
from oxinp._core.ops.by_key import key_on_host
from oxinp._core.ops.gather import (
    BYTES_PER_INDEX,
    UINT64,
    error_along,
    indexed_loop,
    is_unknown,
    loops_of,
    need_kernel,
    take,
)
from oxinp._core.ops.keys import as_view_key, is_basic, with_integers
from oxinp._core.ops.sort import searchsorted
from oxinp._core.ops.where import where
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.plan import Plan

FAMILY = "oxinp._kernels.index.ordered"

ATOMIC = {
    "add": "add",
    "subtract": "add",
    "minimum": "min",
    "maximum": "max",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
"""Ufuncs whose order does not matter for integers, and their atomics."""

ORDERED = frozenset({*ATOMIC, "multiply", "fmax", "fmin"})
"""Ufuncs that are associative, but for rounding."""

MODULAR = frozenset({"add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor"})
"""Ufuncs of integers that give the same whether values are cast before or after."""

MAX_COUNT = 1 << 31


def _infer(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (parameters[0],)


def _plan(bound: BoundOp) -> Plan:
    target, first, count, lower, is_sum = bound.parameters
    index = bound.graphs[0].layout
    extent, stride = indexed_loop(target, first, count)
    plan: Plan = importlib.import_module(FAMILY).update(
        index.size,
        extent,
        stride,
        DEVICE_TYPES[target.dtype],
        DEVICE_TYPES[index.dtype],
        lower,
        device().capability,
        is_scalar=bound.graphs[1].is_scalar,
        is_sum=is_sum,
    )
    return plan


def _cost(layouts: tuple[Layout, ...], parameters: Any) -> float:  # noqa: ARG001
    return 2 * BYTES_PER_INDEX * layouts[0].size


UPDATE = Op("update by index", _plan, _infer, cost=_cost, price=40.0, takes_views=True, mutates=(0,))


def at(name: str, array: Any, key: Any, value: Any) -> None:
    """Apply a ufunc of two operands in place, at what a key selects, once for each time it is named.

    Integers are computed with in any order, and sums of many floats, which are rounded once; anything else is in the
    order of the key.

    Raises
    ------
    Unsupported
        The device has no kernel, or NumPy has to say what is wrong.
    IndexError
        See `scatter.assign`.
    """
    if type(array) is not types.ndarray or name not in ORDERED or not is_writeable(array):
        raise Unsupported("a ufunc whose order matters, or an array that is not ours to write to")
    if _is_done_on_host(name, array, key, value):
        return
    if advanced.is_light(array, key, is_written=True):
        raise Placed("few elements, on the host")
    if type(key) is types.ndarray and again.write(name, array, key, value):
        return
    dtype = (array._known or array._layout).dtype
    given = _values(name, dtype, value)
    lower, key = lowering(name, dtype), with_integers(key)
    if is_basic(key):
        _at_once(name, array, key, given)
        return
    shape = given._layout.shape if isinstance(given, Handle) else ()
    selected = advanced.selection(array, key, shape)
    if len(shape) > len(selected.shape):
        raise Unsupported("values of more dimensions, which NumPy refuses here")
    atomic = ATOMIC.get(name)
    if atomic is not None and dtype in _ATOMIC_DTYPES:
        bound = scatter.assign(selected, given, atomic)
    else:
        bound = _in_order(selected, given, lower, is_sum=atomic == "add")
    is_vector = selected.array is array and len(selected.shape) == selected.index._layout.ndim
    if bound is not None and is_vector and given is value and key is selected.index:
        again.keep_write(name, array, key, value, selected.error, bound)


def _is_done_on_host(name: str, array: Handle, key: Any, value: Any) -> bool:
    """Let NumPy do so where the arrays are below the threshold, and nowhere but on the host; whether they are."""
    storage, limit = array._held or array._storage, config.offload_threshold
    if storage.host is None or storage.host.nbytes >= limit or storage.value is not None or storage.stale is not None:
        return False
    place = key_on_host(key)
    given = numbers_in(value) if type(value) is list else key_on_host(value) if type(value) is types.ndarray else value
    if place is None or given is None or not (type(given) is np.ndarray or type(given) in PLAIN):
        return False
    if type(given) is np.ndarray and given.dtype.hasobject:
        return False
    if storage.has_objects or REPORTS:
        return False
    written = begin_writing(array)
    try:
        call_numerical(OBJECTS[name]._numpys.at, (written, place, given), {})
    finally:
        end_writing(storage)
    return True


def _at_once(name: str, array: Handle, key: Any, value: Any) -> None:
    """Update the elements of a view, each once."""
    parts = as_view_key(key)
    seen = view(array, lambda x: x[parts])
    if not seen._layout.is_injective:
        raise Unsupported("elements that overlap")
    if isinstance(value, Handle):
        scatter.check_fits(value, seen._layout.shape)
    OBJECTS["add" if name == "subtract" else name](seen, value, out=seen)


@cache
def lowering(name: str, dtype: np.dtype[Any]) -> Any:
    """Return the lowering of a ufunc of `ORDERED` that computes in one dtype."""
    loop = OBJECTS["add" if name == "subtract" else name].operations[0].find_loop((dtype, dtype))
    if loop.output != dtype or any(each != dtype for each in loop.inputs):
        raise Unsupported("a ufunc that computes in another dtype")
    return loop.lower


_ATOMIC_DTYPES = frozenset(map(np.dtype, ("i4", "u4", "i8", "u8")))


def _values(name: str, dtype: np.dtype[Any], value: Any) -> Any:
    """Return what is combined with elements, in their dtype: an array of ours, or a scalar."""
    if dtype == BOOL or dtype not in DEVICE_TYPES:
        raise Unsupported(f"dtype {dtype} has no kernels")
    if isinstance(value, Handle):
        source = (value._known or value._layout).dtype
        if source is dtype and name != "subtract":
            return value
        is_modular = name in MODULAR and _is_of_integers(source, dtype) and np.can_cast(source, dtype, "same_kind")
        if source != dtype and not is_modular and np.result_type(source, dtype) != dtype:
            raise Unsupported("values of another dtype")
        given = astype(value, dtype, copy_wanted=False)
        return OBJECTS["negative"](given) if name == "subtract" else given
    element = np.asarray(value)
    if element.ndim:
        return _values(name, dtype, types.from_host(element))
    if element.dtype.hasobject:  # an integer that NumPy refuses, once it has looked at the key
        raise Unsupported("a number that the dtype does not hold")
    with np.errstate(all="ignore"):
        single = element.astype(dtype)
    # NumPy takes Python's integers for int64 here, which makes floats of uint64.
    is_weak = type(value) in WEAK_TYPES and np.result_type(value, dtype) == dtype and dtype != UINT64
    is_alike = np.can_cast(element.dtype, dtype, "same_kind")
    is_alike = is_alike and (dtype.kind not in "iu" or _is_of_integers(element.dtype, dtype))
    if single != element or not (is_weak or is_alike):
        raise Unsupported("a number that the dtype does not hold")
    return np.negative(single)[()] if name == "subtract" else single[()]


def _is_of_integers(source: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether NumPy combines two dtypes as integers; signed ones and uint64 are both made float64."""
    return np.result_type(source, dtype).kind in "iu"


def _in_order(selected: advanced.Selection, value: Any, lower: Any, *, is_sum: bool) -> BoundOp | None:
    """Combine values with what is selected, one after the other; many sums are exact instead, but for one rounding.

    Return the operation, unless nothing is selected.
    """
    target, count = selected.array, math.prod(selected.shape)
    layout = target._known or target._layout
    if count >= MAX_COUNT:
        raise Unsupported("more updates than a sort has places for")
    if isinstance(value, Handle):
        spread = scatter.broadcast(value, selected)
        own = spread._known or spread._layout
        given: Any = spread if own.ndim == 1 and own.is_contiguous else ravel(spread)
        given = copy(given) if (given._held or given._storage) is (target._held or target._storage) else given
    else:
        single = np.full(1, value, layout.dtype)
        given = types.from_host(single) if layout.dtype.kind == "c" else scatter.scalar_bits(single)
        if isinstance(given, Handle):
            given = ravel(copy(view(given, lambda x: np.broadcast_to(x, (count,)))))
    if not count:
        if selected.error is not None:
            raise Unsupported("indices that NumPy may refuse")
        return None
    if not layout.is_injective:
        raise Unsupported("elements that overlap")
    first, num_indexed = selected.num_outer, selected.num_indexed
    index = selected.index
    error = selected.error
    if layout.ndim > num_indexed:  # all axes are indexed then
        target, index, error = _distances(selected)
        first, num_indexed = 0, layout.ndim
    own = index._known or index._layout
    index = index if own.ndim == 1 and own.is_contiguous else ravel(index)
    operands = [index, given, (UINT64, 0 if error is None else reports.claim(error))]
    bound = scatter.write(UPDATE, target, operands, (first, num_indexed, lower, is_sum))
    if config.synchronous and error is not None:
        device().synchronize()
    return bound


def _distances(selected: advanced.Selection) -> tuple[Handle, Any, Any]:
    """Return the array with strides that are not negative, the distance of all that is selected in it, and its error.

    What is out of bounds has a negative distance.
    """
    target, first, count = selected.array, selected.num_outer, selected.num_indexed
    steps = tuple([slice(None, None, -1 if stride < 0 else 1) for stride in target._layout.strides])
    turned = view(target, lambda x: x[steps])
    loops, shape, ndim = loops_of(turned._layout), selected.shape, selected.index._layout.ndim
    base, error = astype(selected.index, INT64, copy_wanted=False), selected.error
    if count == 1:
        base, error = _along_axis(base, *loops[first], error, is_turned=steps[first].step < 0)
    base = view(base, lambda x: x.reshape((1,) * first + x.shape + (1,) * (len(shape) - first - ndim)))
    total = base
    for axis, (extent, stride) in enumerate(loops):
        if first <= axis < first + count:
            continue
        along = creation.arange(0, extent * stride, stride) if stride else creation.zeros(extent, INT64)
        along = view(along, lambda x, step=steps[axis]: x[step])  # type: ignore[misc]
        place = axis if axis < first else axis - count + ndim
        total = OBJECTS["add"](total, reshape(along, [-1 if i == place else 1 for i in range(len(shape))]))
    return turned, where(OBJECTS["less"](base, 0), base, total), error


def _along_axis(index: Any, extent: int, stride: int, error: Any, *, is_turned: bool) -> tuple[Any, Any]:
    """Return the distances of indices along an axis, and what makes the exception of one that is out of bounds."""
    compute = OBJECTS
    found = where(compute["less"](index, 0), compute["add"](index, extent), index)
    is_beyond = compute["logical_or"](compute["less"](found, 0), compute["greater_equal"](found, extent))
    shown = compute["minimum"](compute["maximum"](index, -advanced.LIMIT), advanced.LIMIT - 1)
    if is_turned:
        found = compute["subtract"](extent - 1, found)
    offset = advanced.BASE + advanced.LIMIT
    found = where(is_beyond, compute["add"](shown, offset), compute["multiply"](found, stride))
    return found, None if error is None else lambda word: error(word - offset)


def put_along(array: Handle, index: Handle, axis: int, value: Any) -> None:
    """Write to elements at an index of their own each along an axis; see `numpy.put_along_axis`.

    Parameters
    ----------
    array, index : Handle
        Of as many dimensions; others than the axis of the index are those of the array, or 1.
    axis : int
    value : Handle or scalar

    Raises
    ------
    Unsupported
        The device has no kernel, or NumPy has to say what is wrong.
    IndexError
        See `scatter.assign`.
    """
    given, shape = index._layout.shape, array._layout.shape
    if any(n not in (1, extent) for i, (n, extent) in enumerate(zip(given, shape, strict=True)) if i != axis):
        raise Unsupported("shapes that NumPy refuses to broadcast, or elements that are named twice")
    need_kernel(array._layout, index._layout)
    selected = tuple([given[i] if i == axis else extent for i, extent in enumerate(shape)])
    index = view(index, lambda x: np.broadcast_to(x, selected))
    extent = shape[axis]
    error = error_along(axis, extent) if is_unknown(index, axis, extent) else None
    along = advanced.Selection(array, index, selected, 0, len(shape), True, error, False)
    steps = tuple([slice(None, None, -1 if stride < 0 else 1) for stride in array._layout.strides])
    target = view(array, lambda x: x[steps])
    loops = loops_of(target._layout)
    base = astype(index, INT64, copy_wanted=False)
    stride = 1 if len(shape) == 1 else loops[axis][1]  # of a vector the kernel goes by its stride itself
    base, error = _along_axis(base, extent, stride, error, is_turned=steps[axis].step < 0)
    total = base
    for i, (n, stride) in enumerate(loops):
        if i != axis and n > 1:
            place = creation.arange(0, n * stride, stride) if stride else creation.zeros(n, INT64)
            place = view(place, lambda x, step=steps[i]: x[step])  # type: ignore[misc]
            total = OBJECTS["add"](total, reshape(place, [-1 if j == i else 1 for j in range(len(shape))]))
    places = where(OBJECTS["less"](base, 0), base, total)
    scatter.assign(along._replace(array=target, index=places, error=error), value)


def reduceat(name: str, array: Any, indices: Any, axis: int, dtype: Any) -> Any:
    """Reduce slices of an axis; see `numpy.ufunc.reduceat`. Those that do not follow each other are first gathered.

    Raises
    ------
    Unsupported
        The device has no kernel.
    """
    if name in _OF_TRUTH and dtype in (None, bool, BOOL) and type(array) is types.ndarray:
        truth = astype(astype(array, BOOL, copy_wanted=False), np.dtype(np.int32))
        return astype(reduceat(_OF_TRUTH[name], truth, indices, axis, None), BOOL)
    if type(array) is not types.ndarray or name not in _IDENTITIES or not array._layout.size or not array._layout.ndim:
        raise Unsupported("a ufunc whose order matters, or no elements")
    if advanced.is_light(array, 0):
        raise Placed("few elements, on the host")
    starts = np.asarray(fetch(indices) if isinstance(indices, Handle) else indices)
    axis = normalize_axis_index(axis, array._layout.ndim)
    shape = array._layout.shape
    if (
        starts.ndim != 1
        or starts.dtype.kind not in "iu"
        or not starts.size
        or ((starts < 0) | (starts >= shape[axis])).any()
    ):
        raise Unsupported("slices that NumPy refuses")
    starts = starts.astype(np.int64)
    target = getattr(np, name).reduceat(np.zeros(1, array._layout.dtype), [0], dtype=dtype).dtype
    wide = _WIDER.get(target, target) if name == "add" else target  # sums in order lose more than NumPy's in pairs
    identity = _IDENTITIES[name](wide)
    before = (slice(None),) * axis
    first = int(starts[0])
    if (np.diff(starts) > 0).all():
        elements = view(array, lambda x: x[(*before, slice(first, None))])
        keys = _slices_of(starts, creation.arange(first, shape[axis]))
    else:
        lengths = np.maximum(np.append(starts[1:], shape[axis]) - starts, 1)
        begins = np.cumsum(lengths) - lengths
        numbers = creation.arange(0, int(lengths.sum()))
        keys = _slices_of(begins, numbers)
        moved = take(creation.asarray(starts - begins), keys, is_checked=False)
        elements = take(array, OBJECTS["add"](numbers, moved), axis, is_checked=False)
    result = creation.full((*shape[:axis], starts.size, *shape[axis + 1 :]), identity, wide)
    at(name, result, (*before, keys), astype(elements, wide, copy_wanted=False))
    return astype(result, target, copy_wanted=False)


def _slices_of(begins: np.ndarray[Any, Any], numbers: Handle) -> Any:
    """Return which slice each element is of, by the numbers of the first ones."""
    return OBJECTS["subtract"](searchsorted(creation.asarray(begins), numbers, is_right=True), 1)


def _extreme(dtype: np.dtype[Any], *, is_high: bool) -> Any:
    if dtype.kind == "f":
        return dtype.type(np.inf if is_high else -np.inf)
    if dtype.kind not in "iu":
        raise Unsupported("extrema of complex numbers")
    info = np.iinfo(dtype)
    return info.max if is_high else info.min


_WIDER = {np.dtype("e"): np.dtype("d"), np.dtype("f"): np.dtype("d"), np.dtype("F"): np.dtype("D")}
_IDENTITIES: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "add": lambda dtype: dtype.type(-0.0 if dtype.kind == "f" else 0),
    "multiply": lambda dtype: dtype.type(1),
    "minimum": lambda dtype: _extreme(dtype, is_high=True),
    "maximum": lambda dtype: _extreme(dtype, is_high=False),
    "bitwise_and": lambda dtype: np.invert(dtype.type(0)),
    "bitwise_or": lambda dtype: dtype.type(0),
    "bitwise_xor": lambda dtype: dtype.type(0),
}
"""What changes no element, by ufunc."""
_OF_TRUTH = {"logical_and": "minimum", "logical_or": "maximum"}
"""Ufuncs of truth values, and those that do the same with the integers 0 and 1."""
REDUCED_AT = (*_IDENTITIES, *_OF_TRUTH)
"""Ufuncs with a `reduceat` of ours; that of others is a fallback."""


__all__ = ["REDUCED_AT", "at", "lowering", "put_along", "reduceat"]
