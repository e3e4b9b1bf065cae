"""Transfers: the ways that arrays take between the host and a GPU."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._driver import errors
from oxinp._driver.enums import PointerAttribute
from oxinp._driver.event import Event
from oxinp._driver.memory import DeviceMemory, PinnedMemory
from oxinp._runtime.brief_downloads import BriefDownloads
from oxinp._runtime.brief_uploads import BriefUploads
from oxinp._runtime.staging import StagingRing

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["Transfers"]

STAGED_NBYTES = 4 << 20
"""Pageable arrays from this size on go through the staging ring; below, waking its threads costs more than it saves."""

BRIEF_NBYTES = 64 << 10
"""Pinned arrays up to this size are copied first: the driver has read a pageable one at once, whatever is queued."""

MAX_STAGING_WORKERS = 8
MIN_STAGING_PROCESSORS = 4
_INVALID_VALUE = 1


class Transfers:
    """Copies of C-contiguous arrays that are not empty.

    Parameters
    ----------
    context : Context
    memory : DeviceMemory
    num_staging_workers : int, optional
        Threads of the staging ring, 0 for none; if not given, one for each of the processors that this process may use.

    Attributes
    ----------
    upload_brief, download_brief : Callable
        What is asked before `upload` and `download` where there is the default stream alone, see `BriefUploads.upload`
        and `BriefDownloads.download`.
    """

    def __init__(self, context: Context, memory: DeviceMemory, num_staging_workers: int | None = None) -> None:
        self._driver = context.driver
        self._memory = memory
        workers = _default_workers() if num_staging_workers is None else num_staging_workers
        port = _Port(context, memory)
        self._ring = StagingRing(port, workers) if workers else None
        self.upload_brief = BriefUploads(port).upload
        self.download_brief = BriefDownloads(port, context.driver).download
        self._pointer_attribute = context.driver.raw("cuPointerGetAttribute")
        self._memory_type = ctypes.byref(ctypes.c_int())  # where an answer goes that nobody reads

    def upload(self, ptr: int, array: np.ndarray[Any, Any], stream: int) -> None:
        """Copy an array to the device; it may be changed as soon as this returns."""
        address, nbytes = _address_of(array), array.nbytes
        # `_is_pageable`, spelled out
        if self._pointer_attribute(self._memory_type, PointerAttribute.MEMORY_TYPE, address) != _INVALID_VALUE:
            if nbytes > BRIEF_NBYTES:
                # The bus reads the array itself: wait until it has.
                self._memory.upload_async(ptr, address, nbytes, stream)
                self._driver.cuStreamSynchronize(stream)
                return
            array = array.copy()
            address = _address_of(array)
        if nbytes < STAGED_NBYTES or not self._is_staged(
            nbytes, lambda ring: ring.upload(ptr, _as_bytes(array), stream)
        ):
            self._memory.upload_async(ptr, address, nbytes, stream)

    def download(self, array: np.ndarray[Any, Any], ptr: int, stream: int) -> None:
        """Fill an array from the device; the data is there when this returns."""
        try:  # `_address_of`, spelled out: reading single elements is common
            address = ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            address = array.ctypes.data
        nbytes = array.nbytes
        is_large = nbytes >= STAGED_NBYTES and self._is_pageable(address)
        if is_large and self._is_staged(nbytes, lambda ring: ring.download(_as_bytes(array), ptr, stream)):
            return
        if stream:
            self._memory.download_async(address, ptr, nbytes, stream)
            self._driver.cuStreamSynchronize(stream)
        else:  # one call instead of two
            self._memory.download(address, ptr, nbytes)

    def _is_pageable(self, address: int) -> bool:
        """Return whether the driver has never heard of a host address: then it is neither pinned nor registered."""
        return self._pointer_attribute(self._memory_type, PointerAttribute.MEMORY_TYPE, address) == _INVALID_VALUE

    def _is_staged(self, nbytes: int, transfer: Any) -> bool:
        """Do a transfer through the ring if it is large; False where that is not to be had."""
        if self._ring is None or nbytes < STAGED_NBYTES or not self._ring.is_open:
            return False
        try:
            transfer(self._ring)
        except errors.OutOfMemory:
            self._ring = None  # the system grants no pinned memory: the driver's own way is slower and works
            return False
        return True


class _Port:
    """The driver as the staging ring sees it."""

    def __init__(self, context: Context, memory: DeviceMemory) -> None:
        self._context = context
        self.has_pinned = False
        self.enter_thread = context.make_current
        self.upload_async = memory.upload_async
        self.download_async = memory.download_async

    def allocate_pinned(self, nbytes: int) -> tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]:
        memory = PinnedMemory(self._context, nbytes)
        self.has_pinned = True
        return memory.ptr, np.frombuffer(memory.view(), np.uint8)

    def make_event(self) -> Event:
        # Workers sleep while they wait: spinning, they would take the processors that the copying needs.
        return Event(self._context, has_timing=False, is_blocking=True)


def _default_workers() -> int:
    """Return how many threads stage, none where there are few processors: there the driver's own way is as fast.

    Who waits for them needs no processor, and what limits them is the memory: more than there are processors, or than
    eight, are slower.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, MAX_STAGING_WORKERS) if processors >= MIN_STAGING_PROCESSORS else 0


def _address_of(array: np.ndarray[Any, Any]) -> int:
    """Return where an array's first byte lies, in a third of the time that NumPy takes to say so."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it may not be written to, or is of times
        return array.ctypes.data


def _as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return array.reshape(-1).view(np.uint8)
