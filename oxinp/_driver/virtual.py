"""Virtual memory: address ranges that are reserved once, and physical memory mapped to them piece by piece.

A range can grow without a copy, and shrink in the middle: what stays keeps its address.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import AccessFlag, AllocationType, GranularityFlag, LocationType
from oxinp._driver.handle import Handle
from oxinp._driver.structures import MemAccessDesc, MemAllocationProp, MemLocation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oxinp._driver.context import Context
    from oxinp._driver.device import Device

__all__ = ["AddressRange", "PhysicalMemory", "granularity"]


def granularity(context: Context) -> int:
    """Return the unit of mapped memory of a context's device, in bytes (2 MiB on current ones)."""
    nbytes = ctypes.c_size_t()
    context.driver.cuMemGetAllocationGranularity(
        ctypes.byref(nbytes), ctypes.byref(_properties(context)), GranularityFlag.MINIMUM
    )
    return nbytes.value


class PhysicalMemory(Handle):
    """Memory of a device without an address: it gets one by `AddressRange.map`.

    Parameters
    ----------
    context : Context
    nbytes : int
        A multiple of `granularity`.
    """

    __slots__ = ("nbytes",)

    destroyer = "cuMemRelease"

    def __init__(self, context: Context, nbytes: int) -> None:
        if nbytes < 1:
            raise errors.InvalidValue(f"nbytes={nbytes}: physical memory has at least one byte")
        made = ctypes.c_uint64()
        context.driver.cuMemCreate(ctypes.byref(made), nbytes, ctypes.byref(_properties(context)), 0)
        super().__init__(context.driver, made.value)
        self.nbytes = nbytes


class AddressRange(Handle):
    """A range of device addresses, with memory behind some of it.

    Parameters
    ----------
    context : Context
    nbytes : int
        A multiple of `granularity`; it costs addresses, of which there are 2^47, and no memory.

    Attributes
    ----------
    context : Context
    ptr, nbytes : int
    mapped : dict of int to PhysicalMemory
        What lies behind the range, by offset.
    """

    __slots__ = ("context", "mapped", "nbytes")

    destroyer = "cuMemAddressFree"

    def __init__(self, context: Context, nbytes: int) -> None:
        if nbytes < 1:
            raise errors.InvalidValue(f"nbytes={nbytes}: a range has at least one byte")
        ptr = ctypes.c_uint64()
        context.driver.cuMemAddressReserve(ctypes.byref(ptr), nbytes, 0, 0, 0)
        super().__init__(context.driver, ptr.value)
        self.context = context
        self.nbytes = nbytes
        self.mapped: dict[int, PhysicalMemory] = {}

    @property
    def ptr(self) -> int:
        """First address."""
        return self.handle

    def map(self, offset: int, memory: PhysicalMemory, devices: Iterable[Device] = ()) -> None:
        """Map physical memory to part of the range, for the context's device and others to read and write.

        Parameters
        ----------
        offset : int
            A multiple of `granularity`; nothing may lie there yet.
        memory : PhysicalMemory
            Kept until `unmap`.
        devices : iterable of Device
            Which others.
        """
        nbytes = memory.nbytes
        if not 0 <= offset <= self.nbytes - nbytes:
            raise errors.InvalidValue(f"offset={offset}: {nbytes} bytes there are not inside a range of {self.nbytes}")
        ptr = self.handle + offset
        self.driver.cuMemMap(ptr, nbytes, 0, memory.handle, 0)
        self.mapped[offset] = memory
        try:
            self._allow(ptr, nbytes, devices)
        except BaseException:
            self.unmap(offset)
            raise

    def share(self, devices: Iterable[Device]) -> None:
        """Grant other devices access to the memory that is mapped now."""
        wanted = list(devices)
        for offset, memory in self.mapped.items():
            self._allow(self.handle + offset, memory.nbytes, wanted)

    def _allow(self, ptr: int, nbytes: int, devices: Iterable[Device]) -> None:
        numbers = dict.fromkeys([self.context.device.handle, *[device.handle for device in devices]])
        wanted = [MemAccessDesc(MemLocation(LocationType.DEVICE, number), AccessFlag.READWRITE) for number in numbers]
        self.driver.cuMemSetAccess(ptr, nbytes, (MemAccessDesc * len(wanted))(*wanted), len(wanted))

    def commit(self, offset: int, nbytes: int) -> None:
        """Map new physical memory to part of the range."""
        self.map(offset, PhysicalMemory(self.context, nbytes))

    def unmap(self, offset: int) -> PhysicalMemory:
        """Unmap and return the memory at an offset; the device must be done with it."""
        memory = self.mapped[offset]
        self.driver.cuMemUnmap(self.handle + offset, memory.nbytes)
        del self.mapped[offset]
        return memory

    def _destroy(self, handle: int) -> None:
        for offset, memory in self.mapped.items():
            self.driver.cuMemUnmap(handle + offset, memory.nbytes)
        self.mapped.clear()
        self.driver.cuMemAddressFree(handle, self.nbytes)


def _properties(context: Context) -> MemAllocationProp:
    return MemAllocationProp(
        type=AllocationType.PINNED, location=MemLocation(LocationType.DEVICE, context.device.handle)
    )
