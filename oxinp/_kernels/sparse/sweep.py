"""A matrix times a vector, each warp's elements by columns: warps sweep the vector together, and share its sectors.

Data layout: a block has consecutive rows, whose sums are in shared memory, each of its warps consecutive ones of them,
and the elements of these in the order of their columns: values, and words of the row in the warp's and the column.
`starts` are where the elements of warps begin, `bounds` their rows, each with the end of the last one.

Algorithm: all warps of a multiprocessor are at about the same columns at a time, so that a sector of the vector that
one of them has loaded is still in the L1 cache when others need it. Lanes whose elements are of one row add to its sum
one after the other, so that sums are in the order of columns, which is SciPy's, and the same every time. Bytes per
element: a word and the value, and a part of a sector of the vector.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import GATHERED, STREAMED
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, u32
from oxinp._ptx.warp import FULL, WARP

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 1024
NUM_WARPS = BLOCK // WARP
UNROLL = 4
WORD_BITS = 32


class SweepSpec(Frozen):
    """The kernel.

    Attributes
    ----------
    value : Type
        Of the elements, the vector and the sums.
    column_bits : int
        Of a word; the others are the row's.
    room : int
        Rows of a block, at most.
    """

    value: Type
    column_bits: int
    room: int


def plan(num_rows: int, count: int, num_warps: int, spec: SweepSpec) -> Plan:
    """Return the plan; the inputs are starts and bounds, i32, words, u32, values, and the vector."""
    nbytes = count * (u32.nbytes + spec.value.nbytes) + 2 * num_rows * spec.value.nbytes
    grid = (num_warps // NUM_WARPS, 1, 1)
    return Plan((Launch(make(spec), grid, (*outputs(1), *inputs(5)), (), Work(2 * count, nbytes)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SweepSpec) -> Kernel:
    """Build the kernel of a Spec."""
    value = spec.value
    k = Builder("spmv_sweep", block=BLOCK, min_blocks=1)
    out = k.pointer("out", value, "w")
    starts, bounds = (k.pointer(name, i32, "r") for name in ("starts", "bounds"))
    words, data, x = k.pointer("words", u32, "r"), k.pointer("data", value, "r"), k.pointer("x", value, "r")
    sums = k.dynamic_shared(value, spec.room)
    first_warp, thread = k.cast(k.ctaid, i32) * NUM_WARPS, k.cast(k.tid, i32)
    warp = first_warp + k.cast(k.warp, i32)
    first_row = bounds[first_warp]
    num_rows = bounds[first_warp + NUM_WARPS] - first_row
    with k.range(thread, num_rows, BLOCK) as row:
        sums[row] = k.const(0, value)
    k.barrier()
    begin, end, own = starts[warp], starts[warp + 1], bounds[warp] - first_row
    with k.range(begin, end, WARP * UNROLL) as first:
        wanted = [first + k.cast(k.lane, i32) + i * WARP for i in range(UNROLL)]
        places = [k.min(place, end - 1) for place in wanted]
        found = [words.load(place, 1, STREAMED)[0] for place in places]
        elements = [data.load(place, 1, STREAMED)[0] for place in places]
        columns = [word & ((1 << spec.column_bits) - 1) for word in found]
        met = [x.load(k.cast(column, i32), 1, GATHERED)[0] for column in columns]
        for place, word, element, other in zip(wanted, found, elements, met, strict=True):
            _add_in_order(k, sums, own, (place < end, k.shr(word, spec.column_bits), element * other))
    k.barrier()
    with k.range(thread, num_rows, BLOCK) as row:
        out.store(first_row + row, [sums[row]], STREAMED)
    return k.build()


def _add_in_order(k: Builder, sums: Pointer, first: Value, element: tuple[Value, Value, Value]) -> None:
    """Add products to the sums of rows from `first` on, those of one row in the order of lanes.

    Parameters
    ----------
    k : Builder
    sums : Pointer
        Shared.
    first : Value
        Of the warp's sums.
    element : tuple of Value
        Of each lane: whether it has one, its row among the warp's, and the product.
    """
    is_valid, row, product = element
    place = first + k.cast(row, i32)
    mates = k.match_any(k.where(is_valid, row, k.lane | (1 << (WORD_BITS - 1))), FULL)
    before = k.popc(mates & ((k.const(1, u32) << k.lane) - 1))
    turn = k.var(k.const(0, u32))
    with k.loop():
        with k.when(is_valid & (before == turn)):
            sums[place] = sums[place] + product
        k.warp_sync()
        turn.set(turn + 1)
        k.break_if(~k.any(before >= turn))


__all__ = ["BLOCK", "NUM_WARPS", "WORD_BITS", "SweepSpec", "make", "plan"]
