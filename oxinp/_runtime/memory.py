"""Device memory: Buffers, and the pool they come from and go back to.

A driver allocation (a `Block`) serves one Buffer at a time, whole. A dead Buffer's block goes onto the free list of its
size class and stream, and the next request of that class takes it. The device runs the work of one stream in order, so
a block may be handed out again on its stream while earlier work on it is still queued: that is why lists belong to
streams, and why no event is needed.

Blocks come from cuMemAlloc, not cuMemAllocAsync. The pool already gives the stream-ordered reuse that the latter is
for, at a fraction of its cost; what reaches the driver is rare, and for that cuMemAlloc has the simpler promises: the
memory is good on every stream, for peers and for other processes at once, and cuMemFree waits for the device, so
trimming needs no knowledge of who used a block last.

Requests are rounded up to steps of 512 bytes, above 8 KiB to steps of an eighth of the power of two below: beyond 4 KiB
at most 12.5 % is lost, and sizes that differ by little find each other's blocks. A large request whose class is empty
also takes a block up to two classes larger (at most 25 % above its own) before it asks the driver.

Nothing here takes a lock. A free list is a list whose `append` and `pop` are atomic; the counters are read, changed and
stored without a call in between, and only at calls may the interpreter switch threads. So a finaliser may run anywhere,
also inside `Pool.allocate`, and return its block at once.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING

from oxinp._runtime import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Block", "Buffer", "MemoryStats", "Pool", "class_nbytes", "format_nbytes"]

_LARGE_NBYTES = 1 << 20
"""From here on a block of a larger class may serve: the driver call and the memory saved outweigh the search."""

_MAX_REQUEST_SIZES = 4096
"""Distinct request sizes remembered per stream: a program with more forgets them and asks `class_nbytes` again."""

_new = object.__new__


@dataclass(frozen=True)
class MemoryStats:
    """What a pool holds.

    Attributes
    ----------
    used_nbytes : int
        In live Buffers, rounding included.
    cached_nbytes : int
        In free blocks kept for reuse.
    peak_nbytes : int
        The most `used_nbytes` has been since the last `Pool.reset_peak`.
    free_nbytes, total_nbytes : int
        What the driver says of the whole device.
    driver_allocations : int
        Calls that asked the driver for memory, since the start.
    num_blocks : int
        Blocks held, used and cached.
    """

    used_nbytes: int
    cached_nbytes: int
    peak_nbytes: int
    free_nbytes: int
    total_nbytes: int
    driver_allocations: int
    num_blocks: int


class Block:
    """One driver allocation.

    Attributes
    ----------
    ptr, nbytes : int
        Where it is and its size.
    home : list of Block
        The free list it goes back to.
    pool : Pool
        Whose counters it is in.
    """

    __slots__ = ("home", "nbytes", "pool", "ptr")

    def __init__(self, ptr: int, nbytes: int, home: list[Block], pool: Pool) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.home = home
        self.pool = pool


class Buffer:
    """Device memory that lives as long as this object.

    Made by `Pool.allocate`.

    Attributes
    ----------
    ptr : int
        Device address, a multiple of 256.
    nbytes : int
        Size asked for.
    """

    __slots__ = ("__weakref__", "_block", "nbytes", "ptr")

    ptr: int
    nbytes: int
    _block: Block

    @property
    def buffer(self) -> Buffer:
        """Itself: a Buffer stands for its own first byte wherever an address with its owner is wanted."""
        return self

    def __del__(self) -> None:
        # Runs anywhere, in any thread, and while the interpreter shuts down: it uses nothing but what it holds.
        block = self._block
        block.pool.used_nbytes -= block.nbytes  # before the block can be found, so that the peak is never too high
        block.home.append(block)

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes} bytes at {self.ptr:#x}>"


def class_nbytes(nbytes: int) -> int:
    """Return the size of the block that serves a request.

    Parameters
    ----------
    nbytes : int
        From 0 up.

    Returns
    -------
    int
        At least `nbytes` and 512, a multiple of 512; above 4 KiB at most an eighth more than `nbytes`.

    Examples
    --------
    >>> from oxinp._runtime.memory import class_nbytes
    >>> class_nbytes(0), class_nbytes(513), class_nbytes(1 << 20), class_nbytes((1 << 20) + 1)
    (512, 1024, 1048576, 1179648)
    """
    if nbytes <= 512:
        return 512
    step = max(512, 1 << ((nbytes - 1).bit_length() - 4))
    return -(-nbytes // step) * step


def format_nbytes(nbytes: int) -> str:
    """Return a size as people read it.

    Examples
    --------
    >>> from oxinp._runtime.memory import format_nbytes
    >>> format_nbytes(1000), format_nbytes(3 << 29)
    ('1000 B', '1.50 GiB')
    """
    if nbytes < 1024:
        return f"{nbytes} B"
    exponent = min((nbytes.bit_length() - 1) // 10, 4)
    return f"{nbytes / (1 << 10 * exponent):.2f} {('KiB', 'MiB', 'GiB', 'TiB')[exponent - 1]}"


class Pool:
    """Memory of one device, cached by size class and stream.

    Parameters
    ----------
    driver_allocate : Callable
        Takes a size to a device address.
    driver_free : Callable
        Takes an address; waits for the device before it gives the memory back.
    memory_info : Callable
        Returns the free and the total bytes of the device.
    out_of_memory : type of Exception
        What `driver_allocate` raises when there is none left.
    make_free_list : Callable
        Returns an empty list; one of its own class sees every block come back, in `append`.

    Attributes
    ----------
    used_nbytes, peak_nbytes, driver_allocations : int
        See `MemoryStats`.
    """

    __slots__ = (
        "_by_request",
        "_classes",
        "_driver_allocate",
        "_driver_free",
        "_held_nbytes",
        "_make_free_list",
        "_memory_info",
        "_num_blocks",
        "_out_of_memory",
        "_relieving",
        "_streams",
        "driver_allocations",
        "peak_nbytes",
        "used_nbytes",
    )

    def __init__(
        self,
        driver_allocate: Callable[[int], int],
        driver_free: Callable[[int], object],
        memory_info: Callable[[], tuple[int, int]],
        out_of_memory: type[Exception],
        make_free_list: Callable[[], list[Block]] = list,
    ) -> None:
        self._driver_allocate = driver_allocate
        self._driver_free = driver_free
        self._memory_info = memory_info
        self._out_of_memory = out_of_memory
        self._make_free_list = make_free_list
        self._held_nbytes = 0
        self._num_blocks = 0
        self._relieving: set[int] = set()  # threads that are inside the out-of-memory hooks
        self._streams: dict[Hashable, tuple[dict[int, list[Block]], dict[int, list[Block]]]] = {}
        self.used_nbytes = 0
        self.peak_nbytes = 0
        self.driver_allocations = 0
        self.select_stream(0)

    def select_stream(self, stream: Hashable) -> None:
        """Allocate for a stream from now on.

        Parameters
        ----------
        stream : hashable
            Whatever tells it from the other streams.
        """
        self._by_request, self._classes = self._streams.setdefault(stream, ({}, {}))

    def allocate(self, nbytes: int) -> Buffer:
        """Return memory of at least `nbytes` bytes, contents undefined.

        Raises
        ------
        MemoryError
            The device has none left, after cached blocks and what pending work held were given back.
        """
        try:
            block = self._by_request[nbytes].pop()
        except (KeyError, IndexError):
            block = self._find(nbytes)
        used = self.used_nbytes = self.used_nbytes + block.nbytes
        if used > self.peak_nbytes:  # noqa: PLR1730 - a call to max() costs as much as all of the rest
            self.peak_nbytes = used
        buffer = _new(Buffer)
        buffer._block = block
        buffer.nbytes = nbytes
        buffer.ptr = block.ptr
        return buffer

    def _find(self, nbytes: int) -> Block:
        """Return a free block for a request that its own list did not serve: a larger one, or a new one."""
        size = class_nbytes(nbytes)
        classes = self._classes
        home = classes.get(size)
        if home is None:
            home = classes.setdefault(size, self._make_free_list())
        if len(self._by_request) >= _MAX_REQUEST_SIZES:
            self._by_request.clear()
        self._by_request[nbytes] = home
        candidates = [home]
        if size >= _LARGE_NBYTES:
            larger = class_nbytes(size + 1)
            candidates += [classes.get(larger, []), classes.get(class_nbytes(larger + 1), [])]
        for blocks in candidates:
            try:
                return blocks.pop()
            except IndexError:
                continue
        ptr = self._grow(size)
        self._held_nbytes += size
        self._num_blocks += 1
        return Block(ptr, size, home, self)

    def _grow(self, nbytes: int) -> int:
        """Get memory from the driver, whatever it takes."""
        for relieve in (self.trim, self._run_hooks):
            try:
                return self._ask_driver(nbytes)
            except self._out_of_memory:
                relieve()
        try:
            return self._ask_driver(nbytes)
        except self._out_of_memory as error:
            raise MemoryError(self._describe_shortage(nbytes)) from error

    def _ask_driver(self, nbytes: int) -> int:
        ptr = self._driver_allocate(nbytes)
        self.driver_allocations += 1
        return ptr

    def _run_hooks(self) -> None:
        """Let pending work finish with its memory, and garbage with its own; then trim again."""
        thread = get_ident()
        if thread in self._relieving:  # a hook's own request: it has to do with what there is
            return
        self._relieving.add(thread)
        try:
            for hook in tuple(hooks.before_out_of_memory):
                try:
                    hook()
                except MemoryError:
                    continue  # its work stays pending; the request that began this may still succeed
        finally:
            self._relieving.discard(thread)
        gc.collect()  # arrays in reference cycles
        self.trim()

    def _describe_shortage(self, nbytes: int) -> str:
        now = self.stats()
        used, cached, free, total = map(
            format_nbytes, (now.used_nbytes, now.cached_nbytes, now.free_nbytes, now.total_nbytes)
        )
        return (
            f"the device is out of memory: {format_nbytes(nbytes)} asked for, {used} in use by arrays, {cached} "
            f"cached, {free} free of {total}; delete arrays that are no longer needed, work in smaller pieces, or end "
            "other processes that use the device"
        )

    def trim(self) -> None:
        """Give every cached block back to the driver."""
        for _, classes in tuple(self._streams.values()):
            for blocks in tuple(classes.values()):
                while blocks:
                    try:
                        block = blocks.pop()
                    except IndexError:  # another thread was faster
                        break
                    self._driver_free(block.ptr)
                    self._held_nbytes -= block.nbytes
                    self._num_blocks -= 1

    def reset_peak(self) -> None:
        """Begin a new measurement of `peak_nbytes`."""
        self.peak_nbytes = self.used_nbytes

    def stats(self) -> MemoryStats:
        """Return what the pool holds."""
        free, total = self._memory_info()
        used = self.used_nbytes
        return MemoryStats(
            used_nbytes=used,
            cached_nbytes=self._held_nbytes - used,
            peak_nbytes=self.peak_nbytes,
            free_nbytes=free,
            total_nbytes=total,
            driver_allocations=self.driver_allocations,
            num_blocks=self._num_blocks,
        )
