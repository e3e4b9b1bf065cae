"""Products of two CSR matrices, row by row (Gustavson), with a hash table per row in shared memory.

Data layout: A and B in CSR, B without duplicates; the result in canonical format. Who owns what: a group of `lanes`
threads, up to a block, owns a row of the result and a table of `table` slots: a column and, of the kernel that
computes, a sum each.

Algorithm: the group walks the row of A; its lanes take the elements of the row of B that an element of A meets. These
have different columns, so each sum has one writer at a time, and elements of A follow each other: sums are added in
the order of the inner index, which is SciPy's, whoever finds a slot first. Columns are sorted at the end: by rank in a
warp, by a bitonic network in a block. A first launch counts the products of rows, by which they are sorted into bins of
tables; a second one counts the columns, a third one writes them. Rows with more products than the largest table takes
are expanded (`SpgemmExpandSpec`) and sorted. Bytes: A, per element of A a row of B from the caches, twice; the result.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.rows import lanes_for
from oxinp._kernels.sparse.types import BLOCK, ProductTypes
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

EMPTY = 0xFFFFFFFF
MULTIPLIER = 2654435769  # 2**32 over the golden ratio: Knuth's multiplicative hash


class Bin(NamedTuple):
    """Rows with up to `most` products, which `lanes` threads multiply in tables of `table` slots."""

    most: int
    lanes: int
    table: int


BINS = (Bin(12, 4, 16), Bin(48, 8, 64), Bin(384, 32, 512), Bin(1536, BLOCK, 2048), Bin(6144, BLOCK, 8192))
"""Tables are at most three quarters full."""


class SpgemmSizesSpec(Frozen):
    """The kernel that counts the products of every row, i64."""

    index: Type
    lanes: int


class SpgemmHashSpec(Frozen):
    """The kernel of a bin.

    Attributes
    ----------
    types : ProductTypes
        `value` and `operand` are those of A and B.
    lanes, table : int
    is_listed : bool
        Rows are those of a list, i64; else all.
    is_numeric : bool
        Columns and sums are written; else counted.
    """

    types: ProductTypes
    lanes: int
    table: int
    is_listed: bool
    is_numeric: bool


class SpgemmExpandSpec(Frozen):
    """The kernel that writes all products of listed elements of A, with their keys."""

    types: ProductTypes
    lanes: int


def num_products(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan that counts products, i64; inputs are indptr and indices of A, and indptr of B."""
    spec = SpgemmSizesSpec(index, lanes_for(num_rows, count))
    grid = (-(-num_rows * spec.lanes // BLOCK), 1, 1)
    return Plan((Launch(make(spec), grid, (*outputs(1), *inputs(3)), (num_rows,)),))


def multiply(num_rows: int, spec: SpgemmHashSpec) -> Plan:
    """Return the plan of the rows of a bin, `num_rows` of them.

    Of the kernel that counts the output is the counts, and inputs are indptr and indices of A and of B; of the one that
    computes outputs are indices and data, and inputs indptr of the result, then indptr, indices and data of A and of B.
    The list of rows comes last.
    """
    grid = (-(-num_rows * spec.lanes // BLOCK), 1, 1)
    given = outputs(2) + inputs(7 + spec.is_listed) if spec.is_numeric else outputs(1) + inputs(4 + spec.is_listed)
    return Plan((Launch(make(spec), grid, given, (num_rows,)),))


def expand(count: int, total: int, num_columns: int, types: ProductTypes) -> Plan:
    """Return the plan that expands `count` elements of A into `total` products.

    Outputs are keys, i64, and products; inputs are where the products of each element begin, i64, the elements' places
    in A and the numbers of their rows, i64, indices and data of A, then indptr, indices and data of B. A key is the
    number of the row times the columns of B, and the column.
    """
    spec = SpgemmExpandSpec(types, lanes_for(count, total))
    grid = (-(-count * spec.lanes // BLOCK), 1, 1)
    return Plan((Launch(make(spec), grid, (*outputs(2), *inputs(8)), (count, num_columns)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpgemmSizesSpec | SpgemmHashSpec | SpgemmExpandSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, SpgemmHashSpec):
        return _Hash(spec).build()
    return _num_products(spec) if isinstance(spec, SpgemmSizesSpec) else _expand(spec)


def _num_products(spec: SpgemmSizesSpec) -> Kernel:
    k = Builder("spgemm_num_products", block=BLOCK)
    out = k.pointer("out", i64, "w")
    indptr, indices, b_indptr = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices", "b_indptr"))
    num_rows = k.scalar("num_rows", spec.index)
    lane = k.cast(k.tid % spec.lanes, spec.index)
    row = k.cast(k.ctaid, spec.index) * (BLOCK // spec.lanes) + k.cast(k.tid / spec.lanes, spec.index)
    total = k.var(0, i64)
    with (
        k.when(row < num_rows),
        k.range(indptr[row] + lane, indptr[row + 1], spec.lanes) as place,
    ):
        inner = indices[place]
        total.set(total + k.cast(b_indptr[inner + 1] - b_indptr[inner], i64))
    k.warp_sync()
    whole = warp_reduce(k, k.emit("mov", total), lambda a, b: a + b, spec.lanes)
    with k.when((row < num_rows) & (lane == 0)):
        out[row] = whole
    return k.build()


def _expand(spec: SpgemmExpandSpec) -> Kernel:
    types, lanes = spec.types, spec.lanes
    k = Builder("spgemm_expand", block=BLOCK)
    keys, products = k.pointer("keys", i64, "w"), k.pointer("products", types.result, "w")
    starts, places, rows = (k.pointer(name, i64, "r") for name in ("starts", "places", "rows"))
    a_indices, a_data = k.pointer("a_indices", types.index, "r"), k.pointer("a_data", types.value, "r")
    b_indptr, b_indices = (k.pointer(name, types.index, "r") for name in ("b_indptr", "b_indices"))
    b_data = k.pointer("b_data", types.operand, "r")
    count, num_columns = k.scalar("count", i64), k.scalar("num_columns", i64)
    element = k.cast(k.ctaid, i64) * (BLOCK // lanes) + k.cast(k.tid / lanes, i64)
    with k.when(element < count):
        place = places[element]
        inner, value = a_indices[place], k.cast(a_data[place], types.result)
        begin, base = b_indptr[inner], rows[element] * num_columns
        length, target = b_indptr[inner + 1] - begin, starts[element]
        with k.range(k.cast(k.tid % lanes, types.index), length, lanes) as i:
            keys[target + k.cast(i, i64)] = base + k.cast(b_indices[begin + i], i64)
            products[target + k.cast(i, i64)] = value * k.cast(b_data[begin + i], types.result)
    return k.build()


class _Hash:
    """The kernel of a bin while it is built."""

    def __init__(self, spec: SpgemmHashSpec) -> None:
        self.spec = spec
        types = spec.types
        self.k = k = Builder("spgemm_numeric" if spec.is_numeric else "spgemm_symbolic", block=BLOCK)
        if spec.is_numeric:
            self.out_indices, self.out_data = (
                k.pointer("out_indices", types.index, "w"),
                k.pointer("out_data", types.result, "w"),
            )
            self.out_indptr = k.pointer("out_indptr", types.index, "r")
        else:
            self.counts = k.pointer("counts", types.index, "w")
        self.a_indptr, self.a_indices, self.a_data = self.matrix("a", types.value)
        self.b_indptr, self.b_indices, self.b_data = self.matrix("b", types.operand)
        self.rows = k.pointer("rows", i64, "r") if spec.is_listed else None
        self.num_rows = k.scalar("num_rows", types.index)
        groups = BLOCK // spec.lanes
        self.group = k.tid / spec.lanes
        self.lane = k.tid % spec.lanes
        self.keys = k.dynamic_shared(u32, groups * spec.table).at(self.group * spec.table)
        if spec.is_numeric:
            self.sums = k.dynamic_shared(types.result, groups * spec.table).at(self.group * spec.table)
        self.warp_totals = k.dynamic_shared(u32, BLOCK // WARP)

    def matrix(self, name: str, type_: Type) -> tuple[Pointer, Pointer, Any]:
        """Return indptr, indices and, where it is read, data of a matrix."""
        k = self.k
        indptr, indices = (k.pointer(f"{name}_{part}", self.spec.types.index, "r") for part in ("indptr", "indices"))
        return indptr, indices, k.pointer(f"{name}_data", type_, "r") if self.spec.is_numeric else None

    @property
    def is_block(self) -> bool:
        """Whether the whole block has one row."""
        return self.spec.lanes > WARP

    def synchronize(self) -> None:
        """Wait for the group, and for those that share its warp."""
        if self.is_block:
            self.k.barrier()
        else:
            self.k.warp_sync()

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        index, lanes = spec.types.index, spec.lanes
        number = k.cast(k.ctaid, index) * (BLOCK // lanes) + k.cast(self.group, index)
        has_row = number < self.num_rows
        row = k.min(number, self.num_rows - 1)
        if self.rows is not None:
            row = k.cast(self.rows[row], index)
        with k.range(self.lane, spec.table, lanes) as slot:
            self.keys[slot] = k.const(EMPTY, u32)
            if spec.is_numeric:
                self.sums[slot] = k.const(0, spec.types.result)
        self.synchronize()
        begin = self.a_indptr[row]
        end = k.where(has_row, self.a_indptr[row + 1], begin)
        place = k.var(begin)
        with k.loop():  # as long as any group of the warp has elements
            k.break_if(place >= end if self.is_block else ~k.any(place < end))
            with k.when(place < end):
                self.take(place.get())
            self.synchronize()
            place.set(place + 1)
        if spec.is_numeric:
            self.finish(row, has_row)
        else:
            self.count(row, has_row)
        return k.build()

    def take(self, place: Value) -> None:
        """Enter the products of one element of A."""
        k, types = self.k, self.spec.types
        inner = self.a_indices[place]
        begin, end = self.b_indptr[inner], self.b_indptr[inner + 1]
        value = k.cast(self.a_data[place], types.result) if self.spec.is_numeric else None
        with k.range(begin + k.cast(self.lane, types.index), end, self.spec.lanes) as other:
            slot = self.slot_of(k.cast(self.b_indices[other], u32))
            if value is not None:
                self.sums[slot] = self.sums[slot] + value * k.cast(self.b_data[other], types.result)

    def slot_of(self, column: Value) -> Value:
        """Return the slot of a column, which is entered where it is new."""
        k, table = self.k, self.spec.table
        slot = k.var(k.shr(column * MULTIPLIER, 33 - table.bit_length()))
        with k.loop():
            there = self.keys.atomic("cas", slot.get(), column, compare=k.const(EMPTY, u32), order="relaxed.cta")
            k.break_if((there == EMPTY) | (there == column))
            slot.set((slot + 1) & (table - 1))
        return k.emit("mov", slot)

    def count(self, row: Value, has_row: Value) -> None:
        """Store how many slots are taken."""
        k, spec = self.k, self.spec
        total = k.var(0, u32)
        with k.range(self.lane, spec.table, spec.lanes) as slot:
            total.set(total + k.where(self.keys[slot] != EMPTY, k.const(1, u32), k.const(0, u32)))
        k.warp_sync()
        whole = warp_reduce(k, k.emit("mov", total), lambda a, b: a + b, min(WARP, spec.lanes))
        if self.is_block:
            with k.when(k.lane == 0):
                self.warp_totals[k.warp] = whole
            k.barrier()
            slots = [self.warp_totals[i] for i in range(spec.lanes // WARP)]
            whole = slots[0]
            for each in slots[1:]:
                whole = whole + each
        with k.when(has_row & (self.lane == 0)):
            self.counts[row] = k.cast(whole, spec.types.index)

    def finish(self, row: Value, has_row: Value) -> None:
        """Store what is in the table, by ascending columns."""
        k, spec = self.k, self.spec
        index = spec.types.index
        start = self.out_indptr[row]
        count = k.where(has_row, k.cast(self.out_indptr[row + 1] - start, u32), k.const(0, u32))
        if self.is_block:
            self.sort()
            with k.range(self.lane, count, spec.lanes) as i:
                self.out_indices[start + k.cast(i, index)] = k.cast(self.keys[i], index)
                self.out_data[start + k.cast(i, index)] = self.sums[i]
            return
        self.compact()
        with k.range(self.lane, count, spec.lanes) as i:
            column = self.keys[i]
            rank = k.var(0, u32)
            with k.range(k.const(0, u32), count) as j:
                rank.set(rank + k.where(self.keys[j] < column, k.const(1, u32), k.const(0, u32)))
            to = start + k.cast(rank.get(), index)
            self.out_indices[to] = k.cast(column, index)
            self.out_data[to] = self.sums[i]

    def compact(self) -> None:
        """Move what a warp's table has to its first slots."""
        k, lanes = self.k, self.spec.lanes
        taken = k.var(0, u32)
        with k.range(k.const(0, u32), self.spec.table, lanes) as first:
            slot = first + self.lane
            key, total = self.keys[slot], self.sums[slot]
            word = k.shr(k.ballot(key != EMPTY), k.lane & (WARP - lanes))
            word = word & ((1 << lanes) - 1) if lanes < WARP else word
            to = taken + k.popc(word & ((k.const(1, u32) << self.lane) - 1))
            k.warp_sync()
            with k.when(key != EMPTY):
                self.keys[to] = key
                self.sums[to] = total
            k.warp_sync()
            taken.set(taken + k.popc(word))

    def sort(self) -> None:
        """Sort a block's table by a bitonic network; empty slots come last."""
        k, table = self.k, self.spec.table
        length = 2
        while length <= table:
            distance = length // 2
            while distance:
                k.barrier()
                with k.range(k.tid, table // 2, BLOCK) as pair:
                    low = (pair & (EMPTY ^ (distance - 1))) * 2 + (pair & (distance - 1))
                    self.exchange(low, low + distance, (low & length) == 0 if length < table else None)
                distance //= 2
            length *= 2
        k.barrier()

    def exchange(self, low: Value, high: Value, ascends: Value | None) -> None:
        """Put two slots in order."""
        k = self.k
        a, b = self.keys[low], self.keys[high]
        is_wrong = a > b if ascends is None else (ascends & (a > b)) | (~ascends & (a < b))
        with k.when(is_wrong):
            first, second = self.sums[low], self.sums[high]
            self.keys[low], self.keys[high] = b, a
            self.sums[low], self.sums[high] = second, first


__all__ = [
    "BINS",
    "Bin",
    "SpgemmExpandSpec",
    "SpgemmHashSpec",
    "SpgemmSizesSpec",
    "expand",
    "make",
    "multiply",
    "num_products",
]
