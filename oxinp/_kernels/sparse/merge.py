"""A CSR matrix times a vector, elements dealt out evenly, whatever the lengths of rows: merge-based SpMV.

Data layout: that of `spmv`. Who owns what: the ends of rows and the stored elements, merged in the order in which a
serial loop meets them, are one list; a block owns `TILE` consecutive entries of it, a thread `ITEMS` of these.

Algorithm: a first launch finds where tiles begin, by a search along a diagonal of the merge. A block leaves
products in shared memory, loaded side by side; a thread walks its entries, adds products, and stores a sum at each end
of a row. Sums that a thread leaves unfinished are passed on by a segmented scan over the block, and those that a tile
leaves unfinished are added to their rows by a last launch, in the order of tiles. Every order is fixed by the matrix:
the same bits every time. Bytes: those of `spmv`, and 16 per tile.

Source: D. Merrill and M. Garland, Merge-based parallel sparse matrix-vector multiplication, SC 2016.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Launch, Plan, Scratch, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.bisection import bisect
from oxinp._kernels.sparse.types import BLOCK, STREAMED, ProductTypes, product
from oxinp._ptx import Builder, Kernel, warp_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

ITEMS = 7  # odd: threads that read shared memory `ITEMS` apart use different banks
TILE = BLOCK * ITEMS
MIN_BLOCKS = 4
STORED = STREAMED
"""How the result is stored."""
NUM_WARPS = BLOCK // WARP
AHEAD = 4
"""Carries of a lane that are on their way at a time."""


class SpmvPartitionSpec(Frozen):
    """The kernel that finds where tiles begin."""

    index: Type


class SpmvMergeSpec(Frozen):
    """The kernel that computes tiles."""

    types: ProductTypes


class SpmvFixupSpec(Frozen):
    """The kernel that adds what tiles left unfinished."""

    index: Type
    result: Type


def num_tiles_of(num_rows: int, count: int) -> int:
    """Return how many tiles a matrix has."""
    return -(-(num_rows + count) // TILE)


def tiles(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan that finds where tiles begin, one more than there are; the input is indptr."""
    (out,), (indptr,) = outputs(1), inputs(1)
    return Plan((partition(out, indptr, num_rows, count, index),))


def plan(num_rows: int, count: int, types: ProductTypes, *, has_starts: bool = False) -> Plan:
    """Return the plan of a product; inputs are indptr, indices, data, the vector, and what `tiles` finds, if any."""
    num_tiles = num_tiles_of(num_rows, count)
    scratch = Scratch()
    starts = inputs(5)[4] if has_starts else scratch.take((num_tiles + 1) * types.index.nbytes)
    carry_rows = scratch.take(num_tiles * types.index.nbytes)
    carries = scratch.take(num_tiles * types.result.nbytes)
    (out,), (indptr, indices, data, x) = outputs(1), inputs(4)
    nbytes = count * (types.index.nbytes + types.value.nbytes)
    nbytes += num_rows * (types.index.nbytes + types.operand.nbytes + types.result.nbytes)
    return scratch.plan(
        (
            *(() if has_starts else (partition(starts, indptr, num_rows, count, types.index),)),
            Launch(
                make(SpmvMergeSpec(types)),
                (num_tiles, 1, 1),
                (out, starts, carry_rows, carries, indptr, indices, data, x),
                (num_rows, count),
                Work(2 * count, nbytes),
            ),
            Launch(
                make(SpmvFixupSpec(types.index, types.result)),
                (-(-num_tiles // BLOCK), 1, 1),
                (out, carry_rows, carries),
                (num_rows, num_tiles),
            ),
        )
    )


def partition(starts: Argument, indptr: Argument, num_rows: int, count: int, index: Type) -> Launch:
    """Return the launch that finds how many rows have ended where each tile begins, and at the end of the last one."""
    num_tiles = num_tiles_of(num_rows, count)
    grid = (num_tiles // NUM_WARPS + 1, 1, 1)
    return Launch(make(SpmvPartitionSpec(index)), grid, (starts, indptr), (num_rows, count, num_tiles))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SpmvPartitionSpec | SpmvMergeSpec | SpmvFixupSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, SpmvPartitionSpec):
        return _partition(spec)
    return _Merge(spec).build() if isinstance(spec, SpmvMergeSpec) else _fixup(spec)


def _partition(spec: SpmvPartitionSpec) -> Kernel:
    """A warp per tile, whose lanes look at 32 places at a time: searches wait for memory, not for each other."""
    k = Builder("spmv_merge_partition", block=BLOCK)
    starts, indptr = k.pointer("starts", spec.index, "w"), k.pointer("indptr", spec.index, "r")
    num_rows, count, num_tiles = (k.scalar(name, spec.index) for name in ("num_rows", "count", "num_tiles"))
    tile = k.cast(k.ctaid, spec.index) * NUM_WARPS + k.cast(k.warp, spec.index)
    diagonal = k.min(k.min(tile, num_tiles) * TILE, num_rows + count)
    low, high = k.var(k.max(diagonal - count, 0)), k.var(k.min(diagonal, num_rows))
    with k.loop():
        k.break_if(low >= high)
        step = k.shr(high - low + (WARP - 1), 5)
        probe = low + step * k.cast(k.lane + 1, spec.index) - 1
        near = k.min(probe, high - 1)
        is_before = (probe < high) & (indptr[near + 1] + near < diagonal)
        passed = k.cast(k.popc(k.ballot(is_before)), spec.index)
        high.set(k.min(high, low + step * (passed + 1) - 1))
        low.set(low + step * passed)
    with k.when((tile <= num_tiles) & (k.lane == 0)):
        starts[tile] = low.get()
    return k.build()


class _Merge:
    """The kernel of tiles while it is built."""

    def __init__(self, spec: SpmvMergeSpec) -> None:
        self.types = types = spec.types
        self.k = k = Builder("spmv_merge", block=BLOCK, min_blocks=MIN_BLOCKS)
        self.out = k.pointer("out", types.result, "w")
        self.starts = k.pointer("starts", types.index, "r")
        self.carry_rows, self.carries = (
            k.pointer("carry_rows", types.index, "w"),
            k.pointer("carries", types.result, "w"),
        )
        self.indptr, self.indices = (k.pointer(name, types.index, "r") for name in ("indptr", "indices"))
        self.data, self.x = k.pointer("data", types.value, "r"), k.pointer("x", types.operand, "r")
        self.num_rows, self.count = (k.scalar(name, types.index) for name in ("num_rows", "count"))
        self.ends = k.shared(i32, TILE + 1)
        self.products = k.shared(types.result, TILE)
        self.warp_totals = k.shared(types.result, NUM_WARPS)
        self.warp_flags = k.shared(i32, NUM_WARPS)

    def build(self) -> Kernel:
        k, types = self.k, self.types
        tile = k.cast(k.ctaid, types.index)
        first_row, last_row = self.starts[tile], self.starts[tile + 1]
        first = tile * TILE - first_row
        last = k.min((tile + 1) * TILE, self.num_rows + self.count) - last_row
        num_ends, num_products = k.cast(last_row - first_row, i32), k.cast(last - first, i32)
        self.load(first_row, first, num_ends, num_products)
        k.barrier()
        thread = k.cast(k.tid, i32)
        diagonal = k.min(thread * ITEMS, num_ends + num_products)
        end = bisect(
            k,
            k.max(diagonal - num_products, 0),
            k.min(diagonal, num_ends),
            lambda place: self.ends[place] + place < diagonal,
        )
        row, place, total = k.var(end), k.var(diagonal - end), k.var(k.const(0, types.result))
        first_total, has_ended = k.var(k.const(0, types.result)), k.var(k.const(0, i32))
        for _ in range(ITEMS):
            with k.when(row + place < num_ends + num_products):
                with k.when(place < self.ends[row.get()]):
                    total.set(total + self.products[place.get()])
                    place.set(place + 1)
                with k.otherwise():
                    with k.when(has_ended == 0):
                        first_total.set(total)
                    with k.otherwise():
                        self.out.store(first_row + k.cast(row.get(), types.index), [total], STORED)
                    has_ended.set(k.const(1, i32))
                    total.set(k.const(0, types.result))
                    row.set(row + 1)
        k.warp_sync()
        before, through = self.scan(k.emit("mov", total), has_ended != 0)
        with k.when(has_ended != 0):
            self.out.store(first_row + k.cast(end, types.index), [before + first_total], STORED)
        with k.when(k.tid == BLOCK - 1):
            self.carry_rows[tile] = last_row
            self.carries[tile] = through
        return k.build()

    def load(self, first_row: Value, first: Value, num_ends: Value, num_products: Value) -> None:
        """Load the ends of the tile's rows, and its products."""
        k, types = self.k, self.types
        thread = k.cast(k.tid, i32)
        numbers = [thread + i * BLOCK if i else thread for i in range(ITEMS)]
        with k.when(num_products != 0):
            places = [first + k.cast(k.min(number, num_products - 1), types.index) for number in numbers]
            columns = [self.indices.load(place, 1, STREAMED)[0] for place in places]
            made = [product(k, types, self.data, self.x, *pair, STREAMED) for pair in zip(places, columns, strict=True)]
            for number, value in zip(numbers, made, strict=True):
                self.products[number] = value
        load_ends(k, self.ends, self.indptr, (first_row, first, num_ends, num_products), numbers)

    def scan(self, total: Value, is_start: Value) -> tuple[Value, Value]:
        """Return what the threads before pass on to this one, and what this one passes on, by a segmented scan."""
        k, lane = self.k, self.k.lane
        total, starts = self.scan_warp(total, is_start, WARP)
        with k.when(lane == WARP - 1):
            self.warp_totals[k.warp] = total
            self.warp_flags[k.warp] = k.cast(starts, i32)
        k.barrier()
        slot = lane & (NUM_WARPS - 1)
        through, _ = self.scan_warp(self.warp_totals[slot], self.warp_flags[slot] != 0, NUM_WARPS)
        zero = k.const(0, total.type)
        earlier = k.where(k.warp == 0, zero, k.shfl_idx(through, k.max(k.warp, 1) - 1))
        inclusive = k.where(starts, total, earlier + total)
        before = k.shfl_up(inclusive, 1)
        return k.where(lane == 0, earlier, before), inclusive

    def scan_warp(self, total: Value, starts: Value, width: int) -> tuple[Value, Value]:
        """Return the inclusive segmented scan over the first lanes of a warp, and whether a segment began in it."""
        k, distance = self.k, 1
        while distance < width:
            other, other_starts = k.shfl_up(total, distance), k.shfl_up(starts, distance)
            has_other = k.lane >= distance
            total = k.where(has_other & ~starts, other + total, total)
            starts = starts | (has_other & other_starts)
            distance *= 2
        return total, starts


def load_ends(
    k: Builder, ends: Pointer, indptr: Pointer, tile: tuple[Value, Value, Value, Value], numbers: list[Value]
) -> None:
    """Load where the rows that end in a tile do, as numbers of its elements; then how many elements it has.

    Parameters
    ----------
    k : Builder
    ends : Pointer
        Shared, i32.
    indptr : Pointer
    tile : tuple of Value
        The first row, the first element; i32, how many rows end, and how many elements there are.
    numbers : list of Value
        Of the thread, i32.
    """
    first_row, first, num_ends, num_elements = tile
    for number in numbers:
        with k.when(number < num_ends):
            end = indptr.load(first_row + 1 + k.cast(number, first_row.type), 1, STREAMED)[0]
            ends[number] = k.cast(end - first, i32)
    with k.when(k.tid == 0):
        ends[num_ends] = num_elements


def own_elements(k: Builder, ends: Pointer, rows: Pointer, num_ends: Value, num_elements: Value) -> None:
    """Write beside each element of a tile which of the tile's rows it is in."""
    diagonal = k.min(k.cast(k.tid, i32) * ITEMS, num_ends + num_elements)
    end = bisect(
        k, k.max(diagonal - num_elements, 0), k.min(diagonal, num_ends), lambda place: ends[place] + place < diagonal
    )
    row, place = k.var(end), k.var(diagonal - end)
    for _ in range(ITEMS):
        with k.when(row + place < num_ends + num_elements):
            is_inside = place < ends[row.get()]
            with k.when(is_inside):
                rows[place.get()] = row.get()
            place.set(place + k.cast(is_inside, i32))
            row.set(row + k.cast(~is_inside, i32))


def _fixup(spec: SpmvFixupSpec) -> Kernel:
    """A thread per tile; those of a row that several tiles leave unfinished are added by the warp of the first."""
    k = Builder("spmv_merge_fixup", block=BLOCK)
    out = k.pointer("out", spec.result)
    rows, values = k.pointer("carry_rows", spec.index, "r"), k.pointer("carries", spec.result, "r")
    num_rows, num_tiles = (k.scalar(name, spec.index) for name in ("num_rows", "num_tiles"))
    tile = k.cast(k.ctaid, spec.index) * BLOCK + k.cast(k.tid, spec.index)
    near = k.min(tile, num_tiles - 1)
    row = rows[near]
    is_first = (tile < num_tiles) & (row < num_rows) & ((tile == 0) | (rows[k.max(near, 1) - 1] != row))
    is_alone = rows[k.min(near + 1, num_tiles - 1)] != row
    is_alone = is_alone | (near + 1 >= num_tiles)
    with k.when(is_first & is_alone):
        out[row] = values[near] + out[row]
    left = k.var(k.ballot(is_first & ~is_alone))
    with k.loop():
        k.break_if(left == 0)
        leader = k.emit("bfind", left & (0 - left))
        its_row, its_tile = k.shfl_idx(row, leader), k.shfl_idx(tile, leader)
        total = k.var(k.const(0, spec.result))
        at = k.var(its_tile + k.cast(k.lane, spec.index))
        with k.loop():
            places = [at + i * WARP for i in range(AHEAD)]
            safe = [k.min(place, num_tiles - 1) for place in places]
            found = [(rows[place], values[place]) for place in safe]
            belongs = k.const(0, u32) == 0
            for place, (other, value) in zip(places, found, strict=True):
                belongs = belongs & (place < num_tiles) & (other == its_row)
                total.set(k.where(belongs, total + value, total))
            k.break_if(~k.all(belongs))
            at.set(at + AHEAD * WARP)
        whole = warp_reduce(k, k.emit("mov", total), lambda a, b: a + b)
        with k.when(k.lane == leader):
            out[its_row] = whole + out[its_row]
        left.set(left & (left - 1))
    return k.build()


__all__ = [
    "TILE",
    "SpmvFixupSpec",
    "SpmvMergeSpec",
    "SpmvPartitionSpec",
    "load_ends",
    "make",
    "num_tiles_of",
    "partition",
    "plan",
    "tiles",
]
