"""Device memory, pinned host memory, and copies between them. Addresses and sizes are plain ints."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver.enums import HostMemoryFlag, HostRegisterFlag
from oxinp._driver.handle import Handle

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["DeviceMemory", "PinnedMemory", "RegisteredMemory"]


class DeviceMemory:
    """The memory of a context's device.

    Parameters
    ----------
    context : Context

    Attributes
    ----------
    free : Callable
        Takes an address from `allocate`; waits for the device and gives the memory back.
    free_async : Callable
        Takes an address from `allocate_async` and a stream handle.
    upload, download, copy : Callable
        Take destination, source and bytes; up and down, the data has been read or is there on return (work queued on
        streams other than the default one is not waited for). `copy` is from device to device.
    upload_async, download_async, copy_async : Callable
        Take a stream handle too. With pinned host memory they return at once, and it must not change until the stream
        has passed; with pageable memory `upload_async` has read it on return, `download_async` fills it before.
    fill8_async, fill16_async, fill32_async : Callable
        Take an address, a value of that many bits, how many of them, and a stream handle.
    """

    __slots__ = (
        "_allocate",
        "_allocate_async",
        "_info",
        "copy",
        "copy_async",
        "download",
        "download_async",
        "fill8_async",
        "fill16_async",
        "fill32_async",
        "free",
        "free_async",
        "upload",
        "upload_async",
    )

    def __init__(self, context: Context) -> None:
        # The checked calls themselves, bound once: transfers are frequent enough to save the attribute look-ups.
        driver = context.driver
        self._allocate = driver.cuMemAlloc_v2
        self._allocate_async = driver.cuMemAllocAsync
        self._info = driver.cuMemGetInfo_v2
        self.free = driver.cuMemFree_v2
        self.free_async = driver.cuMemFreeAsync
        self.upload = driver.cuMemcpyHtoD_v2
        self.download = driver.cuMemcpyDtoH_v2
        self.copy = driver.cuMemcpyDtoD_v2
        self.upload_async = driver.cuMemcpyHtoDAsync_v2
        self.download_async = driver.cuMemcpyDtoHAsync_v2
        self.copy_async = driver.cuMemcpyDtoDAsync_v2
        self.fill8_async = driver.cuMemsetD8Async
        self.fill16_async = driver.cuMemsetD16Async
        self.fill32_async = driver.cuMemsetD32Async

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, a multiple of 256; `nbytes` is at least 1.

        Raises
        ------
        OutOfMemory
            There is not enough.
        """
        ptr = ctypes.c_uint64()
        self._allocate(ctypes.byref(ptr), nbytes)
        return ptr.value

    def allocate_async(self, nbytes: int, stream: int) -> int:
        """Return the address of memory that a stream, and what waits for it, may use from here on.

        Raises
        ------
        OutOfMemory
            There is not enough.
        """
        ptr = ctypes.c_uint64()
        self._allocate_async(ctypes.byref(ptr), nbytes, stream)
        return ptr.value

    def info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the device, all processes considered."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._info(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


class _HostMemory(Handle):
    """Host memory that the driver knows.

    Attributes
    ----------
    ptr, nbytes : int
    """

    __slots__ = ("nbytes",)

    def __init__(self, context: Context, ptr: int, nbytes: int) -> None:
        super().__init__(context.driver, ptr)
        self.nbytes = nbytes

    @property
    def ptr(self) -> int:
        """Host address."""
        return self.handle

    @property
    def device_ptr(self) -> int:
        """Address for kernels.

        Raises
        ------
        InvalidValue
            It was not made with ``is_mapped=True``.
        """
        found = ctypes.c_uint64()
        self.driver.cuMemHostGetDevicePointer_v2(ctypes.byref(found), self.handle, 0)
        return found.value


class PinnedMemory(_HostMemory):
    """Host memory that stays where it is, so that the device can copy it at full speed and by itself.

    Parameters
    ----------
    context : Context
    nbytes : int
        At least 1.
    is_write_combined : bool
        Faster for the device to read and unbearably slow for the host to: for uploads only.
    is_mapped : bool
        Whether kernels can use it in place, under `device_ptr`.

    Attributes
    ----------
    ptr, nbytes : int
    """

    __slots__ = ()

    destroyer = "cuMemFreeHost"

    def __init__(
        self, context: Context, nbytes: int, *, is_write_combined: bool = False, is_mapped: bool = False
    ) -> None:
        ptr = ctypes.c_void_p()
        flags = HostMemoryFlag.PORTABLE
        flags |= HostMemoryFlag.WRITECOMBINED if is_write_combined else 0
        flags |= HostMemoryFlag.DEVICEMAP if is_mapped else 0
        context.driver.cuMemHostAlloc(ctypes.byref(ptr), nbytes, flags)
        super().__init__(context, ptr.value or 0, nbytes)

    def view(self) -> memoryview:
        """Return the bytes as a writable buffer that keeps this object alive; not to be used after `close`."""
        array = (ctypes.c_ubyte * self.nbytes).from_address(self.handle)
        array.owner = self  # type: ignore[attr-defined]
        return memoryview(array).cast("B")


class RegisteredMemory(_HostMemory):
    """Host memory that exists already, pinned as long as this object lives.

    Parameters
    ----------
    context : Context
    ptr, nbytes : int
        Which memory; it must stay where it is until `close`.
    is_mapped : bool
        Whether kernels can use it in place, under `device_ptr`.

    Raises
    ------
    InvalidValue
        It is pinned already, or not memory of this process.
    OutOfMemory
        The operating system does not grant so much pinned memory.
    """

    __slots__ = ()

    destroyer = "cuMemHostUnregister"

    def __init__(self, context: Context, ptr: int, nbytes: int, *, is_mapped: bool = False) -> None:
        flags = HostRegisterFlag.PORTABLE | (HostRegisterFlag.DEVICEMAP if is_mapped else 0)
        context.driver.cuMemHostRegister_v2(ptr, nbytes, flags)
        super().__init__(context, ptr, nbytes)
