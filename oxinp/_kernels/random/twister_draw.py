"""Draws from MT19937 whose attempts may be rejected: polar normals, integers by masked or by Lemire's rejection.

The words of a draw are cut into streams of equal length, whose first states come from jumps (see `twister_jump`); a
block makes a stream's words, 624 at a time. A first launch counts what every stream accepts and a second one makes the
words again: where a stream's results go is the sum of the counts before it. Data layout: results are contiguous. Who
owns what: a thread makes three of 624 words, and uses an attempt of its own number, or three that follow each other.
The block that has the last word leaves the 624 words at hand, untempered, from which the host knows NumPy's state.
Bytes per element: itself, once. Instructions per word: about 25 in each launch.

Source: NumPy's src/mt19937 and src/legacy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.fill import uniform_f32, uniform_f64
from oxinp._kernels.random.twister import N
from oxinp._kernels.random.twister_jump import BLOCK, Twister
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.math.power import log2_parts
from oxinp._ptx.types import f32, f64, i64, pred, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = BLOCK // WARP
LN2, LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
RESULT_WORDS = 4  # words taken, number of the first word that is left, a normal that is left over, whether there is one


def tempered(word: Value) -> Value:
    """What the generator gives for a word."""
    word = word ^ (word >> 11)
    word = word ^ ((word << 7) & 0x9D2C5680)
    word = word ^ ((word << 15) & 0xEFC60000)
    result: Value = word ^ (word >> 18)
    return result


def _double(k: Builder, first: Value, second: Value) -> Value:
    """``((first >> 5) * 2**26 + (second >> 6)) * 2**-53``."""
    return uniform_f64(k, (second & 0xFFFFFFC0) << 5, (first & 0xFFFFFFE0) | (second >> 27))


class Attempt(NamedTuple):
    """What an attempt says.

    Attributes
    ----------
    is_accepted : Value
    values : callable
        ``values()`` -> the results, where it is accepted.
    """

    is_accepted: Value | None
    values: Callable[[], list[Value]]


class Format(Frozen, eq=False):
    """What is made of words.

    Attributes
    ----------
    name : str
    type : Type
        Of elements.
    words : int
        That an attempt takes.
    make : callable
        ``make(k, words, parameters)`` -> `Attempt`.
    gives : int
        Results of an attempt.
    per_thread : int
        Attempts of a thread in 624 words; 0 where none is rejected.
    parameters : tuple of Type
    """

    name: str
    type: Type
    words: int
    make: Callable[..., Attempt]
    gives: int = 1
    per_thread: int = 0
    parameters: tuple[Type, ...] = ()


def _always(make: Callable[..., Value]) -> Callable[..., Attempt]:
    return lambda k, words, _: Attempt(None, lambda: [make(k, *words)])


def _log(k: Builder, x: Value) -> Value:
    """The logarithm of a number between 0 and 1, rounded as good as always correctly, as the C library's is."""
    high, low = log2_parts(k, x)
    product = high * LN2
    result: Value = product + (k.fma(high, LN2, -product) + k.fma(high, LN2_LOW, low * LN2))
    return result


def _polar(k: Builder, words: list[Value], _: Any) -> Attempt:
    """Marsaglia's polar method; the second result is the one that NumPy keeps for the next call."""
    x, y = (_double(k, *words[i : i + 2]) * 2.0 - 1.0 for i in (0, 2))
    square = x * x + y * y

    def values() -> list[Value]:
        factor = k.sqrt((_log(k, square) * -2.0) / square)
        return [factor * y, factor * x]

    return Attempt((square < 1.0) & (square != 0.0), values)


def _masked(type_: Type) -> Callable[..., Attempt]:
    def make(k: Builder, words: list[Value], parameters: Any) -> Attempt:
        mask, largest, offset = parameters
        value = words[0] & mask
        return Attempt(value <= largest, lambda: [(value if type_ is u32 else k.cast(value, u64)) + offset])

    return make


def _lemire(type_: Type) -> Callable[..., Attempt]:
    def make(k: Builder, words: list[Value], parameters: Any) -> Attempt:
        count, threshold, offset = parameters
        low, high = k.unpack(k.mul_wide(words[0], count))
        return Attempt(low >= threshold, lambda: [(high if type_ is u32 else k.cast(high, u64)) + offset])

    return make


FORMATS = {
    each.name: each
    for each in (
        Format("uniform_f64", f64, 2, _always(_double)),
        Format("uniform_f32", f32, 1, _always(uniform_f32)),
        Format("halves", u32, 1, _always(lambda k, word: word)),  # noqa: ARG005 - one signature
        Format("words", u64, 2, _always(lambda k, high, low: k.pack(low, high))),
        Format("polar_f64", f64, 4, _polar, gives=2, per_thread=1),
        Format("lemire_u32", u32, 1, _lemire(u32), per_thread=3, parameters=(u32, u32, u32)),
        Format("lemire_u32_as_u64", u64, 1, _lemire(u64), per_thread=3, parameters=(u32, u32, u64)),
        Format("masked_u32", u32, 1, _masked(u32), per_thread=3, parameters=(u32, u32, u32)),
        Format("masked_u64", u64, 1, _masked(u64), per_thread=3, parameters=(u32, u32, u64)),
    )
}


class DrawSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    format : str
        A key of `FORMATS`.
    counts : bool
        It counts what is accepted; else it stores.
    is_given : bool
        The first result is given.
    """

    format: str
    counts: bool
    is_given: bool


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: DrawSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return (_Count if spec.counts else _Place)(spec).build()


class _Drawing:
    """What the kernels have in common."""

    def __init__(self, spec: DrawSpec) -> None:
        self.spec, self.made = spec, FORMATS[spec.format]
        self.k = k = Builder(f"twister_{'count' if spec.counts else 'draw'}", block=BLOCK)
        self.declare()
        self.windows = k.pointer("windows", u32, "r")
        self.given = k.scalar("given", self.made.type) if spec.is_given else None
        self.parameters = [k.scalar(f"parameter{i}", type_) for i, type_ in enumerate(self.made.parameters)]
        self.length, self.size = k.scalar("length", i64), k.scalar("size", i64)
        self.start = k.cast(k.ctaid, i64) * self.length
        self.twister = Twister(k)

    def declare(self) -> None:
        """Declare the first parameters."""

    def begin(self) -> None:
        """Load the stream's window."""
        self.twister.load(self.windows.at(self.k.cast(self.k.ctaid, i64) * N))
        self.k.barrier()

    def attempt(self, number: Value) -> Attempt:
        """An attempt of the words at hand."""
        words = [tempered(self.twister.word(number * self.made.words + i)) for i in range(self.made.words)]
        return self.made.make(self.k, words, self.parameters)

    def leave(self, result: Any, left: Any, at: Value) -> None:
        """Leave the words at hand, of which the first is number `at` of the draw."""
        k = self.k
        with k.range(k.tid, N, BLOCK) as i:
            left[i] = self.twister.word(i)
        with k.when(k.tid == 0):
            result[1] = at


class _Count(_Drawing):
    """Count what a stream accepts."""

    def declare(self) -> None:
        self.counts = self.k.pointer("counts", i64, "w")

    def build(self) -> Kernel:
        k, made = self.k, self.made
        total = k.shared(u32, 1)
        with k.when(k.tid == 0):
            total[0] = k.const(0, u32)
        self.begin()
        own = k.var(0, u32)
        with k.range(k.const(0, i64), self.length, N) as at:
            limit = k.cast(k.min((self.length - at) / made.words, N // made.words), u32)
            for i in range(made.per_thread):
                number = k.tid * made.per_thread + i
                with k.when(number < limit):
                    own.set(own + k.cast(self.attempt(number).is_accepted, u32))
            self.twister.turn()
        in_warp = k.redux("add", own.get())
        with k.when(k.lane == 0):
            total.atomic("add", 0, in_warp, order="relaxed.cta")
        k.barrier()
        with k.when(k.tid == 0):
            self.counts[k.ctaid] = k.cast(total[0], i64)
        return k.build()


class _Place(_Drawing):
    """Store what is accepted, in order."""

    def declare(self) -> None:
        k = self.k
        self.out, self.result = k.pointer("out", self.made.type, "w"), k.pointer("result", i64)
        self.left, self.counts = k.pointer("left", u32, "w"), k.pointer("counts", i64, "r")

    def build(self) -> Kernel:
        k, made = self.k, self.made
        self.totals, self.sums = k.shared(u32, NUM_WARPS), k.shared(i64, NUM_WARPS)
        self.begin()
        if self.given is not None:
            with k.when((k.ctaid == 0) & (k.tid == 0)):
                self.out[0] = self.given
        needed = (self.size - self.spec.is_given + (made.gives - 1)) / made.gives
        before = k.var(self.sum_before())
        with k.range(k.const(0, i64), self.length, N) as at:
            k.break_if(before >= needed)
            limit = k.cast(k.min((self.length - at) / made.words, N // made.words), u32)
            attempts = []
            for i in range(made.per_thread):
                number = k.tid * made.per_thread + i
                is_there = number < limit
                attempt = self.attempt(k.where(is_there, number, k.const(0, u32)))
                assert attempt.is_accepted is not None
                attempts.append((number, attempt.is_accepted & is_there, attempt))
            place, total = self.places([accepted for _, accepted, _ in attempts])
            after = before + k.cast(total, i64)
            with k.when((before < needed) & (needed <= after)):
                self.leave(self.result, self.left, self.start + at)
            rank = k.var(before + k.cast(place, i64))
            for number, accepted, attempt in attempts:
                with k.when(accepted):
                    with k.when(rank < needed):
                        self.store(rank.get(), attempt, is_last=rank + 1 == needed)
                    with k.when(rank + 1 == needed):
                        self.result[0] = self.start + at + k.cast((number + 1) * made.words, i64)
                    rank.set(rank + 1)
            before.set(after)
            self.twister.turn()
        return k.build()

    def sum_before(self) -> Value:
        """How many attempts the streams before this one accept."""
        k = self.k
        own = k.var(0, i64)
        with k.range(k.tid, k.ctaid, BLOCK) as stream:
            own.set(own + self.counts[stream])
        total = own.get()
        for distance in (16, 8, 4, 2, 1):
            total = total + k.shfl_bfly(total, distance)
        with k.when(k.lane == 0):
            self.sums[k.tid >> 5] = total
        k.barrier()
        result = self.sums[0]
        for number in range(1, NUM_WARPS):
            result = result + self.sums[number]
        return result

    def places(self, accepted: list[Value]) -> tuple[Value, Value]:
        """How many attempts of threads before this one are accepted, and how many of all."""
        k = self.k
        warp = k.tid >> 5
        below = (k.const(1, u32) << k.lane) - 1
        words = [k.ballot(each) for each in accepted]
        place, in_warp = k.popc(words[0] & below), k.popc(words[0])
        for word in words[1:]:
            place, in_warp = place + k.popc(word & below), in_warp + k.popc(word)
        with k.when(k.lane == 0):
            self.totals[warp] = in_warp
        k.barrier()
        total = k.const(0, u32)
        for number in range(NUM_WARPS):
            each = self.totals[number]
            place = place + k.where(warp > number, each, k.const(0, u32))
            total = total + each
        return place, total

    def store(self, rank: Value, attempt: Attempt, *, is_last: Value) -> None:
        """Store the results of an attempt; the second of the last may be left over."""
        k = self.k
        values = attempt.values()
        at = rank * self.made.gives + int(self.spec.is_given)
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


__all__ = ["FORMATS", "RESULT_WORDS", "DrawSpec", "Format", "make", "tempered"]
