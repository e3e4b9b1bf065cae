"""The words of a tile of a linear congruential stream: those of a thread in turn, and any one by its number.

A tile is `BLOCK` times some words; those of the `BLOCK` words before it are at hand as well, so that words are numbered
from there on. With the tile's state s and ``d = (A - 1) s + c``, the state n steps on is ``s + G(n) d``, and
``G(BLOCK i + t) = G(BLOCK i) + A**(BLOCK i) G(t)``: two products of 128 bits for any word, and tables of G.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.random.fill import uniform_f32, uniform_f64
from oxinp._kernels.random.lcg import GENERATORS, MASK_64, Increment, Wide, factor, multiply_add
from oxinp._ptx.types import pred, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

BLOCK = 256


def _split(numbers: list[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Numbers of 128 bits as words, low ones first."""
    return np.array([part for number in numbers for part in (number & MASK_64, number >> 64)], np.uint64)


class Words:
    """The words.

    Parameters
    ----------
    k : Builder
    generator : str
        A key of `lcg.GENERATORS`.
    pieces : int
        That a word is divided into.
    items : int
        Words of a thread in a tile.
    is_shifted : bool
        The upper half of the first tile's first word is given, and its lower half is not there.
    """

    rows = 1  # words of a thread that are made at once

    def __init__(self, k: Builder, generator: str, pieces: int, items: int, *, is_shifted: bool) -> None:
        self.k, self.lcg, self.pieces = k, GENERATORS[generator], pieces
        self.states = k.pointer("states", u64, "r")
        self.increment = Increment(k, self.lcg)
        self.given = k.scalar("given", u32) if is_shifted else None
        self._near = k.table(_split([self.lcg.jump(t)[1] for t in range(BLOCK)]))
        self._far = k.table(_split([part for i in range(items + 1) for part in self.lcg.jump(BLOCK * i)]))

    def open(self, tile: Value) -> None:
        """Read the state of a tile."""
        k = self.k
        self.tile = tile
        self._base = Wide(*self.states.load(k.cast(tile, u64) * 2, 2))
        power, _ = self.lcg.jump(1)
        self._slope = multiply_add(k, self._base, factor(k, power - 1), self.increment.constant(1))

    def at(self, number: Value) -> Wide:
        """The state that a word is made of."""
        k = self.k
        power = Wide(*self._far.load((number >> 8) * 4, 2))
        total = Wide(*self._far.load((number >> 8) * 4 + 2, 2))
        near = Wide(*self._near.load((number & (BLOCK - 1)) * 2, 2))
        steps = multiply_add(k, near, factor(k, power), total)
        return multiply_add(k, self._slope, factor(k, steps), self._base)

    def walk(self) -> Walk:
        """Begin with the thread's word of those before the tile."""
        return Walk(self, multiply_add(self.k, self._slope, factor(self.k, self._near_own()), self._base))

    def _near_own(self) -> Wide:
        return Wide(*self._near.load(self.k.tid * 2, 2))

    def output(self, state: Wide, is_first: Value | None = None) -> tuple[Value, Value]:
        """The halves of a word; `is_first` where it may be the first of the draw."""
        low, high = self.lcg.output(self.k, state)
        if self.given is not None and is_first is not None:
            high = self.k.where((self.tile == 0) & is_first, self.given, high)
        return low, high

    @staticmethod
    def double(k: Builder, low: Value, high: Value) -> Value:
        """The uniform number of a word."""
        return uniform_f64(k, low, high)

    def reader(self, position: Value) -> Reader:
        """Read pieces from a position on."""
        return Reader(self, position)


def pieces_of(word: tuple[Value, Value], pieces: int) -> list[tuple[Value, ...]]:
    """The pieces of a word, in order."""
    if pieces == 1:
        return [word]
    bits = 64 // pieces
    each = [(half >> shift if shift else half) for half in word for shift in range(0, 32, bits)]
    return [(part,) if bits == 32 else (part & ((1 << bits) - 1),) for part in each]


class Walk:
    """The words of a thread, `BLOCK` apart."""

    def __init__(self, words: Words, first: Wide) -> None:
        self._words, k = words, words.k
        self._low, self._high = k.var(first.low), k.var(first.high)
        power, total = words.lcg.jump(BLOCK)
        self._by, self._plus = factor(k, power), words.increment.constant(total)

    def word(self) -> tuple[Value, Value]:
        """The halves of the word at hand."""
        return self._words.output(Wide(self._low.get(), self._high.get()))

    def following(self, count: int, is_first: Value | None = None) -> Iterator[tuple[Value, Value]]:
        """The next words, one after the other; `is_first` where the first one may be that of the draw."""
        for number in range(count):
            state = multiply_add(self._words.k, Wide(self._low.get(), self._high.get()), self._by, self._plus)
            self._low.set(state.low)
            self._high.set(state.high)
            yield self._words.output(state, None if number else is_first)


class Reader:
    """The pieces of the stream from a position on, of words that are one piece or two."""

    def __init__(self, words: Words, position: Value) -> None:
        self._words = words
        k, pieces = words.k, words.pieces
        state = words.at(position / pieces if pieces > 1 else position)
        self._low, self._high = k.var(state.low), k.var(state.high)
        self._piece = k.var(position % pieces if pieces > 1 else k.const(0, u32))
        self._is_given = None
        if words.given is not None:
            self._is_given = k.var((words.tile == 0) & (position == BLOCK * pieces + 1), pred)

    def next(self) -> tuple[Value, ...]:
        """The next piece."""
        words, k = self._words, self._words.k
        low, high = words.lcg.output(k, Wide(self._low.get(), self._high.get()))
        if words.pieces == 1:
            self._step()
            return low, high
        is_high = self._piece != 0
        half = k.where(is_high, high, low)
        if self._is_given is not None:
            half = k.where(self._is_given, words.given, half)
            self._is_given.set(k.const(False, pred))
        with k.when(is_high):
            self._step()
        self._piece.set(self._piece ^ 1)
        return (half,)

    def uniform(self) -> Value:
        """The uniform number of the next piece."""
        return uniform(self._words, self.next())

    def _step(self) -> None:
        following = self._words.increment.jumped(Wide(self._low.get(), self._high.get()), 1)
        self._low.set(following.low)
        self._high.set(following.high)


def uniform(words: Any, piece: tuple[Value, ...]) -> Value:
    """The uniform number of a piece of some words: of f64, or of f32."""
    number: Value = words.double(words.k, *piece) if len(piece) == 2 else uniform_f32(words.k, *piece)
    return number


__all__ = ["BLOCK", "Reader", "Walk", "Words", "pieces_of", "uniform"]
