"""Elements of small arrays of integers or truth values: with the first that is waited for, the array is fetched whole.

Such an element is an index, or decides what a program does next, and so do the others of its array, as the order of
what has been sorted: where the host has one it has use for all, and what is done with them there is done at once. To
wait takes longer than to move an array that is below the threshold, which stays where it is on the device, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from oxinp._config import config
from oxinp._core.lazy.handle import Handle, fetch, fetch_storage
from oxinp._core.memory.host_side import host_bytes
from oxinp._core.memory.storage import SHARED

if TYPE_CHECKING:
    from oxinp._core.memory.storage import Storage

_KINDS = "iub"
_source: Any = vars(Handle)["_at"]
"""Where a scalar has a reference to the storage of the array that it is an element of."""


def note_source(scalar: Any, storage: Storage) -> None:
    """Note which storage a scalar is read of, if that is to be fetched with it."""
    if scalar.dtype.kind in _KINDS:
        _source.__set__(scalar, ref(storage))


def fetched(scalar: Any) -> np.ndarray[Any, Any]:
    """Return the element that a scalar is, of no dimension, and fetch what it is worth fetching with it."""
    if scalar.dtype.kind in _KINDS:
        try:
            source = _source.__get__(scalar)()
        except AttributeError:  # it is no element of an array
            source = None
        if source is not None and (host := _with_whole(scalar, source)) is not None:
            return host
    return fetch(scalar)


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
