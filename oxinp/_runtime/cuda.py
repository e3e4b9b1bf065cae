"""The backend over the CUDA driver: one GPU, its primary context, the pool, the cubin cache and the staging ring."""

from __future__ import annotations

import contextlib
import importlib
from collections import deque
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._config import config
from oxinp._driver import errors
from oxinp._driver.context import Context
from oxinp._driver.device import Device, list_devices
from oxinp._driver.event import Event
from oxinp._driver.memory import DeviceMemory, RegisteredMemory
from oxinp._driver.stream import Stream
from oxinp._runtime import here, hooks, host_blocks, timeline
from oxinp._runtime.addresses import Addresses
from oxinp._runtime.backend import (
    FIRST_LOCK,
    MARKS_NBYTES,
    MINIMUM_CC,
    NUM_FLAGS,
    BackendUnavailable,
)
from oxinp._runtime.branches import Branches
from oxinp._runtime.capability import capability_of
from oxinp._runtime.captures import Captures
from oxinp._runtime.counters import NO_WORK, after_launch, stats
from oxinp._runtime.device_arena import arena_maker
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.launches import Launches
from oxinp._runtime.loader import Loader
from oxinp._runtime.mapped_reports import MappedReports
from oxinp._runtime.memory import MemoryStats
from oxinp._runtime.pool import Pool
from oxinp._runtime.timeline import Timeline, every_turn, in_turn
from oxinp._runtime.transfers import Transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._ptx.kernel import Kernel
    from oxinp._runtime.backend import Launch
    from oxinp._runtime.memory import Buffer, Footprint

__all__ = ["CudaBackend", "open_backend"]

_DLPACK_CUDA = 2
_LEGACY_STREAM = 1


def open_backend(ordinal: int | None = None) -> CudaBackend:
    """Return the backend for a GPU, for the first that is new enough if none is named.

    Raises
    ------
    BackendUnavailable
        There is none, or it cannot be used; says why and what would help.
    """
    try:
        devices = list_devices() if ordinal is None else [Device(ordinal)]
        for device in devices:
            if device.compute_capability >= MINIMUM_CC:
                return CudaBackend(Context(device))
    except errors.CudaError as error:
        raise BackendUnavailable(str(error)) from error
    found = ", ".join(
        f"{device.name} ({device.compute_capability[0]}.{device.compute_capability[1]})" for device in devices
    )
    raise BackendUnavailable(
        f"No GPU here is new enough: compute capability {MINIMUM_CC[0]}.{MINIMUM_CC[1]} (Ampere) is needed, found "
        f"{found or 'no GPU'}. Use a newer GPU, or set OXINP_BACKEND=host."
    )


class CudaBackend:
    """One GPU; see `Backend`.

    Parameters
    ----------
    context : Context
        Of the device.
    num_staging_workers : int, optional
        Threads of the staging ring, 0 for none; half the processors this process may use if not given.

    Attributes
    ----------
    context : Context
    device : Device
    pool : Pool
    loader : Loader
        Of kernels.
    captures : Captures
    turn : threading.RLock
        Held while something is numbered and queued here; see `timeline`.
    dying : deque of Stream
        Streams that nobody holds any more; `bury` closes them.
    """

    name = "cuda"
    lock: Any = FIRST_LOCK

    def __init__(self, context: Context, num_staging_workers: int | None = None) -> None:
        self.context = context
        self.device: Device = context.device
        self.dlpack_device: tuple[int, int] | None = (_DLPACK_CUDA, context.device.ordinal)
        self.capability = capability_of(context.device)
        self._memory = DeviceMemory(context)
        self.pool = Pool(
            self._memory.allocate,
            self._memory.free,
            self._memory.info,
            errors.OutOfMemory,
            make_arena=arena_maker(context, self.capability.total_nbytes, self.wait),
        )
        self.dying: deque[Stream] = deque()
        self.captures = Captures()
        self._timelines: dict[int, Timeline] = {}
        self.turn: Any = free_in_children(RLock())
        self._naming = free_in_children(RLock())  # of timelines; held where reports are made, too
        self._reports: MappedReports | None = None
        self.pool.owner = self
        self.allocate = self.pool.allocate  # without a frame in between: it is on the path of every launch
        timeline.POOLS.add(self.pool)
        if here.are_several:  # asked once the pool is known: whoever tells streams apart from then on does it here, too
            self.tell_apart()
        self.loader = Loader(context)
        self.function, self.compile = self.loader.function, self.loader.compile
        self._reached: set[Device] = set()
        self._launches = Launches(self)
        # Without frames in between: see `Backend.launcher` and what follows it there.
        self.tensor_map, self.matrix_map = self._launches.tensor_map, self._launches.matrix_map
        self.branches = Branches(self, self._launches)
        self._transfers = Transfers(context, self._memory, num_staging_workers)
        self.upload_brief = self._transfers.upload_brief
        addresses = Addresses(context)
        self.memory_kind, self.check_address = addresses.memory_kind, addresses.check

    def reach(self, other: CudaBackend) -> bool:
        """Let kernels here use the memory of another device's arrays; False where the two cannot."""
        if other is self or other.device in self._reached:
            return True
        peer = importlib.import_module("oxinp._driver.peer")
        if not peer.can_access(self.device, other.device):
            return False
        peer.enable(self.context, other.context)
        other.pool.let_in(self.device)
        self._reached.add(other.device)
        return True

    @cached_property  # twice does no harm: kernels that use it run one after the other
    def flags(self) -> int:
        """See `Backend.flags`."""
        nbytes = 4 * NUM_FLAGS + MARKS_NBYTES
        address = self._memory.allocate(nbytes)
        stream = Stream(self.context)  # one that is captured could not be waited for
        self.context.driver.cuMemsetD8Async(address, 0, nbytes, stream.handle)
        stream.synchronize()
        stream.close()
        return address

    @property
    def reports(self) -> MappedReports:
        """See `Backend.reports`."""
        if self._reports is None:
            with self._naming:  # one for all threads: kernels write there
                if self._reports is None:
                    made = MappedReports(self.context)
                    self._reports = self._reports or made  # type: ignore[redundant-expr] # of a finaliser meanwhile
        return self._reports

    @property
    def stream(self) -> int:
        """Handle of the stream that the calling thread's work goes to."""
        return timeline.current(self).handle if here.are_several else 0

    @property
    def is_captured(self) -> bool:
        """Whether what the calling thread queues is captured for a graph, and nothing can be read."""
        return here.are_several and timeline.current(self).footprint is not None

    def timeline(self, stream: int, footprint: Footprint | None = None) -> Timeline:
        """Return the timeline of a stream, given by its handle; the footprint is that of a new one to be captured."""
        known = self._timelines.get(stream)
        if known is None:
            with self._naming:
                known = self._timelines.get(stream) or Timeline(self, stream, footprint)
                self._timelines[stream] = known
        return known

    def timelines(self) -> list[Timeline]:
        """Return those of all streams that array work went to."""
        return list(self._timelines.values())

    def close_stream(self, stream: Stream, *, keeps_memory: bool = False) -> Any:
        """Close a stream when its work is done.

        Where `keeps_memory`, it is left to the caller to close it, and its memory is returned, to be kept for a graph.
        """
        if not keeps_memory:
            stream.synchronize()
        handle = stream.handle
        with every_turn():  # nobody is about to wait for it
            if not keeps_memory:
                stream.synchronize()  # for what others have queued meanwhile
            gone = self._timelines.pop(handle, None)
            if gone is not None:
                gone.close()
            self.branches.close(handle)
            if keeps_memory:
                return self.pool.keep(handle)
            self.pool.retire(handle)
            stream.close()
        return None

    def bury(self) -> None:
        """Close the streams that nobody holds any more."""
        while self.dying:
            with contextlib.suppress(IndexError, errors.CudaError):  # a lost context has nothing to give back
                self.close_stream(self.dying.popleft())

    def wait(self) -> None:
        """Wait for all work, but that of streams that are captured, which do nothing that could be waited for."""
        if self.captures.begin_to_wait():
            try:
                self.context.synchronize()
            finally:
                self.captures.end_waiting()
            return
        self._wait_for_streams()
        self.context.launches.settle()

    def _wait_for_streams(self) -> None:
        for stream in [line.handle for line in self.timelines() if line.footprint is None] or [0]:
            self.context.driver.cuStreamSynchronize(stream)

    def tell_apart(self) -> None:
        """Let each thread's memory come from its own stream; called when there are several."""
        methods = vars(self)
        if methods["allocate"] == self.pool.allocate:  # else somebody watches allocations, who will make do
            methods["allocate"] = self._allocate

    def _allocate(self, nbytes: int) -> Buffer:
        made: Buffer = timeline.current(self).stock.allocate(nbytes)
        return made

    def order(self, *accesses: tuple[int, bool]) -> int:
        """Let what the calling thread queues next wait for what others do with memory.

        Parameters
        ----------
        *accesses : (int, bool)
            Addresses that will be used, and whether they will be written to.

        Returns
        -------
        int
            Handle of the stream to queue on.
        """
        return self._order(accesses, is_transfer=False)

    def _order(self, accesses: tuple[tuple[int, bool], ...], *, is_transfer: bool) -> int:
        if not here.are_several:
            return 0
        line = timeline.current(self)
        if is_transfer and line.footprint is not None:
            raise errors.CaptureError(
                "the host can neither read from the device nor write to it while a graph is captured: move it out "
                "of the block, and give arrays that change to Graph.capture"
            )
        in_turn(self, partial(line.order, accesses, is_transfer=is_transfer))
        return line.handle

    def wait_until_written(self, ptr: int) -> None:
        """Wait for what is queued now and writes to memory at an address, if streams are told apart."""
        if not here.are_several:
            return
        line = timeline.current(self)
        if line.footprint is not None:  # a captured stream does nothing that could be waited for
            return
        done = Event(self.context, has_timing=False)

        def mark() -> None:
            line.order(((ptr, False),), is_transfer=True)
            done.record(line.handle)

        in_turn(self, mark)
        done.synchronize()

    def upload(self, ptr: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous array to the device; it may be changed as soon as this returns."""
        nbytes = array.nbytes
        if nbytes:
            if here.are_several:
                self._transfers.upload(ptr, array, self._order(((ptr, True),), is_transfer=True))
                self._order(((ptr, True),), is_transfer=True)  # others may have looked before all was queued
            elif self.upload_brief(ptr, array, nbytes):
                return  # it is counted
            else:
                self._transfers.upload(ptr, array, 0)
            stats.h2d_bytes += nbytes

    def download(self, array: np.ndarray[Any, Any], ptr: int) -> None:
        """Fill a C-contiguous writable array from the device; the data is there when this returns."""
        nbytes = array.nbytes
        if nbytes:
            if here.are_several:
                self._transfers.download(array, ptr, self._order(((ptr, False),), is_transfer=True))
            elif not self._transfers.download_brief(array, ptr, nbytes):
                self._transfers.download(array, ptr, 0)
            stats.d2h_bytes += nbytes
            for hook in hooks.after_waiting:
                hook()

    def copy(self, dst_ptr: int, src_ptr: int, nbytes: int) -> None:
        """Copy inside the device; the ranges must not overlap."""
        if not nbytes:
            return
        with self.turn:  # `_queue`, spelled out
            if not here.are_several and here.thread.branch is None:
                self._memory.copy_async(dst_ptr, src_ptr, nbytes, 0)
                return
        self._queue(
            ((dst_ptr, True), (src_ptr, False)),
            lambda stream: self._memory.copy_async(dst_ptr, src_ptr, nbytes, stream),
        )

    def copy_each(self, copies: list[tuple[int, int, int]]) -> None:
        """Copy inside the device, one after the other: to where, from where, and how many bytes."""
        with self.turn:  # `_queue`, spelled out
            if not here.are_several and here.thread.branch is None:
                for dst_ptr, src_ptr, nbytes in copies:
                    self._memory.copy_async(dst_ptr, src_ptr, nbytes, 0)
                return
        for dst_ptr, src_ptr, nbytes in copies:
            self.copy(dst_ptr, src_ptr, nbytes)

    def fill(self, ptr: int, byte: int, nbytes: int) -> None:
        """Set bytes of the device to a value."""
        if not nbytes:
            return
        with self.turn:  # `_queue`, spelled out: many plans begin with a fill
            if not here.are_several and here.thread.branch is None:
                self._memory.fill8_async(ptr, byte, nbytes, 0)
                return
        self._queue(((ptr, True),), lambda stream: self._memory.fill8_async(ptr, byte, nbytes, stream))

    def let_be_read(self, ptr: int, nbytes: int) -> None:
        """Do nothing: memory can be read."""

    def _queue(self, accesses: tuple[tuple[int, bool], ...], queue: Callable[[int], object]) -> None:
        """Queue what uses memory on the current stream, whose handle `queue` is given, in order."""
        branch = here.thread.branch
        with self.turn:
            if not here.are_several:
                queue(0 if branch is None else branch.stream.handle)
                return
        line = timeline.current(self)

        def queue_in_order() -> None:
            line.order(accesses)
            queue(line.handle if branch is None else branch.stream.handle)

        in_turn(self, queue_in_order)

    def beside(self, urgent: Callable[[], object], rest: Callable[[], object]) -> None:
        """Queue what may run at the same time, the urgent work first on a branch; see `Backend.beside`."""
        with self.lock, self.turn if not here.are_several else contextlib.nullcontext():
            self.branches.beside(urgent, rest)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Let the calling thread's work go to a stream of its own; see `Backend.aside`."""
        timeline.separate(self)
        self.context.make_current()
        stream = Stream(self.context)
        here.enter(self.timeline(stream.handle))
        try:
            yield
        finally:
            here.leave()
            self.close_stream(stream)

    def record(self, queue: Callable[[], object]) -> Callable[[], None] | None:
        """Return what queues the same work as one graph; see `Backend.record`."""
        if here.are_several or config.synchronous or after_launch() is not None or here.thread.branch is not None:
            return None
        recording = importlib.import_module("oxinp._runtime.recording")  # which few programs need
        with self.captures.capturing(), self.lock, self.turn:
            replay: Callable[[], None] | None = recording.recorded(self.branches, queue)
            return replay

    def launcher(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        work: tuple[int, int] = NO_WORK,
        overlaps: bool = True,
    ) -> Launch:
        """Return a callable that launches a kernel on the stream that is current then; see `Backend.launcher`."""
        return self._launches.launcher(kernel, grid, num_varying, constants, work, overlaps)

    def relauncher(self, kernel: Kernel, num_varying: int, overlaps: bool = True) -> Callable[..., None] | None:
        """Return what launches a kernel with any grid and constants; see `Backend.relauncher`."""
        if "launcher" in vars(self):  # somebody watches launches
            return None
        return self._launches.relauncher(kernel, num_varying, overlaps)

    def synchronize(self) -> None:
        """Wait for all work, after what `hooks.before_synchronize` adds to it; raises what went wrong in it."""
        for hook in tuple(hooks.before_synchronize):
            hook()
        self.wait()
        for hook in hooks.after_waiting:
            hook()

    def memory_stats(self) -> MemoryStats:
        """Return what the pool holds."""
        return self.pool.stats()

    def trim(self) -> None:
        """Give all cached memory back to the driver, and the host's to the system."""
        self.pool.trim()
        host_blocks.trim()

    def pin(self, memory: np.ndarray[Any, Any]) -> Any:
        """See `Backend.pin`."""
        try:
            return RegisteredMemory(self.context, memory.ctypes.data, memory.nbytes)
        except errors.CudaError:  # the system grants no more, or none; of a lost context who copies next is told
            return None

    def wait_for(self, stream: int) -> None:
        """Let the current stream wait for what others queued on theirs, given by its handle."""
        self._follow(stream, self.stream)

    def let_wait(self, stream: int) -> None:
        """Let a stream of others wait for what is queued on the current one."""
        self._follow(self.stream, stream)

    def _follow(self, first: int, then: int) -> None:
        if (first or _LEGACY_STREAM) == (then or _LEGACY_STREAM):
            return
        done = Event(self.context, has_timing=False)
        done.record(first)
        # The event may go as soon as both calls are made: the driver keeps what it still needs.
        self.context.driver.cuStreamWaitEvent(then, done.handle, 0)

    def outlive(self, owner: object) -> None:
        """Keep what queued work may use until that is done, but do not wait for it while a stream is captured.

        Finalisers may call it: it raises nothing and takes no lock.
        """
        self.captures.when_there_are_none(partial(self.finish, owner))

    def finish(self, kept: object = None) -> None:  # noqa: ARG002 - it lives as long as the call
        """Wait for what is queued on any stream, for which something may be kept; raises nothing."""
        with contextlib.suppress(errors.CudaError):  # a lost context does nothing any more
            self._wait_for_streams()

    def abandon(self) -> None:
        """Do nothing: in a forked child every function of the driver refuses, see `oxinp._driver.library`."""

    def record_event(self) -> Event:
        """Return an event at the present end of the current stream."""
        event = Event(self.context)
        event.record(self.stream)
        return event
