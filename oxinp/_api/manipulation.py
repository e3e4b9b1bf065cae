"""Array manipulation: views, shapes, joining."""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from oxinp._api.fronts import as_ours, describe, enter_without_reading, implements
from oxinp._api.rebound import rebound
from oxinp._core.array import dispatch
from oxinp._core.errors.frames import call_as_user
from oxinp._core.host.exchange import StandIns, is_array
from oxinp._core.host.fallback import call
from oxinp._core.lazy import placement
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.handle import (
    Handle,
    base_of,
    fetch,
    host_view,
    is_writeable,
)
from oxinp._core.lazy.operands import mask_operand
from oxinp._core.lazy.record import COPY, express, is_hosted
from oxinp._core.lazy.results import types, wrap_host, wrap_pending
from oxinp._core.lazy.views import moved, view, view_at
from oxinp._core.manipulation import shape
from oxinp._core.manipulation.copy import assign, astype, own, warn_of_lost_parts
from oxinp._core.memory.broadcast import broadcast_shapes, broadcasts_to
from oxinp._core.memory.layout import Layout, is_in_order
from oxinp._core.ops import creation, joined, triangles
from oxinp._core.ops import roll as rolls
from oxinp._core.ops.index import getitem, setitem
from oxinp._core.ops.where import where as where_of_three

# What makes views of its first argument, or tells its shape or dtype.
_LOOKS_AT_ONE = (
    "broadcast_to diagonal dsplit expand_dims flip fliplr flipud hsplit iscomplexobj isfortran isrealobj "
    "matrix_transpose moveaxis permute_dims real rollaxis rot90 squeeze swapaxes transpose unstack vsplit"
)
# The same for any number of arrays.
_LOOKS_AT_ALL = (
    "atleast_1d atleast_2d atleast_3d broadcast_arrays can_cast common_type may_share_memory result_type shares_memory"
)
for _names, _all in ((_LOOKS_AT_ONE, False), (_LOOKS_AT_ALL, True)):
    for _name in _names.split():
        if hasattr(np, _name):
            enter_without_reading(getattr(np, _name), _name, all_arguments=_all)
for _name in ("as_strided", "sliding_window_view"):
    enter_without_reading(getattr(np.lib.stride_tricks, _name), f"lib.stride_tricks.{_name}")


_strided = dispatch.functions[np.lib.stride_tricks.as_strided]


def _as_strided(x: Any, *args: Any, **kwargs: Any) -> Any:
    """See `numpy.lib.stride_tricks.as_strided`, which from NumPy 2.5 on looks whether the view is within the memory."""
    if not is_array(x) or not kwargs.get("check_bounds"):
        return _strided(x, *args, **kwargs)
    made = _strided(x, *args, **{**kwargs, "check_bounds": False})
    base = x
    while base_of(base) is not None:
        base = base_of(base)
    (low, high), (first, last) = _bounds(base._layout), _bounds(made._layout)
    said = "Given shape and strides would access memory out of bounds. View "
    if first < low:
        raise ValueError(f"{said}starts {low - first} bytes before lowest address")
    if last > high:
        raise ValueError(f"{said}ends {last - high} bytes after highest address")
    return made


def _bounds(layout: Layout) -> tuple[int, int]:
    """Return where the elements of an array begin and end in its storage, in bytes."""
    spans = [(n - 1) * step for n, step in zip(layout.shape, layout.strides, strict=True)] if layout.size else []
    ends = sum(span for span in spans if span > 0) + (layout.dtype.itemsize if layout.size else 0)
    return layout.offset + sum(span for span in spans if span < 0), layout.offset + ends


dispatch.register(
    np.lib.stride_tricks.as_strided,
    describe(_as_strided, np.lib.stride_tricks.as_strided, "lib.stride_tricks.as_strided", _strided),
)


@implements("shape", is_hosted=False)
def _shape(a: Any) -> Any:
    """See `numpy.shape`."""
    return a._layout.shape if is_array(a) else np.shape(StandIns().give(a))


@implements("ndim", is_hosted=False)
def _ndim(a: Any) -> Any:
    """See `numpy.ndim`."""
    return a._layout.ndim if is_array(a) else np.ndim(StandIns().give(a))


@implements("size", is_hosted=False)
def _size(a: Any, axis: Any = None) -> Any:
    """See `numpy.size`."""
    return a._layout.size if is_array(a) and axis is None else np.size(StandIns().give(a), axis)


_INTEGERS = frozenset({int, np.int64})


def _is_plain(numbers: Any) -> bool:
    """Whether calls with these integers are told apart by their values alone."""
    return type(numbers) is int or (type(numbers) is tuple and _INTEGERS.issuperset(map(type, numbers)))


def _rolled(a: Any, shift: Any = None, axis: Any = None, *others: Any, **options: Any) -> Any:
    """Return the elements of an array of the device shifted along one axis, or several; None for anything else."""
    if others or options or balance.limit or axis is None:
        return None
    is_plain = _is_plain(shift) and _is_plain(axis)
    if is_plain and (found := rolls.again(a, shift, axis)) is not None:
        return found
    layout = a._known or a._layout
    try:
        turns = _turns_of(layout.shape, shift, axis)
        if not turns or layout.size < 2:
            return None
        made = rolls.roll(a, turns)
    except (Unsupported, ValueError, TypeError):  # or what NumPy refuses
        return None
    if is_plain:
        rolls.remember(layout, shift, axis, turns)
    return made


@implements("roll", ahead=_rolled)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """See `numpy.roll`. On the device, elements are read from where they are by what uses the result."""
    array = as_ours(a)
    turns = _turns_of(array._layout.shape, shift, axis)
    if turns is None or array._layout.size < 2:
        return _numpys_roll(a, shift, axis)
    if is_hosted([array]) and placement.takes_to_host("roll", array._layout.nbytes, rolls.HOST_WEIGHT):
        return wrap_host(np.roll(host_view(array), shift, axis))
    try:
        rolled = rolls.roll(array, turns)
    except Unsupported:
        return _numpys_roll(a, shift, axis)
    return view_at(rolled, rolled._layout) if axis is None else rolled


_numpys_roll = rebound(np.roll)


def _turns_of(shape: tuple[int, ...], shift: Any, axis: Any) -> dict[int | None, int] | None:
    """By how many elements each axis is shifted, where it is, None for all axes as one; None where NumPy is to say."""
    if type(shift) is int and type(axis) is int and 0 <= axis < len(shape):
        length = shape[axis]
        return {axis: shift % length} if length and shift % length else {}
    if not all(isinstance(each, int | np.integer) for each in (shift if type(shift) is tuple else (shift,))):
        return None
    if axis is None:
        size = math.prod(shape)
        return None if type(shift) is tuple else {None: int(shift) % size} if size and shift % size else {}
    turns: dict[int | None, int] = {}
    for turn, along in np.broadcast(shift, normalize_axis_tuple(axis, len(shape), allow_duplicate=True)):
        turns[int(along)] = turns.get(int(along), 0) + int(turn)
    return {along: turn % shape[along] for along, turn in turns.items() if shape[along] and turn % shape[along]}  # type: ignore[index]


def _reshaped(a: Any, *shape_: Any, **options: Any) -> Any:
    """Return an array of ours with a shape that is said alone; None for anything else."""
    return None if options or len(shape_) != 1 or type(shape_[0]) not in (tuple, int) else _reshape(a, *shape_)


@implements("reshape", is_hosted=False, ahead=_reshaped)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: bool | None = None) -> Any:
    """See `numpy.reshape`."""
    if shape is None or newshape is not None or is_array(shape):
        raise Unsupported("what only some versions of NumPy take")
    return _reshape(as_ours(a), shape, order, copy_wanted=copy)


_reshape = shape.reshape


@implements("ravel", is_hosted=False)
def ravel(a: Any, order: str = "C") -> Any:
    """See `numpy.ravel`."""
    return shape.ravel(as_ours(a), order)


@implements("copyto", is_hosted=False)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """See `numpy.copyto`."""
    if type(dst) is not types.ndarray and not is_array(dst):
        raise Unsupported("a NumPy array to write to")
    mask = None if where is True else _mask(where)
    if mask is None and casting == "same_kind" and type(src) is float and dst.dtype.char == "d" and is_writeable(dst):
        dst[...] = src
        return
    if isinstance(src, Handle) and src._storage is dst._storage and src._layout.same(dst._layout) and dst._layout.ndim:
        return  # NumPy looks no further either, but at a scalar
    if mask is None and type(src) is type(dst) is types.ndarray and src.dtype is dst.dtype and casting == "same_kind":
        dst[...] = src
        return
    if not is_writeable(dst):
        _copy_to_read_only(dst, src, casting)
        return
    if mask is not None:
        src = _masked(dst, src, casting, mask)
    if not isinstance(src, Handle | int | float | complex | np.generic):
        src = creation.asarray(src)
    if isinstance(src, Handle) and src._layout.ndim:
        if not np.can_cast(src._layout.dtype, dst._layout.dtype, casting):  # type: ignore[arg-type]
            np.copyto(np.empty(0, dst._layout.dtype), np.empty(0, src._layout.dtype), casting)  # type: ignore[arg-type]
        assign(dst, src)
        return
    # One element is cast as arrays are: unlike an assigned scalar it need not fit.
    cast = np.empty((), dst._layout.dtype)
    call_as_user(np.copyto, (cast, fetch(src) if isinstance(src, Handle) else src, casting), {})
    assign(dst, cast[()])


def _copy_to_read_only(dst: Any, src: Any, casting: str) -> None:
    """Raise what NumPy does; nothing is raised, nor to do, where the source is seen to be those very elements."""
    if type(src) is int:  # which NumPy looks at first: whether the dtype holds it
        read_only = np.empty(0, dst._layout.dtype)
    elif isinstance(src, np.ndarray) and dst._storage.host is not None:
        read_only = np.asarray(dst).view()  # as others see it
    else:
        raise ValueError("assignment destination is read-only")
    read_only.flags.writeable = False
    call_as_user(np.copyto, (read_only, src, casting), {})


def _mask(where: Any) -> Any:
    mask = mask_operand(where)
    if mask is NotImplemented:
        raise Unsupported("what has a say of its own")
    mask = as_ours(mask)
    np.copyto(np.empty(0), np.empty(0), where=np.empty(0, mask._layout.dtype))  # NumPy's own error
    return mask


def _masked(dst: Any, src: Any, casting: str, where: Any) -> Any:
    """Return what `dst` becomes where `where` holds, and stays elsewhere, in its own dtype."""
    dtype = dst._layout.dtype
    given = src._layout.dtype if isinstance(src, Handle) else np.asarray(src).dtype
    if not isinstance(src, Handle | int | float) and np.ndim(src):
        src = as_ours(src)
    if given.kind not in "biufc" or not broadcasts_to(where._layout.shape, dst._layout.shape):
        raise Unsupported("what NumPy refuses")
    if is_array(src):
        np.copyto(np.empty(0, dtype), np.empty(0, given), casting)  # type: ignore[arg-type]
        if not broadcasts_to(src._layout.shape, dst._layout.shape):
            raise Unsupported("what NumPy refuses")
        if is_hosted((src, where, dst)):
            src = astype(src, dtype, copy_wanted=False)
        elif given != dtype:  # only what is written may be told of
            warn_of_lost_parts(src._layout.dtype, dtype)
            shape = broadcast_shapes([src._layout.shape, where._layout.shape], None)
            src = wrap_pending(express(COPY, (src,), Layout.of(dtype, shape), where=where), as_array=True)
    else:
        cast = np.empty((), dtype)
        call_as_user(np.copyto, (cast, fetch(src) if isinstance(src, Handle) else src, casting), {})
        src = cast[()]
    return where_of_three(where, src, dst)


@implements("bmat", is_hosted=False)
def bmat(obj: Any, ldict: Any = None, gdict: Any = None) -> Any:
    """See `numpy.bmat`; of a text, names are those of the line that asks."""
    if isinstance(obj, str) and gdict is None:
        frame: Any = sys._getframe()
        while str(frame.f_globals.get("__name__")).startswith("oxinp."):
            frame = frame.f_back
        known = {**frame.f_globals, **frame.f_locals}
        names = re.split(r"[;,\s]+", obj)
        ldict, gdict = {name: known[name] for name in names if name in known}, {}
    return call(np.bmat, (obj, ldict, gdict), {}, name="bmat")


def _triangle(m: Any, k: Any = 0, *others: Any, is_upper: bool, **options: Any) -> Any:
    """Return a triangle of matrices that are on the device; None for anything else."""
    is_plain = type(k) is int and not others and not options
    return triangles.triangle(m, k, is_upper=is_upper) if is_plain else None


for _name, _is_upper in (("tril", False), ("triu", True)):
    implements(_name, ahead=functools.partial(_triangle, is_upper=_is_upper))(rebound(getattr(np, _name)))

_numpys_insert = rebound(np.insert)


@implements("insert")
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """See `numpy.insert`: one number is put between two copies, anything else by NumPy's code."""
    is_plain = type(obj) is int and isinstance(values, int | float | complex | np.number | np.bool_)
    if not is_plain or type(arr) is not types.ndarray or (axis is not None and arr._layout.ndim != 1):
        return _numpys_insert(arr, obj, values, axis)
    a = shape.ravel(arr)
    size, dtype = a._layout.size, a._layout.dtype
    if not -size <= obj <= size or axis not in (None, 0, -1):
        return _numpys_insert(arr, obj, values, axis)
    place, element = obj % size if obj < 0 else obj, np.array(values, dtype)
    made = creation.empty((size + 1,), dtype)
    if place < size:
        setitem(made, slice(place + 1, None), getitem(a, slice(place, None)))
    if place:
        setitem(made, slice(0, place), getitem(a, slice(0, place)))
    setitem(made, place, element[()])
    return made


def _are_on_device(arrays: Any) -> bool:
    """Whether what is in a list or tuple are arrays of ours, and none of a subclass, that are on the device alone."""
    kind = types.ndarray
    for part in arrays:
        if type(part) is not kind or (held := part._held) is None or held.host is not None:
            return False
    return bool(arrays)


def _concatenated(arrays: Any, axis: Any = 0, *others: Any, **options: Any) -> Any:
    """Return arrays of the device that are alike, one after the other along an axis; None for anything else."""
    if others or options or type(axis) is not int or not _are_on_device(arrays):
        return None
    ndim = (arrays[0]._known or arrays[0]._layout).ndim
    axis = axis + ndim if axis < 0 else axis
    return _joined_alike(arrays, axis) if 0 <= axis < ndim and _are_alike(arrays, axis) else None


@implements("concatenate", "concat", ahead=_concatenated, of_lists=True)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """See `numpy.concatenate`: room for all, and each array written into its part."""
    parts = _parts(arrays)
    if out is not None or {*map(type, parts)} != {types.ndarray}:
        if out is not None or not any(is_array(part) for part in parts):
            raise Unsupported("an `out`, or nothing of ours")
        parts = [as_ours(part) for part in parts]
    if _is_host(parts):
        given = [host_view(part) for part in parts]
        return wrap_host(np.concatenate(given, axis, dtype=dtype, casting=casting))  # type: ignore[call-overload]
    if axis is None:
        parts, axis = [shape.ravel(part) for part in parts], 0
    ndim = parts[0]._layout.ndim
    is_plain = dtype is None and casting == "same_kind" and type(axis) is int and 0 <= axis < ndim
    if is_plain and _are_alike(parts, axis):
        return _joined_alike(parts, axis)
    # NumPy judges shapes, axis and dtypes, on arrays in which the axis joined along is empty.
    axis = normalize_axis_index(axis, ndim) if ndim else axis
    stand_ins = [np.empty(_without(part._layout.shape, axis), part._layout.dtype) for part in parts]
    empty = np.concatenate(stand_ins, axis, dtype=dtype, casting=casting)  # type: ignore[call-overload]
    length = sum(part._layout.shape[axis] for part in parts)
    made = _in_order_of(parts, axis, (*empty.shape[:axis], length, *empty.shape[axis + 1 :]), empty.dtype)
    start = 0
    for part in parts:
        stop = start + part._layout.shape[axis]
        where = (slice(None),) * axis + (slice(start, stop),)
        if stop > start:
            assign(view(made, lambda seen, where=where: seen[where]), part)  # type: ignore[misc]
        start = stop
    return made


def _are_alike(parts: Sequence[Any], axis: int) -> bool:
    """Whether arrays, whose axes lie in memory in C order, differ in their extents along an axis only."""
    first = parts[0]._known or parts[0]._layout
    if not first.dtype.isnative or first.dtype.names is not None:  # the result is, and its fields lie side by side
        return False
    dtype, outer, inner, ndim = first.dtype, first.shape[:axis], first.shape[axis + 1 :], first.ndim
    for part in parts:
        layout = part._known or part._layout
        shape = layout.shape
        if layout.dtype is not dtype or layout.ndim != ndim or not (layout.is_contiguous or is_in_order(layout)):
            return False
        if shape[:axis] != outer or shape[axis + 1 :] != inner:
            return False
    return True


def _joined_alike(parts: Sequence[Any], axis: int) -> Any:
    """Return arrays that are alike, one after the other along an axis."""
    first = parts[0]._known or parts[0]._layout
    if not axis and joined.are_joined(parts):
        return joined.join(parts)
    if axis and joined.are_columns(parts, axis):
        return joined.columns(parts)
    lengths = [(part._known or part._layout).shape[axis] for part in parts]
    extents = *first.shape[:axis], sum(lengths), *first.shape[axis + 1 :]
    made, start, before = creation.empty_there(extents, first.dtype), 0, (slice(None),) * axis
    for part, length in zip(parts, lengths, strict=True):
        if length:
            made[(*before, slice(start, start + length)) if axis else slice(start, start + length)] = part
        start += length
    return made


def _in_order_of(parts: list[Any], axis: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a new array whose axes lie in memory in the order that NumPy finds in what is joined."""
    if len(shape) < 2 or all(part._layout.is_contiguous for part in parts):
        return creation.empty_there(shape, dtype)
    axes = _order_of(tuple([_pattern(part._layout) for part in parts]), axis)
    made = creation.empty_there(tuple([shape[a] for a in axes]), dtype)
    if axes == tuple(range(len(axes))):
        return made
    return own(view(made, lambda seen: seen.transpose(np.argsort(axes))))


def _pattern(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What NumPy's order of axes depends on: which have length 1, and how strides compare."""
    steps = sorted({0, *map(abs, layout.strides)})
    return tuple([1 if n == 1 else 2 for n in layout.shape]), tuple([steps.index(abs(step)) for step in layout.strides])


@functools.lru_cache(maxsize=1024)
def _order_of(patterns: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], axis: int) -> tuple[int, ...]:
    """Ask NumPy for the axes of arrays that are joined, from the slowest to the fastest."""
    memory = np.zeros(1 + max(sum(steps) for _, steps in patterns), np.int8)
    points = [np.lib.stride_tricks.as_strided(memory, shape, steps) for shape, steps in patterns]
    joined = np.concatenate(points, axis)
    # One of length 1 has the stride of the next slower one.
    return tuple(sorted(range(joined.ndim), key=lambda a: (-joined.strides[a], joined.shape[a] == 1)))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape if not shape or len(shape) <= axis else (*shape[:axis], 0, *shape[axis + 1 :])


def _parts(arrays: Any) -> list[Any]:
    if isinstance(arrays, list | tuple):
        if arrays:
            return list(arrays)
    elif is_array(arrays) and arrays._layout.ndim:
        return [arrays[i] for i in range(arrays._layout.shape[0])]
    raise Unsupported("NumPy has the words for it")


def _is_host(parts: list[Any]) -> bool:
    return is_hosted(parts) and placement.is_host(sum([part._layout.nbytes for part in parts]))


def _stacked(arrays: Any, axis: Any = 0, *others: Any, **options: Any) -> Any:
    """Return arrays of the device that are alike, one after the other along a new axis; None for anything else."""
    if others or options or type(axis) is not int or not _are_on_device(arrays):
        return None
    first = arrays[0]._known or arrays[0]._layout
    ndim = first.ndim
    axis = axis + ndim + 1 if axis < 0 else axis
    if not 0 <= axis <= ndim or not ndim or not _are_alike(arrays, 0):
        return None
    for part in arrays:
        if (part._known or part._layout).shape != first.shape:
            return None
    if axis or joined.are_joined(arrays):
        return _joined_alike([moved(part, np.expand_dims, axis) for part in arrays], axis)
    made = creation.empty_there((len(arrays), *first.shape), first.dtype)
    for place, part in enumerate(arrays):
        made[place] = part
    return made


@implements("stack", ahead=_stacked, of_lists=True)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """See `numpy.stack`."""
    parts = _all_ours(arrays)
    if len({part._layout.shape for part in parts}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = normalize_axis_index(axis, parts[0]._layout.ndim + 1)
    widen = (slice(None),) * axis + (None,)
    widened = [view(part, lambda seen: seen[widen]) for part in parts]
    return concatenate(widened, axis, out, dtype=dtype, casting=casting)


class _Ours(list[Any]):
    """Arrays of ours, as `_all_ours` has made sure of."""


def _all_ours(arrays: Any) -> _Ours:
    parts = _parts(arrays)
    if {*map(type, parts)} == {types.ndarray}:  # as nearly always
        return _Ours(parts)
    if not any(is_array(part) for part in parts):
        raise Unsupported("nothing of ours")
    return _Ours([as_ours(part) for part in parts])


def _joined(tup: Any, ndim: int, axis: int, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Concatenate arrays made to have at least `ndim` dimensions, as `numpy.atleast_1d` and its kin do."""
    widen = (np.atleast_1d, np.atleast_2d, np.atleast_3d)[ndim - 1]
    parts: list[Any] = tup if type(tup) is _Ours else _all_ours(tup)
    parts = [part if (part._known or part._layout).ndim >= ndim else view(part, widen) for part in parts]
    return concatenate(parts, axis, dtype=dtype, casting=casting)


def _stacked_rows(tup: Any, *others: Any, **options: Any) -> Any:
    """Return arrays of the device that are alike below each other; None for anything else."""
    if others or options or not _are_on_device(tup):
        return None
    ndim = (tup[0]._known or tup[0]._layout).ndim
    return _stacked(tup) if ndim == 1 else _concatenated(tup) if ndim else None


@implements("vstack", "row_stack", ahead=_stacked_rows, of_lists=True)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """See `numpy.vstack`."""
    return _joined(tup, 2, 0, dtype, casting)


def _stacked_columns(tup: Any, *others: Any, **options: Any) -> Any:
    """Return arrays of the device that are alike beside each other; None for anything else."""
    if others or options or not _are_on_device(tup):
        return None
    return _concatenated(tup, min(1, (tup[0]._known or tup[0]._layout).ndim - 1))


@implements("hstack", ahead=_stacked_columns, of_lists=True)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """See `numpy.hstack`."""
    parts = _all_ours(tup)
    return _joined(parts, 1, 0 if (parts[0]._known or parts[0]._layout).ndim <= 1 else 1, dtype, casting)


@implements("dstack")
def dstack(tup: Any) -> Any:
    """See `numpy.dstack`."""
    return _joined(tup, 3, 2)


@implements("column_stack")
def column_stack(tup: Any) -> Any:
    """See `numpy.column_stack`."""
    parts = [part if part._layout.ndim >= 2 else _column(part) for part in _all_ours(tup)]
    return concatenate(parts, 1)


def _column(part: Any) -> Any:
    return view(part, lambda seen: np.atleast_2d(seen).T)
