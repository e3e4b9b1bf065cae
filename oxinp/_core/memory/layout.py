"""Where the elements of an array lie inside its storage: dtype, shape, strides, offset.

A `Layout` is immutable and interned, so that an operation on two layouts is one dictionary hit. Strides and the offset
are in bytes, as NumPy's are. View arithmetic is NumPy's own: every layout owns a *ghost*, a NumPy array of that shape
and those strides over memory that is never read, and a view of the ghost says where a view of the layout lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import ge
from typing import Any

import numpy as np

from oxinp._core.memory.recent import Recent

ROOM = 1 << 15
INTERNED = Recent(ROOM)
CONTIGUOUS = Recent(ROOM)
MAX_PARTS = 512  # of a whole array that are remembered: a loop over rows must not fill the memory
MAX_NESTED_PARTS = 32  # of such a part
_SPREAD = object()  # by which `parts` of a scalar keep it broadcast
_new = object.__new__


class Layout:
    """dtype, shape, strides and offset (bytes) of an array inside one storage; made by `Layout.of` and `Layout.at`.

    Two equal layouts are usually, but not after the intern table forgot one of them, the same object: identity is a
    shortcut, `same` is the question.
    """

    __slots__ = (
        "_dense",
        "_extent",
        "_form",
        "_ghost",
        "_injective",
        "alignment",
        "dtype",
        "graph",
        "is_aligned",
        "is_contiguous",
        "met",
        "nbytes",
        "ndim",
        "offset",
        "parts",
        "read",
        "shape",
        "size",
        "strides",
    )

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    ndim: int
    size: int
    nbytes: int
    is_aligned: bool  # every element lies at a multiple of its size: a misaligned load would kill the context
    is_contiguous: bool
    alignment: int  # largest power of two, at most 256, that divides the offset: Buffers are 256-byte aligned
    met: int  # see `Recent.has_met`
    graph: Any  # the leaf Graph of this layout, made by `expr.leaf` on first use
    parts: dict[Any, tuple[Layout, bool]] | None  # what basic indices select, see `ops.index.locate`, and views
    read: Any  # the leaf Graph of its form, made by `chains.read` on first use
    _dense: Layout | None
    _extent: tuple[int, int] | None
    _form: Layout | None
    _ghost: tuple[np.ndarray[Any, Any], int] | None
    _injective: bool | None

    @staticmethod
    def of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Layout:
        """Return the C-contiguous layout of `shape` at offset 0."""
        key = (dtype, dtype.type if dtype.metadata is None else id(dtype), shape)  # as `at` has it
        layout: Layout | None = CONTIGUOUS.get(key)
        if layout is None and CONTIGUOUS.old:
            layout = CONTIGUOUS.recall(key)
        if layout is None:
            if len(shape) == 1 and shape[0]:  # which loops over ever new sizes make: found here alone
                layout = line_layout(dtype, shape[0], dtype.itemsize, 0)
            elif len(shape) == 2 and 0 not in shape:  # `at`, spelled out
                own = *key, (shape[1] * dtype.itemsize, dtype.itemsize), 0
                layout = INTERNED.get(own)
                if layout is None and INTERNED.old:
                    layout = INTERNED.recall(own)
                if layout is None:
                    if len(INTERNED) >= ROOM:
                        INTERNED.age()
                    layout = INTERNED[own] = dense_layout(dtype, shape)
            else:
                layout = Layout.at(dtype, shape, contiguous_strides(shape, dtype.itemsize), 0)
            layout._dense = layout
            if len(CONTIGUOUS) >= ROOM:
                CONTIGUOUS.age()
            CONTIGUOUS[key] = layout
        return layout

    @staticmethod
    def at(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Layout:
        """Return the layout with these strides and this offset, in bytes."""
        # Dtypes that are equal may be of different scalar types: both of C's that are uint64, records and structures.
        key = (dtype, dtype.type if dtype.metadata is None else id(dtype), shape, strides, offset)
        layout: Layout | None = INTERNED.get(key)
        if layout is None and INTERNED.old:
            layout = INTERNED.recall(key)
        if layout is None:
            if len(INTERNED) >= ROOM:
                INTERNED.age()
            layout = INTERNED[key] = make_layout(dtype, shape, strides, offset)
        return layout

    def same(self, other: Layout) -> bool:
        """Whether both describe the same elements in the same order."""
        return self is other or (
            self.offset == other.offset
            and self.shape == other.shape
            and self.strides == other.strides
            and self.dtype == other.dtype
        )

    def view(self, make_view: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Layout:
        """Return the layout of `make_view(array)`: any NumPy operation that returns a view without reading elements."""
        if self._ghost is None:
            self._ghost = _ghost(self)
        array, address = self._ghost
        seen = make_view(array)
        if seen is array:
            return self
        offset = self.offset + address_of(seen) - address
        return Layout.at(seen.dtype, seen.shape, seen.strides, offset)

    def keep_part(self, key: Any, part: tuple[Layout, bool]) -> None:
        """Remember in `parts` what a key selects; of many the older half is forgotten."""
        known = self.parts
        if known is None:
            known = self.parts = {}
        elif len(known) >= MAX_NESTED_PARTS:
            room = MAX_NESTED_PARTS if self.offset or not self.is_contiguous else MAX_PARTS
            for old in [*known][: room // 2] if len(known) >= room else ():
                known.pop(old, None)
        known[key] = part

    def select(self, parts: tuple[Any, ...]) -> Layout | None:
        """Return the layout that integers, slices, newaxis and one ellipsis select; None where NumPy is to be asked.

        It is not interned, see `parts.part_of`.

        Parameters
        ----------
        parts : tuple
            With exactly one ellipsis, so that what is selected is a view and no element.
        """
        num_axes = num_ellipses = 0
        for part in parts:
            if part is Ellipsis:
                num_ellipses += 1
            elif part is not None:
                num_axes += 1
        if num_axes > self.ndim or num_ellipses > 1:
            return None
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self.offset, 0
        for part in parts:
            if type(part) is slice:
                n, step = self.shape[axis], self.strides[axis]
                try:
                    start, stop, stride = part.indices(n)
                except (TypeError, ValueError):
                    return None
                length = len(range(start, stop, stride))
                if not length:
                    start, stride = 0, 1  # as NumPy has it
                offset += start * step
                shape.append(length)
                strides.append(step * stride)
                axis += 1
            elif type(part) is int:
                n = self.shape[axis]
                if not -n <= part < n:
                    return None
                offset += (part if part >= 0 else part + n) * self.strides[axis]
                axis += 1
            elif part is None:
                shape.append(1)
                strides.append(0)
            elif part is Ellipsis:
                end = axis + self.ndim - num_axes
                shape += self.shape[axis:end]
                strides += self.strides[axis:end]
                axis = end
            else:
                return None
        return make_layout(self.dtype, tuple(shape), tuple(strides), offset)

    def broadcast(self, shape: tuple[int, ...]) -> Layout:
        """Return this layout broadcast to `shape`, which it must be broadcastable to."""
        if shape == self.shape:
            return self
        if not self.shape:  # the latest is kept, for scalars meet the arrays of a size more than once
            parts = self.parts
            if parts is None:
                parts = self.parts = {}
            known = parts.get(_SPREAD)
            if known is None or known[0].shape != shape:
                if len(shape) == 1:
                    spread = line_layout(self.dtype, shape[0], 0, self.offset)
                else:
                    spread = make_layout(self.dtype, shape, (0,) * len(shape), self.offset)
                known = parts[_SPREAD] = spread, False
            return known[0]
        place = _SPREAD, shape
        if self.parts is None or (known := self.parts.get(place)) is None:
            lead = len(shape) - self.ndim
            pairs = zip(self.shape, shape[lead:], self.strides, strict=True)
            strides = (0,) * lead + tuple([0 if n == 1 != m else step for n, m, step in pairs])
            self.keep_part(place, known := (make_layout(self.dtype, shape, strides, self.offset), False))
        return known[0]

    @property
    def form(self) -> Layout:
        """What a kernel depends on, the offset standing for its alignment: rows of a matrix have one form, or few."""
        return self._form or form_of(self)

    def is_like(self, other: Layout) -> bool:
        """Whether another layout is the same, but for where its first element lies."""
        return other.shape == self.shape and other.strides == self.strides and other.dtype == self.dtype

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Strides counted in elements, of an aligned layout."""
        itemsize = self.dtype.itemsize
        return tuple([step // itemsize for step in self.strides])

    @property
    def is_injective(self) -> bool:
        """Whether no two indices share an element (False where that is not certain)."""
        injective = self._injective
        if injective is None:
            injective = self._injective = _is_injective(self)
        return injective

    @property
    def dense(self) -> Layout:
        """The C-contiguous layout of this dtype and shape at offset 0."""
        return self._dense or dense_of(self)

    @property
    def is_fortran(self) -> bool:
        """Whether the elements lie in Fortran order without gaps."""
        reverse = contiguous_strides(self.shape[::-1], self.dtype.itemsize)[::-1]
        return self.size == 0 or all(
            n == 1 or step == dense for n, step, dense in zip(self.shape, self.strides, reverse, strict=True)
        )

    @property
    def extent(self) -> tuple[int, int]:
        """First byte and one past the last byte that the elements touch, counted from that of index zero."""
        return self._extent or extent_of(self)

    @property
    def byte_bounds(self) -> tuple[int, int]:
        """First byte and one past the last byte of the storage that the elements touch."""
        low, high = self.extent
        return self.offset + low, self.offset + high

    def __repr__(self) -> str:
        return f"Layout({self.dtype}, shape={self.shape}, strides={self.strides}, offset={self.offset})"


def result_layout(dtype: np.dtype[Any], shape: tuple[int, ...], operands: list[Layout]) -> Layout:
    """Return the layout of a new array that results from operands: their order of axes, as NumPy's ``order="K"``."""
    if len(shape) < 2:
        return Layout.of(dtype, shape)
    for layout in operands:
        if not layout.is_contiguous:
            break
    else:
        return Layout.of(dtype, shape)
    are_columns = len(shape) == 2 and shape[0] > 1 < shape[1]
    for layout in operands:
        if layout.shape != shape:
            are_columns = False
        elif len(shape) == 2:  # `is_in_rows`, spelled out
            down, along = layout.strides
            if shape[0] > 1 < shape[1] and down >= along > 0:
                return Layout.of(dtype, shape)
            are_columns = are_columns and 0 < down < along
        elif is_in_rows(layout):
            return Layout.of(dtype, shape)
    if are_columns:
        return Layout.at(dtype, shape, (dtype.itemsize, shape[0] * dtype.itemsize), 0)
    key = tuple([_pattern(layout) for layout in operands])
    order = _ORDERS.get(key) or _ORDERS.recall(key)
    if order is None:
        order = _order_of(operands)
        _ORDERS.remember(key, order)
    dense = contiguous_strides(tuple([shape[axis] for axis in order]), dtype.itemsize)
    strides = [0] * len(shape)
    for axis, step in zip(order, dense, strict=True):
        strides[axis] = step
    return Layout.at(dtype, shape, tuple(strides), 0)


def is_in_order(layout: Layout) -> bool:
    """Whether the axes, but those of length 1, lie in memory in C order, as those of what is made of such arrays do.

    NumPy compares the strides of two axes, in its iterator and where it joins arrays, and leaves what it cannot.
    """
    last = 0
    for n, step in zip(layout.shape, layout.strides, strict=True):
        if n != 1:
            if step <= 0 or (last and step >= last):
                return False
            last = step
    return True


def is_in_rows(layout: Layout) -> bool:
    """Whether a layout's axes come in C order: then those of what is made of it and of others do, whatever these are.

    That is so where each axis has several elements and a step forward, none longer than the one before: NumPy's
    iterator changes no order that one of its operands has.
    """
    steps = layout.strides
    return min(layout.shape) > 1 and steps[-1] > 0 and all(map(ge, steps, steps[1:]))


_ORDERS = Recent(1 << 10)


def _pattern(layout: Layout) -> tuple[Any, ...]:
    """What NumPy's order of axes depends on: which axes have length 0 or 1, and how their strides compare."""
    steps = layout.strides
    ranks = sorted({abs(step) for step in steps} | {0})
    signed = [ranks.index(step) if step >= 0 else -ranks.index(-step) for step in steps]
    return tuple([min(n, 2) for n in layout.shape]), tuple(signed)


def _order_of(operands: list[Layout]) -> tuple[int, ...]:
    """Ask NumPy for the axes of a result, from the slowest to the fastest."""
    # NumPy's iterator decides on arrays of the same strides that have at most two elements per axis, and reads none.
    points = [
        np.lib.stride_tricks.as_strided(np.empty(1, x.dtype), tuple(min(n, 2) for n in x.shape), x.strides)
        for x in operands
    ]
    iterate: Any = np.nditer
    with iterate(
        [*points, None],
        ["zerosize_ok", "refs_ok"],
        [["readonly"]] * len(points) + [["writeonly", "allocate"]],
        op_dtypes=[*(x.dtype for x in operands), np.dtype(np.bool_)],
        order="K",
    ) as iterator:
        allocated = iterator.operands[-1].strides
    return tuple(sorted(range(len(allocated)), key=lambda axis: -allocated[axis]))


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return C-order strides in bytes, as NumPy computes them."""
    if len(shape) == 1 and shape[0]:
        return (itemsize,)
    if 0 in shape:  # depends on the NumPy version
        return tuple(step * itemsize for step in np.empty(shape, np.bool_).strides)
    if len(shape) == 2:
        return shape[1] * itemsize, itemsize
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def make_layout(dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Layout:
    """Return what `Layout.at` does without interning it, for who keeps it somewhere else."""
    if len(shape) == 1:
        return line_layout(dtype, shape[0], strides[0], offset)
    layout = _new(Layout)
    itemsize = dtype.itemsize
    layout.dtype = dtype
    layout.shape = shape
    layout.strides = strides
    layout.offset = offset
    lowest = offset & -offset
    layout.alignment = lowest if 0 < lowest < 256 else 256
    layout.ndim = ndim = len(shape)
    if ndim == 2:  # spelled out, for layouts of new sizes are made all the time
        (m, n), (down, along) = shape, strides
        size = m * n
        layout.is_contiguous = ((along == itemsize or n == 1) and (down == n * itemsize or m == 1)) or not size
        layout.is_aligned = itemsize <= 1 or not (offset % itemsize or down % itemsize or along % itemsize)
    else:
        size = math.prod(shape)
        is_contiguous, dense = True, itemsize
        if size:
            for n, step in zip(reversed(shape), reversed(strides), strict=True):
                if n != 1 and step != dense:
                    is_contiguous = False
                    break
                dense *= n
        layout.is_contiguous = is_contiguous
        layout.is_aligned = itemsize <= 1 or not math.gcd(offset, *strides) % itemsize
    layout.size = size
    layout.nbytes = size * itemsize
    layout.met = 0
    layout.graph = layout.parts = layout.read = None
    layout._dense = layout._extent = layout._form = layout._ghost = layout._injective = None
    return layout


def dense_layout(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Layout:
    """Return what `Layout.of` does of one or two dimensions with elements, not interned, for who keeps it."""
    if len(shape) == 1:
        return line_layout(dtype, shape[0], dtype.itemsize, 0)
    layout = _new(Layout)
    m, n = shape
    itemsize = dtype.itemsize
    layout.dtype = dtype
    layout.shape = shape
    layout.strides = n * itemsize, itemsize
    layout.offset = 0
    layout.alignment = 256
    layout.ndim = 2
    layout.is_contiguous = layout.is_aligned = layout._injective = True
    layout.size = size = m * n
    layout.nbytes = size * itemsize
    layout.met = 0
    layout.graph = layout.parts = layout.read = layout._extent = layout._ghost = None
    layout._dense = layout._form = layout
    return layout


def spread(line: Layout, shape: tuple[int, int], axis: int) -> Layout:
    """Return the layout of a vector broadcast to a matrix whose axis `axis` is the vector's; not interned."""
    (step,) = line.strides
    return make_layout(line.dtype, shape, (0, step) if axis else (step, 0), line.offset)


ACCESS_NBYTES = 32
"""Bytes up to which it makes a difference to kernels what an address is a multiple of."""


def accessed(layout: Layout) -> int:
    """Return the alignment that the form of a layout has."""
    return min(layout.alignment, ACCESS_NBYTES) if layout.offset else layout.alignment


def form_of(layout: Layout) -> Layout:
    """Find `Layout.form`: the interned layout of the same elements from an offset on that is as much aligned.

    So rows of a matrix have few forms, and what is recorded of one is found for the next.
    """
    offset = layout.offset and min(layout.alignment, ACCESS_NBYTES)
    if offset == layout.offset and layout.ndim:  # elements have few forms, which are one object each
        layout._form = layout
        return layout
    dtype = layout.dtype
    key = dtype, dtype.type if dtype.metadata is None else id(dtype), layout.shape, layout.strides, offset
    found: Layout | None = INTERNED.get(key)
    if found is None and INTERNED.old:
        found = INTERNED.recall(key)
    if found is None:
        if len(INTERNED) >= ROOM:
            INTERNED.age()
        found = INTERNED[key] = _new(Layout)
        found.dtype = dtype
        found.shape = layout.shape
        found.strides = layout.strides
        found.offset = offset
        found.ndim = layout.ndim
        found.size = layout.size
        found.nbytes = layout.nbytes
        found.is_aligned = layout.is_aligned
        found.is_contiguous = layout.is_contiguous
        found.alignment = offset or layout.alignment
        found._extent, found._injective = layout._extent, layout._injective
        found.met = 0
        found.graph = found.parts = found.read = found._form = found._ghost = None
        found._dense = layout._dense
    elif found._dense is None:
        found._dense = layout._dense
    layout._form = found
    return found


def extent_of(layout: Layout) -> tuple[int, int]:
    """Find `Layout.extent`."""
    low = high = 0
    if layout.size:
        for step, n in zip(layout.strides, layout.shape, strict=True):
            if step < 0:
                low += step * (n - 1)
            else:
                high += step * (n - 1)
        high += layout.dtype.itemsize
    layout._extent = extent = low, high
    return extent


def dense_of(layout: Layout) -> Layout:
    """Find `Layout.dense`."""
    layout._dense = dense = Layout.of(layout.dtype, layout.shape)
    return dense


def line_layout(dtype: np.dtype[Any], size: int, step: int, offset: int) -> Layout:
    """Return what `make_layout` does of one dimension."""
    layout = _new(Layout)
    itemsize = dtype.itemsize
    layout.dtype = dtype
    layout.shape = (size,)
    layout.strides = (step,)
    layout.offset = offset
    layout.ndim = 1
    layout.size = size
    layout.nbytes = size * itemsize
    layout.is_contiguous = step == itemsize or size <= 1
    layout.is_aligned = itemsize <= 1 or not (offset % itemsize or step % itemsize)
    if offset:
        lowest = offset & -offset
        layout.alignment = min(256, lowest)
        layout._dense = None
    else:
        layout.alignment = 256
        layout._dense = layout if step == itemsize and size else None
    layout.met = 0
    layout.graph = layout.parts = layout.read = None
    layout._extent = layout._form = layout._ghost = None
    layout._injective = step >= itemsize or -step >= itemsize or size < 2
    return layout


def _is_injective(layout: Layout) -> bool:
    if layout.size < 2:
        return True
    if layout.ndim == 1:
        return abs(layout.strides[0]) >= layout.dtype.itemsize
    reach = layout.dtype.itemsize
    for step, n in sorted((abs(step), n) for step, n in zip(layout.strides, layout.shape, strict=True) if n > 1):
        if step < reach:
            return False
        reach = step * (n - 1) + reach
    return True


def _ghost(layout: Layout) -> tuple[np.ndarray[Any, Any], int]:
    try:
        array = np.lib.stride_tricks.as_strided(np.empty(1, layout.dtype), layout.shape, layout.strides)
    except TypeError:  # of a dtype of somebody's own, which no array interface names
        low, high = layout.extent
        array = np.ndarray(layout.shape, layout.dtype, np.empty(high - low, np.uint8), -low, layout.strides)
    return array, address_of(array)


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return where an array's first element lies, in bytes."""
    # Not `__array_interface__`, which is slower and warns of the result of `broadcast_arrays`.
    return array.ctypes.data
