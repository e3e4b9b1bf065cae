"""Which positions of a tile of a stream give a variate, and their values: what a block does before it knows the others.

Data layout, in shared memory: the values of first pieces in the order of the stream, and a bit for every position;
32 words of the stream are a row. Who owns what: a block has a tile; thread t owns words t, t + BLOCK, ... of it, so
that a warp has rows, whose predicates are a ballot.

Algorithm: every word is made and looked at as if a segment (see `variates`) started there. Where all are one position
long, that is all. Otherwise what may be slow, of f64 by the upper bits of the mantissa alone, is a candidate: one or
two in a hundred. Candidates are listed in order, by counts of bits, and ended by as many threads at once; tails, of
which a tile has one or two, meanwhile by the last warp, as their logarithms would keep the others waiting. A candidate
that no earlier one reaches starts a segment whatever came before it (it leads); its thread goes on through those that
follow as far as they overlap. What starts clears the bits of the positions that it covers, and its own if it gives
nothing.

Tiles depend on nothing but their states: a tile looks at the `WINDOW` positions before it as well, half of which are
more than a segment's length, so that what leads is known from there on; where an overlap goes through all of the other
half, or a segment is longer than that, the status says so, of which the chance is as good as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.random.lcg import Wide, multiply_add
from oxinp._kernels.random.variates import STRIPS, Outcome
from oxinp._kernels.random.variates import tops as tops_of
from oxinp._kernels.random.words import BLOCK, Words
from oxinp._ptx import Builder
from oxinp._ptx.types import i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.random.variates import Variate
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

WARP = 32
NUM_WARPS = BLOCK // WARP
ALL = 0xFFFFFFFF
WINDOW = 64  # positions before a tile
MAX_LENGTH = WINDOW // 2  # of a segment
MOST_UNROLLED = 8
NEARLY = 0.999
REJECTED, OWN = 1 << 31, 1 << 30  # bits beside a listed position
POSITION = OWN - 1
# What a status says.
LIST_IS_FULL, SEGMENT_IS_LONG, WINDOW_IS_SHORT = 1, 2, 3


def unrolled(items: int) -> int:
    """Return how many of the words of a thread are made in one turn of a loop."""
    return max(n for n in range(1, MOST_UNROLLED + 1) if items % n == 0)


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
    held, none = totals[lane & (NUM_WARPS - 1)], k.const(0, u32)
    before = k.redux("add", k.where(lane < warp, held, none))
    total = k.redux("add", k.where(lane < NUM_WARPS, held, none))
    return through - count + before, total


class Finder:
    """What a block finds in a tile.

    Parameters
    ----------
    k : Builder
    words : Words
        Of the tile.
    variate : Variate
    items : int
        Words of a thread in a tile, fewer than 32.
    capacity : int
        Of the list of candidates; 0 where no segment is slow.
    given : tuple
        The pointer to the ziggurat's table, or None, then the parameters of the variate.

    Attributes
    ----------
    rows : Pointer
        Of a row, the bits of its positions, piece by piece, then room for as many words; first those of the `BLOCK`
        words before the tile.
    drawn : Pointer
        Values, by position in the tile; those of the `WINDOW` positions before it come before.
    """

    def __init__(
        self, k: Builder, words: Words, variate: Variate, items: int, capacity: int, given: tuple[Any, ...]
    ) -> None:
        self.k, self.words, self.variate, self.items, self.capacity = k, words, variate, items, capacity
        self.pieces, self.has_slow = variate.pieces, variate.slow is not None
        self.table, *self.parameters = given
        self.drawn = k.dynamic_shared(variate.type, WINDOW + BLOCK * items * self.pieces).at(WINDOW)
        self.tops = k.dynamic_shared(u32, STRIPS) if variate.has_table else None
        self.widths = k.dynamic_shared(u64, 2 * STRIPS) if variate.widths is not None else None
        self.rows = k.dynamic_shared(u32, (NUM_WARPS + BLOCK, 2 * self.pieces))
        self.totals, self.shared_counts = k.dynamic_shared(u32, NUM_WARPS), k.dynamic_shared(u32, 2)  # listed, tails
        if self.has_slow:
            self.listed = k.dynamic_shared(u32, capacity)
            # Where candidates are, with what is known of them, and how far they reach
            self.ends = k.dynamic_shared(u32, (capacity, 2))
            self.values = k.dynamic_shared(variate.type, capacity)
        if variate.tail is not None:
            self.tails = k.dynamic_shared(u32, capacity)
        self.lane, self.warp = k.lane, k.tid >> 5
        self.before = BLOCK * self.pieces  # positions that are numbered before the tile

    def prepare(self) -> None:
        """Copy tables to shared memory; a barrier has to follow."""
        k, tid = self.k, self.k.tid
        if self.tops is not None:
            self.tops[tid] = k.table(tops_of(self.variate.name))[tid]
        if self.widths is not None:
            assert self.variate.widths is not None
            for number, width in enumerate(self.variate.widths(k, self.table[tid + STRIPS])):
                self.widths.at(number * STRIPS + tid).view(width.type)[0] = width

    def find(self, result: Pointer) -> None:
        """Leave bits and values of the tile that the words are of; ends with a barrier."""
        k, tid = self.k, self.k.tid
        self.tile, self.result = self.words.tile, result
        with k.when(tid < 2):
            self.shared_counts[tid] = k.const(0, u32)
        self.look(self.words.first(0))
        k.barrier()
        if not self.has_slow:
            return
        count = self.list_candidates()
        k.barrier()
        with k.range(tid, count, BLOCK) as number:
            self.end(number)
        if self.variate.tail is not None:
            with k.range(BLOCK - 1 - tid, self.shared_counts[1], BLOCK) as place:
                self.end_tail(self.tails[place])
        k.barrier()
        with k.range(tid, count, BLOCK) as number:
            self.lead(number, count)
        k.barrier()

    def fail(self, status: int) -> None:
        """Leave a status that says that the result is not valid."""
        self.result.atomic("max", 1, self.k.const(status, i64))

    # -- candidates

    def look(self, first: Wide) -> None:
        """Leave values, and the bits of candidates; `first` is the state of the thread's word before the tile."""
        k, words = self.k, self.words
        low, high = k.var(first.low), k.var(first.high)
        by, plus = words.stride()
        if self.has_slow:
            is_in_window = self.warp >= NUM_WARPS - WINDOW // self.pieces // WARP
            with k.when(is_in_window):
                judged = [self.judge(piece) for piece in self.pieces_at(Wide(low.get(), high.get()))]
                self.drawn.at(-self.before).store(k.tid * self.pieces, [value for _, value in judged])
                self.leave_row(self.rows.at((self.warp, 0)), [found for found, _ in judged])
            with k.otherwise(), k.when(self.lane == 0):
                self.rows.store((self.warp, 0), [k.const(0, u32)] * self.pieces)
        per_turn = unrolled(self.items)
        row, place = k.var(self.warp + NUM_WARPS), k.var(k.tid * self.pieces)
        with k.range(self.items // per_turn) as turn:
            rows, drawn = self.rows.at((row.get(), 0)), self.drawn.at(place.get())
            for item in range(per_turn):
                following = multiply_add(k, Wide(low.get(), high.get()), by, plus)
                low.set(following.low)
                high.set(following.high)
                is_first = (turn == 0) & (k.tid == 0) if item == 0 and words.given is not None else None
                judged = [self.judge(piece) for piece in self.pieces_at(following, is_first)]
                drawn.store(BLOCK * self.pieces * item, [value for _, value in judged])
                found = [each for each, _ in judged]
                if is_first is not None and not self.has_slow:
                    is_there = ~((self.tile == 0) & is_first)
                    half = self.pieces // 2
                    found = [*(each & is_there for each in found[:half]), *found[half:]]
                self.leave_row(rows.at(NUM_WARPS * 2 * self.pieces * item), found)
            row.set(row + NUM_WARPS * per_turn)
            place.set(place + BLOCK * self.pieces * per_turn)

    def pieces_at(self, state: Wide, is_first: Value | None = None) -> list[tuple[Value, ...]]:
        """The pieces of the word that is made of a state."""
        return self.words.pieces_of(self.words.output(state, is_first))

    def judge(self, piece: tuple[Value, ...]) -> tuple[Value, Value]:
        """Whether a piece is a candidate, or where none is slow gives a variate; and its value."""
        variate = self.variate
        if not self.has_slow:
            begun = variate.begin(self.k, piece, self.parameters)
            return begun.is_done, begun.value
        assert variate.is_candidate is not None
        assert variate.value is not None
        return variate.is_candidate(self.k, piece, self.tops), variate.value(self.k, piece, self.widths)

    def leave_row(self, row: Pointer, found: list[Value]) -> None:
        """Leave the bits of a row."""
        bits = [self.k.ballot(each) for each in found]
        with self.k.when(self.lane == 0):
            row.store(0, bits)

    def list_candidates(self) -> Value:
        """List candidates in order, let the bits say that all positions give something; return how many there are."""
        k, tid = self.k, self.k.tid
        has_row = tid < NUM_WARPS * (self.items + 1)
        each = [k.var(0, u32) for _ in range(self.pieces)]
        with k.when(has_row):
            for word, found in zip(each, self.rows.load((tid, 0), self.pieces), strict=True):
                word.set(found)
            self.rows.store((tid, 0), [k.const(ALL, u32)] * self.pieces)
        # Before the first tile there is nothing, nor in the lower half of its first word where that is shifted.
        with k.when(self.tile == 0):
            for piece, word in enumerate(each):
                word.set(k.where(tid < NUM_WARPS, k.const(0, u32), word))
                if self.words.given is not None and piece < self.pieces // 2:
                    is_first = tid == NUM_WARPS
                    word.set(k.where(is_first, word & (ALL - 1), word))
                    with k.when(is_first):
                        self.rows[tid, piece] = k.const(ALL - 1, u32)
        own = k.popc(each[0])
        for word in each[1:]:
            own = own + k.popc(word)
        place, total = exclusive_in_block(k, self.totals, own)
        count = k.min(total, self.capacity)
        with k.when(tid == 0):
            self.shared_counts[0] = count
            with k.when(total > self.capacity):
                self.fail(LIST_IS_FULL)
        at = k.var(place)
        with k.loop():
            joined = each[0].get()
            for word in each[1:]:
                joined = joined | word
            k.break_if((joined == 0) | (at >= self.capacity))
            bit = joined & (k.const(0, u32) - joined)
            position = (tid * WARP + k.bfind(bit)) * self.pieces
            for piece, word in enumerate(each):
                with k.when(((word & bit) != 0) & (at < self.capacity)):
                    self.listed[at] = position + piece
                    self.list_tail(at.get(), position + piece)
                    at.set(at + 1)
                word.set(word & ~bit)
        return count

    def list_tail(self, number: Value, position: Value) -> None:
        """List a candidate that may be a tail."""
        if self.variate.tail is None:
            return
        k = self.k
        with k.when(k.abs(self.drawn.at(-self.before)[position]) >= self.variate.radius * NEARLY):
            place = self.shared_counts.atomic("add", 1, k.const(1, u32), order="relaxed.cta")
            self.tails[place] = number

    # -- segments

    def end(self, number: Value) -> None:
        """End the segment of a candidate, unless it is a tail."""
        k, variate = self.k, self.variate
        assert variate.slow is not None
        reader = self.words.reader(self.listed[number])
        piece = reader.next()
        is_slow, is_tail = self.kind_of(piece)
        outcome = self.outcome()
        with k.when(is_slow):
            variate.slow(k, piece, reader.next, self.table, outcome)
        if is_tail is None:
            self.keep(number, outcome)
            return
        with k.when(~is_tail):
            self.keep(number, outcome)

    def end_tail(self, number: Value) -> None:
        """End the segment of a candidate if it is a tail."""
        assert self.variate.tail is not None
        reader = self.words.reader(self.listed[number])
        piece = reader.next()
        _, is_tail = self.kind_of(piece)
        outcome = self.outcome()
        outcome.is_own.set(1)
        assert is_tail is not None
        with self.k.when(is_tail):
            self.variate.tail(self.k, piece, reader.next, outcome)
            self.keep(number, outcome)

    def kind_of(self, piece: tuple[Value, ...]) -> tuple[Value, Value | None]:
        """Whether a segment is slow and no tail, and whether it is a tail, where there are some."""
        begun = self.variate.begin(self.k, piece, self.table)
        assert begun.is_slow is not None
        if self.variate.is_tail is None:
            return begun.is_slow, None
        is_tail = begun.is_slow & self.variate.is_tail(self.k, piece)
        return begun.is_slow & ~is_tail, is_tail

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
        k = self.k
        position = word & POSITION
        with k.range(position + (1 - (word >> 31)), k.min(end, self.before + BLOCK * self.items * self.pieces)) as at:
            self.clear(at)
        with k.when(((word & OWN) != 0) & (position >= self.before)):
            self.drawn[position - self.before] = self.values[number.get()]

    def clear(self, position: Value) -> None:
        """Let a position give nothing."""
        word = position / self.pieces if self.pieces > 1 else position
        piece = position % self.pieces if self.pieces > 1 else self.k.const(0, u32)
        mask = ~(self.k.const(1, u32) << (word & 31))
        self.rows.atomic("and", (word >> 5, piece), mask, order="relaxed.cta")

    def length_of(self, position: Value) -> Value:
        """The length of the segment that starts at a position, which is numbered from the tile's beginning."""
        k = self.k
        length = k.var(1, u32)
        if self.has_slow:
            with k.range(self.shared_counts[0]) as number:
                word, end = self.ends.load((number, 0), 2)
                at = word & POSITION
                length.set(k.where(at == position + self.before, end - at, length))
        return length.get()


__all__ = ["ALL", "NUM_WARPS", "WARP", "Finder", "exclusive_in_block", "unrolled"]
