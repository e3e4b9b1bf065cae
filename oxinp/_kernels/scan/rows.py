"""Scans along the innermost loop: a group of threads per row.

Data layout: the scanned loop is the innermost; a unit is `vector` elements of it, which one instruction loads. Who owns
what: a group (lanes of a warp, or a block) scans one row, tile by tile; a tile has `unroll` units per thread, and
neighbouring threads have neighbouring units. Algorithm: a thread scans each of its units, a warp the totals of its
units by shuffles, every warp the totals of all warps, which it reads from shared memory; each tile begins with the
total of those before it. Bytes per element: inputs and result once.
"""

from __future__ import annotations

import operator
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import Position, Splitter, Spot, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.scan.kernel import ScanKernel, ScanSpec
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

WARP = 32
BLOCK = 256
NUM_WARPS = BLOCK // WARP
MAX_UNROLL = WARP // NUM_WARPS  # a warp scans the totals of all warps, one per unit of a thread


class ScanRowsSpec(ScanSpec):
    """One kernel of the family; its loops are the kept ones, then the scanned one.

    Attributes
    ----------
    group : int
        Threads per row: a power of two up to 32, or those of a block.
    vector, unroll : int
    """

    group: int
    vector: int
    unroll: int

    @property
    def tile(self) -> int:
        """Units of a tile."""
        return self.group * self.unroll


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ScanRowsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _ScanRows(spec).build()


class _ScanRows(ScanKernel):
    """The kernel while it is built."""

    def __init__(self, spec: ScanRowsSpec) -> None:
        self.spec = spec
        self.k = k = Builder("scan_rows", block=BLOCK, min_blocks=3 if spec.op.acc.bits > 64 else None)
        super().__init__(k, spec)
        self.scanned = spec.chain.ndim - 1
        self.num_rows, self.num_units, self.num_rest = (
            k.scalar(name, self.type) for name in ("num_rows", "num_units", "num_rest")
        )
        self.kept = Splitter(k, "kept", self.scanned, self.type)
        self.thread = k.tid % spec.group
        self.has_row: Value | None = None
        self.width = min(spec.group, WARP)  # lanes that scan together
        self.lane = k.lane if self.width == WARP else k.lane % self.width
        self.is_first_lane, self.is_last_lane = self.lane == 0, self.lane == self.width - 1
        if spec.group > WARP:
            self.meeting = k.shared(spec.op.acc, (2, spec.unroll * NUM_WARPS))

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        number = k.cast(k.ctaid, self.type)
        nothing = k.const(0, self.type)
        num_rest = self.num_rest
        if spec.group <= WARP:
            row = number * (BLOCK // spec.group) + k.cast(k.tid / spec.group, self.type)
            # Groups without a row scan the last one and store nothing: lanes of a warp must not diverge.
            self.has_row = row < self.num_rows
            row = k.min(row, self.num_rows - 1)
            num_rest = k.where(self.has_row, num_rest, nothing)
        else:
            row = number
        kept = self.kept.split(row)
        origin = locate(self.bound.origin(), range(self.scanned), kept)
        target = self._target.spot()
        for loop, index in enumerate(kept):
            target = target.moved(loop, index)
        carry = k.var(self.identity)
        self.scan(origin, target, carry)
        if spec.vector > 1:
            with k.when(self.thread == 0):
                self.scan_rest(origin, target, num_rest, carry)
        return k.build()

    # -- the scan

    def scan(self, origin: Position, target: Spot, carry: Any) -> None:
        """Scan the units, tile by tile."""
        k, spec, end = self.k, self.spec, self.num_units
        first = k.var(0, self.type)
        side = k.var(k.const(0, k.tid.type))
        with k.loop():
            k.break_if(first + spec.tile > end)
            self.scan_tile(origin, target, first.get(), None, carry, side)
            first.set(first + spec.tile)
        with k.when(first < end):
            self.scan_tile(origin, target, first.get(), end, carry, side)

    def scan_tile(self, origin: Position, target: Spot, first: Value, end: Value | None, carry: Any, side: Any) -> None:
        """Scan one tile; if `end` is given, the row ends before that unit."""
        k, spec = self.k, self.spec
        thread = k.cast(self.thread, self.type)
        units = [first + thread + spec.group * i for i in range(spec.unroll)]
        places = [self.place(origin, unit if end is None else k.min(unit, end - 1)) for unit in units]
        loaded = [place.load(spec.vector) for place in places]
        rounds = []
        for unit, place, values in zip(units, places, loaded, strict=True):
            scanned = self.lifted(place, values, spec.vector)
            if end is not None:
                scanned = [k.where(unit < end, value, self.identity) for value in scanned]
            for i in range(1, spec.vector):
                scanned[i] = self.combine(scanned[i - 1], scanned[i])
            rounds.append(scanned)
        prefixes, total = self.prefixes([scanned[-1] for scanned in rounds], side)
        start = carry.get()
        for unit, scanned, prefix in zip(units, rounds, prefixes, strict=True):
            before = self.combine(start, prefix)
            results = [self.result(self.combine(before, value)) for value in scanned]
            spot = target.moved(self.scanned, unit * spec.vector if spec.vector > 1 else unit)
            self.store(spot, results, None if end is None else unit < end)
        carry.set(self.combine(start, total))

    def store(self, spot: Spot, results: list[Value], is_valid: Value | None) -> None:
        """Store the results of a unit, if it is inside the row."""
        conditions = [condition for condition in (is_valid, self.has_row) if condition is not None]
        if not conditions:
            spot.store(results)
            return
        with self.k.when(reduce(operator.and_, conditions)):
            spot.store(results)

    def prefixes(self, totals: list[Value], side: Any) -> tuple[list[Value], Value]:
        """Return, per unit of a thread, the total of the units before it in the tile, and the total of the tile."""
        k, spec = self.k, self.spec
        inclusive = [self.scan_warp(total) for total in totals]
        own = [k.where(self.is_first_lane, self.identity, k.shfl_up(value, 1, self.width)) for value in inclusive]
        if spec.group <= WARP:
            before = []
            total = self.identity
            for value, exclusive in zip(inclusive, own, strict=True):
                before.append(self.combine(total, exclusive))
                total = self.combine(total, k.shfl_idx(value, self.width - 1, self.width))
            return before, total
        count = spec.unroll * NUM_WARPS
        meeting = self.meeting.at(side * count)
        with k.when(self.is_last_lane):
            for i, value in enumerate(inclusive):
                meeting[k.warp + i * NUM_WARPS] = value
        k.barrier()
        side.set(side ^ 1)  # the other half: no thread reads it any more after the next barrier
        joined = self.scan_warp(meeting[k.lane & (count - 1)])
        before = []
        for i, exclusive in enumerate(own):
            place = k.warp + i * NUM_WARPS
            earlier = k.shfl_idx(joined, place - 1)
            if i == 0:
                earlier = k.where(place == 0, self.identity, earlier)
            before.append(self.combine(earlier, exclusive))
        return before, k.shfl_idx(joined, count - 1)

    def scan_warp(self, value: Value) -> Value:
        """Return the inclusive scan over the lanes of a group."""
        k = self.k
        distance = 1
        while distance < self.width:
            joined = self.combine(k.shfl_up(value, distance, self.width), value)
            value = k.where(self.lane >= distance, joined, value)
            distance *= 2
        return value

    def scan_rest(self, origin: Position, target: Spot, num_rest: Value, carry: Any) -> None:
        """Scan the elements behind the last full unit."""
        k, spec = self.k, self.spec
        with k.range(k.const(0, self.type), num_rest) as i:
            element = self.num_units * spec.vector + i
            place = origin.moved(self.scanned, element)
            carry.set(self.combine(carry.get(), self.lifted(place, place.load(1), 1)[0]))
            target.moved(self.scanned, element).store([self.result(carry.get())])

    def place(self, origin: Position, unit: Value) -> Position:
        """Position of a unit of the row."""
        vector = self.spec.vector
        return origin.moved(self.scanned, unit * vector if vector > 1 else unit)


__all__ = ["BLOCK", "MAX_UNROLL", "NUM_WARPS", "WARP", "ScanRowsSpec", "make"]
