"""Rows of CSR: the number of each element's row, rows picked out, sums of runs, diagonals.

Data layout: CSR. Who owns what: `lanes` threads own a row (of `RowNumbersSpec`), a block a tile of the merge of ends of
rows and elements (of `PickSpec`, see `merge`), or a thread a run of elements or a row (of `RunsSpec`, `DiagonalSpec`),
which it adds in their order. Bytes: every array once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse import merge
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel, block_reduce
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u64
from oxinp._ptx.warp import WARP

MAX_BLOCKS = 1056


class RowNumbersSpec(Frozen):
    """The kernel that writes to every element the number of its row."""

    index: Type
    lanes: int


class PickLengthsSpec(Frozen):
    """The kernel that looks up how long the rows are that numbers, i64, name; negative ones count from the end."""

    index: Type


class PickSpec(Frozen):
    """The kernel that copies some rows."""

    index: Type
    value: Type


class RunsSpec(Frozen):
    """The kernel that adds the elements of runs; `starts` are i64."""

    value: Type


class DiagonalSpec(Frozen):
    """The kernel that adds the elements of every row that lie on a diagonal."""

    index: Type
    value: Type


class DenseSpec(Frozen):
    """The kernel that writes the elements, of which no two are at one place, into a dense matrix."""

    index: Type
    value: Type
    lanes: int


def lanes_for(num_rows: int, count: int) -> int:
    """Return how many threads a row is worth, by the mean length: a power of two up to 32."""
    mean = max(1, count // max(1, num_rows))
    return min(WARP, 1 << (mean - 1).bit_length())


def row_numbers(num_rows: int, count: int, index: Type) -> Plan:
    """Return the plan that writes the row of every element; the input is indptr."""
    lanes = lanes_for(num_rows, count)
    grid = (-(-num_rows * lanes // BLOCK), 1, 1)
    return Plan((Launch(make(RowNumbersSpec(index, lanes)), grid, (*outputs(1), *inputs(1)), (num_rows,)),))


def pick_lengths(num_picked: int, num_rows: int, index: Type, arguments: tuple[Argument, ...]) -> Launch:
    """Return the launch that looks up lengths of rows.

    Arguments are the numbers of rows, i64, none of them negative, and the lengths; two words, i64 and zeros before: how
    many elements there are, and how many numbers are out of bounds, which pick nothing; the given numbers, and indptr.
    """
    grid = (min(MAX_BLOCKS, -(-num_picked // BLOCK)), 1, 1)
    return Launch(make(PickLengthsSpec(index)), grid, arguments, (num_picked, num_rows))


def pick(num_rows: int, count: int, index: Type, value: Type, arguments: tuple[Argument, ...]) -> tuple[Launch, Launch]:
    """Return the launches that copy rows of `count` elements.

    Arguments are indices and data of what is picked, and where tiles of it begin (`merge.partition`); then its indptr,
    the numbers of the rows, i64, and indptr, indices and data of the matrix.
    """
    _, _, tiles, starts, *_ = arguments
    grid = (merge.num_tiles_of(num_rows, count), 1, 1)
    work = Work(nbytes=2 * count * (index.nbytes + value.nbytes))
    return (
        merge.partition(tiles, starts, num_rows, count, index),
        Launch(make(PickSpec(index, value)), grid, arguments, (num_rows, count), work),
    )


def runs(num_runs: int, count: int, value: Type) -> Plan:
    """Return the plan that adds runs; inputs are the elements, `count`, and where each of the runs begins."""
    grid = (-(-num_runs // BLOCK), 1, 1)
    return Plan((Launch(make(RunsSpec(value)), grid, (*outputs(1), *inputs(2)), (num_runs, count)),))


def diagonal(size: int, first_row: int, offset: int, index: Type, value: Type) -> Plan:
    """Return the plan of the `size` elements (i, i + offset) from `first_row` on; inputs are indptr, indices, data."""
    grid = (-(-size // BLOCK), 1, 1)
    constants = (size, first_row, offset)
    return Plan((Launch(make(DiagonalSpec(index, value)), grid, (*outputs(1), *inputs(3)), constants),))


def dense(shape: tuple[int, int], strides: tuple[int, int], count: int, index: Type, value: Type) -> Plan:
    """Return the plan that writes a matrix of a shape to zeros with some strides; inputs are indptr, indices, data."""
    num_rows, num_columns = shape
    lanes = lanes_for(num_rows, count)
    grid = (-(-num_rows * lanes // BLOCK), 1, 1)
    launch = Launch(make(DenseSpec(index, value, lanes)), grid, (*outputs(1), *inputs(3)), (num_rows, *strides))
    return Plan((Fill(Argument("out0"), num_rows * num_columns * value.nbytes, 0), launch))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: RowNumbersSpec | PickLengthsSpec | PickSpec | RunsSpec | DiagonalSpec | DenseSpec) -> Kernel:
    """Build the kernel of a Spec."""
    kernel: Kernel = _BUILDERS[type(spec)](spec)
    return kernel


def _row_numbers(spec: RowNumbersSpec) -> Kernel:
    k = Builder("sparse_row_numbers", block=BLOCK)
    out, indptr = k.pointer("out", spec.index, "w"), k.pointer("indptr", spec.index, "r")
    num_rows = k.scalar("num_rows", spec.index)
    row = k.cast(k.ctaid, spec.index) * (BLOCK // spec.lanes) + k.cast(k.tid / spec.lanes, spec.index)
    with (
        k.when(row < num_rows),
        k.range(indptr[row] + k.cast(k.tid % spec.lanes, spec.index), indptr[row + 1], spec.lanes) as place,
    ):
        out[place] = row
    return k.build()


def _pick_lengths(spec: PickLengthsSpec) -> Kernel:
    index = spec.index
    k = Builder("sparse_pick_lengths", block=BLOCK)
    rows, lengths = k.pointer("rows", i64, "w"), k.pointer("lengths", index, "w")
    words = k.pointer("words", u64, "rw")
    given, indptr = k.pointer("given", i64, "r"), k.pointer("indptr", index, "r")
    num_picked, num_rows = k.scalar("num_picked", i64), k.scalar("num_rows", i64)
    total, num_outside = k.var(0, i64), k.var(0, i64)
    with k.grid_stride(num_picked) as number:
        row = given[number]
        row = k.where(row < 0, row + num_rows, row)
        is_inside = (row >= 0) & (row < num_rows)
        row = k.where(is_inside, row, k.const(0, i64))
        length = k.where(is_inside, indptr[row + 1] - indptr[row], k.const(0, index))
        rows[number], lengths[number] = row, length
        total.set(total + k.cast(length, i64))
        num_outside.set(num_outside + k.cast(~is_inside, i64))
    for i, each in enumerate((total, num_outside)):
        whole = block_reduce(k, k.emit("mov", each), lambda a, b: a + b)
        with k.when((k.tid == 0) & (whole != 0)):
            words.atomic("add", i, k.cast(whole, u64))
    return k.build()


def _pick(spec: PickSpec) -> Kernel:
    index = spec.index
    k = Builder("sparse_pick_rows", block=BLOCK)
    out_indices, out_data = k.pointer("out_indices", index, "w"), k.pointer("out_data", spec.value, "w")
    tiles, starts = k.pointer("tiles", index, "r"), k.pointer("starts", index, "r")
    rows = k.pointer("rows", i64, "r")
    indptr, indices = (k.pointer(name, index, "r") for name in ("indptr", "indices"))
    data = k.pointer("data", spec.value, "r")
    num_rows, count = k.scalar("num_rows", index), k.scalar("count", index)
    ends, owners = k.shared(i32, merge.TILE + 1), k.shared(i32, merge.TILE)
    moves = k.shared(index, merge.TILE + 1)  # of each row of the tile: how far from its elements it gets them
    tile = k.cast(k.ctaid, index)
    first_row, last_row = tiles[tile], tiles[tile + 1]
    first = tile * merge.TILE - first_row
    last = k.min((tile + 1) * merge.TILE, num_rows + count) - last_row
    num_ends, num_elements = k.cast(last_row - first_row, i32), k.cast(last - first, i32)
    thread = k.cast(k.tid, i32)
    numbers = [thread + i * BLOCK if i else thread for i in range(merge.ITEMS)]
    merge.load_ends(k, ends, starts, (first_row, first, num_ends, num_elements), numbers)
    with k.range(thread, num_ends + 1, BLOCK) as number:
        row = k.min(first_row + k.cast(number, index), num_rows - 1)
        moves[number] = indptr[rows[row]] - starts[row]
    k.barrier()
    merge.own_elements(k, ends, owners, num_ends, num_elements)
    k.barrier()
    with k.when(num_elements != 0):
        safe = [k.min(number, num_elements - 1) for number in numbers]
        targets = [first + k.cast(number, index) for number in safe]
        places = [target + moves[owners[number]] for number, target in zip(safe, targets, strict=True)]
        found = [(indices[place], data[place]) for place in places]
        for number, target, (column, value) in zip(numbers, targets, found, strict=True):
            with k.when(number < num_elements):
                out_indices[target] = column
                out_data[target] = value
    return k.build()


def _runs(spec: RunsSpec) -> Kernel:
    k = Builder("sparse_add_runs", block=BLOCK)
    out, elements = k.pointer("out", spec.value, "w"), k.pointer("elements", spec.value, "r")
    starts = k.pointer("starts", i64, "r")
    num_runs, count = k.scalar("num_runs", i64), k.scalar("count", i64)
    run = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    with k.when(run < num_runs):
        begin = starts[run]
        end = k.where(run + 1 < num_runs, starts[k.min(run + 1, num_runs - 1)], count)
        total = k.var(elements[begin])
        with k.range(begin + 1, end) as place:
            total.set(total + elements[place])
        out[run] = total
    return k.build()


def _diagonal(spec: DiagonalSpec) -> Kernel:
    k = Builder("sparse_diagonal", block=BLOCK)
    out, indptr = k.pointer("out", spec.value, "w"), k.pointer("indptr", spec.index, "r")
    indices, data = k.pointer("indices", spec.index, "r"), k.pointer("data", spec.value, "r")
    size, first_row, offset = (k.scalar(name, spec.index) for name in ("size", "first_row", "offset"))
    number = k.cast(k.ctaid, spec.index) * BLOCK + k.cast(k.tid, spec.index)
    with k.when(number < size):
        row = first_row + number
        total = k.var(k.const(0, spec.value))
        with k.range(indptr[row], indptr[row + 1]) as place, k.when(indices[place] == row + offset):
            total.set(total + data[place])
        out[number] = total
    return k.build()


def _dense(spec: DenseSpec) -> Kernel:
    k = Builder("sparse_to_dense", block=BLOCK)
    out = k.pointer("out", spec.value, "w")
    indptr, indices = (k.pointer(name, spec.index, "r") for name in ("indptr", "indices"))
    data = k.pointer("data", spec.value, "r")
    num_rows = k.scalar("num_rows", spec.index)
    row_step, column_step = k.scalar("row_step", i64), k.scalar("column_step", i64)
    row = k.cast(k.ctaid, spec.index) * (BLOCK // spec.lanes) + k.cast(k.tid / spec.lanes, spec.index)
    with k.when(row < num_rows):
        start = k.cast(row, i64) * row_step
        with k.range(indptr[row] + k.cast(k.tid % spec.lanes, spec.index), indptr[row + 1], spec.lanes) as place:
            out[start + k.cast(indices[place], i64) * column_step] = data[place]
    return k.build()


_BUILDERS: dict[type, Any] = {
    RowNumbersSpec: _row_numbers,
    PickLengthsSpec: _pick_lengths,
    PickSpec: _pick,
    RunsSpec: _runs,
    DiagonalSpec: _diagonal,
    DenseSpec: _dense,
}

__all__ = [
    "DenseSpec",
    "DiagonalSpec",
    "PickLengthsSpec",
    "PickSpec",
    "RowNumbersSpec",
    "RunsSpec",
    "dense",
    "diagonal",
    "lanes_for",
    "make",
    "pick",
    "pick_lengths",
    "row_numbers",
    "runs",
]
