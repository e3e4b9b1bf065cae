"""Reports in memory of the host that a GPU writes to, so that reading one waits for nothing but the device."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._driver.memory import DeviceMemory, PinnedMemory
from oxinp._driver.stream import Stream
from oxinp._runtime.backend import NUM_REPORTS, flags_of
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["MappedReports"]


_NOTHING = bytes(16 * NUM_REPORTS)


class MappedReports:
    """Reports in host memory that kernels reach over the bus, which only those do that have something to say."""

    def __init__(self, context: Context) -> None:
        self.ring: Any = None
        self._context = context
        memory = PinnedMemory(context, 16 * NUM_REPORTS, is_mapped=True)
        self.ptr = memory.device_ptr
        self._flags = 0
        self._making = free_in_children(RLock())
        self._view = memory.view()
        self._words = np.frombuffer(self._view, np.int64)
        self._words[:] = 0

    def are_empty(self) -> bool:
        """See `Reports.are_empty`."""
        return self._view.tobytes() == _NOTHING  # after every wait, and sooner than by NumPy

    def read(self) -> np.ndarray[Any, Any]:
        """See `Reports.read`."""
        return self._words[::2]

    def take(self, number: int) -> int:
        """See `Reports.take`."""
        word = int(self._words[2 * number + 1])
        self._words[2 * number : 2 * number + 2] = 0
        if self._flags:
            self._queue("cuMemsetD8Async", self._flags + 16 * number, 0, 8)
        return word

    @property
    def flags(self) -> int:
        """See `Reports.flags`."""
        with self._making:
            if not self._flags:
                words = flags_of(self.ptr)
                address = DeviceMemory(self._context).allocate(words.nbytes)
                self._queue("cuMemcpyHtoDAsync_v2", address, words.ctypes.data, words.nbytes)
                self._flags = address
        return self._flags

    def _queue(self, function: str, *arguments: int) -> None:
        """Call a function of the driver's on a stream of its own, and wait: one that is captured could not be."""
        stream = Stream(self._context)
        getattr(self._context.driver, function)(*arguments, stream.handle)
        stream.synchronize()
        stream.close()
