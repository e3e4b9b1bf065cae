"""Row-wise kernels: a group of threads per row, which computes all passes of a row program.

Data layout: rows are the innermost loop of the nest; a unit is `vector` elements of a row, which one instruction loads,
and the units of a row are numbered in order. Who owns what: a group (a warp or part of one, or a block) computes a row,
a thread every `group`-th of its units. Algorithm: where the units of a thread fit registers (`units`), they are loaded
once, and what later passes need of them stays there; else, and where there is one pass, each pass reads them batch by
batch, and computes again what it needs of them. Within a pass a thread combines the elements of its units as the
kernels of `reduce.rows` do, in the same batches and the same trees, so that results have the same bits; every thread
then has the result of the group's first.
A row that is too long for the registers of a block may be shared by a cluster of blocks (see `sharing`), which leave
accumulators for each other in shared memory.
Bytes per element: those of the operands once, or, where the units do not fit, those of the inputs once per pass, from
the second on out of the L2 cache as far as it holds the rows that are computed at a time.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.elementwise.chain import OUTER, STRIDED, UNIT, BoundChain, Chain, Splitter, Spot, locate
from oxinp._kernels.problem import MAX_KERNELS, Element, Instr
from oxinp._kernels.reduce.accumulate import Running
from oxinp._kernels.reduce.rows import BLOCK, WARP
from oxinp._kernels.rowwise import sharing
from oxinp._kernels.rowwise.program import Item, Program, RowReduction
from oxinp._ptx import Builder, Kernel, block_reduce, warp_reduce
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.warp import shuffle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.value import Value

MOVING = frozenset({UNIT, STRIDED})  # kinds of inputs whose elements differ along a row
UNITS_STORED = 4  # units whose further inputs are loaded together where nothing is reduced


class RowwiseSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    chain : Chain
        Inputs and outputs, without instructions; its loops are those over rows, then the one along a row.
    items : tuple of Instr or RowReduction
    group : int
        Threads per row: a power of two up to 32, or the whole block of that size.
    vector : int
        Elements of a unit.
    units : int
        Units per thread, a multiple of all batches, kept in registers; 0 where every pass reads them again.
    is_full : bool
        Every thread has that many.
    cluster : int
        Blocks that share a row, each with `units` per thread.
    sharing : str
        How, see `sharing`; empty for one block.
    is_ordered : bool
        A block has read everything before it stores what there is one element of per row, which may be one of these.
    rest : int
        Elements behind the last full unit that a thread may have.
    """

    chain: Chain
    items: tuple[Item, ...]
    group: int
    vector: int
    units: int
    is_full: bool
    rest: int
    cluster: int = 1
    sharing: str = ""
    is_ordered: bool = False

    @property
    def block(self) -> int:
        """Threads per block."""
        return BLOCK if self.sharing == sharing.THREADS else max(self.group, BLOCK)

    @property
    def program(self) -> Program:
        """What is computed in which pass."""
        inputs = self.chain.inputs
        are_uniform = [x.kind not in MOVING for x in inputs]
        return Program([x.type for x in inputs], are_uniform, self.items, [number for number, _ in self.chain.outputs])


class _Unit(NamedTuple):
    """A unit of a thread, or an element behind the last one: where its operands begin, and what is known of it.

    `is_valid` is None for a unit that every thread has; one that lies behind the row's end is read inside.
    """

    width: int
    inputs: list[Spot]
    outputs: list[Spot]
    is_valid: Value | None
    values: dict[int, Sequence[Value]]


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: RowwiseSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Rowwise(spec).build()


class _Rowwise:
    """The kernel while it is built."""

    def __init__(self, spec: RowwiseSpec) -> None:
        self.spec = spec
        self.program = spec.program
        is_shared = spec.cluster > 1
        shape: dict[str, Any] = {"cluster": spec.cluster, "target": "sm_90"} if is_shared else {}
        self.k = k = Builder("rowwise", block=spec.block, **shape)
        self.rank = k.cast(k.special("cluster_ctarank"), spec.chain.index_type) if is_shared else None
        self.type = spec.chain.index_type
        self.bound = BoundChain(k, spec.chain)
        self.num_rows, self.num_units = (k.scalar(name, self.type) for name in ("num_rows", "num_units"))
        self.num_rest = k.scalar("num_rest", self.type) if spec.rest else None
        self.kept = Splitter(k, "kept", spec.chain.ndim - 1, self.type)
        self.uniform: dict[int, Value] = {}

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        if spec.group <= WARP:
            row = k.cast(k.ctaid * (spec.block // spec.group) + k.tid / spec.group, self.type)
            self.thread = k.cast(k.tid % spec.group, self.type)
            self.has_row: Value | None = row < self.num_rows
            row = k.min(row, self.num_rows - 1)
        else:
            row = k.cast(k.ctaid / spec.cluster if spec.cluster > 1 else k.ctaid, self.type)
            self.thread, self.has_row = k.cast(k.tid, self.type), None
            if spec.sharing == sharing.THREADS:
                assert self.rank is not None
                self.thread = self.thread + self.rank * spec.block
        self.row = locate(self.bound.origin(), range(spec.chain.ndim - 1), self.kept.split(row))
        for number, spot in enumerate(self.row.inputs):
            if self.program.is_uniform[number]:
                self.uniform[number] = spot.load(1)[0]
        if spec.units:
            self.compute_held()
        else:
            for level in range(self.program.num_passes):
                self.compute_again(level)
        if spec.is_ordered:
            k.barrier()
        self.store_uniform()
        if self.rank is not None:
            cluster_barrier(k)  # other blocks may still read from this one
        return k.build()

    # -- passes

    def compute_held(self) -> None:
        """Compute all passes on units that stay in registers."""
        spec = self.spec
        first, last = self.thread, max([item.batch for item in spec.items if isinstance(item, RowReduction)])
        if spec.sharing in {sharing.BATCHES, sharing.CHUNKS}:
            assert self.rank is not None
            first, last = first + self.rank * (spec.units * spec.group), spec.units  # the last blocks may lack any
        units = [*self.units(first, spec.units, 0 if spec.is_full else last), *self.rest()]
        for level, reductions in enumerate(self.program.reductions):
            known = set(units[0].values)
            needed = self.program.needed(level, known)
            self.prepare(needed)
            runnings = [] if spec.sharing == sharing.BATCHES else [Running(self.k, item.op) for _, item in reductions]
            if reductions and spec.sharing == sharing.BATCHES:
                self.load_and_evaluate(needed, units)
                runnings = self.taken_batches(level, units)
                self.store_units(level, units)
            elif reductions:
                self.compute(level, needed, units, runnings)
            else:
                for start in range(0, len(units), UNITS_STORED):
                    self.compute(level, needed, units[start : start + UNITS_STORED], [])
            self.finish(level, runnings)

    def compute_again(self, level: int) -> None:
        """Compute one pass on units that are read for it.

        In the last iteration, a thread that has no unit left loads the last one, which does not count.
        """
        k, spec = self.k, self.spec
        reductions = self.program.reductions[level]
        needed = self.program.needed(level)
        if not needed:
            return
        self.prepare(needed)
        runnings = [Running(k, item.op) for _, item in reductions]
        count = max([item.batch for _, item in reductions], default=UNITS_STORED)
        step = spec.group * count
        unit = k.var(self.thread)
        with k.loop():
            k.break_if(unit + (step - spec.group) >= self.num_units)
            first = unit.get()
            self.compute(level, needed, self.units(first, count), runnings)
            unit.set(first + step)
        with k.when(unit < self.num_units):
            self.compute(level, needed, self.units(unit.get(), count, count), runnings)
        if spec.rest:
            self.compute(level, needed, self.rest(), runnings)
        self.finish(level, runnings)

    def compute(self, level: int, needed: list[int], units: list[_Unit], runnings: list[Running]) -> None:
        """Compute what a pass needs of several units."""
        self.load_and_evaluate(needed, units)
        for (_, item), running in zip(self.program.reductions[level], runnings, strict=True):
            self.take(item, units, running)
        self.store_units(level, units)

    def load_and_evaluate(self, needed: list[int], units: list[_Unit]) -> None:
        """Compute values of several units, all loaded before the first is used."""
        program = self.program
        for unit in units:
            for number in needed:
                if number < program.num_inputs and not program.is_uniform[number]:
                    unit.values[number] = unit.inputs[number].load(unit.width)
        for unit in units:
            for number in needed:
                if number >= program.num_inputs and not program.is_uniform[number]:
                    unit.values[number] = self.evaluated(number, unit)

    def store_units(self, level: int, units: list[_Unit]) -> None:
        """Store what a pass stores of several units."""
        for i in self.program.stores[level]:
            number, _ = self.spec.chain.outputs[i]
            for unit in units:
                self.store(unit, i, self.elements(number, unit))

    def take(self, item: RowReduction, units: list[_Unit], running: Running) -> None:
        """Combine the elements of units with a running accumulator, batch by batch, those behind them one by one."""
        for batch in self.batches(item, units):
            elements = self.elements_of(item, batch)
            is_unit = batch[0].width == self.spec.vector
            if (item.is_short and is_unit) or batch[0].is_valid is None:
                running.take(elements)
            else:
                with self.k.when(batch[0].is_valid):
                    running.take(elements)

    def batches(self, item: RowReduction, units: list[_Unit]) -> list[list[_Unit]]:
        """Divide units into the batches of a reduction; each element behind them is one."""
        full = [unit for unit in units if unit.width == self.spec.vector]
        batches = [full[first : first + item.batch] for first in range(0, len(full), item.batch)]
        return [*batches, *[[unit] for unit in units[len(full) :]]]

    def elements_of(self, item: RowReduction, batch: list[_Unit]) -> list[Element]:
        """The elements of a batch that a reduction takes."""
        elements = []
        for unit in batch:
            counts: Sequence[Value | None] = (unit.is_valid,) * unit.width
            if item.mask is not None:
                flags = self.elements(item.mask, unit)
                counts = flags if unit.is_valid is None else [flag & unit.is_valid for flag in flags]
            values = self.elements(item.value, unit)
            elements += [Element(value, None, count) for value, count in zip(values, counts, strict=True)]
        return elements

    def taken_batches(self, level: int, units: list[_Unit]) -> list[Running]:
        """Combine the batches of units with those that other blocks of the cluster have."""
        spec = self.spec
        items = [item for _, item in self.program.reductions[level]]
        batches = [[self.elements_of(item, batch) for batch in self.batches(item, units)] for item in items]

        def is_there(rank: int, i: int, item: RowReduction) -> Value | None:
            number = self.thread + (rank * spec.units + i * item.batch) * spec.group
            return None if spec.is_full else number < self.num_units

        return sharing.join_batches(self.k, items, batches, spec.cluster, is_there)

    def finish(self, level: int, runnings: list[Running]) -> None:
        """Combine the accumulators of a row's threads to the results of reductions, which every thread gets."""
        k = self.k
        items = [item for _, item in self.program.reductions[level]]
        totals = self.joined(items, [running.total() for running in runnings]) if items else []
        for (number, item), total in zip(self.program.reductions[level], totals, strict=True):
            op, value = item.op, total
            if op.finish is not None:
                value = op.finish(k, value, *[self.uniform[parameter] for parameter in item.parameters])
            self.uniform[number] = k.cast(value, item.type)

    def joined(self, items: list[RowReduction], totals: list[Value]) -> list[Value]:
        """Combine the accumulators of a row's threads; every thread has the same bits."""
        k, spec = self.k, self.spec
        if spec.sharing == sharing.CHUNKS:
            return sharing.join_chunks(k, items, totals, spec.cluster)
        if spec.sharing == sharing.THREADS:
            found = sharing.join_threads(k, items, totals, spec.cluster)
        else:
            found = []
            for item, total in zip(items, totals, strict=True):

                def combine(a: Value, b: Value, item: RowReduction = item) -> Value:
                    value: Value = item.op.combine(k, a, b)
                    return value

                is_warp = spec.group <= WARP
                found.append(warp_reduce(k, total, combine, spec.group) if is_warp else block_reduce(k, total, combine))
        if spec.group == 1:
            return found
        # Not every operator gives the same bits in either order: those of the first thread are stored elsewhere.
        return [shuffle(k, "idx", total, 0, min(spec.group, WARP)) for total in found]

    # -- values

    def units(self, first: Value, count: int, num_flagged: int = 0) -> list[_Unit]:
        """`count` units, `group` apart; the last `num_flagged` of them need not be there."""
        k, spec = self.k, self.spec
        loop = spec.chain.ndim - 1
        start = self.row.moved(loop, first * spec.vector)
        made = []
        for i in range(count):
            here = start.moved(loop, spec.group * spec.vector * i)
            inputs, is_valid = here.inputs, None
            if i >= count - num_flagged:
                number = first + spec.group * i if i else first
                is_valid = number < self.num_units
                inputs = self.row.moved(loop, k.min(number, self.num_units - 1) * spec.vector).inputs
            made.append(_Unit(spec.vector, inputs, here.outputs, is_valid, {}))
        return made

    def rest(self) -> list[_Unit]:
        """The elements behind the last full unit that the thread may have."""
        spec = self.spec
        made = []
        for i in range(spec.rest):
            assert self.num_rest is not None
            number = self.thread + spec.group * i if i else self.thread
            here = self.row.moved(spec.chain.ndim - 1, self.num_units * spec.vector + number)
            inside = self.row.moved(
                spec.chain.ndim - 1, self.k.min(number, self.num_rest - 1) + self.num_units * spec.vector
            )
            made.append(_Unit(1, inside.inputs, here.outputs, number < self.num_rest, {}))
        return made

    def prepare(self, needed: list[int]) -> None:
        """Compute the uniform values that a pass uses."""
        for number in needed:
            if self.program.is_uniform[number]:
                self.uniform_value(number)

    def uniform_value(self, number: int) -> Value:
        """Return a uniform value."""
        value = self.uniform.get(number)
        if value is None:
            item = self.program.items[number - self.program.num_inputs]
            assert isinstance(item, Instr)
            value = self.uniform[number] = self.lowered(item, [self.uniform_value(a) for a in item.args])
        return value

    def elements(self, number: int, unit: _Unit) -> Sequence[Value]:
        """Return a value of each element of a unit."""
        if self.program.is_uniform[number]:
            return (self.uniform_value(number),) * unit.width
        return unit.values[number]

    def evaluated(self, number: int, unit: _Unit) -> list[Value]:
        """Compute the value of an instruction for each element of a unit."""
        item = self.program.items[number - self.program.num_inputs]
        assert isinstance(item, Instr)
        columns = [self.elements(a, unit) for a in item.args]
        return [self.lowered(item, [column[i] for column in columns]) for i in range(unit.width)]

    def lowered(self, item: Instr, args: list[Value]) -> Value:
        """Compute an instruction."""
        value: Value = item.lower(self.k, *args)
        if value.type is not item.type:
            raise TypeError(f"{item.lower!r} gave {value.type}, and its instruction says {item.type}")
        return value

    # -- stores

    def store(self, unit: _Unit, i: int, values: Sequence[Value]) -> None:
        """Store the elements of a unit, if it is there."""
        conditions = [flag for flag in (unit.is_valid, self.has_row) if flag is not None]
        spot = unit.outputs[i]
        loop = self.spec.chain.ndim - 1
        is_strided = spot.operand.spec.kind == STRIDED
        with self.k.when(conditions[0] & conditions[-1]) if conditions else nullcontext():
            for j, part in enumerate([[value] for value in values] if is_strided else [values]):
                spot.moved(loop, j).store(part)

    def store_uniform(self) -> None:
        """Store the outputs that have one element per row."""
        for (number, operand), spot in zip(self.spec.chain.outputs, self.row.outputs, strict=True):
            if operand.kind == OUTER:
                value = self.uniform_value(number)
                is_first = self.thread == 0
                if self.rank is not None:
                    is_first = is_first & (self.rank == 0)
                with self.k.when(is_first if self.has_row is None else is_first & self.has_row):
                    spot.store([value])
