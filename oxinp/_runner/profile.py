"""What each line of the program cost: its time, and the launches, copies and fallbacks that it caused.

Counts are exact: whoever counts tells the profile, which looks for the user's line on the stack. A pending result is
remembered with the line that recorded it, and so is the launch that computes it, whichever line needs its value. Time
is sampled by a thread that looks every so often where the program's threads are, so that lines which launch nothing
cost nothing to watch.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

from oxinp._core import schedule
from oxinp._core.storage import Storage, Value
from oxinp._runner.finder import is_users_file
from oxinp._runtime import counters

__all__ = ["Line", "Profile"]

INTERVAL = 0.004  # seconds between two samples

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

    def count(self, name: str, amount: int, work: tuple[int, int]) -> None:
        """Add what `counters.watch` tells of."""
        if name == "launches":
            self.launches += amount
            self.flops += work[0]
            self.device_bytes += work[1]
            return
        if not amount:
            self.fallbacks[name] = self.fallbacks.get(name, 0) + 1
            return
        setattr(self, name, getattr(self, name) + amount)
        if name == "h2d_bytes":
            self.num_h2d += 1
        elif name == "d2h_bytes":
            self.num_d2h += 1


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
        # By code and instruction, since a frame finds its line's number slowly; None for code that is not the user's.
        self._by_code: dict[int, dict[int, Line] | None] = {}
        self._codes: list[CodeType] = []  # kept, for their ids are the keys
        self._recorded: dict[int, Line] = {}  # by the id of the pending storage, the latest that had it
        self._launching: list[tuple[int, Line | None]] = []  # thread and line of each, the innermost last
        self._elsewhere = Line("", 0)
        self._stopped = False
        self._began = 0.0
        self._sampler = threading.Thread(target=self._sample, name="oxinp profile", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._began = time.perf_counter()
        counters.watch(self._count)
        schedule.watch(self._recorder(), self._around)
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

    def _recorder(self) -> Callable[[Storage], None]:
        """Return what remembers the line of each storage that becomes pending: it is on the path of every operation."""
        by_code, recorded, pending = self._by_code, self._recorded, schedule.PENDING
        frame_of, room = sys._getframe, schedule.MAX_PENDING

        def record(storage: Storage) -> None:
            frame = frame_of(
                2
            )  # beyond this one and the operator: where the user calls that, unless others record, too
            try:
                line = by_code[id(frame.f_code)][frame.f_lasti]  # type: ignore[index] # caught
            except (KeyError, TypeError):
                line = self._line_at(frame) or self._elsewhere
            recorded[id(storage)] = line
            if len(pending) > room:
                schedule.prune(storage)

        return record

    def _around(self, compute: schedule.Compute) -> schedule.Compute:
        """Let what is counted while a pending storage is computed go to the line that recorded it."""
        launching, recorded, ident = self._launching, self._recorded, threading.get_ident

        def compute_for_line(storage: Storage, value: Value) -> Value:
            launching.append((ident(), recorded.pop(id(storage), None)))
            try:
                return compute(storage, value)
            finally:
                launching.pop()

        return compute_for_line

    def _count(self, name: str, amount: int, work: tuple[int, int]) -> None:
        if self._launching:
            thread, line = self._launching[-1]
            if line is not None and thread == threading.get_ident():
                if name == "launches":  # `Line.count`, spelled out: by far the most
                    line.launches += amount
                    line.flops += work[0]
                    line.device_bytes += work[1]
                else:
                    line.count(name, amount, work)
                return
        (self._line_at(sys._getframe(2)) or self._elsewhere).count(name, amount, work)

    def _line_at(self, frame: FrameType | None) -> Line | None:
        """Return the user's innermost line, from a frame outwards."""
        while frame is not None:
            code = frame.f_code
            try:
                offsets = self._by_code[id(code)]
            except KeyError:
                offsets = self._by_code[id(code)] = {} if is_users_file(code.co_filename) else None
                self._codes.append(code)
            if offsets is not None:
                line = offsets.get(frame.f_lasti)
                if line is None:
                    place = code.co_filename, frame.f_lineno
                    line = offsets[frame.f_lasti] = self._lines.setdefault(place, Line(*place))
                return line
            frame = frame.f_back
        return None

    # -- what is sampled -----------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        own = threading.get_ident()
        before = time.perf_counter()
        while not self._stopped:
            time.sleep(INTERVAL)
            now = time.perf_counter()
            for ident, frame in sys._current_frames().items():
                line = None if ident == own else self._line_at(frame)
                if line is not None:
                    line.seconds += now - before
                    if frame.f_code.co_filename.startswith(_OURS):
                        line.seconds_inside += now - before
            # No frame is kept while the thread sleeps: it would keep the program's arrays.
            del frame
            before = now
