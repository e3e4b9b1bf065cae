"""Inner products of the columns of two tall f64 matrices, [A B]^T [A B], in one pass, by tensor cores.

Data layout: A (rows, n) and B (rows, q), row by row, the columns of each up to whole tiles of `TILE`. The sums are
those of MMA instructions: of each group of tiles as rows of the result, and of each tile from the group's first on as
its columns, the numbers that lanes have, one after the other, see `unpacked`.

Who owns what: a warp has `ROWS` rows at a time, and sums of all products of these; a lane an element of a tile in every
fourth of them, which is its operand of both factors. A block adds up its warps' sums in order, and a reduction those of
all blocks.

A and B are read once; half of the result is computed, but for tiles on the diagonal.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oxinp._kernels.plan import Argument, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mma import multiply_f64
from oxinp._ptx.types import f64, i64, u32

if TYPE_CHECKING:
    from typing import Any

    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
TILE = 8  # columns
ROWS = 16  # of a warp at a time
MOST_COLUMNS, MOST_OTHERS = 48, 8  # of A and of B: the sums of as many fit the registers
BLOCKS_EACH = 2  # of a multiprocessor
ARCHITECTURE = (9, 0)  # from which an instruction has 16 rows of the result


class InnerSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    num_tiles : int
        Of A; B has one.
    mma_rows : int
        Rows of the result of an MMA instruction: 8 (sm_80), or 16 (sm_90).
    """

    num_tiles: int
    mma_rows: int

    @property
    def products(self) -> list[tuple[int, int]]:
        """The first tile of rows, and the tile of columns, of every MMA instruction's result."""
        each, count = self.mma_rows // TILE, self.num_tiles + 1
        return [(first, tile) for first in range(0, count, each) for tile in range(first, count)]

    @property
    def size(self) -> int:
        """Numbers of the sums."""
        return len(self.products) * self.mma_rows * TILE


@cache
@retraceable
def make(spec: InnerSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    target = "sm_90" if spec.mma_rows > TILE else "sm_80"
    k = Builder("inner_products", block=BLOCK, target=target, min_blocks=1)
    out = k.pointer("sums", f64, "w")
    sources = [k.pointer(name, f64, "r") for name in ("a", "b")]
    rows = k.scalar("rows", u32)
    widths = [k.scalar(name, u32) for name in ("columns", "others")]
    depth, each = spec.mma_rows // 2, spec.mma_rows // TILE
    zero = k.const(0, f64)
    high, low = k.lane >> 2, k.lane & 3
    places = []  # of every tile: its matrix, the matrix's columns, a lane's own one, and whether there is such
    for tile in range(spec.num_tiles + 1):
        is_other = tile == spec.num_tiles
        width, column = widths[is_other], high if is_other else high + tile * TILE
        is_there = column < width
        places.append((sources[is_other], width, k.where(is_there, column, k.const(0, u32)), is_there))
    sums = [[k.var(zero) for _ in range(spec.mma_rows // 4)] for _ in spec.products]
    step = BLOCK // WARP * ROWS
    with k.range(k.ctaid * step + k.warp * ROWS, rows, k.nctaid * step) as start:
        loaded = [[_element(k, place, start + (low + first), rows) for first in range(0, ROWS, 4)] for place in places]
        for begin in range(0, ROWS // 4, depth // 4):
            along = range(begin, begin + depth // 4)
            for (first, tile), totals in zip(spec.products, sums, strict=True):
                group = [loaded[i] if i < len(loaded) else [zero] * (ROWS // 4) for i in range(first, first + each)]
                x = [own[j] for j in along for own in group]
                y = [loaded[tile][j] for j in along]
                for total, value in zip(totals, multiply_f64(k, x, y, totals), strict=True):
                    total.set(value)
    _store(k, spec, out, sums)
    return k.build()


def _element(k: Builder, place: tuple[Pointer, Value, Value, Value], row: Value, rows: Value) -> Value:
    """A lane's element of a row of a tile; zero where there is none."""
    source, width, column, is_there = place
    is_inside = is_there & (row < rows)
    index = k.cast(k.where(row < rows, row, k.const(0, u32)), i64) * k.cast(width, i64) + k.cast(column, i64)
    found: Value = k.where(is_inside, source[index], k.const(0, f64))
    return found


def _store(k: Builder, spec: InnerSpec, out: Pointer, sums: list[list[Any]]) -> None:
    """Add up the sums of warps, one after the other, and store them."""
    held = k.shared(f64, spec.size)
    each = spec.mma_rows // 4
    for warp in range(BLOCK // WARP):
        with k.when(k.warp == warp):
            for i, totals in enumerate(sums):
                place = (k.const(i * WARP, u32) + k.lane) * each
                for j, total in enumerate(totals):
                    held[place + j] = total.get() if warp == 0 else held[place + j] + total.get()
        k.barrier()
    own = out.at(k.cast(k.ctaid, i64) * spec.size)
    with k.range(k.tid, spec.size, BLOCK) as number:
        own[k.cast(number, i64)] = held[number]


def spec_of(columns: int, device: Device) -> InnerSpec:
    """Return the kernel for a matrix of as many columns."""
    return InnerSpec(-(-columns // TILE), 2 * TILE if device.cc >= ARCHITECTURE else TILE)


def _add(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x + y


@cache
def _total() -> reduce.Reduction:
    """The sum over blocks."""
    return reduce.Reduction([(f64, True)], (), 0, ReduceOp("sum", f64, 0, _add), f64)


def plan(rows: int, columns: int, others: int, device: Device) -> Plan:
    """Return the plan of the sums, which `unpacked` makes a matrix of: the output, of A and B, the inputs, in C order.

    Parameters
    ----------
    rows, columns, others : int
        Rows of both, columns of A and of B, at most `MOST_COLUMNS` and `MOST_OTHERS`.
    device : Device
    """
    spec, scratch = spec_of(columns, device), Scratch()
    num_blocks = max(1, min(BLOCKS_EACH * device.num_sms, -(-rows // (BLOCK // WARP * ROWS))))
    partial = scratch.take(num_blocks * spec.size * f64.nbytes)
    work = Work(2 * rows * columns * (columns + others), rows * (columns + others) * f64.nbytes)
    places = (partial, Argument("in0"), Argument("in1"))
    launch = Launch(make(spec), (num_blocks, 1, 1), places, (rows, columns, others), work)
    operand = Operand(f64, (spec.size, 1))
    total = _total().plan((num_blocks, spec.size), (0,), (operand,), Operand(f64, (1,)), device)
    more = scratch.take(total.scratch_nbytes)
    return scratch.plan((launch, *total.on(in0=partial, scratch=more)))


def unpacked(sums: np.ndarray[Any, Any], columns: int, others: int, device: Device) -> np.ndarray[Any, Any]:
    """Return the matrix [A B]^T [A B] of what the plan leaves."""
    spec = spec_of(columns, device)
    each = spec.mma_rows // TILE
    side = -(-(spec.num_tiles + 1) // each) * each * TILE
    whole = np.zeros((side, side))
    # A lane has two neighbours in every eighth row.
    parts = sums.reshape(len(spec.products), TILE, 4, each, 2).transpose(0, 3, 1, 2, 4)
    for (first, tile), part in zip(spec.products, parts.reshape(-1, spec.mma_rows, TILE), strict=True):
        whole[first * TILE : first * TILE + spec.mma_rows, tile * TILE : (tile + 1) * TILE] = part
    upper = np.triu(whole)
    start = spec.num_tiles * TILE
    kept = [*range(columns), *range(start, start + others)]
    return (upper + np.triu(upper, 1).T)[np.ix_(kept, kept)]


__all__ = ["MOST_COLUMNS", "MOST_OTHERS", "InnerSpec", "make", "plan", "unpacked"]
