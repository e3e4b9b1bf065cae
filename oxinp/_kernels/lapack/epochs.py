"""Elements that blocks tell each other without a flag: behind every word there is the number of the exchange.

A word and its number are eight bytes, which are stored and loaded at once: who finds the number has the word, and waits
neither for a fence nor for a second load. Before the first exchange numbers are zero. An exchange takes the place of
the one before only when that has been read: an exchange with flags lies between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WORD_NBYTES, WORD_BITS = 4, 32
AT_ONCE = 4  # words of an access


def words_of(type: Type) -> int:
    """Return how many words an element takes with its epochs."""
    return 2 * type.nbytes // WORD_NBYTES


def tell(k: Builder, board: Pointer, place: Value, value: Value, epoch: Value) -> None:
    """Store an element for other blocks: behind every word of it the epoch, in eight bytes that are stored at once."""
    words = []
    for part in value.parts:
        halves = [part] if part.type.bits == WORD_BITS else k.unpack(k.bitcast(part, u64))
        for half in halves:
            words += [k.bitcast(half, u32), epoch]
    start = k.cast(place, i64) * len(words)
    for i in range(0, len(words), AT_ONCE):
        board.store(start + i, words[i : i + AT_ONCE], order="relaxed.gpu")


def await_told(k: Builder, wanted: Sequence[tuple[Pointer, Value, Type]], epoch: Value) -> list[Value]:
    """Load elements until all of them are of this epoch."""
    words = [[k.var(0, u32) for _ in range(words_of(type_))] for _, _, type_ in wanted]
    with k.loop():
        is_told = None
        for (board, place, _), found in zip(wanted, words, strict=True):
            start = k.cast(place, i64) * len(found)
            for i in range(0, len(found), AT_ONCE):
                loaded = board.load(start + i, min(AT_ONCE, len(found)), order="relaxed.gpu")
                for word, value in zip(found[i : i + AT_ONCE], loaded, strict=True):
                    word.set(value)
            for word in found[1::2]:
                is_new = word.get() == epoch
                is_told = is_new if is_told is None else is_told & is_new
        assert is_told is not None
        k.break_if(is_told)
    k.warp_sync()
    return [
        _element(k, type_, [word.get() for word in found[::2]])
        for (_, _, type_), found in zip(wanted, words, strict=True)
    ]


def _element(k: Builder, type: Type, words: list[Value]) -> Value:
    """Return the element that words are of."""
    real = type.parts[0]
    if real.bits == WORD_BITS:
        parts = [k.bitcast(word, real) for word in words]
    else:
        parts = [k.bitcast(k.pack(*words[i : i + 2]), real) for i in range(0, len(words), 2)]
    return k.compound(type, *parts) if type.is_complex else parts[0]


__all__ = ["WORD_NBYTES", "await_told", "tell", "words_of"]
