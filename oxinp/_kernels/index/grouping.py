"""What kernels that group updates or reads by bucket share: elements of a tile, their ranks, where buckets begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.index.loops import report, resolve
from oxinp._ptx import Builder
from oxinp._ptx.types import i64, u16, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK = 512


class Grouping:
    """What kernels that group by bucket share, while they are built: elements, their ranks, sums over counters."""

    k: Builder
    spec: Any
    starts: Any
    flag: Any = None
    totals: Any = None
    status: Value
    counters: Any
    warp_totals: Any
    count: Value
    extent: Value
    shift: Value
    number: Value

    def loaded(self, source: Any, numbers: range, size: Value) -> list[Any]:
        """Some of a thread's elements of a tile; those behind the end are the last one."""
        k = self.k
        found = [k.var(0, source.type) for _ in numbers]
        with k.when(size == self.spec.tile):  # each at a constant distance
            own = source.at(k.tid)
            for variable, value in zip(found, [own[i * BLOCK] for i in numbers], strict=True):
                variable.set(value)
        with k.otherwise():
            for variable, i in zip(found, numbers, strict=True):
                variable.set(source[k.min(k.tid + i * BLOCK, size - 1)])
        return [variable.get() for variable in found]

    def places(self, raw: list[Value], size: Value) -> list[Value]:
        """The elements of updates, the one behind the last bucket where there is none; reports one out of bounds."""
        k = self.k
        behind = k.shl(self.number, self.shift)
        places: list[Value] = []
        wrong, is_wrong = raw[0], None
        for i, each in enumerate(raw):
            at, is_beyond = resolve(k, each, self.extent, i64.bits)
            wrong = k.where(is_beyond, each, wrong)
            is_wrong = is_beyond if is_wrong is None else is_wrong | is_beyond
            place = k.where(is_beyond, k.const(0, u32), k.cast(at, u32))
            places.append(k.where(k.tid + i * BLOCK < size, place, behind))
        assert is_wrong is not None
        with k.when(is_wrong):
            if self.flag is not None:
                self.flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
            report(k, self.status, wrong)
        return places

    def ranks(self, places: list[Value]) -> list[Value]:
        """The numbers of updates in their buckets, two in a word, which registers are short of."""
        k = self.k
        found = [k.var(0, u32) for _ in places]
        are_one = k.const(1, u32) != 0
        for place in places:
            bucket = k.shr(place, self.shift)
            are_one = are_one & (bucket == k.shfl_idx(bucket, 0))
        with k.when(k.all(are_one)):  # updates in order: one lane counts for all, which would wait for each other
            with k.when(k.lane == 0):
                for number, place in zip(found, places, strict=True):
                    number.set(self.counters.atomic("add", k.shr(place, self.shift), WARP, order="relaxed.cta"))
            for number in found:
                number.set(k.shfl_idx(number.get(), 0) + k.lane)
        with k.otherwise():
            for number, place in zip(found, places, strict=True):
                number.set(self.counters.atomic("add", k.shr(place, self.shift), 1, order="relaxed.cta"))
        ranks = [number.get() for number in found] + [k.const(0, u32)] * (len(found) % 2)
        return [low | high << 16 for low, high in zip(ranks[::2], ranks[1::2], strict=True)]

    def sum_up(self) -> None:
        """Replace counters by their sums before each, and tell everybody."""
        k, spec = self.k, self.spec
        has_one = k.tid < spec.room
        count = k.where(has_one, self.counters[k.min(k.tid, spec.room - 1)], k.const(0, u32))
        through = self.scan_warp(count)
        with k.when(k.lane == WARP - 1):
            self.warp_totals[k.warp] = through
        k.barrier()
        num_warps = BLOCK // WARP
        warps = self.scan_warp(k.where(k.lane < num_warps, self.warp_totals[k.min(k.lane, num_warps - 1)], 0))
        before = k.shfl_idx(warps, k.max(k.warp, 1) - 1)
        start = k.where(k.warp == 0, k.const(0, u32), before) + through - count
        tiles = k.cast(k.nctaid, i64)
        mine = self.starts.at(k.cast(k.ctaid, i64))
        with k.when(has_one):
            self.counters[k.tid] = start
        with k.when(has_one & (k.tid <= self.number)):  # what is behind the last bucket begins where that ends
            mine[k.cast(k.tid, i64) * tiles] = k.cast(start, u16)
        with k.when(has_one & (k.tid < self.number)):
            if self.totals is not None:
                with k.when(count != 0):
                    self.totals.atomic("add", k.tid, count)
        total = k.shfl_idx(warps, num_warps - 1)
        with k.when((k.tid == 0) & (self.number == spec.room)):
            self.counters[k.const(spec.room, u32)] = total
            mine[k.cast(self.number, i64) * tiles] = k.cast(total, u16)

    def scan_warp(self, value: Value) -> Value:
        """The inclusive sums over the lanes of a warp."""
        k, distance = self.k, 1
        while distance < WARP:
            value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, u32))
            distance *= 2
        return value


__all__ = ["BLOCK", "Grouping"]
