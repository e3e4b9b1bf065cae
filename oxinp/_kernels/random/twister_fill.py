"""Draws from MT19937 that take a fixed number of words each: uniform numbers, raw words.

The words of a draw are cut into streams of equal length, whose first states come from jumps (see `twister_jump`); a
block makes a stream's words, `STEP` of them between two barriers. Data layout: words lie in shared memory, those of
`STEPS` steps after those of the state, so that every address is a thread's own and a constant; after as many steps the
last 624 words are the state, which the steps that make them leave at the front as well. Who owns what: a thread makes
two words, of which the second needs the first: 227 words lie between them, as far as the recurrence reaches back from a
word to the nearest one that it needs. It tempers a pair of words that are made already and stores what it gives, 8
bytes. The block that has the last word leaves the 624 words that follow it, untempered, from which the host knows
NumPy's state. Bytes per element: itself, once. Instructions per pair of f64 (SASS): 9 of memory, 10 for the recurrence,
16 for tempering, 7 for the result; 22 of these are of the pipe for logic and shifts, which does half an instruction per
cycle and takes 44 cycles. A step takes no less than a barrier and a way through shared memory, 150 cycles.

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

BLOCK, WARP = 256, 32
STEP = 2 * FREE  # words between two barriers
STEPS = 8
assert FREE <= BLOCK
assert N + STEP <= STEP * (STEPS - 2)  # the front is free when the last steps leave words there


class TwisterFillSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    format : str
        A key of `twister_formats.FORMATS` of which no attempt is rejected.
    """

    format: str


class Stream:
    """The words of a stream in shared memory: those of a state, then those of the steps."""

    def __init__(self, k: Builder) -> None:
        self.k = k
        self.words = k.shared(u32, N + STEP * STEPS + 2)
        self.is_maker = k.tid < FREE
        # Other threads read what those of the warp before do, and store nothing.
        number = k.where(self.is_maker, k.tid, k.tid - WARP)
        self._own, self._pair = self.words.at(number), self.words.at(number * 2)

    def load(self, window: Pointer) -> None:
        """Begin with a state; a barrier has to follow."""
        k = self.k
        with k.range(k.tid, N, BLOCK) as i:
            self.words[i] = window[i]

    def ask(self, number: int | Value) -> list[Value]:
        """The words that `make` needs in a step, and at last the thread's pair of it.

        Parameters
        ----------
        number : int or Value
            Of the step; as a `Value` times `STEP`.
        """
        own, pair = self._at(number)
        return [*[own[i] for i in (0, 1, M, FREE, FREE + 1)], *pair.load(0, 2)]

    def make(self, number: int | Value, asked: list[Value], *, to_front: bool = True) -> None:
        """Make the words that come 624 after a step's; a barrier has to follow.

        In steps that are numbers of Python the last 624 words go to the front as well, if wanted.
        """
        k, (own, _) = self.k, self._at(number)
        first = asked[2] ^ self._twisted(asked[0], asked[1])
        made = [first, first ^ self._twisted(asked[3], asked[4])]
        with k.when(self.is_maker):
            for i, word in enumerate(made):
                own[N + i * FREE] = word
        if not to_front:
            return
        fewest = STEP * STEPS - N
        for i, word in enumerate(made):
            lowest = number * STEP + i * FREE if isinstance(number, int) else fewest - FREE
            if lowest + FREE > fewest:
                with k.when(self.is_maker & (k.tid + lowest >= fewest)):
                    own[i * FREE - fewest] = word

    def _at(self, number: int | Value) -> tuple[Pointer, Pointer]:
        own, pair = (each.at(number * STEP if isinstance(number, int) else number) for each in (self._own, self._pair))
        return own, pair

    def _twisted(self, first: Value, second: Value) -> Value:
        joined = second ^ ((first ^ second) & UPPER)
        return (joined >> 1) ^ ((second & 1) * MATRIX)

    def make_all(self) -> None:
        """Make the words of all steps, and leave the front as it is; ends with a barrier."""
        for number in range(STEPS):
            self.make(number, self.ask(number), to_front=False)
            self.k.barrier()

    def turn(self) -> None:
        """Move the last state to the front; ends with a barrier."""
        k = self.k
        with k.range(k.tid, N, BLOCK) as i:
            self.words[i] = self.words[i + STEP * STEPS]
        k.barrier()

    def leave(self, target: Pointer, first: Value) -> None:
        """Store 624 words from one of those at hand on."""
        k = self.k
        with k.range(k.tid, N, BLOCK) as i:
            target[i] = self.words[first + i]


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
    words = Stream(k)
    words.load(windows.at(stream * N))
    k.barrier()
    total = size * made.words
    begin = stream * length
    todo = k.var(k.min(length, total - begin))  # words
    done = k.var(begin)
    asked = [k.var(word) for word in words.ask(0)]
    with k.loop():
        k.break_if(todo < STEP * STEPS)
        own = out.at(done / made.words + k.cast(k.tid * per_pair, i64))
        for number in range(STEPS):
            held = [var.get() for var in asked]
            words.make(number, held)
            k.barrier()
            # On their way while the pair is tempered; after the last step, the same as at the front
            for var, word in zip(asked, words.ask(number + 1), strict=True):
                var.set(word)
            values = _elements(k, made, held[-2:])
            with k.when(words.is_maker):  # a pair gives one element, or two that are stored at once
                own.store(number * FREE * per_pair, values)
        done.set(done + STEP * STEPS)
        todo.set(todo - STEP * STEPS)
    num_left = k.cast(todo.get(), u32)
    with k.range(k.const(0, u32), num_left, STEP) as at:
        held = words.ask(at)
        words.make(at, held)
        k.barrier()
        for number, value in enumerate(_elements(k, made, held[-2:])):
            element = (done + k.cast(at, i64)) / made.words + k.cast(k.tid * per_pair + number, i64)
            with k.when(words.is_maker & (element < size) & (element * made.words < begin + length)):
                out[element] = value
    with k.when(begin + length >= total):
        end = (num_left + 1) & 0xFFFFFFFE
        words.leave(left, end)
        with k.when(k.tid == 0):
            result.store(0, [total, done + k.cast(end, i64)])
    return k.build()


def _elements(k: Builder, made: Format, words: list[Value]) -> list[Value]:
    """What a pair gives."""
    outputs: list[Any] = [tempered(word) for word in words]
    attempts = [outputs] if made.words == 2 else [[output] for output in outputs]
    return [value for attempt in attempts for value in made.make(k, attempt, ()).values()]


__all__ = ["STEP", "STEPS", "Stream", "TwisterFillSpec", "make"]
