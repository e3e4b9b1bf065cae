"""States of MT19937 far ahead: one for every stream that a large draw is cut into.

Data layout: `windows` are 624 words per stream, `sequences` the words that follow those of streams that others are made
of. Streams are made in rounds, `RADIX` times as many in each: a round continues the words of the last one's streams
(`sequence`), then adds up those words that a polynomial says (`jump`). Who owns what: of a sequence, a block; of a sum,
a lane has `OUTPUTS` words that follow each other, so that a warp has all 624 for a range of coefficients; warps add
theirs in shared memory, blocks in global. Work per coefficient and warp: 1.6 loads from shared memory, and half the
time `OUTPUTS` additions, which for two coefficients are one instruction.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.random.twister import COEFFICIENT_WORDS, FREE, LOWER, MATRIX, UPPER, M, N
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

BLOCK, WARP = 256, 32
OUTPUTS = 21  # of a lane: odd, so that lanes read from different banks, and 30 lanes have them all
SEQUENCE = N * (-(-(COEFFICIENT_WORDS * 32 + N) // N) + 1)  # words that are kept of a stream
JUMP_WARPS = 4
MOST_PER_WARP = 39  # words of coefficients, so that a block's words fit shared memory
JUMP_BLOCKS_PER_SM = 7  # of 72 registers per thread


class JumpSpec(Frozen):
    """A kernel of the family.

    Attributes
    ----------
    is_sequence : bool
        It continues words; else it adds them up.
    """

    is_sequence: bool


class Twister:
    """The words of a stream in shared memory, 624 at a time, in two places by turns.

    Parameters
    ----------
    k : Builder
    """

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.words = k.shared(u32, 2 * N)
        self.at = k.var(0, u32)  # where the words at hand are

    def load(self, window: Pointer) -> None:
        """Begin with the words of a window; a barrier has to follow."""
        k = self.k
        with k.range(k.tid, N, BLOCK) as i:
            self.words[i] = window[i]

    def word(self, number: Any) -> Value:
        """A word of those at hand."""
        return self.words[self.at + number]

    def turn(self) -> None:
        """Go on to the next 624 words; all threads call this, and it ends with a barrier.

        A thread makes words `FREE` apart, each of which needs the one before, so that it waits for no other; only the
        last word needs the first of the new ones, which its thread makes as well.
        """
        k = self.k
        to = k.const(N, u32) - self.at
        with k.when(k.tid < FREE):
            value = self.word(k.tid + M) ^ self._twisted(self.word(k.tid), self.word(k.tid + 1))
            self.words[to + k.tid] = value
            value = value ^ self._twisted(self.word(k.tid + FREE), self.word(k.tid + (FREE + 1)))
            self.words[to + k.tid + FREE] = value
            last = N - 1 - 2 * FREE
            with k.when(k.tid <= last):
                after = k.var(self.word(k.min(k.tid + (2 * FREE + 1), N - 1)))
                with k.when(k.tid == last):
                    after.set(self.word(M) ^ self._twisted(self.word(0), self.word(1)))
                self.words[to + k.tid + 2 * FREE] = value ^ self._twisted(self.word(k.tid + 2 * FREE), after.get())
        k.barrier()
        self.at.set(to)

    def _twisted(self, first: Value, second: Value) -> Value:
        k = self.k
        joined = (first & UPPER) | (second & LOWER)
        return (joined >> 1) ^ k.where((joined & 1) != 0, k.const(MATRIX, u32), k.const(0, u32))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: JumpSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _sequence() if spec.is_sequence else _jump()


def _sequence() -> Kernel:
    """A block continues the words of stream ``first + its number``."""
    k = Builder("twister_sequence", block=BLOCK)
    windows, sequences = k.pointer("windows", u32, "r"), k.pointer("sequences", u32, "w")
    first, count = k.scalar("first", u32), k.scalar("count", u32)
    stream = k.cast(first + k.ctaid, i64)
    twister = Twister(k)
    twister.load(windows.at(stream * N))
    k.barrier()
    target = sequences.at(stream * SEQUENCE)
    with k.range(k.const(0, u32), count, N) as start:
        with k.range(k.tid, N, BLOCK) as i:
            target[start + i] = twister.word(i)
        twister.turn()
    return k.build()


def _jump() -> Kernel:
    """A block adds up words for a stream and a range of coefficients.

    Its coordinates in the grid are the range and the number of the stream after those that are there; of `num_sources`
    streams, each polynomial makes as many.
    """
    k = Builder("twister_jump", block=JUMP_WARPS * WARP, min_blocks=JUMP_BLOCKS_PER_SM)
    windows, sequences = k.pointer("windows", u32), k.pointer("sequences", u32, "r")
    polynomials = k.pointer("polynomials", u32, "r")
    num_sources, per_warp, num_words = (k.scalar(name, u32) for name in ("num_sources", "per_warp", "num_words"))
    number = k.ctaid.y
    source = sequences.at(k.cast(number % num_sources, i64) * SEQUENCE)
    polynomial = polynomials.at(k.cast(number / num_sources, i64) * COEFFICIENT_WORDS)
    lane, warp = k.lane, k.tid >> 5
    staged = k.shared(u32, 32 * JUMP_WARPS * MOST_PER_WARP + OUTPUTS * WARP)
    totals = k.shared(u32, OUTPUTS * WARP)
    begin = k.ctaid.x * JUMP_WARPS * per_warp
    end = k.min(begin + per_warp * JUMP_WARPS, num_words)
    with k.range(k.tid, (k.max(end, begin) - begin) * 32 + OUTPUTS * (WARP - 2), JUMP_WARPS * WARP) as i:
        staged[i] = source[begin * 32 + i]
    with k.range(k.tid, OUTPUTS * WARP, JUMP_WARPS * WARP) as i:
        totals[i] = k.const(0, u32)
    k.barrier()
    sums = [k.var(0, u32) for _ in range(OUTPUTS)]
    first = begin + warp * per_warp
    with k.range(first, k.min(first + per_warp, num_words)) as word:
        _add_up(k, polynomial[word], staged.at((word - begin) * 32 + k.min(lane, WARP - 3) * OUTPUTS), sums)
    for j, each in enumerate(sums):
        totals.atomic("xor", lane * OUTPUTS + j, each.get(), order="relaxed.cta")
    k.barrier()
    target = windows.at(k.cast(num_sources + number, i64) * N)
    with k.range(k.tid, N, JUMP_WARPS * WARP) as i:
        target.atomic("xor", i, totals[i])
    return k.build()


def _add_up(k: Builder, bits: Value, source: Pointer, sums: list[Var]) -> None:
    """Add words for 32 coefficients; those of two at once."""
    words = [source[i] for i in range(32 + OUTPUTS - 1)]
    for i in range(0, 32, 2):
        pair = (bits >> i) & 3
        for case, shifts in ((1, (0,)), (2, (1,)), (3, (0, 1))):
            with k.when(pair == case):
                for j, each in enumerate(sums):
                    total = each.get()
                    for shift in shifts:
                        total = total ^ words[i + shift + j]
                    each.set(total)


__all__ = ["BLOCK", "JUMP_WARPS", "MOST_PER_WARP", "SEQUENCE", "JumpSpec", "Twister", "make"]
