"""Reductions along the innermost loops: a group of threads per result.

Data layout: the reduced loops are the inner ones, a row; a unit is `vector` elements of a row, which one instruction
loads, and the units of a row are numbered in order. Who owns what: a group (a warp or part of one, or a block) reduces
a row or, if the reduction is split, a chunk of its units; a thread every `group`-th unit. Algorithm: a thread combines
its units with one accumulator, `unroll` loads ahead; the accumulators of a group are combined in a tree, over the warp,
then over the block. Chunks leave partial results, which a second reduction combines. Bytes per element: those of the
inputs, once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Position, Splitter, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.reduce.accumulate import Running
from oxinp._kernels.reduce.kernel import ReductionKernel, ReductionSpec
from oxinp._ptx import Builder, Kernel, block_reduce, warp_reduce
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.problem import Element
    from oxinp._ptx.value import Value

WARP = 32
BLOCK = 256


class RowsSpec(ReductionSpec):
    """One kernel of the family; its loops are the kept ones, then the reduced ones.

    Attributes
    ----------
    group : int
        Threads per row: a power of two up to 32, or the whole block of that size.
    vector, unroll : int
    at_once : int
        Rows that a group up to a warp loads together, if each has at most `unroll` units per thread; else 0.
    """

    group: int
    vector: int
    unroll: int
    at_once: int

    @property
    def block(self) -> int:
        """Threads per block."""
        return max(self.group, BLOCK)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: RowsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Rows(spec).build()


class _Rows(ReductionKernel):
    """The kernel while it is built."""

    def __init__(self, spec: RowsSpec) -> None:
        self.spec = spec
        self.k = k = Builder("reduce_rows", block=spec.block)
        super().__init__(k, spec)
        self.num_rows, self.num_units, self.num_rest = (
            k.scalar(name, self.type) for name in ("num_rows", "num_units", "num_rest")
        )
        if spec.is_split:
            self.chunk = k.scalar("chunk", self.type)
            self.num_chunks = Divisor(k, "num_chunks", self.type)
        self.kept = Splitter(k, "kept", spec.num_kept, self.type)
        self.reduced = Splitter(k, "units", spec.chain.ndim - spec.num_kept, self.type)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        if spec.at_once:
            self.reduce_short_rows()
        elif spec.group <= WARP:
            row = k.cast(k.ctaid * (spec.block // spec.group) + k.tid / spec.group, self.type)
            self.reduce_row(row, k.cast(k.tid % spec.group, self.type), None)
        elif spec.is_split:
            row, chunk = self.num_chunks.divide(k.cast(k.ctaid, self.type))
            self.reduce_row(row, k.cast(k.tid, self.type), chunk)
        else:
            self.reduce_row(k.cast(k.ctaid, self.type), k.cast(k.tid, self.type), None)
        return k.build()

    def reduce_row(self, row: Value, thread: Value, chunk: Value | None) -> None:
        """Reduce a row by a group; groups beyond the last row only take part in the exchange of the warp."""
        k, spec = self.k, self.spec
        kept = self.kept.split(row)
        origin = locate(self.bound.origin(), range(spec.num_kept), kept)
        nothing = k.const(0, self.type)
        has_row = row < self.num_rows
        begin, end = thread, k.where(has_row, self.num_units, nothing)
        num_rest = k.where(has_row, self.num_rest, nothing)
        if chunk is not None:
            begin = chunk * self.chunk + thread
            end = k.min(end, (chunk + 1) * self.chunk)
            num_rest = k.where(chunk == 0, num_rest, nothing)
        running = Running(k, spec.op)
        self.run(origin, begin, end, running)
        self.take_rest(origin, thread, num_rest, running)
        total = self.join(running.total())
        with k.when((thread == 0) & has_row):
            self.store(kept, total, None if chunk is None else chunk * self.num_rows)

    def reduce_short_rows(self) -> None:
        """Reduce several rows by a group, which loads all their units before it uses the first."""
        k, spec = self.k, self.spec
        per_block = spec.block // spec.group
        thread = k.cast(k.tid % spec.group, self.type)
        first = k.cast(k.ctaid * (per_block * spec.at_once) + k.tid / spec.group, self.type)
        units = [thread + spec.group * i if i else thread for i in range(spec.unroll)]
        gathered = []
        for i in range(spec.at_once):
            row = first + per_block * i if i else first
            kept = self.kept.split(k.min(row, self.num_rows - 1))
            origin = locate(self.bound.origin(), range(spec.num_kept), kept)
            places = [self.place(origin, k.min(unit, self.num_units - 1)) for unit in units]
            gathered.append((row, kept, origin, places, [place.load(spec.vector) for place in places]))
        for row, kept, origin, places, loaded in gathered:
            running = Running(k, spec.op)
            running.take(self.taken(places, loaded, [unit < self.num_units for unit in units]))
            self.take_rest(origin, thread, self.num_rest, running)
            total = self.join(running.total())
            with k.when((thread == 0) & (row < self.num_rows)):
                self.store(kept, total)

    def take_rest(self, origin: Position, thread: Value, num_rest: Value, running: Running) -> None:
        """Combine the elements behind the last full unit."""
        k, spec = self.k, self.spec
        if spec.vector > 1:
            with k.range(thread, num_rest, spec.group) as i:
                place = origin.moved(spec.chain.ndim - 1, self.num_units * spec.vector + i)
                running.take(self.elements(place, place.load(1), 1))

    def join(self, total: Value) -> Value:
        """Combine the accumulators of a group."""
        k, op, group = self.k, self.spec.op, self.spec.group

        def combine(a: Value, b: Value) -> Value:
            value: Value = op.combine(k, a, b)
            return value

        return warp_reduce(k, total, combine, group) if group <= WARP else block_reduce(k, total, combine)

    def run(self, origin: Position, begin: Value, end: Value, running: Running) -> None:
        """Combine the units from `begin` to `end`, of which a thread has every `group`-th.

        In the last iteration, a thread that has no unit left loads the last one, and does not count it.
        """
        k, spec = self.k, self.spec
        step = spec.group * spec.unroll
        unit = k.var(begin)
        with k.loop():
            k.break_if(unit + (step - spec.group) >= end)
            first = unit.get()
            places = self.places(origin, first)
            loaded = [place.load(spec.vector) for place in places]
            running.take(self.taken(places, loaded))
            unit.set(first + step)
        with k.when(unit < end):
            units = [unit + spec.group * i if i else unit.get() for i in range(spec.unroll)]
            places = [self.place(origin, k.min(u, end - 1)) for u in units]
            loaded = [place.load(spec.vector) for place in places]
            running.take(self.taken(places, loaded, [u < end for u in units]))

    def places(self, origin: Position, first: Value) -> list[Position]:
        """Positions of `unroll` units, `group` apart."""
        spec = self.spec
        if spec.chain.ndim - spec.num_kept == 1:
            start = self.place(origin, first)
            return [start.moved(spec.num_kept, spec.group * spec.vector * i) for i in range(spec.unroll)]
        return [self.place(origin, first + spec.group * i if i else first) for i in range(spec.unroll)]

    def place(self, origin: Position, unit: Value) -> Position:
        """Position of a unit of the row."""
        spec = self.spec
        *outer, inner = self.reduced.split(unit)
        indices = [*outer, inner * spec.vector if spec.vector > 1 else inner]
        return locate(origin, range(spec.num_kept, spec.chain.ndim), indices)

    def taken(
        self, places: list[Position], loaded: list[list[Sequence[Value]]], valid: Sequence[Value | None] = ()
    ) -> list[Element]:
        """The elements of several loaded units; those of units that are not `valid` do not count."""
        width = self.spec.vector
        flags = valid or (None,) * len(places)
        units = [self.elements(p, v, width, flag) for p, v, flag in zip(places, loaded, flags, strict=True)]
        return [element for unit in units for element in unit]
