"""Draws of variates in one pass: a block finds those of a tile, learns how many come before, and stores them in order.

Data layout: the result is contiguous; values and bits of a tile are in shared memory, see `find`. Who owns what: blocks
take tiles by an atomic ticket, and the next one's before they have made the words of one; thread t has words t, t +
BLOCK, ... of one. Where a tile's results begin is the number of those before it, by decoupled look-back: a tile leaves
how many it gives, then how many all up to it give; its first warp goes back over the tiles before it, `NEAR` at a time,
to one that says the latter. What they say is a word of 64 bits with a mark, zero before the launch, so that no fence is
needed. Where a word's result goes is that, the bits of rows before its own, and the bits of lanes before it.

Bytes per element: itself, once. Instructions per word of f64 (SASS): 14 for the state, 8 for the word, 8 for the value,
6 for the candidate, 10 for its place and through shared memory; for the rest of a tile, divided by its words, 6 before
the words, 5 for the list, 8 for the ends of segments, 4 for what they cover, 3 for the look-back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.find import ALL, NUM_WARPS, WARP, Finder, exclusive_in_block, unrolled
from oxinp._kernels.random.variates import VARIATES
from oxinp._kernels.random.words import BLOCK, Words
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCKS_PER_SM = 4
NEAR_ROWS = 8
NEAR = NEAR_ROWS * WARP  # tiles before one that are looked at together
COUNT, SUM = 1 << 62, 1 << 63  # marks: of how many a tile gives, and of how many all up to it do
NUMBER = COUNT - 1


class VariatesSpec(Frozen):
    """The kernel that draws variates.

    Attributes
    ----------
    generator : str
        A key of `lcg.GENERATORS`.
    variate : str
        A key of `variates.VARIATES`.
    is_shifted : bool
        The first half word is given.
    items : int
        Words of a thread in a tile, fewer than 32.
    capacity : int
        Of the list of candidates; 0 where no segment is slow.
    """

    generator: str
    variate: str
    is_shifted: bool
    items: int
    capacity: int

    @property
    def positions(self) -> int:
        """Positions of a tile."""
        return BLOCK * self.items * VARIATES[self.variate].pieces


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: VariatesSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Variates(spec).build()


class _Variates:
    """The kernel while it is built."""

    def __init__(self, spec: VariatesSpec) -> None:
        self.spec, self.variate = spec, VARIATES[spec.variate]
        self.k = k = Builder("random_variates", block=BLOCK, min_blocks=BLOCKS_PER_SM)
        self.pieces = self.variate.pieces
        self.out = k.pointer("out", self.variate.type, "w")
        self.said = k.pointer("said", u64)  # a ticket, then what tiles say
        self.result = k.pointer("result", i64)
        self.words = Words(k, spec.generator, self.pieces, spec.items, is_shifted=spec.is_shifted)
        table = k.pointer("table", u64, "r") if self.variate.has_table else None
        parameters = tuple(k.scalar(f"parameter{i}", t) for i, t in enumerate(self.variate.parameters))
        self.size, self.num_tiles = k.scalar("size", i64), k.scalar("num_tiles", u32)
        self.finder = Finder(k, self.words, self.variate, spec.items, spec.capacity, (table, *parameters))
        self.rows, self.width = self.finder.rows.at((NUM_WARPS, 0)), 2 * self.pieces  # with the number of those before
        self.start = k.dynamic_shared(i64, 1)  # how many come before the tile
        self.ticket, self.state = k.dynamic_shared(u32, 1), k.dynamic_shared(u64, 2)  # of the block's next tile
        self.lane, self.warp = k.lane, k.tid >> 5

    def build(self) -> Kernel:
        k, tid = self.k, self.k.tid
        self.finder.prepare()
        with k.when(tid == 0):
            ticket = self.take()
            self.ticket[0] = ticket
            self.state.store(0, self.words.state(k.min(ticket, self.num_tiles - 1)))
        k.warp_sync()
        k.barrier()
        with k.loop():
            self.tile = self.ticket[0]
            k.break_if(self.tile >= self.num_tiles)
            self.words.open(self.tile, self.state.load(0, 2))
            following = k.var(0, u32)  # on its way while the tile's words are made
            with k.when(tid == 0):
                following.set(self.take())
            k.warp_sync()
            self.finder.find(self.result)
            with k.when(tid == 0):
                self.ticket[0] = following.get()
            total = self.count_rows()
            with k.when(tid == WARP):
                self.state.store(0, self.words.state(k.min(self.ticket[0], self.num_tiles - 1)))
            with k.when(self.warp == 0):
                before = self.look_back(total)
                with k.when(self.lane == 0):
                    self.start[0] = k.cast(before, i64)
            k.barrier()
            self.leave(total)
            k.barrier()
        return k.build()

    def take(self) -> Value:
        """Take the next tile."""
        return self.k.cast(self.said.atomic("add", 0, self.k.const(1, u64)), u32)

    def leave(self, total: Value) -> None:
        """Store what the tile gives, as far as that is asked for."""
        k, start = self.k, self.start[0]
        left = self.size - start
        with k.when(left > 0):
            limit = k.cast(k.min(left, k.cast(total, i64)), u32)
            with k.when(limit < total):
                with k.when(k.tid < NUM_WARPS * self.spec.items):
                    self.cut(limit)
                k.barrier()
            self.store(self.out.at(start))
            with k.when(left <= k.cast(total, i64)):
                self.say_end(limit)

    def count_rows(self) -> Value:
        """Leave how many come before each row, by the thread of its number; return the number of all."""
        k, tid = self.k, self.k.tid
        count, row = k.var(0, u32), self.rows.at(self.row(tid))
        has_row = tid < NUM_WARPS * self.spec.items
        with k.when(has_row):
            for word in row.load(0, self.pieces):
                count.set(count + k.popc(word))
        place, total = exclusive_in_block(k, self.finder.totals, count.get())
        with k.when(has_row):
            row.store(self.pieces, [place, *[k.const(0, u32)] * (self.pieces - 1)])
        return total

    def row(self, number: Value) -> Value:
        """Where a row of the tile is."""
        return number * self.width

    def look_back(self, total: Value) -> Value:
        """Say how many variates the tile gives, by a warp; return how many those before it do, u64."""
        k, said = self.k, self.said.at(1)
        own, is_leader = k.cast(total, u64), self.lane == 0
        with k.when(is_leader & (self.tile != 0)):
            said.store(self.tile, [own | COUNT], order="relaxed.gpu")
        before, end = k.var(0, u64), k.var(self.tile)
        with k.loop():
            k.break_if(end == 0)
            # The tile that is `NEAR_ROWS * lane` and so many more before the end; there is none before the first
            places = [end - 1 - (row * WARP + self.lane) for row in range(NEAR_ROWS)]
            found = [k.var(SUM, u64) for _ in places]
            for place, var in zip(places, found, strict=True):
                with k.when(place < end), k.loop():
                    var.set(said.load(place, order="relaxed.gpu")[0])
                    k.break_if(var != 0)
            k.warp_sync()
            goes_on = k.var(True, pred)
            for var in found:
                sums = k.ballot(var >= SUM)
                nearest = sums & (k.const(0, u32) - sums)
                mask = k.where(sums == 0, k.const(ALL, u32), nearest | (nearest - 1))
                with k.when(goes_on.get() & (((mask >> self.lane) & 1) != 0)):
                    before.set(before + (var & NUMBER))
                goes_on.set(goes_on & (sums == 0))
            end.set(k.where(goes_on, end - NEAR, k.const(0, u32)))
        all_before = before.get()
        for distance in (16, 8, 4, 2, 1):
            all_before = all_before + k.shfl_bfly(all_before, distance)
        with k.when(is_leader):
            said.store(self.tile, [(all_before + own) | SUM], order="relaxed.gpu")
        return all_before

    def cut(self, limit: Value) -> None:
        """Clear the bits beyond a number of results, in the thread's row."""
        k = self.k
        *bits, place = self.rows.load(self.row(k.tid), self.width)[: self.pieces + 1]
        before, left = k.var(place), [k.var(each) for each in bits]
        with k.range(k.const(0, u32), WARP) as lane:
            for each in left:
                bit = (each >> lane) & 1
                with k.when(before >= limit):
                    each.set(each & ~(bit << lane))
                before.set(before + bit)
        for piece, each in enumerate(left):
            self.rows[self.row(k.tid) + piece] = each.get()

    def store(self, target: Pointer) -> None:
        """Store the values of positions that give one."""
        k, spec = self.k, self.spec
        lane_bit = k.const(1, u32) << self.lane
        below = lane_bit - 1
        per_turn = unrolled(spec.items)
        row, place = k.var(self.warp), k.var(k.tid * self.pieces)
        with k.range(spec.items // per_turn):
            rows, drawn = self.rows.at(self.row(row.get())), self.finder.drawn.at(place.get())
            for item in range(per_turn):
                *bits, rank = rows.load(NUM_WARPS * self.width * item, self.width)[: self.pieces + 1]
                for each in bits:
                    rank = rank + k.popc(each & below)
                values = drawn.load(BLOCK * self.pieces * item, self.pieces)
                for number, (each, value) in enumerate(zip(bits, values, strict=True)):
                    gives = (each & lane_bit) != 0
                    with k.when(gives):
                        target[rank] = value
                    if number + 1 < self.pieces:
                        rank = rank + k.cast(gives, u32)
            row.set(row + NUM_WARPS * per_turn)
            place.set(place + BLOCK * self.pieces * per_turn)

    def say_end(self, limit: Value) -> None:
        """Leave where the segment of the last variate ends; the thread that has its row does."""
        k = self.k
        with k.when(k.tid < NUM_WARPS * self.spec.items):
            *bits, place = self.rows.load(self.row(k.tid), self.width)[: self.pieces + 1]
            target, before = limit - 1, k.var(place)
            with k.when(place <= target), k.range(k.const(0, u32), WARP) as lane:
                for piece, each in enumerate(bits):
                    bit = (each >> lane) & 1
                    with k.when((bit != 0) & (before == target)):
                        position = (k.tid * WARP + lane) * self.pieces + piece
                        start = k.cast(self.tile, i64) * self.spec.positions
                        self.result[0] = start + k.cast(position + self.finder.length_of(position), i64)
                    before.set(before + bit)


__all__ = ["VariatesSpec", "make"]
