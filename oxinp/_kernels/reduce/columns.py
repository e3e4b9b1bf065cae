"""Reductions along outer loops: lanes side by side along a kept loop.

Data layout: the innermost loop is a kept one, divided into tiles of ``32 * vector`` columns; the elements of the
reduced loops are numbered as rows. Who owns what: a block reduces one tile (`down` 8: a warp every eighth row) or eight
tiles side by side (`down` 1), and all rows or, if the reduction is split, a chunk of them. Algorithm: threads go down
their columns, `unroll` loads ahead; the accumulators of the warps are combined in shared memory, in a tree. Chunks
leave partial results, which a second reduction combines, or the block of a tile that ends last: a flag per tile counts
those that have ended, and is zero before and after. Bytes per element: those of the inputs, once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import Divisor, Position, Splitter, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.reduce.accumulate import Running, tree
from oxinp._kernels.reduce.kernel import ReductionKernel, ReductionSpec
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, pred, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8
BLOCK = WARP * NUM_WARPS
MAX_AT_ONCE, MAX_WORDS = 8, 32  # partial results that a thread loads before it uses the first, and their registers


class ColumnsSpec(ReductionSpec):
    """One kernel of the family; its loops are the outer kept ones, the reduced ones, then one kept loop.

    Attributes
    ----------
    down : int
        Warps that share a column, 8 or 1.
    vector, unroll : int
    joins : bool
        The last block of each tile combines the partial results of its chunks; of one kept loop.
    """

    down: int
    vector: int
    unroll: int
    joins: bool = False

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
        self.totals: Any = None  # of warps, in shared memory
        self.kept = Splitter(k, "kept", max(spec.num_kept - 1, 1), self.type)
        self.reduced = Splitter(k, "rows", spec.chain.ndim - spec.num_kept, self.type)

    def declare_partials(self, k: Builder) -> None:
        """See `ReductionKernel`."""
        if self.spec.joins:
            self.partials, self.flags = k.pointer("partials", self.spec.op.acc), k.pointer("flags", u32)

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
        totals = [running.total() for running in runnings]
        if spec.joins:
            assert shift is not None
            self.join_chunks(tile, shift, totals)
        elif spec.down > 1:
            self.join(totals, tile, lambda column, total: self.store([*outer, column], total, shift))
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

    def join(self, totals: list[Value], tile: Value, store: Callable[[Value, Value], None]) -> None:
        """Combine the accumulators of the warps, which lie in shared memory by warp and column: a thread per column."""
        k, spec = self.k, self.spec
        if self.totals is None:
            self.totals = k.shared(spec.op.acc, (NUM_WARPS, spec.width))
        self.totals.store((k.warp, k.lane * spec.vector), totals)
        k.barrier()
        own = k.tid + 0
        column = tile * spec.width + k.cast(own, self.type)
        with k.when((own < spec.width) & (column < self.num_columns)):
            total = tree(k, spec.op.combine, [self.totals[i * spec.width + own] for i in range(NUM_WARPS)])
            store(column, total)

    def join_chunks(self, tile: Value, shift: Value, totals: list[Value]) -> None:
        """Leave partial results, and combine those of all chunks if this block is the last of its tile."""
        k, spec = self.k, self.spec

        def leave(column: Value, total: Value) -> None:
            self.partials[shift + column] = total

        self.join(totals, tile, leave)
        k.fence("gpu")
        k.barrier()
        is_last = k.shared(pred, 1)
        flag = self.flags.at(k.cast(tile, i64))
        with k.when(k.tid == 0):
            ended = flag.atomic("add", 0, k.const(1, u32), order="acq_rel.gpu")
            is_last[0] = k.cast(ended + 1, self.type) == self.num_chunks.value
        k.barrier()
        with k.when(is_last[0]):
            k.fence("gpu")
            column = tile * spec.width + k.cast(k.lane, self.type) * spec.vector
            runnings = [Running(k, spec.op) for _ in range(spec.vector)]
            with k.when(column < self.num_columns):
                self.take_partials(column, runnings)
            self.join([running.total() for running in runnings], tile, lambda own, total: self.store([own], total))
            with k.when(k.tid == 0):
                flag[0] = k.const(0, u32)

    def take_partials(self, column: Value, runnings: list[Running]) -> None:
        """Combine the partial results of some columns, of which a warp has every eighth chunk's."""
        k = self.k
        begin, end = k.cast(k.warp, self.type), self.num_chunks.value

        def take(chunks: list[Value]) -> None:
            loaded = [self.partials.load(chunk * self.chunk_stride + column, len(runnings)) for chunk in chunks]
            for values in loaded:
                for running, value in zip(runnings, values, strict=True):
                    running.join(value)

        words = len(runnings) * self.spec.op.acc.nbytes // 4
        at_once = min(MAX_AT_ONCE, max(1, MAX_WORDS // max(1, words)))
        step = NUM_WARPS * at_once
        chunk = k.var(begin)
        with k.loop():
            k.break_if(chunk + (step - NUM_WARPS) >= end)
            first = chunk.get()
            take([first + NUM_WARPS * i if i else first for i in range(at_once)])
            chunk.set(first + step)
        with k.range(chunk.get(), end, NUM_WARPS) as last:
            take([last])
