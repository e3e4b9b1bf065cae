"""Sharing: memory that others hold, too: what is lent to them and what is taken from them, without a copy.

The host side of a storage is lent by pinning it, its device side by marking it `SHARED`; `storage` says what both mean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from oxinp._core.lazy import explain, schedule, writing
from oxinp._core.lazy.balance import balance
from oxinp._core.lazy.building import attempt, claim
from oxinp._core.lazy.expr import leaf
from oxinp._core.lazy.handle import Handle, base_of, device_value, fetch_storage, host_view, is_writeable
from oxinp._core.lazy.parted import parted
from oxinp._core.lazy.placement import device, device_of
from oxinp._core.lazy.results import types
from oxinp._core.lazy.views import NumpyArray
from oxinp._core.memory.dtypes import DEVICE_TYPES
from oxinp._core.memory.host_side import host_bytes, host_layout, is_dense, seen_at
from oxinp._core.memory.layout import Layout
from oxinp._core.memory.storage import (
    SHARED,
    SIDES,
    Pin,
    Stale,
    Storage,
    Value,
    is_pinned,
    is_shared,
    make_storage,
    next_mask,
    pinned,
)
from oxinp._runtime import here, hooks
from oxinp._runtime.memory import Buffer, Pages

_new = object.__new__
_BYTE = np.dtype("V1")
_ALIGNMENT = 256  # of Buffers, and of what any allocator of device memory gives

# Storages whose Buffer others hold, by its address.
_shared: WeakValueDictionary[int, Storage] = WeakValueDictionary()


def _own_no_more(handle: Handle) -> None:
    """Let the array that owns a storage write to it in place from now on, as its views do."""
    base = base_of(handle)
    owner = base if isinstance(base, Handle) else handle
    if owner._view is None:
        owner._view = (None, True)


def _wrap(storage: Storage, layout: Layout, base: Any, *, writeable: bool) -> Any:
    array = _new(types.ndarray)
    array._known = layout
    array._held = storage
    array._view = (base, writeable)
    array._host = array._seen = None
    return array


# -- the host side -----------------------------------------------------------------------------------------------------


def lend(handle: Handle, *, forever: bool = False) -> NumpyArray:
    """Return a NumPy array over the very elements of an array of ours, which others may keep and write to.

    The storage is pinned to the host until that array and all its views are gone; what the device holds is then
    outdated where the array lies, and nowhere else. Of a small part of what is only on the device no more than that is
    fetched, until somebody asks for the rest. Of an array whose elements others hold on the device it is a read-only
    copy.

    Parameters
    ----------
    handle : Handle
    forever : bool
        Others will go by the address, whatever becomes of the NumPy array.
    """
    for tell in before_lending:
        tell(handle)
    if here.are_several and not is_shared(handle._storage):
        fetch_storage(handle._storage)  # which waits outside of the lock
    return attempt(_lend, handle, forever)


before_lending: list[Callable[[Handle], object]] = []
"""Called with an array whose elements others are about to get, which may write to them at any time from then on."""


def _lend(handle: Handle, forever: bool) -> NumpyArray:
    storage = handle._storage
    if is_shared(storage):
        lent = host_view(handle)
        lent.flags.writeable = False
        return lent
    if storage.host is None and not forever and not here.are_several:
        part = _lend_part(handle, storage)
        if part is not None:
            return part
    while True:
        host = fetch_storage(storage)
        if host.dtype.hasobject:  # never anywhere else
            lent = host_view(handle).view()
            break
        value = storage.value
        if here.are_several:
            claim(storage)
        with SIDES:
            if storage.value is not value or storage.host is not host:  # a thread on another device was there between
                continue
            low, high = handle._layout.byte_bounds
            if value is not None:
                storage.stale = None if forever else Stale(value[1][0], low, high)
                storage.value = None
            pin = pinned(storage)
            pin.cover(low, high)
            if forever and host.dtype in DEVICE_TYPES:  # others stay where they are without being held there
                pin.is_forever = True
                pin.buffer = None
            # Over a buffer that is no array, so that views of it keep this very array alive, not only its memory.
            lent = seen_at(host_bytes(host).data, handle._layout)
            pin.holders = [*[holder for holder in pin.holders if holder() is not None], ref(lent)]
            break
    if not is_writeable(handle):
        lent.flags.writeable = False
    return lent


def _lend_part(handle: Handle, storage: Storage) -> NumpyArray | None:
    """Do what `_lend` does for a small part of what is only on the device; None where it is none."""
    low, high = handle._layout.byte_bounds
    pin = parted(storage)
    if pin is None:
        value = schedule.materialise(storage)
        (buffer,), layout = value[1], value[0].layout
        if not 0 < 2 * (high - low) <= layout.nbytes or type(buffer) is not Buffer:
            return None
        writing.flush_readers(value)  # they read what is not written to any more
        memory = np.empty(layout.nbytes, np.uint8)
        if explain.REPORTS:
            explain.note("copy", f"{high - low} B to the host", "others hold these elements")
        device_of(buffer).download(memory[low:high], buffer.ptr + low)
        balance.fetched(high - low)
        with SIDES:
            storage.stale = Stale(buffer, low, high)
            storage.value = None
            pin = pinned(storage)
            pin.part = np.ndarray(layout.shape, layout.dtype, memory, 0, layout.strides)
    elif low < pin.low or high > pin.high:
        return None
    part: Any = pin.part
    lent = seen_at(host_bytes(part).data, handle._layout)
    pin.holders = [*[holder for holder in pin.holders if holder() is not None], ref(lent)]
    if not is_writeable(handle):
        lent.flags.writeable = False
    return lent


def adopt_host(array: NumpyArray, base: Any = None) -> Any:
    """Return an array of ours over the memory of a NumPy array that others hold and may write to."""
    whole, layout = array, None
    if not is_dense(array):
        low, high = np.lib.array_utils.byte_bounds(array)
        whole = np.asarray(_Bytes(array, low, high - low))
        layout = Layout.at(array.dtype, array.shape, array.strides, array.ctypes.data - low)
    storage = make_storage(None, whole)
    if not (whole.dtype.hasobject or _is_of_bytes(array)):  # of which neither ever changes under us
        pin = storage.stale = Pin()
        pin.is_forever = True
    return _wrap(
        storage, layout or host_layout(whole), array.base if base is None else base, writeable=array.flags.writeable
    )


def _is_of_bytes(array: NumpyArray) -> bool:
    owner: Any = array.base
    return isinstance(owner.obj if isinstance(owner, memoryview) else owner, bytes)


class _Bytes:
    """The memory that an array with gaps lies in, as NumPy takes it."""

    def __init__(self, array: NumpyArray, address: int, nbytes: int) -> None:
        self.array = array
        self.__array_interface__ = {
            "data": (address, not array.flags.writeable),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


# -- the device side ---------------------------------------------------------------------------------------------------


class ForeignBuffer:
    """Device memory of others, kept by what keeps them from freeing it.

    Attributes
    ----------
    ptr : int
        Device address, a multiple of 256, at or before the first byte.
    owner : object
        Whose end gives the memory back.
    backend : Backend
        Of the device.
    nbytes : int
        0: what is not ours to place has no size that placement could learn from. Its views have theirs.
    """

    nbytes = 0
    __slots__ = ("__weakref__", "backend", "owner", "ptr")

    def __init__(self, ptr: int, owner: Any) -> None:
        self.ptr = ptr
        self.owner = owner
        self.backend = device()

    def __del__(self) -> None:
        # Its owner knows nothing of the work queued here that may still use it.
        self.backend.outlive(self.owner)

    @property
    def pages(self) -> tuple[Pages, ...]:
        """Where its bytes lie, as `Buffer.pages`; of memory whose end only others know, to the end."""
        return (Pages(0, sys.maxsize - self.ptr, self.backend.memory_kind(self.ptr), self.backend),)

    @property
    def buffer(self) -> ForeignBuffer:
        """Itself, as a Buffer of ours."""
        return self


def share(handle: Handle) -> Any:
    """Return the Buffer that an array's elements lie in, for others to keep; they may read and write it at any time.

    Everything that is pending and reads it is launched first. The first element lies at ``handle._layout.offset``.

    Raises
    ------
    BufferError
        Others hold the host side.
    Unsupported
        The dtype has no place on the device.
    """
    return attempt(_share, handle)


def _share(handle: Handle) -> Any:
    storage = handle._storage
    value = _on_device(storage)
    graph, (buffer,), mask = value
    if not mask & SHARED:
        writing.flush_readers(value)
        _own_no_more(handle)
        storage.value = (leaf(Layout.of(_BYTE, (graph.layout.nbytes,))), (buffer,), mask | SHARED)
        storage.host = None
        storage.stale = None
        _shared[buffer.ptr] = storage
    return buffer


def _on_device(storage: Storage) -> Value:
    """Return the device side of a storage, computed or uploaded; under its lock."""
    if not is_pinned(storage):
        device_value(storage)
        if storage.value is not None:  # else it has been pinned since
            value = schedule.materialise(storage)
            if here.are_several:
                claim(storage)
            return value
    raise BufferError(
        "others hold this array's memory on the host (its ctypes, data, flat or buffer), or a call of NumPy's is "
        "writing to it: copy it"
    )


def adopt_device(address: int, layout: Layout, owner: Any, *, writeable: bool) -> Any:
    """Return an array of ours over device memory of others, or of ours if the address is one that was shared.

    Parameters
    ----------
    address : int
        Of the first element.
    layout : Layout
        At offset 0.
    owner : object
        What keeps the memory; it becomes the array's `base`.
    writeable : bool

    Raises
    ------
    BufferError
        Kernels here cannot use the memory.
    """
    low, high = layout.byte_bounds
    device().order((address + low, True))  # what others did to it, this thread's stream waits for
    known = _shared.valuerefs()  # a list: other threads share meanwhile
    for ptr, storage in [(found.key, storage) for found in known if (storage := found()) is not None]:
        value = storage.value
        if value is not None and ptr <= address + low and address + high <= ptr + value[0].layout.nbytes:
            return _wrap(storage, _moved(layout, address - ptr), owner, writeable=writeable)
    device().check_address(address + low)
    ptr = (address + low) // _ALIGNMENT * _ALIGNMENT
    buffer: Any = ForeignBuffer(ptr, owner)
    value = leaf(Layout.of(_BYTE, (address + high - ptr,))), (buffer,), next_mask() | SHARED
    storage = make_storage(value, None)
    _shared[ptr] = storage
    return _wrap(storage, _moved(layout, address - ptr), owner, writeable=writeable)


def _moved(layout: Layout, offset: int) -> Layout:
    return Layout.at(layout.dtype, layout.shape, layout.strides, offset)


def borrow(handle: Handle) -> Any:
    """Return the Buffer that an array's elements lie in, for one use that is queued next, and may write to it.

    Everything that is pending and reads it is launched first.
    """
    return attempt(_borrow, handle)


def _borrow(handle: Handle) -> Any:
    storage = handle._storage
    value = _on_device(storage)
    writing.flush_readers(value)
    writing.note_written(storage)  # whoever borrows it may
    return value[1][0]


def _address(value: Any, is_kept: bool) -> hooks.DeviceAddress | None:
    if not isinstance(value, Handle):
        return None
    buffer = share(value) if is_kept else borrow(value)
    layout = value._layout
    low, high = layout.byte_bounds if layout.size else (0, 0)
    return hooks.DeviceAddress(buffer.ptr + layout.offset, high - low, layout.is_contiguous, buffer)


hooks.addresses.append(_address)


def write_back(storage: Storage, host: NumpyArray, low: int, high: int) -> None:
    """Copy bytes of a host copy of a shared storage to where others see them."""
    if high > low:
        attempt(_write_back, storage, host, low, high)


def _write_back(storage: Storage, host: NumpyArray, low: int, high: int) -> None:
    if here.are_several:
        claim(storage)
    assert storage.value is not None
    buffer = storage.value[1][0]
    device_of(buffer).upload(buffer.ptr + low, host_bytes(host)[low:high])
