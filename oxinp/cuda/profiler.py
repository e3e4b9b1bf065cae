"""The profiler: what ran when, on the device and between it and the host, as chrome://tracing and Perfetto show it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp import _runtime
from oxinp._driver.event import Event as DriverEvent
from oxinp._runtime import counters, hooks
from oxinp._runtime.forking import free_in_children
from oxinp._terminal import columns, table
from oxinp.cuda import current

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from oxinp._runtime.backend import Backend

__all__ = ["Profile", "Span", "profile"]

_MICRO = 1e6


class Span(NamedTuple):
    """Something that took time.

    Attributes
    ----------
    kind : {"kernel", "copy", "allocation", "fallback"}
    name : str
    begin, seconds : float
        Seconds since the profile began, and how long; of kernels on the device's own clock, else the host's. An
        allocation and a fallback are moments.
    nbytes : int
        Moved or allocated; of kernels, read and written: every operand once.
    line : str
        The user's, "file:line", that computed, copied or allocated it.
    flops : int
        Of kernels that multiply matrices: two per multiply-add, eight where numbers are complex.
    what : str
        Of kernels, the operations that it was launched for: "add multiply sum -> float64 ()".
    """

    kind: str
    name: str
    begin: float
    seconds: float
    nbytes: int
    line: str
    flops: int = 0
    what: str = ""


class _Launched:
    """A kernel between two events, before it is known how long it took."""

    __slots__ = ("line", "name", "start", "stop", "what", "work")

    def __init__(self, name: str, work: tuple[int, int], start: Any, stop: Any, line: str) -> None:
        self.name, self.work, self.start, self.stop, self.line = name, work, start, stop, line
        self.what = ""

    def span(self, origin: Any) -> Span:
        """Return it, once the device has come past it."""
        flops, nbytes = self.work
        begin, seconds = origin.elapsed_ms(self.start) / 1e3, self.start.elapsed_ms(self.stop) / 1e3
        return Span("kernel", self.name, begin, seconds, nbytes, self.line, flops, self.what)


class _Nameless(threading.local):
    """The kernels that a thread has launched and nobody has said yet what for."""

    def __init__(self) -> None:
        self.launches: list[_Launched] = []


class Profile:
    """What the device does inside ``with Profile() as profile:``.

    Attributes
    ----------
    spans : list of Span
        After the block, in order of their beginning.

    Notes
    -----
    Every kernel is launched between two events while a profile is open, which costs a few microseconds each and keeps
    kernels from overlapping with what is queued next to them; nothing outside the block gets slower. Kernels of
    captured graphs are not seen.

    Examples
    --------
    >>> import oxinp as np
    >>> with np.config.override(backend="emulator"), np.cuda.profiler.profile() as profile:
    ...     total = float((np.ones(100_000) + 1).sum())
    >>> any(span.kind == "kernel" for span in profile.spans)
    True
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._kernels: list[_Launched] = []
        self._nameless = _Nameless()
        self._backend: Backend | None = None
        self._start = 0.0
        self._origin: Any = None
        self._lock = free_in_children(threading.Lock())
        self._is_over = False
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        backend = self._backend = _runtime.current()
        if backend is not None:
            backend.synchronize()
            self._origin = backend.record_event()
            self._open.enter_context(current.wrapped(backend, self._wrapped(backend)))
            for listening in hooks.telling_of_work:
                self._open.enter_context(listening(self._name))
        self._start = time.perf_counter()
        with _watching:
            _fallbacks.append(self)
            if not _is_watching:
                _is_watching.append(True)
                counters.watch(_tell)
        return self

    def __exit__(self, *exception: object) -> None:
        _fallbacks.remove(self)
        backend = self._backend
        try:
            current.flush()
        finally:
            self._open.close()
            with self._lock:  # other threads may be inside a call that notes what it has done
                self._is_over = True
        if backend is not None:
            with contextlib.suppress(Exception) if any(exception) else contextlib.nullcontext():
                backend.synchronize()
                self.spans += [launched.span(self._origin) for launched in self._kernels]
        self._kernels.clear()
        self.spans.sort(key=lambda span: span.begin)

    def events(self) -> list[dict[str, Any]]:
        """Return the spans as the trace-event format has them: kernels in one row, the host's doings in another."""
        rows = {"kernel": 1, "copy": 2, "allocation": 3, "fallback": 4}
        found: list[dict[str, Any]] = [
            {"ph": "M", "pid": 0, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in enumerate(("kernels", "copies", "allocations", "fallbacks"), 1)
        ]
        for span in self.spans:
            event = {
                "name": span.what or span.name,
                "cat": span.kind,
                "pid": 0,
                "tid": rows[span.kind],
                "ts": span.begin * _MICRO,
                "args": {"line": span.line, "nbytes": span.nbytes},
            }
            if span.kind == "kernel" and span.seconds:
                event["args"] |= {"kernel": span.name, "flops": span.flops} | {
                    name: f"{rate / span.seconds:.4g}"
                    for name, rate in (("TFLOP/s", span.flops / 1e12), ("GB/s", span.nbytes / 1e9))
                    if rate
                }
            is_moment = span.kind in {"allocation", "fallback"}
            event |= {"ph": "i", "s": "t"} if is_moment else {"ph": "X", "dur": span.seconds * _MICRO}
            found.append(event)
        return found

    def write(self, path: str | Path | int) -> None:
        """Write the profile as JSON, for chrome://tracing or https://ui.perfetto.dev; into a file or a descriptor."""
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a name, a path or a descriptor
            json.dump({"traceEvents": self.events(), "displayTimeUnit": "ms"}, file)

    def summary(self) -> str:
        """Return a table: how often each kernel and copy ran, how long in all and how fast, the longest first."""
        totals: dict[tuple[str, str], tuple[int, float, int, int]] = {}
        for span in self.spans:
            count, seconds, nbytes, flops = totals.get((span.kind, span.name), (0, 0.0, 0, 0))
            moved = nbytes + span.nbytes
            totals[span.kind, span.name] = count + 1, seconds + span.seconds, moved, flops + span.flops
        rows = [("what", "name", "count", "ms", "bytes", "flops", "GB/s", "TFLOP/s")]
        for (kind, name), (count, seconds, nbytes, flops) in sorted(totals.items(), key=lambda item: -item[1][1]):
            rates = [
                f"{amount / seconds / unit:.3g}" if amount and seconds else "-"
                for amount, unit in ((nbytes, 1e9), (flops, 1e12))
            ]
            rows.append((kind, name, str(count), f"{seconds * 1e3:.3f}", str(nbytes), str(flops), *rates))
        return table(rows, width=columns(), right=range(2, 8), text=[1])

    def _wrapped(self, backend: Backend) -> dict[str, Callable[..., Any]]:
        make, allocate = backend.launcher, backend.allocate

        def launcher(
            kernel: Any, grid: Any, num_varying: int, constants: Any, work: Any = counters.NO_WORK, *rest: Any
        ) -> Callable[..., None]:
            launch = make(kernel, grid, num_varying, constants, work, *rest)

            def launch_between_events(*varying: Any) -> None:
                start = _mark(backend)
                launch(*varying)
                launched = _Launched(kernel.name, work, start, _mark(backend), current.user_line())
                self._nameless.launches.append(launched)
                self._note(self._kernels, launched)

            return launch_between_events

        def allocate_noted(nbytes: int) -> Any:
            self.add("allocation", "allocate", time.perf_counter(), 0.0, nbytes)
            return allocate(nbytes)

        def timed(name: str) -> Callable[..., Any]:
            call = getattr(backend, name)

            def noted(*args: Any) -> Any:
                begin = time.perf_counter()
                result = call(*args)
                nbytes = args[2] if name == "copy" else next(arg.nbytes for arg in args if hasattr(arg, "nbytes"))
                self.add("copy", _COPIES[name], begin, time.perf_counter() - begin, nbytes)
                return result

            return noted

        return {"launcher": launcher, "allocate": allocate_noted, **{name: timed(name) for name in _COPIES}}

    def _name(self, what: str) -> None:
        """Say what the kernels are for that this thread has launched since the last time."""
        for launched in self._nameless.launches:
            launched.what = what
        self._nameless.launches.clear()

    def add(self, kind: str, name: str, begin: float, seconds: float, nbytes: int) -> None:
        """Note something that the host did, given by its `time.perf_counter`."""
        span = Span(kind, name, begin - self._start, seconds, nbytes, current.user_line())
        self._note(self.spans, span)

    def _note(self, noted: list[Any], entry: Any) -> None:
        with self._lock:
            if not self._is_over:
                noted.append(entry)


_COPIES = {"upload": "host to device", "download": "device to host", "copy": "on the device"}

profile = Profile

_watching = free_in_children(threading.Lock())
_fallbacks: list[Profile] = []
_is_watching: list[bool] = []


def _tell(name: str, amount: int) -> None:
    """Note a fallback: they are counted with NumPy's name and 0."""
    if not amount:
        for open_profile in tuple(_fallbacks):
            open_profile.add("fallback", f"numpy.{name}", time.perf_counter(), 0.0, 0)


def _mark(backend: Any) -> Any:
    if backend.name != "cuda":
        return backend.record_event()
    event = DriverEvent(backend.context)
    event.record(backend.stream)
    return event
