"""Serial split-K with semaphores: blocks that compute ranges of K of one tile add up its sums in the workspace.

Every tile has the same number of ranges, each of some k-blocks, which blocks take in turn. The block of a range that is
not the last one of its tile stores its sums to the workspace, and sets a flag. The block of the next range waits for
the flag, clears it, and adds those sums to its own: always in the order of K. So blocks wait only for blocks of smaller
numbers. Flags are zeros before and after.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.sm90_wgmma.scheduler import NUM_CONSUMERS, TileScheduler
from oxinp._ptx.types import i64, u32
from oxinp._ptx.wgmma import WARPGROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals

UNIT = 4  # sums per store to the workspace


def split_ranges(num_k: int, split_k: int) -> tuple[int, int]:
    """Return the number of ranges of `num_k` k-blocks, at most `split_k` and none empty, and their length."""
    length = -(-num_k // split_k)
    return -(-num_k // length), length


class SplitKScheduler(TileScheduler):
    """A tile scheduler that gives ranges of K of tiles to blocks, or to clusters; parameters as of `TileScheduler`."""

    def __init__(self, k: Builder, cluster: int, width: int, *, is_batched: bool, shared: str) -> None:
        super().__init__(k, cluster, width, is_batched=is_batched, shared=shared)
        self.num_ranges, self.length = (k.scalar(name, u32) for name in ("num_parts", "length"))

    @contextmanager
    def each_sliced(self) -> Iterator[tuple[Value | None, Value, Value]]:
        """Run what is inside for this block's ranges, each with its tile; see `TileScheduler.each_sliced`."""
        k = self.builder
        first, total, stride = self.share()
        with k.range(first, total * self.num_ranges, stride) as number:
            tile = number / self.num_ranges
            self.number = number
            begin = (number - tile * self.num_ranges) * self.length
            self._range = begin, k.min(begin + self.length, self.num_k)
            yield self.place(tile)

    def depth_range(self, number: Value | None) -> tuple[Value, Value]:
        """Return the first k-block of the range, and the one behind its last."""
        del number
        return self._range

    @property
    def is_begun(self) -> Value:
        """Whether the range before this one is of the same tile."""
        return self._range[0] > 0

    @property
    def is_continued(self) -> Value:
        """Whether the next range is of the same tile."""
        return self._range[1] < self.num_k


class SerialSplitK:
    """The serial reduction of a tile over its ranges of K, through the workspace; in the threads of consumers.

    Parameters
    ----------
    k : Builder
    tiles : SplitKScheduler
    sums : Pointer
        The workspace: a tile of sums per range, and block of a cluster.
    flags : Pointer
        The semaphores: one per consumer warpgroup of these.
    warpgroup, thread : Value
        This thread's consumer warpgroup, from 0, and its number there.
    """

    def __init__(
        self, k: Builder, tiles: SplitKScheduler, sums: Pointer, flags: Pointer, warpgroup: Value, thread: Value
    ) -> None:
        self._builder, self._tiles, self._sums, self._flags = k, tiles, sums, flags
        self._thread, self._barrier = thread, warpgroup + 1
        self._own = tiles.rank * NUM_CONSUMERS + warpgroup
        self._per_range = tiles.cluster * NUM_CONSUMERS

    def store(self, sums: Accumulator | Totals, store: Callable[[Accumulator | Totals], None]) -> None:
        """Add the sums of the range before; then call `store` with them, or store them for the next range."""
        k, tiles = self._builder, self._tiles
        registers = sums.registers
        units = [registers[i : i + UNIT] for i in range(0, len(registers), UNIT)]
        places = [(number * (WARPGROUP * UNIT), unit) for number, unit in enumerate(units)]
        with k.when(tiles.is_begun):
            memory, flag = self._of(tiles.number - 1)
            with k.when(self._thread == 0):
                with k.loop():
                    k.break_if(flag.load(0, order="acquire.gpu")[0] != 0)
                flag[0] = k.const(0, u32)
            k.barrier(self._barrier, WARPGROUP)
            for unit, values in [(unit, memory.load(place, UNIT)) for place, unit in places]:
                for register, value in zip(unit, values, strict=True):
                    register.set(value + register.get())
        with k.when(tiles.is_continued):
            memory, flag = self._of(tiles.number)
            for place, unit in places:
                memory.store(place, [register.get() for register in unit])
            k.barrier(self._barrier, WARPGROUP)
            with k.when(self._thread == 0):
                flag.store(0, [k.const(1, u32)], order="release.gpu")
        with k.otherwise():
            store(sums)

    def _of(self, number: Value) -> tuple[Pointer, Pointer]:
        """Pointers to this thread's sums of a range in the workspace, and to their flag."""
        k = self._builder
        place = k.cast(number * self._per_range + self._own, i64)
        per_thread = self._tiles.width // 2
        sums = self._sums.at(place * (WARPGROUP * per_thread)).at(k.cast(self._thread * UNIT, i64))
        return sums, self._flags.at(place)


__all__ = ["SerialSplitK", "SplitKScheduler", "split_ranges"]
