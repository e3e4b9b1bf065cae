"""Scans along an outer loop: lanes side by side along a kept loop.

Data layout: the innermost loop is a kept one, divided into tiles of ``32 * vector`` columns; the scanned loop is next
to it. Who owns what: a warp scans one tile, all rows of it or, if the scan is split, a chunk of them; a thread `vector`
columns. Algorithm: threads go down their columns, `unroll` loads ahead, and store each result at once. If the scan is
split, a first kernel stores the totals of all chunks but the last, and every thread of the second combines those of the
chunks before its own. Bytes per element: inputs and result once; if the scan is split, inputs twice.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import Divisor, Position, Splitter, Spot, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.scan.kernel import PREFIXED, TOTALS, WHOLE, ScanKernel, ScanSpec
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8
TOTALS_AT_ONCE = 4


class ScanColumnsSpec(ScanSpec):
    """One kernel of the family; its loops are the outer kept ones, the scanned one, then one kept loop.

    Attributes
    ----------
    vector, unroll : int
    """

    vector: int
    unroll: int


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ScanColumnsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _ScanColumns(spec).build()


class _ScanColumns(ScanKernel):
    """The kernel while it is built."""

    def __init__(self, spec: ScanColumnsSpec) -> None:
        self.spec = spec
        self.k = k = Builder("scan_columns", block=WARP * NUM_WARPS)
        super().__init__(k, spec)
        self.innermost = spec.chain.ndim - 1
        self.scanned = self.innermost - 1
        self.num_columns, self.num_rows, self.num_warps = (
            k.scalar(name, self.type) for name in ("num_columns", "num_rows", "num_warps")
        )
        self.tiles = Divisor(k, "num_tiles", self.type)
        if spec.part != WHOLE:
            self.chunk, self.num_kept = (k.scalar(name, self.type) for name in ("chunk", "num_kept"))
            self.num_chunks = Divisor(k, "num_chunks", self.type)
        self.kept = Splitter(k, "kept", max(self.scanned, 1), self.type)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        number = k.cast(k.ctaid, self.type) * NUM_WARPS + k.cast(k.warp, self.type)
        outer, tile = self.tiles.divide(number)
        begin, end = k.const(0, self.type), self.num_rows
        chunk = None
        if spec.part != WHOLE:
            outer, chunk = self.num_chunks.divide(outer)
            begin = chunk * self.chunk
            end = k.min(end, begin + self.chunk)
        column = (tile * WARP + k.cast(k.lane, self.type)) * spec.vector
        with k.when((number < self.num_warps) & (column < self.num_columns)):
            self.scan(outer, chunk, column, begin, end)
        return k.build()

    def scan(self, outer: Value, chunk: Value | None, column: Value, begin: Value, end: Value) -> None:
        """Scan the columns of a thread."""
        k, spec = self.k, self.spec
        indices = self.kept.split(outer)[: self.scanned]
        origin = locate(self.bound.origin(), range(self.scanned), indices).moved(self.innermost, column)
        target = self.target
        if target is not None:
            for loop, index in enumerate(indices):
                target = target.moved(loop, index)
            target = target.moved(self.innermost, column)
        carries = [k.var(self.identity) for _ in range(spec.vector)]
        place = outer * self.num_columns + column
        if spec.part == PREFIXED:
            assert chunk is not None
            self.prefix(chunk, place, carries)
        row = k.var(begin)
        with k.loop():
            k.break_if(row + spec.unroll > end)
            first = row.get()
            self.take(origin, target, [first + i if i else first for i in range(spec.unroll)], carries)
            row.set(first + spec.unroll)
        with k.range(row.get(), end) as last:
            self.take(origin, target, [last], carries)
        if spec.part == TOTALS:
            assert chunk is not None
            self.totals.store(chunk * self.num_kept + place, [carry.get() for carry in carries])

    def prefix(self, chunk: Value, place: Value, carries: list[Any]) -> None:
        """Combine the totals of the chunks before this one."""
        k, spec = self.k, self.spec
        with k.range(k.const(0, self.type), chunk, TOTALS_AT_ONCE) as first:
            numbers = [first + i if i else first for i in range(TOTALS_AT_ONCE)]
            loaded = [self.totals.load(k.min(n, chunk - 1) * self.num_kept + place, spec.vector) for n in numbers]
            for number, totals in zip(numbers, loaded, strict=True):
                for carry, total in zip(carries, totals, strict=True):
                    counted = k.where(number < chunk, total, self.identity)
                    carry.set(self.combine(carry.get(), counted))

    def take(self, origin: Position, target: Spot | None, rows: list[Value], carries: list[Any]) -> None:
        """Scan some rows, all loaded before the first is used."""
        width = self.spec.vector
        places = [origin.moved(self.scanned, row) for row in rows]
        loaded = [place.load(width) for place in places]
        for row, place, values in zip(rows, places, loaded, strict=True):
            for carry, value in zip(carries, self.lifted(place, values, width), strict=True):
                carry.set(self.combine(carry.get(), value))
            if target is not None:
                target.moved(self.scanned, row).store([self.result(carry.get()) for carry in carries])


__all__ = ["NUM_WARPS", "PREFIXED", "WARP", "ScanColumnsSpec", "make"]
