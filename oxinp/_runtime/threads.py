"""A GPU several of whose threads choose streams: each thread has a current stream of its own.

A backend becomes one when a second thread changes the stream, and programs take new launchers: what has one stream at a
time pays nothing for this. All work stays in one order, that in which it is queued: whatever comes next on a stream
waits for what was queued last on another. So an array means the same in every thread, and memory can pass from one
stream to another, as it can without threads.
"""

from __future__ import annotations

from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._runtime.cuda import CudaBackend

if TYPE_CHECKING:
    import numpy as np

    from oxinp._ptx.kernel import Kernel
    from oxinp._runtime.backend import Launch
    from oxinp._runtime.memory import Buffer

__all__ = ["ThreadedBackend", "separate"]


class ThreadedBackend(CudaBackend):
    """One GPU whose threads have streams of their own. Made by `separate`."""

    _streams: dict[int, int]  # by thread; the default one for those that are not there
    _last: int  # the stream that something was queued on last
    _turns: Lock

    @property
    def stream(self) -> int:
        """Handle of the stream that everything of the calling thread goes to."""
        return self._streams.get(get_ident(), 0)

    @stream.setter
    def stream(self, stream: int) -> None:
        if stream:
            self._streams[get_ident()] = stream
        else:
            self._streams.pop(get_ident(), None)

    def claim_streams(self) -> None:
        """Prepare for the calling thread to change streams: it may, as all may."""

    def use_stream(self, stream: int) -> None:
        """Let everything of the calling thread go to a stream from now on."""
        self.stream = stream

    def take_turn(self) -> None:
        """Put what comes next on the thread's stream after all that was queued before, on whatever stream."""
        stream = self.stream
        if stream != self._last:
            with self._turns:
                self._order(self._last, stream)
                self._last = stream

    def upload(self, ptr: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous array to the device; it may be changed as soon as this returns."""
        self.take_turn()
        super().upload(ptr, array)

    def download(self, array: np.ndarray[Any, Any], ptr: int) -> None:
        """Fill a C-contiguous writable array from the device; the data is there when this returns."""
        self.take_turn()
        super().download(array, ptr)

    def copy(self, dst_ptr: int, src_ptr: int, nbytes: int) -> None:
        """Copy inside the device; the ranges must not overlap."""
        self.take_turn()
        super().copy(dst_ptr, src_ptr, nbytes)

    def launcher(
        self, kernel: Kernel, grid: tuple[int, int, int], num_varying: int, constants: tuple[Any, ...]
    ) -> Launch:
        """Return a callable that launches a kernel on the stream of the thread that calls it."""
        launch, take_turn = super().launcher(kernel, grid, num_varying, constants), self.take_turn

        def launch_in_turn(*varying: Any) -> None:
            take_turn()
            launch(*varying)

        return launch_in_turn

    def wait_for(self, stream: int) -> None:
        """Let the current stream wait for what others queued on theirs, given by its handle."""
        self.take_turn()
        super().wait_for(stream)

    def let_wait(self, stream: int) -> None:
        """Let a stream of others wait for all that is queued here."""
        self.take_turn()
        super().let_wait(stream)

    def finish(self) -> None:
        """Wait for what is queued; raises nothing, so that finalisers may call it."""
        self._synchronize_stream(self._last)
        super().finish()

    def _allocate(self, nbytes: int) -> Buffer:
        return self.pool.allocate_on(self.stream, nbytes)


def separate(backend: CudaBackend, thread: int) -> None:
    """Give each thread a current stream of its own: the present one to the one named, the default one to others."""
    state = vars(backend)
    last = state.pop("stream")
    state.update(_streams={thread: last} if last else {}, _last=last, _turns=Lock())
    backend.__class__ = ThreadedBackend
    backend.allocate = backend._allocate  # type: ignore[attr-defined]
    config.renew()
