"""Words that lie in memory as a source of variates, for generators that make them otherwise than by steps: see `words`.

`place` reads them, and so does `find`, unless it makes them itself (see `counted`): then the words of a draw are stored
first, as many as it takes with as good as certainty, by the kernels that fill arrays with them, those of MT19937 from
many streams at once. Bytes per variate of f64 beside its own: 8 written, 16 read, or 8 where `find` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.random.fill import uniform_f64
from oxinp._kernels.random.twister_formats import double
from oxinp._kernels.random.words import BLOCK, uniform
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

# The uniform number of a word that is not looked at first, by the low half and the high one, which MT19937 makes first.
DOUBLES: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "stored": uniform_f64,
    "twisted": lambda k, low, high: double(k, high, low),
}


class Stored:
    """The words, of which `BLOCK` that are never looked at come before the first tile; see `words.Words`.

    Parameters
    ----------
    k : Builder
    kind : str
        A key of `DOUBLES`.
    pieces : int
        That a word is divided into.
    items : int
        Words of a thread in a tile.
    is_apart : bool
        Tiles have room for the words before and after them, see `counted`; else they follow each other.
    """

    access, rows = "r", 1  # how they are read; words of a thread that are made at once

    def __init__(self, k: Builder, kind: str, pieces: int, items: int, *, is_apart: bool = False) -> None:
        self.k, self.pieces, self.items = k, pieces, items
        self.double, self._tile_words = DOUBLES[kind], BLOCK * (items + 2 * is_apart)
        self._words = k.pointer("words", u64, "r")

    def open(self, tile: Value) -> None:
        """Find the words before a tile."""
        self.tile = tile
        self.own = self._words.at(self.k.cast(tile, i64) * self._tile_words)

    def walk(self) -> StoredWalk:
        """Begin with the thread's word of those before the tile."""
        return StoredWalk(self)

    def reader(self, position: Value) -> StoredReader:
        """Read pieces from a position on."""
        return StoredReader(self, position)


class StoredWalk:
    """The words of a thread, `BLOCK` apart; see `words.Walk`."""

    def __init__(self, words: Stored) -> None:
        self._k = k = words.k
        self._address = k.var(words.own.address(k.tid))

    def _own(self) -> Pointer:
        return Pointer(self._k, self._address.get(), u64, "global", "r")

    def word(self) -> tuple[Value, Value]:
        """The halves of the word at hand."""
        low, high = self._k.unpack(self._own()[0])
        return low, high

    def following(self, count: int, is_first: Value | None = None) -> Iterator[tuple[Value, Value]]:
        """The next words, of which all are asked for before the first one is there."""
        assert is_first is None
        own = self._own()
        words = [own[BLOCK * (number + 1)] for number in range(count)]
        self._address.set(own.address(BLOCK * count))
        for word in words:
            low, high = self._k.unpack(word)
            yield low, high


class StoredReader:
    """The pieces from a position on, of words that are one piece or two; see `words.Reader`."""

    def __init__(self, words: Any, position: Value) -> None:
        self._words, k = words, words.k
        self._type = u64 if words.pieces == 1 else u32
        self._address = k.var(words.own.view(self._type).address(position))

    def next(self) -> tuple[Value, ...]:
        """The next piece."""
        k = self._words.k
        own = Pointer(k, self._address.get(), self._type, "global", self._words.access)
        self._address.set(own.address(1))
        return tuple(k.unpack(own[0])) if self._type is u64 else (own[0],)

    def uniform(self) -> Value:
        """The uniform number of the next piece."""
        return uniform(self._words, self.next())


__all__ = ["DOUBLES", "Stored", "StoredReader", "StoredWalk"]
