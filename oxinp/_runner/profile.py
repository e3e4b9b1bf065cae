"""What each line of the program cost: its time, and the launches, copies and fallbacks that it caused.

Counts are exact: whoever counts tells the profile, which looks for the user's line on the stack. A pending storage
keeps the line that recorded it, and the launch that computes it goes there, whichever line needs its value. Time is
sampled by a thread that looks every so often where the program's threads are, so that lines which launch nothing cost
nothing to watch.

What is done at each operation is to find the offset of the instruction that the user's code is at, and at each launch
to add to the counts of the line that is at work. Frames between are passed over, since to look at one makes it an
object.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from oxinp._core import schedule
from oxinp._core.layout import Layout
from oxinp._core.storage import Storage, Value
from oxinp._runner.finder import is_users_file
from oxinp._runtime import counters

__all__ = ["Line", "Profile"]

LEAST_INTERVAL, MOST_INTERVAL = 0.01, 0.05  # seconds between two samples; each holds the program up for up to 1 ms
SHARE = 0.02  # of the time so far, which the interval grows with

_OURS = __file__.removesuffix("_runner/profile.py").removesuffix("_runner\\profile.py")


class Line:
    """What one line cost.

    Attributes
    ----------
    file : str
    number : int
    seconds : float
        The user's innermost line was this one, summed over the program's threads.
    seconds_inside : float
        Of these, in oxinp's own Python code.
    launches, compiled, cache_hits : int
        Kernels launched, compiled, and loaded from the cache on disk.
    flops, device_bytes : int
        What the launches did: operations of matrix products, and bytes of device memory read and written.
    h2d_bytes, d2h_bytes : int
        Bytes copied to the device and back.
    num_h2d, num_d2h : int
        In how many copies.
    fallbacks : dict of str to int
        Calls that NumPy did, by its name.
    """

    __slots__ = (
        "cache_hits",
        "compiled",
        "d2h_bytes",
        "device_bytes",
        "fallbacks",
        "file",
        "flops",
        "h2d_bytes",
        "launches",
        "num_d2h",
        "num_h2d",
        "number",
        "seconds",
        "seconds_inside",
    )

    def __init__(self, file: str, number: int) -> None:
        self.file = file
        self.number = number
        self.seconds = self.seconds_inside = 0.0
        self.launches = self.compiled = self.cache_hits = 0
        self.flops = self.device_bytes = 0
        self.h2d_bytes = self.d2h_bytes = self.num_h2d = self.num_d2h = 0
        self.fallbacks: dict[str, int] = {}

    def count(self, name: str, amount: int) -> None:
        """Add what `counters.watch` tells of."""
        if not amount:
            self.fallbacks[name] = self.fallbacks.get(name, 0) + 1
            return
        setattr(self, name, getattr(self, name) + amount)
        if name == "h2d_bytes":
            self.num_h2d += 1
        elif name == "d2h_bytes":
            self.num_d2h += 1


class _Lines(dict[int, Line]):
    """The lines of a code object by the offsets of its instructions: a frame would find its line's number slowly.

    Parameters
    ----------
    code : CodeType
    known : dict
        Lines by file and number, of all code.
    """

    def __init__(self, code: CodeType, known: dict[tuple[str, int], Line]) -> None:
        self.code = code
        self.known = known

    def __missing__(self, offset: int) -> Line:
        numbers = [number for start, end, number in self.code.co_lines() if start <= offset < end]
        place = self.code.co_filename, (numbers and numbers[0]) or self.code.co_firstlineno
        line = self[offset] = self.known.setdefault(place, Line(*place))
        return line


class Profile:
    """The lines of the program, watched from `start` to `stop`.

    Attributes
    ----------
    seconds : float
        How long it watched.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lines: dict[tuple[str, int], Line] = {}
        self._by_code: dict[int, _Lines | None] = {}  # by the code's id, since its hash is slow; None where not users'
        self._codes: list[CodeType] = []  # kept, for their ids are the keys
        self._latest: tuple[CodeType | None, Any] = (None, None)  # of the user's: mostly the one that comes again
        self._working: tuple[int, Line | None] = (0, None)  # the thread that computes or writes, and for which line
        self._elsewhere = Line("", 0)
        self._stopped = False
        self._began = 0.0
        self._sampler = threading.Thread(target=self._sample, name="oxinp profile", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._began = time.perf_counter()
        counters.watch(self._count, self._around_launch)
        schedule.watch(self._recorder(), self._around_compute, self._around_write)
        self._sampler.start()

    def stop(self) -> None:
        """Watch no longer."""
        self.seconds = time.perf_counter() - self._began
        self._stopped = True
        self._sampler.join()

    def lines(self) -> list[Line]:
        """Return the lines that took time or caused anything, the most expensive first; without a file, the rest."""
        return sorted([*self._lines.values(), self._elsewhere], key=lambda line: -line.seconds)

    # -- what is told --------------------------------------------------------------------------------------------------

    def _recorder(self) -> schedule.Record:
        """Return what remembers the line of each storage that becomes pending: it is on the path of every operation."""
        frame_of, pending, room = sys._getframe, schedule.PENDING, schedule.MAX_PENDING

        def record(storage: Storage, depth: int) -> None:
            frame = frame_of(depth)
            code, lines = self._latest
            storage.line = lines[frame.f_lasti] if frame.f_code is code else self._line_at(frame)
            if len(pending) > room:
                schedule.prune(storage, depth)

        return record

    def _around_compute(self, compute: schedule.Compute) -> schedule.Compute:
        """Let what is counted while a pending storage is computed go to the line that recorded it."""

        def compute_for_line(storage: Storage, value: Value) -> Value:
            outer = self._working
            try:
                self._working = get_ident(), storage.line
            except AttributeError:  # recorded before anybody watched
                self._working = get_ident(), self._elsewhere
            try:
                return compute(storage, value)
            finally:
                self._working = outer

        return compute_for_line

    def _around_write(self, write: schedule.Write) -> schedule.Write:
        """Let what is counted while a part of a storage is written go to the line that writes it."""
        frame_of = sys._getframe

        def write_for_line(storage: Storage, layout: Layout, value: Value, source: Storage | None) -> None:
            outer = self._working
            self._working = get_ident(), self._line_at(frame_of(3))  # beyond this one and two that are not the user's
            try:
                write(storage, layout, value, source)
            finally:
                self._working = outer

        return write_for_line

    def _count(self, name: str, amount: int) -> None:
        thread, line = self._working
        if line is None or thread != get_ident():
            line = self._line_at(sys._getframe(2))
        line.count(name, amount)

    def _around_launch(self, launch: Callable[..., None], work: tuple[int, int]) -> Callable[..., None]:
        """Let launches go to the line whose pending storage they compute, else to the one that the program is at."""
        flops, nbytes = work
        frame_of = sys._getframe

        def launch_for_line(*varying: Any) -> None:
            launch(*varying)
            thread, line = self._working
            if line is None or thread != get_ident():
                line = self._line_at(frame_of(2))  # beyond this one and what launches, which is not the user's
            line.launches += 1
            line.flops += flops
            line.device_bytes += nbytes

        return launch_for_line

    def _line_at(self, frame: FrameType | None) -> Line:
        """Return the user's innermost line, from a frame outwards."""
        latest, lines = self._latest
        while frame is not None:
            code = frame.f_code
            if code is latest:
                return lines[frame.f_lasti]  # type: ignore[no-any-return]
            found = self._lines_of(code)
            if found is not None:
                self._latest = code, found
                return found[frame.f_lasti]
            frame = frame.f_back
        return self._elsewhere

    def _lines_of(self, code: CodeType) -> _Lines | None:
        """Return the lines of the user's code, None for code that is not the user's."""
        key = id(code)
        if key not in self._by_code:
            self._codes.append(code)
            self._by_code[key] = _Lines(code, self._lines) if is_users_file(code.co_filename) else None
        return self._by_code[key]

    # -- what is sampled -----------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        own = get_ident()
        elsewhere = self._elsewhere
        before = time.perf_counter()
        while not self._stopped:
            time.sleep(min(max((before - self._began) * SHARE, LEAST_INTERVAL), MOST_INTERVAL))
            now = time.perf_counter()
            for ident, frame in sys._current_frames().items():
                line = elsewhere if ident == own else self._line_at(frame)
                if line is not elsewhere:
                    line.seconds += now - before
                    if frame.f_code.co_filename.startswith(_OURS):
                        line.seconds_inside += now - before
            # No frame is kept while the thread sleeps: it would keep the program's arrays.
            del frame
            before = now
