"""Indexing: basic keys, read and write; masks and arrays of integers as far as `gather` goes. The rest is NumPy's."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core.errors.hearing import put
from oxinp._core.errors.state import current, quiet
from oxinp._core.host.fallback import call, is_new, placed_on_host
from oxinp._core.lazy import explain, placement, schedule, selections, straight, windows
from oxinp._core.lazy.array_protocol import REFUSAL, accepted
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.calls import is_waiting
from oxinp._core.lazy.chains import copying, entry_at
from oxinp._core.lazy.expr import Unsupported, reading
from oxinp._core.lazy.handle import (
    Handle,
    begin_writing,
    device_value,
    end_writing,
    expression,
    fetch,
    fetch_storage,
    host_and_view,
    host_view,
)
from oxinp._core.lazy.placement import SMALL_NBYTES
from oxinp._core.lazy.record import COPY, express, settled
from oxinp._core.lazy.results import is_device_scalar, types, wrap_host, wrap_pending
from oxinp._core.lazy.scalars import KINDS, note_source, value_of
from oxinp._core.lazy.selections import Masked
from oxinp._core.lazy.stores import store
from oxinp._core.lazy.views import host_part, view, view_at
from oxinp._core.manipulation.copy import assign, copy, single
from oxinp._core.memory.dtypes import BOOL, DEVICE_TYPES
from oxinp._core.memory.host_side import is_dense
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.parts import part_of
from oxinp._core.memory.storage import LINES_NBYTES, SHARED, SIDES, WRITING, Stale, Storage
from oxinp._core.ops import advanced, again, listed, masks
from oxinp._core.ops.by_key import (
    FIRST_AXIS,
    fill,
    fill_all,
    key_on_host,
    scatter_values,
    selected,
    write_again,
    write_at,
    write_masked,
)
from oxinp._core.ops.keys import (
    as_view_key,
    is_basic,
    locate,
    located_part,
    selects_element,
    with_integers,
    with_values,
)
from oxinp._core.subclass import SUBCLASSES
from oxinp._core.subclass import plain as without_class
from oxinp._runtime.memory import Buffer

_accesses, _followers = placement.accesses, placement.followers

_NumpyArray = np.ndarray
_Generic = np.generic
_PLAIN = frozenset({bool, int, float})
_ALL = slice(None)


def getitem(array: Handle, key: Any) -> Any:
    """Return ``array[key]``: a view, or for one element a scalar."""
    if type(key) is types.ndarray and (
        (key._known is None and type(key._held) is Masked and key._held.selection.layout.dtype is BOOL)
        or (key._known or (key._seen if key._held is None else key._layout)).ndim
    ):
        found = selections.select(array, key) if type(array) is types.ndarray else None
        return _gathered_now(array, key) if found is None else found
    storage = array._held or array._storage
    host = storage.host
    located = None
    if host is None:
        layout = whole = array._known or array._layout
        value = storage.value
        if type(value) is windows.Windowed and (found := windows.element_at(value, layout, key)) is not None:
            return found
        kind = type(key)
        if (kind is list or (kind is tuple and key and type(key[0]) is list)) and (
            found := listed.read(array, key)
        ) is not None:
            return found
        parts = layout.parts
        if parts is None or type(key) is not int or (located := parts.get(key)) is None:
            located = part_of(layout, key)
        if located is None:
            located = located_part(layout, key)
        elif not _accesses:  # `placement.wants_mirror`, spelled out
            part, is_element = located
            if part.nbytes > SMALL_NBYTES and not is_element:
                return _part_at(array, part, key)
    if located is None and not is_basic(key):
        valued = with_values(key)
        return _gathered_now(array, key) if valued is key else getitem(array, valued)
    if host is None:
        layout, is_element = locate(layout, key) if located is None else located
        if layout.nbytes > SMALL_NBYTES and not is_element:  # `wants_mirror`, spelled out
            if not _accesses:
                return _part_at(array, layout, key)
            value = storage.value
            if value is not None and value[0].layout.nbytes >= balance.limit and ref(storage) not in _accesses:
                return _part_at(array, layout, key)
        if is_element and not (layout.is_aligned and layout.dtype in DEVICE_TYPES):
            return fetch(view_at(array, layout))[()]
        value = storage.value
        is_large = value is not None and value[0].layout.nbytes >= placement.MIN_WINDOWED_NBYTES
        if is_element and is_large and (found := windows.element(storage, layout, whole)) is not None:
            return found
        if not placement.wants_mirror(storage, layout.nbytes, is_element):
            if is_element:
                return element(array, layout)
            part = view_at(array, layout)
            part._at = key
            return part
        if is_element and (found := windows.first_element(storage, layout)) is not None:
            return found
        host = fetch_storage(storage)
    if array._host is host:
        seen = array._seen
    else:
        host, seen = host_and_view(array)
    part = seen[key]
    if type(part) is not _NumpyArray or (seen.dtype.hasobject and part.base is not seen and part.base is not seen.base):
        return part
    return host_part(array, host, part)


def _part_at(base: Handle, layout: Layout, key: Any) -> Any:
    """Return the view of `base` in a layout; by its key it is known which statement assigns it to where it is from."""
    seen = base._view
    kind = types.ndarray
    if type(base) is kind and (seen is None or type(seen) is kind):  # `view_at`, spelled out
        part: Any = next(types.bare)
        part._held = base._held or base._storage
        part._view = base if seen is None else seen
        part._at = key
        part._known = layout
        part._host = part._seen = None
        return part
    part = view_at(base, layout)
    part._at = key
    return part


def gather_on_host(array: Handle, seen: Any, key: Any) -> Any:
    """Return what an advanced key selects of an array that is valid on the host."""
    is_few = placement.is_host(seen.nbytes) or (type(array) is types.ndarray and advanced.selects_few(array, key))
    if is_few and not explain.REPORTS and type(array) is types.ndarray:
        place = key_on_host(key)
        if place is not None:
            found = seen[place]
            if type(found) is not _NumpyArray:
                return found
            if (found.flags.forc or is_dense(found)) and is_new(found, (seen,)):
                return wrap_host(found)
    return getitem(array, key)


def _gathered_now(array: Handle, key: Any) -> Any:
    """Return ``array[key]`` for a key that is not basic, knowing how many there are of what a mask selects."""
    if type(array) is types.ndarray:
        if type(key) is types.ndarray and (found := masks.read_known(array, key)) is not None:
            return found
        if advanced.is_light(array, key):
            return placed_on_host(np.ndarray.__getitem__, (array, key), {})
        found = again.read(FIRST_AXIS, array, key) if type(key) is types.ndarray else None
        if found is not None:
            return found
        counted = with_integers(key)
        if counted is not key:
            found = getitem(array, counted)
            return copy(found, "K") if is_basic(counted) and type(found) is types.ndarray else found
        try:
            return selected(array, key)
        except Unsupported:
            pass
    return call(np.ndarray.__getitem__, (array, key), {}, name="ndarray.__getitem__")


def setitem(array: Handle, key: Any, value: Any) -> None:
    """Write ``array[key] = value``.

    Raises
    ------
    IndexError, ValueError, TypeError
        As NumPy, with nothing written.
    """
    if type(base := array._view) is tuple and not base[1]:  # `is_writeable`, spelled out
        raise ValueError("assignment destination is read-only")
    # Views that are made to write are nobody's to finalize.
    array = without_class(array) if type(array) in SUBCLASSES else array
    storage = array._held or array._storage
    host = storage.host
    if host is None and type(type(value)) is types.scalar_type and _set_element(array, storage, key, value):
        return
    if type(key) is types.ndarray and (
        (type(value) is types.ndarray and value._known is None and write_masked(array, key, value))
        or (type(value) in _PLAIN and host is None and _is_on_device(array, key) and fill(array, key, value))
    ):
        return
    if type(key) is tuple and key and type(key[0]) is types.ndarray and type(key[0]._held) is Masked:
        if write_at(array, key, value):
            return
    elif (
        (key is ... or type(key) is slice)
        and (host is None and type(value) in _PLAIN)
        and (_is_all(array, key) and fill_all(array, value))
    ):
        return
    located = None
    if host is None:
        kind = type(key)
        has_array = kind is types.ndarray or (kind is tuple and types.ndarray in map(type, key))
        if has_array and write_again(array, key, value):
            return
        if not has_array:
            if kind is list or (kind is tuple and key and type(key[0]) is list):
                if listed.write(array, key, value):
                    return
                key, value = listed.as_part(array, key, value) or (key, value)
            layout = array._known or array._layout
            located = part_of(layout, key) or located_part(layout, key)
    if located is None and not is_basic(key):
        _set_by_key(array, key, value)
        return
    is_handle = type(value) is types.ndarray or type(type(value)) is types.scalar_type
    given_storage = (value._held or value._storage) if is_handle else None
    if host is not None and given_storage is not None and _follows(array, storage, value, given_storage):
        host = None
    if host is None:
        layout, is_element = locate(array._layout, key) if located is None else located
        if given_storage is storage and (
            (seen := value._known or value._layout) is layout or (seen.offset == layout.offset and seen.same(layout))
        ):
            return  # what an in-place operator on a view leaves behind, as in x[1:] += 1
        is_unknown = not (_accesses or _followers) or (
            (reference := ref(storage)) not in _accesses and reference not in _followers
        )
        is_plain = is_unknown and layout.nbytes > SMALL_NBYTES and not balance.limit
        if not is_plain and placement.wants_mirror_to_write(storage, layout.nbytes, given_storage):
            fetch_storage(storage)
        elif given_storage is None or given_storage.host is not None:
            is_part = layout.size > 1 and (
                array._view is not None or layout.size != (array._known or array._layout).size
            )
            is_number = type(value) is float or type(value) is int or type(value) is layout.dtype.type
            if is_number and (is_part or is_element):
                value = single(value, layout.dtype)  # which may warn, once
                if straight.fill(array, layout, value):
                    return
            elif is_part and given_storage is not None and straight.bring(array, layout, value):
                return
        elif (
            straight.assign(array, layout, value)
            or _is_replaced(array, layout, value)
            or _is_copied(array, layout, value, given_storage)
            or _is_stored(array, layout, value, given_storage)
        ):
            return
    elif (found := _set_on_host(array, storage, key, value)) is None:
        return
    else:
        layout, is_element, value = found
    if is_element and not isinstance(value, np.generic | int | float):
        value = _single(value, layout)
    assign(array if layout.same(array._layout) else view_at(array, layout), value)


def _set_element(array: Handle, storage: Storage, key: Any, value: Any) -> bool:
    """Do what `setitem` does of a scalar of the device's and an element there; False where nothing has been done."""
    whole, kind = array._known, type(key)
    if not whole or not whole.ndim or (kind is not int and (kind is not tuple or slice in map(type, key))):
        return False
    located, given = part_of(whole, key), value._held or value._storage
    if located is None or not located[1] or located[0].nbytes > SMALL_NBYTES or given is storage:
        return False
    layout = located[0]
    if placement.wants_mirror_to_write(storage, layout.nbytes, given):
        fetch_storage(storage)
    elif given.host is None and (straight.assign(array, layout, value) or _is_stored(array, layout, value, given)):
        return True
    assign(view_at(array, layout), value)
    return True


def _set_on_host(array: Handle, storage: Storage, key: Any, value: Any) -> tuple[Layout, bool, Any] | None:
    """Write to an array that is valid on the host, if its part belongs there.

    Returns
    -------
    layout, is_element, value : Layout, bool, object
        Where to write what in the general way; None where it has been done.
    """
    host, seen = host_and_view(array)
    given = _on_host(value)
    if (
        given is not None
        and (seen.nbytes < config.offload_threshold or seen.nbytes < balance.limit)
        and not explain.REPORTS
        and storage.host is host
        and storage.stale is None
        and storage.value is None
    ):
        storage.stale = WRITING  # no other thread has run since the last three conditions
        try:
            put(seen, key, given)
        finally:
            end_writing(storage)
        return None
    if is_device_scalar(value):  # which has been waited for
        value = given
    if seen.dtype.hasobject or seen.dtype.names is not None:
        records = begin_writing(array)  # the storage may be that of numbers, whose view this is
        try:
            _put_records(records, key, value)
        finally:
            end_writing(storage)
        return None
    parts = as_view_key(key)
    part = seen[parts]
    is_element = selects_element(key, parts, part.ndim)
    return host_part(array, host, part)._layout, is_element, value


def _follows(array: Handle, storage: Storage, value: Any, source: Storage) -> bool:
    """Whether an array on the host has gone to the device now, for a result from there that is written to it."""
    is_single = is_device_scalar(value) and source.host is None and type(array) is types.ndarray
    if not (is_single and placement.follows(storage)):
        return False
    return device_value(storage) is storage.value  # else it has been pinned meanwhile


def write_part(array: Handle, host: Any, seen: Any, key: Any, given: Any) -> bool:
    """Write to a part of an array that is valid on the host alone, if placement leaves the part there.

    Parameters
    ----------
    array : Handle
    host, seen : numpy.ndarray
        The host side of its storage, and its view there.
    key : object
        A basic one.
    given : numpy.ndarray or number

    Returns
    -------
    bool
        Whether that has been done.
    """
    storage = array._held or array._storage
    try:
        nbytes = seen[as_view_key(key)].nbytes
    except IndexError:  # NumPy says of the write what is wrong
        nbytes = 0
    if explain.REPORTS or seen.dtype.hasobject or not placement.is_host(nbytes):
        return False
    if storage.stale is None and storage.value is None and storage.host is host:
        storage.stale = WRITING  # no other thread has run since the last three conditions
        try:
            put(seen, key, given)
        finally:
            end_writing(storage)
        return True
    low, high = _touched(array, seen, key)
    part = None if high - low < LINES_NBYTES else host_part(array, host, seen[as_view_key(key)])._layout
    with SIDES:
        stale = storage.stale
        if stale is None or storage.value is not None or storage.host is not host:
            return False
        if part is None:
            stale.cover(low, high)
        else:
            stale.cover_part(part)
        stale.num_writes += 1
        put(seen, key, given)
        if type(stale) is Stale and not stale.is_uploading and stale.is_worn():
            storage.stale = None
    return True


def _touched(array: Handle, seen: Any, key: Any) -> tuple[int, int]:
    """Return the range of bytes of the storage in which lies what a basic key selects, by its first index."""
    low, high = (0, seen.nbytes) if array._view is None else array._layout.byte_bounds
    first = key[0] if type(key) is tuple and key else key
    if seen.ndim and type(first) is int:
        start = first if first >= 0 else first + len(seen)
        stop = start + 1
    elif seen.ndim and type(first) is slice:
        start, stop, stride = first.indices(len(seen))
        if stride < 0:
            start, stop = stop + 1, start + 1
    else:
        return low, high
    step = seen.strides[0]
    return (low + start * step, high - (len(seen) - stop) * step) if step > 0 and start < stop else (low, high)


def _put_records(records: Any, key: Any, value: Any) -> None:
    """Write to objects or records on the host what may hold arrays of ours, or objects that give such."""
    try:
        records[key] = fetch(value) if records.dtype.names is not None and isinstance(value, Handle) else value
    except ValueError as error:
        if str(error) != REFUSAL:
            raise
    else:
        return
    originals: dict[int, Any] = {}
    taken = accepted(value, originals)
    if records.dtype.char == "O" and isinstance(value, list | tuple):  # which holds objects, not arrays of them
        written = np.empty_like(records[key])
        written[...] = taken
        for place, element in np.ndenumerate(written):
            written[place] = originals.get(id(element), element)
        taken = written
    records[key] = taken


def _set_by_key(array: Handle, key: Any, value: Any) -> None:
    """Write ``array[key] = value`` for a key that is not basic."""
    known = with_values(key)
    if known is not key:
        setitem(array, known, value)
    elif type(array) is types.ndarray and advanced.is_light(array, key, is_written=True):
        placed_on_host(np.ndarray.__setitem__, (array, key, value), {}, mutates=(0,))
    elif (counted := with_integers(key)) is not key:
        setitem(array, counted, value)
    elif not fill(array, key, value) and not scatter_values(array, key, value):
        call(np.ndarray.__setitem__, (array, key, value), {}, name="ndarray.__setitem__", mutates=(0,))


def _is_all(array: Handle, key: Any) -> bool:
    """Whether an ellipsis or a slice selects all of an array that owns them, is large, and not read by parts."""
    if key is not ... and key != _ALL:
        return False
    layout = array._known
    if array._view is not None or not layout or not SMALL_NBYTES < layout.nbytes >= balance.limit:
        return False
    reference = ref(array._held or array._storage)
    return reference not in _accesses and reference not in _followers


def _is_on_device(array: Handle, key: Handle) -> bool:
    """Whether an array that is not on the host, and a key, are the device's."""
    held, layout = key._held, array._known
    return bool(held and layout and key._known and held.host is None and layout.nbytes >= balance.limit)


def _is_plain_copy(array: Handle, layout: Layout, given: Layout) -> bool:
    """Whether a part of an array, in `layout`, is assigned as many elements of its dtype as it has, each its own."""
    return (
        given.shape == layout.shape
        and given.dtype == layout.dtype
        and layout.is_injective
        and not (array._view is None and layout.same(array._layout))
    )


def _is_stored(array: Handle, layout: Layout, value: Handle, given: Storage) -> bool:
    """Store a value into a part of an array, in `layout`, as it is; tell whether that was done."""
    if not _is_plain_copy(array, layout, value._layout):
        return False
    held = expression(value)
    try:
        store(view_at(array, layout), held, given if is_waiting(held) else None)
    except Unsupported:  # a dtype that has no kernels, or elements that are not at multiples of their size
        return False
    return True


def _is_replaced(array: Handle, layout: Layout, value: Handle) -> bool:
    """Let a whole array, in `layout`, be what is to be computed, as in ``x[:] = y + z``; tell whether that was done."""
    own, given = array._known, (value._held or value._storage).value
    if array._view is not None or own is None or given is None or value._known is not own:
        return False
    graph = given[0]
    if not graph.nodes or graph.layout is not own or not layout.same(own):
        return False
    if graph.structure.is_flagged or given[2] & SHARED or explain.REPORTS or current() is not quiet.state:
        return False
    store(array, given)
    return True


def _is_copied(array: Handle, layout: Layout, value: Handle, given: Storage) -> bool:
    """Let a whole array, in `layout`, be a copy of elements of its dtype and shape; tell whether that was done."""
    own, seen = array._known or array._layout, value._known or value._layout
    if array._view is not None or seen.shape != own.shape or seen.dtype is not own.dtype or not own.ndim:
        return False
    if not layout.same(own) or placement.may_be_host(given):
        return False
    try:
        store(array, express(COPY, (value,), own))
    except Unsupported:  # which is found out again
        return False
    settled(array)
    return True


def _on_host(value: Any) -> Any:
    """Return a number, or NumPy's view of an array of ours that is valid on the host; None for anything else."""
    kind = type(value)
    if kind is types.ndarray:
        return None if (value._held or value._storage).host is None else host_view(value)
    if kind is float or kind is int:
        return value
    if is_device_scalar(value):  # of which NumPy would ask for another number of Python's
        return value_of(value)
    if isinstance(value, Handle):
        return fetch(value)[()]
    return value if isinstance(value, _Generic) else None


def _single(value: Any, layout: Layout) -> Any:
    """Return what is assigned to one element as a scalar; NumPy says which arrays it takes there."""
    element = np.zeros(1, layout.dtype)
    if not isinstance(value, Handle):
        put(element, 0, value)
        return element[0]
    seen = value._layout
    if seen.ndim:
        element[0] = np.zeros(seen.shape if seen.size <= 1 else (2,), seen.dtype)
        return view(value, lambda array: array.reshape(()))
    return value


def element(array: Handle, layout: Layout) -> Any:
    """Return one element as a scalar: a copy, made when it is read or when the array is about to change."""
    storage = array._held or array._storage
    value: Any = storage.value
    if value is None or value[0].nodes or type(value[1][0]) is not Buffer:
        value = schedule.materialise(storage)
        if value is None:  # another thread has brought it to the host meanwhile, and may hold it there
            return fetch(view_at(array, layout))[()]
    _, leaves, mask = value
    read = layout.read or reading(layout)  # `read`, spelled out
    if layout.offset:
        leaves = (entry_at(layout.offset, leaves[0]),)
    known = read.programs  # `copying`, spelled out
    graph = None if known is None else known.get(("copy", layout.dtype))
    found = wrap_pending((graph or copying(read.layout, layout.dtype), leaves, mask))
    if layout.dtype.kind in KINDS:
        note_source(found, storage)
    return found


types.selected = _gathered_now
