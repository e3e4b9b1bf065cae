"""Debugging: what is never given back, which kernels were launched, and what a device looks like."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from oxinp import _runtime
from oxinp._driver import debug as driver_debug
from oxinp._driver.debug import Leak, LeakDetector
from oxinp.cuda import current

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from oxinp._runtime.backend import Backend
    from oxinp._runtime.memory import Buffer

__all__ = ["Launch", "LaunchTrace", "Leak", "LeakDetector", "MemoryLeakDetector", "snapshot"]


class _Watch:
    """Something that sees what array operations do inside a `with` block."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()

    def _methods(self, backend: Backend) -> dict[str, Callable[..., Any]]:
        """Return methods for the place of a backend's."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        current.flush()
        backend = _runtime.current()
        if backend is not None:
            self._open.enter_context(current.wrapped(backend, self._methods(backend)))
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            current.flush()
        finally:
            self._open.close()


class MemoryLeakDetector(_Watch):
    """The device memory of arrays that was taken inside a `with` block and is still held.

    Examples
    --------
    >>> from oxinp.cuda.debug import MemoryLeakDetector
    >>> with MemoryLeakDetector() as detector:
    ...     pass
    >>> detector.leaks()
    []
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: WeakKeyDictionary[Buffer, str] = WeakKeyDictionary()

    def _methods(self, backend: Backend) -> dict[str, Callable[..., Any]]:
        allocate = backend.allocate

        def noted(nbytes: int) -> Buffer:
            buffer = allocate(nbytes)
            self._lines[buffer] = current.user_line()
            return buffer

        return {"allocate": noted}

    def leaks(self) -> list[Leak]:
        """Return what is held now, by the lines that took it, the most memory first."""
        counts: dict[str, tuple[int, int]] = {}
        held = [buffer for known in self._lines.keyrefs() if (buffer := known()) is not None]
        for buffer in held:  # as they are now: other threads take memory meanwhile
            line = self._lines[buffer]
            count, nbytes = counts.get(line, (0, 0))
            counts[line] = count + 1, nbytes + buffer.nbytes
        found = [Leak("Buffer", count, nbytes, line) for line, (count, nbytes) in counts.items()]
        return sorted(found, key=lambda leak: -leak.nbytes)


class Launch(NamedTuple):
    """One launch of a kernel.

    Attributes
    ----------
    kernel : str
    grid, block : (int, int, int)
        Blocks, and threads per block.
    stream : int
        Handle of the stream it went to.
    line : str
        The user's, "file:line".
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    stream: int
    line: str


class LaunchTrace(_Watch):
    """The kernels that array operations launch inside a `with` block.

    Attributes
    ----------
    launches : list of Launch
        In order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches: list[Launch] = []

    def _methods(self, backend: Backend) -> dict[str, Callable[..., Any]]:
        make = backend.launcher

        def launcher(kernel: Any, grid: Any, *rest: Any) -> Callable[..., None]:
            launch = make(kernel, grid, *rest)

            def noted(*varying: Any) -> None:
                line = current.user_line()
                self.launches.append(Launch(kernel.name, grid, kernel.block, backend.stream, line))
                launch(*varying)

            return noted

        return {"launcher": launcher}


def snapshot() -> str:
    """Return what there is to know of the device and its context now, for a report of an error."""
    backend = current.cuda_backend()
    if backend is None:
        return f"no GPU in use: {_runtime.why_host() or 'the emulator is'}"
    return f"{driver_debug.snapshot(backend.context)}\npool: {backend.pool.stats()}"
