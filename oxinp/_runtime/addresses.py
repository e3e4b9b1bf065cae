"""What lies at addresses that others give: whose memory it is, and of which kind."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver.enums import PointerAttribute

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["Addresses"]

_HOST_MEMORY = 1


class Addresses:
    """Addresses, as kernels of a device see them."""

    def __init__(self, context: Context) -> None:
        self._device = context.device
        self._pointer_attribute = context.driver.raw("cuPointerGetAttribute")

    def memory_kind(self, ptr: int) -> str:
        """Return what kind of memory lies at an address; see `Pages`."""
        is_managed, kind = ctypes.c_int(), ctypes.c_int()
        if not self._pointer_attribute(ctypes.byref(is_managed), PointerAttribute.IS_MANAGED, ptr) and is_managed.value:
            return "managed"
        if (
            not self._pointer_attribute(ctypes.byref(kind), PointerAttribute.MEMORY_TYPE, ptr)
            and kind.value == _HOST_MEMORY
        ):
            return "pinned"
        return "device"

    def check(self, ptr: int) -> None:
        """Raise BufferError, saying where it is, unless kernels may use the memory at an address."""
        ordinal = ctypes.c_int()
        if self._pointer_attribute(ctypes.byref(ordinal), PointerAttribute.DEVICE_ORDINAL, ptr):
            raise BufferError(f"{ptr:#x} is no address of device memory")
        if ordinal.value != self._device.ordinal:
            raise BufferError(
                f"the memory is on device {ordinal.value}, arrays live on {self._device}: copy it there first, or make "
                "that device the first one with CUDA_VISIBLE_DEVICES"
            )
