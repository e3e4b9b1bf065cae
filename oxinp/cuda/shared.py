"""Shared arrays: device memory that several processes use, each by arrays of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

import numpy as np

from oxinp._driver import errors
from oxinp._driver.device import list_devices
from oxinp._driver.ipc import ExportedMemory, ImportedMemory
from oxinp._runtime import select
from oxinp.cuda import current

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from oxinp._runtime.cuda import CudaBackend

__all__ = ["SharedArray"]

# By their tokens: a process can open what it has exported or opened itself by no other way.
_known: WeakValueDictionary[bytes, ExportedMemory | ImportedMemory] = WeakValueDictionary()


class SharedArray:
    """Device memory that other processes of the machine can use, too.

    ``oxinp.asarray(shared)`` is an array over it, without a copy. Pickled, for instance as an argument of a
    `multiprocessing` process, it is the same memory in the other process.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype_like
        Not object.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes : int

    Raises
    ------
    NotSupported
        There is no GPU.
    MemoryError
        The device has no room for it.

    Notes
    -----
    Its contents are undefined at first. Processes do not wait for each other: `Event` with ``is_shared=True`` is for
    that, or `synchronize`. The memory is given back when the process that made it lets go of it; the others must be
    done with it by then.

    Examples
    --------
    >>> import oxinp as np
    >>> if np.cuda.is_available():
    ...     shared = np.cuda.SharedArray(1000, "f4")
    ...     x = np.asarray(shared)
    ...     x[:] = 1
    """

    __slots__ = ("__weakref__", "_memory", "_token", "_uuid", "dtype", "nbytes", "shape")

    def __init__(self, shape: int | tuple[int, ...], dtype: DTypeLike = float) -> None:
        self._set(shape, dtype)
        backend = current.cuda_backend()
        if backend is None:
            raise errors.NotSupported("shared arrays need a GPU: oxinp.cuda.is_available() is False here")
        memory = ExportedMemory(backend.context, max(self.nbytes, 1))
        self._memory: ExportedMemory | ImportedMemory = memory
        self._token, self._uuid = memory.token, backend.device.uuid
        _known[self._token] = memory

    def _set(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype.hasobject:
            raise TypeError("Python objects cannot be in device memory")
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where it is, for `oxinp.asarray` and other libraries."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.ptr, False),
            "strides": None,
            "version": 3,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (self._token, self._uuid, self.shape, self.dtype.str)

    def __repr__(self) -> str:
        return f"<SharedArray {self.shape} {self.dtype}>"


def _open(token: bytes, uuid: str, shape: tuple[int, ...], dtype: str) -> SharedArray:
    """Return a pickled array: over the memory that this process has, or over what it opens of another one."""
    made = object.__new__(SharedArray)
    made._set(shape, dtype)
    made._token, made._uuid = token, uuid
    memory = _known.get(token)
    if memory is None:
        memory = _known[token] = ImportedMemory(_backend(uuid).context, token)
    made._memory = memory
    return made


def _backend(uuid: str) -> CudaBackend:
    for device in list_devices():
        if device.uuid == uuid:
            return cast("CudaBackend", select.device_backend(device.ordinal))
    raise errors.DeviceNotFound(f"the device that the shared array is on, {uuid}, is not visible in this process")
