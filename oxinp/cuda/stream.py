"""Streams: queues of work that the device does in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _driver.stream import Stream as DriverStream
from oxinp.cuda import current
from oxinp.cuda.event import Event

if TYPE_CHECKING:
    from typing import Self

    from oxinp._runtime.cuda import CudaBackend

__all__ = ["Stream"]


class Stream:
    """A queue of work, current inside ``with stream:`` for the whole process.

    What is pending when the current stream changes goes to the old one, and the new one waits for the old one. So an
    array means the same on every stream, and its memory can pass from one to another.

    Parameters
    ----------
    priority : int
        Lower numbers go first; 0 is the lowest there is, -5 the highest on current devices.

    Attributes
    ----------
    handle : int
        The CUstream, for other libraries; 0, the default stream, where there is no GPU.

    Examples
    --------
    >>> import oxinp.cuda
    >>> stream = oxinp.cuda.Stream()
    >>> with stream:
    ...     event = stream.record()
    >>> event.synchronize()
    """

    __slots__ = ("_backend", "_previous", "_stream", "handle")

    def __init__(self, *, priority: int = 0) -> None:
        backend = self._backend = current.cuda_backend()
        self._stream = None if backend is None else DriverStream(backend.context, priority=priority)
        self.handle = 0 if self._stream is None else self._stream.handle
        self._previous: list[int] = []

    def __enter__(self) -> Self:
        backend = current.cuda_backend()
        if backend is not self._backend:
            raise RuntimeError(
                "this stream was made with another setting of oxinp.config.backend; make a new one with the present one"
            )
        current.flush()
        if backend is not None:
            self._previous.append(backend.stream)
            _change(backend, self.handle)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            current.flush()
        finally:
            if self._backend is not None:
                _change(self._backend, self._previous.pop())

    def synchronize(self) -> None:
        """Launch everything that is pending, and wait until the work of this stream is done."""
        current.flush()
        if self._stream is not None:
            self._stream.synchronize()

    def is_done(self) -> bool:
        """Return whether the work launched on this stream is done; does not wait, and launches nothing."""
        return self._stream is None or self._stream.is_done()

    def record(self) -> Event:
        """Launch everything that is pending, and return an event at the present end of this stream."""
        return Event().record(self)

    def __repr__(self) -> str:
        return f"<Stream {self.handle:#x}>"


def _change(backend: CudaBackend, new: int) -> None:
    """Make another stream current, which waits for the work of the present one."""
    backend.let_wait(new)
    backend.use_stream(new)
