"""Sums along few long rows whose tiles are added up well before they are scanned.

Data layout, tickets, descriptors and the order of sums are those of `chained`. Who owns what: a block adds up a tile,
and scans the one `lag` tickets before. Algorithm: a block starts copying the tile that it scans to shared memory, out
of the L2 cache, where another block has read it; meanwhile it adds up its other tile, from registers, and publishes
the total, the last one of a group also the group's. When it looks back, the totals of the tiles before have been
there for a while. So tiles that arrive late delay fewer others: where a block adds up the tile that it scans, it waits
for half of its time. Bytes per element: input and result once, and the input once more from the L2 cache.

A block publishes before it looks back, and waits only for blocks that have begun before: for the totals of other tiles
of a group where it publishes the group's, then for those of tiles before the one that it scans.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.scan.chained import BLOCK, NUM_WARPS, ScanChained, ScanChainedSpec
from oxinp._kernels.scan.kernel import CHAINED
from oxinp._kernels.scan.totals import FAN, FAN_BITS, Group
from oxinp._ptx import Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._kernels.scan.chained import Tile
    from oxinp._ptx.value import Value

AT_ONCE = 4  # units that a thread loads before it adds the first
MIN_BLOCKS = 6
PUBLISHER = NUM_WARPS - 1  # the first warp looks back


class ScanAheadSpec(ScanChainedSpec):
    """One kernel of the family: of sums of elements that are copied to shared memory as they are."""

    @property
    def min_blocks(self) -> int:
        """How many blocks the registers of a multiprocessor have to hold."""
        return MIN_BLOCKS


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ScanAheadSpec) -> Kernel:
    """Build the kernel of a Spec."""
    assert spec.part == CHAINED
    assert spec.is_copied
    return _ScanAhead(spec).build()


class _ScanAhead(ScanChained):
    """The kernel while it is built."""

    name = "scan_ahead"

    def __init__(self, spec: ScanAheadSpec) -> None:
        super().__init__(spec)
        self.lag, self.num_tiles = self.k.scalar("lag", u32), self.k.scalar("num_tiles", u32)
        self.sums = self.k.dynamic_shared(spec.op.acc, NUM_WARPS)

    def build(self) -> Kernel:
        k = self.k
        ticket = self.take_ticket()
        with k.when(ticket >= self.lag):
            self.start(self.tile(ticket - self.lag))
        with k.when(ticket < self.num_tiles):
            self.add_up(self.tile(ticket))
        with k.when(ticket >= self.lag):
            with k.when(k.warp == 0):
                row, number = self.tiles.divide(k.cast(ticket - self.lag, self.type))
                before = self.by_lanes(k.cast(row, u32), k.cast(number, u32))
                with k.when(k.lane == 0):
                    self.before[0] = before
            tile = self.tile(self.number[0] - self.lag)  # registers are short, here and before
            self.finish(tile)
            k.barrier()
            within, _ = self.scan_threads()
            self.scan_elements(within)
            k.barrier()
            self.store(tile)
        return k.build()

    def add_up(self, tile: Tile) -> None:
        """Publish the total of a tile; of the last one of a row, which may not be a whole one, nobody needs it."""
        k, spec = self.k, self.spec
        with k.when(tile.size == spec.tile):
            num_units = spec.tile // spec.vector
            total = None
            for first in range(0, num_units, AT_ONCE * BLOCK):
                units = range(first, min(first + AT_ONCE * BLOCK, num_units), BLOCK)
                places = [k.min(k.tid + unit, num_units - 1) * spec.vector for unit in units]
                spots = [tile.origin.moved(self.scanned, k.cast(place, self.type)).inputs[0] for place in places]
                loaded = [spot.load(spec.vector) for spot in spots]  # not past L1: the L2 cache would not keep them
                for unit, values in zip(units, loaded, strict=True):
                    added = self.added(list(values))
                    if unit + BLOCK > num_units:
                        added = k.where(k.tid + unit < num_units, added, self.identity)
                    total = added if total is None else self.combine(total, added)
            assert total is not None
            total = self.joined(total)
            with k.when(k.lane == 0):
                self.sums[k.warp] = total
            k.barrier()
            with k.when(k.warp == PUBLISHER):
                total = k.where(k.lane < NUM_WARPS, self.sums[k.lane & (NUM_WARPS - 1)], self.identity)
                row, number = k.cast(tile.row, u32), k.cast(tile.number, u32)
                total = self.joined(total)
                with k.when(k.lane == 0):
                    self.publish(0, row * self.entries[0] + number, total)
                self.close(total, row, number, 1)

    def added(self, values: list[Value]) -> Value:
        """The sum of elements."""
        return reduce(self.combine, map(self.lift, values))

    def close(self, total: Value, row: Value, number: Value, level: int) -> None:
        """Publish the totals of the groups of which a tile is the last, from a level on."""
        if level == len(self.entries):
            return
        k, last = self.k, FAN**level - 1
        with k.when((number & last) == last):
            group = Group(self, level - 1, row, number)
            group.look()
            total = self.combine(group.joined(), total)
            with k.when(k.lane == 0):
                self.publish(level, row * self.entries[level] + (number >> (level * FAN_BITS)), total)
            self.close(total, row, number, level + 1)


__all__ = ["ScanAheadSpec", "make"]
