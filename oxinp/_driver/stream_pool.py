"""The driver's own memory pools: memory that is allocated and freed in a stream's order."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import AccessFlag, AllocationType, LocationType, PoolAttribute
from oxinp._driver.handle import Handle
from oxinp._driver.structures import MemAccessDesc, MemLocation, MemPoolProps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oxinp._driver.context import Context
    from oxinp._driver.device import Device

__all__ = ["ATTRIBUTES", "StreamPool"]

ATTRIBUTES = {
    "release_threshold": PoolAttribute.RELEASE_THRESHOLD,  # bytes that are kept when the device is waited for
    "reserved_nbytes": PoolAttribute.RESERVED_MEM_CURRENT,
    "reserved_peak_nbytes": PoolAttribute.RESERVED_MEM_HIGH,
    "used_nbytes": PoolAttribute.USED_MEM_CURRENT,
    "used_peak_nbytes": PoolAttribute.USED_MEM_HIGH,
    "follows_events": PoolAttribute.REUSE_FOLLOW_EVENT_DEPENDENCIES,
    "is_opportunistic": PoolAttribute.REUSE_ALLOW_OPPORTUNISTIC,
    "adds_dependencies": PoolAttribute.REUSE_ALLOW_INTERNAL_DEPENDENCIES,
}
"""Numbers of the CU_MEMPOOL_ATTR_* that `StreamPool` knows, by the names used here."""

_NBYTES_ATTRIBUTES = range(PoolAttribute.RELEASE_THRESHOLD, PoolAttribute.USED_MEM_HIGH + 1)


class StreamPool(Handle):
    """A pool of a device's memory.

    Parameters
    ----------
    context : Context
    max_nbytes : int
        The most it ever holds; 0 for as much as there is. Drivers before CUDA 12.2 do not know it.
    handle : int, optional
        A pool that exists already: it is used and never destroyed.

    Attributes
    ----------
    context : Context
    is_owned : bool
        Whether `close` destroys it.
    """

    __slots__ = ("context", "is_owned")

    destroyer = "cuMemPoolDestroy"

    def __init__(self, context: Context, *, max_nbytes: int = 0, handle: int | None = None) -> None:
        self.context = context
        self.is_owned = handle is None
        if handle is None:
            location = MemLocation(LocationType.DEVICE, context.device.handle)
            props = MemPoolProps(allocType=AllocationType.PINNED, location=location, maxSize=max_nbytes)
            made = ctypes.c_void_p()
            context.driver.cuMemPoolCreate(ctypes.byref(made), ctypes.byref(props))
            handle = made.value or 0
        super().__init__(context.driver, handle)

    @classmethod
    def default(cls, context: Context) -> StreamPool:
        """Return the pool that every device has, which `DeviceMemory.allocate_async` takes from."""
        handle = ctypes.c_void_p()
        context.driver.cuDeviceGetDefaultMemPool(ctypes.byref(handle), context.device.handle)
        return cls(context, handle=handle.value or 0)

    def allocate(self, nbytes: int, stream: int = 0) -> int:
        """Return the address of memory that a stream, and what waits for it, may use from here on.

        Raises
        ------
        OutOfMemory
            There is not enough.
        """
        if nbytes < 1:
            raise errors.InvalidValue(f"nbytes={nbytes}: an allocation has at least one byte")
        ptr = ctypes.c_uint64()
        self.driver.cuMemAllocFromPoolAsync(ctypes.byref(ptr), nbytes, self.handle, stream)
        return ptr.value

    def free(self, ptr: int, stream: int = 0) -> None:
        """Free memory in the order of a stream."""
        self.driver.cuMemFreeAsync(ptr, stream)

    def attribute(self, name: str) -> int:
        """Return one of `ATTRIBUTES`."""
        value = _value(ATTRIBUTES[name], 0)
        self.driver.cuMemPoolGetAttribute(self.handle, ATTRIBUTES[name], ctypes.byref(value))
        return value.value

    def set_attribute(self, name: str, value: int) -> None:
        """Set one of `ATTRIBUTES`: the threshold and the switches to what is given, the peaks to 0."""
        number = ATTRIBUTES[name]
        self.driver.cuMemPoolSetAttribute(self.handle, number, ctypes.byref(_value(number, value)))

    def trim(self, keep_nbytes: int = 0) -> None:
        """Release unused memory to the device, but for so many bytes."""
        self.driver.cuMemPoolTrimTo(self.handle, keep_nbytes)

    def set_access(self, devices: Iterable[Device], *, is_allowed: bool = True) -> None:
        """Grant other devices access to the memory of the pool, or revoke it.

        Raises
        ------
        PeerError, InvalidValue
            One of them cannot reach it.
        """
        flags = AccessFlag.READWRITE if is_allowed else AccessFlag.NONE
        wanted = [MemAccessDesc(MemLocation(LocationType.DEVICE, device.handle), flags) for device in devices]
        array = (MemAccessDesc * len(wanted))(*wanted)
        self.driver.cuMemPoolSetAccess(self.handle, array, len(wanted))

    def _destroy(self, handle: int) -> None:
        if self.is_owned:
            self.driver.cuMemPoolDestroy(handle)


def _value(number: int, value: int) -> ctypes.c_uint64 | ctypes.c_int:
    return ctypes.c_uint64(value) if number in _NBYTES_ATTRIBUTES else ctypes.c_int(value)
