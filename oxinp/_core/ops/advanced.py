"""Advanced keys: arrays of integers and of truth, mixed with slices, integers and newaxis, as one index.

What a key selects is written as a view with its axes in three groups: those outside the index, those that are indexed,
those inside; and as one array of integers. Where there are several indexed axes, the integers are distances in elements
from the view's first one, and what is out of bounds in any of them is a negative number that says which it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from oxinp._config import config
from oxinp._core.host.exchange import holds_arrays
from oxinp._core.lazy import placement
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.expr import Loop, Operation, Unsupported
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.record import WHERE, apply, express, is_hosted, settled
from oxinp._core.lazy.results import is_device_scalar, types, wrap_pending
from oxinp._core.lazy.views import moved, view, view_at
from oxinp._core.manipulation.shape import flat
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES, INT64
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.parts import part_of
from oxinp._core.ops import gather, masks
from oxinp._kernels.problem import SKIPPED
from oxinp._ptx.types import i64

# How an index out of bounds is written among distances: the number of the index array, then the index.
BASE, _NUMBER_BITS, LIMIT = -(1 << 62), 56, 1 << 55
_ALL = slice(None)
_INTEGERS = frozenset({int, *(np.dtype(code).type for code in "bBhHiIlLqQ")})


class Selection(NamedTuple):
    """What an advanced key selects.

    Attributes
    ----------
    array : Handle
        A view: axes outside, indexed axes, axes inside.
    index : Handle
        Integers along the only indexed axis, else distances in elements, i64.
    shape : tuple of int
        Of what is selected.
    num_outer, num_indexed : int
        Axes.
    is_checked : bool
        Indices may be negative or out of bounds.
    error : callable or None
        What a kernel reports -> the exception; None where every index is known to be in bounds.
    is_unique : bool
        No element is named twice.
    """

    array: Handle
    index: Handle  # type: ignore[assignment]  # instead of the method of tuples
    shape: tuple[int, ...]
    num_outer: int
    num_indexed: int
    is_checked: bool
    error: Callable[[int], Exception] | None
    is_unique: bool


class _Index(NamedTuple):
    """An array of integers in a key.

    Attributes
    ----------
    array : Handle
    source : Handle or None
        The mask that it was made of, so that it is in bounds and not negative.
    axis, extent : int
        What it indexes.
    given : numpy.ndarray or None
        What it was made of.
    is_truth : bool
        It stands for a single truth value: an axis of its own, whose only element is chosen or not.
    """

    array: Handle
    source: Handle | None
    axis: int
    extent: int
    given: Any
    is_truth: bool = False

    @property
    def place(self) -> tuple[Handle, int, int, Any]:
        """What `gather.is_unknown` takes."""
        return self.array, self.axis, self.extent, self.given


def is_light(array: Handle, key: Any, *, is_written: bool = False) -> bool:
    """Whether NumPy is to do it: every index is small and on the host, and so is the array or it has what is asked for.

    What the device has of an array would be outdated by a write.
    """
    storage = array._held or array._storage
    if not placement.may_be_host(storage):
        return False
    parts = [x for x in (key if type(key) is tuple else (key,)) if isinstance(x, Handle)]
    if not is_hosted(parts):
        return False
    is_there = storage.host is not None and not (is_written and storage.value is not None)
    if is_there and selects_few(array, key):
        return True
    nbytes = max(x._layout.nbytes for x in (array, *parts))
    if 0 < nbytes < balance.limit and parts:  # it is as large as that, but so many of its elements are asked for
        largest = max([x._layout for x in parts], key=_host_cost)
        price = gather.SELECT.price if largest.dtype == BOOL else gather.TAKE.price
        return placement.is_host(nbytes, _host_cost(largest) / nbytes, price)
    return placement.is_host(nbytes)


def selects_few(array: Handle, key: Any) -> bool:
    """Whether integers in a key select what NumPy finds in less than a launch takes, however large the array is."""
    layout = array._known or array._layout
    axis, num_taken, beside = 0, 1, layout.dtype.itemsize
    for part in key if type(key) is tuple else (key,):
        kind, size = type(part), 1
        if axis == layout.ndim:
            return False
        if kind is slice:
            beside *= layout.shape[axis]
        elif kind is list or kind is range:
            if not part or type(part[0]) not in _INTEGERS:
                return False
            size = len(part)
        elif (kind is types.ndarray or kind is np.ndarray) and part.ndim == 1 and part.dtype != BOOL:
            size = part.size
        elif kind is not int:
            return False
        num_taken = max(num_taken, size)  # they are taken together
        axis += 1
    return num_taken * (gather.BYTES_PER_INDEX + beside * math.prod(layout.shape[axis:])) < config.offload_threshold


def _host_cost(layout: Layout) -> float:
    """Return the bytes that NumPy adds in as long as it takes for what a mask or integers select."""
    return layout.size * (gather.SELECT.host_weight if layout.dtype == BOOL else gather.BYTES_PER_INDEX)


def without_rest(key: tuple[Any, ...], ndim: int) -> Any:
    """Return a key without the slices behind its only array that select all there is, as in ``array[rows, :]``.

    Parameters
    ----------
    key : tuple
    ndim : int
        Axes of the array, which NumPy finds the key too long for even if there are more slices than those.
    """
    single: Any = key[0] if key else None
    num_axes = 0
    if type(single) is not types.ndarray:
        return key
    for part in key[1:]:
        if type(part) is not slice or part.start is not None or part.stop is not None or part.step is not None:
            return key
        num_axes += 1
    layout = single._known or single._layout
    return single if layout.ndim and (layout.ndim if layout.dtype == BOOL else 1) + num_axes <= ndim else key


def on_line(array: Handle, key: tuple[Any, ...]) -> tuple[Handle, Handle, int] | None:
    """Return what integers beside an array of them leave of an array: a part, the index for its first axis.

    And which axis of the array that is. None where the key is another one, or where NumPy has to say what is wrong.
    """
    layout = array._known or array._layout
    index: Any = None
    axis = 0
    for place, part in enumerate(key):
        if type(part) is types.ndarray and index is None:
            index, axis = part, place
        elif type(part) is not int:
            return None
    if index is None:
        return None
    own = index._known or index._layout
    if not own.ndim or own.dtype.kind not in "iu" or own.dtype not in DEVICE_TYPES:
        return None
    located = part_of(layout, (*key[:axis], _ALL, *key[axis + 1 :]))
    return None if located is None else (view_at(array, located[0]), index, axis)


def selection(array: Handle, key: Any, value: tuple[int, ...] = (), *, axis: int = 0) -> Selection:
    """Return what a key selects.

    Parameters
    ----------
    array : Handle
    key : object
    value : tuple of int, optional
        The shape of what is to be written there, which NumPy looks at before it looks at indices.
    axis : int
        What errors call the first axis.

    Raises
    ------
    Unsupported
        NumPy has to say what is wrong, or the device has no kernel.
    IndexError
        As NumPy.
    """
    layout = array._known or array._layout
    if layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
        raise Unsupported(f"dtype {layout.dtype} has no kernels, or elements are not at multiples of their size")
    single = key[0] if type(key) is tuple and len(key) == 1 else key
    if type(single) is types.ndarray:
        own = single._known or single._layout
        if own.ndim and own.dtype == BOOL and layout.is_contiguous and layout.size:
            return _masked(array, single)
        if layout.ndim and own.ndim and own.dtype.kind in "iu" and own.dtype in DEVICE_TYPES:
            return _of_first_axis(array, single, value, axis)
    elif type(single) is tuple and layout.ndim == len(single) and _are_alike(single) and min(layout.strides) >= 0:
        return _of_every_axis(array, single, value)
    parts, free, indexed = _parts(key if type(key) is tuple else (key,), layout.shape)
    indices = [part for part in parts if type(part) is _Index]
    try:
        shape = np.broadcast_shapes(*[index.array._layout.shape for index in indices])
    except ValueError:
        raise Unsupported("indices that NumPy refuses to broadcast") from None
    if not shape:
        raise Unsupported("no index that is an array with dimensions")
    basic = tuple([(None if part.is_truth else _ALL) if type(part) is _Index else part for part in parts])
    seen = array if basic == (_ALL,) * layout.ndim else view(array, lambda x: x[basic])
    place = _place(parts, layout.ndim, len(shape))
    axes = (*free[:place], *indexed, *free[place:])
    if axes != tuple(range(len(axes))):
        seen = moved(seen, np.transpose, axes)
    behind = place + len(indexed)
    extents = seen._layout.shape
    if 0 in extents[place:behind] and math.prod(shape):
        raise Unsupported("an axis without elements, which NumPy refuses")
    selected = (*extents[:place], *shape, *extents[behind:])
    _check_fits(value, selected)
    given = [index for index in indices if index.source is None and not index.is_truth]
    is_checked = bool(given)
    is_unknown = math.prod(shape) and [1 for index in given if gather.is_unknown(*index.place)]
    error = _error_of(tuple([(index.axis, index.extent) for index in indices])) if is_unknown else None
    is_unique = not is_checked and len({id(index.source) for index in indices if not index.is_truth}) <= 1
    if len(indices) == 1:
        index = indices[0].array
    else:
        steps = [slice(None, None, -1 if stride < 0 else 1) for stride in seen._layout.strides[place:behind]]
        if any(step.step < 0 for step in steps):
            seen = view(seen, lambda x: x[(*(_ALL,) * place, *steps)])
        index = _distances(indices, seen._layout, place, [step.step < 0 for step in steps])
    return Selection(seen, index, selected, place, len(indexed), is_checked, error, is_unique)


def _check_fits(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raise Unsupported where what has a shape cannot be broadcast to another one, leading ones left out."""
    if given == shape or not given:
        return
    own = given[max(0, len(given) - len(shape)) :]
    if math.prod(own) != math.prod(given) or any(
        n not in (1, extent) for n, extent in zip(own[::-1], shape[::-1], strict=False)
    ):
        raise Unsupported("values that do not fit, of which NumPy says how")


def _of_first_axis(array: Handle, index: Handle, value: tuple[int, ...], axis: int) -> Selection:
    """Return what one array of integers selects of the first axis, as most keys do."""
    extent, *others = (array._known or array._layout).shape
    own = index._known or index._layout
    size = own.size
    if size and not extent:
        raise Unsupported("an axis without elements, which NumPy refuses")
    shape = (*own.shape, *others)
    _check_fits(value, shape)
    error = gather.error_along(axis, extent) if size and gather.is_unknown(index, axis, extent) else None
    return Selection(array, index, shape, 0, 1, is_checked=True, error=error, is_unique=False)


def _are_alike(key: tuple[Any, ...]) -> bool:
    """Whether all parts of a key are arrays of integers of the same shape."""
    shape = None
    for part in key:
        if type(part) is not types.ndarray:
            return False
        own = part._known or part._layout
        if not own.ndim or own.dtype.kind not in "iu" or own.dtype not in DEVICE_TYPES:
            return False
        if shape is not None and own.shape != shape:
            return False
        shape = own.shape
    return shape is not None


def _of_every_axis(array: Handle, key: tuple[Any, ...], value: tuple[int, ...]) -> Selection:
    """Return what arrays of integers alike select, one for each axis, as in ``array[i, j]``."""
    layout, own = array._known or array._layout, key[0]._known or key[0]._layout
    if own.size and not layout.size:
        raise Unsupported("an axis without elements, which NumPy refuses")
    _check_fits(value, own.shape)
    indices = [
        _Index(part, None, i, extent, None) for i, (part, extent) in enumerate(zip(key, layout.shape, strict=True))
    ]
    is_unknown = own.size and [1 for index in indices if gather.is_unknown(*index.place)]
    error = _error_of(tuple([(index.axis, index.extent) for index in indices])) if is_unknown else None
    distances = _distances(indices, layout, 0, [False] * layout.ndim)
    return Selection(array, distances, own.shape, 0, layout.ndim, is_checked=True, error=error, is_unique=False)


def masked_places(array: Handle, mask: Handle, indices: tuple[Handle, ...]) -> Selection:
    """Return what indices for each axis select where a mask is true; the others are `SKIPPED`.

    Raises
    ------
    Unsupported
        As of `selection`.
    """
    layout = array._known or array._layout
    if layout.dtype not in DEVICE_TYPES or not layout.is_aligned or not layout.size or min(layout.strides) < 0:
        raise Unsupported("an array without elements that an index may name")
    operands: list[Any] = []
    for index, extent, stride in zip(indices, layout.shape, layout.strides, strict=True):
        step, remainder = divmod(stride, layout.dtype.itemsize)
        if remainder or (index._known or index._layout).dtype not in DEVICE_TYPES:
            raise Unsupported("indices of another dtype, or elements that are not at multiples of their size")
        operands += [index, extent, step]
    named = indices[0]
    if len(indices) > 1:
        named = wrap_pending(express(_distance(len(indices)), (*operands, 0)), as_array=True)
    index = settled(wrap_pending(express(WHERE, (mask, named, INT64.type(SKIPPED))), as_array=True))
    if index._layout.dtype != INT64:
        raise Unsupported("indices that i64 does not hold")
    shape, error = index._layout.shape, _error_of(tuple(enumerate(layout.shape)))
    return Selection(array, index, shape, 0, layout.ndim, is_checked=True, error=error, is_unique=False)


def _masked(array: Handle, mask: Handle) -> Selection:
    """Return what a mask selects of the first axes of an array in C order."""
    shape, own = (array._known or array._layout).shape, mask._known or mask._layout
    if shape[: own.ndim] != own.shape:
        raise Unsupported("a mask that does not fit")
    rows = flat(array, own.ndim)
    index = masks.numbers(mask)
    chosen = (*(index._known or index._layout).shape, *shape[own.ndim :])
    return Selection(rows, index, chosen, 0, 1, is_checked=False, error=None, is_unique=True)


def _parts(key: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[list[Any], list[int], list[int]]:
    """Return the parts of a key, arrays as `_Index` and masks as several of them, and the axes of the view that it is.

    The axes are those of the view that is left without the arrays: the free ones, and those that are indexed.
    """
    given = [_plain(part) for part in key]
    held = [_array_of(part) for part in given]
    widths = [_width(part) for part in held]
    rest = len(shape) - sum(widths)
    if rest < 0 or sum(part is Ellipsis for part in held) > 1:
        raise Unsupported("a key that NumPy refuses")
    parts: list[Any] = []
    axes: list[bool] = []  # of the view: whether it is indexed
    axis = 0
    for part, width, made_of in zip(held, widths, given, strict=True):
        if part is Ellipsis:
            axes += [False] * rest
            axis += rest
        elif isinstance(part, Handle):
            indices = _indices(part, shape, axis, made_of if type(made_of) is np.ndarray else None)
            axes += [True] * len(indices)
            parts += indices
        elif isinstance(part, bool):
            axes.append(True)
            array = types.from_host(np.zeros(int(part), np.intp))
            part = _Index(array, None, axis, 1, None, is_truth=True)  # noqa: PLW2901
        elif part is None or isinstance(part, slice):
            axes.append(False)
        if not isinstance(part, Handle):
            parts.append(part)
        axis += width
    axes += [False] * (len(shape) - axis)
    return parts, [i for i, x in enumerate(axes) if not x], [i for i, x in enumerate(axes) if x]


def _width(part: Any) -> int:
    """Return how many axes a part of a key stands for; of an ellipsis, none."""
    if isinstance(part, Handle):
        return part._layout.ndim if part._layout.dtype == BOOL else 1
    return int(part is not None and part is not Ellipsis and not isinstance(part, bool))


def _indices(part: Handle, shape: tuple[int, ...], axis: int, given: Any) -> list[_Index]:
    if part._layout.dtype != BOOL:
        return [_Index(part, None, axis, shape[axis], given)]
    if part._layout.shape != shape[axis : axis + part._layout.ndim] or not part._layout.size:
        raise Unsupported("a mask that does not fit, or without elements")
    return [_Index(index, part, axis + i, shape[axis + i], None) for i, index in enumerate(gather.nonzero(part))]


def _plain(part: Any) -> Any:
    """Return a list as NumPy's array, a scalar as NumPy's, anything else as it is."""
    if is_device_scalar(part):
        return part[()]
    if isinstance(part, list):
        if holds_arrays(part):
            raise Unsupported("lists of arrays")
        try:
            given = np.asarray(part)
        except ValueError:
            raise Unsupported("a list that is no array") from None
        return given if given.size else given.astype(np.intp)
    return part


def _array_of(part: Any) -> Any:
    """Return NumPy's array as one of ours; a part of a basic key as it is."""
    if type(part) is np.ndarray and part.ndim and part.dtype.kind in "biu":
        part = types.from_host(part)
    is_single = type(part) in (np.ndarray, types.ndarray) and not part.ndim
    if isinstance(part, bool | np.bool_) or (is_single and part.dtype == BOOL):
        return bool(part)
    if type(part) is types.ndarray:
        if is_single or part._layout.dtype.kind not in "biu" or part._layout.dtype not in DEVICE_TYPES:
            raise Unsupported("an index without dimensions, or of another dtype")
        return part
    if part is None or part is Ellipsis or isinstance(part, slice) or _is_integer(part):
        return part
    raise Unsupported("a part of a key that NumPy is to look at")


def _is_integer(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


_PLACES: dict[Any, int] = {}


def _place(parts: list[Any], num_axes: int, ndim: int) -> int:
    """Return how many axes stand before those of the index: NumPy's rule, asked of NumPy on next to no elements."""
    index = np.zeros((2,) * min(ndim, 1) + (1,) * (ndim - 1), np.intp)
    is_array = [type(x) is _Index and not x.is_truth for x in parts]
    truth = any(is_array)  # else no axis of the array is the index's, but one of no elements is
    stand_ins = tuple(
        [
            index if array else truth if type(x) is _Index else 0 if _is_integer(x) else x
            for x, array in zip(parts, is_array, strict=True)
        ]
    )
    stand_ins = tuple([_ALL if isinstance(x, slice) else x for x in stand_ins])
    key = (num_axes, ndim, *["index" if x is index else repr(x) for x in stand_ins])
    place = _PLACES.get(key)
    if place is None:
        seen = np.zeros((1,) * num_axes)[stand_ins].shape
        place = _PLACES[key] = seen.index(2 if truth else 0)
    return place


def _error_of(axes: tuple[tuple[int, int], ...]) -> Callable[[int], Exception]:
    """Return what makes the exception of what a kernel reports of indices of axes of some extents."""
    if len(axes) == 1:
        return gather.error_along(*axes[0])

    def error(word: int) -> Exception:
        number, value = divmod(word - BASE, 1 << _NUMBER_BITS)
        return gather.error_along(*axes[number])(value - LIMIT)

    return error


def _distances(indices: list[_Index], layout: Layout, first: int, is_turned: list[bool]) -> Any:
    """Return the distances in elements of what several arrays of indices name, negative where it does not exist."""
    origin = 0
    operands: list[Any] = []
    for number, (index, turned) in enumerate(zip(indices, is_turned, strict=True)):
        stride, remainder = divmod(layout.strides[first + number], layout.dtype.itemsize)
        if remainder:
            raise Unsupported("elements that are not at multiples of their size from each other")
        if turned:
            origin += (index.extent - 1) * stride
            stride = -stride
        operands += [index.array, index.extent, stride]
    return apply(_distance(len(indices)), _numpys_distance, (*operands, origin), as_array=True)


@cache
def _distance(count: int) -> Operation:
    """Return the operation on indices, each with its extent and stride, and the distance where all of them are 0."""

    def lower(k: Any, *operands: Any) -> Any:
        *places, total = operands
        wrong = k.const(0, i64)
        for number in range(count):
            given, extent, stride = places[3 * number : 3 * number + 3]
            found = k.where(given < 0, given + extent, given)
            shown = k.min(k.max(given, k.const(-LIMIT, i64)), k.const(LIMIT - 1, i64))
            is_first = (wrong == 0) & ((found < 0) | (found >= extent))
            wrong = k.where(is_first, shown + (BASE + (number << _NUMBER_BITS) + LIMIT), wrong)
            total = total + found * stride
        return k.where(wrong < 0, wrong, total)

    return Operation("distance", lambda kinds: Loop((INT64,) * len(kinds), INT64, lower), weight=4.0 * count)


def _numpys_distance(*operands: Any) -> Any:
    """Do the same on the host."""
    *places, total = operands
    wrong: Any = None  # while every index exists as it is
    for number in range(len(places) // 3):
        index, extent, stride = places[3 * number : 3 * number + 3]
        given = np.asarray(index).astype(np.int64, copy=False)
        if given.size and given.min() >= 0 and given.max() < extent:  # as nearly always
            total = total + given * stride
            continue
        found = np.where(given < 0, given + extent, given)
        code = np.clip(given, -LIMIT, LIMIT - 1) + (BASE + (number << _NUMBER_BITS) + LIMIT)
        wrong = 0 if wrong is None else wrong
        wrong = np.where((wrong == 0) & ((found < 0) | (found >= extent)), code, wrong)
        total = total + found * stride
    return total if wrong is None else np.where(wrong < 0, wrong, total)


__all__ = ["BASE", "LIMIT", "Selection", "is_light", "masked_places", "on_line", "selection", "without_rest"]
