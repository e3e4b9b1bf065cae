"""Totals that blocks of a scan leave for each other: their words, and the groups of entries that a warp combines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oxinp._ptx.types import UNSIGNED, Type, pred, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

FAN_BITS = 5
FAN = 1 << FAN_BITS  # one lane per entry
PAIRED_LEVELS = 3  # up to which registers hold words that are loaded in pairs


def num_words(type_: Type) -> int:
    """Return how many words of a descriptor an accumulator takes."""
    return sum(max(1, part.bits // 32) for part in type_.parts)


class Scanning(Protocol):
    """A kernel that scans, as the groups of its entries know it: a `ScanChained`."""

    k: Builder
    spec: Any
    identity: Value
    entries: list[Value]
    descriptors: list[Any]

    @property
    def mark(self) -> Value:
        """What published words of this launch are marked with."""
        ...

    def joined(self, value: Value, /) -> Value:
        """Return what the lanes' accumulators come to, in order."""
        ...


class Group:
    """The published entries of a level that a tile adds up, one per lane of a warp; those before its own.

    Parameters
    ----------
    kernel : Scanning
    level : int
    row, tile : Value
    """

    def __init__(self, kernel: Scanning, level: int, row: Value, tile: Value) -> None:
        self.kernel, self.level, k = kernel, level, kernel.k
        number = tile >> (level * FAN_BITS) if level else tile
        self.count = number & (FAN - 1)
        self.own = row * kernel.entries[level] + number
        self._words = [k.var(0, u32) for _ in range(num_words(kernel.spec.op.acc))]
        self._missing = k.var(1, u32)

    def look(self) -> None:
        """Load the entries, whether or not they have been published."""
        kernel, k = self.kernel, self.kernel.k
        with k.when(k.lane < self.count):
            self._load(kernel)

    def _load(self, kernel: Scanning) -> None:
        k, size = kernel.k, len(self._words)
        entry = kernel.descriptors[self.level].at((self.own - self.count + k.lane) * size)
        width = 2 if size % 2 == 0 and len(kernel.entries) <= PAIRED_LEVELS else 1
        loaded = [entry.load(i, width, order="relaxed.gpu") for i in range(0, size, width)]
        halves = [k.unpack(word) for words in loaded for word in words]
        own, missing = kernel.mark, None
        for word, (payload, mark) in zip(self._words, halves, strict=True):
            word.set(payload)
            missing = mark ^ own if missing is None else missing | (mark ^ own)
        self._missing.set(missing)

    def joined(self) -> Value:
        """Wait for the entries and combine them; every lane gets the result."""
        kernel, k = self.kernel, self.kernel.k
        with k.when(k.lane < self.count), k.loop():
            k.break_if(self._missing == 0)
            self._load(kernel)
        k.warp_sync()
        return kernel.joined(self.value)

    @property
    def is_ready(self) -> Value:
        """Whether this lane has seen its entry, or has none."""
        return (self._missing == 0) | (self.kernel.k.lane >= self.count)

    @property
    def value(self) -> Value:
        """The lane's entry."""
        kernel, k = self.kernel, self.kernel.k
        value = value_of(k, [word.get() for word in self._words], kernel.spec.op.acc)
        return k.where(k.lane < self.count, value, kernel.identity)


def words_of(k: Builder, value: Value) -> list[Value]:
    """The bits of an accumulator in words of 32 bits."""
    words: list[Value] = []
    for part in value.parts:
        if part.type is pred:
            words.append(k.cast(part, u32))
            continue
        bits = k.bitcast(part, UNSIGNED[part.type.bits])
        words += k.unpack(bits) if bits.type is u64 else [k.cast(bits, u32)]
    return words


def value_of(k: Builder, words: list[Value], type_: Type) -> Value:
    """The inverse of `words_of`."""
    rest = iter(words)
    parts = []
    for part in type_.parts:
        if part is pred:
            parts.append(k.cast(next(rest), pred))
        elif part.bits == u64.bits:
            low, high = next(rest), next(rest)
            parts.append(k.bitcast(k.pack(low, high), part))
        else:
            parts.append(k.bitcast(k.cast(next(rest), UNSIGNED[part.bits]), part))
    return parts[0] if type_.parts == (type_,) else k.compound(type_, *parts)


__all__ = ["FAN", "FAN_BITS", "Group", "num_words", "value_of", "words_of"]
