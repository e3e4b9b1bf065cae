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
        self._changing = Condition(free_in_children(RLock()))  # held where one of these two changes
        self._count = self._num_waits = 0
        self._put_off: deque[Callable[[], object]] = deque()

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """Say that inside a `with` block a stream is captured."""
        with self._changing:
            while self._num_waits:  # which would fail, and end the capture
                self._changing.wait()
            self._count += 1
        try:
            yield
        finally:
            with self._changing:
                self._count -= 1
            self._catch_up()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[bool]:
        """Say that inside a `with` block all of the device is waited for; False where it cannot be."""
        with self._changing:
            is_whole = not self._count
            self._num_waits += is_whole
        try:
            yield is_whole
        finally:
            if is_whole:
                with self._changing:
                    self._num_waits -= 1
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
