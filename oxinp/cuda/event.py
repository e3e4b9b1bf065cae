"""Events: marks in the order of work, to wait for and to measure with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from oxinp._driver import errors
from oxinp._driver.event import Event as DriverEvent
from oxinp._driver.ipc import SharedEvent
from oxinp.cuda import current

if TYPE_CHECKING:
    from typing import Self


__all__ = ["Event"]


class Queue(Protocol):
    """A stream, as its marks know it: a `Stream`."""

    @property
    def handle(self) -> int:
        """The CUstream."""
        ...


class _Moment:
    """A mark where work is done as soon as it is asked for: on the host and in the emulator."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = time.perf_counter()

    def synchronize(self) -> None:
        """Return: everything before it is done."""

    def is_done(self) -> bool:
        """Return True."""
        return True

    def elapsed_ms(self, later: _Moment) -> float:
        """Milliseconds from this moment to a later one."""
        return (later._seconds - self._seconds) * 1e3


class Event:
    """A mark in the order of work.

    Parameters
    ----------
    is_shared : bool
        Whether other processes of the machine can wait for it and record it: pickled, it is the same event there. It
        does not note the time.

    Raises
    ------
    NotSupported
        It is to be shared, and there is no GPU.

    Examples
    --------
    >>> import oxinp.cuda
    >>> start, stop = oxinp.cuda.Event(), oxinp.cuda.Event()
    >>> start = start.record()
    >>> stop = stop.record()
    >>> start.elapsed_ms(stop) >= 0
    True
    """

    __slots__ = ("_mark", "_shared")

    def __init__(self, *, is_shared: bool = False) -> None:
        self._shared = _open(None) if is_shared else None
        self._mark: DriverEvent | _Moment | None = self._shared

    def record(self, stream: Queue | None = None) -> Self:
        """Launch everything that is pending, and mark the present end of a stream; does not wait for it.

        Parameters
        ----------
        stream : Stream, optional
            The current one if not given.

        Returns
        -------
        Event
            This one.
        """
        current.flush()
        backend = current.cuda_backend()
        if backend is None:
            self._mark = _Moment()
        else:
            mark = self._mark = self._shared or DriverEvent(backend.context)
            mark.record(backend.stream if stream is None else stream.handle)
        return self

    def delay(self, stream: Queue) -> None:
        """Let what is queued on a stream from now on wait for the mark; does not wait here."""
        if isinstance(self._mark, DriverEvent):
            self._mark.driver.cuStreamWaitEvent(stream.handle, self._mark.handle, 0)

    def synchronize(self) -> None:
        """Wait until the work before the mark is done; returns at once if there is no mark."""
        if self._mark is not None:
            self._mark.synchronize()

    def is_done(self) -> bool:
        """Return whether the work before the mark is done, or there is no mark; does not wait."""
        return self._mark is None or self._mark.is_done()

    def elapsed_ms(self, later: Event) -> float:
        """Return the milliseconds from this event to a later one, after waiting for both.

        Raises
        ------
        ValueError
            One of the two has not been recorded, or they were recorded on different backends.
        """
        start, stop = self._mark, later._mark
        if isinstance(start, DriverEvent) and isinstance(stop, DriverEvent):
            return start.elapsed_ms(stop)
        if isinstance(start, _Moment) and isinstance(stop, _Moment):
            return start.elapsed_ms(stop)
        raise ValueError(
            "no time lies between these events: call record() on both first, with one and the same oxinp.config.backend"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._shared is None:
            raise TypeError("only an Event made with is_shared=True can be pickled")
        return _opened, (self._shared.token,)


def _open(token: bytes | None) -> SharedEvent:
    backend = current.cuda_backend()
    if backend is None:
        raise errors.NotSupported("shared events need a GPU: oxinp.cuda.is_available() is False here")
    return SharedEvent(backend.context, token)


def _opened(token: bytes) -> Event:
    """Return a pickled event."""
    made = Event()
    made._mark = made._shared = _open(token)
    return made
