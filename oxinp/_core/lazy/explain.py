"""`explain`: what ran where, and why, while a report is open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from oxinp._runtime import hooks
from oxinp._terminal import columns, table

_LIBRARIES = {"oxinp", "numpy", "scipy"}  # whose lines are not the user's

# The open reports, innermost last. Places that decide something test this list and, unless it is empty, call `note`.
REPORTS: list[Explanation] = []


class Entry(NamedTuple):
    """One thing that happened."""

    where: str
    what: str
    why: str
    line: str


class Explanation:
    """What ran where, and why, between entering and leaving it; printing it gives a table.

    Attributes
    ----------
    entries : list of Entry
        ``where`` is "host", "device", "copy" or "fallback"; ``line`` the user's file and line.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __enter__(self) -> Self:
        REPORTS.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        REPORTS.remove(self)

    def __str__(self) -> str:
        if not self.entries:
            return "nothing ran"
        rows = [("where", "what", "why", "line"), *self.entries]
        return table(rows, width=columns(), text=[1, 2], paths=[3])

    __repr__ = __str__


class _Listening(Explanation):
    """A report that tells somebody of device work as it comes."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.entries = _Told(tell)


class _Told(list[Entry]):
    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, entry: Entry) -> None:
        if entry.where == "device":
            self._tell(entry.what)


hooks.telling_of_work.append(_Listening)


def explain() -> Explanation:
    """Return a context manager that records what runs where and why.

    Examples
    --------
    >>> import oxinp as np
    >>> with np.explain() as report:
    ...     total = (np.ones(4) + 1).sum()
    >>> report.entries[0].where
    'host'
    """
    return Explanation()


def note(where: str, what: str, why: str = "") -> None:
    """Add to the innermost open report, and tell those who listen."""
    entry = Entry(where, what, why, _user_line())
    reports = tuple(REPORTS)  # other threads open and close theirs
    for report in reports:
        if report is reports[-1] or type(report) is _Listening:
            report.entries.append(entry)


def _user_line() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
