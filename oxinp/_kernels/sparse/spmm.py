"""A CSR matrix times a dense matrix.

Data layout: CSR, the dense operand (inner, columns) and the result (rows, columns) in C order. Who owns what: a group
of `lanes` threads owns a row and ``lanes * vector`` columns of the result, a thread `vector` neighbouring ones.
Algorithm: the group walks the row; an element of the matrix is read once by all of its lanes, a row of the operand by
accesses of up to 16 bytes; elements are added in their order, which is SciPy's: the same bits. Bytes: the matrix once
per group of columns, the operand's rows from the caches, the result once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK, ProductTypes
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

UNROLL = 4
MAX_VECTOR_NBYTES = 16


class SpmmSpec(Frozen):
    """One kernel.

    Attributes
    ----------
    types : ProductTypes
    lanes : int
        Threads of a row, a power of two up to 32.
    vector : int
        Columns of a thread.
    """

    types: ProductTypes
    lanes: int
    vector: int


def plan(num_rows: int, num_columns: int, count: int, types: ProductTypes, alignment: int) -> Plan:
    """Return the plan of a product with `num_columns` dense columns; the inputs are indptr, indices, data and operand.

    Parameters
    ----------
    num_rows, num_columns, count : int
        Of the result, and of stored elements.
    types : ProductTypes
    alignment : int
        Of the operand.
    """
    spec = _spec(num_columns, types, alignment)
    per_block, width = BLOCK // spec.lanes, spec.lanes * spec.vector
    grid = (-(-num_rows // per_block), -(-num_columns // width), 1)
    nbytes = count * (types.index.nbytes + types.value.nbytes)
    nbytes += num_rows * num_columns * (types.operand.nbytes + types.result.nbytes)
    work = Work(2 * count * num_columns, nbytes)
    return Plan((Launch(make(spec), grid, (*outputs(1), *inputs(4)), (num_rows, num_columns), work),))


def _spec(num_columns: int, types: ProductTypes, alignment: int) -> SpmmSpec:
    nbytes = max(types.operand.nbytes, types.result.nbytes)
    vector = max(1, MAX_VECTOR_NBYTES // nbytes)
    while vector > 1 and (
        num_columns % vector or alignment % (vector * types.operand.nbytes) or num_columns < WARP * vector // 2
    ):
        vector //= 2
    units = -(-num_columns // vector)
    return SpmmSpec(types, min(WARP, 1 << (units - 1).bit_length()), vector)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpmmSpec) -> Kernel:
    """Build the kernel of a Spec."""
    types, lanes, vector = spec.types, spec.lanes, spec.vector
    k = Builder("spmm", block=BLOCK)
    out = k.pointer("out", types.result, "w")
    indptr, indices = (k.pointer(name, types.index, "r") for name in ("indptr", "indices"))
    data, operand = k.pointer("data", types.value, "r"), k.pointer("operand", types.operand, "r")
    num_rows, num_columns = k.scalar("num_rows", types.index), k.scalar("num_columns", i64)
    row = k.cast(k.ctaid, types.index) * (BLOCK // lanes) + k.cast(k.tid / lanes, types.index)
    column = (k.cast(k.ctaid.y, i64) * lanes + k.cast(k.tid % lanes, i64)) * vector
    with k.when((row < num_rows) & (column < num_columns)):
        totals = [k.var(k.const(0, types.result)) for _ in range(vector)]
        place, end = k.var(indptr[row]), indptr[row + 1]

        def take(places: list[Value]) -> None:
            """Add some elements of the row times rows of the operand, all of which are loaded first."""
            starts = [k.cast(indices[each], i64) * num_columns + column for each in places]
            values = [k.cast(data[each], types.result) for each in places]
            loaded = [operand.load(start, vector, "nc") for start in starts]
            for value, units in zip(values, loaded, strict=True):
                for total, unit in zip(totals, units, strict=True):
                    total.set(total + value * k.cast(unit, types.result))

        with k.loop():
            k.break_if(place + (UNROLL - 1) >= end)
            first = place.get()
            take([first + i if i else first for i in range(UNROLL)])
            place.set(first + UNROLL)
        with k.loop():
            k.break_if(place >= end)
            take([place.get()])
            place.set(place + 1)
        out.store(k.cast(row, i64) * num_columns + column, [k.emit("mov", total) for total in totals])
    return k.build()


__all__ = ["SpmmSpec", "make", "plan"]
