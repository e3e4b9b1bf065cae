"""The primary context: the one that all libraries of a process share on a device."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from _driver.driver import Driver
from _driver.handle import Handle
from _driver.launch import LaunchLog

if TYPE_CHECKING:
    from _driver.device import Device

__all__ = ["Context"]


class Context(Handle):
    """A device's primary context, retained until `close`, and current in the thread that makes this object.

    Parameters
    ----------
    device : Device

    Attributes
    ----------
    device : Device
    driver : Driver
        Its functions make this context current in threads that have none.
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
        driver = Driver(device.driver.library, recover=self.make_current, suspects=self.launches.suspects)
        super().__init__(driver, handle.value or 0)
        self.make_current()

    def make_current(self) -> None:
        """Let driver calls of the calling thread mean this context."""
        # Through the device's functions: those of `driver` would come back here on failure.
        self.device.driver.cuCtxSetCurrent(self.handle)

    def is_current(self) -> bool:
        """Return whether driver calls of the calling thread mean this context."""
        handle = ctypes.c_void_p()
        self.driver.cuCtxGetCurrent(ctypes.byref(handle))
        return handle.value == self.handle

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

    def _destroy(self, handle: int) -> None:
        del handle  # a primary context is released by its device, whose functions work when the context is lost
        self.device.driver.cuDevicePrimaryCtxRelease_v2(self.device.handle)

    def __repr__(self) -> str:
        return f"<Context {self.handle:#x} of {self.device!r}>"
