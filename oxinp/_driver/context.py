"""The primary context: the one that all libraries of a process share on a device."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.driver import Driver
from oxinp._driver.enums import Limit
from oxinp._driver.handle import Handle
from oxinp._driver.launch_log import LaunchLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from oxinp._driver.device import Device

__all__ = ["LIMITS", "Context"]

LIMITS = {
    "stack_nbytes": Limit.STACK_SIZE,  # of each thread
    "printf_nbytes": Limit.PRINTF_FIFO_SIZE,
    "heap_nbytes": Limit.MALLOC_HEAP_SIZE,  # for malloc in kernels
    "l2_fetch_nbytes": Limit.MAX_L2_FETCH_GRANULARITY,
    "persisting_l2_nbytes": Limit.PERSISTING_L2_CACHE_SIZE,
    "num_pending_launches": Limit.DEV_RUNTIME_PENDING_LAUNCH_COUNT,  # from kernels
}
"""Numbers of the CU_LIMIT_* that `Context` knows, by the names used here."""


class Context(Handle):
    """A device's primary context, retained until `close`, and current in the thread that makes this object.

    Inside ``with context:`` it is current in the calling thread, and what was current before is again afterwards.
    Objects in it keep it alive; after `close` all of them are of no use any more, and say so.

    Parameters
    ----------
    device : Device

    Attributes
    ----------
    device : Device
    driver : Driver
        Its functions work in this context, whichever is current in the calling thread.
    launches : LaunchLog
        What was launched, for the message of a fault.

    Raises
    ------
    DeviceBusy
        The device is in exclusive mode and taken.
    OutOfMemory
        Other processes leave it no room.
    """

    __slots__ = ("device", "launches")

    destroyer = "cuDevicePrimaryCtxRelease_v2"

    def __init__(self, device: Device) -> None:
        self.device = device
        handle = ctypes.c_void_p()
        device.driver.cuDevicePrimaryCtxRetain(ctypes.byref(handle), device.handle)
        self.launches = LaunchLog()
        driver = Driver(
            device.driver.library,
            recover=self.make_current,
            suspects=self.launches.suspects,
            enter=self.enter,
            contexts=device.driver.contexts,
        )
        super().__init__(driver, handle.value or 0)
        device.driver.contexts.add(self.handle)
        self.make_current()

    def make_current(self) -> None:
        """Let driver calls of the calling thread mean this context."""
        # Through the device's functions: those of `driver` would come back here on failure.
        self.device.driver.cuCtxSetCurrent(self.handle)

    def enter(self) -> Callable[[], None] | None:
        """Make it current, and return a function that undoes that; None, and nothing done, where it is already."""
        before = self._current()
        if before == self.handle:
            return None
        self.make_current()
        restore = self.device.driver.cuCtxSetCurrent
        return lambda: restore(before)

    def is_current(self) -> bool:
        """Return whether driver calls of the calling thread mean this context."""
        return self._current() == self.handle

    def _current(self) -> int:
        handle = ctypes.c_void_p()
        self.device.driver.cuCtxGetCurrent(ctypes.byref(handle))
        return handle.value or 0

    def synchronize(self) -> None:
        """Wait for all work of the context.

        Raises
        ------
        DeviceFault
            Some of it failed; the context is lost.
        """
        self.driver.cuCtxSynchronize()
        self.launches.settle()

    @property
    def is_lost(self) -> bool:
        """Whether a fault has ended it; its objects can still be closed."""
        return self.driver.fault is not None

    def limit(self, name: str) -> int:
        """Return one of `LIMITS`, in bytes or calls."""
        value = ctypes.c_size_t()
        self.driver.cuCtxGetLimit(ctypes.byref(value), LIMITS[name])
        return value.value

    def set_limit(self, name: str, value: int) -> None:
        """Ask for another limit; the driver may round it, and `limit` tells what it made of it.

        Raises
        ------
        InvalidValue
            It cannot be that much, or not any more.
        """
        self.driver.cuCtxSetLimit(LIMITS[name], value)

    def stream_priorities(self) -> tuple[int, int]:
        """Return the numbers of the lowest and of the highest priority of streams; higher ones are lower numbers."""
        lowest, highest = ctypes.c_int(), ctypes.c_int()
        self.driver.cuCtxGetStreamPriorityRange(ctypes.byref(lowest), ctypes.byref(highest))
        return lowest.value, highest.value

    def close(self) -> None:
        """Give the context back; it ends when nobody else in the process holds it."""
        if not self.is_closed:
            self.driver.retire(errors.InvalidHandle("the context it belongs to is closed"))
        super().close()

    def _destroy(self, handle: int) -> None:
        del handle  # a primary context is released by its device, whose functions work when the context is lost
        self.device.driver.cuDevicePrimaryCtxRelease_v2(self.device.handle)

    def __enter__(self) -> Self:
        self.device.driver.cuCtxPushCurrent_v2(self.handle)
        return self

    def __exit__(self, *exception: object) -> None:
        self.device.driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def __repr__(self) -> str:
        return f"<Context of {self.device!r}>"
