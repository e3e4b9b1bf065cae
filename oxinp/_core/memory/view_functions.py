"""NumPy's functions that make views, as arithmetic on layouts: one row each.

A row says where the view lies without an array of NumPy's being made. Where an argument is not a plain one (an integer
that is out of range, a sequence of another type), or where NumPy makes a copy, it says nothing and NumPy is asked,
whose errors are then the ones that users see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oxinp._core.memory.layout import Layout, contiguous_strides, make_layout

Move = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and offset."""


class NotPlain(Exception):
    """NumPy has to be asked."""


class IsCopied(NotPlain):
    """NumPy copies, to a shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape


class ViewRow(NamedTuple):
    """A function that makes a view.

    Attributes
    ----------
    move : callable
        ``move(layout, *args)`` -> shape, strides and offset of the view; raises NotPlain.
    names : tuple of str
        Of the arguments after the array.
    num_needed : int
        How many of them, the first ones, have no default.
    is_writeable : bool
        Whether NumPy lets the view be written to.
    method : callable or None
        NumPy's method that does the same with as many positional arguments as there are names.
    """

    move: Callable[..., Move]
    names: tuple[str, ...] = ()
    num_needed: int = 0
    is_writeable: bool = True
    method: Callable[..., Any] | None = None


def fastest(row: ViewRow, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what does on NumPy's arrays what a function of a row does with positional arguments."""
    return row.method if row.method is not None and row.num_needed <= len(args) <= len(row.names) else function


def view_layout(row: ViewRow, layout: Layout, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Layout | None:
    """Return the layout of the view that a function makes of what lies in a layout; None where NumPy has to be asked.

    Parameters
    ----------
    row : ViewRow
    layout : Layout
    args, kwargs
        The function's arguments after the array.
    """
    if not kwargs and (not args or _is_plain(args)):
        key = row.move, args
        known = layout.parts
        if known is not None and (found := known.get(key)) is not None:
            return found[0]
        try:
            if not row.num_needed <= len(args) <= len(row.names):
                return None
            shape, strides, offset = row.move(layout, *args)
        except NotPlain:
            return None
        made = make_layout(layout.dtype, shape, strides, offset)
        if made._dense is None and shape == layout.shape:
            made._dense = layout._dense
        if known is None:
            layout.parts = {key: (made, False)}
        else:
            layout.keep_part(key, (made, False))
        return made
    try:
        return Layout.at(layout.dtype, *row.move(layout, *args, **kwargs)) if _takes(row, args, kwargs) else None
    except NotPlain:
        return None


def _is_plain(args: tuple[Any, ...]) -> bool:
    """Whether arguments are integers, or tuples of such: what is equal means the same."""
    for value in args:
        if type(value) is tuple:
            for number in value:
                if type(number) is not int:
                    return False
        elif type(value) is not int:
            return False
    return True


def _takes(row: ViewRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function takes these arguments after the array."""
    names = row.names
    count = len(args)
    if count > len(names) or (kwargs and not kwargs.keys() <= {*names[count:]}):
        return False
    for name in names[count : row.num_needed]:  # noqa: SIM110 - `all` costs more than the rest
        if name not in kwargs:
            return False
    return True


def _axis(axis: Any, ndim: int) -> int:
    if type(axis) is not int or not -ndim <= axis < ndim:
        raise NotPlain
    return axis if axis >= 0 else axis + ndim


def _axes(given: Any, ndim: int) -> tuple[int, ...]:
    """One axis or several, each once, not negative."""
    if type(given) is not tuple:
        return (_axis(given, ndim),)
    found = tuple([_axis(axis, ndim) for axis in given])
    if len(set(found)) != len(found):
        raise NotPlain
    return found


def _lengths(shape: Any) -> tuple[int, ...]:
    lengths = shape if type(shape) is tuple else (shape,)
    for n in lengths:
        if type(n) is not int or n < -1:
            raise NotPlain
    return lengths


def _permuted(layout: Layout, axes: Any) -> Move:
    shape, strides = layout.shape, layout.strides
    return tuple([shape[a] for a in axes]), tuple([strides[a] for a in axes]), layout.offset


def _flipped(layout: Layout, axes: Any) -> Move:
    shape, strides, offset = layout.shape, layout.strides, layout.offset
    if len(shape) == 1 and axes and shape[0]:
        (n,), (step,) = shape, strides
        return shape, (-step,), offset + (n - 1) * step
    steps = list(strides)
    for axis in axes:
        if shape[axis]:  # what is empty stays as it is
            offset += (shape[axis] - 1) * strides[axis]
            steps[axis] = -strides[axis]
    return shape, tuple(steps), offset


def flip(layout: Layout, axis: Any = None) -> Move:
    """See `numpy.flip`."""
    shape = layout.shape
    if axis is None and len(shape) == 1 and shape[0]:  # the most common, spelled out
        (n,), (step,) = shape, layout.strides
        return shape, (-step,), layout.offset + (n - 1) * step
    if not shape:  # of which NumPy returns the element
        raise NotPlain
    return _flipped(layout, range(layout.ndim) if axis is None else _axes(axis, layout.ndim))


def _flip_at(axis: int) -> Callable[[Layout], Move]:
    def flip_there(layout: Layout) -> Move:
        if layout.ndim <= axis:
            raise NotPlain
        return _flipped(layout, (axis,))

    return flip_there


def transpose(layout: Layout, axes: Any = None) -> Move:
    """See `numpy.transpose`."""
    if axes is None:
        return layout.shape[::-1], layout.strides[::-1], layout.offset
    if type(axes) not in (tuple, list) or len(axes) != layout.ndim:
        raise NotPlain
    return _permuted(layout, _axes(tuple(axes), layout.ndim))


def matrix_transpose(layout: Layout) -> Move:
    """See `numpy.matrix_transpose`."""
    if layout.ndim < 2:
        raise NotPlain
    *outer, m, n = range(layout.ndim)
    return _permuted(layout, (*outer, n, m))


def swapaxes(layout: Layout, axis1: Any, axis2: Any) -> Move:
    """See `numpy.swapaxes`."""
    first, second = _axis(axis1, layout.ndim), _axis(axis2, layout.ndim)
    axes = list(range(layout.ndim))
    axes[first], axes[second] = second, first
    return _permuted(layout, axes)


def moveaxis(layout: Layout, source: Any, destination: Any) -> Move:
    """See `numpy.moveaxis`."""
    sources, places = _axes(source, layout.ndim), _axes(destination, layout.ndim)
    if len(sources) != len(places):
        raise NotPlain
    order = [axis for axis in range(layout.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return _permuted(layout, order)


def rollaxis(layout: Layout, axis: Any, start: Any = 0) -> Move:
    """See `numpy.rollaxis`."""
    ndim = layout.ndim
    axis = _axis(axis, ndim)
    if type(start) is not int or not -ndim <= start <= ndim:
        raise NotPlain
    start = start if start >= 0 else start + ndim
    order = [other for other in range(ndim) if other != axis]
    order.insert(start - (axis < start), axis)
    return _permuted(layout, order)


def squeeze(layout: Layout, axis: Any = None) -> Move:
    """See `numpy.squeeze`."""
    shape = layout.shape
    gone = [a for a, n in enumerate(shape) if n == 1] if axis is None else _axes(axis, layout.ndim)
    if axis is None and not gone:  # NumPy returns the array itself
        raise NotPlain
    for a in gone:
        if shape[a] != 1:
            raise NotPlain
    return _permuted(layout, [a for a in range(layout.ndim) if a not in gone])


def reshape(layout: Layout, shape: Any) -> Move:
    """See `numpy.reshape`, in C order; NotPlain also where NumPy copies."""
    target = shape if type(shape) is tuple else (shape,)
    if len(target) == 2 and layout.is_contiguous and layout.size and target != layout.shape:
        return _as_matrix(layout, *target)
    size, free = 1, -1
    for place, n in enumerate(target):
        if type(n) is not int or n < -1 or (n < 0 <= free):
            raise NotPlain
        if n < 0:
            free = place
        else:
            size *= n
    if target == layout.shape:
        return target, layout.strides, layout.offset
    if free >= 0:
        if not size or layout.size % size:
            raise NotPlain
        target = (*target[:free], layout.size // size, *target[free + 1 :])
        size = layout.size
    if not layout.size or not layout.is_contiguous:
        return target, _strides_of(layout, target), layout.offset
    if size != layout.size:
        raise NotPlain
    return target, contiguous_strides(target, layout.dtype.itemsize), layout.offset


def shape_of_copy(layout: Layout, shape: Any) -> tuple[int, ...] | None:
    """Return the shape that `numpy.reshape` copies to; None where it does not, or NumPy is to be asked."""
    if layout.ndim < 2:
        return None
    try:
        reshape(layout, shape)
    except IsCopied as told:
        return told.shape
    except NotPlain:
        pass
    return None


def _as_matrix(layout: Layout, m: Any, n: Any) -> Move:
    """Do as `reshape` for elements without gaps, and a shape of two axes that is another one."""
    if type(m) is not int or type(n) is not int:
        raise NotPlain
    size, itemsize = layout.size, layout.dtype.itemsize
    if m == -1 and n > 0:
        m = size // n
    elif n == -1 and m > 0:
        n = size // m
    if m < 0 or m * n != size:
        raise NotPlain
    return (m, n), (n * itemsize, itemsize), layout.offset


def _strides_of(layout: Layout, target: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a layout of another shape: axes that are merged or divided have to lie at regular distances."""
    loops = [(n, step) for n, step in zip(layout.shape, layout.strides, strict=True) if n != 1]
    strides: list[int] = []
    size = 1
    for n in target:
        size *= n
    if not size or size != layout.size:  # the strides of what is empty depend on the NumPy version
        raise NotPlain
    old = new = 0
    while new < len(target) and old < len(loops):
        first = new
        length, (wanted, step) = target[new], loops[old]
        new, old = new + 1, old + 1
        while length != wanted:
            if length < wanted:
                length *= target[new]
                new += 1
            else:
                n, inner = loops[old]
                if step != n * inner:
                    raise IsCopied(target)
                wanted, step, old = wanted * n, inner, old + 1
        steps = [step]
        for n in target[new - 1 : first : -1]:
            steps.append(steps[-1] * n)
        strides += steps[::-1]
    last = strides[-1] if strides else layout.dtype.itemsize
    return (*strides, *[last] * (len(target) - new))


def expand_dims(layout: Layout, axis: Any) -> Move:
    """See `numpy.expand_dims`."""
    count = layout.ndim + (len(axis) if type(axis) is tuple else 1)
    added = _axes(axis, count)
    lengths = iter(layout.shape)
    return reshape(layout, tuple([1 if a in added else next(lengths) for a in range(count)]))


def broadcast_to(layout: Layout, shape: Any) -> Move:
    """See `numpy.broadcast_to`."""
    target = _lengths(shape)
    lead = len(target) - layout.ndim
    if lead < 0 or -1 in target:
        raise NotPlain
    strides = [0] * lead
    for n, length, step in zip(layout.shape, target[lead:], layout.strides, strict=True):
        if n not in (1, length):
            raise NotPlain
        strides.append(step if n == length != 1 else 0)
    if 0 in target:
        raise NotPlain
    return target, tuple(strides), layout.offset


def atleast_2d(layout: Layout) -> Move:
    """See `numpy.atleast_2d`, of what has one dimension."""
    if layout.ndim != 1:
        raise NotPlain
    return (1, *layout.shape), (0, *layout.strides), layout.offset


def rot90(layout: Layout, k: Any = 1, axes: Any = (0, 1)) -> Move:
    """See `numpy.rot90`."""
    if type(k) is not int or type(axes) not in (tuple, list) or len(axes) != 2:
        raise NotPlain
    first, second = _axes(tuple(axes), layout.ndim)
    order = list(range(layout.ndim))
    order[first], order[second] = second, first
    turned = ((), (second,), (first, second), (first,))[k % 4]
    shape, strides, offset = _flipped(layout, turned)
    if k % 2:
        return tuple([shape[a] for a in order]), tuple([strides[a] for a in order]), offset
    return shape, strides, offset


def diagonal(layout: Layout, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Move:
    """See `numpy.diagonal`."""
    first, second = _axes((axis1, axis2), layout.ndim)
    if type(offset) is not int:
        raise NotPlain
    shape, strides = layout.shape, layout.strides
    down, along = (-offset, 0) if offset < 0 else (0, offset)
    length = min(shape[first] - down, shape[second] - along)
    start = layout.offset + (down * strides[first] + along * strides[second]) * (length > 0)
    kept = [a for a in range(layout.ndim) if a not in (first, second)]
    return (
        (*[shape[a] for a in kept], max(length, 0)),
        (*[strides[a] for a in kept], strides[first] + strides[second]),
        start,
    )


_ROWS = {
    "broadcast_to": ViewRow(broadcast_to, ("shape",), 1, is_writeable=False),
    "diagonal": ViewRow(diagonal, ("offset", "axis1", "axis2"), is_writeable=False),
    "atleast_2d": ViewRow(atleast_2d),
    "expand_dims": ViewRow(expand_dims, ("axis",), 1),
    "flip": ViewRow(flip, ("axis",)),
    "fliplr": ViewRow(_flip_at(1)),
    "flipud": ViewRow(_flip_at(0)),
    "matrix_transpose": ViewRow(matrix_transpose),
    "moveaxis": ViewRow(moveaxis, ("source", "destination"), 2),
    "reshape": ViewRow(reshape, ("shape",), 1),
    "rollaxis": ViewRow(rollaxis, ("axis", "start"), 1),
    "rot90": ViewRow(rot90, ("k", "axes")),
    "squeeze": ViewRow(squeeze, ("axis",)),
    "swapaxes": ViewRow(swapaxes, ("axis1", "axis2"), 2),
    "transpose": ViewRow(transpose, ("axes",)),
}
# THE TABLE: function of NumPy's -> its row. Aliases (permute_dims is transpose) are the same object.
VIEWS: dict[Any, ViewRow] = {
    getattr(np, name): row._replace(method=getattr(np.ndarray, name, None))
    for name, row in _ROWS.items()
    if hasattr(np, name)
}
