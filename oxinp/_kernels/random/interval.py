"""Draws of a shuffle: for every i from n - 1 down to 1 a number up to i, by masked rejection of one stream of words.

NumPy's `random_interval` takes the next word, keeps as many bits as i has, and goes on to the next word while the
result is above i. Where a word is used depends on how many were accepted before it, but hardly: while i has `bits`
bits, the masked words are what they are, and a word is accepted where it is at most i. A path, i as a function of the
position in the stream, that starts higher by one stays so, or joins the lower one at the first word that lies between.

Data layout: words are contiguous, and so are the numbers, that of i at i - 1. A phase is the words while i has the same
bits; it is cut into segments of equal length, one per block. Three launches per phase: `find` follows in every segment
a path that starts below where i can be (8 standard deviations below what is expected), and leaves the distances of the
words that lie above the path, by less than i can; `walk` joins the segments, as a path that starts higher accepts one
of those words where the distance is at most its own; `draw` follows in every segment the path from where i is, and
stores. What is left below `TAIL_BITS` bits is drawn by one block.

A window is the words that a block has at a time: thread t of a warp has every 32nd word of the warp's. Which of them
are accepted is a fixed point: from a guess of how many were accepted before each, acceptance gives these counts anew
until nothing changes, which a prefix of the window at least one word longer has settled every time; three times are
usual. Bytes per number: 1.4 words read twice, 4 bytes written.

Source: NumPy's src/distributions/distributions.c, random_interval.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel, math
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, WARP, ITEMS = 256, 32, 4
NUM_WARPS = BLOCK // WARP
WINDOW = BLOCK * ITEMS
SIGMAS = 8  # of where i is
MARGIN = 8
TAIL_BITS = 17
WALK_ITEMS = 4
MOST_SEGMENTS = 1024
UNKNOWN = 0xFFFFFFFF  # a position that no launch has left
LEFT_RANGE, EVENTS_ARE_FULL = 1, 2  # what a status says


class IntervalSpec(Frozen):
    """A kernel of the family.

    Attributes
    ----------
    role : str
        ``"find"``, ``"walk"`` or ``"draw"``.
    """

    role: str


class Window:
    """What a block settles at a time: which of some words, `WINDOW` unless said, are accepted.

    Parameters
    ----------
    k : Builder
    num_warps : int
        Of the block.
    items : int
        Words of a thread.

    Attributes
    ----------
    indices : list of Value
        Of the thread's words in the window.
    """

    def __init__(self, k: Builder, num_warps: int = NUM_WARPS, items: int = ITEMS) -> None:
        self.k, self.num_warps = k, num_warps
        self.lane, self.warp = k.lane, k.tid >> 5
        self.indices = [self.warp * (WARP * items) + (self.lane + WARP * item) for item in range(items)]
        if num_warps > 1:
            self.totals = k.shared(u32, (2, num_warps))
            self.parity = k.var(0, u32)
        self.below = (k.const(1, u32) << self.lane) - 1

    def settle(
        self, accepts: Callable[[int, Value], Value], guess: Callable[[Value], Value]
    ) -> tuple[list[Value], list[Value], Value]:
        """Find which words are accepted; all threads call this.

        Parameters
        ----------
        accepts : callable
            ``accepts(item, rank)``: whether a word is accepted if so many before it in the window are, u32.
        guess : callable
            ``guess(index)``: how many are expected to be.

        Returns
        -------
        accepted : list of Value
        ranks : list of Value
            How many are before each, u32.
        total : Value
        """
        k = self.k
        ranks = [k.var(guess(index)) for index in self.indices]
        words = [k.var(0, u32) for _ in ranks]
        total, is_first = k.var(0, u32), k.var(1 << 31, u32)
        with k.loop():
            found = [k.ballot(accepts(item, rank.get())) for item, rank in enumerate(ranks)]
            changes = found[0] ^ words[0]
            for word, before in zip(found[1:], words[1:], strict=True):
                changes = changes | (word ^ before)
            for word, var in zip(found, words, strict=True):
                var.set(word)
            flag = k.where(changes != 0, k.const(1 << 31, u32), is_first.get())
            is_first.set(k.const(0, u32))
            sums = self._ranked(found, flag)
            for rank, value in zip(ranks, sums[0], strict=True):
                rank.set(value)
            total.set(sums[1] & 0x7FFFFFFF)
            k.break_if((sums[1] >> 31) == 0)
        lane_bit = self.below + 1
        return [(word.get() & lane_bit) != 0 for word in words], [rank.get() for rank in ranks], total.get()

    def ranked(self, flags: list[Value]) -> tuple[list[Value], Value]:
        """How many flags are set before each of the thread's, and how many in all; all threads call this."""
        return self._ranked([self.k.ballot(flag) for flag in flags], self.k.const(0, u32))

    def _ranked(self, words: list[Value], flag: Value) -> tuple[list[Value], Value]:
        """The same of ballots; the highest bit of the sum is set where any thread's flag is."""
        k = self.k
        counts = [k.popc(word) for word in words]
        in_warp = counts[0]
        for count in counts[1:]:
            in_warp = in_warp + count
        each = [in_warp | flag] if self.num_warps == 1 else self._shared(in_warp | flag)
        before, total, any_flag = k.const(0, u32), k.const(0, u32), k.const(0, u32)
        for number, value in enumerate(each):
            count = value & 0x7FFFFFFF
            before = before + k.where(self.warp > number, count, k.const(0, u32))
            total, any_flag = total + count, any_flag | value
        ranks = []
        for word, count in zip(words, counts, strict=True):
            ranks.append(before + k.popc(word & self.below))
            before = before + count
        return ranks, total | (any_flag & (1 << 31))

    def _shared(self, own: Value) -> list[Value]:
        """A word of every warp."""
        k = self.k
        with k.when(self.lane == 0):
            self.totals[self.parity, self.warp] = own
        k.barrier()
        each = [self.totals[self.parity, number] for number in range(self.num_warps)]
        self.parity.set(self.parity ^ 1)
        return each


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: IntervalSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return {"find": _find, "walk": _walk, "draw": _draw}[spec.role]()


def _share(k: Builder, i: Value, bits: Value) -> Callable[[Value], Value]:
    """How many of the first words of a window are accepted, as expected from i at its start."""
    share = k.cast(k.max(i, 1), u32) << (k.const(32, u32) - bits)
    return lambda index: k.mulhi(index, share)


class _Words:
    """The thread's words of one window after the other, those of the next on their way while one is settled."""

    def __init__(self, k: Builder, pieces: Pointer, window: Window, first: Value, limit: Value) -> None:
        self.k, self.pieces, self.window, self.limit = k, pieces, window, limit
        self._at = k.var(first)
        self._held = [k.var(0, u32) for _ in window.indices]
        self._load()

    def _load(self) -> None:
        for word, index in zip(self._held, self.window.indices, strict=True):
            word.set(self.pieces[self.k.min(self._at + index, self.limit - 1)])

    def next(self) -> tuple[list[Value], list[Value]]:
        """The words of a window, and which of them are there."""
        words = [word.get() for word in self._held]
        is_there = [self._at + index < self.limit for index in self.window.indices]
        self._at.set(self._at + WINDOW)
        self._load()
        return words, is_there


def _find() -> Kernel:
    """Follow a path below i through a segment, and leave the words that are above it by less than i can be."""
    k = Builder("interval_find", block=BLOCK)
    segments, events = k.pointer("segments", u32, "w"), k.pointer("events", u32, "w")
    status = k.pointer("status", u32, "w")
    pieces, start = k.pointer("pieces", u32, "r"), k.pointer("start", u32, "r")
    names = ("limit", "length", "capacity", "bits")
    limit, length, capacity, bits = (k.scalar(name, u32) for name in names)
    highest = k.scalar("highest", i32)
    window = Window(k)
    segment = k.ctaid
    passed = segment * length
    # Expected i + 1 falls by e in 2**bits words; its variance in units of these is a (e - e**2) - a**2 tau e**2.
    unit = k.bitcast(k.pack(k.const(0, u32), (k.const(1023, u32) - bits) << 20), f64)
    tau = k.cvt(passed, f64) * unit
    share = (k.cvt(highest, f64) + 1.0) * unit
    falls = math.exp(k, -tau)
    variance = k.max(share * falls * (1.0 - falls) - share * share * tau * falls * falls, 0.0) / unit
    spread = k.sqrt(variance) * float(SIGMAS)
    is_known = segment == 0  # where the path is i itself
    low = k.where(is_known, highest, k.cvt(share * falls / unit - spread, i32, "rzi") - MARGIN)
    width = k.where(is_known, k.const(0, i32), k.cvt(spread * 2.0, i32, "rzi") + 2 * MARGIN)
    first, mask = start[0] + passed, (k.const(1, u32) << bits) - 1
    own = events.at(k.cast(segment, i64) * k.cast(capacity, i64))
    i, num_events = k.var(low), k.var(0, u32)
    given = _Words(k, pieces, window, first, limit)
    with k.range(k.const(0, u32), length, WINDOW):
        words, is_there = given.next()
        values = [k.cast(word & mask, i32) for word in words]
        here = i.get()

        def accepts(item: int, rank: Value, *, values: Any = values, there: Any = is_there, i: Value = here) -> Value:
            accepted: Value = there[item] & (values[item] <= i - k.cast(rank, i32))
            return accepted

        _, ranks, total = window.settle(accepts, _share(k, here, bits))
        gaps = [value - (here - k.cast(rank, i32)) for value, rank in zip(values, ranks, strict=True)]
        lies = [each & (gap > 0) & (gap <= width) for each, gap in zip(is_there, gaps, strict=True)]
        places, more = window.ranked(lies)
        for gap, is_event, place in zip(gaps, lies, places, strict=True):
            to = num_events + place
            with k.when(is_event & (to < capacity)):
                own[to] = k.cast(gap, u32)
        i.set(here - k.cast(total, i32))
        num_events.set(num_events + more)
    with k.when(k.tid == 0):
        left = [low, width, i.get(), num_events.get()]
        segments.store(segment * 4, [word if word.type is u32 else k.cast(word, u32) for word in left])
        with k.when(num_events > capacity):
            status[0] = k.const(EVENTS_ARE_FULL, u32)
    return k.build()


def _walk() -> Kernel:
    """Find i at the start of every segment; one warp, which has asked for the events of the next two segments."""
    k = Builder("interval_walk", block=WARP)
    starts, status = k.pointer("starts", i32, "w"), k.pointer("status", u32, "w")
    segments, events = k.pointer("segments", u32, "r"), k.pointer("events", u32, "r")
    num_segments, capacity, highest = k.scalar("num_segments", u32), k.scalar("capacity", u32), k.scalar("highest", i32)
    window = Window(k, 1, WALK_ITEMS)
    known = k.shared(u32, (MOST_SEGMENTS, 4))
    with k.range(k.tid, num_segments, WARP) as number:
        known.store((number, 0), segments.load(number * 4, 4))
    k.barrier()

    def load(segment: Value, first: Any = 0) -> list[Value]:
        """Ask for events, of which those that are not there are never looked at."""
        own = events.at(k.cast(k.min(segment, num_segments - 1), i64) * k.cast(capacity, i64))
        return [own[k.min(index + first, capacity - 1)] for index in window.indices]

    def accepted(gaps: list[Value], first: Any, count: Value, above: Value) -> Value:
        """How many events of a window are accepted by a path that is so far above; about half are."""
        distances = [k.cast(gap, i32) for gap in gaps]

        def accepts(item: int, rank: Value) -> Value:
            is_there = window.indices[item] + first < count
            result: Value = is_there & (distances[item] <= above - k.cast(rank, i32))
            return result

        return window.settle(accepts, lambda index: index >> 1)[2]

    i = k.var(highest)
    asked = [[k.var(gap) for gap in load(k.const(number, u32))] for number in range(2)]
    with k.range(k.const(0, u32), num_segments, 2) as pair:
        for number, gaps in enumerate(asked):
            segment = pair + number
            with k.when(segment < num_segments):
                with k.when(k.tid == 0):
                    starts[segment] = i.get()
                low, width, end, count = known.load((segment, 0), 4)
                above = k.var(i - k.cast(low, i32))
                with k.when((k.tid == 0) & ((above < 0) | (above > k.cast(width, i32)))):
                    status[0] = k.const(LEFT_RANGE, u32)
                held = [gap.get() for gap in gaps]
                for gap, value in zip(gaps, load(segment + 2), strict=True):
                    gap.set(value)
                above.set(above - k.cast(accepted(held, 0, count, above.get()), i32))
                with k.range(k.const(WARP * WALK_ITEMS, u32), count, WARP * WALK_ITEMS) as first:
                    above.set(above - k.cast(accepted(load(segment, first), first, count, above.get()), i32))
                i.set(above + k.cast(end, i32))
    return k.build()


def _draw() -> Kernel:
    """Follow the path from where i is, store what it accepts, and leave the position after the phase."""
    k = Builder("interval_draw", block=BLOCK)
    numbers, end = k.pointer("numbers", u32, "w"), k.pointer("end", u32, "w")
    pieces, start, starts = k.pointer("pieces", u32, "r"), k.pointer("start", u32, "r"), k.pointer("starts", i32, "r")
    limit, length, bits = (k.scalar(name, u32) for name in ("limit", "length", "bits"))
    highest, lowest = k.scalar("highest", i32), k.scalar("lowest", i32)
    window = Window(k)
    segment = k.ctaid
    i = k.var(highest)
    with k.when(segment > 0):
        i.set(starts[segment])
    first = start[0] + segment * length
    at = k.var(0, u32)
    given = _Words(k, pieces, window, first, limit)
    with k.loop():
        k.break_if((at >= length) | (i < lowest) | (first + at >= limit))
        words, is_there = given.next()
        here = i.get()

        def value(item: int, rank: Value, *, words: Any = words, i: Value = here) -> tuple[Value, Value]:
            most = k.max(i - k.cast(rank, i32), 1)
            return words[item] & (k.const(UNKNOWN, u32) >> k.emit("clz", k.cast(most, u32))), most

        def accepts(item: int, rank: Value, *, there: Any = is_there, i: Value = here, value: Any = value) -> Value:
            number, most = value(item, rank)
            accepted: Value = there[item] & (i - k.cast(rank, i32) >= lowest) & (k.cast(number, i32) <= most)
            return accepted

        accepted, ranks, total = window.settle(accepts, _share(k, here, bits))
        for item, (is_accepted, rank) in enumerate(zip(accepted, ranks, strict=True)):
            with k.when(is_accepted):
                number, most = value(item, rank)
                numbers[most - 1] = number
                with k.when(most == lowest):
                    end[0] = first + at + window.indices[item] + 1
        i.set(here - k.cast(total, i32))
        at.set(at + WINDOW)
    return k.build()


__all__ = [
    "BLOCK",
    "EVENTS_ARE_FULL",
    "LEFT_RANGE",
    "MOST_SEGMENTS",
    "SIGMAS",
    "TAIL_BITS",
    "UNKNOWN",
    "WINDOW",
    "IntervalSpec",
    "make",
]
