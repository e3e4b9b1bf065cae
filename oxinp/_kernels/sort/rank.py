"""Ranks: where the keys of a block go by one digit, without changing the order of those that share it.

Data layout: a block's keys lie warp after warp, those of a warp in rounds of 32, a lane each; a row of `NUM_BINS`
counters per warp in shared memory. Who owns what: a warp its row of counters, a thread the bins that follow from its
number. Algorithm: warps count their digits, threads add up the counts of their bins over all warps and scan them over
all bins; counters then hold the place of the next key of a bin, and warps hand places out round by round: the lanes of
one digit find each other, the lowest one moves the counter on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.sort.keys import DIGIT_BITS, NUM_BINS
from oxinp._ptx.types import u32
from oxinp._ptx.warp import FULL, WARP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oxinp._kernels.sort.keys import Digit
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

MATCH, BALLOT = "match", "ballot"
AHEAD = 4  # rounds whose lanes have found each other before the first of them moves counters


class Counts(NamedTuple):
    """What a thread knows of one of its bins.

    Attributes
    ----------
    size, start : Value
        u32: how many keys of the block it has, how many are in the bins before it.
    """

    size: Value
    start: Value


class Ranks:
    """Counters of a block whose size is a multiple of a warp's.

    Parameters
    ----------
    k : Builder
    matching : str
        How lanes of one digit find each other: `MATCH`, by one instruction, or `BALLOT`, by a vote on each bit.
    """

    def __init__(self, k: Builder, matching: str) -> None:
        self._k, self._matching = k, matching
        self.num_threads = k.block[0]
        self.num_warps = self.num_threads // WARP
        # Threads with bins, and how many bins each.
        self.bins_each = max(1, NUM_BINS // self.num_threads)
        self.num_owners = NUM_BINS // self.bins_each
        self._counters = k.dynamic_shared(u32, self.num_warps * NUM_BINS)
        self._totals = k.dynamic_shared(u32, WARP)
        self._own = self._counters.at(k.warp * NUM_BINS)
        self._lower = (k.const(1, u32) << k.lane) - 1

    def clear(self) -> None:
        """Set all counters to zero; a barrier has to follow."""
        for i in range(NUM_BINS // WARP):
            self._counters[self._k.tid + i * self.num_threads] = 0

    def count(self, keys: Sequence[Value], digit: Digit) -> None:
        """Count the digits of a thread's keys; a barrier has to follow."""
        for key in keys:
            self._own.atomic("add", digit.of(key), 1, order="relaxed.cta")

    def owned(self) -> list[list[Value]]:
        """Return what every warp counted of each bin of the thread, which has to own some."""
        k = self._k
        first = k.tid * self.bins_each
        counters = [self._counters.at(w * NUM_BINS) for w in range(self.num_warps)]
        loaded = [row.load(first, self.bins_each) for row in counters]
        return [[values[b] for values in loaded] for b in range(self.bins_each)]

    def scan(self) -> list[Counts]:
        """Make places of counts; return the bins of a thread, rubbish where it owns none. Has barriers around it."""
        k = self._k
        is_owner = k.tid < self.num_owners
        first = k.tid * self.bins_each
        own = k.var(0, u32)
        counts = [[k.var(0, u32) for _ in range(self.num_warps)] for _ in range(self.bins_each)]
        with k.when(is_owner):
            for kept, found in zip(counts, self.owned(), strict=True):
                for variable, value in zip(kept, found, strict=True):
                    variable.set(value)
                    own += value
        through = self._scan_block(own.get())
        start = through - own
        result = []
        with k.when(is_owner):
            placed = start
            rows: list[list[Value]] = [[] for _ in range(self.num_warps)]
            for kept in counts:
                for row, value in zip(rows, kept, strict=True):
                    row.append(placed)
                    placed = placed + value
            for w, row in enumerate(rows):
                self._counters.at(w * NUM_BINS).store(first, row)
        for kept in counts:
            count = kept[0].get()
            for value in kept[1:]:
                count = count + value
            result.append(Counts(count, start))
            start = start + count
        return result

    def _scan_block(self, value: Value) -> Value:
        """The inclusive scan over the threads of the block."""
        k = self._k
        through = self._scan_warp(value, WARP)
        with k.when(k.lane == WARP - 1):
            self._totals[k.warp] = through
        k.barrier()
        width = 1 << (self.num_warps - 1).bit_length()
        totals = self._scan_warp(self._totals[k.min(k.lane, self.num_warps - 1)], width)
        before = k.shfl_idx(totals, k.max(k.warp, 1) - 1)
        return through + k.where(k.warp == 0, k.const(0, u32), before)

    def _scan_warp(self, value: Value, width: int) -> Value:
        k, distance = self._k, 1
        while distance < width:
            value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, u32))
            distance *= 2
        return value

    def places(self, keys: Sequence[Value], digit: Digit) -> Iterator[Value]:
        """Yield the place in the block of each key of a thread, one per round."""
        k = self._k
        for first in range(0, len(keys), AHEAD):
            batch = [digit.of(key) for key in keys[first : first + AHEAD]]
            for own, mates in zip(batch, [self._mates(own) for own in batch], strict=True):
                before = k.popc(mates & self._lower)
                (place,) = self._own.load(own, order="relaxed.cta")  # one word for all lanes of a digit
                k.warp_sync()
                with k.when(before == 0):
                    self._own[own] = place + k.popc(mates)
                k.warp_sync()
                yield place + before

    def _mates(self, own: Value) -> Value:
        """The word of the lanes with the same digit."""
        k = self._k
        if self._matching == MATCH:
            mask: Value = k.match_any(own, FULL)
            return mask
        mates = None
        for i in range(DIGIT_BITS):
            has_bit = (own & (1 << i)) != 0
            vote = k.ballot(has_bit)
            alike = k.where(has_bit, vote, ~vote)
            mates = alike if mates is None else mates & alike
        assert mates is not None
        return mates


__all__ = ["BALLOT", "MATCH", "Counts", "Ranks"]
