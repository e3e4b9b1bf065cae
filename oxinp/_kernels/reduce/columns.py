"""Reductions along outer loops: lanes side by side along a kept loop.

Data layout: the innermost loop is a kept one, divided into tiles of ``32 * vector`` columns; the elements of the
reduced loops are numbered as rows. Who owns what: a block reduces one tile (`down` 8: a warp every eighth row) or eight
tiles side by side (`down` 1), and all rows or, if the reduction is split, a chunk of them. Algorithm: threads go down
their columns, `unroll` loads ahead; the accumulators of the warps are combined in shared memory, in a tree. Chunks
leave partial results, which a second reduction combines. Bytes per element: those of the inputs, once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Position, Splitter, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.reduce.accumulate import Running, tree
from oxinp._kernels.reduce.kernel import ReductionKernel, ReductionSpec
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8
BLOCK = WARP * NUM_WARPS


class ColumnsSpec(ReductionSpec):
    """One kernel of the family; its loops are the outer kept ones, the reduced ones, then one kept loop.

    Attributes
    ----------
    down : int
        Warps that share a column, 8 or 1.
    vector, unroll : int
    """

    down: int
    vector: int
    unroll: int

    @property
    def width(self) -> int:
        """Columns of a block."""
        return WARP * self.vector * (NUM_WARPS // self.down)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ColumnsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Columns(spec).build()


class _Columns(ReductionKernel):
    """The kernel while it is built."""

    def __init__(self, spec: ColumnsSpec) -> None:
        self.spec = spec
        self.innermost = spec.chain.ndim - 1
        self.k = k = Builder("reduce_columns", block=BLOCK)
        super().__init__(k, spec)
        self.num_columns, self.num_rows = (k.scalar(name, self.type) for name in ("num_columns", "num_rows"))
        self.tiles = Divisor(k, "num_tiles", self.type)
        if spec.is_split:
            self.chunk, self.chunk_stride = (k.scalar(name, self.type) for name in ("chunk", "chunk_stride"))
            self.num_chunks = Divisor(k, "num_chunks", self.type)
        self.kept = Splitter(k, "kept", max(spec.num_kept - 1, 1), self.type)
        self.reduced = Splitter(k, "rows", spec.chain.ndim - spec.num_kept, self.type)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        number, tile = self.tiles.divide(k.cast(k.ctaid, self.type))
        shift = None
        begin, end = self.k.const(0, self.type), self.num_rows
        if spec.is_split:
            number, chunk = self.num_chunks.divide(number)
            begin = chunk * self.chunk
            end = k.min(end, begin + self.chunk)
            shift = chunk * self.chunk_stride
        outer = self.kept.split(number)[: spec.num_kept - 1]
        warp, lane = k.cast(k.warp, self.type), k.cast(k.lane, self.type)
        column = tile * spec.width + lane * spec.vector
        if spec.down == 1:
            column = column + warp * (WARP * spec.vector)
        else:
            begin = begin + warp
        origin = locate(self.bound.origin(), range(spec.num_kept - 1), outer).moved(self.innermost, column)
        runnings = [Running(k, spec.op) for _ in range(spec.vector)]
        with k.when(column < self.num_columns):
            self.run(origin, begin, end, runnings)
            if spec.down == 1:
                for i, running in enumerate(runnings):
                    self.store([*outer, column + i if i else column], running.total(), shift)
        if spec.down > 1:
            self.join(tile, outer, shift, [running.total() for running in runnings])
        return k.build()

    def run(self, origin: Position, begin: Value, end: Value, runnings: list[Running]) -> None:
        """Combine the rows from `begin` to `end`, `down` apart."""
        k, spec = self.k, self.spec
        step = spec.down * spec.unroll
        row = k.var(begin)
        with k.loop():
            k.break_if(row + (step - spec.down) >= end)
            first = row.get()
            places = [self.place(origin, first + spec.down * i if i else first) for i in range(spec.unroll)]
            self.take(places, runnings)
            row.set(first + step)
        with k.range(row.get(), end, spec.down) as last:
            self.take([self.place(origin, last)], runnings)

    def take(self, places: list[Position], runnings: list[Running]) -> None:
        """Combine several rows, all loaded before the first is used."""
        width = self.spec.vector
        loaded = [place.load(width) for place in places]
        rows = [self.elements(place, values, width) for place, values in zip(places, loaded, strict=True)]
        for running, *column in zip(runnings, *rows, strict=True):
            running.take(column)

    def place(self, origin: Position, row: Value) -> Position:
        """Position of a row."""
        return locate(origin, range(self.spec.num_kept - 1, self.innermost), self.reduced.split(row))

    def join(self, tile: Value, outer: list[Value], shift: Value | None, totals: list[Value]) -> None:
        """Combine the accumulators of the warps, which lie in shared memory by warp and column: a thread per column."""
        k, spec = self.k, self.spec
        partial = k.shared(spec.op.acc, (NUM_WARPS, spec.width))
        partial.store((k.warp, k.lane * spec.vector), totals)
        k.barrier()
        own = k.tid + 0
        column = tile * spec.width + k.cast(own, self.type)
        with k.when((own < spec.width) & (column < self.num_columns)):
            total = tree(k, spec.op.combine, [partial[i * spec.width + own] for i in range(NUM_WARPS)])
            self.store([*outer, column], total, shift)
