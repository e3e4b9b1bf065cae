"""Debugging: which driver objects are never given back, which calls were made, and what a device looks like now."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oxinp._driver import handle
from oxinp._driver.memory import DeviceMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._driver.api import DriverFunction
    from oxinp._driver.context import Context
    from oxinp._driver.handle import Handle
    from oxinp._driver.library import Library

__all__ = ["Call", "Leak", "LeakDetector", "TracedLibrary", "snapshot"]

_HERE = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Leak:
    """Objects of one kind that were made by one line and live on.

    Attributes
    ----------
    kind : str
    count : int
    nbytes : int
        Of memory, 0 for what has no size.
    line : str
        "file:line in function", of the innermost caller outside this package.
    """

    kind: str
    count: int
    nbytes: int
    line: str

    def __str__(self) -> str:
        size = f", {self.nbytes} bytes" if self.nbytes else ""
        return f"{self.count} x {self.kind}{size} from {self.line}"


class LeakDetector:
    """What was made inside a `with` block and is still there.

    Examples
    --------
    >>> from oxinp._driver.debug import LeakDetector
    >>> with LeakDetector() as detector:
    ...     pass
    >>> detector.leaks()
    []
    """

    def __init__(self) -> None:
        self._lines: WeakKeyDictionary[Handle, str] = WeakKeyDictionary()

    def __enter__(self) -> LeakDetector:
        handle.watchers.append(self._watch)
        return self

    def __exit__(self, *exception: object) -> None:
        handle.watchers.remove(self._watch)

    def leaks(self) -> list[Leak]:
        """Return what is neither closed nor gone, the most frequent first."""
        counts: Counter[tuple[str, str]] = Counter()
        sizes: Counter[tuple[str, str]] = Counter()
        for made, line in list(self._lines.items()):
            if not made.is_closed:
                key = type(made).__name__, line
                counts[key] += 1
                sizes[key] += getattr(made, "nbytes", 0)
        return [Leak(kind, count, sizes[kind, line], line) for (kind, line), count in counts.most_common()]

    def _watch(self, made: Handle) -> None:
        self._lines[made] = caller_line()


def caller_line() -> str:
    """Return where the innermost caller outside this package stands, "file:line in function"."""
    for frame, line in traceback.walk_stack(None):
        if not frame.f_code.co_filename.startswith(_HERE):
            return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return "an unknown line"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a driver function.

    Attributes
    ----------
    name : str
    result : int
        The CUresult.
    seconds : float
        How long it took.
    """

    name: str
    result: int
    seconds: float


class TracedLibrary:
    """A driver library that notes every call: give it to `driver.start` in the place of the other.

    Parameters
    ----------
    library : Library

    Attributes
    ----------
    calls : list of Call
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self.calls: list[Call] = []

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked after the library had been initialised."""
        return self._library.is_forked

    @is_forked.setter
    def is_forked(self, value: bool) -> None:
        self._library.is_forked = value

    def bind(self, row: DriverFunction) -> Callable[..., int]:
        """Return a function that notes its calls."""
        function, calls = self._library.bind(row), self.calls

        def noted(*arguments: object) -> int:
            start = time.perf_counter()
            result = function(*arguments)
            calls.append(Call(row.name, result, time.perf_counter() - start))
            return result

        return noted

    def watch_fork(self) -> None:
        """Disable every function in children forked from now on."""
        self._library.watch_fork()

    @contextlib.contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count the calls of a `with` block by name; the counter is filled at its end."""
        begin, counts = len(self.calls), Counter[str]()
        yield counts
        counts.update(call.name for call in self.calls[begin:])


def snapshot(context: Context) -> str:
    """Return what there is to know of a device and its context now, for a report of an error."""
    device = context.device
    lines = [f"device {device.ordinal}: {device.name}, {device.uuid}, {device.pci_address}"]
    major, minor = device.compute_capability
    lines.append(f"compute capability {major}.{minor}, {device.num_sms} multiprocessors, CUDA {device.driver.version}")
    fault = context.driver.fault
    if fault is not None:
        lines.append(f"lost: {fault}")
    else:
        free, total = DeviceMemory(context).info()
        lines.append(f"memory: {free} bytes free of {total}")
    kernels = context.launches.suspects()
    lines.append(f"launched since it was last waited for: {', '.join(kernels) or 'nothing'}")
    lines += [f"{name}: {value}" for name, value in sorted(device.attributes().items())]
    return "\n".join(lines)
