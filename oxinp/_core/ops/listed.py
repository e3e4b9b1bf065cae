"""Keys that begin with a list of a few integers, as in ``a[[i, j]] = a[[j, i]]``: rows are copied one by one.

Rows with gaps are a part of the array where the integers are evenly spaced, as any two are, which may be equal. What is
read is a copy of the part.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from oxinp._core.lazy import explain, schedule
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.calls import CALLS
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.handle import Handle
from oxinp._core.lazy.placement import accesses, device, followers
from oxinp._core.lazy.results import types, wrap_result
from oxinp._core.lazy.views import view_at
from oxinp._core.lazy.writing import flush_readers, note_written
from oxinp._core.manipulation.copy import copy
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.parts import part_of
from oxinp._core.memory.storage import SHARED, Storage, next_mask
from oxinp._core.ops.keys import INTEGERS
from oxinp._runtime import here
from oxinp._runtime.memory import Buffer

__all__ = ["as_part", "read", "write"]

MOST = 8
"""Integers that are looked at, one by one."""
MOST_COPIED = 4
"""Rows that are copied one by one: to copy each takes about as long as to launch a kernel."""
_NUMBERS = frozenset({int, *INTEGERS})
_SLICES = frozenset({slice})
_FIRST = slice(0, 1)


def read(array: Handle, key: Any) -> Any:
    """Return a copy of the rows that a key's list of integers selects from an array on the device.

    None where the rows are many, or have gaps and are not evenly spaced: that takes a gather.
    """
    if type(array) is not types.ndarray:
        return None
    layout = array._known or array._layout
    rows = _rows(array, layout, key)
    if rows is not None and (found := attempt(_gathered, array._held, *rows)) is not None:
        return found
    selected = _selected(layout, key)
    # Others' elements lie in another order in NumPy's result.
    if selected is None or not (layout.ndim < 3 or layout.is_contiguous):
        return None
    part, _, step, count = selected
    if not step:
        part = Layout.at(part.dtype, (count, *part.shape[1:]), (0, *part.strides[1:]), part.offset)
    return copy(view_at(array, part))


def write(array: Handle, key: Any, value: Any) -> bool:
    """Assign a new array to the rows that a key lists, of an array on the device; tell whether that has been done."""
    if type(value) is not types.ndarray or type(value._held) is not Storage or value._held is array._held:
        return False
    layout, given = array._known or array._layout, value._known or value._layout
    if given.dtype is not layout.dtype or given.offset or not given.is_contiguous:
        return False
    rows = _rows(array, layout, key)
    if rows is None or given.shape != (len(rows[0]), *rows[1].shape[1:]):
        return False
    storage = array._held
    if (accesses or followers) and ((reference := ref(storage)) in accesses or reference in followers):
        return False
    done: bool = attempt(_scattered, storage, *rows, value._held)
    return done


def _rows(array: Handle, layout: Layout, key: Any) -> tuple[list[int], Layout] | None:
    """Return where the rows begin that a key of a list, and of slices behind it, selects, and the layout of the first.

    None unless each lies without gaps, of an array that belongs on the one device, and nobody watches.
    """
    if type(array._held) is not Storage or here.are_several or explain.REPORTS or schedule.room < 0:
        return None
    rest: Any = ()
    if type(key) is tuple:
        key, *rest = key
    if not 0 < len(key) <= MOST_COPIED or len(rest) >= layout.ndim or layout.dtype not in DEVICE_TYPES:
        return None
    if not (_NUMBERS.issuperset(map(type, key)) and _SLICES.issuperset(map(type, rest))):
        return None
    extent, pitch = layout.shape[0], layout.strides[0]
    indices = [int(index) + extent * (index < 0) for index in key]
    if min(indices) < 0 or max(indices) >= extent or layout.nbytes < balance.limit:
        return None
    located = part_of(layout, (_FIRST, *rest) if rest else _FIRST)
    if located is None or not located[0].is_contiguous or not located[0].size:
        return None
    first = located[0].offset
    return [first + pitch * index for index in indices], located[0]


def _memory(storage: Storage) -> Any:
    """Return the memory of what has been computed and is on the device alone; None of anything else."""
    value = storage.value
    if storage.host is not None or storage.stale is not None or type(value) is not tuple or value[0].nodes:
        return None
    entry = value[1][0]
    return entry if type(entry) is Buffer else entry._buffer  # None as long as a call waits


def _gathered(storage: Storage, starts: list[int], row: Layout) -> Any:
    """Return an array of rows, under the lock; None where nothing has been done."""
    layout, nbytes = Layout.of(row.dtype, (len(starts), *row.shape[1:])), row.nbytes
    backend = device()
    made = backend.allocate(layout.nbytes)
    buffer = _memory(storage)
    if buffer is None:
        return None
    start = buffer.ptr
    backend.copy_each([(made.ptr + place * nbytes, start + at, nbytes) for place, at in enumerate(starts)])
    balance.ran(layout.nbytes, (buffer,))
    return wrap_result((layout.graph or leaf(layout), (made,), next_mask()))


def _scattered(storage: Storage, starts: list[int], row: Layout, given: Storage) -> bool:
    """Copy rows to where they belong, the last one last, under the lock; False where nothing has been done."""
    value: Any = storage.value
    buffer, source, nbytes = _memory(storage), _memory(given), row.nbytes
    if buffer is None or source is None or buffer is source:
        return False
    graph, _, mask = value
    if mask & SHARED:
        return False
    if CALLS or schedule.PENDING:
        flush_readers(value)
    if storage.value is not value:  # memory for these may have taken it
        return False
    start, first = buffer.ptr, source.ptr
    device().copy_each([(start + at, first + place * nbytes, nbytes) for place, at in enumerate(starts)])
    balance.ran(graph.layout.nbytes, (source,))
    note_written(storage)
    return True


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
