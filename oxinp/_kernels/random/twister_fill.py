"""Draws from MT19937 that take a fixed number of words each: uniform numbers, raw words.

The words of a draw are cut into streams of equal length, whose first states come from jumps (see `twister_jump`); a
block makes a stream's words, `WIDTH` pairs in a step. Data layout: the words of even and of odd numbers lie apart in
shared memory, `STEPS` steps of them after those of the state, so that every address is a thread's own and a constant;
after as many steps the last 312 pairs are the state, which the steps that make them leave at the front as well. Who
owns what: a thread takes a pair of words, makes the one that comes 624 words later from words that other threads have
made in earlier steps, tempers its pair in registers and stores what it gives, 8 bytes. Of what a thread needs only two
words are of the step before: it has the others before the barrier. The block that has the last word leaves the 624
words that follow it, untempered, from which the host knows NumPy's state. Bytes per element: itself, once. Instructions
per pair of f64 (SASS): 8 of memory, 10 for the recurrence, 16 for tempering, 7 for the result; 22 of these are of the
pipe for logic and shifts, which does half an instruction per cycle and takes 44 cycles.

Source: NumPy's src/mt19937.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.twister import FREE, MATRIX, UPPER, M, N
from oxinp._kernels.random.twister_formats import FORMATS, tempered
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.random.twister_formats import Format
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

PAIRS = N // 2  # of a state
BLOCK = 128  # a warp for each scheduler
WIDTH = 112  # pairs of a step, of which none needs another one
STEPS = 14
assert 2 * WIDTH <= FREE
assert 2 * (PAIRS + 2 * WIDTH) <= WIDTH * STEPS  # the front is free when the last steps leave words there


class TwisterFillSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    format : str
        A key of `twister_formats.FORMATS` of which no attempt is rejected.
    """

    format: str


class Pairs:
    """The pairs of a stream in shared memory: those of a state, then those of the steps."""

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.halves = tuple(k.shared(u32, PAIRS + WIDTH * STEPS + 1) for _ in range(2))  # even words, odd words
        self.has_pair = k.tid < WIDTH
        # Threads that have none read what others do, from other banks than the rest of their warp, and store nothing.
        self.own = [half.at(k.where(self.has_pair, k.tid, k.tid - (WIDTH - BLOCK % WIDTH))) for half in self.halves]

    def load(self, window: Pointer) -> None:
        """Begin with a state; a barrier has to follow."""
        k = self.k
        with k.range(k.tid, PAIRS, BLOCK) as i:
            for half, word in zip(self.halves, window.load(i * 2, 2), strict=True):
                half[i] = word

    def words(self, number: int | Value) -> list[Value]:
        """The thread's pair of a step, and the first word of the next pair.

        Parameters
        ----------
        number : int or Value
            Of the step; as a `Value` times `WIDTH`.
        """
        even, odd = self._at(number)
        return [even[0], odd[0], even[1]]

    def make(self, number: int | Value, words: list[Value]) -> None:
        """Make the pair that comes 624 words after a step's; a barrier has to follow.

        In steps that are numbers of Python the last 312 pairs go to the front as well; else `turn` moves them.
        """
        k, (even, odd) = self.k, self._at(number)
        first, second, third = words
        made = [
            odd[M // 2] ^ self._twisted(first, second),
            even[(M + 1) // 2] ^ self._twisted(second, third),
        ]
        with k.when(self.has_pair):
            for half, word in zip((even, odd), made, strict=True):
                half[PAIRS] = word
        fewest = WIDTH * STEPS - PAIRS
        if isinstance(number, int) and (number + 1) * WIDTH > fewest:
            with k.when(self.has_pair & (k.tid + number * WIDTH >= fewest)):
                for half, word in zip((even, odd), made, strict=True):
                    half[-fewest] = word

    def _at(self, number: int | Value) -> tuple[Pointer, Pointer]:
        even, odd = (each.at(number * WIDTH if isinstance(number, int) else number) for each in self.own)
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
        """Move the last state to the front; ends with a barrier."""
        k = self.k
        with k.range(k.tid, PAIRS, BLOCK) as i:
            for half in self.halves:
                half[i] = half[i + WIDTH * STEPS]
        k.barrier()


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TwisterFillSpec) -> Kernel:
    """Build the kernel of a Spec."""
    made = FORMATS[spec.format]
    k = Builder("twister_fill", block=BLOCK)
    out, result = k.pointer("out", made.type, "w"), k.pointer("result", i64, "w")
    left, windows = k.pointer("left", u32, "w"), k.pointer("windows", u32, "r")
    length, size = k.scalar("length", i64), k.scalar("size", i64)
    stream, per_pair = k.cast(k.ctaid, i64), 2 // made.words
    pairs = Pairs(k)
    pairs.load(windows.at(stream * N))
    k.barrier()
    total = size * made.words
    begin = stream * length
    todo = k.var(k.min(length, total - begin))  # words
    done = k.var(begin)
    words = [k.var(word) for word in pairs.words(0)]
    with k.loop():
        k.break_if(todo < 2 * WIDTH * STEPS)
        own = out.at(done / made.words + k.cast(k.tid * per_pair, i64))
        for number in range(STEPS):
            held = [word.get() for word in words]
            pairs.make(number, held)
            # What the step after the last one begins with was left at the front too
            for word, value in zip(words, pairs.words(number + 1), strict=True):
                word.set(value)
            k.barrier()
            values = _elements(k, made, held[:2])
            with k.when(pairs.has_pair):  # a pair gives one element, or two that are stored at once
                own.store(number * WIDTH * per_pair, values)
        done.set(done + 2 * WIDTH * STEPS)
        todo.set(todo - 2 * WIDTH * STEPS)
    num_left = k.cast(todo.get(), u32)
    with k.range(k.const(0, u32), num_left, 2 * WIDTH) as at:
        held = pairs.words(at >> 1)
        pairs.make(at >> 1, held)
        k.barrier()
        for number, value in enumerate(_elements(k, made, held[:2])):
            element = (done + k.cast(at, i64)) / made.words + k.cast(k.tid * per_pair + number, i64)
            with k.when(pairs.has_pair & (element < size) & (element * made.words < begin + length)):
                out[element] = value
    with k.when(begin + length >= total):
        end = (num_left + 1) >> 1
        pairs.leave(left, end)
        with k.when(k.tid == 0):
            result.store(0, [total, done + k.cast(end * 2, i64)])
    return k.build()


def _elements(k: Builder, made: Format, words: list[Value]) -> list[Value]:
    """What a pair gives."""
    outputs: list[Any] = [tempered(word) for word in words]
    attempts = [outputs] if made.words == 2 else [[output] for output in outputs]
    return [value for attempt in attempts for value in made.make(k, attempt, ()).values()]


__all__ = ["BLOCK", "PAIRS", "STEPS", "WIDTH", "Pairs", "TwisterFillSpec", "make"]
