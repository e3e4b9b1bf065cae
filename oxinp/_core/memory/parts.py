"""What the commonest keys select of a layout, by arithmetic: integers and slices of one axis or several, newaxis."""

from __future__ import annotations

from typing import Any

from oxinp._core.memory.layout import MAX_NESTED_PARTS, Layout, line_layout, make_layout

PART = object()
"""What numbers follow where `Layout.parts` keep what slices and tuples select: how many axes these are of, the offset,
the lengths and the strides of what is left of them.

Numbers alone are keys that users give, of more integers than there are axes, too.
"""

MAX_KEY = 32  # longer ones may have more than NumPy's dimensions


def part_of(layout: Layout, key: Any) -> tuple[Layout, bool] | None:
    """Return the layout that a key selects, and whether NumPy would give a scalar; None where that is to be found out.

    It is kept in `Layout.parts` by the numbers of the elements that it selects, and not interned: of ever new slices
    nothing is left.
    """
    known, shape = layout.parts, layout.shape
    place: Any
    if type(key) is slice and shape:
        try:
            start, stop, stride = key.indices(shape[0])
        except (TypeError, ValueError):
            return None
        length = stop - start if stride == 1 else len(range(start, stop, stride))
        if length <= 0:
            length, start, stride = 0, 0, 1  # as NumPy has it
        step = layout.strides[0]
        offset = layout.offset + start * step
        place = PART, 1, offset, length, step * stride
        if known is not None and (located := known.get(place)) is not None:
            return located
        if len(shape) == 1:
            part = line_layout(layout.dtype, length, step * stride, offset)
        else:
            strides = step * stride, *layout.strides[1:]
            part = make_layout(layout.dtype, (length, *shape[1:]), strides, offset)
        located = part, False
    elif type(key) is tuple:
        return (_part_of_matrix(layout, key) if len(key) == 2 == len(shape) else None) or _part_of_axes(layout, key)
    elif type(key) is int and shape:
        n = shape[0]
        if not -n <= key < n:
            return None
        place = start = key if key >= 0 else key + n
        if known is not None and (located := known.get(place)) is not None:
            return located
        part = make_layout(layout.dtype, shape[1:], layout.strides[1:], layout.offset + start * layout.strides[0])
        located = part, len(shape) == 1
    else:
        return (layout, False) if key is ... else None
    part._injective = layout._injective or layout.is_injective or None  # parts of what overlaps may not
    if known is None or not len(known) % MAX_NESTED_PARTS:  # else there is room
        layout.keep_part(place, located)
    else:
        known[place] = located
    return located


def _part_of_matrix(layout: Layout, key: tuple[Any, Any]) -> tuple[Layout, bool] | None:
    """Return what `_part_of_axes` does of a matrix and two integers or slices, spelled out."""
    first, second = key
    (m, n), (down, along) = layout.shape, layout.strides
    known = layout.parts
    if type(second) is slice:
        try:
            begin, end, step = second.indices(n)
        except (TypeError, ValueError):
            return None
        columns = end - begin if step == 1 else len(range(begin, end, step))
        if columns <= 0:
            columns, begin, step = 0, 0, 1  # as NumPy has it
    elif type(second) is int and -n <= second < n:
        columns, begin, step = -1, second if second >= 0 else second + n, 0
    else:
        return None
    if type(first) is slice:
        try:
            start, stop, stride = first.indices(m)
        except (TypeError, ValueError):
            return None
        rows = stop - start if stride == 1 else len(range(start, stop, stride))
        if rows <= 0:
            rows, start, stride = 0, 0, 1
    elif type(first) is int and -m <= first < m:
        rows, start, stride = -1, first if first >= 0 else first + m, 0
    else:
        return None
    offset = layout.offset + start * down + begin * along
    place: tuple[Any, ...]
    if columns < 0:
        place = (PART, 2, offset) if rows < 0 else (PART, 2, offset, rows, down * stride)
    elif rows < 0:
        place = PART, 2, offset, columns, along * step
    else:
        place = PART, 2, offset, rows, columns, down * stride, along * step
    if known is not None and (located := known.get(place)) is not None:
        return located
    if rows >= 0 <= columns:
        part = make_layout(layout.dtype, (rows, columns), (down * stride, along * step), offset)
    elif rows >= 0:
        part = line_layout(layout.dtype, rows, down * stride, offset)
    elif columns >= 0:
        part = line_layout(layout.dtype, columns, along * step, offset)
    else:
        part = make_layout(layout.dtype, (), (), offset)
    part._injective = layout._injective or layout.is_injective or None
    located = part, rows < 0 > columns
    if known is None or not len(known) % MAX_NESTED_PARTS:  # else there is room
        layout.keep_part(place, located)
    else:
        known[place] = located
    return located


def _part_of_axes(layout: Layout, key: tuple[Any, ...]) -> tuple[Layout, bool] | None:
    """Return what `part_of` does of integers, slices and newaxis, for the first axes."""
    if len(key) > MAX_KEY:
        return None
    lengths, steps, offset = layout.shape, layout.strides, layout.offset
    shape: list[int] = []
    strides: list[int] = []
    axis, ndim = 0, len(lengths)
    for part in key:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        if axis == ndim:
            return None
        n, step = lengths[axis], steps[axis]
        axis += 1
        if type(part) is slice:
            try:
                start, stop, stride = part.indices(n)
            except (TypeError, ValueError):
                return None
            length = stop - start if stride == 1 else len(range(start, stop, stride))
            if length <= 0:
                length, start, stride = 0, 0, 1  # as NumPy has it
            shape.append(length)
            strides.append(step * stride)
            offset += start * step
        elif type(part) is int and -n <= part < n:
            offset += (part if part >= 0 else part + n) * step
        else:
            return None
    place = PART, axis, offset, *shape, *strides
    known = layout.parts
    if known is not None and (located := known.get(place)) is not None:
        return located
    if axis < ndim:
        shape += lengths[axis:]
        strides += steps[axis:]
    part = make_layout(layout.dtype, tuple(shape), tuple(strides), offset)
    part._injective = layout._injective or layout.is_injective or None
    located = part, not shape
    if known is None or not len(known) % MAX_NESTED_PARTS:  # else there is room
        layout.keep_part(place, located)
    else:
        known[place] = located
    return located


__all__ = ["MAX_KEY", "PART", "part_of"]
