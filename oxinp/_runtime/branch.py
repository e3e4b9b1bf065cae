"""Branches: a second stream of a timeline, for work that runs beside what the first one is given meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._driver.event import Event
from oxinp._driver.stream import Stream

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["Branch"]


class Branch:
    """A stream of the highest priority, whose work begins behind what another one has, and is waited for by it.

    The priority lets a cluster in that needs many multiprocessors at once: blocks of a large launch on the other stream
    take every one that becomes free. A stream that is captured takes its branch along.

    Parameters
    ----------
    context : Context
    main : int
        Handle of the other stream.

    Attributes
    ----------
    stream : Stream
    main : int
    is_open : bool
        It has been forked, and not joined for good.
    """

    __slots__ = ("_begun", "_forked", "_joined", "is_open", "main", "stream")

    def __init__(self, context: Context, main: int) -> None:
        _, highest = context.stream_priorities()
        self.stream = Stream(context, priority=highest)
        self.main = main
        self.is_open = False
        self._forked, self._begun, self._joined = (Event(context, has_timing=False) for _ in range(3))

    def fork(self) -> None:
        """Let it begin behind all that the other stream has now, and before what that is given next.

        Else the other stream, which waits for no event, would have its blocks everywhere first.
        """
        self._forked.record(self.main)
        self.stream.wait(self._forked)
        self.stream.record(self._begun)
        self.stream.driver.cuStreamWaitEvent(self.main, self._begun.handle, 0)
        self.is_open = True

    def join(self) -> None:
        """Let the other stream wait for all that the branch has now."""
        self.stream.record(self._joined)
        self.stream.driver.cuStreamWaitEvent(self.main, self._joined.handle, 0)

    def close(self) -> None:
        """Destroy the stream, whose work is done."""
        self.stream.close()
        for event in (self._forked, self._begun, self._joined):
            event.close()
