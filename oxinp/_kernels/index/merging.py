"""Runs of equal indices, which a warp adds up before its updates by f32 values are grouped.

Algorithm: where all updates of a warp come in order and the exponents of their values are not too far apart, values of
a run are added up in f64 by a segmented scan, which is exact. Two lanes of the run keep the sum, as two floats, which
is exact again; the others have nothing. Which of them are merged depends on indices and values alone, so that the same
input gives the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.index.exponents import SMALLEST, code_of, special
from oxinp._kernels.index.grouping import Grouping
from oxinp._ptx.types import f32, f64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

MAX_SPAN = 19  # of exponents in a warp, up to which sums of 32 values are sums of two floats exactly
HEADROOM = 8  # by which exponents are to be below that of infinities


class MergingGroups(Grouping):
    """A kernel that may merge runs, while it is built."""

    merged: list[Any]
    is_merged: Any
    kept: Any
    extremes_here: list[Any]

    def merge(self, places: list[Value], source: Any, size: Value) -> None:
        """Add up what the same element gets from neighbouring lanes, in a warp whose updates all come in order.

        The last lane of a run then has the sum, rounded to f32, and the one before what rounding left; others have
        nothing. Both are exact, since exponents are not too far apart, or else updates are left as they are.
        """
        k = self.k
        values = self.loaded(source, range(len(places)), size)
        self.merged, self.is_merged = [k.var(value) for value in values], k.var(0, u32)
        self.kept = k.var((1 << len(places)) - 1, u32)  # a bit per update
        are_in_order = k.const(1, u32) != 0
        for place in places:
            are_in_order = are_in_order & (place >= k.shfl_up(place, 1))
        with k.when(k.all(are_in_order)):
            highest, depth = self.wider([k.const(0, u32), k.const(0, u32)], tuple(values))
            highest, depth = k.redux("max", highest), k.redux("max", depth)
            most = special(u32)
            span = highest + depth - most  # negative ones are large: of zeros alone, which are left as they are
            with k.when((highest + HEADROOM < most) & (depth != 0) & (span <= MAX_SPAN)):
                self.is_merged.set(1)
                self.kept.set(0)
                self.widen([highest, depth])
                behind = k.shl(self.number, self.shift)
                for i, (place, value, goal) in enumerate(zip(places, values, self.merged, strict=True)):
                    has_part, part = self.part_of_run(place, value)
                    self.kept.set(self.kept | k.cast(has_part & (place < behind), u32) << i)
                    goal.set(part)

    def ranks_of_merged(self, places: list[Value]) -> list[Value]:
        """The numbers of updates in their buckets; see `ranks`."""
        k = self.k
        found = [k.var(0, u32) for _ in range((len(places) + 1) // 2)]
        with k.when(self.is_merged.get() == 0):
            for word, ranks in zip(found, self.ranks(places), strict=True):
                word.set(ranks)
        with k.otherwise():
            buckets = [k.shr(place, self.shift) for place in places]
            first, are_one = k.shfl_idx(buckets[0], 0), k.const(1, u32) != 0
            for i, bucket in enumerate(buckets):
                are_one = are_one & ((bucket == first) | (self.kept >> i & 1 == 0))
            with k.when(k.all(are_one)):
                holders = [k.ballot(self.kept >> i & 1 != 0) for i in range(len(places))]
                number = k.var(0, u32)
                with k.when(k.lane == 0):
                    total = sum([k.popc(each) for each in holders[1:]], k.popc(holders[0]))
                    number.set(self.counters.atomic("add", first, total, order="relaxed.cta"))
                begin, below = k.shfl_idx(number.get(), 0), k.shl(k.const(1, u32), k.lane) - 1
                for i, each in enumerate(holders):
                    found[i // 2].set(found[i // 2] | (begin + k.popc(each & below)) << 16 * (i % 2))
                    begin = begin + k.popc(each)
            with k.otherwise():
                for i, bucket in enumerate(buckets):
                    with k.when(self.kept >> i & 1 != 0):
                        rank = self.counters.atomic("add", bucket, 1, order="relaxed.cta")
                        found[i // 2].set(found[i // 2] | rank << 16 * (i % 2))
        return [word.get() for word in found]

    def part_of_run(self, place: Value, value: Value) -> tuple[Value, Value]:
        """Whether a lane has a part of the sum of its run of equal places, and that part, as bits."""
        k, distance = self.k, 1
        total = k.cvt(k.bitcast(value, f32), f64)
        while distance < WARP:
            is_same = (k.lane >= distance) & (k.shfl_up(place, distance) == place)
            total = k.where(is_same, k.shfl_up(total, distance) + total, total)
            distance *= 2
        is_last = (k.lane == WARP - 1) | (k.shfl_down(place, 1) != place)
        is_next_last = k.shl(k.ballot(is_last) >> 1, WARP - 1 - k.lane) >> (WARP - 1) != 0
        is_before = ~is_last & is_next_last
        total = k.where(is_last, total, k.shfl_down(total, 1))
        rounded = k.cvt(total, f32)
        rest = k.cvt(total - k.cvt(rounded, f64), f32)
        rest = k.where(rest == 0, rounded * 0.0, rest)  # a zero of the sum's sign
        part = k.where(is_last, k.bitcast(rounded, u32), k.where(is_before, k.bitcast(rest, u32), k.const(0, u32)))
        return is_last | is_before, part

    def has_update(self, i: int, place: Value) -> Value:
        """Whether a thread's update is one that is grouped."""
        is_kept: Value = self.kept >> i & 1 != 0
        return is_kept & (place < self.k.shl(self.number, self.shift))

    def values_of(self, source: Any, numbers: range, size: Value) -> list[Any]:
        """Some of a thread's values; of runs that were added up what `merge` made of them."""
        if not self.spec.is_merged:
            return self.loaded(source, numbers, size)
        k = self.k
        values = [self.merged[i].get() for i in numbers]
        with k.when(self.is_merged.get() == 0):
            self.widen(self.wider([each.get() for each in self.extremes_here], tuple(values)))
        return values

    def widen(self, extremes: list[Value]) -> None:
        """Set the extremes of a thread's values as they were given."""
        for variable, extreme in zip(self.extremes_here, extremes, strict=True):
            variable.set(extreme)

    def wider(self, extremes: list[Value], words: tuple[Value, ...]) -> list[Value]:
        """The extremes with values among them, given in words."""
        k, (highest, deepest) = self.k, extremes
        values = list(words)
        if self.spec.value is u64:
            values = [k.pack(low, high) for low, high in zip(words[::2], words[1::2], strict=True)]
        for value in values:
            code, most = code_of(k, value), special(value.type)
            highest = k.max(highest, code)
            deepest = k.max(deepest, k.where((code >= SMALLEST) & (code != most), most - code, k.const(0, u32)))
        return [highest, deepest]


__all__ = ["MergingGroups"]
