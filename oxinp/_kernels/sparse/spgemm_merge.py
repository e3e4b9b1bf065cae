"""Products of two CSR matrices whose rows are short, each row of the result by a merge in the registers of one thread.

Data layout: A and B in canonical format; the result in canonical format. Who owns what: a thread owns a row of the
result and has a head per element of its row of A: the next column, value and place of the row of B that it meets.

Algorithm: in every step a thread takes the least column of its heads, adds the products of the heads that have it, in
the order of the inner index, which is SciPy's, and advances these. A first launch counts steps, a second one computes:
there are no tables to clear, no columns to sort and no atomics. Results are staged in shared memory, as the rows of a
block are contiguous, and leave in whole lines; where they do not fit, they are stored by their threads. Bytes: A twice,
per element of A a row of B from the caches, twice; the result.

Source: the multi-way merge of J. R. Gilbert, C. Moler and R. Schreiber's sparse products as F. Gremse et al. have it,
GPU-accelerated sparse matrix-matrix multiplication by iterative row merging, SIAM J. Sci. Comput. 37, 2015.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 128
MAX_WAYS = 8
"""Elements of a row of A up to which their heads stay in registers."""
MAX_PRODUCTS = 512
"""Of a row: what one thread merges in a time that others may wait for."""
STAGED = (16, 32)
"""Elements per row of the result that a block has shared memory for; chosen by the mean, none where it is higher."""


class SpgemmMergeSpec(Frozen):
    """One kernel.

    Attributes
    ----------
    types : ProductTypes
        `value` and `operand` are those of A and B.
    ways : int
        Elements of the longest row of A.
    is_numeric : bool
        Columns and sums are written; else counted.
    staged : int
        Elements per row that shared memory has place for; 0 of the kernel that counts.
    """

    types: ProductTypes
    ways: int
    is_numeric: bool
    staged: int


def takes(longest_a: int, longest_b: int) -> bool:
    """Whether products of matrices whose rows are at most so long are merged."""
    return longest_a <= MAX_WAYS and longest_a * longest_b <= MAX_PRODUCTS


def count(num_rows: int, types: ProductTypes, ways: int) -> Plan:
    """Return the plan that counts the elements of rows; inputs are indptr and indices of A and of B."""
    launch = Launch(
        make(SpgemmMergeSpec(types, ways, False, 0)), _grid(num_rows), (*outputs(1), *inputs(4)), (num_rows,)
    )
    return Plan((launch,))


def multiply(num_rows: int, total: int, types: ProductTypes, ways: int) -> Plan:
    """Return the plan of a product of `total` elements.

    Outputs are indptr, indices and data, and inputs the scan of how many elements rows have, then indptr, indices and
    data of A and of B.
    """
    staged = next((each for each in STAGED if total <= each * num_rows * 0.9), 0)
    launch = Launch(
        make(SpgemmMergeSpec(types, ways, True, staged)), _grid(num_rows), (*outputs(3), *inputs(7)), (num_rows,)
    )
    return Plan((launch,))


def _grid(num_rows: int) -> tuple[int, int, int]:
    return -(-num_rows // BLOCK), 1, 1


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpgemmMergeSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Merge(spec).build()


class _Head:
    """An element of a row of A on its way through the row of B that it meets."""

    def __init__(self, merge: _Merge, place: Value, end: Value) -> None:
        k, self.merge = merge.k, merge
        has_element = place < end
        safe = k.where(has_element, place, k.const(0, merge.index))
        inner = merge.a_indices[safe]
        begin = merge.b_indptr[inner]
        self.stop = k.where(has_element, merge.b_indptr[inner + 1], begin)
        self.place = k.var(begin)
        has_column = begin < self.stop
        at = k.where(has_column, begin, k.const(0, merge.index))
        self.column = k.var(k.where(has_column, merge.column_at(at), merge.none))
        if merge.spec.is_numeric:
            self.scale = k.cast(merge.a_data[safe], merge.spec.types.result)
            self.value = k.var(merge.value_at(at))

    def advance(self) -> None:
        """Go on to the next element of the row of B, whose column is `none` after the last."""
        k, merge = self.merge.k, self.merge
        at = self.place + 1
        self.place.set(at)
        self.column.set(merge.none)
        with k.when(at < self.stop):
            self.column.set(merge.column_at(at))
            if merge.spec.is_numeric:
                self.value.set(merge.value_at(at))


class _Merge:
    """The kernel while it is built."""

    def __init__(self, spec: SpgemmMergeSpec) -> None:
        self.spec = spec
        self.index = spec.types.index
        self.k = k = Builder("spgemm_merge" if spec.is_numeric else "spgemm_merge_count", block=BLOCK)
        self.none = k.const((1 << (self.index.bits - 1)) - 1, self.index)  # above every column
        if spec.is_numeric:
            self.out_indptr = k.pointer("out_indptr", self.index, "w")
            self.out_indices = k.pointer("out_indices", self.index, "w")
            self.out_data = k.pointer("out_data", spec.types.result, "w")
            self.through = k.pointer("through", self.index, "r")
        else:
            self.counts = k.pointer("counts", self.index, "w")
        self.a_indptr, self.a_indices = (k.pointer(f"a_{part}", self.index, "r") for part in ("indptr", "indices"))
        if spec.is_numeric:
            self.a_data = k.pointer("a_data", spec.types.value, "r")
        self.b_indptr, self.b_indices = (k.pointer(f"b_{part}", self.index, "r") for part in ("indptr", "indices"))
        if spec.is_numeric:
            self.b_data = k.pointer("b_data", spec.types.operand, "r")
        self.num_rows = k.scalar("num_rows", self.index)

    def build(self) -> Kernel:
        k = self.k
        first = k.cast(k.ctaid, self.index) * BLOCK
        row = first + k.cast(k.tid, self.index)
        has_row = row < self.num_rows
        near = k.min(row, self.num_rows - 1)
        begin = self.a_indptr[near]
        end = k.where(has_row, self.a_indptr[near + 1], begin)
        heads = [_Head(self, begin + way, end) for way in range(self.spec.ways)]
        if self.spec.is_numeric:
            with k.when(has_row):
                self.out_indptr[row + 1] = self.through[row]
            with k.when(row == 0):
                self.out_indptr[row] = k.const(0, self.index)
            self.compute(heads, first, near)
        else:
            total = k.var(0, self.index)
            with k.loop():
                least = self.least(heads)
                k.break_if(least == self.none)
                total.set(total + 1)
                for head in heads:
                    with k.when(head.column == least):
                        head.advance()
            with k.when(has_row):
                self.counts[row] = total.get()
        return k.build()

    def column_at(self, place: Value) -> Value:
        """Return a column of B, which no store of this kernel changes."""
        return self.b_indices.load(place, 1, "nc")[0]

    def value_at(self, place: Value) -> Value:
        """Return an element of B."""
        return self.b_data.load(place, 1, "nc")[0]

    def least(self, heads: list[_Head]) -> Value:
        """Return the least column of the heads."""
        k = self.k
        columns = [head.column.get() for head in heads]
        while len(columns) > 1:
            columns = [
                k.min(*columns[i : i + 2]) if i + 1 < len(columns) else columns[i] for i in range(0, len(columns), 2)
            ]
        return k.emit("mov", columns[0])

    def compute(self, heads: list[_Head], first: Value, near: Value) -> None:
        """Write columns and sums, through shared memory where the block's fit."""
        k, spec = self.k, self.spec
        capacity = spec.staged * BLOCK
        base = self.start_of(first)
        count = self.through[k.min(first + BLOCK, self.num_rows) - 1] - base
        target = k.var(self.start_of(near))
        result = spec.types.result
        if capacity:
            staged: tuple[Pointer, Pointer] = k.dynamic_shared(self.index, capacity), k.dynamic_shared(result, capacity)
            is_staged = count <= capacity
        with k.loop():
            least = self.least(heads)
            k.break_if(least == self.none)
            total = k.var(k.const(0, result))
            for head in heads:
                with k.when(head.column == least):
                    total.set(total + head.scale * k.cast(head.value.get(), result))
                    head.advance()
            to = target.get()
            if capacity:
                with k.when(is_staged):
                    slot = k.cast(to - base, u32)
                    staged[0][slot] = least
                    staged[1][slot] = total.get()
                with k.otherwise():
                    self.store(to, least, total.get())
            else:
                self.store(to, least, total.get())
            target.set(to + 1)
        if capacity:
            k.barrier()
            with k.when(is_staged), k.range(k.tid, k.cast(count, u32), BLOCK) as i:
                self.store(base + k.cast(i, self.index), staged[0][i], staged[1][i])

    def start_of(self, row: Value) -> Value:
        """Return where a row of the result begins."""
        before = self.through[self.k.max(row, 1) - 1]
        return self.k.where(row > 0, before, self.k.const(0, self.index))

    def store(self, to: Value, column: Value, total: Value) -> None:
        """Store an element of the result."""
        self.out_indices[to] = column
        self.out_data[to] = total


__all__ = ["MAX_WAYS", "SpgemmMergeSpec", "count", "make", "multiply", "takes"]
