"""Colors of the vertices of a graph in CSR: rounds of the method of Jones and Plassmann.

Data layout: CSR of a symmetric pattern, priorities, all different, and colors, i32, less than 0 for none. Who owns
what: `lanes` threads own a vertex. Algorithm, of a round: a vertex without a color waits if a neighbor without one has
a higher priority; else it takes the least color that no neighbor has. Colors are looked through 64 at a time, a bit
each. So colors are those of the greedy method in the order of priorities, whatever runs when. Bytes: the matrix
once a round, for every 64 colors that a vertex has to pass over once more.

Source: M. Jones and P. Plassmann, A parallel graph coloring heuristic, SIAM J. Sci. Comput. 14, 1993.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.rows import lanes_for
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

WINDOW = 64
"""Colors that are looked through at a time."""


class ColorSpec(Frozen):
    """The kernel of a round."""

    index: Type
    lanes: int


def color(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan of a round; inputs are indptr, indices, priorities, u32, and the colors before."""
    lanes = lanes_for(num_rows, count)
    grid = (-(-num_rows * lanes // BLOCK), 1, 1)
    return Plan((Launch(make(ColorSpec(index, lanes)), grid, (*outputs(1), *inputs(4)), (num_rows,)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ColorSpec) -> Kernel:
    """Build the kernel of a Spec."""
    index, lanes = spec.index, spec.lanes
    k = Builder("graph_color", block=BLOCK)
    out = k.pointer("out", i32, "w")
    indptr, indices = (k.pointer(name, index, "r") for name in ("indptr", "indices"))
    priorities, before = k.pointer("priorities", u32, "r"), k.pointer("before", i32, "r")
    num_rows = k.scalar("num_rows", index)
    row = k.cast(k.ctaid, index) * (BLOCK // lanes) + k.cast(k.tid / lanes, index)
    has_row, near = row < num_rows, k.min(row, num_rows - 1)
    lane, own, priority = k.cast(k.tid % lanes, index), before[near], priorities[near]
    begin, end = indptr[near] + lane, indptr[near + 1]
    found, base = k.var(own), k.var(0, i32)
    is_open = k.var(k.cast(has_row & (own < 0), u32))
    with k.loop():
        k.break_if(k.all(is_open == 0))
        used, waits = k.var(k.const(0, u64)), k.var(k.const(0, u32))
        with k.when(is_open != 0), k.range(begin, end, lanes) as place:
            other = indices[place]
            its = before[other]
            has_none = (its < 0) & (other != row) & (priorities[other] > priority)
            waits.set(k.where(has_none, k.const(1, u32), waits.get()))
            bit = k.shl(k.const(1, u64), k.cast((its - base) & (WINDOW - 1), u32))
            is_inside = (its >= base) & (its < base + WINDOW) & (other != row)
            used.set(used | k.where(is_inside, bit, k.const(0, u64)))
        k.warp_sync()
        taken, has_to_wait = (warp_reduce(k, k.emit("mov", each), _either, lanes) for each in (used, waits))
        free = ~taken
        with k.when((is_open != 0) & ((has_to_wait != 0) | (free != 0))):
            lowest = base + k.cast(k.emit("bfind", free & (0 - free)), i32)
            found.set(k.where(has_to_wait != 0, own, lowest))
            is_open.set(k.const(0, u32))
        base.set(base + WINDOW)
        k.warp_sync()
    with k.when(has_row & (lane == 0)):
        out[row] = found.get()
    return k.build()


def _either(a: Value, b: Value) -> Value:
    return a | b


__all__ = ["ColorSpec", "color", "make"]
