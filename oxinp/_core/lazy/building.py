"""Building what runs, planning, tracing and compiling, outside the lock.

Where something has to be built is found out under the lock. `missing` then ends the attempt, if whoever began it is
prepared to begin again (`attempt`): the lock is given up, what is missing is built, and the attempt is repeated. So a
thread whose kernels exist never waits for another thread's compiler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

LOCK: Any = threading.RLock()
"""Held while something is computed or written."""

Result = TypeVar("Result")


class Missing(Exception):
    """Something has to be built before an attempt can succeed."""

    def __init__(self, build: Callable[[], object]) -> None:
        super().__init__("not built")
        self.build = build


class _State:
    """Whether the attempt that the thread with the lock makes may be repeated."""

    __slots__ = ("is_repeatable",)

    def __init__(self) -> None:
        self.is_repeatable = False


_state = _State()


def missing(build: Callable[[], object]) -> None:
    """Have something built: outside the lock if the attempt can be repeated, for which this raises, else here."""
    if _state.is_repeatable:
        raise Missing(build)
    build()


def attempt(body: Callable[..., Result], *args: Any) -> Result:
    """Return ``body(*args)``, run under the lock, as often as it finds something missing.

    What `body` does before that must do no harm when it is done again.
    """
    if LOCK._is_owned():
        return body(*args)  # as repeatable as what has taken the lock
    while True:
        try:
            with LOCK:
                _state.is_repeatable = True
                try:
                    return body(*args)
                finally:
                    _state.is_repeatable = False
        except Missing as found:
            build = found.build
        build()
