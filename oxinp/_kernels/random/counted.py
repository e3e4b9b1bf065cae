"""Words of the Philox generators as a source of variates: made by `find`, and left in memory where `place` reads them.

A block of the generator has four words of 64 bits, or as many as two of them. The lanes of a warp have words that
follow each other in every row of a tile; a warp makes as many rows at once as a block has words. A lane makes the words
of one block, somewhere in one of the rows, and words change lanes in shared memory. A segment may need words that come
after the tile, and is looked for from `WINDOW` positions before it on: those are made as well, and a tile has room for
`BLOCK` words on either side. The tile's first word is the first of a block; see `find.FindSpec.leads` for where the
draw begins.

Bytes per word: itself, written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.random.fill import uniform_f64
from oxinp._kernels.random.philox import VARIANTS, Rounds
from oxinp._kernels.random.stored import StoredReader
from oxinp._kernels.random.words import BLOCK
from oxinp._ptx.types import i64, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

WARP = 32


class Counted:
    """The words of a tile, see `words.Words`.

    Parameters
    ----------
    k : Builder
    generator : str
        A key of `philox.VARIANTS`.
    pieces : int
        That a word is divided into.
    items : int
        Words of a thread in a tile, a multiple of `rows`.
    """

    access = "rw"  # what is read has been written here

    def __init__(self, k: Builder, generator: str, pieces: int, items: int) -> None:
        self.k, self.pieces, self.items = k, pieces, items
        self.double = uniform_f64
        self._words = k.pointer("words", u64)
        self.rounds = Rounds(k, VARIANTS[generator])
        self.rows = VARIANTS[generator].halves // 2
        self.exchanged = k.shared(u64, (BLOCK // WARP, self.rows, WARP))

    def open(self, tile: Value) -> None:
        """Find the words of a tile and of those before it."""
        self.rounds.begin()
        self.first = self.k.cast(tile, i64) * (BLOCK * self.items)
        self.own = self._words.at(self.k.cast(tile, i64) * (BLOCK * (self.items + 2)))

    def walk(self) -> CountedWalk:
        """Begin with the thread's word of those before the tile."""
        return CountedWalk(self)

    def reader(self, position: Value) -> StoredReader:
        """Read pieces from a position on, which are there after a barrier."""
        return StoredReader(self, position)


class CountedWalk:
    """The words of a thread, `BLOCK` apart; see `words.Walk`."""

    def __init__(self, words: Counted) -> None:
        self._words, k = words, words.k
        self._warp = k.tid >> 5
        per_row = WARP // words.rows  # blocks
        self._row, self._place = k.lane / per_row, k.lane % per_row * words.rows
        # Counted from the first of the words before the tile
        self._at = k.var((self._row + 1) * BLOCK + self._warp * WARP + self._place)

    def word(self) -> tuple[Value, Value]:
        """The halves of the word before the tile, where that may be needed; the first warp makes those after it."""
        words, k = self._words, self._words.k
        is_after = self._warp == 0
        word = k.var(0, u64)
        with k.when(is_after | (self._warp >= BLOCK // WARP // 2)):
            at = k.where(is_after, k.const(BLOCK * (words.items + 1), k.tid.type), self._warp * WARP) + self._place
            made = self._make(at)
            with k.when(self._row == 0):
                self._leave(at, made)
            word.set(words.exchanged[self._warp, 0, k.lane])
            k.warp_sync()
        low, high = k.unpack(word.get())
        return low, high

    def following(self, count: int, is_first: Value | None = None) -> Iterator[tuple[Value, Value]]:
        """The next words, as many rows at once as a block has words."""
        assert is_first is None
        words, k = self._words, self._words.k
        for _ in range(0, count, words.rows):
            self._leave(self._at.get(), self._make(self._at.get()))
            self._at.set(self._at + BLOCK * words.rows)
            found = [words.exchanged[self._warp, row, k.lane] for row in range(words.rows)]
            k.warp_sync()
            for word in found:
                low, high = k.unpack(word)
                yield low, high

    def _make(self, at: Value) -> list[Value]:
        """Make the block of a place, and leave its words for the warp."""
        words, k = self._words, self._words.k
        number = words.first + (k.cast(at, i64) - BLOCK)
        made = words.rounds.words(k.cast(number >> (words.rows.bit_length() - 1), u64))
        for i in range(0, words.rows, 2):
            words.exchanged.at((self._warp, self._row, self._place)).store(i, made[i : i + 2])
        k.warp_sync()
        return made

    def _leave(self, at: Value, made: list[Value]) -> None:
        """Store the words of a block."""
        for i in range(0, self._words.rows, 2):
            self._words.own.store(at + i, made[i : i + 2])


__all__ = ["Counted", "CountedWalk"]
