"""The backend over the emulator of `_ptx`: the same pool, counters and protocol as on a GPU, and more suspicion.

A Buffer's memory is out of bounds before its first byte, after its last one, and from the moment it is let go, although
the pool keeps the block: so a kernel that goes too far, or uses what nobody holds any more, is caught.
"""

from __future__ import annotations

import contextlib
import struct
import time
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx import emulate
from oxinp._ptx.emulator.space import UNALLOCATED
from oxinp._runtime import hooks, host_blocks
from oxinp._runtime.backend import (
    FIRST_LOCK,
    FORKED,
    MARKS_NBYTES,
    NUM_FLAGS,
    NUM_REPORTS,
    BackendUnavailable,
    Capability,
    flags_of,
)
from oxinp._runtime.counters import NO_WORK, after_launch, stats
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.memory import Block
from oxinp._runtime.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.kernel import Kernel
    from oxinp._ptx.tma import MapSpec, MatrixMaps
    from oxinp._runtime.backend import Launch
    from oxinp._runtime.memory import Buffer, MemoryStats

__all__ = ["EmulatorBackend", "EmulatorEvent", "open_backend"]

TOTAL_NBYTES = 4 << 30

CAPABILITY = Capability(
    cc=(8, 0),
    num_sms=3,  # few and odd: a few thousand lanes reach the paths of many blocks, and blocks share work unevenly
    max_shared_nbytes=163 << 10,
    l2_nbytes=1 << 20,
    total_nbytes=TOTAL_NBYTES,
    device_name="emulator",
)


def open_backend() -> EmulatorBackend:
    """Return a device of its own, with nothing in its memory."""
    return EmulatorBackend()


class EmulatorEvent:
    """A moment; the emulator is done with everything it was given."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds = time.perf_counter()

    def elapsed_ms(self, later: EmulatorEvent) -> float:
        """Milliseconds from this event to a later one."""
        return (later._seconds - self._seconds) * 1e3


class EmulatedReports:
    """Reports in the emulated memory; see `Reports`."""

    def __init__(self, backend: EmulatorBackend) -> None:
        self.ring: Any = None
        self._backend = backend
        self._buffer = backend.allocate(16 * NUM_REPORTS)
        self.ptr = self._buffer.ptr
        self._flags: Buffer | None = None
        with backend._lock:
            backend.memory.write(self.ptr, np.zeros(2 * NUM_REPORTS, np.int64))

    def are_empty(self) -> bool:
        """See `Reports.are_empty`."""
        return not self.read().any()

    def read(self) -> np.ndarray[Any, Any]:
        """See `Reports.read`."""
        with self._backend._lock:
            return self._backend.memory.read(self.ptr, 16 * NUM_REPORTS).view(np.int64)[::2]

    def take(self, number: int) -> int:
        """See `Reports.take`."""
        with self._backend._lock:
            word = self._backend.memory.read(self.ptr + 16 * number, 16).view(np.int64)[1]
            self._backend.memory.write(self.ptr + 16 * number, np.zeros(2, np.int64))
            if self._flags is not None:
                self._backend.memory.write(self._flags.ptr + 16 * number, np.zeros(1, np.int64))
        return int(word)

    @property
    def flags(self) -> int:
        """See `Reports.flags`."""
        if self._flags is None:
            made = self._backend.allocate(16 * NUM_REPORTS)
            with self._backend._lock:
                if self._flags is None:
                    self._backend.memory.write(made.ptr, flags_of(self.ptr))
                    self._flags = made
        return self._flags.ptr


class EmulatorBackend:
    """An emulated device; see `Backend`.

    Parameters
    ----------
    total_nbytes : int
        Size of its memory; it takes as much of the host's as has been used at once, twice over.

    Attributes
    ----------
    memory : emulate.Memory
    pool : Pool
    """

    name = "emulator"
    lock: Any = FIRST_LOCK
    stream = 0
    dlpack_device: tuple[int, int] | None = None

    def __init__(self, total_nbytes: int = TOTAL_NBYTES) -> None:
        self.capability = CAPABILITY
        self.memory = emulate.Memory(min(total_nbytes, 16 << 20), limit=total_nbytes)
        self._lock: Any = free_in_children(RLock())  # the emulator itself is single-threaded
        self.pool = Pool(
            self._driver_allocate,
            self._driver_free,
            self._memory_info,
            MemoryError,
            make_free_list=lambda: _WatchedList(self.memory),
        )
        self.pool.owner = self
        self._flags: Buffer | None = None
        self._reports: EmulatedReports | None = None

    @property
    def is_captured(self) -> bool:
        """False: there are no graphs here."""
        return False

    @property
    def flags(self) -> int:
        """Address of zeros; see `Backend.flags`."""
        if self._flags is None:
            made = self.allocate(4 * NUM_FLAGS + MARKS_NBYTES)
            with self._lock:
                if self._flags is None:
                    self.memory.write(made.ptr, np.zeros(4 * NUM_FLAGS + MARKS_NBYTES, np.uint8))
                    self._flags = made
        return self._flags.ptr

    def memory_kind(self, ptr: int) -> str:
        """Return what kind of memory lies at an address; see `Pages`."""
        del ptr
        return "device"

    @property
    def reports(self) -> EmulatedReports:
        """See `Backend.reports`."""
        if self._reports is None:
            made = EmulatedReports(self)
            with self._lock:
                if self._reports is None:
                    self._reports = made
        return self._reports

    def order(self, *accesses: tuple[int, bool]) -> int:
        """Do nothing: what was asked for is done."""
        del accesses
        return 0

    def wait_until_written(self, ptr: int) -> None:
        """Return: all work is done as soon as it is asked for."""

    def allocate(self, nbytes: int) -> Buffer:
        """Return memory, poisoned and uninitialised, exactly as long as asked for; see `Backend.allocate`."""
        buffer = self.pool.allocate(nbytes)
        with self._lock:
            self.memory.mark_allocated(buffer.ptr - self.memory.BASE, nbytes)
        return buffer

    def upload(self, ptr: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous array to the device; it may be changed as soon as this returns."""
        with self._lock:
            self.memory.write(ptr, array)
        stats.h2d_bytes += array.nbytes

    def upload_brief(self, ptr: int, array: np.ndarray[Any, Any], nbytes: int) -> bool:
        """Leave all to `upload`."""
        del ptr, array, nbytes
        return False

    def download(self, array: np.ndarray[Any, Any], ptr: int) -> None:
        """Fill a C-contiguous writable array from the device; the data is there when this returns."""
        with self._lock:
            array.reshape(-1).view("u1")[:] = self.memory.read(ptr, array.nbytes)
        stats.d2h_bytes += array.nbytes
        for hook in hooks.after_waiting:
            hook()

    def copy(self, dst_ptr: int, src_ptr: int, nbytes: int) -> None:
        """Copy inside the device; the ranges must not overlap."""
        with self._lock:
            self.memory.copy(dst_ptr, src_ptr, nbytes)

    def copy_each(self, copies: list[tuple[int, int, int]]) -> None:
        """Copy inside the device, one after the other: to where, from where, and how many bytes."""
        for dst_ptr, src_ptr, nbytes in copies:
            self.copy(dst_ptr, src_ptr, nbytes)

    def fill(self, ptr: int, byte: int, nbytes: int) -> None:
        """Set bytes of the device to a value."""
        with self._lock:
            self.memory.write(ptr, np.full(nbytes, byte, np.uint8))

    def beside(self, urgent: Callable[[], object], rest: Callable[[], object]) -> None:
        """Do one after the other."""
        urgent()
        rest()

    def record(self, queue: Callable[[], object]) -> Callable[[], object]:
        """Return the call itself: there are no graphs here."""
        return queue

    def aside(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: work is done when it has been queued."""
        return contextlib.nullcontext()

    def let_be_read(self, ptr: int, nbytes: int) -> None:
        """Let kernels read memory that nobody has written; its bytes are poison."""
        with self._lock:
            self.memory.let_be_read(ptr, nbytes)

    def launcher(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        num_varying: int,
        constants: tuple[Any, ...],
        work: tuple[int, int] = NO_WORK,
        overlaps: bool = True,  # noqa: ARG002 - nothing does
    ) -> Launch:
        """Return a callable that runs a kernel to its end; see `Backend.launcher`."""
        pack = struct.Struct(kernel.param_format).pack
        after = after_launch(work)
        num_given = len(kernel.params) - num_varying
        if len(constants) != num_given:
            raise ValueError(f"{kernel.name} needs {num_given} constants for {num_varying} varying parameters")

        def launch(*varying: Any) -> None:
            params = pack(*varying, *constants)
            with self._lock:
                emulate.run(kernel, self.memory, grid, params)
            stats.launches += 1
            if after is not None:
                after()

        return launch

    def relauncher(
        self,
        kernel: Kernel,
        num_varying: int,  # noqa: ARG002 - all of them do
        overlaps: bool = True,  # noqa: ARG002 - nothing does
    ) -> Callable[..., None] | None:
        """Return what runs a kernel with any grid and constants; see `Backend.relauncher`."""
        if after_launch() is not None or "launcher" in vars(self):
            return None
        pack = struct.Struct(kernel.param_format).pack

        def launch(grid: tuple[int, int, int], *parameters: Any) -> None:
            with self._lock:
                emulate.run(kernel, self.memory, grid, pack(*parameters))
            stats.launches += 1

        return launch

    def tensor_map(self, spec: MapSpec, ptr: int) -> bytes:
        """There are no copy engines here, and no kernel is planned that has any."""
        raise NotImplementedError(f"{spec} at {ptr:#x}: tensor maps are for compute capability 9.0")

    def matrix_map(self, maps: MatrixMaps, extents: tuple[int, int], ptr: int) -> bytes:
        """There are none, as of `tensor_map`."""
        return self.tensor_map(maps.spec(extents), ptr)

    def synchronize(self) -> None:
        """Do what `hooks.before_synchronize` asks for; nothing else is ever pending."""
        for hook in (*hooks.before_synchronize, *hooks.after_waiting):
            hook()

    def memory_stats(self) -> MemoryStats:
        """Return what the pool holds."""
        return self.pool.stats()

    def trim(self) -> None:
        """Give all cached memory back."""
        self.pool.trim()
        host_blocks.trim()

    def pin(self, memory: np.ndarray[Any, Any]) -> Any:
        """Return None: there is no bus."""
        del memory

    def wait_for(self, stream: int) -> None:
        """Return: all work is done as soon as it is asked for."""

    def let_wait(self, stream: int) -> None:
        """Return: all work is done as soon as it is asked for."""

    def outlive(self, owner: object) -> None:
        """Let go of it: all work is done as soon as it is asked for."""

    def check_address(self, ptr: int) -> None:
        """Raise BufferError unless an address is one of the emulated memory."""
        if not 0 <= ptr - self.memory.BASE < self.memory.capacity:
            raise BufferError(f"{ptr:#x} is no address of the emulated device")

    def abandon(self) -> None:
        """Refuse all work from now on, as the driver does in a forked child."""
        self._lock = _Refusal()

    def record_event(self) -> EmulatorEvent:
        """Return an event of this moment."""
        return EmulatorEvent()

    def _driver_allocate(self, nbytes: int) -> int:
        with self._lock:
            ptr = self.memory.allocate(nbytes)
            start = ptr - self.memory.BASE
            self.memory.state[start : start + nbytes] = UNALLOCATED  # `allocate` opens what is asked for
            return ptr

    def _driver_free(self, ptr: int) -> None:
        with self._lock:
            self.memory.free(ptr)

    def _memory_info(self) -> tuple[int, int]:
        total = self.memory.limit
        return total - self.memory.allocated_nbytes, total


class _Refusal:
    """In the place of the lock that all work is done under."""

    def __enter__(self) -> None:
        raise BackendUnavailable(FORKED)

    def __exit__(self, *_: object) -> None: ...


class _WatchedList(list[Block]):
    """A free list; the memory of what is in it is out of bounds."""

    def __init__(self, memory: emulate.Memory) -> None:
        super().__init__()
        self._memory = memory

    def append(self, block: Block, mark: int = UNALLOCATED, append: Any = list.append) -> None:
        # Runs in finalisers, also when this module's globals are gone already: what it needs came with it. The block is
        # marked before another thread can find it in the list.
        start = block.ptr - self._memory.BASE
        self._memory.state[start : start + block.nbytes] = mark
        append(self, block)
