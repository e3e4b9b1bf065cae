"""LU with partial pivoting of a panel: some columns, all rows below the diagonal.

Data layout: a panel has up to `width` columns, row by row in memory with any pitch, one or many panels. In shared
memory a block has `height` rows of it. What blocks tell each other lies in the workspace, twice, for columns of even
and of odd number: per block its candidate (magnitude, row, the row's elements), the row on the diagonal, and a flag,
which is the number of the last column that the block told of, counted through all panels of a matrix.

Who owns what: a block has consecutive rows, a thread `along`-th columns of every `BLOCK / along`-th row. All blocks
of a panel have to be resident.

Algorithm, per column: the rows below are searched for the element of largest magnitude, the first of equal ones; every
block tells what it found, waits for what the others found, and takes the best. The two rows change places in whoever
has them; the multipliers and what is left of the panel are computed. A warp of the first block keeps the exchanges as
what they amount to: for each of the rows on top, and for each row that was exchanged with one, where it comes from.

Per panel: rows * width^2 flops, its elements read and written once, and per column a wait for all blocks. Magnitudes
of complex numbers are sums of those of their parts, as LAPACK's; NaN counts as infinity.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.panel_kernel import NOWHERE, WARP, WIDTHS, PanelKernel, magnitude
from oxinp._kernels.plan import Argument, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, compound, i64, u32
from oxinp._ptx.value import Value
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Scratch
    from oxinp._ptx.memory import Pointer

BLOCK = 256
NUM_WARPS = BLOCK // WARP
HEIGHTS = (64, 128, 256, 512)  # rows of a block, of which it may have more where that many blocks are too few
MAX_BLOCKS = 32  # of a panel: a warp waits for them, a lane each


class PanelSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    height : int
        Rows of a block.
    is_alone : bool
        A panel is one block.
    """

    type: Type
    height: int
    is_alone: bool

    @property
    def width(self) -> int:
        """Most columns of a panel."""
        return WIDTHS[self.type.nbytes]

    @property
    def along(self) -> int:
        """Threads that share a row."""
        return max(1, min(self.width // 4, BLOCK // self.height))

    @property
    def shared_nbytes(self) -> int:
        """Of the rows, and some more."""
        return (self.height * (self.width + 1) + 2 * self.width) * self.type.nbytes + 1024


class Board(NamedTuple):
    """Where blocks tell each other; see the module."""

    rows: Argument
    diagonals: Argument
    magnitudes: Argument
    indices: Argument
    flags: Argument
    flags_nbytes: int


@cache
@retraceable
def make(spec: PanelSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _Panel(spec).build()


class _Panel(PanelKernel):
    """The kernel while it is built."""

    def __init__(self, spec: PanelSpec) -> None:
        k = Builder("lu_panel", block=BLOCK, target="sm_80", min_blocks=1)
        super().__init__(k, spec.type, spec.height)
        self.spec = spec
        self.candidate = compound(self.real, u32)
        self.board = [
            k.pointer(name, of)
            for name, of in (
                ("rows", spec.type),
                ("diagonals", spec.type),
                ("magnitudes", self.real),
                ("indices", u32),
                ("flags", u32),
            )
        ]
        self.take()
        self.pivot_row = k.dynamic_shared(spec.type, self.width)
        self.partials = (k.dynamic_shared(self.real, NUM_WARPS), k.dynamic_shared(u32, NUM_WARPS))
        self.winner = k.dynamic_shared(u32, 2)  # the row, the block that has it

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        self.copy_in()
        with k.range(k.const(0, u32), self.num_columns) as column:
            mine = self.search(column)
            winner = self.exchange_alone(column, mine) if spec.is_alone else self.exchange(column, mine)
            self.note(column, winner)
            self.note_pivot(column, self.pivot_row[column])
            self.update(column)
        k.barrier()
        self.copy_out()
        self.report()
        return k.build()

    # -- the pivot

    def better(self, own: Value, other: Value) -> Value:
        k = self.k
        (magnitude, row), (others, other_row) = own.parts, other.parts
        is_better = (others > magnitude) | ((others == magnitude) & (other_row < row))
        return k.where(is_better, other, own)

    def search(self, column: Value) -> Value:
        """The candidate of this block; of rows in the panel."""
        k = self.k
        best = k.var(k.compound(self.candidate, k.const(-1, self.real), k.const(NOWHERE, u32)))
        with k.range(k.tid, self.spec.height, BLOCK) as row:
            number = self.top + row
            with k.when((number >= column) & (number < self.num_rows)):
                found = magnitude(k, self.tile[row * self.line + column])
                best.set(self.better(best, k.compound(self.candidate, found, number)))
        found = warp_reduce(k, best.get(), self.better)
        with k.when(k.lane == 0):
            for place, part in zip(self.partials, found.parts, strict=True):
                place[k.warp] = part
        k.barrier()
        own = k.compound(self.candidate, *[place[k.lane % NUM_WARPS] for place in self.partials])
        return warp_reduce(k, own, self.better, NUM_WARPS)

    def local(self, row: Value) -> Pointer:
        """Where a row of the panel lies that this block has."""
        return self.tile.at((row - self.top) * self.line)

    def exchange_alone(self, column: Value, mine: Value) -> Value:
        """Exchange two rows of this block; the row of the pivot is in `pivot_row` then."""
        k = self.k
        winner = mine.parts[1]
        with k.when(k.tid < self.width):
            here, there = self.local(column), self.local(winner)
            upper, lower = here[k.tid], there[k.tid]
            there[k.tid] = upper
            here[k.tid] = lower
            self.pivot_row[k.tid] = lower
        k.barrier()
        return winner

    def exchange(self, column: Value, mine: Value) -> Value:
        """The same where rows are in different blocks."""
        k = self.k
        rows, diagonals, magnitudes, indices, flags = self.board
        half = self.matrix * 2 + column % 2
        boards = half * self.num_blocks
        row = mine.parts[1]
        has_diagonal = (column >= self.top) & (column < self.top + self.spec.height)
        with k.when(k.tid < self.width):
            with k.when(row != NOWHERE):
                rows[k.cast((boards + self.rank) * self.width + k.tid, i64)] = self.local(row)[k.tid]
            with k.when(has_diagonal):
                diagonals[k.cast(half * self.width + k.tid, i64)] = self.local(column)[k.tid]
        with k.when(k.tid == 0):
            magnitudes[k.cast(boards + self.rank, i64)] = mine.parts[0]
            indices[k.cast(boards + self.rank, i64)] = row
        k.barrier()
        epoch = self.epoch + column
        flags = flags.at(k.cast(self.matrix * self.num_blocks, i64))
        with k.when(k.tid == 0):
            flags.store(k.cast(self.rank, i64), [epoch], order="release.gpu")
        with k.when(k.warp == 0):
            best = k.var(k.compound(self.candidate, k.const(-1, self.real), k.const(NOWHERE, u32)))
            with k.when(k.lane < self.num_blocks):
                with k.loop():
                    k.break_if(flags.load(k.cast(k.lane, i64), order="acquire.gpu")[0] >= epoch)
                place = k.cast(boards + k.lane, i64)
                best.set(k.compound(self.candidate, magnitudes[place], indices[place]))
            k.warp_sync()
            found = warp_reduce(k, best.get(), self.better)
            with k.when(k.lane == 0):
                self.winner[0] = found.parts[1]
        k.barrier()
        winner = self.winner[0]
        owner = winner / self.spec.height
        with k.when(k.tid < self.width):
            lower = rows[k.cast((boards + owner) * self.width + k.tid, i64)]
            self.pivot_row[k.tid] = lower
            with k.when((owner == self.rank) & (winner != column)):
                self.local(winner)[k.tid] = diagonals[k.cast(half * self.width + k.tid, i64)]
            with k.when(has_diagonal):
                self.local(column)[k.tid] = lower
        k.barrier()
        return winner

    # -- the rest of the panel

    def update(self, column: Value) -> None:
        """Compute the multipliers of the rows below, and take their products with the pivot's row off these."""
        k, along = self.k, self.spec.along
        pivot = self.pivot_row[column]
        is_zero = pivot == k.const(0, self.spec.type)
        share = k.tid % along
        with k.range(k.tid / along, self.spec.height, BLOCK // along) as row:
            is_below = (self.top + row > column) & (self.top + row < self.num_rows)
            elements = self.tile.at(row * self.line)
            found = k.var(k.const(0, self.spec.type))
            with k.when(is_below & (share == 0)):
                element = elements[column]
                found.set(k.where(is_zero, element, element / pivot))
                elements[column] = found.get()
            factor = k.shfl_idx(found.get(), k.lane - share) if along > 1 else found.get()
            with k.when(is_below):
                negative = -factor
                for i in range(self.width // along):
                    other = share + i * along
                    with k.when(other > column):
                        elements[other] = multiply_add(k, negative, self.pivot_row[other], elements[other])
        k.barrier()


def block_height(type: Type, num_rows: int, device: Device, *, are_many: bool) -> int:
    """Return how many rows a block has: all of them where there are many panels and they fit, else few."""
    largest = most_rows_alone(type, device)
    heights = [height for height in HEIGHTS if height < largest] + [largest]
    if num_rows > most_rows(type, device):
        raise ValueError(f"a panel of {num_rows} rows, where {most_rows(type, device)} fit")
    fitting = [height for height in heights if are_many and height >= num_rows]
    most = min(MAX_BLOCKS, device.num_sms)
    return (fitting or [height for height in heights if height * most >= num_rows] or heights[-1:])[0]


def most_rows(type: Type, device: Device) -> int:
    """Return how many rows a panel may have: those of as many blocks as wait for each other."""
    return min(MAX_BLOCKS, device.num_sms) * most_rows_alone(type, device)


def most_rows_alone(type: Type, device: Device) -> int:
    """Return the most rows of a block, a multiple of a warp's."""
    spec = PanelSpec(type, 0, is_alone=True)
    per_row = (spec.width + 1) * type.nbytes
    return (device.max_shared_nbytes - spec.shared_nbytes) // per_row // WARP * WARP


def board(scratch: Scratch, type: Type, num_blocks: int, count: int) -> Board:
    """Return where the blocks of so many panels tell each other, in the workspace."""
    total, width = count * num_blocks, WIDTHS[type.nbytes]
    return Board(
        scratch.take(2 * total * width * type.nbytes),
        scratch.take(2 * count * width * type.nbytes),
        scratch.take(2 * total * type.parts[0].nbytes),
        scratch.take(2 * total * u32.nbytes),
        scratch.take(total * u32.nbytes),
        total * u32.nbytes,
    )


class Panel(NamedTuple):
    """A panel, of a matrix or of each of some.

    Attributes
    ----------
    type : Type
    shape : (int, int)
        Rows and columns.
    first : int
        Row and column of the matrix in which it begins.
    order : int
        By which statuses count matrices.
    epoch : int
        Columns of the panels before, of those of this width.
    pitch, move, pivots_move : int
        Elements from one row to the next, and from one matrix to the next of the elements and of the pivots.
    count : int
    start : int
        Number of the first matrix.
    """

    type: Type
    shape: tuple[int, int]
    first: int
    order: int
    epoch: int
    pitch: int
    move: int = 0
    pivots_move: int = 0
    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples
    start: int = 0


def launch(
    panel: Panel, height: int, a: Argument, pivots: Argument, exchanges: Argument, status: Argument, board: Board
) -> Launch:
    """Return the launch that factors panels in place.

    Parameters
    ----------
    panel : Panel
    height : int
        Rows of a block, see `block_height`.
    a, pivots : Argument
        The panel's first element, and where its pivots go: numbers of rows, of the matrix, u32.
    exchanges : Argument
        Three lists per panel, of `width` numbers of rows in the panel each: where the rows on top come from; other
        rows, or `NOWHERE`; where these come from.
    status : Argument
        u64: becomes the least number of a pivot that is zero, counted through all matrices.
    board : Board
        Its flags are zero before the first panel.
    """
    rows, columns = panel.shape
    num_blocks = -(-rows // height)
    spec = PanelSpec(panel.type, height, is_alone=num_blocks == 1)
    constants = (rows, columns, num_blocks, panel.first, panel.epoch + 1, panel.order, panel.start)
    flops = (4 if panel.type.is_complex else 1) * rows * columns**2 * panel.count
    work = Work(flops, 2 * rows * columns * panel.type.nbytes * panel.count)
    return Launch(
        make(spec),
        (num_blocks * panel.count, 1, 1),
        (a, pivots, exchanges, status, *board[:4], board.flags.at(panel.start * num_blocks * u32.nbytes)),
        (*constants, panel.pitch, panel.move, panel.pivots_move),
        work,
    )


__all__ = [
    "Board",
    "Panel",
    "PanelSpec",
    "block_height",
    "board",
    "launch",
    "make",
    "most_rows",
    "most_rows_alone",
]
