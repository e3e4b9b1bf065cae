"""The pool that Buffers come from and go back to.

A `Block` serves one Buffer at a time, whole. A dead Buffer's block goes onto the free list of its size class and
stream, and the next request of that class takes it. The device runs the work of one stream in order, so a block may be
handed out again on its stream while earlier work on it is still queued: that is why lists belong to streams, and why no
event is needed. Where other streams have used the block as well, it remembers them (`timeline`), and the first to use
it again waits for them.

Blocks are cut out of an `Arena`, one per stream, where the device has virtual memory. A request whose class has no free
block takes the best fit of what is free there; before that, if they are more than a 64th, or if nothing fits, the free
blocks of all classes go back to the arena and join. Requests are rounded up to steps of a 64th of the power of two
below, 512 bytes at least: 0.8 % is lost, and programs that ask for the same sizes again and again are served from the
lists alone.

Without an arena (older systems, the emulator, and where ``config.memory_pool`` is "blocks", as it is under the memory
checker, which sees the bounds of driver allocations only) each block is a driver allocation of its own, by cuMemAlloc
and not cuMemAllocAsync: the pool already gives the stream-ordered reuse that the latter is for, and cuMemFree waits for
the device. Steps are an eighth of the power of two below then, beyond 4 KiB at most 12.5 % is lost, and a large request
whose class is empty also takes a block up to two classes larger (at most 25 % above its own) before it asks the driver.

No lock is on the way of a request that a list serves. A free list is a list whose `append` and `pop` are atomic; the
counters are read, changed and stored without a call in between, and only at calls may the interpreter switch threads.
So a finaliser may run anywhere, also inside `Stock.allocate`, and return its block at once. Arenas are under a lock,
which only a request can want: that of a finaliser which interrupts its own thread's work on the arenas is a driver
allocation, however small.
"""

from __future__ import annotations

import contextlib
import gc
from bisect import bisect_left, bisect_right, insort
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any

from oxinp._config import config
from oxinp._runtime import cuts, hooks
from oxinp._runtime.forking import free_in_children
from oxinp._runtime.memory import Block, MemoryStats, Uses, class_nbytes, format_nbytes
from oxinp._runtime.stock import Stock
from oxinp._runtime.timeline import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from oxinp._runtime.arena import Arena
    from oxinp._runtime.memory import Buffer
    from oxinp._runtime.timeline import Timeline

__all__ = ["Pool"]

_LARGE_NBYTES = 1 << 20
"""From here on a block of a larger class may serve: the driver call and the memory saved outweigh the search."""

_MAX_REQUEST_SIZES = 4096
"""Distinct request sizes remembered per stream: a program with more forgets them and asks `class_nbytes` again."""

_ARENA_STEPS = 64

_AMPLE_SHARE = 2
"""Memory is ample where no more than this part of all that the pool could hold is in use."""

_CALM_LOOKS = 8
"""Times in a row that memory has to be found ample before uses are noted no more."""

_IDLE_SHARE = 64
"""Free blocks that are more than this part of all are returned to the arena before anything is cut from it."""


class _Alone:
    """A lock that its thread may take again, and which says whether it is the first time: `with lock as is_first`."""

    __slots__ = ("_depth", "_lock")

    def __init__(self) -> None:
        self._lock = free_in_children(RLock())
        self._depth = 0

    def __enter__(self) -> bool:
        self._lock.acquire()
        self._depth += 1
        return self._depth == 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()


class _Keeping:
    """What `Pool.keeping_arrays` is, of all threads: before each product that has a spare way."""

    __slots__ = ("_threads",)

    def __init__(self, threads: set[int]) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._threads.add(-get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.discard(-get_ident())


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
        What `driver_allocate` and arenas raise when there is none left.
    make_free_list : Callable
        Returns an empty list; one of its own class sees every block come back, in `append`.
    make_arena : Callable, optional
        Returns an arena without memory; the two driver functions are for what an arena cannot serve then.

    Attributes
    ----------
    allocate : Callable
        `Stock.allocate` of the default stream.
    keeping_arrays : context manager
        Lets the calling thread's requests fail inside a `with` block rather than have arrays evicted.
    owner : object
        The backend whose pool it is.
    used_nbytes, peak_nbytes, driver_allocations : int
        See `MemoryStats`.
    lock : context manager
        Held where arenas change; says whether it is the thread's first hold.
    limit_nbytes : int or None
        The most to hold; None for as much as there is. What is held already stays.
    notes_uses : bool
        Programs note in `Block.used` which blocks they use: from when arrays had to be evicted until memory has been
        ample for a while.
    """

    __slots__ = (
        "__weakref__",
        "_blocks",
        "_driver_allocate",
        "_driver_free",
        "_flushing",
        "_guests",
        "_kept",
        "_loose",
        "_make_arena",
        "_make_free_list",
        "_memory_info",
        "_num_ample",
        "_num_blocks",
        "_out_of_memory",
        "_relieving",
        "_retired",
        "_starts",
        "_stocks",
        "_total_nbytes",
        "allocate",
        "cut_nbytes",
        "driver_allocations",
        "keeping_arrays",
        "limit_nbytes",
        "lock",
        "notes_uses",
        "owner",
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
        make_arena: Callable[[], Arena] | None = None,
    ) -> None:
        self._driver_allocate = driver_allocate
        self._driver_free = driver_free
        self._memory_info = memory_info
        self._out_of_memory = out_of_memory
        self._make_free_list = make_free_list
        self._make_arena = make_arena
        self._total_nbytes = memory_info()[1]
        self.lock = _Alone()  # of the arenas
        self.cut_nbytes = 0  # of all blocks, used and free
        self._loose: dict[int, int] = {}  # sizes of driver allocations, by address, where there are arenas
        self._num_blocks = 0
        self._relieving: set[int] = set()  # threads inside the out-of-memory hooks; negative: inside `keeping_arrays`
        self.keeping_arrays = _Keeping(self._relieving)
        self._flushing: set[int] = set()  # threads that are inside the hooks before growth
        self._blocks: dict[int, Block] = {}  # by address, used and free
        self._starts: list[int] | None = None  # their addresses in order, once somebody asks for a block by its middle
        self._stocks: dict[Hashable, Stock] = {}  # by stream
        self._retired: list[Stock] = []
        self._kept: list[Stock] = []
        self._guests: list[Hashable] = []
        self.used_nbytes = 0
        self.peak_nbytes = 0
        self.driver_allocations = 0
        self.limit_nbytes: int | None = None
        self.notes_uses = False
        self._num_ample = 0
        self.owner: Any = None
        self.allocate = self.stock(0).allocate

    @property
    def held_nbytes(self) -> int:
        """What the driver has given, in use or not."""
        if self._make_arena is None:
            return self.cut_nbytes
        arenas = [stock.arena for stock in self._all_stocks()]
        return sum(arena.committed_nbytes for arena in arenas if arena is not None) + sum(tuple(self._loose.values()))

    def stock(self, stream: Hashable) -> Stock:
        """Return what a stream allocates from.

        Parameters
        ----------
        stream : hashable
            Whatever tells it from the other streams.
        """
        return self._stocks.get(stream) or self._open(stream)

    def _open(self, stream: Hashable) -> Stock:
        """Return the stock of a stream that has none yet."""
        if self._retired:
            return self._stocks.setdefault(stream, self._retired.pop())
        with self.lock:  # no device is let in that this arena would not hear of
            arena = None if self._make_arena is None else self._make_arena()
            if arena is not None:
                for device in self._guests:
                    arena.space.let_in(device)
            return self._stocks.setdefault(stream, Stock(self, arena))

    def _all_stocks(self) -> list[Stock]:
        return [*self._stocks.values(), *self._retired, *self._kept]

    def keep(self, stream: Hashable) -> Stock | None:
        """Forget a stream, but keep all its memory as it is until `let_go`: a graph uses it at each launch."""
        stock = self._stocks.pop(stream, None)
        if stock is not None:
            self._kept.append(stock)
        return stock

    def let_go(self, stock: Stock) -> None:
        """Take back what `keep` gave; the work that used it is done."""
        stock.timeline = None
        self._kept.remove(stock)
        self._retired.append(stock)

    def retire(self, stream: Hashable) -> None:
        """Forget a stream that is gone, and whose work is done; the next new one takes over its memory."""
        stock = self._stocks.pop(stream, None)
        if stock is not None:
            self._retired.append(stock)

    def let_in(self, device: Hashable) -> None:
        """Let another device use the memory, now and later."""
        with self.lock:
            self._guests.append(device)
            for stock in self._all_stocks():
                if stock.arena is not None:
                    stock.arena.space.let_in(device)

    def block_at(self, ptr: int) -> Block | None:
        """Return the block that an address lies in, None where that is none of this pool's."""
        block = self._blocks.get(ptr)
        if block is not None:
            return block
        with self.lock:
            if self._starts is None:
                self._starts = sorted(self._blocks)
            place = bisect_right(self._starts, ptr) - 1
            if place < 0:
                return None
            block = self._blocks[self._starts[place]]
        return block if ptr < block.ptr + block.nbytes else None

    def find(self, nbytes: int, stock: Stock) -> Block:
        """Return a free block for a request that its own list did not serve: a larger one, or a new one."""
        arena, classes, by_request = stock.arena, stock.classes, stock.by_request
        size = class_nbytes(nbytes) if arena is None else class_nbytes(nbytes, _ARENA_STEPS)
        home = self.free_list(stock, size)
        if len(by_request) >= _MAX_REQUEST_SIZES:
            by_request.clear()
        by_request[nbytes - 1 >> 9] = home  # see `Stock.by_request`
        candidates: tuple[list[Block], ...] = (home,)
        if arena is None and size >= _LARGE_NBYTES and not home:
            larger = class_nbytes(size + 1)
            candidates += (classes.get(larger, []), classes.get(class_nbytes(larger + 1), []))
        for blocks in candidates:
            try:
                return blocks.pop()
            except IndexError:
                continue
        if stock.cuts and (joined := cuts.joined(self, stock, home)) is not None:
            return joined
        most = self._total_nbytes if self.limit_nbytes is None else self.limit_nbytes
        if self.used_nbytes + size > config.pending_share * most and self._flush(most - self.used_nbytes):
            with contextlib.suppress(IndexError):
                return home.pop()
        ptr = None if arena is None else self._cut(arena, stock, size)
        if ptr is None:
            ptr = self._grow(size, arena)
        return self.enter(Block(ptr, size, home, self), stock.timeline)

    def free_list(self, stock: Stock, size: int) -> list[Block]:
        """Return the free list of blocks of a size."""
        home = stock.classes.get(size)
        return stock.classes.setdefault(size, self._make_free_list()) if home is None else home

    def has_room(self, nbytes: int) -> bool:
        """Whether there is ample room for a Buffer that will be cut, and Buffers can be."""
        most = self._total_nbytes if self.limit_nbytes is None else self.limit_nbytes
        return self._make_arena is not None and (self.used_nbytes + nbytes) * _AMPLE_SHARE <= most

    def shrink(self, buffer: Buffer, nbytes: int) -> None:
        """Cut a Buffer of the default stream to its first bytes, and give the rest back, unless that is little.

        The two parts are one block again when both are free and such a large one is asked for.
        """
        stock, block = self.stock(0), buffer._block
        size = class_nbytes(nbytes, _ARENA_STEPS)
        buffer.nbytes, rest = nbytes, block.nbytes - size
        if rest >= _LARGE_NBYTES and stock.arena is not None and block.ptr not in self._loose:
            self.used_nbytes -= rest
            cuts.cut(self, stock, block, size)

    def _flush(self, nbytes: int) -> bool:
        """Have pending work done that keeps much beside so much free memory; False where this is a part of that."""
        thread = get_ident()
        if thread in self._flushing:
            return False
        self._flushing.add(thread)
        try:
            for hook in tuple(hooks.before_growth):
                with contextlib.suppress(MemoryError):  # its work stays pending
                    hook(nbytes)
        finally:
            self._flushing.discard(thread)
        return True

    def enter(self, block: Block, timeline: Timeline | None) -> Block:
        """Count a new block; what lay there before was used by its stream, or is waited for by it."""
        if timeline is not None:
            block.uses = Uses(timeline, timeline.now)
        with self.lock:
            self._blocks[block.ptr] = block
            if self._starts is not None:
                insort(self._starts, block.ptr)
        self._num_blocks += 1
        self.cut_nbytes += block.nbytes
        return block

    def _cut(self, arena: Arena, stock: Stock, size: int) -> int | None:
        """Return memory that an arena has, once its free blocks are back if need be."""
        ptr = None
        if (self.cut_nbytes - self.used_nbytes) * _IDLE_SHARE <= self.cut_nbytes:
            with self.lock as is_first:
                ptr = arena.take(size) if is_first else None
        if ptr is None:
            self._return_blocks(stock)
            with self.lock as is_first:
                ptr = arena.take(size) if is_first else None
        return ptr

    def _return_blocks(self, stock: Stock) -> None:
        """Give the free blocks of a stream back to where they came from."""
        arena = stock.arena
        for blocks in tuple(stock.classes.values()):
            while blocks:
                try:
                    block = blocks.pop()
                except IndexError:  # another thread was faster
                    break
                if block.uses is not None:
                    settle(block.uses, stock.timeline)
                is_loose = arena is None or block.ptr in self._loose
                with self.lock as is_first:
                    if not (is_first or is_loose):  # later
                        blocks.append(block)
                        return
                    self.forget(block)
                    if arena is not None and not is_loose:
                        arena.give(block.ptr, block.nbytes)
                if is_loose:
                    self._loose.pop(block.ptr, None)
                    self._driver_free(block.ptr)

    def forget(self, block: Block) -> None:
        """Let a block be none any more; its memory is somebody else's."""
        del self._blocks[block.ptr]
        if self._starts is not None:
            del self._starts[bisect_left(self._starts, block.ptr)]
        self.cut_nbytes -= block.nbytes
        self._num_blocks -= 1

    def _grow(self, nbytes: int, arena: Arena | None) -> int:
        """Get memory from the driver, whatever it takes: caches go first, then pending work, then arrays."""
        for relieve in (self.trim, self._run_hooks):
            try:
                return self._ask_driver(nbytes, arena)
            except self._out_of_memory:
                relieve()
        while True:
            try:
                return self._ask_driver(nbytes, arena)
            except self._out_of_memory as error:
                if not self._evict(nbytes):
                    raise MemoryError(self._describe_shortage(nbytes)) from error

    def _evict(self, nbytes: int) -> bool:
        """Have arrays moved to the host; whether that has made anything free."""
        if self.owner is None or not self._relieving.isdisjoint((get_ident(), -get_ident())):
            return False
        freed = sum([evict(self.owner, nbytes) for evict in tuple(hooks.to_evict)])
        self.trim()
        return freed > 0

    def _ask_driver(self, nbytes: int, arena: Arena | None) -> int:
        if arena is not None:
            with self.lock as is_first:
                ptr = arena.take(nbytes) if is_first else None
                if ptr is not None:  # somebody's has come back meanwhile
                    return ptr
                if is_first:
                    self._grow_arena(arena, nbytes)
                    ptr = arena.take(nbytes)
                    assert ptr is not None
                    self.driver_allocations += 1
                    return ptr
        self._check_limit(nbytes)
        ptr = self._driver_allocate(nbytes)
        if arena is not None:
            self._loose[ptr] = nbytes
        self.driver_allocations += 1
        return ptr

    def _grow_arena(self, arena: Arena, nbytes: int) -> None:
        """Grow by what the arena likes, or by no more than it must where there is not so much left."""
        for growth in (arena.growth(nbytes), arena.missing(nbytes)):
            try:
                self._check_limit(growth)
                arena.grow(growth)
            except self._out_of_memory:
                if growth == arena.missing(nbytes):
                    raise
            else:
                return

    def _check_limit(self, nbytes: int) -> None:
        if self.limit_nbytes is not None and self.held_nbytes + nbytes > self.limit_nbytes:
            raise self._out_of_memory("beyond the pool's limit")

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

    def begin_to_note(self) -> bool:
        """Have uses noted, now that arrays had to be evicted; whether they were not before."""
        self._num_ample, was_noting, self.notes_uses = 0, self.notes_uses, True
        return not was_noting

    def ends_to_note(self) -> bool:
        """Look whether memory is ample; whether it has been for so long that uses are noted no more from now on."""
        most = self._memory_info()[0] + self.held_nbytes
        if self.limit_nbytes is not None:
            most = min(most, self.limit_nbytes)
        self._num_ample = self._num_ample + 1 if self.used_nbytes * _AMPLE_SHARE <= most else 0
        if self._num_ample < _CALM_LOOKS or not self.notes_uses:
            return False
        self.notes_uses = False
        return True

    def _describe_shortage(self, nbytes: int) -> str:
        now = self.stats()
        used, cached, free, total = map(
            format_nbytes, (now.used_nbytes, now.cached_nbytes, now.free_nbytes, now.total_nbytes)
        )
        limit = "" if now.limit_nbytes is None else f", and the pool may hold {format_nbytes(now.limit_nbytes)}"
        return (
            f"the device is out of memory: {format_nbytes(nbytes)} asked for, {used} in use by arrays, {cached} "
            f"cached, {free} free of {total}{limit}; delete arrays that are no longer needed, work in smaller pieces, "
            "or end other processes that use the device"
        )

    def trim(self) -> None:
        """Give what is not in use back to the driver: every free block, and of arenas the chunks that are all free."""
        for stock in (*self._stocks.values(), *self._retired):
            if _is_captured(stock):
                continue  # a graph will use what is free there now
            self._return_blocks(stock)
            if stock.arena is not None:
                with self.lock as is_first:
                    if is_first and not _is_captured(stock):
                        stock.arena.release()

    def reset_peak(self) -> None:
        """Begin a new measurement of `peak_nbytes`."""
        self.peak_nbytes = self.used_nbytes

    def stats(self) -> MemoryStats:
        """Return what the pool holds."""
        free, total = self._memory_info()
        used = self.used_nbytes
        return MemoryStats(
            used_nbytes=used,
            cached_nbytes=self.held_nbytes - used,
            peak_nbytes=self.peak_nbytes,
            free_nbytes=free,
            total_nbytes=total,
            driver_allocations=self.driver_allocations,
            num_blocks=self._num_blocks,
            limit_nbytes=self.limit_nbytes,
        )


def _is_captured(stock: Stock) -> bool:
    """Whether it is the memory of a stream that is captured, or has been."""
    return stock.timeline is not None and stock.timeline.footprint is not None
