"""Elements by index: `take`, indexing with arrays of integers and with masks, the indices of what is true.

How many elements a mask chooses, and whether an index is out of bounds, is asked of the device.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.op import BoundOp, Op
from oxinp._core.manipulation.shape import ravel, reshape
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.reduction.reduce import reduce
from oxinp._core.reduction.scan import plan_scan
from oxinp._core.reduction.table import ANY, CUMSUM
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.plan import Argument, Copy, Fill, Plan, Read, Scratch

INT32 = np.dtype(np.int32)
MAX_INT32 = 2**31 - 1
_FAMILY = "oxinp._kernels.index.gather"


def _infer_take(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (array, index), (axis,) = layouts, parameters
    return (Layout.of(array.dtype, (*array.shape[:axis], *index.shape, *array.shape[axis + 1 :])),)


def _plan_take(bound: BoundOp, variant: Any) -> Plan:  # noqa: ARG001 - there is one
    (array, index), (axis,) = (graph.layout for graph in bound.graphs), bound.parameters
    plan: Plan = importlib.import_module(_FAMILY).take(
        math.prod(array.shape[:axis]),
        array.shape[axis],
        math.prod(array.shape[axis + 1 :]),
        index.size,
        DEVICE_TYPES[array.dtype],
        DEVICE_TYPES[index.dtype],
        array.alignment,
    )
    return plan


TAKE = Op("take", _plan_take, _infer_take, host=np.take)


def _infer_nothing(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    """One result, of a size that only the device knows."""
    return (Layout.of(INT64 if len(layouts) == 1 else layouts[1].dtype, (0,)),)


def _plan_select(bound: BoundOp, variant: Any) -> Plan:  # noqa: ARG001
    """Count along the mask, read the last count, then write every chosen element to where the counts say."""
    mask, *arrays = (graph.layout for graph in bound.graphs)
    dtype = INT32 if mask.size <= MAX_INT32 else INT64
    counts = Layout.of(dtype, mask.shape)
    scratch = Scratch()
    positions, count = scratch.take(counts.nbytes), scratch.take(INT64.itemsize)
    scan = plan_scan(CUMSUM, bound.graphs[0], 0, counts)
    steps = (
        *scan.on(out0=positions, scratch=scratch.take(scan.scratch_nbytes)),
        Fill(count, INT64.itemsize, 0),
        Copy(count, positions.at(counts.nbytes - dtype.itemsize), dtype.itemsize),
        Read(count),
    )
    chosen: Plan = importlib.import_module(_FAMILY).select(
        mask.size, DEVICE_TYPES[arrays[0].dtype] if arrays else None, DEVICE_TYPES[dtype]
    )
    write = chosen.on(in1=positions, in2=Argument("in1"))
    return Plan(steps, scratch.nbytes, then=lambda words: Plan(write if words[0] else ()))


def _sized_select(bound: BoundOp, words: tuple[int, ...]) -> tuple[Layout, ...]:
    return (Layout.of(bound.layouts[0].dtype, words),)


SELECT = Op("select", _plan_select, _infer_nothing, sized=_sized_select)


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
    return perform_on_device(TAKE, (array, index), (axis,))


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
    operands = (mask,) if array is None else (mask, array)
    return perform_on_device(SELECT, [ravel(x) for x in operands])


def _need_kernel(*layouts: Layout) -> None:
    for layout in layouts:
        if layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
            raise Unsupported(f"dtype {layout.dtype} has no kernels, or elements are not at multiples of their size")


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
