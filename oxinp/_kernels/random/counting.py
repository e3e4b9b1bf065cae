"""The part of `segments` that counts: which positions of a tile give something, and what all tiles before it give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.random.lcg import GENERATORS, Increment
from oxinp._kernels.random.variates import STRIPS, VARIATES, Strips
from oxinp._ptx import Builder
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import f64, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK = 256
WARP = 32
NUM_WARPS = BLOCK // WARP
COUNTED, SUMMED = 1, 2  # states of a tile's count, above 62 bits: its own, and with all before it
COUNT_BITS = 62
ALL = 0xFFFFFFFF


class SegmentsSpec(Frozen):
    """The kernel of variates.

    Attributes
    ----------
    generator : str
        A key of `lcg.GENERATORS`.
    variate : str
        A key of `variates.VARIATES`.
    is_shifted : bool
        The first half word is given.
    items : int
        Words of a thread in a tile.
    capacity : int
        Of the list of slow segments: one that is too long makes the draw fail, with the status that says so.
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


class Counting:
    """The part of the kernel that knows which positions give something, and finds out where that goes."""

    def __init__(self, spec: SegmentsSpec) -> None:
        self.spec = spec
        self.lcg, self.variate = GENERATORS[spec.generator], VARIATES[spec.variate]
        # Left to itself, ptxas spills for sm_90.
        self.k = k = Builder("random_segments", block=BLOCK, min_blocks=None if self.variate.slow is None else 3)
        self.out = k.pointer("out", self.variate.type, "w")
        self.states = k.pointer("states", u64, "r")
        self.counts, self.reaches = k.pointer("counts", u64), k.pointer("reaches", u32)
        self.control, self.result = k.pointer("control", u32), k.pointer("result", i64)
        self.increment = Increment(k, self.lcg)
        self.given = k.scalar("given", u32) if spec.is_shifted else None
        table = k.pointer("table", u64, "r") if self.variate.has_table else None
        self.parameters: Any = tuple(k.scalar(f"parameter{i}", t) for i, t in enumerate(self.variate.parameters))
        self.size, self.num_tiles = k.scalar("size", i64), k.scalar("num_tiles", u32)
        self.pieces, self.rows = self.variate.pieces, spec.items * NUM_WARPS
        self.turn = k.shared(u32, 2)  # the tile; how many segments are listed
        self.emits = k.shared(u32, (self.rows, self.pieces))
        self.places = k.shared(u32, self.rows)
        self.base = k.shared(i64, 1)
        self.has_slow = self.variate.slow is not None
        if self.has_slow:
            self.listed = k.shared(u64, (spec.capacity, 2))
            self.listed_at = k.shared(u32, spec.capacity)
            # In order: where segments start, and how far they reach; see `end`.
            self.ends = k.shared(u32, (spec.capacity, 2))
        if table is not None:
            word = u64 if self.variate.type is f64 else u32
            edges = k.shared(word, 2 * STRIPS)
            for i in range(0, 2 * STRIPS, BLOCK):
                edges[k.tid + i] = k.cast(table[k.tid + i], word)
            self.parameters = Strips(edges, table.at(2 * STRIPS))
        self.lane, self.warp = k.lane, k.tid >> 5

    def pieces_of(self, low: Value, high: Value) -> list[tuple[Value, ...]]:
        """The pieces of a word, in order."""
        if self.pieces == 1:
            return [(low, high)]
        bits = 64 // self.pieces
        each = [(half >> shift if shift else half) for half in (low, high) for shift in range(0, 32, bits)]
        return [(part,) if bits == 32 else (part & ((1 << bits) - 1),) for part in each]

    def place_of(self, at: Value) -> tuple[Value, Value, Value]:
        """Row, piece and lane of a position."""
        word = at / self.pieces if self.pieces > 1 else at
        piece = at % self.pieces if self.pieces > 1 else self.k.const(0, u32)
        return word >> 5, piece, word & 31

    def clear(self, at: Value) -> None:
        """Let a position give nothing."""
        row, piece, lane = self.place_of(at)
        self.emits.atomic("and", (row, piece), ~(self.k.const(1, u32) << lane), order="relaxed.cta")

    def fail(self, status: int) -> None:
        """Leave a status that says that the result is not valid."""
        self.result.atomic("max", 1, self.k.const(status, i64))

    def count(self, tile: Value) -> None:
        """Count what a tile gives, and find out what those before it give; the first warp does."""
        k = self.k
        per_lane = -(-self.rows // WARP)
        rows = [self.lane * per_lane + i for i in range(per_lane)]
        has_rows = self.lane < self.rows // per_lane
        counts = []
        for row in rows:
            words = self.emits.load((k.where(has_rows, row, k.const(0, u32)), 0), self.pieces)
            total = k.popc(words[0])
            for word in words[1:]:
                total = total + k.popc(word)
            counts.append(k.where(has_rows, total, k.const(0, u32)))
        own = counts[0]
        for each in counts[1:]:
            own = own + each
        through = own
        for distance in (1, 2, 4, 8, 16):
            other = k.shfl_up(through, distance)
            through = k.where(self.lane >= distance, through + other, through)
        place = through - own
        for row, each in zip(rows, counts, strict=True):
            with k.when(has_rows):
                self.places[row] = place
            place = place + each
        total = k.cast(k.shfl_idx(through, WARP - 1), u64)
        self.look_back(tile, total)

    def look_back(self, tile: Value, total: Value) -> None:
        """Publish a count, and leave the sum of those before it."""
        k = self.k
        summed = k.const(SUMMED << COUNT_BITS, u64)
        before = k.var(0, u64)
        with k.when(tile > 0):
            with k.when(self.lane == 0):
                self.counts.store(tile, [total | (COUNTED << COUNT_BITS)], order="relaxed.gpu")
            last = k.var(tile)  # the tile after those that are looked at
            with k.loop():
                is_there = self.lane < last
                at = k.where(is_there, last - 1 - self.lane, k.const(0, u32))
                word = k.var(0, u64)
                with k.loop():
                    word.set(self.counts.load(at, order="relaxed.gpu")[0])
                    k.break_if((word >> COUNT_BITS) != 0)
                k.warp_sync()
                value = k.where(is_there, word, summed)
                sums = k.ballot(value >= summed)
                # Lanes up to the first one whose count holds all before it
                nearest = k.where(sums == 0, k.const(WARP, u32), k.bfind(sums & (k.const(0, u32) - sums)))
                part = k.where(self.lane <= nearest, value & ((1 << COUNT_BITS) - 1), k.const(0, u64))
                for distance in (16, 8, 4, 2, 1):
                    part = part + k.shfl_bfly(part, distance)
                before.set(before + part)
                k.break_if(sums != 0)
                last.set(last - WARP)
        with k.when(self.lane == 0):
            self.counts.store(tile, [(before + total) | summed], order="relaxed.gpu")
            self.base[0] = k.cast(before, i64)


__all__ = ["ALL", "BLOCK", "NUM_WARPS", "WARP", "Counting", "SegmentsSpec"]
