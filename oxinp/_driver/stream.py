"""Streams: queues of work that the device does in order."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver.callback import ENTRY, once
from oxinp._driver.enums import StreamFlag
from oxinp._driver.event import Event
from oxinp._driver.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._driver.context import Context

__all__ = ["Stream"]


class Stream(Handle):
    """A queue of work.

    Parameters
    ----------
    context : Context
    priority : int
        Lower numbers go first; 0 is the lowest there is, -5 the highest on current devices.
    is_blocking : bool
        Whether it waits for the default stream, and the default stream for it.
    handle : int, optional
        A stream that exists already, 0 for the default one: it is used and never destroyed.

    Attributes
    ----------
    context : Context
    is_owned : bool
        Whether `close` destroys it.
    """

    __slots__ = ("context", "is_owned")

    destroyer = "cuStreamDestroy_v2"

    def __init__(
        self, context: Context, *, priority: int = 0, is_blocking: bool = False, handle: int | None = None
    ) -> None:
        self.context = context
        self.is_owned = handle is None
        if handle is None:
            created = ctypes.c_void_p()
            flags = 0 if is_blocking else StreamFlag.NON_BLOCKING
            context.driver.cuStreamCreateWithPriority(ctypes.byref(created), flags, priority)
            handle = created.value or 0
        super().__init__(context.driver, handle)

    def synchronize(self) -> None:
        """Wait until all work of the stream is done.

        Raises
        ------
        DeviceFault
            Some of it failed; the context is lost.
        """
        self.driver.cuStreamSynchronize(self.handle)

    def is_done(self) -> bool:
        """Return whether all work of the stream is done, without waiting."""
        return self.driver.query("cuStreamQuery", self.handle)

    def wait(self, event: Event) -> None:
        """Let what is queued from now on wait for an event, of whatever stream; does not wait here."""
        self.driver.cuStreamWaitEvent(self.handle, event.handle, 0)

    def record(self, event: Event | None = None) -> Event:
        """Mark the present end of the queue.

        Parameters
        ----------
        event : Event, optional
            Recorded anew where given; else a fresh one with timing.
        """
        if event is None:
            event = Event(self.context)
        event.record(self.handle)
        return event

    def call(self, function: Callable[[], object]) -> None:
        """Enqueue one call of a Python function; the stream waits until it returns.

        Parameters
        ----------
        function : Callable
            It runs in a thread of the driver's and must not call the driver. What it raises goes to
            `sys.unraisablehook`.
        """
        with once(function) as number:
            self.driver.cuLaunchHostFunc(self.handle, ENTRY, number)

    def _destroy(self, handle: int) -> None:
        if self.is_owned:
            self.driver.cuStreamDestroy_v2(handle)
