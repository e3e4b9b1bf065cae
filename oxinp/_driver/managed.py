"""Managed memory: one address for host and device, with pages that move to whoever touches them, and hints to it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import Advice, AttachFlag, RangeAttribute
from oxinp._driver.handle import Handle

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["ADVICE", "HOST", "ManagedMemory"]

HOST = -1
"""What stands for the host where a device's ordinal is asked for."""

ADVICE = {
    "read_mostly": (Advice.SET_READ_MOSTLY, Advice.UNSET_READ_MOSTLY),  # everybody gets a copy
    "preferred_location": (Advice.SET_PREFERRED_LOCATION, Advice.UNSET_PREFERRED_LOCATION),  # pages stay there
    "accessed_by": (Advice.SET_ACCESSED_BY, Advice.UNSET_ACCESSED_BY),  # mapped there wherever they are
}
"""Numbers that give each hint of `ManagedMemory.advise`, and take it back."""


class ManagedMemory(Handle):
    """Memory that host and device use under one address.

    Parameters
    ----------
    context : Context
    nbytes : int
        At least 1; more than the device has is allowed.

    Attributes
    ----------
    ptr, nbytes : int
    """

    __slots__ = ("nbytes",)

    destroyer = "cuMemFree_v2"

    def __init__(self, context: Context, nbytes: int) -> None:
        if nbytes < 1:
            raise errors.InvalidValue(f"nbytes={nbytes}: managed memory has at least one byte")
        ptr = ctypes.c_uint64()
        context.driver.cuMemAllocManaged(ctypes.byref(ptr), nbytes, AttachFlag.GLOBAL)
        super().__init__(context.driver, ptr.value)
        self.nbytes = nbytes

    @property
    def ptr(self) -> int:
        """Address on the host and on the device."""
        return self.handle

    def view(self) -> memoryview:
        """Return the bytes as a writable buffer that keeps this object alive; wait for the device before it is read."""
        array = (ctypes.c_ubyte * self.nbytes).from_address(self.handle)
        array.owner = self  # type: ignore[attr-defined]
        return memoryview(array).cast("B")

    def advise(self, hint: str, device: int = HOST, *, is_set: bool = True, offset: int = 0, nbytes: int = 0) -> None:
        """Tell the driver how the memory is going to be used; it changes speed, never results.

        Parameters
        ----------
        hint : {"read_mostly", "preferred_location", "accessed_by"}
        device : int
            Ordinal, or HOST; of no meaning for "read_mostly".
        is_set : bool
            Whether the hint is given or taken back.
        offset, nbytes : int
            Which part; everything from `offset` on if `nbytes` is 0.
        """
        if hint not in ADVICE:
            raise errors.InvalidValue(f"hint={hint!r}: known are {', '.join(ADVICE)}")
        number = ADVICE[hint][0 if is_set else 1]
        self.driver.cuMemAdvise(*self._range(offset, nbytes), number, device)

    def prefetch(self, device: int, stream: int = 0, *, offset: int = 0, nbytes: int = 0) -> None:
        """Move pages to a device, given by its ordinal, or to HOST, in a stream's order."""
        self.driver.cuMemPrefetchAsync(*self._range(offset, nbytes), device, stream)

    def is_read_mostly(self) -> bool:
        """Return whether the hint is given for all of it."""
        return bool(self._attribute(RangeAttribute.READ_MOSTLY))

    def preferred_location(self) -> int | None:
        """Return the ordinal or HOST that was advised for all of it, None where there is no such place."""
        return _location(self._attribute(RangeAttribute.PREFERRED_LOCATION))

    def last_prefetch(self) -> int | None:
        """Return the ordinal or HOST that all of it was last moved to by `prefetch`, None if it was not."""
        return _location(self._attribute(RangeAttribute.LAST_PREFETCH_LOCATION))

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.driver.cuMemRangeGetAttribute(ctypes.byref(value), ctypes.sizeof(value), number, self.handle, self.nbytes)
        return value.value

    def _range(self, offset: int, nbytes: int) -> tuple[int, int]:
        nbytes = nbytes or self.nbytes - offset
        if not (offset >= 0 and 0 < nbytes <= self.nbytes - offset):
            raise errors.InvalidValue(f"offset={offset}, nbytes={nbytes}: not inside memory of {self.nbytes} bytes")
        return self.handle + offset, nbytes


def _location(number: int) -> int | None:
    return None if number < HOST else number
