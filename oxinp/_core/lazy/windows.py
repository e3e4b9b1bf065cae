"""Windows: what lies around an element that was read of a large array on the device, fetched with it.

A loop over elements reads the next one there, without waiting for the device. Arrays are fetched whole for such loops,
see `placement.wants_mirror`; of a large one that is written to between that would move what nobody reads, again and
again: from the second time on a loop gets windows.

A window is part of the value that it was fetched from, so that it goes when the array is written to or computed anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._core.lazy import explain, schedule
from oxinp._core.lazy.balance import COPY_RATE, WAIT
from oxinp._core.lazy.building import attempt, claim
from oxinp._core.lazy.placement import device_of, has_lost_mirror
from oxinp._core.memory.storage import SHARED
from oxinp._runtime import here

if TYPE_CHECKING:
    from oxinp._core.memory.layout import Layout
    from oxinp._core.memory.storage import Storage

NBYTES = 1 << 16
MAX_READERS = 16
CREDIT, MAX_CREDIT = 4, 16


class _Reader:
    """A loop over elements of one storage.

    Attributes
    ----------
    credit : int
        Windows that it gets before it has to have found something in one.
    misses : int
        Elements that were not in the window of a value that had one.
    """

    __slots__ = ("credit", "misses")

    def __init__(self) -> None:
        self.credit = CREDIT
        self.misses = 0


class Windowed(tuple[Any, ...]):  # noqa: SLOT001 - tuples have room for none
    """A storage's value, some of whose bytes are on the host as well.

    Attributes
    ----------
    low : int
        Where they begin in the storage.
    elements : uint8 array
    reader : _Reader
    """

    low: int
    elements: np.ndarray[Any, Any]
    reader: _Reader


_READERS: dict[ref[Storage], _Reader] = {}


def element(storage: Storage, layout: Layout) -> Any:
    """Return an element from the window of a storage, which is fetched anew where a loop that had one goes on.

    None where it is to be read in another way.

    Parameters
    ----------
    storage : Storage
        One that is only on the device.
    layout : Layout
        The element's, aligned and of a dtype that kernels have.
    """
    value = storage.value
    if type(value) is Windowed:
        reader = value.reader
        start = layout.offset - value.low
        if 0 <= start <= len(value.elements) - layout.nbytes:
            if reader.credit < MAX_CREDIT:
                reader.credit += 1
            return np.ndarray((), layout.dtype, value.elements, start)[()]
        reader.misses += 1
        if reader.misses * WAIT > value[0].layout.nbytes / COPY_RATE:
            reader.misses = 0
            return None
    elif not _READERS or (found := _READERS.get(ref(storage))) is None:
        return None
    else:
        reader = found
    reader.credit -= 1
    if reader.credit < 0:
        _READERS.pop(ref(storage), None)
        return None
    return attempt(_fetch, storage, layout, reader)


def first_element(storage: Storage, layout: Layout) -> Any:
    """Do what `element` does for a storage that is about to be fetched whole; None where that is what to do."""
    value = storage.value
    if value is None or type(value) is Windowed or value[2] & SHARED or not has_lost_mirror(storage):
        return None
    if len(_READERS) >= MAX_READERS:
        _READERS.clear()
    reader = _READERS[ref(storage, _forget)] = _Reader()
    return attempt(_fetch, storage, layout, reader)


def _forget(reference: ref[Storage]) -> None:
    _READERS.pop(reference, None)


def _fetch(storage: Storage, layout: Layout, reader: _Reader) -> Any:
    """Fetch a window that begins with an element, or ends with one that lies before the last window; in an attempt."""
    if storage.host is not None or storage.value is None:
        return None
    is_before = type(storage.value) is Windowed and layout.offset < storage.value.low
    value = schedule.materialise(storage)
    graph, leaves, mask = value
    if mask & SHARED:
        return None
    if here.are_several:
        claim(storage)
    low = max(0, layout.offset + layout.nbytes - NBYTES) if is_before else layout.offset
    elements = np.empty(min(NBYTES, graph.layout.nbytes - low), np.uint8)
    if explain.REPORTS:
        explain.note("copy", f"{elements.nbytes} B to the host", "elements are read there one by one")
    device_of(leaves[0]).download(elements, leaves[0].ptr + low)
    windowed = Windowed(value)
    windowed.low, windowed.elements, windowed.reader = low, elements, reader
    if storage.value is value:
        storage.value = windowed
    return np.ndarray((), layout.dtype, elements, layout.offset - low)[()]
