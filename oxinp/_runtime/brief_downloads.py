"""Downloads of few bytes: a program that reads a number, or a small array, waits for little else than the driver.

The driver's own copy to pageable memory goes through some of its own, and the wait for it takes longer than asking
whether the stream has passed a copy to memory that is pinned. What takes long, as a large kernel before it, is left to
the driver's copy, which comes after this one and can be slept in; so is whatever the driver finds wrong, for the
error is the same one again.
"""

from __future__ import annotations

import ctypes
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._driver import errors
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from oxinp._driver.driver import Driver
    from oxinp._runtime.staging import Port

__all__ = ["MOST_NBYTES", "BriefDownloads"]

MOST_NBYTES = 1 << 16
RENTED = 64
"""Downloads that go the driver's own way before there is memory, unless some has been pinned for other copies.

The first takes the driver milliseconds, as long as some hundred downloads save, and more of it hardly any time.
"""
MOST_SECONDS = 40e-6
"""How long the stream is asked."""
_NUMBERS = "dflqiB?"
"""The dtypes of most numbers that are read, which NumPy copies sooner than the interpreter copies bytes."""


class BriefDownloads:
    """The memory that few bytes come from the default stream through.

    Parameters
    ----------
    port : Port
    driver : Driver
    """

    def __init__(self, port: Port, driver: Driver) -> None:
        self._port = port
        self._driver = driver
        self._copy = driver.raw("cuMemcpyDtoHAsync_v2")
        self._has_passed = driver.raw_hot("cuStreamQuery")
        self._stream = ctypes.c_void_p()  # the default one, for what converts nothing
        lock = free_in_children(Lock())
        self._acquire, self._release = lock.acquire, lock.release
        self._left, self._is_short = RENTED, False
        self._at, self._bytes = 0, memoryview(b"")  # where it is, and what lies there
        self._numbers: dict[np.dtype[Any], np.ndarray[Any, Any]] = {}  # and as what it is read where that is one number

    def download(self, array: np.ndarray[Any, Any], ptr: int, nbytes: int) -> bool:
        """Fill a writable array from the device, as `Transfers.download` does.

        Returns False where that is to do it: for arrays that are not small, the first ones, one that another thread's
        is in the way of, and what does not arrive at once.
        """
        driver = self._driver
        if nbytes > MOST_NBYTES or driver.ends or len(driver.contexts) > 1:
            return False
        if self._left and (self._is_short or not self._port.has_pinned):
            self._left -= 1
            return False
        if not self._acquire(False):
            return False
        try:
            at = self._at or self._begin()
            if not at or self._copy(at, ptr, nbytes, 0):
                return False
            has_passed, stream, end = self._has_passed, self._stream, perf_counter() + MOST_SECONDS
            while found := has_passed(stream):
                if found != errors.NOT_READY or perf_counter() > end:
                    return False
            if array.ndim == 0 and (number := self._numbers.get(array.dtype)) is not None:
                array[()] = number
                return True
            try:
                array.data.cast("B")[:] = self._bytes[:nbytes]
            except (TypeError, ValueError):  # of complex numbers or times
                array.reshape(-1).view(np.uint8)[:] = self._bytes[:nbytes]
        finally:
            self._release()
        return True

    def _begin(self) -> int:
        """Return where there is pinned memory from now on, 0 where the system grants none."""
        try:
            at, memory = self._port.allocate_pinned(MOST_NBYTES)
        except MemoryError:
            self._left, self._is_short = RENTED, True
            return 0
        self._bytes = memoryview(memory)  # type: ignore[arg-type]
        for dtype in map(np.dtype, _NUMBERS):
            self._numbers[dtype] = np.frombuffer(memory, dtype, 1).reshape(())
        self._at = at
        return at
