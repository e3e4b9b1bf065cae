"""Shadows: for each storage that a line of the program touches, the bytes that NumPy has for it.

A shadow belongs to a storage, not to an array, so that views see through it what they see through the storage, and what
NumPy writes through one of them is there for the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from oxinp._core.lazy import schedule
from oxinp._core.lazy.building import attempt
from oxinp._core.lazy.handle import Handle, is_writeable
from oxinp._core.lazy.parted import layout_of
from oxinp._core.lazy.placement import device_of
from oxinp._core.lazy.results import is_device_scalar
from oxinp._core.memory.host_side import host_bytes, seen_at
from oxinp._core.memory.storage import Storage, is_pinned, is_shared

__all__ = ["Place", "Shadows", "Unchecked"]

Array = np.ndarray[Any, Any]
Place = tuple[str, int]  # file and line


class Unchecked(Exception):
    """A call cannot be done a second time beside the program."""


class Shadow(NamedTuple):
    """What NumPy has for one storage.

    Attributes
    ----------
    storage : weakref.ref
    memory : numpy.ndarray, (nbytes,), uint8
    place : (str, int)
        The line that touched it last.
    """

    storage: ref[Storage]
    memory: Array
    place: Place


class Shadows:
    """The shadows of the storages that the present line, of each thread, has touched so far.

    Attributes
    ----------
    slack : float
        How far rounding may put what these lines computed.
    """

    def __init__(self) -> None:
        self.slack = 0.0
        self._shadows: dict[int, Shadow] = {}
        self._held: list[Storage] = []

    def find(self, storage: Storage) -> Shadow | None:
        """Return the shadow of a storage, or None."""
        shadow = self._shadows.get(id(storage))
        return shadow if shadow is not None and shadow.storage() is storage else None

    def overlaps(self, array: Array) -> bool:
        """Whether an array of NumPy's lies in the memory of a shadow."""
        return any(np.may_share_memory(array, shadow.memory) for shadow in self._shadows.values())

    def view(self, handle: Handle, place: Place) -> Any:
        """Return the NumPy array, or scalar, that a handle is in NumPy's world."""
        layout = handle._layout
        if layout.dtype.hasobject:
            raise Unchecked
        known = self.find(handle._storage)
        memory = _bytes_of(handle._storage) if known is None else known.memory
        shadow = self._enter(handle._storage, memory, place)
        array = seen_at(shadow.memory, layout)
        if is_device_scalar(handle):
            return array[()]
        if not is_writeable(handle):
            array.flags.writeable = False
        return array

    def add(self, handle: Handle, numpys: Any, place: Place) -> None:
        """Give the storage of a result that is new what NumPy's result holds."""
        storage, layout = handle._storage, handle._layout
        if layout.dtype.hasobject:
            raise Unchecked
        nbytes = layout_of(storage).nbytes
        memory = np.zeros(nbytes, np.uint8) if nbytes == layout.nbytes else _bytes_of(storage)
        seen_at(memory, layout)[...] = numpys
        self._enter(storage, memory, place)
        if is_device_scalar(handle):
            self.hold(storage)  # it may be printed and gone; arrays are not held, lest their kernels have to write them

    def hold(self, storage: Storage) -> None:
        """Keep a storage to be compared at the end of the line, although the program may not."""
        self._held.append(storage)

    def drop(self, storage: Storage) -> None:
        """Forget what NumPy has for a storage."""
        self._shadows.pop(id(storage), None)

    def take(self) -> list[tuple[Storage, Array, Array, Place]]:
        """Forget all; return the storages that somebody still holds, what they hold here and in NumPy, and who did."""
        shadows, self._shadows = self._shadows, {}
        found = [each for shadow in shadows.values() for each in _both(shadow)]
        self._held.clear()
        return found

    def pop(self, storage: Storage) -> list[tuple[Storage, Array, Array, Place]]:
        """Forget a storage; return the same of it, nothing where it has no shadow."""
        shadow = self.find(storage)
        if shadow is None:
            return []
        self.drop(storage)
        return _both(shadow)

    def pop_lent(self) -> list[tuple[Storage, Array, Array, Place]]:
        """Forget the storages that others may write to at any time; return the same of them."""
        storages = [shadow.storage() for shadow in self._shadows.values()]
        lent = [each for each in storages if each is not None and (is_pinned(each) or is_shared(each))]
        return [each for storage in lent for each in self.pop(storage)]

    def _enter(self, storage: Storage, memory: Array, place: Place) -> Shadow:
        shadow = self._shadows[id(storage)] = Shadow(ref(storage), memory, place)
        return shadow


def _both(shadow: Shadow) -> list[tuple[Storage, Array, Array, Place]]:
    storage = shadow.storage()
    if storage is None:
        return []
    layout = layout_of(storage)
    return [(storage, *(seen_at(memory, layout) for memory in (_bytes_of(storage), shadow.memory)), shadow.place)]


def _bytes_of(storage: Storage) -> Array:
    """Return a copy of the bytes of a storage, which stays on its side."""
    return attempt(_copied, storage)


def _copied(storage: Storage) -> Array:
    if storage.host is not None:
        return host_bytes(storage.host).copy()
    graph, leaves, _ = schedule.materialise(storage)
    memory = np.empty(graph.layout.nbytes, np.uint8)
    if memory.size:
        device_of(leaves[0]).download(memory, leaves[0].ptr)
    return memory
