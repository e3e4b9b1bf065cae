"""Elements by index: `take`, indexing with arrays of integers and with masks, the indices of what is true.

How many elements a mask chooses is asked of the device. An index that only the device knows and that is out of bounds
is reported by the kernel, see `reports`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._core.lazy import placement, reports, schedule
from oxinp._core.lazy.chains import arrays, input_types, instructions
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import Handle, expression, host_view
from oxinp._core.lazy.op import SPARE, BoundOp, Op, bind
from oxinp._core.lazy.results import wrap_host
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import copy
from oxinp._core.manipulation.shape import flat
from oxinp._core.memory.dtypes import DEVICE_TYPES, INT64, MOVED_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.ops import again, creation
from oxinp._core.ops.epilogue import epilogue_of
from oxinp._core.ops.perform import perform_on_device
from oxinp._core.ufunc.object import OBJECTS
from oxinp._kernels.plan import Argument, Launch, Plan

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Graph
    from oxinp._core.memory.storage import Value
    from oxinp._kernels.plan import Again

UINT64 = np.dtype(np.uint64)
BYTES_PER_INDEX = 64
"""That NumPy adds in as long as it takes for an element at a random index."""
MAX_FUSED_NODES = 16
"""Elementwise operations that the kernel of a gather does on its elements."""
MAX_LOOKED_AT = 1 << 16
"""Indices on the host up to which they are looked at there, so that errors come at once."""

_FAMILY, _SELECT = "oxinp._kernels.index.gather", "oxinp._kernels.index.select"


def _infer_take(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:
    (array, index, *_), (first, count, _) = layouts, parameters
    return (Layout.of(array.dtype, (*array.shape[:first], *index.shape, *array.shape[first + count :])),)


def loops_of(layout: Layout) -> list[tuple[int, int]]:
    """Return extents and strides in elements.

    Raises
    ------
    Unsupported
        Elements are not at multiples of their size from each other.
    """
    itemsize = layout.dtype.itemsize
    if any(stride % itemsize for stride in layout.strides):
        raise Unsupported("elements that are not at multiples of their size from each other")
    return [(n, stride // itemsize) for n, stride in zip(layout.shape, layout.strides, strict=True)]


def merged_stride(loops: list[tuple[int, int]]) -> int:
    """Return the stride of loops that are as one; -1 where they are not."""
    found: tuple[int, int] | None = None
    for extent, stride in loops:
        if extent == 1:
            continue
        if found is None:
            found = extent, stride
        elif found[1] == stride * extent:
            found = found[0] * extent, stride
        else:
            return -1
    return 0 if found is None else found[1]


def indexed_loop(layout: Layout, first: int, count: int) -> tuple[int, int]:
    """Return extent and stride of what indices name: an axis, or distances in elements along several."""
    loops = loops_of(layout)[first : first + count]
    return loops[0] if count == 1 else (1 + sum((n - 1) * stride for n, stride in loops), 1)


def _plan_take(bound: BoundOp) -> Plan:
    plan = _take(bound)
    step, *others = plan.steps
    if type(step) is Launch and not others:
        bound.graphs[0].structure.plans[_likes_of_take(bound)] = step.kernel
    return plan


def _likes_of_take(bound: BoundOp) -> Any:
    """Return what elements by index have in common whose kernel is the same, whatever their sizes."""
    array, index = bound.graphs[0].layout, bound.graphs[1].layout
    return TAKE, bound.parameters, index.dtype, array.ndim, array.ndim > 1 and array.alignment


def _plan_take_again(bound: BoundOp, variant: Any) -> Again | None:
    """Return what runs it if one like it has been planned."""
    kernel = bound.graphs[0].structure.plans.get(_likes_of_take(bound))
    if kernel is None or variant is not None:
        return None
    array, index = bound.graphs[0].layout, bound.graphs[1].layout
    if array.ndim == 1:
        (extent,), (stride,), nbytes = array.shape, array.strides, array.dtype.itemsize
        given = index.size, stride // nbytes, extent, nbytes
        again: Again | None = _family().take_again(kernel, *given, is_checked=bound.parameters[2])
        return again
    step, *others = _take(bound).steps
    return None if others or type(step) is not Launch else (step.kernel, step.grid, step.constants)


@cache
def _family() -> Any:
    return importlib.import_module(_FAMILY)


@cache
def _selecting() -> Any:
    return importlib.import_module(_SELECT)


def _take(bound: BoundOp, finish: Any = None, *, may_group: bool = True) -> Plan:
    (array, index, *_), (first, count, is_checked) = (graph.layout for graph in bound.graphs), bound.parameters
    loops = loops_of(array)
    extent, stride = indexed_loop(array, first, count)
    plan: Plan = _family().take(
        loops[:first],
        (index.size, stride),
        loops[first + count :],
        extent,
        (MOVED_TYPES if finish is None else DEVICE_TYPES)[array.dtype],
        DEVICE_TYPES[index.dtype],
        array.alignment,
        is_checked=is_checked,
        finish=finish,
        may_group=may_group,
    )
    return plan


def _plan_spare(bound: BoundOp, variant: Any) -> Plan:
    """The plan of elements by index that reads them one by one, without workspace."""
    assert variant == SPARE
    return _take(bound, may_group=False)


def _fuse_take(bound: BoundOp, graph: Graph, place: int) -> Plan | None:
    """The plan of elements by index and of what a graph makes of them, see `_finish`; None where they are grouped."""
    finish = None if len(_take(bound).steps) > 1 else _finish(bound, graph, place)
    return None if finish is None else _take(bound, finish)


def _cost_of_take(layouts: tuple[Layout, ...], parameters: Any) -> float:
    return BYTES_PER_INDEX * layouts[1].size + _infer_take(layouts, parameters)[0].nbytes


TAKE = Op(
    "take",
    _plan_take,
    _infer_take,
    plan_again=_plan_take_again,
    cost=_cost_of_take,
    price=20.0,
    takes_views=True,
    fuse=_fuse_take,
    plan_variant=_plan_spare,
    has_spare=True,
    gathers=True,
)


def _finish(bound: BoundOp, graph: Graph, place: int) -> Any:
    """What a graph makes of elements by index; None where it reads arrays that lie otherwise, but for single elements.

    Parameters
    ----------
    bound : BoundOp
    graph : Graph
    place : int
        Its leaf that is the result of the operation.
    """
    (taken,) = bound.layouts
    made, result = DEVICE_TYPES.get(taken.dtype), DEVICE_TYPES.get(graph.dtype)
    if made is None or result is None or graph.layout.shape != taken.shape or len(graph.nodes) > MAX_FUSED_NODES:
        return None
    if any(getattr(node.lower, "wants_index", False) for node in graph.nodes):
        return None
    epilogue = epilogue_of(graph, place, made, made)
    if epilogue is None:
        return None
    steps = []
    for operand in epilogue.arrays:
        moving = [(n, stride) for n, stride in zip(taken.shape, operand.strides, strict=True) if n > 1]
        steps.append(merged_stride(moving))
    if any(step not in (0, 1) for step in steps):
        return None
    return _family().Finish(epilogue.along([(step,) for step in steps]), result)


def _infer_take_along(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    return (Layout.of(layouts[0].dtype, layouts[1].shape),)


def _plan_take_along(bound: BoundOp, finish: Any = None) -> Plan:
    (array, index, *_), (axis,) = (graph.layout for graph in bound.graphs), bound.parameters
    loops, along = loops_of(array), loops_of(index)
    every = [(*each, stride) for each, (_, stride) in zip(loops, along, strict=True)]
    extent, stride = loops[axis]
    plan: Plan = _family().take_along(
        every[:axis],
        (along[axis][0], stride, along[axis][1]),
        every[axis + 1 :],
        extent,
        (MOVED_TYPES if finish is None else DEVICE_TYPES)[array.dtype],
        DEVICE_TYPES[index.dtype],
        finish,
        index_alignment=index.alignment,
    )
    return plan


def _fuse_take_along(bound: BoundOp, graph: Graph, place: int) -> Plan | None:
    """The plan of `TAKE_ALONG` and of what a graph makes of it; see `_finish`."""
    finish = _finish(bound, graph, place)
    return None if finish is None else _plan_take_along(bound, finish)


TAKE_ALONG = Op(
    "take along axis",
    _plan_take_along,
    _infer_take_along,
    cost=lambda layouts, _: BYTES_PER_INDEX * layouts[1].size,
    price=20.0,
    takes_views=True,
    fuse=_fuse_take_along,
)


def _infer_nothing(layouts: tuple[Layout, ...], parameters: Any) -> tuple[Layout, ...]:  # noqa: ARG001
    """One result, of a size that only the device knows."""
    return (Layout.of(INT64 if len(layouts) == 1 else layouts[1].dtype, (0,)),)


def _plan_select(bound: BoundOp) -> Plan:
    """Compute the mask, count along it and read the last count, then write every chosen element."""
    structure = bound.graphs[0].structure
    if "mask" not in structure.plans:
        own = instructions(structure), structure.result
        structure.plans["mask"] = _selecting().Mask(input_types(structure), *own)
    plan = _planned_select(bound, structure.plans["mask"].plan)
    assert plan is not None
    return plan


def _plan_select_again(bound: BoundOp, variant: Any) -> Plan | None:  # noqa: ARG001 - there is one way
    """Return the same, if a mask like it has been planned."""
    planner = bound.graphs[0].structure.plans.get("mask")
    return None if planner is None else _planned_select(bound, planner.plan_again)


def _planned_select(bound: BoundOp, plan_mask: Callable[..., Any]) -> Plan | None:
    mask, *others = bound.graphs
    module, size = _selecting(), mask.layout.size
    planned = plan_mask(size, arrays(mask), placement.device().capability)
    if planned is None:
        return None
    chosen, scratch_nbytes = planned
    given = (
        (MOVED_TYPES[others[0].layout.dtype], chosen, Argument(f"in{len(mask.leaves)}"))
        if others
        else (None, chosen, None)
    )
    write: Plan = module.select(size, *given)
    bounded = write, (size * bound.layouts[0].dtype.itemsize,)
    return Plan(chosen.steps, scratch_nbytes, then=lambda words: write if words[0] else Plan(()), bounded=bounded)


def _sized_select(bound: BoundOp, words: tuple[int, ...]) -> tuple[Layout, ...]:
    return (Layout.of(bound.layouts[0].dtype, words),)


SELECT = Op(
    "select",
    _plan_select,
    _infer_nothing,
    plan_again=_plan_select_again,
    cost=lambda layouts, _: layouts[0].nbytes,  # of the mask
    host_weight=30.0,
    price=40.0,
    sized=_sized_select,
    takes_chains=(0,),
)


def take(array: Handle, index: Handle, axis: int = 0, *, is_checked: bool = True, given: Any = None) -> Any:
    """Return the elements of `array` at positions along an axis, in C order.

    Parameters
    ----------
    array : Handle
        Of at least one dimension.
    index : Handle
        Integers, negative ones from the end.
    axis : int
    is_checked : bool
        Whether an index may be negative or out of bounds.
    given : numpy.ndarray, optional
        What the index was made of.

    Raises
    ------
    Unsupported
        The device has no kernel.
    IndexError
        An index that is on the host is out of bounds; of one on the device it is raised later, see `reports`.
    """
    layout = array._layout
    axis = normalize_axis_index(axis, layout.ndim)
    if index._layout.dtype.kind not in "iu":
        raise Unsupported("indices that are no integers")
    need_kernel(layout, index._layout)
    extent = layout.shape[axis]
    error = error_along(axis, extent) if is_checked and is_unknown(index, axis, extent, given) else None
    return gathered(array, index, axis, 1, error, is_checked=is_checked)


def gathered(
    array: Handle,
    index: Handle,
    first: int,
    count: int,
    error: Callable[[int], Exception] | None,
    *,
    is_checked: bool,
) -> Any:
    """Return elements by index.

    Parameters
    ----------
    array : Handle
    index : Handle
        Along an axis, or distances in elements along several.
    first, count : int
        Those axes.
    error : callable or None
        What a kernel reports -> the exception; None where no index is out of bounds.
    is_checked : bool
        Whether an index may be negative or out of bounds.
    """
    shape = (array._known or array._layout).shape
    shape = (*shape[:first], *(index._known or index._layout).shape, *shape[first + count :])
    if not math.prod(shape):
        if index._layout.size and (error is not None or 0 in array._layout.shape[first : first + count]):
            raise Unsupported("indices that NumPy refuses, or may refuse")
        return creation.empty(shape, array._layout.dtype)
    index = index if (index._known or index._layout).is_contiguous else copy(index)
    operands: list[Any] = [array, index]
    if is_checked:
        operands.append((UINT64, 0 if error is None else reports.claim(error)))
    result = perform_on_device(TAKE, operands, (first, count, is_checked))
    if error is not None:
        reports.settle(result)
    return result


def take_along(array: Handle, index: Handle, axis: int) -> Any:
    """Return the elements of `array` at an index of their own each along an axis; see `numpy.take_along_axis`.

    Parameters
    ----------
    array, index : Handle
        Of as many dimensions; others than the axis are broadcast.
    axis : int

    Raises
    ------
    Unsupported
        The device has no kernel, or NumPy has to say what is wrong.
    IndexError
        See `take`.
    """
    found = again.read(("along", axis), array, index)
    if found is not None:
        return found
    layout, given = array._known or array._layout, index._known or index._layout
    need_kernel(layout, given)
    asked = array, index
    if layout.shape != given.shape:
        array, index = _broadcast_beside(array, index, axis)
        layout, given = array._layout, index._layout
    if not given.size or not layout.size:
        raise Unsupported("no elements")
    extent = layout.shape[axis]
    error = error_along(axis, extent) if is_unknown(index, axis, extent) else None
    status = 0 if error is None else reports.claim(error)
    result = perform_on_device(TAKE_ALONG, [array, index, (UINT64, status)], (axis,))
    again.keep_read(("along", axis), *asked, error, result)
    if error is not None:
        reports.settle(result)
    return result


def _broadcast_beside(array: Handle, index: Handle, axis: int) -> tuple[Handle, Handle]:
    """Return arrays with the same extents but for an axis."""
    shapes = [(*x._layout.shape[:axis], *x._layout.shape[axis + 1 :]) for x in (array, index)]
    if shapes[0] == shapes[1]:
        return array, index
    try:
        others = np.broadcast_shapes(*shapes)
    except ValueError:
        raise Unsupported("shapes that NumPy refuses to broadcast") from None
    first, second = (
        view(x, lambda seen: np.broadcast_to(seen, (*others[:axis], seen.shape[axis], *others[axis:])))
        for x in (array, index)
    )
    return first, second


def is_unknown(index: Handle, axis: int, extent: int, given: Any = None) -> bool:
    """Whether an index may be out of bounds; few that are on the host are looked at there.

    Parameters
    ----------
    index : Handle
    axis, extent : int
        What it indexes.
    given : numpy.ndarray, optional
        What it was made of.

    Raises
    ------
    IndexError
        One that is on the host is out of bounds.
    """
    if (given is None and (index._held or index._storage).host is None) or index._layout.size > MAX_LOOKED_AT:
        return True
    seen = (host_view(index) if given is None else given).astype(np.int64, copy=False)
    is_beyond = (seen >= extent) | (seen < -extent)
    if is_beyond.any():
        raise error_along(axis, extent)(int(seen[is_beyond][0]))
    return False


def error_along(axis: int, extent: int) -> Callable[[int], Exception]:
    """Return what makes the exception of an index along an axis."""
    return lambda value: IndexError(f"index {value} is out of bounds for axis {axis} with size {extent}")


def select(array: Handle, mask: Handle) -> Any:
    """Return the elements of `array` with a true element in `mask`, which has the shape of its first dimensions.

    Raises
    ------
    Unsupported
        The device has no kernel, or the shapes do not match.
    """
    layout, own = array._known or array._layout, mask._known or mask._layout
    ndim = own.ndim
    if own.shape != layout.shape[:ndim] or not own.size or not ndim:
        raise Unsupported("a mask of another shape, of which NumPy says why, or no elements")
    need_kernel(layout, own)
    if ndim < layout.ndim:
        return chosen(flat(array, ndim), flatnonzero(mask))
    return _selected(mask, array)


def chosen(rows: Handle, index: Handle) -> Any:
    """Return what is along the first axis of an array by an index that is known to be in bounds, without gaps."""
    layout, own = rows._known or rows._layout, index._known or index._layout
    if not own.size or not layout.size:
        return creation.empty((*own.shape, *layout.shape[1:]), layout.dtype)
    return perform_on_device(TAKE, (rows, index), (0, 1, False))


def taken(rows: Handle, index: Handle) -> Value | None:
    """Return what `chosen` does as a value, in an attempt; None where either has come to the host meanwhile."""
    sides = []
    for x in (rows, index):
        value: Any = expression(x)
        if value[0].nodes:
            value = schedule.materialise(x._held or x._storage)
        if value is None:
            return None
        sides.append(value)
    (graph, leaves, mask), (own, others, bits) = sides
    bound = bind(TAKE, (graph, own), (0, 1, False))
    return schedule.defer(bound, (*leaves, *others), mask | bits, depth=5)[0]


def flatnonzero(mask: Handle) -> Any:
    """Return the numbers, in C order, of the true elements of a mask, int64.

    Of a small mask on the host they are found there: the device would have to be waited for to know how many there are.
    """
    layout = mask._known or mask._layout
    if not layout.size:
        return wrap_host(np.empty(0, np.int64))
    if placement.may_be_host(mask._held or mask._storage) and placement.is_host(layout.nbytes):
        return wrap_host(host_view(mask).ravel().nonzero()[0])
    need_kernel(layout)
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
    return perform_on_device(SELECT, [flat(x) for x in operands])


def need_kernel(*layouts: Layout) -> None:
    """Raise Unsupported where elements are of no kernel's dtype or lie at odd places."""
    for layout in layouts:
        if layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
            raise Unsupported(f"dtype {layout.dtype} has no kernels, or elements are not at multiples of their size")
