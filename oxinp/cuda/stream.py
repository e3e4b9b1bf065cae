"""Streams: queues of work that the device does in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._driver import errors
from oxinp._driver.green import GreenStream
from oxinp._driver.stream import Stream as DriverStream
from oxinp._runtime import here, timeline
from oxinp._runtime.hooks import DeviceAddress
from oxinp.cuda import current
from oxinp.cuda.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from oxinp.cuda.green import GreenContext

__all__ = ["Stream"]


class Stream:
    """A queue of work, current inside ``with stream:`` in the thread that is there.

    An array operation runs on the stream that is current where the program asks for it. Streams run side by side, but
    an array means the same on all of them: work that reads what another stream writes, or writes what another one
    reads, waits for that and for nothing else.

    Parameters
    ----------
    priority : int
        Lower numbers go first; 0 is the lowest there is, -5 the highest on current devices.
    green : GreenContext, optional
        Whose multiprocessors its kernels run on; all there are if not given.

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

    __slots__ = ("__weakref__", "_backend", "_is_closed", "_num_entered", "_stream")

    def __init__(self, *, priority: int = 0, green: GreenContext | None = None) -> None:
        backend = self._backend = current.cuda_backend()
        self._stream: DriverStream | None = None
        if green is not None:
            if backend is None or green._green.context is not backend.context:
                raise ValueError(f"{green!r} is not one of the current device")
            self._stream = GreenStream(green._green, priority=priority)
        elif backend is not None:
            self._stream = DriverStream(backend.context, priority=priority)
        self._is_closed = False
        self._num_entered = 0
        if backend is not None:
            backend.bury()

    @property
    def handle(self) -> int:
        """The CUstream, for other libraries; 0, the default stream, where there is no GPU."""
        if self._is_closed:
            raise errors.InvalidHandle("this Stream is closed: make a new one, or close it later")
        return 0 if self._stream is None else self._stream.handle

    def __enter__(self) -> Self:
        backend = current.cuda_backend()
        if backend is not self._backend:
            of = "oxinp.config.backend" if backend is None or self._backend is None else "the current device"
            raise RuntimeError(f"this stream was made under another setting of {of}: enter that, or make a new stream")
        handle = self.handle
        current.flush()
        if backend is not None:
            timeline.separate(backend)
            here.enter(backend.timeline(handle))
            self._num_entered += 1
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            current.flush()
        finally:
            if self._backend is not None:
                here.leave()
                self._num_entered -= 1

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
        """Queue a copy of an array's bytes on this stream, after what has to be done before; does not wait for it.

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
        to_host, from_host = (isinstance(value, np.ndarray) for value in (target, source))
        name = "cuMemcpyDtoHAsync_v2" if to_host else "cuMemcpyHtoDAsync_v2" if from_host else "cuMemcpyDtoDAsync_v2"
        copy = getattr(self._backend.context.driver, name)

        def find() -> tuple[list[tuple[int, bool]], Callable[[], object]]:
            ends = [_host_end(value) or current.address_of(value) for value in (target, source)]
            if None in ends or not all(end.is_contiguous for end in ends) or ends[0].nbytes != ends[1].nbytes:
                raise ValueError(
                    "a copy needs two contiguous arrays of one size: one of them is not, or the sizes differ"
                )
            if to_host and from_host:
                raise ValueError("a copy needs at least one array on the device")
            places = ((ends[0].ptr, not to_host), (ends[1].ptr, False))
            accesses = [place for place, is_host in zip(places, (to_host, from_host), strict=True) if not is_host]
            return accesses, lambda: copy(ends[0].ptr, ends[1].ptr, ends[0].nbytes, self.handle)

        current.queue(self._backend, self.handle, find)

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
        if self._num_entered:
            raise RuntimeError("this stream is current: leave its `with` block before it is closed")
        stream, self._stream, self._is_closed = self._stream, None, True
        if stream is not None and self._backend is not None:
            self._backend.close_stream(stream)

    def __del__(self) -> None:
        stream, backend = getattr(self, "_stream", None), getattr(self, "_backend", None)
        if stream is not None and backend is not None:  # a finaliser may run inside anything: another one closes it
            backend.dying.append(stream)

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
