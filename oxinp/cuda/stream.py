"""Streams: queues of work that the device does in order."""

from __future__ import annotations

import contextlib
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from _driver import errors
from _driver.stream import Stream as DriverStream
from oxinp._runtime.hooks import DeviceAddress
from oxinp.cuda import current
from oxinp.cuda.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from oxinp._runtime.cuda import CudaBackend

__all__ = ["Stream"]


class Stream:
    """A queue of work, current inside ``with stream:``.

    It is current in the whole process as long as one thread alone changes streams; as soon as a second one does, each
    has its own, and what is queued by different threads still runs in the order in which it is queued.

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

    Raises
    ------
    InvalidHandle
        From every use after `close`.

    Examples
    --------
    >>> import oxinp.cuda
    >>> stream = oxinp.cuda.Stream()
    >>> with stream:
    ...     event = stream.record()
    >>> event.synchronize()
    """

    __slots__ = ("__weakref__", "_backend", "_is_closed", "_previous", "_stream")

    def __init__(self, *, priority: int = 0) -> None:
        backend = self._backend = current.cuda_backend()
        self._stream = None if backend is None else DriverStream(backend.context, priority=priority)
        self._is_closed = False
        self._previous: dict[int, list[int]] = {}  # by thread

    @property
    def handle(self) -> int:
        """The CUstream, for other libraries; 0, the default stream, where there is no GPU."""
        if self._is_closed:
            raise errors.InvalidHandle("this Stream is closed: make a new one, or close it later")
        return 0 if self._stream is None else self._stream.handle

    @property
    def stream(self) -> int:
        """The same, under the name that launchers ask for."""
        return self.handle

    def __enter__(self) -> Self:
        backend = current.cuda_backend()
        if backend is not self._backend:
            raise RuntimeError(
                "this stream was made with another setting of oxinp.config.backend; make a new one with the present one"
            )
        handle = self.handle
        current.flush()
        if backend is not None:
            backend.claim_streams()
            self._previous.setdefault(get_ident(), []).append(backend.stream)
            _change(backend, handle)
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            current.flush()
        finally:
            if self._backend is not None:
                before = self._previous[get_ident()]
                _change(self._backend, before.pop())
                if not before:
                    del self._previous[get_ident()]

    def synchronize(self) -> None:
        """Launch everything that is pending, and wait until the work of this stream is done."""
        current.flush()
        if self._stream is not None:
            self._stream.synchronize()

    def wait(self, event: Event) -> None:
        """Let what is queued on this stream from now on wait for an event, of whatever stream; does not wait here."""
        event.delay(self)

    def follow(self) -> None:
        """Launch everything that is pending, and let this stream wait for what is queued on the current one."""
        current.flush()
        if self._backend is not None:
            self._backend.let_wait(self.handle)

    def copy(self, target: Any, source: Any) -> None:
        """Queue a copy of an array's bytes on this stream; does not wait for it.

        Parameters
        ----------
        target, source : array
            Contiguous, of one size. Each is an array of ours, or a NumPy array made by `pinned_empty`, which must not
            change until the stream has passed; other NumPy arrays are copied before this returns.

        Raises
        ------
        ValueError
            They differ in size, or are not contiguous.
        """
        if self._backend is None:
            if target.nbytes != source.nbytes:
                raise ValueError(
                    f"a copy needs two arrays of one size, not of {target.nbytes} and {source.nbytes} bytes"
                )
            target.reshape(-1)[...] = source.reshape(-1).view(target.dtype)
            return
        ends = [_host_end(value) or current.address_of(value) for value in (target, source)]
        self.follow()
        if None in ends or not all(end.is_contiguous for end in ends) or ends[0].nbytes != ends[1].nbytes:
            raise ValueError("a copy needs two contiguous arrays of one size: one of them is not, or the sizes differ")
        to_host, from_host = (isinstance(value, np.ndarray) for value in (target, source))
        if to_host and from_host:
            raise ValueError("a copy needs at least one array on the device")
        name = "cuMemcpyDtoHAsync_v2" if to_host else "cuMemcpyHtoDAsync_v2" if from_host else "cuMemcpyDtoDAsync_v2"
        getattr(self._backend.context.driver, name)(ends[0].ptr, ends[1].ptr, ends[0].nbytes, self.handle)

    def call(self, function: Callable[[], object]) -> None:
        """Have a Python function called when this stream comes to it; the stream waits for it to return.

        Parameters
        ----------
        function : Callable
            It runs in a thread of the driver's and must use no array and nothing of this package. What it raises goes
            to `sys.unraisablehook`.
        """
        current.flush()
        if self._stream is None:
            function()
        else:
            self._stream.call(function)

    def close(self) -> None:
        """Wait until its work is done, and give it back; more than once does nothing."""
        if self._previous:
            raise RuntimeError("this stream is current: leave its `with` block before it is closed")
        stream, self._stream, self._is_closed = self._stream, None, True
        if stream is not None and self._backend is not None:
            stream.synchronize()
            self._backend.pool.retire_stream(stream.handle)
            stream.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit anything may be gone; a lost context has nothing to give back
            self.close()

    def is_done(self) -> bool:
        """Return whether the work launched on this stream is done; does not wait, and launches nothing."""
        return self._stream is None or self._stream.is_done()

    def record(self) -> Event:
        """Launch everything that is pending, and return an event at the present end of this stream."""
        return Event().record(self)

    def __repr__(self) -> str:
        return "<Stream, closed>" if self._is_closed else f"<Stream {self.handle:#x}>"


def _host_end(value: Any) -> DeviceAddress | None:
    if not isinstance(value, np.ndarray):
        return None
    return DeviceAddress(value.ctypes.data, value.nbytes, bool(value.flags.c_contiguous), value)


def _change(backend: CudaBackend, new: int) -> None:
    """Make another stream current, which waits for the work of the present one."""
    backend.let_wait(new)
    backend.use_stream(new)
