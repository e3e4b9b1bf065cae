"""Keys that begin with a list of a few integers, as in ``a[[i, j]] = a[[j, i]]``: what they select is a part.

So it is where the integers are evenly spaced, as any two are, which may be equal. What is read is a copy of the part.
"""

from __future__ import annotations

from typing import Any

from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import view_at
from oxinp._core.manipulation.copy import copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.parts import part_of
from oxinp._core.ops.keys import INTEGERS

__all__ = ["as_part", "read"]

MOST = 8
"""Integers that are looked at, one by one."""
_NUMBERS = frozenset({int, *INTEGERS})
_SLICES = frozenset({slice})


def read(array: Handle, key: Any) -> Any:
    """Return what an array on the device has at a key that begins with a list; None where it is no part."""
    layout = array._known or array._layout
    found = _selected(layout, key)
    # Others' elements lie in another order in NumPy's result.
    if found is None or type(array) is not types.ndarray or not (layout.ndim < 3 or layout.is_contiguous):  # noqa: PLR2004
        return None
    part, _, step, count = found
    if not step:
        part = Layout.at(part.dtype, (count, *part.shape[1:]), (0, *part.strides[1:]), part.offset)
    return copy(view_at(array, part))


def as_part(array: Handle, key: Any, value: Any) -> tuple[Any, Any] | None:
    """Return the basic key by which another array is assigned to where a key that begins with a list says, and that.

    None where it is no part, or the other array is not just what fits there.
    """
    if type(value) is not types.ndarray or (value._held or value._storage) is (array._held or array._storage):
        return None
    layout, given = array._known or array._layout, value._known or value._layout
    found = _selected(layout, key)
    if found is None:
        return None
    part, rows, step, count = found
    if given.dtype is not layout.dtype or given.shape != (count, *part.shape[1:]):
        return None
    if step:
        return rows, value
    last = part_of(given, slice(count - 1, count))  # which is written last, to where all are
    return None if last is None else (rows, view_at(value, last[0]))


def _selected(layout: Layout, key: Any) -> tuple[Layout, Any, int, int] | None:
    """Return what a key of a list, and of slices behind it, selects; None where it is no part of an array in a layout.

    Returns
    -------
    part : Layout
    key : slice, or tuple of slice
        Which selects it.
    step, count : int
        From one index to the next, and how many there are: the part has the first one alone where they are equal.
    """
    rest: Any = ()
    if type(key) is tuple:
        key, *rest = key
    count = len(key)
    if not 0 < count <= MOST or len(rest) >= layout.ndim or layout.dtype not in DEVICE_TYPES or not layout.is_aligned:
        return None
    if not (_NUMBERS.issuperset(map(type, key)) and _SLICES.issuperset(map(type, rest))):
        return None
    extent = layout.shape[0]
    indices = [int(index) + extent * (index < 0) for index in key]
    first, step = indices[0], indices[count > 1] - indices[0]
    for place, index in enumerate(indices):
        if index != first + step * place or not 0 <= index < extent:
            return None
    stop = first + step * count if step else first + 1
    rows: Any = slice(first, None if stop < 0 else stop, step or 1)
    if rest:
        rows = (rows, *rest)
    located = part_of(layout, rows)
    return None if located is None else (located[0], rows, step, count)
