"""Which floating-point errors of device work are told of, and how: `numpy.errstate`, as the user has set it.

The state is read when an operation is asked for. NumPy keeps it in a context variable, whose value is another object
after each change: while it is `quiet.state`, nothing is to be told, and that one comparison is all there is to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._config import before_change, config
from oxinp._core.errors.hearing import state

KINDS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}
"""NumPy's kinds of errors, and their bits."""

DIVIDE, OVER, UNDER, INVALID = KINDS.values()


class Checks(NamedTuple):
    """What is checked.

    Attributes
    ----------
    kinds : int
        Bits of the kinds that are told of.
    how : dict of str to str
        As `numpy.geterr` says it.
    call : object
        As `numpy.geterrcall` says it.
    """

    kinds: int
    how: dict[str, str]
    call: Any


class _Quiet:
    """A state of NumPy's under which nothing on the device is checked; the last one that was met."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Any = None


quiet = _Quiet()
current = state.get
_SILENT = {"explicit": ("ignore", "warn"), "numpy": ("ignore",), "ignore": ()}
_last: tuple[Any, Checks | None] = (None, None)


def checks() -> Checks | None:
    """Return what is checked of what the calling thread asks for now; None for nothing."""
    global _last
    now = current()
    if now is quiet.state:
        return None
    known, found = _last
    if known is not now:
        found = _checks()
        _last = now, found
        if found is None:
            quiet.state = now
    return found


def _checks() -> Checks | None:
    setting = config.floating_point_errors
    how: dict[str, Any] = dict(np.geterr())
    kinds = sum([KINDS[kind] for kind, what in how.items() if what not in _SILENT[setting]])
    return Checks(kinds, how, np.geterrcall()) if kinds and setting != "ignore" else None


def _forget(_: Any) -> None:
    """Ask again: the setting changes."""
    global _last
    _last = None, None
    quiet.state = None


before_change.setdefault("floating_point_errors", []).append(_forget)
checks()  # so that operators know NumPy's default state from the start
