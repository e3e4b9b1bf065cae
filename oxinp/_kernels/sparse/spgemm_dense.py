"""Rows of products of two CSR matrices with few columns and many products: added in a dense row in shared memory.

Data layout: as in `spgemm_rows`; a row has room for all columns in the staging area. Who owns what: a block owns a row,
a sum and a mark per column. Algorithm: the block takes as many elements of A as it has threads, and goes through them
in order; its threads take the elements of the row of B that an element of A meets, which have different columns, so
that a sum has one writer at a time and its products come in the order of the inner index, which is SciPy's. What the
next element of A meets is on its way meanwhile. Then marked columns are counted and stored, ascending. Bytes: A, per
element of A a row of B from the caches; the result.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK, ProductTypes
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u8, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.value import Value, Var

SIZES = (2048, 4096, 8192, 16384)
"""Columns that a block has room for; the largest ones where a device has the shared memory."""
MIN_MEAN = 32
"""Elements of the mean row of B from which on the threads of a block are worth waiting for each other."""
MIN_AT_ONCE = 4096
"""Products that blocks of different rows add at a time, as many as rows of B are long, for this to be faster than a
sort: a block goes through the elements of its row alone.
"""
NUM_WARPS = BLOCK // WARP


class SpgemmDenseSpec(Frozen):
    """The kernel of rows with up to `columns` columns."""

    types: ProductTypes
    columns: int


def takes(num_rows: int, count: int, num_inner: int) -> bool:
    """Whether so many rows are made faster this way, where B has `count` elements in `num_inner` rows."""
    return count >= MIN_MEAN * num_inner and num_rows * count >= MIN_AT_ONCE * num_inner


def spec_for(num_columns: int, types: ProductTypes, max_shared_nbytes: int) -> SpgemmDenseSpec | None:
    """Return the Spec for so many columns; None where there is no room for them."""
    columns = next((size for size in SIZES if num_columns <= size), None)
    if columns is None:
        return None
    spec = SpgemmDenseSpec(types, columns)
    return spec if make(spec).shared_nbytes <= max_shared_nbytes else None


def launch(
    num_rows: int, num_columns: int, staged: int, spec: SpgemmDenseSpec, arguments: tuple[Argument, ...]
) -> Launch:
    """Return the launch that multiplies listed rows.

    Arguments are the counts, indices and data of the staging area, from place `staged` of which on it writes, where
    rows begin there, i64, which it sets, then indptr, indices and data of A and of B, and the list of rows.
    """
    return Launch(make(spec), (num_rows, 1, 1), arguments, (num_columns, staged))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpgemmDenseSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Dense(spec).build()


class _Dense:
    """The kernel while it is built."""

    def __init__(self, spec: SpgemmDenseSpec) -> None:
        self.spec = spec
        types = self.types = spec.types
        self.k = k = Builder("spgemm_dense", block=BLOCK)
        self.counts, self.out_indices = (k.pointer(name, types.index, "w") for name in ("counts", "out_indices"))
        self.out_data = k.pointer("out_data", types.result, "w")
        self.begins = k.pointer("begins", i64, "w")
        self.a_indptr, self.a_indices = (k.pointer(f"a_{part}", types.index, "r") for part in ("indptr", "indices"))
        self.a_data = k.pointer("a_data", types.value, "r")
        self.b_indptr, self.b_indices = (k.pointer(f"b_{part}", types.index, "r") for part in ("indptr", "indices"))
        self.b_data = k.pointer("b_data", types.operand, "r")
        self.rows = k.pointer("rows", types.index, "r")
        self.num_columns, self.staged = k.scalar("num_columns", i64), k.scalar("staged", i64)
        self.sums = k.dynamic_shared(types.result, spec.columns)
        self.factors = k.dynamic_shared(types.result, BLOCK)
        self.starts, self.stops = k.dynamic_shared(types.index, BLOCK), k.dynamic_shared(types.index, BLOCK)
        self.totals = k.dynamic_shared(u32, NUM_WARPS)
        self.marks = k.dynamic_shared(u8, spec.columns)

    def build(self) -> Kernel:
        k, index = self.k, self.types.index
        row = self.rows[k.ctaid]
        with k.range(k.tid, k.const(self.spec.columns, u32), BLOCK) as column:
            self.sums[column] = k.const(0, self.types.result)
            self.marks[column] = k.const(0, u8)
        begin, end = self.a_indptr[row], self.a_indptr[row + 1]
        with k.range(begin, end, BLOCK) as first:
            self.add_elements(first, k.cast(k.min(end - first, BLOCK), u32))
        origin = self.staged + k.cast(k.ctaid, i64) * self.num_columns
        count = self.store(origin)
        with k.when(k.tid == 0):
            self.begins[row] = origin
            self.counts[row] = k.cast(count, index)
        return k.build()

    def add_elements(self, first: Value, count: Value) -> None:
        """Add the products of some elements of A, one after the other."""
        k, index = self.k, self.types.index
        with k.when(k.tid < count):
            place = first + k.cast(k.tid, index)
            inner = self.a_indices[place]
            self.starts[k.tid], self.stops[k.tid] = self.b_indptr[inner], self.b_indptr[inner + 1]
            self.factors[k.tid] = k.cast(self.a_data[place], self.types.result)
        k.barrier()
        column, operand = k.var(0, index), k.var(k.const(0, self.types.operand))
        self.fetch(k.const(0, u32), column, operand)
        with k.range(k.const(0, u32), count) as element:
            mine, its = k.emit("mov", column), k.emit("mov", operand)
            with k.when(element + 1 < count):
                self.fetch(element + 1, column, operand)
            start, stop, factor = self.starts[element], self.stops[element], self.factors[element]
            at = start + k.cast(k.tid, index)
            with k.when(at < stop):
                self.add(mine, factor * k.cast(its, self.types.result))
            with k.range(at + BLOCK, stop, BLOCK) as place:
                product = factor * k.cast(self.b_data.load(place, 1, "nc")[0], self.types.result)
                self.add(self.b_indices.load(place, 1, "nc")[0], product)
            k.barrier()

    def fetch(self, element: Value, column: Var, operand: Var) -> None:
        """Load what an element of A meets for this thread first."""
        k = self.k
        at = self.starts[element] + k.cast(k.tid, self.types.index)
        with k.when(at < self.stops[element]):
            column.set(self.b_indices.load(at, 1, "nc")[0])
            operand.set(self.b_data.load(at, 1, "nc")[0])

    def add(self, column: Value, product: Value) -> None:
        """Add a product to the sum of its column."""
        place = self.k.cast(column, u32)
        self.sums[place] = self.sums[place] + product
        self.marks[place] = self.k.const(1, u8)

    def store(self, origin: Value) -> Value:
        """Store marked columns and their sums; return how many there are."""
        k = self.k
        share = self.spec.columns // NUM_WARPS
        first = k.warp * share + k.lane
        total = k.var(0, u32)
        k.barrier()
        with k.range(k.const(0, u32), k.const(share, u32), WARP) as step:
            total.set(total + k.popc(k.ballot(self.marks[first + step] != 0)))
        with k.when(k.lane == 0):
            self.totals[k.warp] = total
        k.barrier()
        rank, count = k.var(0, u32), k.const(0, u32)
        for warp in range(NUM_WARPS):
            found = self.totals[warp]
            rank.set(rank + k.where(k.warp > warp, found, k.const(0, u32)))
            count = count + found
        out_indices, out_data = self.out_indices.at(origin), self.out_data.at(origin)
        lower = (k.const(1, u32) << k.lane) - 1
        with k.range(k.const(0, u32), k.const(share, u32), WARP) as step:
            column = first + step
            is_marked = self.marks[column] != 0
            word = k.ballot(is_marked)
            to = rank + k.popc(word & lower)
            with k.when(is_marked):
                out_indices[to] = k.cast(column, self.types.index)
                out_data[to] = self.sums[column]
            rank.set(rank + k.popc(word))
        return count


__all__ = ["SIZES", "SpgemmDenseSpec", "launch", "make", "spec_for", "takes"]
