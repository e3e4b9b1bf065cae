"""The second of two kernels that draw variates: it makes the words again, and stores what `find` found in order.

Data layout: the result is contiguous; bits and counts are those of `find`. Who owns what: a block has a tile, thread t
words t, t + BLOCK, ... of it. Where a tile's results begin is the sum of the counts before it: of whole groups, and of
the tiles of its own group, one per thread. Where a word's result goes is that, the bits of rows before its own, and the
bits of lanes before it. The few values that are not those of the first piece are stored over these at last.

Bytes per element: itself, once. Instructions per word of f64 (SASS): 14 for the state, 8 for the word, 8 for the value,
8 for its place; 19 of these are of the pipe for logic and shifts, which does half an instruction per cycle.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.find import GROUP, NUM_WARPS, WARP, exclusive_in_block, unrolled
from oxinp._kernels.random.sources import words_of
from oxinp._kernels.random.variates import STRIPS, VARIATES
from oxinp._kernels.random.words import BLOCK, pieces_of
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.random.sources import SourceWalk
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

BLOCKS_PER_SM = 5  # of 48 registers per thread


class PlaceSpec(Frozen):
    """The kernel that places variates, see `find.FindSpec`.

    Attributes
    ----------
    generator, variate : str
    is_shifted : bool
    items : int
    most_own : int
    leads : bool
    """

    generator: str
    variate: str
    is_shifted: bool
    items: int
    most_own: int
    leads: bool = False


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PlaceSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Place(spec).build()


class _Place:
    """The kernel while it is built."""

    def __init__(self, spec: PlaceSpec) -> None:
        self.spec, self.variate = spec, VARIATES[spec.variate]
        self.k = k = Builder("random_place", block=BLOCK, min_blocks=BLOCKS_PER_SM)
        self.pieces = self.variate.pieces
        self.out = k.pointer("out", self.variate.type, "w")
        self.bits = k.pointer("bits", u32, "r")
        self.counts, self.groups = k.pointer("counts", u32, "r"), k.pointer("groups", u64, "r")
        self.has_slow = self.variate.slow is not None
        if self.has_slow:
            self.num_own, self.own = k.pointer("num_own", u32, "r"), k.pointer("own", u64, "r")
        self.result = k.pointer("result", i64, "w")
        self.words = words_of(
            k, spec.generator, self.pieces, spec.items, is_shifted=spec.is_shifted, is_apart=spec.leads
        )
        self.table = k.pointer("table", u64, "r") if self.variate.has_table else None
        self.parameters = tuple(k.scalar(f"parameter{i}", t) for i, t in enumerate(self.variate.parameters))
        self.size = k.scalar("size", i64)
        self.lead = k.scalar("lead", u32) if spec.leads else None
        self.widths = k.shared(u64, 2 * STRIPS) if self.variate.widths is not None else None
        # Bits of a row, and the number of those before it
        self.width = 2 * self.pieces
        self.rows = k.shared(u32, (BLOCK, self.width))
        self.totals, self.sums = k.shared(u32, NUM_WARPS), k.shared(u64, NUM_WARPS)
        self.lane, self.warp = k.lane, k.tid >> 5
        self.tile: Value = k.ctaid
        self.row_words = NUM_WARPS * spec.items * self.pieces

    def build(self) -> Kernel:
        k = self.k
        # All that comes from global memory is asked for before the first barrier.
        self.words.open(self.tile)
        walk = self.words.walk()
        bits = self.load_bits()
        if self.widths is not None and self.table is not None:
            assert self.variate.widths is not None
            for number, width in enumerate(self.variate.widths(k, self.table[k.tid + STRIPS])):
                self.widths.at(number * STRIPS + k.tid).view(width.type)[0] = width
        start = self.sum_before()
        left = self.size - start
        with k.when(left > 0):
            total = self.count_rows(bits)
            limit = k.cast(k.min(left, k.cast(total, i64)), u32)
            with k.when(limit < total):
                self.cut(limit)
            k.barrier()
            self.store(self.out.at(start), walk)
            if self.has_slow:
                k.barrier()
                self.store_own(self.out.at(start), limit)
            with k.when(left <= k.cast(total, i64)):
                self.say_end(limit)
        return k.build()

    def sum_before(self) -> Value:
        """How many variates the tiles before this one give, i64."""
        k, tid, tile = self.k, self.k.tid, self.tile
        group = tile / GROUP
        own = k.var(0, u64)
        other = group * GROUP + tid
        with k.when(other < tile):
            own.set(k.cast(self.counts[other], u64))
        with k.range(tid, group, BLOCK) as before:
            own.set(own + self.groups[before])
        total = own.get()
        for distance in (16, 8, 4, 2, 1):
            total = total + k.shfl_bfly(total, distance)
        with k.when(self.lane == 0):
            self.sums[self.warp] = total
        k.barrier()
        result = self.sums[0]
        for number in range(1, NUM_WARPS):
            result = result + self.sums[number]
        return k.cast(result, i64)

    def load_bits(self) -> list[Var]:
        """The bits of the thread's row."""
        k, tid = self.k, self.k.tid
        each = [k.var(0, u32) for _ in range(self.pieces)]
        with k.when(tid < NUM_WARPS * self.spec.items):
            at = k.cast(self.tile, i64) * self.row_words + k.cast(tid, i64) * self.pieces
            for word, found in zip(each, self.bits.load(at, self.pieces), strict=True):
                word.set(found)
        return each

    def count_rows(self, each: list[Var]) -> Value:
        """Leave the bits of rows and how many come before; return the number of all."""
        k, tid = self.k, self.k.tid
        count = k.popc(each[0])
        for word in each[1:]:
            count = count + k.popc(word)
        place, total = exclusive_in_block(k, self.totals, count)
        padding = [k.const(0, u32)] * (self.pieces - 1)
        self.rows.store((tid, 0), [*[word.get() for word in each], place, *padding])
        return total

    def cut(self, limit: Value) -> None:
        """Clear the bits beyond a number of results, in the thread's row."""
        k = self.k
        *bits, place = self.rows.load((k.tid, 0), self.width)[: self.pieces + 1]
        before, left = k.var(place), [k.var(each) for each in bits]
        with k.range(k.const(0, u32), WARP) as lane:
            for each in left:
                bit = (each >> lane) & 1
                with k.when(before >= limit):
                    each.set(each & ~(bit << lane))
                before.set(before + bit)
        for piece, each in enumerate(left):
            self.rows[k.tid, piece] = each.get()

    def store(self, target: Pointer, walk: SourceWalk) -> None:
        """Store the values of first pieces."""
        k, spec = self.k, self.spec
        lane_bit = k.const(1, u32) << self.lane
        per_turn = unrolled(spec.items)
        row = k.var(self.warp)
        lanes = lane_bit, lane_bit - 1
        with k.range(spec.items // per_turn) as turn:
            rows = self.rows.at((row.get(), 0))
            is_first = (turn == 0) & (k.tid == 0) if spec.is_shifted else None
            for item, word in enumerate(walk.following(per_turn, is_first)):
                self.store_word(target, word, rows.at(NUM_WARPS * self.width * item), lanes)
            row.set(row + NUM_WARPS * per_turn)

    def store_word(self, target: Pointer, word: tuple[Value, Value], row: Pointer, lanes: tuple[Value, Value]) -> None:
        """Store what a word gives; `lanes` are the bits of the thread's lane and of those before it."""
        k, variate = self.k, self.variate
        lane_bit, below = lanes
        *bits, rank = row.load(0, self.width)[: self.pieces + 1]
        for each in bits:
            rank = rank + k.popc(each & below)
        for piece, halves in enumerate(pieces_of(word, self.pieces)):
            gives = (bits[piece] & lane_bit) != 0
            if variate.value is not None:
                value = variate.value(k, halves, self.widths)
            else:
                value = variate.begin(k, halves, self.parameters).value
            with k.when(gives):
                target[rank] = value
            if piece + 1 < self.pieces:
                rank = rank + k.cast(gives, u32)

    def rank_of(self, position: Value) -> Value:
        """How many results of the tile come before a position."""
        k = self.k
        word = position / self.pieces if self.pieces > 1 else position
        piece = position % self.pieces if self.pieces > 1 else k.const(0, u32)
        *bits, rank = self.rows.load((word >> 5, 0), self.width)[: self.pieces + 1]
        below = (k.const(1, u32) << (word & 31)) - 1
        for other, each in enumerate(bits):
            mask = below + k.where(piece > other, below + 1, k.const(0, u32))
            rank = rank + k.popc(each & mask)
        return rank

    def store_own(self, target: Pointer, limit: Value) -> None:
        """Store values that are not those of the first piece over these."""
        k = self.k
        with k.range(k.tid, self.num_own[self.tile], BLOCK) as number:
            place, value = self.own.load(self.own_at(number), 2)
            rank = self.rank_of(k.unpack(place)[0])
            with k.when(rank < limit):
                bits = value if self.variate.type.bits == 64 else k.cast(value, u32)
                target[rank] = bits if self.variate.type.kind == "u" else k.bitcast(bits, self.variate.type)

    def own_at(self, number: Value) -> Value:
        """Where `find` left a value."""
        k = self.k
        return (k.cast(self.tile, i64) * self.spec.most_own + k.cast(number, i64)) * 2

    def say_end(self, limit: Value) -> None:
        """Leave where the segment of the last variate ends; the thread that has its row does."""
        k = self.k
        *bits, place = self.rows.load((k.tid, 0), self.width)[: self.pieces + 1]
        target, before = limit - 1, k.var(place)
        with k.when((k.tid < NUM_WARPS * self.spec.items) & (place <= target)), k.range(k.const(0, u32), WARP) as lane:
            for piece, each in enumerate(bits):
                bit = (each >> lane) & 1
                with k.when((bit != 0) & (before == target)):
                    position = (k.tid * WARP + lane) * self.pieces + piece
                    start = k.cast(self.tile, i64) * (BLOCK * self.spec.items * self.pieces)
                    if self.lead is not None:
                        start = start - k.cast(self.lead, i64)
                    self.result[0] = start + k.cast(position + self.length_of(position), i64)
                before.set(before + bit)

    def length_of(self, position: Value) -> Value:
        """The length of a segment that gives a variate."""
        k = self.k
        if not self.has_slow:
            return k.const(1, u32)
        begun = self.variate.begin(k, self.words.reader(position + BLOCK * self.pieces).next(), self.table)
        assert begun.is_slow is not None
        length = k.var(k.where(begun.is_slow, k.const(2, u32), k.const(1, u32)))
        with k.range(self.num_own[self.tile]) as number:
            at, its_length = k.unpack(self.own.load(self.own_at(number), 1)[0])
            length.set(k.where(at == position, its_length, length))
        return length.get()


__all__ = ["PlaceSpec", "make"]
