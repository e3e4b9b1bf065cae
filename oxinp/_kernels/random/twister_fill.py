"""Draws from MT19937 that take a fixed number of words each: uniform numbers, raw words.

The words of a draw are cut into streams of equal length, whose first states come from jumps (see `twister_jump`); a
block makes a stream's words, `BLOCK` pairs in a step. Data layout: the words of even and of odd numbers lie apart in
shared memory, `STEPS` steps of them after those of the state, so that every address is a thread's own and a constant;
after as many steps the last 312 pairs are the state, and move to the front. Who owns what: a thread takes a pair of
words, makes the one that comes 624 words later from words that other threads have made in earlier steps, tempers its
pair in registers and stores what it gives, 8 bytes. The block that has the last word leaves the 624 words that follow
it, untempered, from which the host knows NumPy's state. Bytes per element: itself, once. Instructions per pair: 7 of
shared memory, 12 for the recurrence, 16 for tempering, about 10 for the result.

Source: NumPy's src/mt19937.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.twister import FREE, LOWER, MATRIX, UPPER, M, N
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
BLOCK = 96  # so that no pair of a step needs another one of it
STEPS = 13  # which make 4 states
assert FREE > 2 * BLOCK
assert PAIRS <= BLOCK * STEPS


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
        self.halves = tuple(k.shared(u32, PAIRS + BLOCK * STEPS) for _ in range(2))  # even words, odd words

    def load(self, window: Pointer) -> None:
        """Begin with a state; a barrier has to follow."""
        k = self.k
        with k.range(k.tid, PAIRS, BLOCK) as i:
            for half, word in zip(self.halves, window.load(i * 2, 2), strict=True):
                half[i] = word

    def step(self, number: int | Value) -> list[Value]:
        """Give the thread's pair of a step, and make the one that comes 624 words later; ends with a barrier.

        Parameters
        ----------
        number : int or Value
            Of the step; as a `Value` times `BLOCK`.
        """
        words = self.make(number)
        self.k.barrier()
        return words

    def make(self, number: int | Value) -> list[Value]:
        """Do the same; a barrier has to follow."""
        k, (even, odd) = self.k, self.halves
        at = k.tid + number * BLOCK if isinstance(number, int) else k.tid + number
        first, second, third = even[at], odd[at], even[at + 1]
        even[at + PAIRS] = odd[at + M // 2] ^ self._twisted(first, second)
        odd[at + PAIRS] = even[at + (M + 1) // 2] ^ self._twisted(second, third)
        return [first, second]

    def _twisted(self, first: Value, second: Value) -> Value:
        k = self.k
        joined = (first & UPPER) | (second & LOWER)
        return (joined >> 1) ^ ((k.const(0, u32) - (second & 1)) & MATRIX)

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
                half[i] = half[i + BLOCK * STEPS]
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
    with k.loop():
        k.break_if(todo < 2 * BLOCK * STEPS)
        own = out.at(done / made.words + k.cast(k.tid * per_pair, i64))
        for number in range(STEPS):  # a pair gives one element, or two that are stored at once
            own.store(number * BLOCK * per_pair, _elements(k, made, pairs.step(number)))
        pairs.turn()
        done.set(done + 2 * BLOCK * STEPS)
        todo.set(todo - 2 * BLOCK * STEPS)
    num_left = k.cast(todo.get(), u32)
    with k.range(k.const(0, u32), num_left, 2 * BLOCK) as at:
        values = _elements(k, made, pairs.step(at >> 1))
        for number, value in enumerate(values):
            element = (done + k.cast(at, i64)) / made.words + k.cast(k.tid * per_pair + number, i64)
            with k.when((element < size) & (element * made.words < begin + length)):
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


__all__ = ["BLOCK", "PAIRS", "STEPS", "Pairs", "TwisterFillSpec", "make"]
