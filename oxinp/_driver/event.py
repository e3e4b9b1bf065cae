"""Events: marks in a stream's order of work, to wait for and to measure with."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from oxinp._driver import errors
from oxinp._driver.enums import EventFlag
from oxinp._driver.handle import Handle

if TYPE_CHECKING:
    from oxinp._driver.context import Context

__all__ = ["Event"]


class Event(Handle):
    """A mark that a stream passes when the work before it is done.

    Parameters
    ----------
    context : Context
    has_timing : bool
        Whether it notes the time; without, recording is cheaper.
    is_blocking : bool
        Whether `synchronize` puts the thread to sleep instead of spinning: later, but without a busy core.
    """

    __slots__ = ()

    destroyer = "cuEventDestroy_v2"

    def __init__(self, context: Context, *, has_timing: bool = True, is_blocking: bool = False) -> None:
        handle = ctypes.c_void_p()
        flags = (0 if has_timing else EventFlag.DISABLE_TIMING) | (EventFlag.BLOCKING_SYNC if is_blocking else 0)
        context.driver.cuEventCreate(ctypes.byref(handle), flags)
        super().__init__(context.driver, handle.value or 0)

    def record(self, stream: int) -> None:
        """Record the event at the present end of a stream, given by its handle."""
        self.driver.cuEventRecord(self.handle, stream)

    def synchronize(self) -> None:
        """Wait until the event has been passed; return at once if it was never recorded."""
        self.driver.cuEventSynchronize(self.handle)

    def is_done(self) -> bool:
        """Return whether the event has been passed, without waiting."""
        return self.driver.query("cuEventQuery", self.handle)

    def elapsed_ms(self, later: Event) -> float:
        """Return the milliseconds from this event to a later one, after waiting for both.

        Raises
        ------
        InvalidHandle
            One of them was never recorded, or was made without timing.
        """
        self.synchronize()
        later.synchronize()
        elapsed = ctypes.c_float()
        try:
            self.driver.cuEventElapsedTime(ctypes.byref(elapsed), self.handle, later.handle)
        except errors.InvalidHandle as error:
            # The driver's one code for two mistakes of the caller.
            raise errors.InvalidHandle(
                f"{error.call} failed with {error.name} ({error.code}). One of the two events has never been recorded, "
                "or was made without timing. Record both, and make them with has_timing=True.",
                code=error.code,
                name=error.name,
                call=error.call,
            ) from None
        return elapsed.value
