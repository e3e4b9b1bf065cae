"""The device behind the arrays: what ran on it, waiting for it, its memory, streams, events, graphs and own kernels.

Everything here also works where there is no GPU, and means there what is true there: nothing was launched, nothing has
to be waited for, and events measure the host's time. The exceptions of the driver, `CudaError` and those below it, are
here under their own names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oxinp import _runtime
from oxinp._driver import errors as _errors
from oxinp._driver.errors import *  # noqa: F403 - the exceptions are listed once, there
from oxinp._runtime import counters, select
from oxinp._runtime.backend import BackendUnavailable
from oxinp._runtime.memory import MemoryStats
from oxinp._version import __version__
from oxinp.cuda.event import Event
from oxinp.cuda.stream import Stream

if TYPE_CHECKING:  # what `_LAZY` names
    from oxinp.cuda import debug, kernel, profiler
    from oxinp.cuda.device import Device, best_device, current_device, links, list_devices
    from oxinp.cuda.device_pool import DevicePool
    from oxinp.cuda.graph import Graph
    from oxinp.cuda.green import GreenContext
    from oxinp.cuda.memory import limit_memory, memory_stats, pinned_array, pinned_empty, reset_peak, trim
    from oxinp.cuda.raw_kernel import RawKernel
    from oxinp.cuda.shared import SharedArray


__all__ = [  # noqa: PLE0604 - and so are their names
    "BackendUnavailable",
    "Device",
    "DevicePool",
    "Event",
    "Graph",
    "GreenContext",
    "MemoryStats",
    "RawKernel",
    "SharedArray",
    "Stream",
    "best_device",
    "current_device",
    "debug",
    "is_available",
    "kernel",
    "limit_memory",
    "links",
    "list_devices",
    "memory_stats",
    "pinned_array",
    "pinned_empty",
    "profiler",
    "reset_peak",
    "reset_stats",
    "stats",
    "synchronize",
    "trim",
    "__version__",
    *_errors.__all__,
]


def stats() -> counters.Stats:
    """Return what was done since the start of the process or the last `reset_stats`.

    Returns
    -------
    Stats
        A snapshot with the attributes `launches` (kernels), `h2d_bytes` and `d2h_bytes` (copied to the device and
        back), `fallbacks` (a dict: how often NumPy did the work on the host, by its own function names), `compiled`
        (kernels compiled), `cache_hits` (kernels found compiled on disk) and `evicted_bytes` (of arrays that were
        copied to the host because the device was out of memory).

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
    """Compute everything that is pending and wait until it is done, on every device that was used.

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
        for other in select.opened():
            if other is not backend and other.name == backend.name:
                other.synchronize()


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


_LAZY = {
    "Device": "oxinp.cuda.device",
    "DevicePool": "oxinp.cuda.device_pool",
    "Graph": "oxinp.cuda.graph",
    "GreenContext": "oxinp.cuda.green",
    "RawKernel": "oxinp.cuda.raw_kernel",
    "SharedArray": "oxinp.cuda.shared",
    "best_device": "oxinp.cuda.device",
    "current_device": "oxinp.cuda.device",
    "debug": "oxinp.cuda.debug",
    "kernel": "oxinp.cuda.kernel",
    "limit_memory": "oxinp.cuda.memory",
    "links": "oxinp.cuda.device",
    "list_devices": "oxinp.cuda.device",
    "memory_stats": "oxinp.cuda.memory",
    "pinned_array": "oxinp.cuda.memory",
    "pinned_empty": "oxinp.cuda.memory",
    "profiler": "oxinp.cuda.profiler",
    "reset_peak": "oxinp.cuda.memory",
    "trim": "oxinp.cuda.memory",
}
"""Where the names are that few programs need; they are loaded when they are first used."""


if not TYPE_CHECKING:  # to type checkers, the names above are all there are

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(_LAZY[name])
        value = module if _LAZY[name].endswith(f".{name}") else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
