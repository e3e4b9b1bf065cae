"""Draws of a shuffle: for every i from n - 1 down to 1 a number up to i, by masked rejection of one stream of words.

NumPy's `random_interval` takes the next word, keeps as many bits as i has, and goes on to the next word while the
result is above i. Where a word is used depends on how many were accepted before it, but hardly: while i has `bits`
bits, the masked words are what they are, and a word is accepted where it is at most i. What i is after some words is
expected to be close to an exponential; few words lie so close to that, 8 standard deviations, that it is open whether
they are accepted.

Data layout: words are contiguous, and so are the numbers, that of i at i - 1. A phase is the words while i has the same
bits; it is cut into segments of equal length, one per block, and these into chunks, one per warp, which goes through
`STEP` words at a time. Three launches per phase: `find` counts the words that are accepted in any case, and leaves of
those that are open what i must be at the segment's start to accept them (see `_limit`); `walk` joins the segments by
counting these limits; `draw` knows from them which words are accepted, and stores, and looks whether i was always where
it was taken to be. What is left below `TAIL_BITS` bits is drawn by one block, see `interval_tail`.

Bytes per number: 1.4 words read twice, 4 bytes written.

Source: NumPy's src/distributions/distributions.c, random_interval.
"""

from __future__ import annotations

import math as host
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.interval_tail import BLOCK, ITEMS, NUM_WARPS, UNKNOWN, WARP, WINDOW, tail
from oxinp._ptx import Builder, Kernel, math
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i32, i64, pred, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

STEP = WARP * ITEMS
DEVIATIONS = 8 * 0.28  # of where i is, times the square root of 2**bits
TAIL_BITS = 15
MOST_EVENTS = 1024  # open words of a segment
WALK_WARPS = MOST_EVENTS // STEP
MOST_OF_WARP = 256
ASKED = 8  # segments whose limits are on their way
MOST_SEGMENTS = 1024
LEFT_RANGE, EVENTS_ARE_FULL = 1, 2  # what a status says


class IntervalSpec(Frozen):
    """A kernel of the family.

    Attributes
    ----------
    role : str
        ``"find"``, ``"walk"``, ``"draw"`` or ``"tail"``.
    """

    role: str


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: IntervalSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return {"find": _find, "walk": _walk, "draw": _draw, "tail": tail}[spec.role]()


def margin(bits: int) -> int:
    """Return how far from what is expected i may be, and the words that are used while that stays the same."""
    return host.ceil(DEVIATIONS * host.sqrt(1 << bits)) + STEP + 8


class _Chunk:
    """The words of a warp, `STEP` at a time, those of the next step on their way; and what i is expected to be.

    Parameters
    ----------
    k : Builder

    Attributes
    ----------
    low : Value
        The least i at the start of the segment, i32.
    at : Var
        The number of the next word.
    """

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.pieces, start = k.pointer("pieces", u32, "r"), k.pointer("start", u32, "r")
        names = ("limit", "length", "capacity", "bits")
        self.limit, self.length, self.capacity, bits = (k.scalar(name, u32) for name in names)
        self.highest, self.margin = k.scalar("highest", i32), k.scalar("margin", i32)
        self.lane, self.warp = k.lane, k.tid >> 5
        passed = k.ctaid * self.length
        before = passed + self.warp * (self.length / NUM_WARPS)
        self.at = k.var(start[0] + before)
        self.mask = (k.const(1, u32) << bits) - 1
        unit = k.bitcast(k.pack(k.const(0, u32), (k.const(1023, u32) - bits) << 20), f64)
        whole = k.cvt(self.highest, f64) + 1.0
        self.low = k.cvt(whole * math.exp(k, k.cvt(passed, f64) * -unit), i32, "rzi") - self.margin
        self._expected = k.var(whole * math.exp(k, k.cvt(before, f64) * -unit))  # i + 1
        self._falls = math.exp(k, unit * float(-STEP))
        self.indices = [self.lane + WARP * item for item in range(ITEMS)]
        self._held = [k.var(0, u32) for _ in self.indices]
        self._load()

    def _load(self) -> None:
        for word, index in zip(self._held, self.indices, strict=True):
            word.set(self.pieces[self.k.min(self.at + index, self.limit - 1)])

    def next(self) -> tuple[list[Value], Value]:
        """The masked words of a step, i32, and what i is expected to be; words that are not there are beyond it."""
        k = self.k
        words = [word.get() for word in self._held]
        none = k.const(0x7FFFFFFF, i32)
        is_there = [self.at + index < self.limit for index in self.indices]
        values = [
            k.where(there, k.cast(word & self.mask, i32), none) for there, word in zip(is_there, words, strict=True)
        ]
        center = k.cvt(self._expected.get(), i32, "rzi")
        self._expected.set(self._expected * self._falls)
        self.at.set(self.at + STEP)
        self._load()
        return values, center

    def sorted_out(self, values: list[Value], center: Value) -> tuple[list[Value], list[Value]]:
        """Which words are accepted in any case, and which are open."""
        least, most = center - self.margin, center + self.margin
        accepted = [value <= least for value in values]
        is_open = [(value > least) & (value <= most) for value in values]
        return accepted, is_open

    def ranks(self, ballots: list[Value], before: Value) -> tuple[list[Value], Value]:
        """How many of some words come before each of the thread's, and how many there are, with those before."""
        k = self.k
        below = (k.const(1, u32) << self.lane) - 1
        ranks, total = [], before
        for ballot in ballots:
            ranks.append(total + k.popc(ballot & below))
            total = total + k.popc(ballot)
        return ranks, total


def _any_of(words: list[Value]) -> Value:
    """Whether any of some words is not 0."""
    joined = words[0]
    for word in words[1:]:
        joined = joined | word
    found: Value = joined != 0
    return found


def _find() -> Kernel:
    """Count what is accepted in any case, and leave the limits of what is open."""
    k = Builder("interval_find", block=BLOCK)
    segments, chunks = k.pointer("segments", u32, "w"), k.pointer("chunks", u32, "w")
    events, status = k.pointer("events", u32), k.pointer("status", u32)
    chunk = _Chunk(k)
    segment, lane, warp = k.ctaid, chunk.lane, chunk.warp
    found, counts = k.shared(u32, (NUM_WARPS, MOST_OF_WARP)), k.shared(u32, (NUM_WARPS, 2))
    num_accepted, num_open = k.var(0, u32), k.var(0, u32)
    with k.range(k.const(0, u32), chunk.length / NUM_WARPS, STEP):
        values, center = chunk.next()
        accepted, is_open = chunk.sorted_out(values, center)
        ballots = [k.ballot(each) for each in accepted]
        open_ballots = [k.ballot(each) for each in is_open]
        ranks, total = chunk.ranks(ballots, num_accepted.get())
        with k.when(_any_of(open_ballots)):
            places, more = chunk.ranks(open_ballots, num_open.get())
            for value, each, rank, place in zip(values, is_open, ranks, places, strict=True):
                with k.when(each & (place < MOST_OF_WARP)):
                    found[warp, place] = k.cast(value, u32) + rank
            num_open.set(more)
        num_accepted.set(total)
    with k.when(lane == 0):
        counts.store((warp, 0), [num_accepted.get(), num_open.get()])
    k.barrier()
    before, all_of = [k.var(0, u32) for _ in range(2)], [k.var(0, u32) for _ in range(2)]
    for other in range(NUM_WARPS):
        for own, total, each in zip(before, all_of, counts.load((other, 0), 2), strict=True):
            own.set(own + k.where(warp > other, each, k.const(0, u32)))
            total.set(total + each)
    with k.when(lane == 0):
        chunks.store((segment * NUM_WARPS + warp) * 2, [each.get() for each in before])
    is_full = (num_open > MOST_OF_WARP) | (all_of[1] > chunk.capacity)
    with k.when((lane == 0) & is_full):
        status.atomic("max", 0, k.const(EVENTS_ARE_FULL, u32))
    limits = k.shared(i32, (3, MOST_EVENTS))
    count = k.min(all_of[1].get(), chunk.capacity)
    num_kept = k.min(k.min(num_open.get(), MOST_OF_WARP), count - k.min(before[1].get(), count))
    with k.range(lane, num_kept, WARP) as number:
        limits[2, before[1] + number] = k.cast(found[warp, number] + before[0], i32) - chunk.low
    _limit(k, limits, events.at(k.cast(segment, i64) * k.cast(chunk.capacity, i64)), count)
    with k.when(k.tid == 0):
        left = [chunk.low, chunk.margin * 2, chunk.low - k.cast(all_of[0].get(), i32)]
        segments.store(segment * 4, [*[k.cast(word, u32) for word in left], count])
    return k.build()


def _limit(k: Builder, limits: Pointer, target: Pointer, count: Value) -> None:
    """Store how far above `low` i must be at the segment's start to accept open words.

    That is the distance if none of the open words before is accepted, the last row of `limits`, and how many of them
    are from there: those of limits up to its own. It is the least solution, approached from below. As limits depend on
    earlier ones alone, after some rounds none changes.
    """
    changes, most = k.shared(u32, (2, NUM_WARPS)), k.const(0x7FFFFFFF, i32)
    with k.range(k.tid, 2 * MOST_EVENTS, BLOCK) as number:
        limits[number / MOST_EVENTS, number % MOST_EVENTS] = most
    k.barrier()
    with k.range(k.tid, count, BLOCK) as number:
        limits[0, number] = limits[2, number]
    k.barrier()
    parity = k.var(0, u32)
    with k.loop():
        known, new = limits.at((parity.get(), 0)), limits.at((parity ^ 1, 0))
        has_changed = k.var(False, pred)
        with k.range(k.tid, count, BLOCK) as number:
            distance = limits[2, number]
            limit = k.var(distance)
            with k.loop():
                total = k.var(distance)
                with k.range(k.const(0, u32), number, 4) as first:
                    for other, earlier in enumerate(known.load(first, 4)):
                        total.set(total + k.cast((earlier <= limit) & (first + other < number), i32))
                k.break_if(total == limit)
                limit.set(total.get())
            has_changed.set(has_changed | (known[number] != limit))
            new[number] = limit.get()
        is_new = k.any(has_changed.get())
        with k.when(k.lane == 0):
            changes[parity, k.tid >> 5] = k.cast(is_new, u32)
        k.barrier()
        each = [changes[parity, number] for number in range(NUM_WARPS)]
        parity.set(parity ^ 1)
        k.break_if(~_any_of(each))
    # Up to a whole number of steps, beyond which `walk` does not look: what is not there is never accepted
    with k.range(k.tid, k.max((count + (STEP - 1)) / STEP * STEP, STEP), BLOCK) as number:
        target[number] = k.cast(limits[parity, number], u32)


def _walk() -> Kernel:
    """Find i at the start of every segment, by one block, which has asked for the limits of some segments to come.

    A warp has a step of a segment's limits.
    """
    k = Builder("interval_walk", block=WARP * WALK_WARPS)
    starts, status = k.pointer("starts", i32, "w"), k.pointer("status", u32, "w")
    segments, events = k.pointer("segments", u32, "r"), k.pointer("events", u32, "r")
    num_segments, capacity, highest = k.scalar("num_segments", u32), k.scalar("capacity", u32), k.scalar("highest", i32)
    known, sums = k.shared(u32, (MOST_SEGMENTS, 4)), k.shared(i32, (2, WALK_WARPS))
    with k.range(k.tid, num_segments, WARP * WALK_WARPS) as at:
        known.store((at, 0), segments.load(at * 4, 4))
    k.barrier()
    own, last, warp = events.at(k.lane * ITEMS), num_segments - 1, k.tid >> 5
    first = warp * STEP

    def has_step(count: Value) -> Value:
        """Whether the warp has limits; the first step of a segment is there even if none of its words is open."""
        return first < k.max(count, 1)

    def load(segment: Value) -> tuple[Value, ...]:
        """Ask for the lane's limits of a segment."""
        at = k.min(segment, last)
        start = k.where(has_step(known[at, 3]), first, k.const(0, u32))
        return own.at(at * capacity + start).load(0, ITEMS)

    def num_accepted(limits: Sequence[Value], above: Value) -> Value:
        """How many words of a step a path accepts that starts so far above."""
        counts = [k.popc(k.ballot(k.cast(limit, i32) <= above)) for limit in limits]
        total = counts[0]
        for count in counts[1:]:
            total = total + count
        return k.cast(total, i32)

    i = k.var(highest)
    asked = [[k.var(limit) for limit in load(k.const(number, u32))] for number in range(ASKED)]
    with k.range(k.const(0, u32), num_segments, ASKED) as group:
        for number, limits in enumerate(asked):
            segment = group + number
            with k.when(segment < num_segments):
                low, width, end, count = known.load((segment, 0), 4)
                above = i - k.cast(low, i32)
                with k.when(k.tid == 0):
                    starts[segment] = i.get()
                    with k.when((above < 0) | (above > k.cast(width, i32))):
                        status[0] = k.const(LEFT_RANGE, u32)
                held = [limit.get() for limit in limits]
                for limit, value in zip(limits, load(segment + ASKED), strict=True):
                    limit.set(value)
                accepted = k.where(has_step(count), num_accepted(held, above), k.const(0, i32))
                with k.when(k.lane == 0):
                    sums[number % 2, warp] = accepted
                k.barrier()
                remaining = above + k.cast(end, i32)
                for each in sums.load((number % 2, 0), WALK_WARPS):
                    remaining = remaining - each
                i.set(remaining)
    return k.build()


def _draw() -> Kernel:
    """Store what is accepted, and leave the position after the phase."""
    k = Builder("interval_draw", block=BLOCK)
    numbers, end = k.pointer("numbers", u32, "w"), k.pointer("end", u32, "w")
    segments, chunks = k.pointer("segments", u32, "r"), k.pointer("chunks", u32, "r")
    events, status = k.pointer("events", i32, "r"), k.pointer("status", u32)
    starts = k.pointer("starts", i32, "r")
    chunk = _Chunk(k)
    lowest = k.scalar("lowest", i32)
    segment, lane = k.ctaid, chunk.lane
    above = starts[segment] - k.cast(segments[segment * 4], i32)
    num_before, first_event = chunks.load((segment * NUM_WARPS + chunk.warp) * 2, 2)
    own = events.at(k.cast(segment, i64) * k.cast(chunk.capacity, i64))
    num_accepted = k.var(0, u32)
    with k.range(lane, k.min(first_event, chunk.capacity), WARP) as number:
        num_accepted.set(num_accepted + k.cast(own[number] <= above, u32))
    i = k.var(starts[segment] - k.cast(num_before + k.redux("add", num_accepted.get()), i32))
    event = k.var(first_event)
    with k.range(k.const(0, u32), chunk.length / NUM_WARPS, STEP):
        at = chunk.at.get()
        values, center = chunk.next()
        far = k.max(i - center, center - i) > chunk.margin - STEP - 4
        with k.when((lane == 0) & far & (i >= lowest)):
            status.atomic("max", 0, k.const(LEFT_RANGE, u32))
        surely, is_open = chunk.sorted_out(values, center)
        accepted = [k.var(each, pred) for each in surely]
        open_ballots = [k.ballot(each) for each in is_open]
        with k.when(_any_of(open_ballots)):
            places, more = chunk.ranks(open_ballots, event.get())
            for each, var, place in zip(is_open, accepted, places, strict=True):
                with k.when(each):
                    var.set(own[k.min(place, chunk.capacity - 1)] <= above)
            event.set(more)
        ranks, total = chunk.ranks([k.ballot(var.get()) for var in accepted], k.const(0, u32))
        for value, var, rank, index in zip(values, accepted, ranks, chunk.indices, strict=True):
            most = i - k.cast(rank, i32)
            with k.when(var.get() & (most >= lowest)):
                numbers[most - 1] = k.cast(value, u32)
                with k.when(most == lowest):
                    end[0] = at + index + 1
        i.set(i - k.cast(total, i32))
    return k.build()


__all__ = [
    "BLOCK",
    "EVENTS_ARE_FULL",
    "LEFT_RANGE",
    "MOST_EVENTS",
    "MOST_SEGMENTS",
    "STEP",
    "TAIL_BITS",
    "UNKNOWN",
    "WINDOW",
    "IntervalSpec",
    "make",
    "margin",
]
