"""Reductions along outer loops: lanes side by side along a kept loop.

Data layout: the innermost loop is a kept one, cut into tiles of ``32 * vector`` columns; reduced loops are numbered as
rows. Who owns what: a block owns one tile (`down` 8: its warps take every eighth row) or eight tiles side by side
(`down` 1), for all rows or, if split, for one chunk of them. Algorithm: threads run down their columns, `unroll` loads
ahead; then the warps' values meet in shared memory in a tree. Chunks leave partial results, which a second reduction
joins. Bytes per element: those of the inputs, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.accumulate import Runnings, tree
from oxinp._kernels.chain import (
    STRIDED,
    BoundChain,
    BoundOperand,
    Chain,
    Divisor,
    OperandSpec,
    Position,
    Splitter,
    locate,
)
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

WARP = 32
NUM_WARPS = 8
BLOCK = WARP * NUM_WARPS


@dataclass(frozen=True, slots=True)
class ColumnsSpec:
    """One kernel of the family.

    Attributes
    ----------
    chain : Chain
        Without outputs; its loops are the outer kept ones, the reduced ones, then one kept loop.
    value : int
        What is reduced.
    op : ReduceOp
    num_kept : int
        Kept loops, the innermost included.
    type : Type
        Of the results written: the output's, or `op.acc` for partial results.
    down : int
        Warps that share a column, 8 or 1.
    vector, unroll : int
    is_split : bool
        Columns are cut into chunks of rows.
    """

    chain: Chain
    value: int
    op: ReduceOp
    num_kept: int
    type: Type
    down: int
    vector: int
    unroll: int
    is_split: bool

    @property
    def width(self) -> int:
        """Columns of a block."""
        return WARP * self.vector * (NUM_WARPS // self.down)


@lru_cache(MAX_KERNELS)
def make(spec: ColumnsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Columns(spec).build()


class _Columns:
    """The kernel while it is built."""

    def __init__(self, spec: ColumnsSpec) -> None:
        self.spec = spec
        self.type = spec.chain.index_type
        self.innermost = spec.chain.ndim - 1
        self.k = k = Builder("reduce_columns", block=BLOCK)
        if spec.is_split:
            k.pointer("result", spec.type, "w")  # the second reduction's
        self.target = BoundOperand(k, "out", OperandSpec(spec.type, STRIDED, is_shifted=True), "w")
        self.bound = BoundChain(k, spec.chain)
        self.target.declare_strides(spec.num_kept, self.type)
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
        chunk = None
        begin, end = self.k.const(0, self.type), self.num_rows
        if spec.is_split:
            number, chunk = self.num_chunks.divide(number)
            begin = chunk * self.chunk
            end = k.min(end, begin + self.chunk)
        outer = self.kept.split(number)[: spec.num_kept - 1]
        warp, lane = k.cast(k.warp, self.type), k.cast(k.lane, self.type)
        column = tile * spec.width + lane * spec.vector
        if spec.down == 1:
            column = column + warp * (WARP * spec.vector)
        else:
            begin = begin + warp
        origin = locate(self.bound.origin(), range(spec.num_kept - 1), outer).moved(self.innermost, column)
        runnings = Runnings(k, spec.op, spec.vector)
        with k.when(column < self.num_columns):
            self.run(origin, begin, end, runnings)
            if spec.down == 1:
                for i, total in enumerate(runnings.totals()):
                    self.store([*outer, column + i if i else column], chunk, total)
        if spec.down > 1:
            self.join(tile, outer, chunk, runnings.totals())
        return k.build()

    def run(self, origin: Position, begin: Value, end: Value, runnings: Runnings) -> None:
        """Take rows from `begin` to `end`, `down` apart."""
        k, spec = self.k, self.spec
        step = spec.down * spec.unroll
        row = k.var(begin)
        with k.loop():
            k.break_if(row + (step - spec.down) >= end)
            first = row.get()
            places = [self.place(origin, first + spec.down * i if i else first) for i in range(spec.unroll)]
            loaded = [place.load(spec.vector) for place in places]
            runnings.add([self.chosen(p, v) for p, v in zip(places, loaded, strict=True)])
            row.set(first + step)
        with k.range(row.get(), end, spec.down) as last:
            place = self.place(origin, last)
            runnings.add([self.chosen(place, place.load(spec.vector))])

    def place(self, origin: Position, row: Value) -> Position:
        """Position of a row."""
        return locate(origin, range(self.spec.num_kept - 1, self.innermost), self.reduced.split(row))

    def chosen(self, place: Position, loaded: list[Sequence[Value]]) -> list[Value]:
        """What is reduced, from loaded inputs."""
        return [values[self.spec.value] for values in place.evaluate(loaded, self.spec.vector)]

    def join(self, tile: Value, outer: list[Value], chunk: Value | None, totals: list[Value]) -> None:
        """Combine the warps' values: they lie in shared memory by warp and column, and a thread takes a column."""
        k, spec = self.k, self.spec
        partial = k.shared(spec.op.acc, (NUM_WARPS, spec.width))
        partial.store((k.warp, k.lane * spec.vector), totals)
        k.barrier()
        own = k.tid + 0
        column = tile * spec.width + k.cast(own, self.type)
        with k.when((own < spec.width) & (column < self.num_columns)):
            total = tree(k, spec.op, [partial[i * spec.width + own] for i in range(NUM_WARPS)])
            self.store([*outer, column], chunk, total)

    def store(self, indices: list[Value], chunk: Value | None, total: Value) -> None:
        """Write one result."""
        spot = self.target.spot()
        for loop, index in enumerate(indices):
            spot = spot.moved(loop, index)
        if chunk is not None:
            spot = spot.shifted(chunk * self.chunk_stride)
        spot.store([self.k.cast(total, self.spec.type)])
