"""Reports: errors that kernels find, raised when the host next waits for the device.

An operation whose indices only the device knows claims a report before it is asked for, and so does one whose
floating-point errors are told of. Its kernels write there what is wrong; whoever next reads from the device or
synchronises gets the exception, with the line that asked for the operation as a note, or the warning, in the name of
that line. `config.synchronous` has it raised by that line itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

from oxinp._config import config
from oxinp._core.errors.frames import Line, user_frame
from oxinp._core.lazy import schedule
from oxinp._core.lazy.placement import device
from oxinp._kernels.plan import REPORT_ADDRESS_BITS
from oxinp._runtime import hooks, select
from oxinp._runtime.backend import NUM_REPORTS
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.registry import Registry

if TYPE_CHECKING:
    from oxinp._core.lazy.handle import Handle
    from oxinp._runtime.backend import Reports

_new = object.__new__
Make = Callable[[int], "Exception | None"]

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
        self._taking = free_in_children(RLock())
        self.numbers = count(1)
        self.origins: list[Any] = [None] * NUM_ORIGINS

    def claim(self, ptr: int, make: Make, line: Line) -> int:
        number = next(self.numbers)
        turn, place = divmod(number, NUM_REPORTS)
        claimed = ptr + REPORT_NBYTES * place + (turn % _NUM_ROUNDS << REPORT_ADDRESS_BITS)
        self.origins[number % NUM_ORIGINS] = number, claimed, make, line
        return claimed

    def check(self) -> None:
        reports = self._reports()
        if reports is None or reports.are_empty():
            return
        with self._taking:  # what another thread has taken is raised there
            written = reports.read()
            places = written.nonzero()[0].tolist()
            taken = [(place, int(written[place]) % (1 << 64), reports.take(place)) for place in places]
        found = []
        for place, claimed, word in taken:
            turn = claimed >> REPORT_ADDRESS_BITS
            origin = self.origins[(turn * NUM_REPORTS + place) % NUM_ORIGINS]
            if origin is not None and origin[1] == claimed:
                found.append((origin, word))
            elif claimed % (1 << REPORT_ADDRESS_BITS) == reports.ptr + REPORT_NBYTES * place:
                found.append(((0, claimed, _forgotten, None), word))  # else flags, of a line that is no more known
        errors = []
        for (_, _, make, line), word in sorted(found, key=lambda report: report[0][0]):
            error = make(word)  # which may warn, and call what is the user's
            if error is not None:
                what = f"{line} asked for" if line else f"was asked for over {NUM_ORIGINS} reports ago"
                error.add_note(f"found by the device in what {what}")
                errors.append(error)
        if errors:
            raise errors[0]


def _forgotten(_: int) -> Exception:
    return IndexError("an index is out of bounds")


_RINGS: Registry[_Ring] = Registry()  # each lives as long as its reports, and these as their device


def claim(make: Make) -> int:
    """Return what kernels are given for a report: its address, and which claim this is.

    Parameters
    ----------
    make : callable
        What a kernel reports -> the exception; None where nothing is to be raised.
    """
    backend: Any
    version, backend = select._decided  # `device`, spelled out
    if version != config.version or backend is None:
        backend = device()
    reports = backend._reports or backend.reports
    ring = reports.ring
    if ring is None:
        _give_ring(reports)
        ring = reports.ring
    frame = user_frame()
    line = _new(Line)  # which is told of, and never warns
    line.file, line.number = frame.f_code.co_filename, frame.f_lineno
    number = next(ring.numbers)  # `_Ring.claim`, spelled out
    claimed = reports.ptr + REPORT_NBYTES * (number % NUM_REPORTS)
    claimed += number // NUM_REPORTS % _NUM_ROUNDS << REPORT_ADDRESS_BITS
    ring.origins[number % NUM_ORIGINS] = number, claimed, make, line
    return claimed  # type: ignore[no-any-return]


def claim_flags(make: Make, line: Line) -> int:
    """Return what kernels are given for a report of flags: the address of its words of `Reports.flags`, and the claim.

    Parameters
    ----------
    make : callable
        As of `claim`; a byte of what kernels report stands for each bit of the flags.
    line : Line
        Which asks for the operation.
    """
    reports = device().reports
    if reports.ring is None:
        _give_ring(reports)
    return reports.ring.claim(reports.flags, make, line)  # type: ignore[no-any-return]


def _give_ring(reports: Reports) -> None:
    """Give the reports of a device their ring, unless another thread does."""
    made = _Ring(reports)
    if reports.ring is None:  # no other thread runs between this and the assignment, since nothing is called
        reports.ring = made
        _RINGS.add(made)
        if check not in hooks.after_waiting:  # it is asked each time that anybody waits
            hooks.after_waiting.append(check)


def check() -> None:
    """Raise what kernels have reported."""
    for ring in _RINGS:
        ring.check()


def settle(result: Handle) -> None:
    """Have an operation run and raise at once where `config.synchronous` asks for that."""
    if config.synchronous:
        schedule.materialise(result._storage)
        device().synchronize()


hooks.in_forked_child.append(_RINGS.clear)
