"""What a shuffle makes of its draws: for every i from n - 1 down to 1, elements i and j_i change places.

Element i is what step i leaves there. Step i puts what lay at i where j_i is, so that what lies at x before step i is
what lay at s before step s, with s the least step above i that drew x; or x's own first element, where there is none.
So the steps that drew x are a list, least ones first, which `links` makes of minima: a step goes to where the list of
its number begins, leaves the lesser of itself and the step that it finds there, and goes on after that with the greater
one, until there is none. Which thread comes first does not matter to the lists; as threads begin with the highest
steps, nearly all find their place at once. A minimum that is not in the cache costs several times as much as a word
that is read at random: where there are several ranges of numbers, `split` sorts steps by the range that their numbers
are in, in any order, and `links` lists those of one range after the other, whose lists' beginnings the cache holds. How
a list goes on after a step lies in a slot, where `split` has put the step, so that most steps write beside those that
are near them in their range; `split` leaves where that is. `marks` leaves a bit for every number that has a list, and
the cache holds all of these.

`follow`, for every step i, goes from the next step that drew the same number to that which begins the list of its own
number, and so on to a step whose list is empty, the number of the element that comes to i. Such a chain from i is
log(n / i) steps long on average: one, over all i.

Data layout: draws are u32, that of i at i - 1; those of a range are pairs of a number and a step; results are i64. A
thread has a step, in `links` `PER_THREAD`, in `split` `PER_SPLIT`. Bytes per element: 4 read and 12 written by `split`;
8 read and 8 written by `links`; 12 read, two words at random in every step of a chain but the last, and 8 written by
`follow`. Measured for 2**26 elements on the H100: split 0.61 ms, links 1.58 (four or eight steps of a thread 1.69 and
1.87), follow 1.58; lists that go on where their steps are, in ranges of 2**23 numbers, 0.43, 2.63 and 1.43.

Source: J. Shun et al., "Sequential Random Permutation, List Contraction and Tree Contraction are Highly Parallel"
(2015), for the depth of chains.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Fill, Launch, Plan, Scratch, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random import interval
from oxinp._kernels.random.interval import MOST_EVENTS, MOST_SEGMENTS, STEP, TAIL_BITS, IntervalSpec
from oxinp._kernels.random.interval_tail import NUM_WARPS, UNKNOWN, WARP, WINDOW
from oxinp._kernels.random.twister import N
from oxinp._kernels.random.twister_leave import untempered
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Argument, Step
    from oxinp._ptx.value import Value

BLOCK = 256
MAX_SIZE = 1 << 30
SEGMENTS_PER_SM = 3
WINDOWS_PER_STEP = 12  # windows that take as long as two steps of `walk`
SIGMAS = 12  # of the words that are taken
NONE = UNKNOWN
PER_THREAD = 2  # steps of `links`
PER_SPLIT = 8
RANGE_BITS = 22  # of numbers whose lists begin in 16 MiB, and go on in as much or more
MOST_RANGE_BITS = 4  # of the number of a range
RAN_OUT, RANGE_IS_FULL = 3, 4  # of words, and of steps, as a status says


class ShuffleSpec(Frozen):
    """A kernel of the family.

    Attributes
    ----------
    role : str
        ``"split"``, ``"links"``, ``"marks"`` or ``"follow"``.
    leaves_key : bool
        ``"links"`` leaves the last words, of MT19937, as they were before they were tempered.
    num_ranges : int
        That ``"split"`` divides numbers into.
    has_slots : bool
        There are several ranges: ``"links"`` reads the pairs of one, not all draws, and lists go on in slots.
    """

    role: str
    leaves_key: bool = False
    num_ranges: int = 1
    has_slots: bool = False


def _expected(highest: int, lowest: int) -> float:
    """Words that are expected while i, of as many bits at both ends, goes down, with as good as certainty."""
    mean = (1 << highest.bit_length()) * math.log((highest + 1) / lowest)
    return mean + SIGMAS * math.sqrt(2 * (highest - lowest + 1)) + 64


def num_words(size: int) -> int:
    """Return how many words of 32 bits hold the draws of a shuffle, with as good as certainty."""
    total, highest = 0.0, size - 1
    while highest >= 1:
        lowest = 1 << (highest.bit_length() - 1)
        total += (1 << highest.bit_length()) * math.log((highest + 1) / lowest)
        highest = lowest - 1
    return math.ceil(total + SIGMAS * math.sqrt(2 * size) + 64)


def plan(
    size: int,
    count: int,
    device: Device,
    *,
    is_shifted: bool,
    leaves_key: bool = False,
    tail_bits: int = 0,
    range_bits: int = 0,
) -> Plan:
    """Return the plan of a permutation.

    The input is the words, u32. The outputs are the numbers of the elements that come to each place, i64, and two words
    of i64: how many words were taken, one more if the first was left over from a draw before, and a status; where that
    is not 0, which has never been seen, the numbers are not valid. If the words are those of MT19937, the second word
    is how many were taken before the 624 of the generator's that are the third output, and the first word is negative
    where the numbers are not valid.

    Parameters
    ----------
    size : int
        2 to `MAX_SIZE`.
    count : int
        Of the words that are given, at least `num_words`.
    device : Device
    is_shifted, leaves_key : bool
    tail_bits : int
        Of numbers that are drawn by one block; 0 for as many as usual.
    range_bits : int
        Of numbers whose lists are made at a time, likewise.
    """
    scratch, tail_bits = Scratch(), tail_bits or TAIL_BITS
    out, result, *left = outputs(2 + leaves_key)
    (words,) = inputs(1)
    num_steps = size - 1
    assert not leaves_key or size > N
    numbers = scratch.take(num_steps * 4)
    num_marks = size.bit_length() + 1
    marks = scratch.take((num_marks + 1) * 4)  # positions where phases begin, then a status
    status = marks.at(num_marks * 4)
    steps: list[Step] = [
        Fill(marks, num_marks * 4, UNKNOWN & 0xFF),
        Fill(marks, 4, 0),
        Fill(status, 4, 0),
    ]
    highest, mark = size - 1, marks
    while highest.bit_length() > tail_bits:
        lowest = 1 << (highest.bit_length() - 1)
        steps += _phase(scratch, numbers, words, mark, status, highest, lowest, count, device)
        highest, mark = lowest - 1, mark.at(4)
    drawn = (numbers, mark.at(4), words, mark)
    steps.append(Launch(interval.make(IntervalSpec("tail")), (1, 1, 1), drawn, (count, highest.bit_length(), highest)))
    results, ended = (result, *left, *((words,) if leaves_key else ())), (mark.at(4), status)
    range_bits = max(range_bits or RANGE_BITS, num_steps.bit_length() - MOST_RANGE_BITS)
    has_slots = size > 1 << range_bits
    if has_slots:
        listing, lists = _lists_of_ranges(scratch, numbers, results, ended, size, int(is_shifted), range_bits)
    else:
        listing, lists = _lists(scratch, numbers, results, ended, size, int(is_shifted))
    listed, grid = scratch.take(-(-size // WARP) * 4), (-(-size // BLOCK), 1, 1)
    follow = make(ShuffleSpec("follow", has_slots=has_slots))
    steps += [
        *listing,
        Launch(make(ShuffleSpec("marks")), grid, (listed, lists[0]), (size,)),
        Launch(follow, grid, (out, *lists, listed, numbers), (num_steps,)),
    ]
    return scratch.plan(steps)


def _lists(
    scratch: Scratch,
    numbers: Argument,
    results: tuple[Argument, ...],
    ended: tuple[Argument, Argument],
    size: int,
    shift: int,
) -> tuple[list[Step], tuple[Argument, ...]]:
    """List the steps that drew every number, all at once: the steps of the plan, and where lists begin and go on."""
    first = scratch.take(2 * size * 4)
    lists = first, first.at(size * 4)
    links = make(ShuffleSpec("links", leaves_key=len(results) > 1))
    grid, constants = (-(-(size - 1) // (BLOCK * PER_THREAD)), 1, 1), (shift, size - 1, 0)
    return [
        Fill(first, 2 * size * 4, NONE & 0xFF),
        Launch(links, grid, (*lists, *results, numbers, *ended), constants),
    ], lists


def _lists_of_ranges(
    scratch: Scratch,
    numbers: Argument,
    results: tuple[Argument, ...],
    ended: tuple[Argument, Argument],
    size: int,
    shift: int,
    range_bits: int,
) -> tuple[list[Step], tuple[Argument, ...]]:
    """List the steps that drew every number, by ranges of numbers; lists go on in slots, see `_lists`."""
    num_ranges, per_split = -(-size >> range_bits), BLOCK * PER_SPLIT
    capacities = [_most_of_range(size, number << range_bits, 1 << range_bits) for number in range(num_ranges)]
    offsets = [sum(capacities[:number]) for number in range(num_ranges + 1)]
    first, following, slots = (scratch.take(n * 4) for n in (size, offsets[-1], size))
    pairs, counts = scratch.take(offsets[-1] * 8), scratch.take(num_ranges * 4)
    split = make(ShuffleSpec("split", num_ranges=num_ranges))
    steps: list[Step] = [
        Fill(first, size * 4, NONE & 0xFF),
        Fill(following, offsets[-1] * 4, NONE & 0xFF),
        Fill(counts, num_ranges * 4, 0),
        Launch(
            split,
            (-(-(size - 1) // per_split), 1, 1),
            (pairs, counts, slots, ended[1], numbers),
            (size - 1, range_bits, *offsets),
        ),
    ]
    links = make(ShuffleSpec("links", leaves_key=len(results) > 1, has_slots=True))
    for number, (offset, capacity) in enumerate(zip(offsets, capacities, strict=False)):
        given = (first, following, slots, *results, pairs.at(offset * 8), *ended, counts.at(number * 4))
        steps.append(Launch(links, (-(-capacity // (BLOCK * PER_THREAD)), 1, 1), given, (shift, capacity, offset)))
    return steps, (first, following, slots)


def _most_of_range(size: int, first: int, count: int) -> int:
    """Return how many steps draw numbers of a range, with as good as certainty."""

    def below(number: int) -> float:
        return number * (1 + math.log(size / number)) if number else 0.0

    mean = below(min(first + count, size)) - below(first)
    return min(size, math.ceil(mean + SIGMAS * math.sqrt(mean) + 64))


def _phase(
    scratch: Scratch,
    numbers: Argument,
    words: Argument,
    mark: Argument,
    status: Argument,
    highest: int,
    lowest: int,
    count: int,
    device: Device,
) -> Iterator[Step]:
    """Draw while i has the same bits, see `interval`."""
    bits, expected = highest.bit_length(), math.ceil(_expected(highest, lowest))
    margin, windows = interval.margin(bits), -(-expected // WINDOW)
    # So many that a segment has half as many open words as there is room for
    fewest = min(-(-4 * expected * margin // (MOST_EVENTS << bits)), MOST_SEGMENTS)
    most = min(SEGMENTS_PER_SM * device.num_sms, MOST_SEGMENTS)
    num_segments = max(1, min(windows, max(fewest, min(most, math.isqrt(WINDOWS_PER_STEP * windows)))))
    length = -(-windows // num_segments) * WINDOW
    num_segments = -(-expected // length)
    capacity = min(-(-((4 * length * margin >> bits) + 256) // STEP) * STEP, MOST_EVENTS)
    segments, starts = scratch.take(num_segments * 16), scratch.take(num_segments * 4)
    events, chunks = scratch.take(num_segments * capacity * 4), scratch.take(num_segments * NUM_WARPS * 8)
    constants = (count, length, capacity, bits, highest, margin)
    yield Launch(
        interval.make(IntervalSpec("find")),
        (num_segments, 1, 1),
        (segments, chunks, events, status, words, mark),
        constants,
    )
    yield Launch(
        interval.make(IntervalSpec("walk")),
        (1, 1, 1),
        (starts, status, segments, events),
        (num_segments, capacity, highest),
    )
    yield Launch(
        interval.make(IntervalSpec("draw")),
        (num_segments, 1, 1),
        (numbers, mark.at(4), segments, chunks, events, status, starts, words, mark),
        (*constants, lowest),
    )


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ShuffleSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if spec.role == "split":
        return _split(spec.num_ranges)
    if spec.role == "links":
        return _links(leaves_key=spec.leaves_key, has_slots=spec.has_slots)
    return _marks() if spec.role == "marks" else _follow(has_slots=spec.has_slots)


def _split(num_ranges: int) -> Kernel:
    """Sort steps by the range that their numbers are in: every block's, in any order, after those of blocks before."""
    k = Builder("shuffle_split", block=BLOCK)
    pairs, counts, slots = k.pointer("pairs", u32, "w"), k.pointer("counts", u32), k.pointer("slots", u32, "w")
    status, numbers = k.pointer("status", u32), k.pointer("numbers", u32, "r")
    num_steps, range_bits = k.scalar("num_steps", u32), k.scalar("range_bits", u32)
    offsets = [k.scalar(f"offset_{number}", u32) for number in range(num_ranges + 1)]
    own, places, ends = (k.shared(u32, num_ranges) for _ in range(3))
    with k.when(k.tid < num_ranges):
        own[k.tid] = k.const(0, u32)
    k.barrier()
    below, lane = (k.const(1, u32) << k.lane) - 1, k.lane
    found: list[tuple[Value, Value, Value, Value, Value, Value]] = []
    for item in range(PER_SPLIT):
        # The highest steps come first
        step = num_steps - (k.ctaid * (BLOCK * PER_SPLIT) + k.tid + item * BLOCK)
        is_there = step - 1 < num_steps
        number = numbers[k.where(is_there, step - 1, k.const(0, u32))]
        is_drawn = is_there & (number <= num_steps)  # as all are where words have not run out
        range_ = k.where(is_drawn, number >> range_bits, k.const(0, u32))
        alike = k.ballot(is_drawn)
        for bit in range((num_ranges - 1).bit_length()):
            has_bit = ((range_ >> bit) & 1) != 0
            having = k.ballot(has_bit)
            alike = alike & k.where(has_bit, having, ~having)
        first = k.var(0, u32)
        with k.when(is_drawn & ((alike & below) == 0)):
            first.set(own.atomic("add", range_, k.popc(alike), order="relaxed.cta"))
        leader = k.bfind(alike & (k.const(0, u32) - alike))
        place = k.shfl_idx(first.get(), k.where(is_drawn, leader, lane)) + k.popc(alike & below)
        found.append((is_there, is_drawn, range_, place, number, step))
    k.barrier()
    with k.when(k.tid < num_ranges):
        start, end = k.var(0, u32), k.var(0, u32)
        for range_number, (offset, following) in enumerate(pairwise(offsets)):
            with k.when(k.tid == range_number):
                start.set(offset)
                end.set(following)
        begin = start + counts.atomic("add", k.tid, own[k.tid])
        places[k.tid], ends[k.tid] = begin, end.get()
        with k.when(begin + own[k.tid] > end):
            status.atomic("max", 0, k.const(RANGE_IS_FULL, u32))
    k.barrier()
    for is_there, is_drawn, range_, place, number, step in found:
        at = places[range_] + place
        has_slot = is_drawn & (at < ends[range_])
        with k.when(has_slot):
            pairs.store(at * 2, [number, step])
        with k.when(is_there):  # `follow` looks up one of every step
            slots[step] = k.where(has_slot, at, k.const(0, u32))
    return k.build()


def _links(*, leaves_key: bool, has_slots: bool) -> Kernel:
    """List the steps that drew every number, of all or of a range; leave how many words were taken, and the status."""
    k = Builder("shuffle_links", block=BLOCK)
    first, following = k.pointer("first", u32), k.pointer("following", u32)
    slots = k.pointer("slots", u32, "r") if has_slots else None
    result = k.pointer("result", i64, "w")
    left, words = (k.pointer("left", u32, "w"), k.pointer("words", u32, "r")) if leaves_key else (None, None)
    numbers = k.pointer("numbers", u32, "r")
    end, status = k.pointer("end", u32, "r"), k.pointer("status", u32, "r")
    counts = k.pointer("counts", u32, "r") if has_slots else None
    shift, most, offset = (k.scalar(name, u32) for name in ("shift", "most", "offset"))
    at = k.ctaid * BLOCK + k.tid
    taken = end[0]
    state = k.where(taken == UNKNOWN, k.const(RAN_OUT, u32), status[0])
    is_first = offset == 0  # of the range's slots
    with k.when((at == 0) & is_first):
        if leaves_key:
            is_valid = state == 0
            result.store(0, [k.where(is_valid, k.cast(taken, i64), k.const(-1, i64)), k.cast(taken - N, i64)])
        else:
            result.store(0, [k.cast(taken + shift, i64), k.cast(state, i64)])
    if left is not None and words is not None:
        with k.when(is_first & (state == 0)), k.range(at, N, k.nctaid * BLOCK) as number:
            left[number] = untempered(words[taken - N + number])
    own = [k.ctaid * (BLOCK * PER_THREAD) + k.tid + number * BLOCK for number in range(PER_THREAD)]
    count = most if counts is None else k.min(counts[0], most)
    is_there = [(each < count) & (state == 0) for each in own]
    places = [k.where(there, each, k.const(0, u32)) for there, each in zip(is_there, own, strict=True)]
    if counts is not None:
        drawn, steps = zip(*[numbers.load(place * 2, 2) for place in places], strict=True)
    else:  # the highest steps come first
        steps = tuple([most - place for place in places])
        drawn = tuple([numbers[step - 1] for step in steps])
    # Minima of all steps are on their way before the first one is looked at, those of lists' beginnings, then the next
    found = [k.var(NONE, u32) for _ in steps]
    for step, there, number, var in zip(steps, is_there, drawn, found, strict=True):
        with k.when(there):
            var.set(first.atomic("min", number, step))
    before = [k.var(k.min(var.get(), step)) for var, step in zip(found, steps, strict=True)]
    after = [k.var(k.max(var.get(), step)) for var, step in zip(found, steps, strict=True)]
    for var, lesser, greater, step, place in zip(found, before, after, steps, places, strict=True):
        with k.when(_goes_on(lesser, greater)):
            slot = k.var(lesser if slots is None else place + offset)
            if slots is not None:
                with k.when(lesser != step):
                    slot.set(slots[lesser.get()])
            var.set(following.atomic("min", slot.get(), greater.get()))
    for var, lesser, greater in zip(found, before, after, strict=True):
        with k.loop():
            k.break_if(~_goes_on(lesser, greater))
            lesser.set(k.min(var.get(), greater.get()))
            greater.set(k.max(var.get(), greater.get()))
            with k.when(_goes_on(lesser, greater)):
                place = lesser.get() if slots is None else slots[lesser.get()]
                var.set(following.atomic("min", place, greater.get()))
    return k.build()


def _goes_on(lesser: Value, greater: Value) -> Value:
    """Whether a list is not at its end; nor has the step already, as it has where a launch is repeated."""
    result: Value = (greater != NONE) & (greater != lesser)
    return result


def _marks() -> Kernel:
    """Leave a bit for every number that has a list."""
    k = Builder("shuffle_marks", block=BLOCK)
    listed, first, size = k.pointer("listed", u32, "w"), k.pointer("first", u32, "r"), k.scalar("size", u32)
    number = k.ctaid * BLOCK + k.tid
    bits = k.ballot((number < size) & (first[k.min(number, size - 1)] != NONE))
    with k.when((k.lane == 0) & (number < size)):
        listed[number >> 5] = bits
    return k.build()


def _follow(*, has_slots: bool) -> Kernel:
    """Store which element comes to every place."""
    k = Builder("shuffle_follow", block=BLOCK)
    out = k.pointer("out", i64, "w")
    first, following = k.pointer("first", u32, "r"), k.pointer("following", u32, "r")
    slots = k.pointer("slots", u32, "r") if has_slots else None
    listed, numbers = k.pointer("listed", u32, "r"), k.pointer("numbers", u32, "r")

    def after_step(step: Value) -> Value:
        return following[step if slots is None else slots[step]]

    num_steps = k.scalar("num_steps", u32)
    place = k.ctaid * BLOCK + k.tid
    with k.when(place <= num_steps):
        # What lies at 0 in the end lay there before step 0, which there is not
        is_step = place > 0
        found = k.var(k.where(is_step, numbers[k.max(place, 1) - 1], k.const(0, u32)))
        step = k.var(place)
        with k.when(is_step):
            step.set(after_step(place))
        with k.loop():
            k.break_if(step == NONE)
            found.set(step.get())
            k.break_if(((listed[step >> 5] >> (step & 31)) & 1) == 0)
            after = k.var(first[step.get()])
            with k.when(after == step):  # a step that leaves its element where it is
                after.set(after_step(step.get()))
            step.set(after.get())
        out[place] = k.cast(found.get(), i64)
    return k.build()


__all__ = ["MAX_SIZE", "ShuffleSpec", "make", "num_words", "plan"]
