"""Memory: what arrays use of the device, how much they may, and host memory that the bus reads by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp import _runtime
from oxinp._driver.memory import PinnedMemory
from oxinp._runtime.memory import MemoryStats
from oxinp.cuda import current

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

__all__ = ["MemoryStats", "limit_memory", "memory_stats", "pinned_array", "pinned_empty", "reset_peak", "trim"]


def memory_stats() -> MemoryStats:
    """Return how much device memory arrays use, the pool keeps, and the device has; zeros where there is no device.

    Returns
    -------
    MemoryStats
        With the attributes `used_nbytes`, `cached_nbytes`, `peak_nbytes`, `free_nbytes`, `total_nbytes`,
        `driver_allocations`, `num_blocks` and `limit_nbytes`.
    """
    backend = _runtime.current()
    if backend is None:
        return MemoryStats(0, 0, 0, 0, 0, 0, 0)
    return backend.memory_stats()


def trim() -> None:
    """Give the memory that is kept for reuse back to the driver; arrays keep theirs."""
    backend = _runtime.current()
    if backend is not None:
        backend.trim()


def limit_memory(nbytes: int | None) -> None:
    """Let the pool of the current device hold no more than so many bytes, in use and kept together.

    Parameters
    ----------
    nbytes : int or None
        None for as much as there is. What is held already stays.

    Raises
    ------
    ValueError
        It is negative.
    """
    if nbytes is not None and nbytes < 0:
        raise ValueError(f"nbytes={nbytes}: a limit is not negative")
    backend = _runtime.current()
    if backend is not None:
        backend.pool.limit_nbytes = nbytes


def reset_peak() -> None:
    """Begin a new measurement of `peak_nbytes`."""
    backend = _runtime.current()
    if backend is not None:
        backend.pool.reset_peak()


def pinned_empty(shape: int | tuple[int, ...], dtype: DTypeLike = float) -> np.ndarray[Any, Any]:
    """Return a NumPy array in pinned host memory, contents undefined: `Stream.copy` reads and fills it by itself.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype_like
        Not object.

    Returns
    -------
    numpy.ndarray
        Where there is no GPU, an ordinary one.
    """
    backend, wanted = current.cuda_backend(), np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if backend is None or not count * wanted.itemsize:
        return np.empty(shape, wanted)
    if wanted.hasobject:
        raise TypeError("Python objects cannot be in pinned memory")
    memory = PinnedMemory(backend.context, count * wanted.itemsize)
    return np.frombuffer(memory.view(), wanted, count).reshape(shape)


def pinned_array(values: ArrayLike) -> np.ndarray[Any, Any]:
    """Return a copy of values in pinned host memory; see `pinned_empty`."""
    given = np.asarray(values)
    pinned = pinned_empty(given.shape, given.dtype)
    pinned[...] = given
    return pinned
