"""Eviction: arrays that leave the device for the host when its memory is short, and come back when they are used.

It is the last thing that is tried before an allocation fails. What costs nothing goes first: outdated copies, and
arrays whose elements are valid on the host as well. Then arrays are copied to the host, those first that have been used
by a kernel least recently, and no more of them than are asked for. What stays: what running or pending work reads, what
others hold, what a captured graph uses, and what lies on another device. A storage that has been evicted is one on the
host like any other, bit for bit what it was.

Nothing is noted about uses before memory is short, nor once it has been ample again for a while: it would be on the
path of every launch.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._core.lazy import explain
from oxinp._core.lazy.building import attempt, claim_device
from oxinp._core.lazy.calls import Pending, is_waiting
from oxinp._core.lazy.lost import LostBuffer
from oxinp._core.memory.storage import SHARED, SIDES, Pin, Storage, make_storage
from oxinp._runtime import hooks
from oxinp._runtime.counters import stats
from oxinp._runtime.memory import FOOTPRINTS

if TYPE_CHECKING:
    from oxinp._runtime.backend import Backend

SHARE = 64
"""At least this part of what the pool holds is evicted at once: looking for storages takes milliseconds."""


def storages() -> list[Storage]:
    """Return every storage that there is, but for those that the garbage collector does not list (`gc.freeze`).

    Not by `gc.get_objects`: that also gives what other threads are about to make, and a tuple that is being filled
    fails where somebody else refers to it.
    """
    return [found for found in gc.get_referrers(Storage) if type(found) is Storage]


def _references(storage: Storage) -> list[int]:
    """Return how many references there are to a value, to what its graph is applied to, and to the Buffer."""
    value = storage.value
    assert value is not None
    entry = value[1][0]
    counts = [sys.getrefcount(value), sys.getrefcount(value[1]), sys.getrefcount(entry)]
    if type(entry) is Pending:
        entry = entry._buffer
        counts[2] = max(counts[2], sys.getrefcount(entry))
    return counts


class _Graph:
    nodes = ()


def _made() -> Storage:
    made: Any = object.__new__(_Graph)
    return make_storage((made, (object(),), 0), None)


_UNUSED = _references(_made())  # where nothing but the storage refers to a value, and nothing else to its Buffer


def _lies_idle(storage: Storage, backend: Backend, fixed: frozenset[Any]) -> bool:
    """Whether a storage holds memory of a device that nobody but its arrays has use for now."""
    value = storage.value
    if value is None or value[2] & SHARED or is_waiting(value):
        return False
    entry = value[1][0]
    buffer = entry._buffer if type(entry) is Pending else entry
    if entry.backend is not backend or entry._block in fixed or type(buffer) is LostBuffer:
        return False
    del value, entry, buffer
    return _references(storage) == _UNUSED


def _used(storage: Storage) -> int:
    assert storage.value is not None
    used: int = storage.value[1][0]._block.used
    return used


def evict(backend: Backend, nbytes: int) -> int:
    """Move arrays from a device to the host until so much of its memory is free; return how much is, 0 for none.

    Parameters
    ----------
    backend : Backend
    nbytes : int
        What is asked for.
    """
    if backend.is_captured:  # nothing can be read then
        return 0
    freed = attempt(_evict, backend, max(nbytes, backend.pool.held_nbytes // SHARE))
    if backend.pool.begin_to_note():
        config.renew()  # for programs that note which memory they use
    return freed


def _evict(backend: Backend, nbytes: int) -> int:
    claim_device(backend)
    found = storages()
    freed = sum([_drop_outdated(storage, backend) for storage in found])
    fixed = frozenset(block for footprint in FOOTPRINTS for block, _ in footprint.items())
    idle = [storage for storage in found if _lies_idle(storage, backend, fixed)]
    for storage in [storage for storage in idle if storage.host is not None]:
        if freed < nbytes:
            freed += _leave(storage)
    for storage in sorted([storage for storage in idle if storage.host is None], key=_used):
        if freed >= nbytes:
            break
        try:
            _copy(storage, backend)
        except MemoryError:  # of the host's
            break
        freed += _leave(storage)
    return freed


def _drop_outdated(storage: Storage, backend: Backend) -> int:
    """Let go of the outdated copy that a storage keeps on a device, if it does; return its bytes."""
    with SIDES:
        stale = storage.stale
        if stale is None or stale.buffer is None or stale.is_uploading or stale.buffer.backend is not backend:
            return 0
        if isinstance(stale, Pin) and stale.part is not None:  # it is the only copy of the rest
            return 0
        nbytes: int = stale.buffer._block.nbytes
        if stale.is_pin:
            stale.buffer = None
        else:
            storage.stale = None
    return nbytes


def _copy(storage: Storage, backend: Backend) -> None:
    """Copy what a storage holds to the host, which is then valid as well."""
    assert storage.value is not None
    graph, (buffer,), _ = storage.value
    layout = graph.layout
    memory = np.empty(layout.nbytes, np.uint8)
    if layout.nbytes:
        backend.download(memory, buffer.ptr)
    storage.host = np.ndarray(layout.shape, layout.dtype, memory, 0, layout.strides)
    stats.evicted_bytes += layout.nbytes
    if explain.REPORTS:
        explain.note("copy", f"{layout.nbytes} B to the host", "the device is out of memory: an array makes room")


def _leave(storage: Storage) -> int:
    """Let the host side of a storage be the only one; return the bytes of the other."""
    value = storage.value
    assert value is not None
    nbytes: int = value[1][0]._block.nbytes
    with SIDES:
        storage.value = None
        storage.stale = None
    return nbytes


hooks.to_evict.append(evict)
