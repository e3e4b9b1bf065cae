"""Debugging: what is never given back, what a device looks like, and which driver calls were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _driver import debug as driver_debug
from _driver.debug import Leak, LeakDetector
from oxinp import _runtime
from oxinp.cuda import current

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Leak", "LeakDetector", "MemoryLeakDetector", "snapshot"]


class MemoryLeakDetector:
    """The device memory of arrays that a `with` block took and did not give back.

    Attributes
    ----------
    nbytes : int
        After the block: bytes in use more than before it.

    Examples
    --------
    >>> from oxinp.cuda.debug import MemoryLeakDetector
    >>> with MemoryLeakDetector() as detector:
    ...     pass
    >>> detector.nbytes
    0
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._before = 0

    def __enter__(self) -> Self:
        current.flush()
        self._before = _used_nbytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        current.flush()
        self.nbytes = _used_nbytes() - self._before


def snapshot() -> str:
    """Return what there is to know of the device and its context now, for a report of an error."""
    backend = current.cuda_backend()
    if backend is None:
        return f"no GPU in use: {_runtime.why_host() or 'the emulator is'}"
    return f"{driver_debug.snapshot(backend.context)}\npool: {backend.pool.stats()}"


def _used_nbytes() -> int:
    backend = _runtime.current()
    return 0 if backend is None else backend.memory_stats().used_nbytes
