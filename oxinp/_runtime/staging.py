"""Large copies between ordinary host memory and the device, through a ring of pinned memory.

The driver copies ordinary (pageable) memory through a small buffer of its own with one core: 10 GB/s up and 18 down on
a machine whose bus carries 55. Here a few threads do it: a transfer is cut into chunks, each worker takes the next one,
moves it between the array and one of its own two pinned slots, and lets the bus move the other slot meanwhile. All bus
copies go to one stream, so they are ordered with the work before and after like any other copy. A slot's event tells
when the bus is done with it; nothing else guards it.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Port", "StagingRing"]

_MIN_CHUNK_NBYTES = 512 << 10
"""Below this a chunk's fixed costs (a driver call, an event, a wake-up) show."""

_ALIGNMENT = 4096
"""Chunks begin at multiples of this, so that no page is first touched by two workers."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class SlotEvent(Protocol):
    """Tells when the bus has passed a point of a stream."""

    def record(self, stream: Any, /) -> None:
        """Mark the present end of a stream."""
        ...

    def synchronize(self) -> None:
        """Wait for the mark; return at once if there never was one."""
        ...


class Port(Protocol):
    """What the ring needs of a driver.

    Attributes
    ----------
    has_pinned : bool
        It has pinned memory before.
    """

    has_pinned: bool

    def enter_thread(self) -> None:
        """Make the calling thread able to use the device; called by each worker for each transfer."""
        ...

    def allocate_pinned(self, nbytes: int, /) -> tuple[int, Bytes]:
        """Return pinned host memory as an address and as an array that owns it."""
        ...

    def make_event(self) -> SlotEvent:
        """Return an event that was never recorded."""
        ...

    def upload_async(self, ptr: int, address: int, nbytes: int, stream: Any, /) -> None:
        """Queue a copy from pinned memory to the device."""
        ...

    def download_async(self, address: int, ptr: int, nbytes: int, stream: Any, /) -> None:
        """Queue a copy from the device to pinned memory."""
        ...


class _Slot:
    """A piece of pinned memory and the event of the last bus copy that used it."""

    __slots__ = ("address", "array", "event")

    def __init__(self, address: int, array: Bytes, event: SlotEvent) -> None:
        self.address = address
        self.array = array
        self.event = event


Work = Callable[[tuple[_Slot, _Slot]], None]


class _Transfer:
    """What the workers do for one transfer, and what became of it.

    Attributes
    ----------
    begun : list of None
        As long as the number of workers that have begun: appending is atomic, adding is not.
    outcomes : list of BaseException or None
        One for each worker that is done.
    """

    def __init__(self, work: Work) -> None:
        self.begun: list[None] = []
        self.outcomes: list[BaseException | None] = []
        self._work = work
        self._wake: SimpleQueue[None] = SimpleQueue()

    def join(self, port: Port, slots: tuple[_Slot, _Slot]) -> None:
        """Take part, in a worker's thread, until there is nothing left to do."""
        self.begun.append(None)
        outcome: BaseException | None = None
        try:
            port.enter_thread()
            self._work(slots)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            outcome = error
        self.outcomes.append(outcome)
        self._wake.put(None)

    def wait(self, num_workers: int) -> None:
        """Wait until so many workers are done. May be interrupted, and called again."""
        # An interrupt can lose what `get` returned, so that is not what is counted.
        while len(self.outcomes) < num_workers:
            self._wake.get()


class StagingRing:
    """Pinned slots and the threads that fill and empty them; made at the first large transfer.

    Parameters
    ----------
    port : Port
        The driver.
    num_workers : int
        Threads, each with two slots.
    slot_nbytes : int
        Size of a slot, a multiple of 4096.
    """

    def __init__(self, port: Port, num_workers: int, slot_nbytes: int = 4 << 20) -> None:
        self._port = port
        self._slot_nbytes = slot_nbytes
        self._num_workers = num_workers
        self._lock = free_in_children(Lock())  # one transfer at a time: a second one would only share the same bus
        self._at_it: set[int] = set()  # threads that do a transfer or take part in one
        self._jobs: SimpleQueue[_Transfer] = SimpleQueue()
        self._is_running = False

    @property
    def is_open(self) -> bool:
        """Whether the calling thread may use it: a finaliser amid a transfer would wait for that for ever."""
        return get_ident() not in self._at_it

    def upload(self, ptr: int, array: Bytes, stream: Any) -> None:
        """Copy host bytes to the device; `array` may be changed when this returns, the bus may still be at work.

        Parameters
        ----------
        ptr : int
            Device address.
        array : numpy.ndarray, (n,), uint8
            Contiguous.
        stream : object
            Orders the copy; handed to the port as it is.
        """
        port, chunks = self._port, self._chunks(array.nbytes)

        def work(slots: tuple[_Slot, _Slot]) -> None:
            slot, other = slots
            for begin, end in chunks:
                nbytes = end - begin
                slot.event.synchronize()
                np.copyto(slot.array[:nbytes], array[begin:end])
                port.upload_async(ptr + begin, slot.address, nbytes, stream)
                slot.event.record(stream)
                slot, other = other, slot

        self._run(work, chunks)

    def download(self, array: Bytes, ptr: int, stream: Any) -> None:
        """Copy device bytes to the host; they are there when this returns.

        Parameters
        ----------
        array : numpy.ndarray, (n,), uint8
            Contiguous and writable.
        ptr : int
            Device address.
        stream : object
            Orders the copy; handed to the port as it is.
        """
        port, chunks = self._port, self._chunks(array.nbytes)

        def begin_chunk(slot: _Slot) -> tuple[int, int] | None:
            chunk = next(chunks, None)
            if chunk is not None:
                slot.event.synchronize()  # an earlier upload may still read the slot on another stream
                port.download_async(slot.address, ptr + chunk[0], chunk[1] - chunk[0], stream)
                slot.event.record(stream)
            return chunk

        def work(slots: tuple[_Slot, _Slot]) -> None:
            slot, other = slots
            chunk = begin_chunk(slot)
            while chunk is not None:
                following = begin_chunk(other)
                slot.event.synchronize()
                np.copyto(array[chunk[0] : chunk[1]], slot.array[: chunk[1] - chunk[0]])
                slot, other, chunk = other, slot, following

        self._run(work, chunks)

    def _chunks(self, nbytes: int) -> Iterator[tuple[int, int]]:
        """Return where each chunk begins and ends; any number of threads may take from one list iterator."""
        share = max(nbytes // (2 * self._num_workers), _MIN_CHUNK_NBYTES)
        size = min(-(-share // _ALIGNMENT) * _ALIGNMENT, self._slot_nbytes)
        return iter([(begin, min(begin + size, nbytes)) for begin in range(0, nbytes, size)])

    def _run(self, work: Work, chunks: Iterator[tuple[int, int]]) -> None:
        """Let every worker do `work`, until there are no chunks left; raise what the first of them raised."""
        thread = get_ident()
        self._at_it.add(thread)
        try:
            self._run_alone(work, chunks)
        finally:
            self._at_it.discard(thread)

    def _run_alone(self, work: Work, chunks: Iterator[tuple[int, int]]) -> None:
        with self._lock:
            if not self._is_running:
                self._start()
            transfer = _Transfer(work)
            try:
                for _ in range(self._num_workers):
                    self._jobs.put(transfer)
                transfer.wait(self._num_workers)
            except BaseException:
                # Ctrl-C. The caller may let go of the memory next, so nobody may be at work on it any more. A worker
                # begins before it takes a chunk: once there are none left, those that have begun are all that matter.
                for _ in chunks:
                    pass
                transfer.wait(len(transfer.begun))
                raise
        for outcome in transfer.outcomes:
            if outcome is not None:
                raise outcome

    def _start(self) -> None:
        slots = [
            _Slot(*self._port.allocate_pinned(self._slot_nbytes), self._port.make_event())
            for _ in range(2 * self._num_workers)
        ]
        for pair in zip(slots[::2], slots[1::2], strict=True):
            # A daemon: it waits for work for ever, and must not keep the process alive.
            Thread(target=self._serve, args=(pair,), name="oxinp-staging", daemon=True).start()
        self._is_running = True

    def _serve(self, slots: tuple[_Slot, _Slot]) -> None:
        self._at_it.add(get_ident())
        while True:
            self._jobs.get().join(self._port, slots)
