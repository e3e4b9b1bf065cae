"""Scans along an outer loop: lanes side by side along a kept loop.

Data layout: the innermost loop is a kept one, divided into tiles of ``32 * vector`` columns; the scanned loop is next
to it. Who owns what: a warp scans all rows of one tile, a thread `vector` columns. Algorithm: threads go down their
columns, `unroll` loads ahead, and store each result at once; fewer columns are for `chained_columns`. Bytes per
element: inputs and result once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import Divisor, Position, Splitter, Spot, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.scan.kernel import ScanKernel, ScanSpec
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8


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
        self.kept = Splitter(k, "kept", max(self.scanned, 1), self.type)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        number = k.cast(k.ctaid, self.type) * NUM_WARPS + k.cast(k.warp, self.type)
        outer, tile = self.tiles.divide(number)
        column = (tile * WARP + k.cast(k.lane, self.type)) * spec.vector
        with k.when((number < self.num_warps) & (column < self.num_columns)):
            self.scan(outer, column)
        return k.build()

    def scan(self, outer: Value, column: Value) -> None:
        """Scan the columns of a thread."""
        k, spec = self.k, self.spec
        indices = self.kept.split(outer)[: self.scanned]
        origin = locate(self.bound.origin(), range(self.scanned), indices).moved(self.innermost, column)
        target = self.target
        for loop, index in enumerate(indices):
            target = target.moved(loop, index)
        target = target.moved(self.innermost, column)
        carries = [k.var(self.identity) for _ in range(spec.vector)]
        row = k.var(0, self.type)
        with k.loop():
            k.break_if(row + spec.unroll > self.num_rows)
            first = row.get()
            self.take(origin, target, [first + i if i else first for i in range(spec.unroll)], carries)
            row.set(first + spec.unroll)
        with k.range(row.get(), self.num_rows) as last:
            self.take(origin, target, [last], carries)

    def take(self, origin: Position, target: Spot, rows: list[Value], carries: list[Any]) -> None:
        """Scan some rows, all loaded before the first is used."""
        width = self.spec.vector
        places = [origin.moved(self.scanned, row) for row in rows]
        loaded = [place.load(width) for place in places]
        for row, place, values in zip(rows, places, loaded, strict=True):
            for carry, value in zip(carries, self.lifted(place, values, width), strict=True):
                carry.set(self.combine(carry.get(), value))
            target.moved(self.scanned, row).store([self.result(carry.get()) for carry in carries])


__all__ = ["NUM_WARPS", "WARP", "ScanColumnsSpec", "make"]
