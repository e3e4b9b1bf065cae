"""A CSR matrix times a vector, rows dealt out evenly: a few lanes per row, or a block per 256 rows.

Data layout: `indptr`, `indices` and `data` of CSR, the vector, the result. Bytes per stored element: index, value, and
what of the vector is not in the caches; per row: one pointer and the result.

`SpmvRowsSpec`: `lanes` threads own a row, each every `lanes`-th element of it; their sums are combined in a tree.

`SpmvStreamSpec`: a block owns `BLOCK` rows. Neighbouring threads load neighbouring elements, whatever row they are in,
and leave products in shared memory, chunk by chunk; then each thread adds the products of its own row in their order,
which is SciPy's: the same bits. For rows that are short and of similar lengths.

Narrow indices, 16 bits of columns less the first of the `BLOCK` rows that a row is among, take half the bytes, where
all columns are near enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK, STREAMED, ProductTypes, product
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i16
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

UNROLL = 4
FULL = 1 << 16  # threads that keep a device busy
MIN_LANES = 8  # which load a whole sector of indices
STREAM_NBYTES = 16384  # of products in shared memory
NARROW = i16


class SpmvRowsSpec(Frozen):
    """The kernel of types and of a number of lanes per row, a power of two up to 32; whether indices are narrow."""

    types: ProductTypes
    lanes: int
    is_narrow: bool = False


class SpmvStreamSpec(Frozen):
    """The kernel of types, and whether indices are narrow."""

    types: ProductTypes
    is_narrow: bool = False

    @property
    def unroll(self) -> int:
        """Products of a thread per chunk."""
        return max(2, STREAM_NBYTES // (BLOCK * self.types.result.nbytes))


def lanes_for(num_rows: int, count: int) -> int:
    """Return how many threads have a row: `MIN_LANES`, or more where rows are so few that these are not enough.

    Rows that are read at a time meet the same elements of the vector in the caches: the more there are, the better.
    """
    lanes = MIN_LANES
    while lanes < WARP and num_rows * lanes < FULL and num_rows * lanes * UNROLL < count:
        lanes *= 2
    return lanes


def rows(num_rows: int, count: int, types: ProductTypes, lanes: int, *, is_narrow: bool = False) -> Plan:
    """Return the plan with `lanes` threads per row; the inputs are indptr, indices, data and the vector."""
    return _plan(SpmvRowsSpec(types, lanes, is_narrow), num_rows, count, BLOCK // lanes)


def stream(num_rows: int, count: int, types: ProductTypes, *, is_narrow: bool = False) -> Plan:
    """Return the plan with a block per 256 rows; see `rows`."""
    return _plan(SpmvStreamSpec(types, is_narrow), num_rows, count, BLOCK)


def _plan(spec: SpmvRowsSpec | SpmvStreamSpec, num_rows: int, count: int, per_block: int) -> Plan:
    types = spec.types
    nbytes = count * ((NARROW if spec.is_narrow else types.index).nbytes + types.value.nbytes)
    nbytes += num_rows * (types.index.nbytes + types.operand.nbytes + types.result.nbytes)
    grid = (-(-num_rows // per_block), 1, 1)
    work = Work(2 * count, nbytes)
    return Plan((Launch(make(spec), grid, (*outputs(1), *inputs(4)), (num_rows,), work),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpmvRowsSpec | SpmvStreamSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _rows(spec) if isinstance(spec, SpmvRowsSpec) else _stream(spec)


def _parameters(
    k: Builder, types: ProductTypes, *, is_narrow: bool
) -> tuple[Pointer, Pointer, Pointer, Pointer, Pointer, Value]:
    return (
        k.pointer("out", types.result, "w"),
        k.pointer("indptr", types.index, "r"),
        k.pointer("indices", NARROW if is_narrow else types.index, "r"),
        k.pointer("data", types.value, "r"),
        k.pointer("x", types.operand, "r"),
        k.scalar("num_rows", types.index),
    )


def _columns(k: Builder, indices: Pointer, places: list[Value], row: Value, *, is_narrow: bool) -> list[Value]:
    """Return the columns of elements of a row, or of any other of its `BLOCK` rows."""
    loaded = [indices.load(place, 1, STREAMED)[0] for place in places]
    if not is_narrow:
        return loaded
    first = row - row % BLOCK
    return [first + k.cast(each, row.type) for each in loaded]


def _rows(spec: SpmvRowsSpec) -> Kernel:
    types, lanes = spec.types, spec.lanes
    k = Builder("spmv_rows", block=BLOCK)
    out, indptr, indices, data, x, num_rows = _parameters(k, types, is_narrow=spec.is_narrow)
    row = k.cast(k.ctaid, types.index) * (BLOCK // lanes) + k.cast(k.tid / lanes, types.index)
    lane = k.cast(k.tid % lanes, types.index)
    has_row = row < num_rows
    nothing = k.const(0, types.index)
    near = k.min(row, num_rows - 1)
    begin = k.where(has_row, indptr[near], nothing)
    end = k.where(has_row, indptr[near + 1], nothing)
    zero = k.const(0, types.result)
    total = k.var(zero)
    with k.range(begin + lane, end, lanes * UNROLL) as first:
        wanted = [first + lanes * i if i else first for i in range(UNROLL)]
        places = [k.min(place, end - 1) for place in wanted]
        columns = _columns(k, indices, places, row, is_narrow=spec.is_narrow)
        products = [product(k, types, data, x, *pair, STREAMED) for pair in zip(places, columns, strict=True)]
        for place, each in zip(wanted, products, strict=True):
            total.set(total + k.where(place < end, each, zero))
    k.warp_sync()
    whole = warp_reduce(k, k.emit("mov", total), lambda a, b: a + b, lanes)
    with k.when((lane == 0) & has_row):
        out[row] = whole
    return k.build()


def _stream(spec: SpmvStreamSpec) -> Kernel:
    types, unroll = spec.types, spec.unroll
    chunk = BLOCK * unroll
    k = Builder("spmv_stream", block=BLOCK)
    out, indptr, indices, data, x, num_rows = _parameters(k, types, is_narrow=spec.is_narrow)
    products = k.shared(types.result, chunk)
    first_row = k.cast(k.ctaid, types.index) * BLOCK
    thread = k.cast(k.tid, types.index)
    row = first_row + thread
    begin, end = indptr[k.min(row, num_rows)], indptr[k.min(row + 1, num_rows)]
    block_end = indptr[k.min(first_row + BLOCK, num_rows)]
    total = k.var(k.const(0, types.result))
    start = k.var(indptr[first_row])
    with k.loop():
        k.break_if(start >= block_end)
        first = start.get()
        places = [k.min(first + thread + i * BLOCK, block_end - 1) for i in range(unroll)]
        columns = _columns(k, indices, places, first_row, is_narrow=spec.is_narrow)
        made = [product(k, types, data, x, *pair, STREAMED) for pair in zip(places, columns, strict=True)]
        for i, value in enumerate(made):
            products[k.tid + i * BLOCK] = value
        k.barrier()
        low, high = k.max(begin, first) - first, k.min(end, first + chunk) - first
        with k.range(low, high) as place:
            total.set(total + products[place])
        k.barrier()
        start.set(first + chunk)
    with k.when(row < num_rows):
        out[row] = total
    return k.build()


__all__ = ["SpmvRowsSpec", "SpmvStreamSpec", "lanes_for", "make", "rows", "stream"]
