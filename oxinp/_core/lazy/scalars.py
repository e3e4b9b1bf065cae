"""Values of scalars that are on the device, or pending there: fetched when they are asked for.

An element of an array of integers or truth values is an index, or decides what a program does next, and so do the
others of its array, as the order of what has been sorted: where the host has one it has use for all, and what is done
with them there is done at once. To wait takes longer than to move an array that is below the threshold: so it is
fetched whole with the first that is waited for, and stays where it is on the device, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import schedule
from oxinp._core.lazy.building import Missing, attempt, claim, spells_attempt
from oxinp._core.lazy.calls import Pending, is_waiting
from oxinp._core.lazy.explain import REPORTS
from oxinp._core.lazy.handle import Handle, fetch, fetch_storage
from oxinp._core.lazy.placement import singles
from oxinp._core.memory.host_side import host_bytes
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here
from oxinp._runtime.backend import FIRST_LOCK
from oxinp._runtime.memory import Buffer

if TYPE_CHECKING:
    from oxinp._core.lazy.expr import Structure
    from oxinp._core.memory.storage import Storage

KINDS = "iub"
"""Of dtypes whose elements are fetched with the others of their array."""
on_host: dict[Any, np.ufunc] = {}
"""Operations on integers, by how they are lowered, that NumPy computes as kernels do."""
_INTEGER = np.dtype(np.int64)
_ONLY_RESULT = "place of the only result"
"""By which a structure keeps where there is the only array among numbers that the host computes with, -1 of others."""
_source: Any = vars(Handle)["_at"]
"""Where a scalar has a reference to the storage of the array that it is an element of."""


def note_source(scalar: Any, storage: Storage) -> None:
    """Note which storage a scalar is read of, of one of the `KINDS`: that is to be fetched with it."""
    _source.__set__(scalar, ref(storage))


def value_of(scalar: Any) -> Any:
    """Return the NumPy scalar, waiting for it the first time."""
    storage = scalar._held or scalar._storage
    if storage.host is None:
        bring(scalar, storage)
    return storage.host[()]


@spells_attempt
def bring(scalar: Any, storage: Storage) -> None:
    """Let the storage of a scalar have its value on the host, waiting for it."""
    value = storage.value
    if scalar.dtype.kind in KINDS and value is not None and value[0].is_copy:  # as elements are read
        try:
            source = _source.__get__(scalar)()
        except AttributeError:  # it is no element of an array
            source = None
        if source is not None and (host := _with_whole(scalar, source)) is not None:
            attempt(_keep, storage, host)
            return
    if not (REPORTS or here.are_several) and storage.stale is None:
        is_there = None
        try:
            with FIRST_LOCK:  # `attempt`, spelled out
                is_there = _bring(storage)
        except Missing:
            pass
        if is_there is None:  # with no traceback, which would keep what may be overwritten
            is_there = attempt(_bring, storage)
        if is_there:
            return
    attempt(_keep, storage, fetch(scalar))


def _bring(storage: Storage) -> bool:
    """Do so where nothing is to be found out but where the device has it, as `fetch` and `_keep` would."""
    value = storage.value
    if value is None or value[0].layout.size != 1 or value[2] & SHARED:
        return value is None
    graph, leaves, mask = value
    structure, is_element, place = graph.structure, graph.is_copy, -1
    if structure.dtype is _INTEGER and not is_element and graph.nodes:
        place = structure.plans.get(_ONLY_RESULT)
        if place is None:
            place = _place_of_only_array(structure)
        if place >= 0 and type(leaves[place]) is not Pending:
            place = -1
    if is_element or place >= 0 or not graph.nodes:
        entry = leaves[place]  # of a copy and of what is computed, or a call's, the only one
    else:
        entry = (schedule.compute(storage) if schedule.room >= 0 else schedule.materialise(storage))[1][0]
    host = np.empty((), graph.layout.dtype)
    if type(entry) is Pending:
        if (call := entry.call) is not None:
            call.run()
        ptr, buffer = entry.ptr, entry._buffer  # there from here on
        if not graph.nodes and storage.value is value:
            storage.value = graph, (buffer,), mask  # as `schedule.materialise` has it
    else:
        ptr, buffer = entry.ptr, entry if type(entry) is Buffer else entry.buffer
    backend = buffer._block.pool.owner if type(buffer) is Buffer else buffer.backend  # `device_of`, spelled out
    backend.download(host, ptr)
    singles.num_fetched += 1
    singles.num_used += 1
    if place >= 0:
        values: list[Any] = [*leaves]
        values[place] = host
        for node in graph.nodes:
            values.append(on_host[node.lower](*[values[number] for number in node.args]))
        host = np.asarray(values[graph.result])
    storage.host = host
    if is_element or place >= 0:
        storage.value = None
    return True


def _place_of_only_array(structure: Structure) -> int:
    """Return which leaf of a chain is an array, where the host adds to that what it has itself; else -1.

    Of the result of a call that takes less than a launch, as in ``k + np.argmax(...)``, and it gives the same bits of
    integers of the commonest dtype.
    """
    is_such = (
        sum(structure.are_arrays) == 1
        and not structure.is_flagged
        and all(kind is _INTEGER for kind in structure.kinds)
        and all(node.dtype is _INTEGER and node.lower in on_host for node in structure.nodes)
    )
    place = structure.are_arrays.index(True) if is_such else -1
    structure.plans[_ONLY_RESULT] = place
    return place


def _keep(storage: Storage, host: np.ndarray[Any, Any]) -> None:
    if here.are_several:
        claim(storage)
    storage.host = host
    if storage.value is not None and is_waiting(storage.value):
        storage.value = None  # an element read where it lies: there is nothing left to compute


def _with_whole(scalar: Any, source: Storage) -> np.ndarray[Any, Any] | None:
    """Return the element from a host side that its array gets; None where that is large, or another by now."""
    value, own = source.value, scalar._storage.value
    if value is None or own is None or not own[0].is_copy or own[0].layout.size != 1 or value[2] & SHARED:
        return None
    layout, entry = own[0].layout, own[1][0]
    if value[0].layout.nbytes >= config.offload_threshold or value[1][0] is not entry.buffer:
        return None
    host = fetch_storage(source)
    low = entry.ptr - entry.buffer.ptr
    element: np.ndarray[Any, Any] = host_bytes(host)[low : low + layout.dtype.itemsize].view(layout.dtype)
    return element.reshape(()).copy()
