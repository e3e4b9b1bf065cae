"""Reports: errors that kernels find, raised when the host next waits for the device.

An operation whose indices only the device knows claims a report before it is asked for. Its kernels write there what
is wrong; whoever next reads from the device or synchronises gets the exception, with the line that asked for the
operation as a note. `config.synchronous` has it raised by that line itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from oxinp._config import config
from oxinp._core.errors.frames import user_frame
from oxinp._core.lazy import schedule
from oxinp._core.lazy.placement import device
from oxinp._kernels.plan import REPORT_ADDRESS_BITS
from oxinp._runtime import hooks
from oxinp._runtime.backend import NUM_REPORTS

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._runtime.backend import Reports

REPORT_NBYTES = 16
NUM_ORIGINS = 4096
"""Claims whose origins are known, a megabyte: of operations that wait to be run, and of those queued on the device."""
_NUM_ROUNDS = 1 << 64 - REPORT_ADDRESS_BITS


class _Ring:
    """The reports of a device, given out one after the other; the oldest is given out again.

    What an earlier claim's kernels have yet to say may be written after that, so they leave the claim itself there: the
    report's address and, above it, how often the ring had gone round.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = ref(reports)
        self.ptr = reports.ptr
        self.numbers = count(1)
        self.origins: list[Any] = [None] * NUM_ORIGINS

    def claim(self, make: Callable[[int], Exception]) -> int:
        frame = user_frame()
        number = next(self.numbers)
        turn, place = divmod(number, NUM_REPORTS)
        claimed = self.ptr + REPORT_NBYTES * place + (turn % _NUM_ROUNDS << REPORT_ADDRESS_BITS)
        self.origins[number % NUM_ORIGINS] = number, claimed, make, frame.f_code.co_filename, frame.f_lineno
        return claimed

    def check(self) -> None:
        reports = self._reports()
        if reports is None or not (written := reports.read()).any():
            return
        errors = []
        for place in written.nonzero()[0].tolist():
            claimed = int(written[place]) % (1 << 64)
            errors.append(self._error(claimed, place, reports.take(place)))
        raise min(errors, key=lambda numbered: numbered[0])[1]

    def _error(self, claimed: int, place: int, word: int) -> tuple[int, Exception]:
        """Return the number of a claim, 0 where that is forgotten, and the exception of what it reports."""
        turn = claimed >> REPORT_ADDRESS_BITS
        origin = self.origins[(turn * NUM_REPORTS + place) % NUM_ORIGINS]
        if origin is None or origin[1] != claimed:
            error: Exception = IndexError("an index is out of bounds")
            error.add_note(f"found by the device in what was asked for over {NUM_ORIGINS} reports ago")
            return 0, error
        number, _, make, file, line = origin
        error = make(word)
        error.add_note(f"found by the device in what line {line} of {file} asked for")
        return number, error


_RINGS: WeakSet[_Ring] = WeakSet()  # each lives as long as its reports, and these as their device


def claim(make: Callable[[int], Exception]) -> int:
    """Return what kernels are given for a report: its address, and which claim this is.

    Parameters
    ----------
    make : callable
        What a kernel reports -> the exception.
    """
    reports = device().reports
    if reports.ring is None:
        reports.ring = _Ring(reports)
        _RINGS.add(reports.ring)
    number: int = reports.ring.claim(make)
    return number


def check() -> None:
    """Raise what kernels have reported."""
    for ring in tuple(_RINGS):
        ring.check()


def settle(result: Handle) -> None:
    """Have an operation run and raise at once where `config.synchronous` asks for that."""
    if config.synchronous:
        schedule.materialise(result._storage)
        device().synchronize()


hooks.after_waiting.append(check)
hooks.in_forked_child.append(_RINGS.clear)
