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
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.plan import Argument, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, compound, i64, u32, u64
from oxinp._ptx.value import Value
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Scratch
    from oxinp._ptx.memory import Pointer

BLOCK, WARP = 256, 32
NUM_WARPS = BLOCK // WARP
WIDTHS = {4: 32, 8: 32, 16: 16}  # columns of a panel, by the bytes of an element
HEIGHTS = (64, 128, 256, 512)  # rows of a block, of which it may have more where that many blocks are too few
MAX_BLOCKS = 32  # of a panel: a warp waits for them, a lane each
NOWHERE = 0xFFFFFFFF
UNROLL = 4


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


class PanelKernel:
    """What kernels of panels have in common, while one is built: its rows in shared memory, exchanges, the status.

    Parameters
    ----------
    k : Builder
    type : Type
    height : int
        Rows of a block.
    """

    def __init__(self, k: Builder, type: Type, height: int) -> None:
        self.k, self.type, self.height = k, type, height
        self.width, self.real = WIDTHS[type.nbytes], type.parts[0]
        self.a, self.pivots = k.pointer("a", type), k.pointer("pivots", u32, "w")
        self.exchanges, self.status = k.pointer("exchanges", u32, "w"), k.pointer("status", u64)
        self.line = self.width + 1

    def take(self) -> None:
        """Take the scalar parameters, and shared memory for the rows."""
        k = self.k
        names = ("num_rows", "num_columns", "num_blocks", "first", "epoch", "order", "start")
        self.num_rows, self.num_columns, self.num_blocks, self.first, self.epoch, self.order, self.start = (
            k.scalar(name, u32) for name in names
        )
        self.pitch, self.move, self.pivots_move = (k.scalar(name, i64) for name in ("pitch", "move", "pivots_move"))
        self.tile = k.dynamic_shared(self.type, self.height * self.line)
        self.matrix = k.ctaid / self.num_blocks
        self.rank = k.ctaid - self.matrix * self.num_blocks
        wide = k.cast(self.matrix, i64)
        self.a = self.a.at(wide * self.move)
        self.pivots = self.pivots.at(wide * self.pivots_move)
        self.exchanges = self.exchanges.at(self.matrix * (3 * self.width))
        self.top = self.rank * self.height  # this block's first row in the panel
        self.begin_lists()
        self.first_zero = k.var(NOWHERE, u32)
        self.is_noting = (self.rank == 0) & (k.warp == k.block[0] // WARP - 1)

    # -- memory

    def copy_in(self) -> None:
        """Let the block's rows come in, zeros where there are none."""
        k, copies, nbytes, block = self.k, AsyncCopies(self.k), self.type.nbytes, self.k.block[0]
        total = self.height * self.width
        with k.range(k.tid, total, block * UNROLL) as start:
            for i in range(UNROLL):
                number = start + i * block if i else start
                row, column = number / self.width, number % self.width
                is_present = (self.top + row < self.num_rows) & (column < self.num_columns)
                place = k.cast(self.top + row, i64) * self.pitch + k.cast(column, i64)
                source = self.a.at(k.where(is_present, place, k.const(0, i64)))
                valid = k.where(is_present, k.const(nbytes, u32), 0)
                copies.start(self.tile.at(row * self.line + column), source, nbytes, valid)
        copies.commit()
        copies.wait()
        k.barrier()

    def copy_out(self) -> None:
        """Store the block's rows."""
        k = self.k
        with k.range(k.tid, self.height * self.width, k.block[0]) as number:
            row, column = number / self.width, number % self.width
            with k.when((self.top + row < self.num_rows) & (column < self.num_columns)):
                place = k.cast(self.top + row, i64) * self.pitch + k.cast(column, i64)
                self.a[place] = self.tile[row * self.line + column]

    def magnitude(self, value: Value) -> Value:
        """The sum of the magnitudes of a value's parts; infinity for NaN."""
        k = self.k
        total = k.abs(value.parts[0])
        for part in value.parts[1:]:
            total = total + k.abs(part)
        return k.where(k.isnan(total), k.const(float("inf"), self.real), total)

    # -- exchanges

    def begin_lists(self) -> None:
        """Begin a panel's lists: every row on top is where it was."""
        k = self.k
        self.lists = k.var(k.lane + k.const(0, u32)), k.var(NOWHERE, u32), k.var(NOWHERE, u32)
        self.winners = k.var(0, u32)  # of the column of the lane's number

    def note_pivot(self, column: Any, pivot: Value) -> None:
        """Keep the first column whose pivot is zero."""
        k = self.k
        is_zero = pivot == k.const(0, self.type)
        self.first_zero.set(k.where(is_zero, k.min(self.first_zero, column), self.first_zero))

    def note(self, column: Any, winner: Value) -> None:
        """Keep the exchange of two rows: the first block's last warp, a lane for each row on top and each below."""
        k = self.k
        top, positions, sources = self.lists
        with k.when(self.is_noting):
            lane = k.lane
            same = k.ballot(positions.get() == winner)
            is_on_top, is_known = winner < self.width, same != 0
            place = k.where(is_known, k.bfind(same & (k.const(0, u32) - same)), column)
            from_top = k.shfl_idx(top.get(), winner % WARP)
            from_below = k.where(is_known, k.shfl_idx(sources.get(), place), winner)
            upper = k.shfl_idx(top.get(), column)
            with k.when(is_on_top & (lane == winner)):
                top.set(upper)
            with k.when(~is_on_top & (lane == place)):
                positions.set(winner)
                sources.set(upper)
            with k.when(lane == column):
                top.set(k.where(is_on_top, from_top, from_below))
            self.winners.set(k.where(lane == column, winner, self.winners))

    def report(self, start: Value | int = 0, lists: Value | int = 0) -> None:
        """Write exchanges and pivots; take the minimum of the status and the number of the first pivot that is zero.

        Of the panel that begins at a column, of several that are factored together; and where its lists begin.
        """
        k, column = self.k, self.k.lane + start
        with k.when(self.is_noting & (k.lane < self.width)):
            for i, values in enumerate(self.lists):
                self.exchanges[k.lane + lists + i * self.width] = values.get()
            with k.when(column < self.num_columns):
                self.pivots[column] = self.first + start + self.winners
            with k.when((k.lane == 0) & (self.first_zero != NOWHERE)):
                wide = [k.cast(x, u64) for x in (self.start + self.matrix, self.order, self.first + self.first_zero)]
                self.status.atomic("min", 0, wide[0] * wide[1] + wide[2])


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
                found = self.magnitude(self.tile[row * self.line + column])
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
    "NOWHERE",
    "WIDTHS",
    "Board",
    "Panel",
    "PanelKernel",
    "PanelSpec",
    "block_height",
    "board",
    "launch",
    "make",
    "most_rows",
    "most_rows_alone",
]
