"""The device behind the arrays: what ran on it, waiting for it, its memory, streams and events.

Everything here also works where there is no GPU, and means there what is true there: nothing was launched, nothing has
to be waited for, and events measure the host's time. The exceptions of the driver, `CudaError` and those below it, are
here under their own names.
"""

from __future__ import annotations

from _driver import errors as _errors
from _driver.errors import *  # noqa: F403 - the exceptions are listed once, there
from oxinp import _runtime
from oxinp._runtime import counters
from oxinp._runtime.backend import BackendUnavailable
from oxinp._runtime.memory import MemoryStats
from oxinp.cuda.event import Event
from oxinp.cuda.stream import Stream

__all__ = [  # noqa: PLE0604 - and so are their names
    "BackendUnavailable",
    "Event",
    "MemoryStats",
    "Stream",
    "is_available",
    "memory_stats",
    "reset_stats",
    "stats",
    "synchronize",
    "trim",
    *_errors.__all__,
]


def stats() -> counters.Stats:
    """Return what was done since the start of the process or the last `reset_stats`.

    Returns
    -------
    Stats
        A snapshot with the attributes `launches` (kernels), `h2d_bytes` and `d2h_bytes` (copied to the device and
        back), `fallbacks` (a dict: how often NumPy did the work on the host, by its own function names), `compiled`
        (kernels compiled) and `cache_hits` (kernels found compiled on disk).

    Examples
    --------
    >>> import oxinp.cuda
    >>> oxinp.cuda.reset_stats()
    >>> oxinp.cuda.stats().launches
    0
    """
    return counters.stats.copy()


def reset_stats() -> None:
    """Count from zero again."""
    counters.stats.reset()


def synchronize() -> None:
    """Compute everything that is pending and wait until the device is done.

    Raises
    ------
    DeviceFault
        A kernel failed; nothing more can run on the GPU in this process.
    MemoryError
        A pending result does not fit into the device's memory.
    """
    backend = _runtime.current()
    if backend is not None:
        backend.synchronize()


def is_available() -> bool:
    """Return whether large arrays live on a GPU.

    False under ``backend="host"`` and ``backend="emulator"`` too. It never raises; under ``backend="cuda"`` the first
    operation that needs the missing GPU does, and says why.
    """
    try:
        backend = _runtime.current()
    except BackendUnavailable:
        return False
    return backend is not None and backend.name == "cuda"


def memory_stats() -> MemoryStats:
    """Return how much device memory arrays use, the pool keeps, and the device has; zeros where there is no device.

    Returns
    -------
    MemoryStats
        With the attributes `used_nbytes`, `cached_nbytes`, `peak_nbytes`, `free_nbytes`, `total_nbytes`,
        `driver_allocations` and `num_blocks`.
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
