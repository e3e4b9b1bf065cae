"""What a place where kernels run must offer: the protocol that `cuda` and `emulator` implement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from oxinp._ptx.frozen import Frozen
from oxinp._runtime.forking import free_in_children

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from oxinp._ptx.kernel import Kernel
    from oxinp._ptx.tma import MapSpec, MatrixMaps
    from oxinp._runtime.memory import Buffer, MemoryStats
    from oxinp._runtime.pool import Pool

__all__ = [
    "FIRST_LOCK",
    "FORKED",
    "LOCKS",
    "MARKS_NBYTES",
    "MINIMUM_CC",
    "NUM_FLAGS",
    "NUM_REPORTS",
    "Backend",
    "BackendUnavailable",
    "Capability",
    "Event",
    "Launch",
    "Reports",
    "flags_of",
    "new_lock",
]

FIRST_LOCK: Any = free_in_children(RLock())
"""The lock of the device in use as long as there is one: no thread asks then which device is whose."""

LOCKS = [FIRST_LOCK]
"""The locks of all devices, in the order in which whoever needs several takes them."""

FORKED = (
    "this process was forked from one that had used the device, which does not survive that: neither new work on it "
    "nor what lies on it is within reach here. Start processes with multiprocessing.get_context('spawn') (or "
    "'forkserver'), use the device only after the fork, or set oxinp.config.backend = 'host' here to go on without it."
)
"""What a forked child says."""

MINIMUM_CC = (8, 0)
"""Ampere: the oldest architecture kernels are written for."""

NUM_FLAGS, MARKS_NBYTES = 4096, 1 << 20
"""What kernels have whose blocks wait for each other; see `oxinp._kernels.plan`."""

NUM_REPORTS = 256
"""Of two words of 64 bits each that kernels write to and the host reads where they are."""

Launch = Callable[..., None]
"""A kernel with its grid and its constants: called with the parameters that vary, it launches."""


def flags_of(ptr: int) -> np.ndarray[Any, Any]:
    """Return the words of `Reports.flags` before anything is reported, of reports at an address."""
    words = np.zeros((NUM_REPORTS, 2), np.uint64)
    words[:, 1] = ptr + 16 * np.arange(NUM_REPORTS)
    return words


def new_lock() -> Any:
    """Return the lock of one more device."""
    lock = free_in_children(RLock())
    LOCKS.append(lock)
    return lock


def _untuned(_: Any) -> None:
    """Know nothing: planners go by their own estimates."""


class BackendUnavailable(RuntimeError):
    """There is no such device here; the message says why and what would help."""

    __module__ = "oxinp.cuda"  # where users find it


class Capability(Frozen, aside=("tuned",)):
    """What kernels may rely on and are tuned to.

    Attributes
    ----------
    cc : (int, int)
        Compute capability, major and minor.
    num_sms : int
        Multiprocessors.
    max_shared_nbytes : int
        Shared memory one block may ask for.
    l2_nbytes, total_nbytes : int
        Sizes of the second-level cache and of the memory.
    device_name : str
        The name the driver gives.
    tuned : callable
        Answers planners' questions of what is fastest here; see `oxinp._runtime.tuned.Database`.
    """

    cc: tuple[int, int]
    num_sms: int
    max_shared_nbytes: int
    l2_nbytes: int
    total_nbytes: int
    device_name: str
    tuned: Callable[[Any], Mapping[str, Any] | None] = _untuned


class Event(Protocol):
    """A point in the order of work."""

    def elapsed_ms(self, later: Any, /) -> float:
        """Milliseconds from this event to a later one of the same backend; waits until both have happened."""
        ...


class Reports(Protocol):
    """`NUM_REPORTS` reports of two words of type i64 that lie at an address.

    Attributes
    ----------
    ptr : int
    ring : object
        What the layer above keeps with them; None until then.
    """

    ptr: int
    ring: Any

    @property
    def flags(self) -> int:
        """Address, in the device's own memory, of two words of type u64 for each report.

        The first says which flags have been reported, so that kernels whose every element has something to say cross
        the bus once; the second is the report's address.
        """
        ...

    def are_empty(self) -> bool:
        """Whether there is nothing in any report, as they are now."""
        ...

    def read(self) -> np.ndarray[Any, Any]:
        """Return the first word of every report, as they are now."""
        ...

    def take(self, number: int, /) -> int:
        """Return the second word of a report, and make both zeros, and the word of its flags."""
        ...


class Backend(Protocol):
    """A device and its memory.

    What is called later sees what was called earlier, whichever streams the two go to.

    Attributes
    ----------
    name : str
        "cuda" or "emulator".
    capability : Capability
        What kernels are planned for.
    pool : Pool
        Where `allocate` takes memory from.
    lock : threading.RLock
        Held while something is computed on the device, or written to what lies there.
    stream : int
        Handle of the stream that the calling thread's work goes to.
    dlpack_device : (int, int) or None
        What DLPack calls the device; None where nobody else can use its memory.
    """

    name: str
    dlpack_device: tuple[int, int] | None
    capability: Capability
    pool: Pool
    lock: Any

    @property
    def stream(self) -> int:
        """Handle of the stream that the calling thread's work goes to."""
        ...

    @property
    def is_captured(self) -> bool:
        """Whether what the calling thread queues is captured for a graph, and nothing can be read."""
        ...

    @property
    def flags(self) -> int:
        """Address of zeros, `NUM_FLAGS` of 4 bytes, which kernels leave behind, and then of `MARKS_NBYTES` of marks."""
        ...

    @property
    def reports(self) -> Reports:
        """Words that kernels write to and the host reads where they are; zeros until then."""
        ...

    def order(self, *accesses: tuple[int, bool]) -> int:
        """Let what the calling thread queues next wait for what others do with memory at some addresses.

        Each address comes with whether it will be written to. Returns the handle of the stream to queue on.
        """
        ...

    def wait_until_written(self, ptr: int, /) -> None:
        """Wait for what is queued now and writes to memory at an address."""
        ...

    def allocate(self, nbytes: int, /) -> Buffer:
        """Return memory, from the pool where it has some; its contents are undefined.

        Raises
        ------
        MemoryError
            None is left, cached blocks given back, pending work done and idle arrays moved to the host; says what is
            asked, held and free.
        """
        ...

    def upload(self, ptr: int, array: np.ndarray[Any, Any], /) -> None:
        """Copy a C-contiguous array to the device; it may be changed as soon as this returns."""
        ...

    def upload_brief(self, ptr: int, array: np.ndarray[Any, Any], nbytes: int, /) -> bool:
        """Do what `upload` does, of so many bytes, where there is the default stream alone and it takes few steps.

        Returns False, and does nothing, if that is not so of the array.
        """
        ...

    def download(self, array: np.ndarray[Any, Any], ptr: int, /) -> None:
        """Fill a C-contiguous writable array from the device; the data is there when this returns."""
        ...

    def copy(self, dst_ptr: int, src_ptr: int, nbytes: int, /) -> None:
        """Copy inside the device; the ranges must not overlap."""
        ...

    def copy_each(self, copies: list[tuple[int, int, int]], /) -> None:
        """Do what `copy` does for each of some, in their order, of one byte at least."""
        ...

    def fill(self, ptr: int, byte: int, nbytes: int, /) -> None:
        """Set bytes of the device to a value."""
        ...

    def beside(self, urgent: Callable[[], object], rest: Callable[[], object], /) -> None:
        """Queue two pieces of work, each by a call, that may run at the same time; what comes next waits for both.

        Where only some of the blocks of both can run, those of the urgent one do. It is queued first; where streams
        cannot branch it is done first.
        """
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Let the calling thread's work go to a stream of its own inside a `with` block, at whose end it is done."""
        ...

    def record(self, queue: Callable[[], object], /) -> Callable[[], None] | None:
        """Return what queues the same work as a call would now, faster than that, or None where nothing is faster.

        The work is not done yet. It uses the same memory each time, takes none, and reads nothing.
        """
        ...

    def let_be_read(self, ptr: int, nbytes: int, /) -> None:
        """Let kernels read memory that nobody has written; only the emulator would refuse."""
        ...

    def launcher(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        work: tuple[int, int] = (0, 0),
        overlaps: bool = True,
        /,
    ) -> Launch:
        """Return a callable that launches a kernel.

        Parameters
        ----------
        kernel : Kernel
            Compiled and loaded here if it is not yet.
        grid : (int, int, int)
            Blocks along x, y and z.
        num_varying : int
            How many leading parameters are given at each call, positionally: pointers and integers as int, other
            scalars as what `struct` packs.
        constants : tuple
            The remaining parameters.
        work : (int, int)
            Flops, and bytes that are read and written, of each launch: for those who profile.
        overlaps : bool
            It may begin before the kernel before it has ended, where it is made for that.

        Returns
        -------
        Callable
            Launches on the stream that is current now, and obeys `config.synchronous` as it is now: keep it under both,
            `stream` and `config.version`. Two threads may not call it at once.
        """
        ...

    def relauncher(self, kernel: Kernel, num_varying: int, overlaps: bool = True, /) -> Callable[..., None] | None:
        """Return ``launch(grid, *parameters)``, which launches a kernel with any grid and all of its parameters.

        None where launches are watched one by one. It is made in less time than what `launcher` returns, and takes a
        little more at each launch; it is kept, and called, as that is; all that are made of one kernel may be called by
        one thread at a time.
        """
        ...

    def tensor_map(self, spec: MapSpec, ptr: int, /) -> bytes:
        """Return the parameter that lets kernels of compute capability 9.0 copy boxes of the array at an address."""
        ...

    def matrix_map(self, maps: MatrixMaps, extents: tuple[int, int], ptr: int, /) -> bytes:
        """Return the same for a matrix, of extents that may come this one time only."""
        ...

    def synchronize(self) -> None:
        """Wait for all work, after what `hooks.before_synchronize` adds to it; raises what went wrong in it."""
        ...

    def memory_stats(self) -> MemoryStats:
        """Return what the pool holds."""
        ...

    def trim(self) -> None:
        """Give all cached memory back to the driver, and the host's to the system."""
        ...

    def pin(self, memory: np.ndarray[Any, Any], /) -> Any:
        """Let the bus reach an array of the host by itself as long as what is returned lives; None where it cannot."""
        ...

    def wait_for(self, stream: int, /) -> None:
        """Let the current stream wait for what others queued on theirs, given by its handle."""
        ...

    def let_wait(self, stream: int, /) -> None:
        """Let a stream of others wait for what is queued on the current one."""
        ...

    def outlive(self, owner: object, /) -> None:
        """Keep what queued work may use until that is done; raises nothing, so that finalisers may call it."""
        ...

    def memory_kind(self, ptr: int, /) -> str:
        """Return what kind of memory lies at an address; see `Pages`."""
        ...

    def check_address(self, ptr: int, /) -> None:
        """Raise BufferError, saying where it is, unless kernels may use the memory at an address."""
        ...

    def abandon(self) -> None:
        """Refuse all work from now on: this is a forked child, and the device is the parent's."""
        ...

    def record_event(self) -> Event:
        """Return an event at the present end of the current stream."""
        ...
