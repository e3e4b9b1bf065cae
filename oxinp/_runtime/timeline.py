"""Timelines: streams whose work is numbered, so that an array means the same on every stream, in every thread.

A program that never chooses a stream or a device has one stream, and nothing here is on its way. The first choice calls
`separate`; from then on each thread has a current timeline of its own, and whatever is queued says which memory it
reads and writes. A `Block` remembers who used it last, and when:

* what reads a block waits for the timeline that wrote it last;
* what writes one waits for that, and for all that have read it since.

Streams that share nothing run side by side. Nothing is recorded until a second timeline touches a block: only then
does an event go to the present end of the first one, and what has been waited for once is not waited for again. Blocks
keep their past when they are freed, so memory can be used anew at once, by whichever stream comes next.

Each device has a turn, a lock that is held while something is numbered and queued on it, so that both have the same
order; it guards the uses of the device's memory and the numbers of its streams. What finds that it has to do with
another device's (`OtherDevice`) is repeated with the turns of all, which are always taken in the same order.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oxinp._config import config
from oxinp._driver import errors
from oxinp._driver.event import Event
from oxinp._runtime import here, hooks
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.memory import Uses
from oxinp._runtime.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oxinp._driver.context import Context
    from oxinp._runtime.branch import Branch
    from oxinp._runtime.memory import Block, Footprint

__all__ = [
    "POOLS",
    "OtherDevice",
    "Timeline",
    "current",
    "every_turn",
    "in_turn",
    "latest",
    "separate",
    "settle",
]

_SEPARATION = free_in_children(threading.RLock())
"""Held while streams begin to be told apart."""

_Result = TypeVar("_Result")


POOLS: Registry[Any] = Registry()
"""Of all devices: any of them may have memory that a kernel uses."""

_MAX_READERS = 8
"""Readers of a block that are remembered before those that are closed are forgotten."""


class Device(Protocol):
    """A GPU with several streams, as they know it: a `CudaBackend`."""

    context: Context
    device: Any
    lock: Any
    pool: Any
    turn: Any

    @property
    def stream(self) -> int:
        """Handle of the stream that the calling thread's work goes to."""
        ...

    def function(self, kernel: Any, /) -> Any:
        """Return a kernel, loaded."""
        ...

    def timeline(self, stream: int, /) -> Timeline:
        """Return the timeline of a stream, given by its handle."""
        ...

    def timelines(self) -> list[Timeline]:
        """Return those of all streams that array work went to."""
        ...

    def reach(self, other: Any, /) -> bool:
        """Let kernels here use the memory of another device's arrays; False where the two cannot."""
        ...

    def tell_apart(self) -> None:
        """Let each thread's memory come from its own stream."""
        ...


class OtherDevice(Exception):
    """What is queued has to do with a device whose turn is not held."""


@contextlib.contextmanager
def every_turn() -> Iterator[None]:
    """Hold the turns of all devices inside a `with` block."""
    turns = sorted({pool.owner.turn for pool in POOLS}, key=id)
    with contextlib.ExitStack() as held:
        for turn in turns:
            held.enter_context(turn)
        yield


def in_turn(backend: Device, queue: Callable[[], _Result]) -> _Result:
    """Return ``queue()``, called in the turn of a device, or in those of all if it raises `OtherDevice`.

    What it does before it raises must do no harm when it is done again.
    """
    turn = backend.turn
    while True:
        try:
            with turn:
                return queue()
        except OtherDevice:  # at last one that has been opened since
            turn = every_turn()


class _Elsewhere:
    """All memory that is no pool's, in the place of its blocks."""

    uses: Uses | None = None


_elsewhere = _Elsewhere()


class Timeline:
    """A stream whose work is numbered.

    Parameters
    ----------
    backend : Device
    handle : int
        Of the stream, which lives as long as this is not closed.

    Attributes
    ----------
    now : int
        The number of what was queued last.
    stock : Stock
        Where memory comes from.
    footprint : Footprint or None
        What is collected while the stream is captured: it can then neither wait for others nor be waited for.
    branch : Branch or None
        What runs beside the work of the stream, under the same numbers.
    is_closed : bool
        All its work is done, and there will be no more.
    """

    __slots__ = ("_event", "_marked", "_seen", "backend", "branch", "footprint", "handle", "is_closed", "now", "stock")

    def __init__(self, backend: Device, handle: int, footprint: Footprint | None = None) -> None:
        self.backend = backend
        self.handle = handle
        self.now = 0
        self.footprint = footprint
        self.stock = backend.pool.stock(handle)
        self.stock.timeline = self
        self.branch: Branch | None = None
        self.is_closed = False
        self._event: Event | None = None
        self._marked = -1  # what the event stands behind
        self._seen: dict[Timeline, int] = {}  # up to where it waits for others

    def order(self, accesses: Iterable[tuple[int, bool]], *, is_transfer: bool = False) -> None:
        """Number what is queued next, and let it wait for what it must not overtake; see `in_turn`.

        Parameters
        ----------
        accesses : iterable of (int, bool)
            Addresses that it uses, each anywhere in a block, and whether it writes there.
        is_transfer : bool
            It is a copy to or from the host, which needs no link to another device's memory.

        Raises
        ------
        PeerError
            The memory is on a device that this one cannot reach.
        OtherDevice
            The turn of another device has to be held as well.
        """
        self.now += 1
        for ptr, writes in accesses:
            block = self.backend.pool.block_at(ptr) or self._block_of_others(ptr, is_transfer=is_transfer)
            if self.footprint is not None:
                self.footprint.add(block, writes=writes)
            else:
                self._use(block, writes=writes)

    def launch(self, footprint: Footprint) -> None:
        """Number a graph that is launched next; see `order`."""
        self.now += 1
        for block, writes in footprint.items():
            self._use(block, writes=writes)

    def wait_for_users(self, uses: Uses) -> None:
        """Wait for all that have used a block; see `in_turn`."""
        self._wait(uses.writer, uses.time)
        for reader, time in uses.readers.items():
            self._wait(reader, time)

    def close(self) -> None:
        """Note that its work is done, and that nobody has to wait for it any more; under `every_turn`."""
        self.is_closed = True
        self._event = None
        self._seen.clear()
        for pool in POOLS:
            for other in pool.owner.timelines():
                other._seen.pop(self, None)

    def _use(self, block: Block | _Elsewhere, *, writes: bool) -> None:
        if isinstance(block, _Elsewhere):
            for pool in POOLS:  # nobody knows which device it belongs to
                _claim(pool.owner)
        else:
            _claim(block.pool.owner)
        uses = block.uses
        if uses is None:  # so far nobody has but the first stream, which has no numbers for it
            uses = block.uses = Uses(_timeline_of(block, self), 0)
        if uses.writer is not self:
            self._wait(uses.writer, uses.time)
        if not writes:
            uses.readers[self] = self.now
            if len(uses.readers) > _MAX_READERS:
                uses.readers = {reader: time for reader, time in uses.readers.items() if not reader.is_closed}
            return
        if uses.readers:
            for reader, time in uses.readers.items():
                self._wait(reader, time)
            uses.readers = {}
        uses.writer, uses.time = self, self.now

    def _wait(self, other: Timeline, time: int) -> None:
        """Let what comes next wait for another timeline's work up to a number."""
        if other is self or other.is_closed or other.footprint is not None or self._seen.get(other, -1) >= time:
            return
        _claim(other.backend)
        self._seen[other] = other.mark(time)
        assert other._event is not None
        self.backend.context.driver.cuStreamWaitEvent(self.handle, other._event.handle, 0)
        if self.branch is not None and self.branch.is_open:
            self.branch.stream.wait(other._event)

    def mark(self, time: int) -> int:
        """Let its event stand behind its work up to a number, or later; returns up to which."""
        if self._marked < time:
            if self._event is None:
                self._event = Event(self.backend.context, has_timing=False)
            if self.branch is not None and self.branch.is_open:
                self.branch.join()  # what it has done so far has these numbers, too
            self._event.record(self.handle)
            self._marked = self.now
        return self._marked

    def _block_of_others(self, ptr: int, *, is_transfer: bool) -> Any:
        for pool in POOLS:
            block = pool.block_at(ptr)
            if block is None:
                continue
            if not is_transfer and not self.backend.reach(pool.owner):
                raise errors.PeerError(
                    f"an array is on {pool.owner.device}, and the current device, {self.backend.device}, cannot reach "
                    "its memory: make the array's device current, or copy the array through the host."
                )
            return block
        return _elsewhere


def _claim(backend: Device) -> None:
    """Raise unless the turn of a device is held."""
    if not backend.turn._is_owned():
        raise OtherDevice


def _timeline_of(block: Any, other: Timeline) -> Timeline:
    return other if block is _elsewhere else block.pool.owner.timeline(0)


def settle(uses: Uses, timeline: Timeline | None) -> None:
    """Let a timeline wait for all users of memory that it is about to cut up; the host where there is no such one."""

    def wait() -> bool:  # in the turn, in which nobody closes it
        if timeline is None or timeline.is_closed or timeline.footprint is not None:
            return False
        timeline.wait_for_users(uses)
        return True

    if timeline is not None and in_turn(timeline.backend, wait):
        return
    with every_turn():
        for user in (uses.writer, *uses.readers):
            if user is not timeline and not user.is_closed and user.footprint is None:
                user.backend.context.driver.cuStreamSynchronize(user.handle)


def current(backend: Device) -> Timeline:
    """Return where the calling thread's work for a device goes."""
    timeline: Timeline = here.thread.timeline
    return timeline if timeline.backend is backend else backend.timeline(0)


def latest(backend: Device) -> Timeline:
    """Return what the calling thread chose last of a device, around where it is now; else the default stream."""
    timeline: Timeline | None
    for timeline in (here.thread.timeline, *reversed(here.thread.before)):
        if timeline is not None and timeline.backend is backend:
            return timeline
    return backend.timeline(0)


def separate(backend: Device) -> None:
    """Let there be timelines from now on, the default stream's of a device to begin with; once and for all."""
    with _SEPARATION:
        if here.are_several:
            return
        with backend.lock, every_turn():  # one of them is held by all who launch without numbers
            here.start(backend.timeline(0))
            for pool in POOLS:
                pool.owner.tell_apart()
            config.renew()  # launchers are made anew, which number what they launch
        for hook in tuple(hooks.when_several):
            hook()
    for hook in tuple(hooks.before_synchronize):
        hook()
