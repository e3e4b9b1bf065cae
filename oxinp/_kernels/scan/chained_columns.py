"""Scans of few long columns in one pass, by decoupled look-back in a fixed order.

Data layout: the innermost loop is a kept one, the scanned loop is next to it. Tiles are ``NUM_WARPS * rows`` rows of
``32 * vector`` columns, of which blocks take the next by an atomic ticket: all tiles of the first rows, then those
below. Who owns what: a warp has `rows` consecutive rows of a tile, a thread `vector` columns of them, which it keeps in
shared memory. Algorithm: threads combine their rows; one thread per column combines what warps have, publishes the
total of the tile and computes that of the tiles above (look-back), from which all threads scan their rows. Bytes per
element: inputs and result once, and per column of a tile a descriptor.

The look-back is that of `chained`, per column: the last of `FAN` tiles also publishes their total, the last of `FAN`
such groups that of the groups, and so on, so that the order depends on the shape alone. Descriptors and tickets are
zeros before the launch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.elementwise.chain import Divisor, Position, Splitter, locate
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.scan.chained import value_type
from oxinp._kernels.scan.kernel import CHAINED, ScanKernel, ScanSpec
from oxinp._kernels.scan.totals import num_words, value_of, words_of
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

NUM_WARPS = 16
BLOCK = NUM_WARPS * WARP
FAN_BITS = 3
FAN = 1 << FAN_BITS
MAX_WORDS_AT_ONCE = 8  # of descriptors, that a thread waits for together
TOTALS_AT_ONCE = 4
MAX_LIGHT_BITS = 128  # of accumulators of which registers hold those of two blocks


class ScanChainedColumnsSpec(ScanSpec):
    """One kernel of the family; its loops are the outer kept ones, the scanned one, then one kept loop.

    Attributes
    ----------
    vector : int
        Columns of a thread.
    rows : int
        Of a warp in a tile.
    unroll : int
        Rows of a thread that are loaded before the first is used.
    levels : int
        Of totals: columns have at most ``FAN ** levels`` tiles.
    """

    vector: int
    rows: int
    unroll: int
    levels: int

    @property
    def tile(self) -> int:
        """Rows of a tile."""
        return NUM_WARPS * self.rows


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ScanChainedColumnsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    assert spec.part == CHAINED
    return _ScanChainedColumns(spec).build()


class _ScanChainedColumns(ScanKernel):
    """The kernel while it is built; before its own parameters come tickets and the descriptors of all levels."""

    def __init__(self, spec: ScanChainedColumnsSpec) -> None:
        self.spec = spec
        is_light = (
            spec.op.acc.bits <= MAX_LIGHT_BITS and not spec.op.acc.is_complex and spec.chain.index_bits == i32.bits
        )
        self.k = k = Builder("scan_chained_columns", block=BLOCK, min_blocks=2 if is_light else 1)
        self.ticket = k.pointer("ticket", u32)
        self.descriptors = [k.pointer(f"level_{i}", u64) for i in range(spec.levels)]
        super().__init__(k, spec)
        self.innermost = spec.chain.ndim - 1
        self.scanned = self.innermost - 1
        self.num_columns, self.num_rows = (k.scalar(name, self.type) for name in ("num_columns", "num_rows"))
        self.tiles, self.abreast = Divisor(k, "num_tiles", self.type), Divisor(k, "abreast", self.type)
        self.num_kept = k.scalar("num_kept", self.type)
        self.kept = Splitter(k, "kept", max(self.scanned, 1), self.type)
        self.width = WARP * spec.vector
        self.elements = k.dynamic_shared(value_type(spec.chain, spec.value), BLOCK * spec.rows * spec.vector)
        self.totals = k.dynamic_shared(spec.op.acc, NUM_WARPS * self.width)
        self.above = k.dynamic_shared(spec.op.acc, self.width)
        self.number = k.dynamic_shared(u32, 1)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        with k.when(k.tid == 0):
            self.number[0] = self.ticket.atomic("add", 0, 1)
        k.barrier()
        chunk, abreast = self.abreast.divide(k.cast(self.number[0], self.type))
        outer, tile = self.tiles.divide(abreast)
        first_column = tile * self.width
        column = first_column + k.cast(k.lane * spec.vector, self.type)
        there = k.min(column, self.num_columns - spec.vector)  # lanes without columns scan the last ones
        first = chunk * spec.tile + k.cast(k.warp * spec.rows, self.type)
        indices = self.kept.split(outer)[: self.scanned]
        origin = locate(self.bound.origin(), range(self.scanned), indices).moved(self.innermost, there)
        totals = [k.var(self.identity) for _ in range(spec.vector)]
        with k.range(k.const(0, u32), spec.rows, spec.unroll) as begin:
            for i, values in enumerate(self.load(origin, first + k.cast(begin, self.type), spec.unroll)):
                self.elements.store(self.unit(begin + i if i else begin), values)
                for variable, value in zip(totals, self.below([x.get() for x in totals], values), strict=True):
                    variable.set(value)
        for j, total in enumerate(totals):
            self.totals[k.tid * spec.vector + j] = total.get()
        k.barrier()
        own_column = first_column + k.cast(k.tid, self.type)
        has_one = k.tid < self.width
        with k.when(has_one & (own_column < self.num_columns)):
            place = outer * self.num_columns + own_column
            self.above[k.tid] = self.look_back(self.joined_warps(), place, k.cast(chunk, u32))
        with k.when(has_one & (own_column >= self.num_columns)):
            self.above[k.tid] = self.identity
        k.barrier()
        own = k.lane * spec.vector
        running = [
            k.var(self.combine(self.above[own + j], self.totals[k.tid * spec.vector + j])) for j in range(spec.vector)
        ]
        target = self._target.spot()
        for loop, index in enumerate(indices):
            target = target.moved(loop, index)
        target = target.moved(self.innermost, column)
        with k.range(k.const(0, u32), spec.rows) as at:
            row = first + k.cast(at, self.type)
            values = list(self.elements.load(self.unit(at), spec.vector))
            for variable, value in zip(running, self.below([each.get() for each in running], values), strict=True):
                variable.set(value)
            with k.when((row < self.num_rows) & (column < self.num_columns)):
                target.moved(self.scanned, row).store([self.result(each.get()) for each in running])
        return k.build()

    def unit(self, row: Any) -> Value:
        """Where a thread keeps its elements of a row."""
        place: Value = self.k.tid * self.spec.vector + row * BLOCK * self.spec.vector
        return place

    def load(self, origin: Position, first: Value, count: int) -> list[list[Value]]:
        """The values of some rows, all loaded before the first is used; behind the end those of the last row."""
        k, spec = self.k, self.spec
        rows = [k.min(first + i if i else first, self.num_rows - 1) for i in range(count)]
        places = [origin.moved(self.scanned, row) for row in rows]
        loaded = [place.load(spec.vector) for place in places]
        return [
            [each[spec.value] for each in place.evaluate(values, spec.vector)]
            for place, values in zip(places, loaded, strict=True)
        ]

    def below(self, carries: list[Value], values: list[Value]) -> list[Value]:
        """The scan of a thread's columns one row further; behind the end of columns nobody needs it."""
        k, op = self.k, self.spec.op
        lifted = [k.cast(value, op.acc) if op.lift is None else op.lift(k, value) for value in values]
        return [self.combine(carry, value) for carry, value in zip(carries, lifted, strict=True)]

    def joined_warps(self) -> Value:
        """Replace what warps have of a column by the total of the warps above; return that of all."""
        k = self.k
        running = self.identity
        for first in range(0, NUM_WARPS, TOTALS_AT_ONCE):
            places = [k.tid + (first + i) * self.width for i in range(TOTALS_AT_ONCE)]
            for place, total in zip(places, [self.totals[place] for place in places], strict=True):
                self.totals[place] = running
                running = self.combine(running, total)
        return running

    def look_back(self, total: Value, place: Value, chunk: Value) -> Value:
        """Publish the total of a tile's column; return the total of the tiles above it."""
        k = self.k
        before: Any = None
        closes = k.const(1, u32) != 0
        for level in range(self.spec.levels):
            number = chunk >> (level * FAN_BITS) if level else chunk
            with k.when(closes):
                for i, word in enumerate(words_of(k, total)):
                    marked = k.pack(word, k.const(1, u32))
                    self.descriptors[level].store(self.entry(number, place, i), [marked], order="relaxed.gpu")
            among = number & (FAN - 1)
            found = self.joined(level, number - among, among, place)
            total = self.combine(found, total)
            closes = closes & (among == FAN - 1)
            before = found if before is None else self.combine(found, before)
        value: Value = before
        return value

    def entry(self, number: Value, place: Value, word: int) -> Value:
        """Where a word of a descriptor is."""
        k, size = self.k, num_words(self.spec.op.acc)
        at = (k.cast(number, self.type) * self.num_kept + place) * size
        return at + word if word else at

    def joined(self, level: int, first: Value, count: Value, place: Value) -> Value:
        """Wait for some entries of a level and combine them."""
        k, acc = self.k, self.spec.op.acc
        size = num_words(acc)
        at_once = max(1, MAX_WORDS_AT_ONCE // size)
        total = k.var(self.identity)
        with k.range(k.const(0, u32), count, at_once) as begin:
            numbers = [begin + i if i else begin for i in range(at_once)]
            words = [[k.var(0, u32) for _ in range(size)] for _ in numbers]
            with k.loop():
                ready = k.const(1, u32)
                for number, own in zip(numbers, words, strict=True):
                    at = first + k.min(count - 1, number)
                    for i, word in enumerate(own):
                        (loaded,) = self.descriptors[level].load(self.entry(at, place, i), order="relaxed.gpu")
                        payload, mark = k.unpack(loaded)
                        word.set(payload)
                        ready = ready & mark
                k.break_if(ready != 0)
            for number, own in zip(numbers, words, strict=True):
                value = value_of(k, [word.get() for word in own], acc)
                total.set(self.combine(total.get(), k.where(number < count, value, self.identity)))
        return total.get()


__all__ = ["BLOCK", "FAN", "FAN_BITS", "NUM_WARPS", "ScanChainedColumnsSpec", "make"]
