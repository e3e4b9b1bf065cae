"""Indexing routines that write, and numbers of elements: `put`, `place`, `choose`, `ravel_multi_index`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._api.fronts import as_ours, implements
from oxinp._core.array.ndarray import ndarray
from oxinp._core.host.exchange import is_array
from oxinp._core.lazy.expr import Placed, Unsupported
from oxinp._core.lazy.handle import fetch, host_view, is_writeable
from oxinp._core.lazy.record import check_placement
from oxinp._core.lazy.results import is_device_scalar
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import assign, astype, copy, from_elsewhere
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, INT64, WEAK_TYPES
from oxinp._core.ops import advanced, creation, gather
from oxinp._core.ops.index import setitem
from oxinp._core.ops.updates import put_along
from oxinp._core.ops.where import where
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import accumulate
from oxinp._core.reduction.table import ANY, CUMSUM
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

MAX_CHOICES = 32


def _target(a: Any) -> Any:
    """Return an array of ours that may be written to."""
    if type(a) is not ndarray or not is_writeable(a) or not a._layout.size:
        raise Unsupported("no array of ours that may be written to, or no elements")
    if a._layout.dtype not in DEVICE_TYPES:
        raise Unsupported(f"dtype {a._layout.dtype} has no kernels")
    return a


def _values(given: Any, dtype: Any, write: Callable[[Any, Any], object], casting: Any) -> Any:
    """Return values in the dtype of what they are written to; numbers as NumPy converts them there, or raises."""
    if is_array(given) and given._layout.ndim:
        if not np.can_cast(given._layout.dtype, dtype, casting):
            raise Unsupported("values that NumPy refuses to cast")
        return astype(given, dtype, copy_wanted=False)
    if is_array(given):
        held = fetch(given)
        given = held[()] if is_device_scalar(given) else held  # which are not cast alike
    elif np.ndim(given):
        return _values(as_ours(given), dtype, write, casting)
    single = np.zeros(1, dtype)
    write(single, given)
    return as_ours(single)


def _is_any(mask: Any) -> bool:
    return bool(reduce(ANY, mask))


def _in_range(index: Any, extent: int, mode: Any) -> Any:
    """Return indices as `mode` has them; those of "raise" as they are."""
    if mode == "raise":
        return index
    compute = UFUNC_OBJECTS
    if mode == "wrap":
        return compute["remainder"](index, extent)
    if mode == "clip":
        return compute["minimum"](compute["maximum"](index, 0), extent - 1)
    raise Unsupported("a mode that NumPy refuses")


def _leave_small(array: Any, *others: Any) -> None:
    """Leave small arrays to NumPy that are all on the host; raises Placed."""
    if type(array) is ndarray and advanced.is_light(array, others, is_written=True):
        raise Placed("few elements, on the host")


@implements("put")
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> None:
    """See `numpy.put`: values are repeated as often as there are indices."""
    _leave_small(a, ind, v)
    array = _target(a)
    index = ravel(as_ours(ind))
    if index._layout.dtype.kind not in "iu":
        raise Unsupported("indices that NumPy converts or refuses")
    values = ravel(_values(v, array._layout.dtype, lambda x, number: np.put(x, [0], number), "unsafe"))
    count, size = index._layout.size, values._layout.size
    if not count or not size:
        return
    check_placement(array, index, values)
    index = _in_range(index, array._layout.size, mode)
    if size > 1 and size != count:
        values = gather.take(values, UFUNC_OBJECTS["remainder"](creation.arange(count), size), is_checked=False)
    if array._layout.is_contiguous:
        setitem(view(array, lambda x: x.reshape(-1)), index, values)
        return
    flat = ravel(copy(array))
    setitem(flat, index, values)
    assign(array, reshape(flat, array._layout.shape))


@implements("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """See `numpy.put_along_axis`; of equal indices the last one counts."""
    _leave_small(arr, indices, values)
    array, index = _target(arr), as_ours(indices)
    if axis is None:
        if not array._layout.is_contiguous:
            raise Unsupported("elements in C order that lie in another one")
        array, axis = view(array, lambda x: x.reshape(-1)), 0
    axis = normalize_axis_index(axis, array._layout.ndim)
    if index._layout.dtype.kind not in "iu" or index._layout.ndim != array._layout.ndim or not index._layout.size:
        raise Unsupported("what NumPy refuses, or no elements")
    given = _values(values, array._layout.dtype, lambda x, number: x.__setitem__(0, number), "unsafe")
    check_placement(array, index, given)
    put_along(array, index, axis, given)


@implements("putmask")
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """See `numpy.putmask`: an element gets the value of its own number, counted round and round."""
    _leave_small(a, mask, values)
    array, chosen = _target(a), as_ours(mask)
    given = _values(values, array._layout.dtype, lambda x, number: np.putmask(x, [True], number), "safe")
    if chosen._layout.shape != array._layout.shape or not given._layout.size:
        raise Unsupported("a mask that does not fit, or no values")
    check_placement(array, chosen, given)
    size = array._layout.size
    if given._layout.shape != array._layout.shape:
        flat = ravel(given)
        if flat._layout.size > 1:
            number = UFUNC_OBJECTS["remainder"](creation.arange(size), flat._layout.size)
            given = reshape(gather.take(flat, number, is_checked=False), array._layout.shape)
        else:
            given = view(flat, lambda x: x.reshape((1,) * array._layout.ndim))
    assign(array, where(astype(chosen, BOOL, copy_wanted=False), given, array))


@implements("place")
def place(arr: Any, mask: Any, vals: Any) -> None:
    """See `numpy.place`: the elements that the mask chooses get one value after the other."""
    _leave_small(arr, mask, vals)
    array, chosen = _target(arr), as_ours(mask)
    given = ravel(_values(vals, array._layout.dtype, lambda x, number: np.place(x, [True], number), "safe"))
    if chosen._layout.size != array._layout.size or not given._layout.size:
        raise Unsupported("a mask that does not fit, or no values")
    check_placement(array, chosen, given)
    flags = ravel(astype(chosen, BOOL, copy_wanted=False))
    number = UFUNC_OBJECTS["subtract"](accumulate(CUMSUM, flags, 0, INT64), 1)
    number = UFUNC_OBJECTS["remainder"](number, given._layout.size)
    taken = reshape(gather.take(given, number, is_checked=False), array._layout.shape)
    assign(array, where(reshape(flags, array._layout.shape), taken, array))


@implements("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: Any = False) -> None:
    """See `numpy.fill_diagonal`: a view of the diagonal is written to."""
    array = _target(a)
    shape, strides = array._layout.shape, array._layout.strides
    ndim = len(shape)
    if ndim < 2 or (ndim > 2 and len(set(shape)) > 1):
        raise Unsupported("what NumPy refuses")
    if ndim == 2 and not wrap and type(val) in WEAK_TYPES and array._layout.is_contiguous:
        array.reshape(-1)[: shape[1] ** 2 : shape[1] + 1] = val
        return
    step = sum(strides)
    if ndim == 2 and wrap and shape[0] > shape[1]:
        if not array._layout.is_contiguous:
            raise Unsupported("a diagonal that goes on below, of an array that is not in C order")
        count = -(-math.prod(shape) // (shape[1] + 1))
    else:
        count = min(shape)
    diagonal = view(array, lambda x: np.lib.stride_tricks.as_strided(x, (count,), (step,)))
    if diagonal._storage.host is not None and not host_view(diagonal).flags.writeable:
        raise Unsupported("an array that `broadcast_arrays` gave, of which there is no view that may be written to")
    # As what is written to `flat`: a NumPy scalar is cast as an array is, numbers are converted one by one.
    given = from_elsewhere(val, array._layout.dtype) if isinstance(val, list | tuple) else val
    if isinstance(given, np.generic) or is_array(given) or np.ndim(given):
        given = ravel(as_ours(given))
    if is_array(given) and given._layout.size not in (1, count):
        number = UFUNC_OBJECTS["remainder"](creation.arange(count), given._layout.size)
        given = given[number]
    assign(diagonal, given)


@implements("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """See `numpy.choose`; waits for the numbers to be looked at where `mode` is "raise"."""
    index = as_ours(a)
    listed = (
        choices if isinstance(choices, list | tuple) else list(choices if np.isscalar(choices) else as_ours(choices))
    )
    given = [as_ours(x) for x in listed]
    if out is not None or not 0 < len(given) <= MAX_CHOICES or index._layout.dtype.kind not in "iu":
        raise Unsupported("an output, or numbers that NumPy converts or refuses")
    check_placement(index, *given)
    kinds = [x if type(x) in WEAK_TYPES else held._layout.dtype for x, held in zip(listed, given, strict=True)]
    dtype = np.result_type(*kinds)
    try:
        shape = np.broadcast_shapes(index._layout.shape, *[x._layout.shape for x in given])
    except ValueError:
        raise Unsupported("shapes that NumPy refuses") from None
    compute = UFUNC_OBJECTS
    if mode == "raise":
        is_beyond = compute["greater_equal"](index, len(given))
        if index._layout.dtype.kind == "i":
            is_beyond = compute["logical_or"](is_beyond, compute["less"](index, 0))
        if _is_any(is_beyond):
            raise Unsupported("a number that NumPy refuses")
    index = _in_range(index, len(given), mode)
    result = astype(view(given[-1], lambda x: np.broadcast_to(x, shape)), dtype, "C")
    for number, choice in reversed(list(enumerate(given[:-1]))):
        result = where(compute["equal"](index, number), astype(choice, dtype, copy_wanted=False), result)
    return result if shape else result[()]


def _is_size(extents: tuple[int, ...]) -> bool:
    """Return whether there are elements of these extents, and no more than indices count."""
    return 0 < math.prod(extents) <= np.iinfo(np.intp).max


@implements("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    """See `numpy.ravel_multi_index`; waits for the indices to be looked at where `mode` is "raise"."""
    arrays = [as_ours(x) for x in multi_index]
    extents = (operator.index(dims),) if isinstance(dims, int | np.integer) else tuple(map(operator.index, dims))
    modes = (mode,) * len(extents) if isinstance(mode, str) else tuple(mode)
    if len(arrays) != len(extents) or len(modes) != len(extents) or order not in ("C", "F") or not _is_size(extents):
        raise Unsupported("what NumPy refuses")
    if any(x._layout.dtype.kind not in "iu" or not x._layout.ndim or not x._layout.size for x in arrays):
        raise Unsupported("indices that NumPy converts or refuses, or none")
    check_placement(*arrays)
    compute, total, wrong, stride = UFUNC_OBJECTS, None, None, 1
    pairs = list(zip(arrays, extents, modes, strict=True))
    for array, extent, each in pairs[::-1] if order == "C" else pairs:
        index = astype(array, INT64, copy_wanted=False)
        if each == "raise":
            bad = compute["logical_or"](compute["less"](index, 0), compute["greater_equal"](index, extent))
            wrong = bad if wrong is None else compute["logical_or"](wrong, bad)
        step = compute["multiply"](_in_range(index, extent, each), stride)
        total = step if total is None else compute["add"](total, step)
        stride *= extent
    if wrong is not None and _is_any(wrong):
        raise Unsupported("an index that NumPy refuses")
    return total


@implements("unravel_index")
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    """See `numpy.unravel_index`; waits for the indices to be looked at."""
    index = as_ours(indices)
    extents = (operator.index(shape),) if isinstance(shape, int | np.integer) else tuple(map(operator.index, shape))
    if index._layout.dtype.kind not in "iu" or not index._layout.ndim or not index._layout.size:
        raise Unsupported("indices that NumPy converts or refuses, or none")
    if order not in ("C", "F") or not extents or not _is_size(extents):
        raise Unsupported("what NumPy refuses")
    check_placement(index)
    compute, rest = UFUNC_OBJECTS, astype(index, INT64, copy_wanted=False)
    bad = compute["logical_or"](compute["less"](rest, 0), compute["greater_equal"](rest, math.prod(extents)))
    if _is_any(bad):
        raise Unsupported("an index that NumPy refuses")
    found = []
    for extent in extents[:0:-1] if order == "C" else extents[:-1]:
        found.append(compute["remainder"](rest, extent))
        rest = compute["floor_divide"](rest, extent)
    found.append(rest)
    return tuple(found[::-1] if order == "C" else found)
