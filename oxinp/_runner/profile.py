"""What each line of the program cost: its time, and the launches, copies and fallbacks that it caused.

Counts are exact: whoever counts tells the profile, which looks for the user's line on the stack. A pending storage
keeps the instruction that recorded it, and the launch that computes it goes to that one's line, whichever line needs
the value. Time is sampled by a thread that looks every so often where the program's threads are, so that lines which
launch nothing cost nothing to watch.

At an operation the profile notes the user's instruction and no more; frames of ours on the way there are passed over,
for to look at one makes it an object. At a launch it notes that of the storage that `schedule` is at work on, for the
sampling thread to count.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType

from oxinp._config import config
from oxinp._core.lazy import calls, schedule
from oxinp._core.memory.storage import Storage
from oxinp._runner.finder import is_users_file
from oxinp._runtime import counters

__all__ = ["Line", "Profile"]

LEAST_INTERVAL, MOST_INTERVAL = 0.01, 0.05  # seconds between two samples; each holds the program up for up to 1 ms
SHARE = 0.02  # of the time so far, which the interval grows with
MOST_LAUNCHES = 1 << 17  # between two samples, and so in a forked process, where nobody samples

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
    code : CodeType or None
        None for all that is not the user's.
    known : dict
        Lines by file and number, of all code.
    """

    __slots__ = ("code", "known")

    def __init__(self, code: CodeType | None, known: dict[tuple[str, int], Line]) -> None:
        self.code = code
        self.known = known

    def __missing__(self, offset: int) -> Line:
        place = "", 0
        if self.code is not None:
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
        self._elsewhere = self._latest = _Lines(None, self._lines)  # the latest code of the user's mostly comes again
        self._launches: deque[tuple[_Lines, int, tuple[int, int]]] = deque(maxlen=MOST_LAUNCHES)  # not yet counted
        self._stopped = False
        self._began = 0.0
        self._record = self._recorder()
        self._sampler = threading.Thread(target=self._sample, name="oxinp profile", daemon=True)

    def start(self) -> None:
        """Watch from now on."""
        self._began = time.perf_counter()
        counters.watch(self._count, self._launch_watcher)
        schedule.watch(self._record)
        config.renew()  # for launchers that were made before
        self._sampler.start()

    def follow(self) -> Callable[[], str]:
        """Watch nothing but where operations come from; return what gives the line of what is at work, "file:line"."""
        schedule.watch(self._record)

        def line() -> str:
            found = self._line()
            return f"{found.file}:{found.number}" if found.file else ""

        return line

    def stop(self) -> None:
        """Watch no longer."""
        self.seconds = time.perf_counter() - self._began
        self._stopped = True
        self._sampler.join()
        schedule.unwatch(self._record)
        counters.unwatch(self._count, self._launch_watcher)
        config.renew()
        self._count_launches()

    def lines(self) -> list[Line]:
        """Return the lines that took time or caused anything, the most expensive first; without a file, the rest."""
        return sorted(self._lines.values(), key=lambda line: -line.seconds)

    # -- what is told --------------------------------------------------------------------------------------------------

    def _recorder(self) -> schedule.Record:
        """Return what remembers where a storage becomes pending or is written to: it is on the path of every operation.

        It notes the instruction, which only those that cause something are asked the line of.
        """
        frame_of = sys._getframe

        def record(storage: Storage, depth: int) -> None:
            frame = frame_of(depth)
            lines = self._latest
            if frame.f_code is lines.code:
                storage.lines = lines
                storage.offset = frame.f_lasti
            else:
                storage.lines, storage.offset = self._find(frame)
                if len(schedule.PENDING) > schedule.MAX_PENDING:
                    schedule.prune(storage, depth)

        return record

    def _count(self, name: str, amount: int) -> None:
        self._line().count(name, amount)

    def _launch_watcher(self, work: tuple[int, int]) -> Callable[[], None]:
        """Return what notes a launch: what its line is comes later, when nobody waits for it."""
        note, frame_of = self._launches.append, sys._getframe

        def note_launch() -> None:
            storage = calls.at_work.storage
            if storage is not None:
                try:
                    note((storage.lines, storage.offset, work))
                except AttributeError:  # recorded before anybody watched
                    note((self._elsewhere, 0, work))
            else:  # beyond this one, the launch, and what launches, which is not the user's
                note((*self._find(frame_of(3)), work))

        return note_launch

    def _count_launches(self) -> None:
        while self._launches:
            lines, offset, (flops, nbytes) = self._launches.popleft()
            line = lines[offset]
            line.launches += 1
            line.flops += flops
            line.device_bytes += nbytes

    def _line(self) -> Line:
        """Return the line whose storage is computed or written to, else the one that the program is at."""
        storage = calls.at_work.storage
        if storage is not None:
            lines, offset = getattr(storage, "lines", self._elsewhere), getattr(storage, "offset", 0)
        else:  # beyond this one and who counts comes what is not the user's
            lines, offset = self._find(sys._getframe(2))
        line: Line = lines[offset]
        return line

    def _find(self, frame: FrameType | None) -> tuple[_Lines, int]:
        """Return the user's innermost instruction, from a frame outwards."""
        latest, by_code = self._latest, self._by_code
        while frame is not None:
            code = frame.f_code
            if code is latest.code:
                return latest, frame.f_lasti
            key = id(code)
            if key not in by_code:
                self._codes.append(code)
                by_code[key] = _Lines(code, self._lines) if is_users_file(code.co_filename) else None
            lines = by_code[key]
            if lines is not None:
                self._latest = lines
                return lines, frame.f_lasti
            frame = frame.f_back
        return self._elsewhere, 0

    # -- what is sampled -----------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        own = get_ident()
        elsewhere = self._elsewhere
        before = time.perf_counter()
        while not self._stopped:
            time.sleep(min(max((before - self._began) * SHARE, LEAST_INTERVAL), MOST_INTERVAL))
            self._count_launches()
            now = time.perf_counter()
            for ident, frame in sys._current_frames().items():
                lines, offset = (elsewhere, 0) if ident == own else self._find(frame)
                if lines is not elsewhere:
                    line = lines[offset]
                    line.seconds += now - before
                    if frame.f_code.co_filename.startswith(_OURS):
                        line.seconds_inside += now - before
            if len(schedule.PENDING) > schedule.MAX_PENDING:
                self._latest = elsewhere  # and so the next to record prunes: it does not look at each operation
            # No frame is kept while the thread sleeps: it would keep the program's arrays.
            del frame
            before = now
