"""Small uploads, one after the other, through pinned memory that is used in turn.

The driver copies pageable memory to some of its own first, having found out that it is pageable, and keeps account of
that. Copied here, it takes one call for which the driver has nothing to find out, and goes to the bus from where it
lies. Memory is used again when the device has passed an event that follows the last copy from it.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._runtime.counters import stats
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from oxinp._runtime.staging import Port, SlotEvent

__all__ = ["BriefUploads"]

NUM_PARTS, PART_NBYTES = 8, 512 << 10
"""How much memory there is, in parts that are waited for as wholes: the device may be seven of them behind."""
MOST_NBYTES = PART_NBYTES // 8
"""Of an upload."""
RENTED = 16
"""Uploads that go the driver's own way, before there is memory: to pin it takes as long as some hundred."""
ALIGNMENT = 64
"""Of where uploads lie, one behind the other."""


class BriefUploads:
    """The memory that small arrays go to the default stream's copies through.

    Parameters
    ----------
    port : Port
        The driver.
    """

    __slots__ = (
        *("_acquire", "_at", "_bytes", "_end", "_first", "_left", "_memory", "_number", "_parts", "_port", "_release"),
        "_upload_async",
    )

    def __init__(self, port: Port) -> None:
        self._port = port
        self._upload_async = port.upload_async
        lock = free_in_children(Lock())
        self._acquire, self._release = lock.acquire, lock.release
        self._left = RENTED
        self._memory: Any = None
        self._first, self._bytes = 0, memoryview(b"")  # where it begins, and what lies there
        self._parts: list[tuple[int, SlotEvent]] = []
        self._number = 0
        self._at = self._end = 0  # the addresses of what is free of the part in use

    def upload(self, ptr: int, array: np.ndarray[Any, Any], nbytes: int) -> bool:
        """Queue a copy of an array to the device on the default stream; it has been read on return, and is counted.

        Returns False, and does nothing, for the first uploads, for arrays that leave no room for others, where the
        system grants no pinned memory, and in the middle of another upload, by another thread or of which a finaliser
        is called.
        """
        if self._left or nbytes > MOST_NBYTES:
            self._left -= self._left > 0
            return False
        try:
            given = memoryview(array).cast("B")  # type: ignore[arg-type]
        except (TypeError, ValueError):  # of complex numbers or times
            given = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        if not self._acquire(False):
            return False
        try:
            at = self._at
            if at + nbytes > self._end:
                at = self._begin_part()
                if not at:
                    return False
            self._at = at + nbytes + -nbytes % ALIGNMENT
            begin = at - self._first
            self._bytes[begin : begin + nbytes] = given
            self._upload_async(ptr, at, nbytes, 0)
        finally:
            self._release()
        stats.h2d_bytes += nbytes
        return True

    def _begin_part(self) -> int:
        """Return where the next part begins, once the device has read what was in it; 0 where there is no memory."""
        if not self._parts:
            try:
                first, self._memory = self._port.allocate_pinned(NUM_PARTS * PART_NBYTES)
                self._first, self._bytes = first, memoryview(self._memory)
            except MemoryError:
                self._left = RENTED
                return 0
            self._parts = [(first + i * PART_NBYTES, self._port.make_event()) for i in range(NUM_PARTS)]
        else:
            _, event = self._parts[self._number]
            event.record(0)
            self._number = (self._number + 1) % NUM_PARTS
        begin, event = self._parts[self._number]
        event.synchronize()
        self._end = begin + PART_NBYTES
        return begin
