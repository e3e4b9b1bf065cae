"""Elements by index: `take`, indexing with arrays of integers and with masks, the indices of what is true.

These run at once: how many elements a mask chooses, and whether an index is out of bounds, is asked of the device.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core import explain, schedule
from oxinp._core.dtypes import BOOL, DEVICE_TYPES, INT64
from oxinp._core.expr import Unsupported, new_table, remember
from oxinp._core.handle import Handle, expression, fetch
from oxinp._core.layout import Layout
from oxinp._core.ops.copy import copy
from oxinp._core.ops.reduce import reduce
from oxinp._core.ops.scan import accumulate
from oxinp._core.ops.shape import ravel, reshape
from oxinp._core.placement import device, keyed
from oxinp._core.programs import on_device
from oxinp._core.reduction_table import ANY, CUMSUM
from oxinp._core.ufunc import wrap
from oxinp._core.ufunc_object import OBJECTS
from oxinp._runtime.memory import Buffer

INT32 = np.dtype(np.int32)
MAX_INT32 = 2**31 - 1
_LAUNCHERS = new_table()


def take(array: Handle, index: Handle, axis: int = 0) -> Any:
    """Return the elements of `array` at positions along an axis, in C order.

    Parameters
    ----------
    array : Handle
        Of at least one dimension.
    index : Handle
        Integers, negative ones from the end.
    axis : int

    Raises
    ------
    Unsupported
        The device has no kernel, or an index is out of bounds, of which NumPy says which.
    """
    layout = array._layout
    axis = normalize_axis_index(axis, layout.ndim)
    if index._layout.dtype.kind not in "iu" or not index._layout.size or not layout.size:
        raise Unsupported("indices that are no integers, or no elements")
    _need_kernel(layout, index._layout)
    extent = layout.shape[axis]
    is_beyond = OBJECTS["greater_equal"](index, extent)
    if index._layout.dtype.kind == "i":
        is_beyond = OBJECTS["logical_or"](is_beyond, OBJECTS["less"](index, -extent))
    if bool(reduce(ANY, is_beyond)):
        raise Unsupported("an index that is out of bounds")
    shape = (*layout.shape[:axis], *index._layout.shape, *layout.shape[axis + 1 :])
    outer, inner = math.prod(layout.shape[:axis]), math.prod(layout.shape[axis + 1 :])
    array, index = _contiguous(array), _contiguous(index)
    arguments = (
        outer,
        extent,
        inner,
        index._layout.size,
        DEVICE_TYPES[layout.dtype],
        DEVICE_TYPES[index._layout.dtype],
        array._layout.alignment,
    )
    return _run(Layout.of(layout.dtype, shape), ("take", *arguments), (array, index))


def select(array: Handle, mask: Handle) -> Any:
    """Return the elements of `array` with a true element in `mask`, which has the shape of its first dimensions.

    Raises
    ------
    Unsupported
        The device has no kernel, or the shapes do not match.
    """
    layout, ndim = array._layout, mask._layout.ndim
    if mask._layout.shape != layout.shape[:ndim] or not mask._layout.size or not ndim:
        raise Unsupported("a mask of another shape, of which NumPy says why, or no elements")
    _need_kernel(layout, mask._layout)
    if ndim < layout.ndim:
        rows = reshape(array, (mask._layout.size, *layout.shape[ndim:]))
        return take(rows, flatnonzero(mask))
    return _selected(mask, array)


def flatnonzero(mask: Handle) -> Any:
    """Return the numbers, in C order, of the true elements of a mask, int64."""
    _need_kernel(mask._layout)
    return _selected(mask, None)


def nonzero(mask: Handle) -> tuple[Any, ...]:
    """Return the indices of the true elements of a mask, one array for each dimension."""
    numbers = flatnonzero(mask)
    indices: list[Any] = []
    for extent in reversed(mask._layout.shape[1:]):
        indices.append(OBJECTS["remainder"](numbers, extent))
        numbers = OBJECTS["floor_divide"](numbers, extent)
    return (numbers, *reversed(indices))


def _selected(mask: Handle, array: Handle | None) -> Any:
    """The elements, or their numbers, with a true mask."""
    size = mask._layout.size
    mask = ravel(mask)
    dtype = INT32 if size <= MAX_INT32 else INT64
    positions = accumulate(CUMSUM, mask, 0, dtype)
    count = int(fetch(positions[-1:])[0])
    result = INT64 if array is None else array._layout.dtype
    layout = Layout.of(result, (count,))
    if not count:
        return wrap(None, layout, np.empty(layout.shape, layout.dtype))
    arguments = (size, None if array is None else DEVICE_TYPES[result], DEVICE_TYPES[dtype])
    operands = (mask, positions) if array is None else (mask, positions, ravel(array))
    return _run(layout, ("select", *arguments), tuple(map(_contiguous, operands)))


def _need_kernel(*layouts: Layout) -> None:
    for layout in layouts:
        if layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
            raise Unsupported(f"dtype {layout.dtype} has no kernels, or elements are not at multiples of their size")


def _contiguous(array: Handle) -> Handle:
    made: Handle = array if array._layout.is_contiguous else copy(array)
    return made


def _run(layout: Layout, plan: tuple[Any, ...], operands: tuple[Handle, ...]) -> Any:
    """Launch on contiguous operands, at once, into a new array."""
    backend = device()
    key = keyed(plan)
    launch: Any = _LAUNCHERS.get(key)
    if launch is None:
        name, *arguments = plan
        planned = getattr(importlib.import_module("oxinp._kernels.index.gather"), name)(*arguments).launch
        launch = backend.launcher(planned.kernel, planned.grid, 1 + len(operands), planned.constants)
        remember(_LAUNCHERS, key, launch)
    with schedule.LOCK:
        entries = [_entry(operand) for operand in operands]
        result: Buffer = backend.allocate(layout.nbytes)
        launch(result.ptr, *[entry.ptr for entry in entries])
    if explain.REPORTS:
        explain.note("device", plan[0], f"{layout.nbytes} B result")
    return wrap(on_device(layout, result), layout)


def _entry(handle: Handle) -> Any:
    """What lies in the memory of a contiguous array, computed if it is pending."""
    value = expression(handle)
    if value[0].nodes:
        value = schedule.materialise(handle._storage)
    return value[1][0]


def by_key(array: Handle, key: Any) -> Any:
    """Return ``array[key]`` for a key that is an array of integers or a mask.

    Raises
    ------
    Unsupported
        It is neither, or NumPy's result would not be in C order.
    """
    if not isinstance(key, Handle) or not key._layout.ndim or not array._layout.ndim:
        raise Unsupported("a key that is no array of ours")
    is_ordered = array._layout.is_contiguous or array._layout.ndim == 1
    if key._layout.dtype == BOOL:
        if key._layout.ndim < array._layout.ndim and not is_ordered:
            raise Unsupported("rows of an array that is not in C order")
        return select(array, key)
    if not is_ordered or not (key._layout.is_contiguous or key._layout.ndim == 1):
        raise Unsupported("arrays that are not in C order")
    return take(array, key)
