"""Draws from MT19937 whose attempts may be rejected: polar normals, integers by masked or by Lemire's rejection.

The words of a draw are cut into streams of equal length, whose first states come from jumps (see `twister_jump`); a
block makes a stream's words, `WIDTH` pairs in a step, those of even and of odd numbers apart in shared memory. A first
launch counts what every stream accepts and a second one makes the words again: where a stream's results go is the sum
of the counts before it. Data layout: results are contiguous. Who owns what: a thread has a pair of words in a step: two
attempts, or half of one, whose other half the next lane has. Points that are accepted wait in shared memory until the
words of `STEPS` steps are used; then every thread makes results of some of them. The block that accepts the last
attempt leaves the 624 words that follow it, untempered, from which the host knows NumPy's state. Bytes per element:
itself, once. Instructions per pair: about 60 to count, 100 to place, and 180 per point.

Source: NumPy's src/mt19937 and src/legacy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.twister import FREE, MATRIX, UPPER, M, N
from oxinp._kernels.random.twister_formats import FORMATS, tempered
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i64, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.random.twister_formats import Attempt
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

PAIRS = N // 2  # of a state
BLOCK, WARP = 128, 32  # a warp for each scheduler
NUM_WARPS = BLOCK // WARP
WIDTH = 112  # pairs of a step, of which none needs another one
STEPS = 14
assert 2 * WIDTH <= FREE
assert PAIRS <= WIDTH * STEPS
MOST_POINTS = WIDTH * STEPS // 2


class DrawSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    format : str
        A key of `twister_formats.FORMATS` of which attempts may be rejected.
    counts : bool
        It counts what is accepted; else it stores.
    is_given : bool
        The first result is given.
    """

    format: str
    counts: bool
    is_given: bool


class Pairs:
    """The pairs of a stream in shared memory: those of a state, then those of the steps."""

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.halves = tuple(k.shared(u32, PAIRS + WIDTH * STEPS + 1) for _ in range(2))  # even words, odd words
        self.has_pair = k.tid < WIDTH
        # Threads that have none read what others do, from other banks than the rest of their warp, and store nothing.
        self._held = [k.var(0, u32) for _ in range(3)]
        self.own = [half.at(k.where(self.has_pair, k.tid, k.tid - (WIDTH - BLOCK % WIDTH))) for half in self.halves]

    def load(self, window: Pointer) -> None:
        """Begin with a state; a barrier has to follow."""
        k = self.k
        with k.range(k.tid, PAIRS, BLOCK) as i:
            for half, word in zip(self.halves, window.load(i * 2, 2), strict=True):
                half[i] = word

    def begin(self) -> None:
        """Take the words of the first step, from a state at the front."""
        for var, word in zip(self._held, self._words(self.k.const(0, u32)), strict=True):
            var.set(word)

    def step(self, number: Value) -> list[Value]:
        """Give the thread's pair of a step, and make the one that comes 624 words later; a barrier has to follow.

        `number` is the step's, times `WIDTH`. The words of the next step, which earlier ones have made, are on their
        way before the barrier.
        """
        first, second, third = (var.get() for var in self._held)
        self.make(number, [first, second, third])
        for var, word in zip(self._held, self._words(number + WIDTH), strict=True):
            var.set(word)
        return [first, second]

    def _words(self, number: Value) -> list[Value]:
        """The thread's pair of a step, and the first word of the next pair."""
        even, odd = self._at(number)
        return [even[0], odd[0], even[1]]

    def make(self, number: Value, words: list[Value]) -> None:
        """Make the pair that comes 624 words after a step's; a barrier has to follow."""
        k, (even, odd) = self.k, self._at(number)
        first, second, third = words
        made = [
            odd[M // 2] ^ self._twisted(first, second),
            even[(M + 1) // 2] ^ self._twisted(second, third),
        ]
        with k.when(self.has_pair):
            for half, word in zip((even, odd), made, strict=True):
                half[PAIRS] = word

    def _at(self, number: Value) -> tuple[Pointer, Pointer]:
        even, odd = (each.at(number) for each in self.own)
        return even, odd

    def _twisted(self, first: Value, second: Value) -> Value:
        joined = second ^ ((first ^ second) & UPPER)
        return (joined >> 1) ^ ((second & 1) * MATRIX)

    def leave(self, target: Pointer, first: Value) -> None:
        """Store 624 words from a pair of those at hand on."""
        k = self.k
        with k.range(k.tid, PAIRS, BLOCK) as i:
            target.store(i * 2, [half[first + i] for half in self.halves])

    def turn(self) -> None:
        """Move the last state to the front, and begin there; ends with a barrier."""
        k = self.k
        with k.range(k.tid, PAIRS, BLOCK) as i:
            for half in self.halves:
                half[i] = half[i + WIDTH * STEPS]
        k.barrier()
        self.begin()


class Ranks:
    """How many attempts of a step are accepted before each."""

    def __init__(self, k: Builder) -> None:
        self.k, self.lane, self.warp = k, k.lane, k.tid >> 5
        self.totals, self.parity = k.shared(u32, (2, NUM_WARPS)), k.var(0, u32)

    def rank(self, accepted: list[Value]) -> tuple[Value, Value]:
        """How many are before the thread's first, and how many there are in all; there is a barrier in it."""
        k = self.k
        ballots = [k.ballot(each) for each in accepted]
        in_warp = k.popc(ballots[0])
        for ballot in ballots[1:]:
            in_warp = in_warp + k.popc(ballot)
        with k.when(self.lane == 0):
            self.totals[self.parity, self.warp] = in_warp
        k.barrier()
        each = [self.totals[self.parity, number] for number in range(NUM_WARPS)]
        self.parity.set(self.parity ^ 1)
        place, total = k.const(0, u32), each[0]
        for number, count in enumerate(each):
            place = place + k.where(self.warp > number, count, k.const(0, u32))
            total = total + count if number else total
        below = (k.const(1, u32) << self.lane) - 1
        for ballot in ballots:
            place = place + k.popc(ballot & below)
        return place, total


def sum_of(k: Builder, counts: Pointer, number: Value, sums: Pointer) -> Value:
    """The sum of the first counts, for all threads; `sums` is a word of shared memory per warp."""
    own = k.var(0, i64)
    with k.range(k.tid, number, BLOCK) as i:
        own.set(own + counts[i])
    total = own.get()
    for distance in (16, 8, 4, 2, 1):
        total = total + k.shfl_bfly(total, distance)
    with k.when(k.lane == 0):
        sums[k.tid >> 5] = total
    k.barrier()
    result = sums[0]
    for warp in range(1, NUM_WARPS):
        result = result + sums[warp]
    return result


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: DrawSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return (Count if spec.counts else Place)(spec.format, is_given=spec.is_given).build()


class Drawing:
    """What the kernels have in common."""

    name: str

    def __init__(self, format_: str, *, is_given: bool) -> None:
        self.made, self.is_given = FORMATS[format_], is_given
        self.k = k = Builder(self.name, block=BLOCK)
        self.declare()
        self.windows = k.pointer("windows", u32, "r")
        self.given = k.scalar("given", self.made.type) if is_given else None
        self.parameters = [k.scalar(f"parameter{i}", type_) for i, type_ in enumerate(self.made.parameters)]
        self.length, self.size = k.scalar("length", i64), k.scalar("size", i64)
        self.pairs = Pairs(k)
        self.lane, self.warp = k.lane, k.tid >> 5

    def declare(self) -> None:
        """Declare the first parameters."""

    def begin(self) -> None:
        """Load the stream's window."""
        k = self.k
        self.pairs.load(self.windows.at(k.cast(k.ctaid, i64) * N))
        k.barrier()
        self.pairs.begin()

    def attempts(self, words: list[Value], has_pair: Value) -> list[tuple[Value, Value, Attempt, list[Value]]]:
        """The thread's attempts of a step: whether each is accepted, the words up to its end, itself, and its point."""
        k, made = self.k, self.made
        outputs = [tempered(word) for word in words]
        if made.point is None:
            found: list[tuple[Value, Value, Attempt, list[Value]]] = []
            for start in range(0, len(outputs), made.words):
                attempt = made.make(k, outputs[start : start + made.words], self.parameters)
                assert attempt.is_accepted is not None
                found.append((attempt.is_accepted & has_pair, k.tid * 2 + (start + made.words), attempt, []))
            return found
        own = made.point(k, *outputs)
        point = [own, k.shfl_bfly(own, 1)]  # of even lanes
        attempt = made.make(k, point, self.parameters)
        assert attempt.is_accepted is not None
        return [(attempt.is_accepted & has_pair & ((self.lane & 1) == 0), k.tid * 2 + 4, attempt, point)]


class Count(Drawing):
    """Count what a stream accepts."""

    name = "twister_count"

    def declare(self) -> None:
        self.counts = self.k.pointer("counts", i64, "w")

    def build(self) -> Kernel:
        k = self.k
        total = k.shared(u32, 1)
        with k.when(k.tid == 0):
            total[0] = k.const(0, u32)
        self.begin()
        own, left = k.var(0, u32), k.var(self.length >> 1)  # pairs
        with k.loop():
            here = k.cast(k.min(left, WIDTH * STEPS), u32)
            with k.range(k.const(0, u32), here, WIDTH) as at:
                for accepted, *_ in self.attempts(self.pairs.step(at), self.pairs.has_pair & (k.tid + at < here)):
                    own.set(own + k.cast(accepted, u32))
                k.barrier()
            k.break_if(left <= WIDTH * STEPS)
            self.pairs.turn()
            left.set(left - WIDTH * STEPS)
        in_warp = k.redux("add", own.get())
        with k.when(self.lane == 0):
            total.atomic("add", 0, in_warp, order="relaxed.cta")
        k.barrier()
        with k.when(k.tid == 0):
            self.counts[k.ctaid] = k.cast(total[0], i64)
        return k.build()


class Place(Drawing):
    """Store what is accepted, in order."""

    name = "twister_draw"

    def declare(self) -> None:
        k = self.k
        self.out, self.result = k.pointer("out", self.made.type, "w"), k.pointer("result", i64)
        self.left, self.counts = k.pointer("left", u32, "w"), k.pointer("counts", i64, "r")

    def build(self) -> Kernel:
        k, made = self.k, self.made
        self.ranks, self.sums = Ranks(k), k.shared(i64, NUM_WARPS)
        self.queue = None if made.point is None else k.shared(f64, (MOST_POINTS, 2))
        self.last = k.shared(u32, 1)  # words up to the end of the last attempt
        self.begin()
        if self.given is not None:
            with k.when((k.ctaid == 0) & (k.tid == 0)):
                self.out[0] = self.given
        self.needed = (self.size - self.is_given + (made.gives - 1)) / made.gives
        before = k.var(self.sum_before())
        begin, length = self.extent()
        done, left = k.var(begin), k.var(length >> 1)
        with k.loop():
            k.break_if(before >= self.needed)
            found = k.var(0, u32)
            here = k.cast(k.min(left, WIDTH * STEPS), u32)
            self.limit = k.cast(k.min(self.needed - before, 2 * WIDTH * STEPS), u32)  # none accepts more at a time
            self.target = self.out.at(before.get())
            with k.range(k.const(0, u32), here, WIDTH) as at:
                has_pair = self.pairs.has_pair & (k.tid + at < here)
                found.set(found + self.step(at, has_pair, found.get()))
            after = before + k.cast(found.get(), i64)
            k.barrier()
            if self.queue is not None:
                self.empty(before.get(), k.min(found.get(), self.limit))
            with k.when((before < self.needed) & (self.needed <= after)):
                words = self.last[0]
                end = (words + 1) >> 1
                self.pairs.leave(self.left, end)
                with k.when(k.tid == 0):
                    self.result.store(0, [done + k.cast(words, i64), done + k.cast(end * 2, i64)])
            k.break_if(left <= WIDTH * STEPS)
            k.barrier()
            self.pairs.turn()
            before.set(after)
            done.set(done + 2 * WIDTH * STEPS)
            left.set(left - WIDTH * STEPS)
        return k.build()

    def extent(self) -> tuple[Value, Value]:
        """The first word of the block's, and how many it has."""
        return self.k.cast(self.k.ctaid, i64) * self.length, self.length

    def step(self, at: Value, has_pair: Value, found: Value) -> Value:
        """Find what a step accepts, after so many that were found since `target`; return how many that is."""
        k = self.k
        attempts = self.attempts(self.pairs.step(at), has_pair)
        before, total = self.ranks.rank([accepted for accepted, *_ in attempts])
        place = found + before
        for accepted, words, attempt, point in attempts:
            with k.when(accepted & (place < self.limit)):
                if self.queue is not None:
                    self.queue.store((place, 0), point)
                else:
                    self.target[place] = attempt.values()[0]
            with k.when(accepted & (place + 1 == self.limit)):
                self.last[0] = at * 2 + words
            place = place + k.cast(accepted, u32)
        return total

    def empty(self, before: Value, found: Value) -> None:
        """Store the results of the points that wait."""
        k = self.k
        assert self.queue is not None
        with k.range(k.tid, found, BLOCK) as number:
            rank = before + k.cast(number, i64)
            attempt = self.made.make(k, list(self.queue.load((number, 0), 2)), self.parameters)
            self.store(rank, attempt, is_last=rank + 1 == self.needed)

    def sum_before(self) -> Value:
        """How many attempts the streams before this one accept."""
        return sum_of(self.k, self.counts, self.k.ctaid, self.sums)

    def store(self, rank: Value, attempt: Attempt, *, is_last: Value) -> None:
        """Store the results of an attempt; the second of the last may be left over."""
        k = self.k
        values = attempt.values()
        at = rank * self.made.gives + int(self.is_given)
        self.out[at] = values[0]
        if self.made.gives == 1:
            return
        has_room = k.var(at + 1 < self.size, pred)
        with k.when(has_room):
            self.out[at + 1] = values[1]
        with k.when(is_last):
            is_left = ~has_room.get()
            bits = k.cast(k.bitcast(values[1], u64), i64)
            self.result[2] = k.where(is_left, bits, k.const(0, i64))
            self.result[3] = k.cast(is_left, i64)


__all__ = ["BLOCK", "NUM_WARPS", "STEPS", "WIDTH", "Count", "DrawSpec", "Drawing", "Place", "Ranks", "make", "sum_of"]
