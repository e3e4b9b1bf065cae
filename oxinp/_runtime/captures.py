"""Captures: while a stream is captured for a graph, nothing may wait for all of the device, which would end it."""

from __future__ import annotations

import contextlib
from collections import deque
from threading import Condition, RLock
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Captures"]


class Captures:
    """The captures of a device that are under way, and what is put off until there are none."""

    def __init__(self) -> None:
        self._lock = free_in_children(RLock())  # held where one of these two changes
        self._changing = Condition(self._lock)
        self._count = self._num_waits = 0
        self._are_held_up = False  # captures, by waits
        self._put_off: deque[Callable[[], object]] = deque()

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """Say that inside a `with` block a stream is captured."""
        with self._changing:
            while self._num_waits:  # which would fail, and end the capture
                self._are_held_up = True
                self._changing.wait()
            self._count += 1
        try:
            yield
        finally:
            with self._changing:
                self._count -= 1
            self._catch_up()

    def begin_to_wait(self) -> bool:
        """Say that all of the device is waited for, up to a call of `end_waiting`; False where it cannot be."""
        with self._lock:
            if self._count:
                return False
            self._num_waits += 1
            return True

    def end_waiting(self) -> None:
        """Say that it has been waited for."""
        with self._lock:
            self._num_waits -= 1
            if self._are_held_up:
                self._are_held_up = False
                self._changing.notify_all()

    def when_there_are_none(self, work: Callable[[], object]) -> None:
        """Do what waits for all of the device: now, or when the last capture has ended.

        Takes no lock, so that finalisers may call it.
        """
        if not self._count:
            work()
            return
        self._put_off.append(work)
        self._catch_up()  # the last one may have ended since it was asked for

    def _catch_up(self) -> None:
        """Do what was put off until nothing is captured, if that is so."""
        while not self._count and self._put_off:
            # A lost context has nothing to give back.
            with contextlib.suppress(IndexError, errors.CudaError):
                self._put_off.popleft()()
