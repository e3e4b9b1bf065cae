"""Runs of K: the blocks of the kernels for Hopper that share a tile add up its sums through memory, in one launch.

Every tile has as many runs of steps of K as all others, which blocks take in turn. Who has a run that another one of
the same tile follows leaves the sums in memory, and sets a flag; the next one waits for it, takes the sums and adds its
own, in the order of K. So blocks wait only for blocks of smaller numbers. Flags are zeros before and after.
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

UNIT = 4  # sums that are written together


def parts_of(num_k: int, num_parts: int) -> tuple[int, int]:
    """Runs of a tile of `num_k` steps that all have some, at most `num_parts`; steps of each but the last one."""
    length = -(-num_k // num_parts)
    return -(-num_k // length), length


class SplitKScheduler(TileScheduler):
    """Tiles of C of which a block, or a cluster, has runs of steps of K; parameters as of `TileScheduler`."""

    def __init__(self, k: Builder, cluster: int, width: int, *, is_sliced: bool, shared: str) -> None:
        super().__init__(k, cluster, width, is_sliced=is_sliced, shared=shared)
        self.num_parts, self.length = (k.scalar(name, u32) for name in ("num_parts", "length"))

    @contextmanager
    def each_sliced(self) -> Iterator[tuple[Value | None, Value, Value]]:
        """Run the block for this block's runs, each with its tile; see `TileScheduler.each_sliced`."""
        k = self.builder
        first, total, stride = self.share()
        with k.range(first, total * self.num_parts, stride) as run:
            tile = run / self.num_parts
            self.run = run
            begin = (run - tile * self.num_parts) * self.length
            self._range = begin, k.min(begin + self.length, self.num_k)
            yield self.place(tile)

    def depth_range(self, number: Value | None) -> tuple[Value, Value]:
        """Tiles of K of the run."""
        del number
        return self._range

    @property
    def is_begun(self) -> Value:
        """Whether the run before is of the same tile."""
        return self._range[0] > 0

    @property
    def is_continued(self) -> Value:
        """Whether the next run is of the same tile."""
        return self._range[1] < self.num_k


class SerialSplitK:
    """The way of sums from one run to the next, through memory; in the threads with sums.

    Parameters
    ----------
    k : Builder
    tiles : Runs
    sums : Pointer
        Memory for tiles of sums, one per run and block of a cluster.
    flags : Pointer
        As many for each warpgroup.
    warpgroup, thread : Value
        This thread's warpgroup, counted from 0, and its number in it.
    """

    def __init__(
        self, k: Builder, tiles: SplitKScheduler, sums: Pointer, flags: Pointer, warpgroup: Value, thread: Value
    ) -> None:
        self._builder, self._tiles, self._sums, self._flags = k, tiles, sums, flags
        self._thread, self._barrier = thread, warpgroup + 1
        self._own = tiles.rank * NUM_CONSUMERS + warpgroup
        self._per_run = tiles.cluster * NUM_CONSUMERS

    def store(self, sums: Accumulator | Totals, store: Callable[[Accumulator | Totals], None]) -> None:
        """Add what was left of the tile, and hand all to `store`, or leave it to the next run."""
        k, tiles = self._builder, self._tiles
        registers = sums.registers
        units = [registers[i : i + UNIT] for i in range(0, len(registers), UNIT)]
        places = [(number * (WARPGROUP * UNIT), unit) for number, unit in enumerate(units)]
        with k.when(tiles.is_begun):
            memory, flag = self._of(tiles.run - 1)
            with k.when(self._thread == 0):
                with k.loop():
                    k.break_if(flag.load(0, order="acquire.gpu")[0] != 0)
                flag[0] = k.const(0, u32)
            k.barrier(self._barrier, WARPGROUP)
            for unit, values in [(unit, memory.load(place, UNIT)) for place, unit in places]:
                for register, value in zip(unit, values, strict=True):
                    register.set(value + register.get())
        with k.when(tiles.is_continued):
            memory, flag = self._of(tiles.run)
            for place, unit in places:
                memory.store(place, [register.get() for register in unit])
            k.barrier(self._barrier, WARPGROUP)
            with k.when(self._thread == 0):
                flag.store(0, [k.const(1, u32)], order="release.gpu")
        with k.otherwise():
            store(sums)

    def _of(self, run: Value) -> tuple[Pointer, Pointer]:
        """Where this thread's sums lie that a run leaves, and their flag."""
        k = self._builder
        number = k.cast(run * self._per_run + self._own, i64)
        per_thread = self._tiles.width // 2
        sums = self._sums.at(number * (WARPGROUP * per_thread)).at(k.cast(self._thread * UNIT, i64))
        return sums, self._flags.at(number)


__all__ = ["SerialSplitK", "SplitKScheduler", "parts_of"]
