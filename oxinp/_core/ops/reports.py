"""Reports: errors that kernels find, raised when the host next waits for the device.

An operation whose indices only the device knows claims a report before it is asked for. Its kernels write there what
is wrong; whoever next reads from the device or synchronises gets the exception, with the line that asked for the
operation as a note. `config.synchronous` has it raised by that line itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from oxinp._config import config
from oxinp._core.host.fallback import user_frame
from oxinp._core.lazy import schedule
from oxinp._core.lazy.placement import device
from oxinp._runtime import hooks
from oxinp._runtime.backend import NUM_REPORTS

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._runtime.backend import Reports

REPORT_NBYTES = 16


class _Ring:
    """The reports of a device, given out one after the other; the oldest is given out again."""

    def __init__(self, reports: Reports) -> None:
        self._reports = ref(reports)
        self.ptr = reports.ptr
        self.number = 0
        self.origins: list[Any] = [None] * NUM_REPORTS

    def claim(self, make: Callable[[int], Exception]) -> int:
        frame = user_frame()
        number = self.number = (self.number + 1) % NUM_REPORTS
        self.origins[number] = make, frame.f_code.co_filename, frame.f_lineno
        return self.ptr + REPORT_NBYTES * number

    def check(self) -> None:
        reports = self._reports()
        if reports is None or not (written := reports.read()).any():
            return
        errors = []
        for number in written.nonzero()[0].tolist():
            make, file, line = self.origins[number]
            error = make(reports.take(number))
            error.add_note(f"found by the device in what line {line} of {file} asked for")
            errors.append(error)
        raise errors[0]


_RINGS: WeakSet[_Ring] = WeakSet()  # each lives as long as its reports, and these as their device


def claim(make: Callable[[int], Exception]) -> int:
    """Return the address of a report.

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
