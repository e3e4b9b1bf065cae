"""The first of two kernels that draw variates: which positions of a tile give a variate, and how many do.

Data layout: a tile's positions are bits of words, 32 words of the stream (a row) a piece; tiles are joined in groups,
of which the counts are added up. Who owns what: a block has a tile; thread t owns words t, t + BLOCK, ... of it, so
that a warp has rows, whose predicates are a ballot.

Algorithm: every word is made and looked at as if a segment (see `variates`) started there. Where all are one position
long, that is all. Otherwise what may be slow, of f64 by the upper bits of the mantissa alone, is a candidate: one or
two in a hundred. Candidates are listed in order, by counts of bits, and ended by as many threads at once; tails, of
which a tile has two or three, after the others, as their logarithms would keep most warps waiting. A candidate that no
earlier one reaches starts a segment whatever came before it (it leads); its thread goes on through those that follow as
far as they overlap. What starts clears the bits of the positions that it covers, and its own if it gives nothing.

Tiles depend on nothing but their states: a tile looks at the `WINDOW` positions before it as well, half of which are
more than a segment's length, so that what leads is known from there on; where an overlap goes through all of the other
half, or a segment is longer than that, the status says so, of which the chance is as good as none. No block waits for
another.

Bytes per position: 1/8, written. Instructions per word of f64 (SASS): 14 for the state, 8 for the word, 6 for the
candidate; for the rest of a tile, divided by its words, 4 before the words, 5 for the list, 8 for the ends of segments
and 4 for what they cover.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.philox import VARIANTS
from oxinp._kernels.random.sources import words_of
from oxinp._kernels.random.variates import STRIPS, VARIATES, Outcome
from oxinp._kernels.random.variates import tops as tops_of
from oxinp._kernels.random.words import BLOCK, pieces_of
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.random.sources import SourceWalk
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

WARP = 32
NUM_WARPS = BLOCK // WARP
ALL = 0xFFFFFFFF
WINDOW = 64  # positions before a tile
MAX_LENGTH = WINDOW // 2  # of a segment
GROUP = 256  # tiles whose counts are added up
MOST_UNROLLED = 8
BLOCKS_PER_SM = 4
FEWER_PER_SM = {("PCG64DXSM", "normal_f32"): 3}  # which does not fit 64 registers
REJECTED, OWN = 1 << 31, 1 << 30  # bits beside a listed position
POSITION = OWN - 1
# What a status says.
LIST_IS_FULL, SEGMENT_IS_LONG, WINDOW_IS_SHORT, OWN_IS_FULL = 1, 2, 3, 4


class FindSpec(Frozen):
    """The kernel that finds variates.

    Attributes
    ----------
    generator : str
        See `sources.words_of`.
    variate : str
        A key of `variates.VARIATES`.
    is_shifted : bool
        The first half word is given.
    items : int
        Words of a thread in a tile, fewer than 32.
    capacity : int
        Of the list of candidates; 0 where no segment is slow.
    log1p : str
        What form of it tails go through, see `libm_log1p`; empty where there are none.
    """

    generator: str
    variate: str
    is_shifted: bool
    items: int
    capacity: int
    log1p: str = ""

    @property
    def pieces(self) -> int:
        """Positions of a word."""
        return VARIATES[self.variate].pieces

    @property
    def positions(self) -> int:
        """Positions of a tile."""
        return BLOCK * self.items * self.pieces

    @property
    def row_words(self) -> int:
        """Words of bits of a tile."""
        return NUM_WARPS * self.items * self.pieces

    @property
    def leads(self) -> bool:
        """Whether the first tile begins some positions before the draw does, where a block of the generator does."""
        return self.generator in VARIANTS

    @property
    def most_own(self) -> int:
        """Variates of a tile whose value is not that of the first piece."""
        return self.capacity // 8


def unrolled(items: int, rows: int = 1) -> int:
    """Return how many of the words of a thread are made in one turn of a loop, some of them at once."""
    return max(n for n in range(rows, MOST_UNROLLED + 1, rows) if items % n == 0)


def exclusive_in_block(k: Builder, totals: Any, count: Value) -> tuple[Value, Value]:
    """The sum of counts of the threads before this one, and of all; `totals` is a word of shared memory per warp."""
    lane, warp = k.lane, k.tid >> 5
    through = count
    for distance in (1, 2, 4, 8, 16):
        other = k.shfl_up(through, distance)
        through = k.where(lane >= distance, through + other, through)
    with k.when(lane == WARP - 1):
        totals[warp] = through
    k.barrier()
    before, total = k.var(through - count), k.var(0, u32)
    for number in range(NUM_WARPS):
        each = totals[number]
        before.set(before + k.where(warp > number, each, k.const(0, u32)))
        total.set(total + each)
    return before.get(), total.get()


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: FindSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Find(spec).build()


class _Find:
    """The kernel while it is built."""

    def __init__(self, spec: FindSpec) -> None:
        self.spec, self.variate, self.pieces = spec, VARIATES[spec.variate], spec.pieces
        min_blocks = FEWER_PER_SM.get((spec.generator, spec.variate), BLOCKS_PER_SM)
        self.k = k = Builder("random_find", block=BLOCK, min_blocks=min_blocks)
        self.bits = k.pointer("bits", u32, "w")
        self.counts, self.groups = k.pointer("counts", u32, "w"), k.pointer("groups", u64)
        self.has_slow = self.variate.slow is not None
        if self.has_slow:
            self.num_own, self.own = k.pointer("num_own", u32, "w"), k.pointer("own", u64, "w")
        self.result = k.pointer("result", i64)
        self.words = words_of(k, spec.generator, self.pieces, spec.items, is_shifted=spec.is_shifted)
        self.table = k.pointer("table", u64, "r") if self.variate.has_table else None
        self.parameters = tuple(k.scalar(f"parameter{i}", t) for i, t in enumerate(self.variate.parameters))
        self.skipped = k.scalar("lead", u32) if spec.leads else None
        self.tops = k.shared(u32, STRIPS) if self.variate.has_table else None
        self.rows = k.shared(u32, (BLOCK, self.pieces))
        self.shared_counts = k.shared(u32, 4)  # own values, variates, tails
        if self.has_slow:
            self.totals, self.listed = k.shared(u32, NUM_WARPS), k.shared(u32, spec.capacity)
            # Where candidates are, with what is known of them, and how far they reach
            self.ends = k.shared(u32, (spec.capacity, 2))
            self.values = k.shared(self.variate.type, spec.capacity)
        if self.variate.tail is not None:
            self.tails = k.shared(u32, spec.capacity)
        self.lane, self.warp = k.lane, k.tid >> 5
        self.tile: Value = k.ctaid
        self.before = BLOCK * self.pieces  # positions that are numbered before the tile

    def build(self) -> Kernel:
        k, tid = self.k, self.k.tid
        if self.tops is not None:
            self.tops[tid] = k.table(tops_of(self.spec.variate))[tid]
        with k.when(tid < 4):
            self.shared_counts[tid] = k.const(0, u32)
        self.words.open(self.tile)
        walk = self.words.walk()
        k.barrier()
        self.look(walk)
        k.barrier()
        if self.has_slow:
            count = self.list_candidates()
            k.barrier()
            with k.range(tid, count, BLOCK) as number:
                self.end(number)
            k.barrier()
            if self.variate.tail is not None:
                with k.range(tid, self.shared_counts[2], BLOCK) as place:
                    self.end_tail(self.tails[place])
                k.barrier()
            with k.range(tid, count, BLOCK) as number:
                self.lead(number, count)
            k.barrier()
        self.leave()
        return k.build()

    def fail(self, status: int) -> None:
        """Leave a status that says that the result is not valid."""
        self.result.atomic("max", 1, self.k.const(status, i64))

    # -- candidates

    def look(self, walk: SourceWalk) -> None:
        """Leave the bits of candidates."""
        k, spec = self.k, self.spec
        rows = self.rows.at((self.warp, 0))
        if self.has_slow:
            is_in_window = self.warp >= NUM_WARPS - WINDOW // self.pieces // WARP
            self.look_at(walk.word(), rows, is_there=is_in_window)
        per_turn = unrolled(spec.items, self.words.rows)
        row = k.var(self.warp + NUM_WARPS)
        with k.range(spec.items // per_turn) as turn:
            rows = self.rows.at((row.get(), 0))
            is_first = (turn == 0) & (k.tid == 0) if spec.is_shifted else None
            for item, word in enumerate(walk.following(per_turn, is_first)):
                self.look_at(word, rows.at(NUM_WARPS * self.pieces * item), is_first=None if item else is_first)
            row.set(row + NUM_WARPS * per_turn)

    def look_at(
        self, word: tuple[Value, Value], row: Pointer, *, is_there: Value | None = None, is_first: Value | None = None
    ) -> None:
        """Leave the bits of a row: of candidates, or where none is slow of what gives a variate."""
        k, variate = self.k, self.variate
        each = []
        for number, piece in enumerate(pieces_of(word, self.pieces)):
            if self.has_slow:
                assert variate.is_candidate is not None
                found = variate.is_candidate(k, piece, self.tops)
            else:
                found = variate.begin(k, piece, self.parameters).is_done
                if is_first is not None and number < self.pieces // 2:
                    found = found & ~((self.tile == 0) & is_first)
            each.append(k.ballot(found if is_there is None else found & is_there))
        with k.when(self.lane == 0):
            row.store(0, each)

    def list_candidates(self) -> Value:
        """List candidates in order, let the bits say that all positions give something; return how many there are."""
        k, spec, tid = self.k, self.spec, self.k.tid
        has_row = tid < NUM_WARPS * (spec.items + 1)
        each = [k.var(0, u32) for _ in range(self.pieces)]
        with k.when(has_row):
            for word, found in zip(each, self.rows.load((tid, 0), self.pieces), strict=True):
                word.set(found)
            self.rows.store((tid, 0), [k.const(ALL, u32)] * self.pieces)
        # Before the first tile there is nothing, nor in the lower half of its first word where that is shifted.
        with k.when(self.tile == 0):
            for piece, word in enumerate(each):
                word.set(k.where(tid < NUM_WARPS, k.const(0, u32), word))
                if spec.is_shifted and piece < self.pieces // 2:
                    is_first = tid == NUM_WARPS
                    word.set(k.where(is_first, word & (ALL - 1), word))
                    with k.when(is_first):
                        self.rows[tid, piece] = k.const(ALL - 1, u32)
                if self.skipped is not None:
                    there = k.const(ALL, u32) << (self.skipped + (self.pieces - 1 - piece)) / self.pieces
                    with k.when(tid == NUM_WARPS):
                        word.set(word & there)
                        self.rows[tid, piece] = there
        own = k.popc(each[0])
        for word in each[1:]:
            own = own + k.popc(word)
        place, total = exclusive_in_block(k, self.totals, own)
        with k.when((total > spec.capacity) & (tid == 0)):
            self.fail(LIST_IS_FULL)
        at = k.var(place)
        with k.loop():
            joined = each[0].get()
            for word in each[1:]:
                joined = joined | word
            k.break_if((joined == 0) | (at >= spec.capacity))
            bit = joined & (k.const(0, u32) - joined)
            position = (tid * WARP + k.bfind(bit)) * self.pieces
            for piece, word in enumerate(each):
                with k.when(((word & bit) != 0) & (at < spec.capacity)):
                    self.listed[at] = position + piece
                    at.set(at + 1)
                word.set(word & ~bit)
        return k.min(total, spec.capacity)

    # -- segments

    def end(self, number: Value) -> None:
        """End the segment of a candidate."""
        k, variate = self.k, self.variate
        assert variate.slow is not None
        reader = self.words.reader(self.listed[number])
        piece = reader.next()
        begun = variate.begin(k, piece, self.table)
        assert begun.is_slow is not None
        is_slow = begun.is_slow
        if variate.tail is not None:
            assert variate.is_tail is not None
            is_tail = is_slow & variate.is_tail(k, piece)
            is_slow = is_slow & ~is_tail
            with k.when(is_tail):
                place = self.shared_counts.atomic("add", 2, k.const(1, u32), order="relaxed.cta")
                self.tails[place] = number
        outcome = self.outcome()
        with k.when(is_slow):
            variate.slow(k, piece, reader, self.table, outcome)
        self.keep(number, outcome)

    def end_tail(self, number: Value) -> None:
        """End the segment of a candidate that is a tail: few threads do so at a time, and not beside those of `end`."""
        assert self.variate.tail is not None
        reader = self.words.reader(self.listed[number])
        outcome = self.outcome()
        outcome.is_own.set(1)
        self.variate.tail(self.k, reader.next(), reader, outcome, self.spec.log1p)
        self.keep(number, outcome)

    def outcome(self) -> Outcome:
        """That of a segment of one piece that gives its value."""
        k = self.k
        one, zero = k.const(1, u32), k.const(0, u32)
        return Outcome(k.var(one), k.var(one), k.var(0, self.variate.type), k.var(zero))

    def keep(self, number: Value, outcome: Outcome) -> None:
        """Keep what the segment of a candidate came to."""
        k, position = self.k, self.listed[number]
        with k.when(outcome.length > MAX_LENGTH):
            self.fail(SEGMENT_IS_LONG)
        flags = k.where(outcome.is_accepted == 0, k.const(REJECTED, u32), outcome.is_own << 30)
        self.ends.store((number, 0), [position | flags, position + outcome.length])
        self.values[number] = outcome.value.get()

    def lead(self, number: Value, count: Value) -> None:
        """Where no earlier candidate reaches this one, go through those that overlap from it on."""
        k = self.k
        position = self.ends[number, 0] & POSITION
        leads, before = k.var(True, pred), k.var(number)
        with k.loop():
            k.break_if(before == 0)
            before.set(before - 1)
            word, end = self.ends.load((before, 0), 2)
            leads.set(leads & (end <= position))
            k.break_if((word & POSITION) + MAX_LENGTH <= position)
        with k.when(leads):
            is_unsure = (self.tile != 0) & (position < self.before - MAX_LENGTH)
            at, reach, farthest = k.var(number), k.var(0, u32), k.var(0, u32)
            with k.loop():
                word, end = self.ends.load((at, 0), 2)
                k.break_if((at != number) & ((word & POSITION) >= farthest))
                farthest.set(k.max(farthest, end))
                with k.when((word & POSITION) >= reach):
                    reach.set(end)
                    self.start(at, word, end)
                at.set(at + 1)
                k.break_if(at >= count)
            with k.when(is_unsure & (farthest > self.before)):
                self.fail(WINDOW_IS_SHORT)

    def start(self, number: Var, word: Value, end: Value) -> None:
        """Clear what a segment that starts covers, and leave its value where that is its own."""
        k, spec = self.k, self.spec
        position = word & POSITION
        with k.range(position + (1 - (word >> 31)), k.min(end, self.before + spec.positions)) as covered:
            self.clear(covered)
        with k.when(((word & OWN) != 0) & (position >= self.before)):
            place = self.shared_counts.atomic("add", 0, k.const(1, u32), order="relaxed.cta")
            with k.when(place < spec.most_own):
                value = k.bitcast(self.values[number], u64 if self.variate.type.bits == 64 else u32)
                place_and_length = k.pack(position - self.before, end - position)
                at = k.cast(self.tile, i64) * spec.most_own + k.cast(place, i64)
                self.own.store(at * 2, [place_and_length, k.cast(value, u64)])
            with k.otherwise():
                self.fail(OWN_IS_FULL)

    def clear(self, position: Value) -> None:
        """Let a position give nothing."""
        word = position / self.pieces if self.pieces > 1 else position
        piece = position % self.pieces if self.pieces > 1 else self.k.const(0, u32)
        mask = ~(self.k.const(1, u32) << (word & 31))
        self.rows.atomic("and", (word >> 5, piece), mask, order="relaxed.cta")

    # -- results

    def leave(self) -> None:
        """Leave bits and counts."""
        k, spec, tid, tile = self.k, self.spec, self.k.tid, self.tile
        total = k.var(0, u32)
        with k.when(tid < NUM_WARPS * spec.items):
            each = self.rows.load((tid + NUM_WARPS, 0), self.pieces)
            at = k.cast(tile, i64) * spec.row_words + k.cast(tid, i64) * self.pieces
            self.bits.store(at, each)
            for word in each:
                total.set(total + k.popc(word))
        in_warp = k.redux("add", total)
        with k.when(self.lane == 0):
            self.shared_counts.atomic("add", 1, in_warp, order="relaxed.cta")
        k.barrier()
        with k.when(tid == 0):
            num_own, count = self.shared_counts.load(0, 2)
            if self.has_slow:
                self.num_own[tile] = num_own
            self.counts[tile] = count
            self.groups.atomic("add", tile / GROUP, k.cast(count, u64))


__all__ = ["ALL", "BLOCK", "GROUP", "NUM_WARPS", "WARP", "FindSpec", "exclusive_in_block", "make", "unrolled"]
