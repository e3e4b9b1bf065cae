"""LU with partial pivoting of a panel by one cluster of blocks (sm_90): its rows in registers.

Data layout: of a panel, see `lu_panel`, a thread has one or some rows in registers, from the column on that is
eliminated: with every column they move up by one, so that the code of all columns is the same and stays in the
instruction cache. In shared memory a block has its rows, on their way from and to memory, and their multipliers; and
what other blocks put there: of each a candidate for the pivot, its row, and the reciprocal of its element.

Who owns what: a block has consecutive rows, rank by rank of the cluster, a warp some of these, and a lane every 32nd of
the warp's. Rows do not move: each has the position to which exchanges would have brought it, where it is stored.

Algorithm, per column: warps and blocks find their rows of the element of largest magnitude, the first of equal ones,
by comparing magnitudes as integers; every block puts its candidate and that row into the shared memory of all, and each
waits until it has those of all. The row of the best candidate and the one on the diagonal change positions; the
multipliers and what is left of the panel are computed.

A launch may factor two panels, one behind the other, see `lu_pairs`.

Per panel: rows * width^2 flops, and per column one way from block to block. What blocks put into each other's memory,
and what warps tell each other, is there twice, for columns of even and of odd number: who tells of a column has all
that was told of the one before, so that nobody reads of the one before that any more.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack import cluster
from oxinp._kernels.lapack.lu_pairs import PanelPairKernel
from oxinp._kernels.lapack.lu_pivots import PanelLine
from oxinp._kernels.lapack.panel_kernel import WARP, WIDTHS
from oxinp._kernels.lapack.pivot_search import top_word
from oxinp._kernels.plan import Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import WORDS, ClusterStores
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, c128, f32, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu_panel import Panel
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.value import Value

# Threads of a block, blocks of a cluster, rows of a thread.
SHAPES = ((128, 8), (128, 16), (256, 8), (256, 16), (512, 8), (512, 16), (512, 16, 2))
MOST_PANELS = 2  # of a launch
FEW_THREADS = 256  # of a block up to which shared memory has room for two
UNROLL = 8  # rows of a warp that are on their way at a time


class ClusterSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    num_threads : int
        Of a block.
    num_blocks : int
        Of the cluster.
    num_lines : int
        Rows of a thread.
    num_panels : int
        That follow each other, 1 or 2; of threads with one row.
    """

    type: Type
    num_threads: int
    num_blocks: int
    num_lines: int = 1
    num_panels: int = 1

    @property
    def width(self) -> int:
        """Most columns of a panel: the registers of a thread are as many, however many rows it has."""
        return WIDTHS[self.type.nbytes] // self.num_lines

    @property
    def height(self) -> int:
        """Rows of a block."""
        return self.num_threads * self.num_lines

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        lines = 2 + 2 * self.num_blocks
        elements = self.height * (self.num_panels * self.width + 3) + lines * (self.width + 1)
        if self.num_panels > 1:
            elements += 2 * self.width**2
        return elements * self.type.nbytes + 2048


def choose(type: Type, num_rows: int, device: Device, num_panels: int = 1) -> ClusterSpec | None:
    """Return the Spec of the smallest cluster that has a panel's rows; None where there is none.

    It is one of `num_panels` panels where a cluster has as many.
    """
    specs = (spec for shape in SHAPES for spec in _with_panels(ClusterSpec(type, *shape), num_panels))
    return cluster.smallest((spec for spec in specs if _has_registers(spec)), num_rows, device)


def _with_panels(spec: ClusterSpec, num_panels: int) -> tuple[ClusterSpec, ...]:
    """Return the Spec with so many panels, if it may have them, then with one."""
    has_room = num_panels > 1 and spec.num_threads <= FEW_THREADS and spec.num_lines == 1
    return (spec._replace(num_panels=num_panels), spec) if has_room else (spec,)


def _has_registers(spec: ClusterSpec) -> bool:
    """Whether a thread has the registers: divisions of c128 take too many beside two rows."""
    return spec.num_lines == 1 or spec.type is not c128


@cache
@retraceable
def make(spec: ClusterSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _ClusterPanel(spec).build()


class _ClusterPanel(PanelPairKernel):
    """The kernel while it is built."""

    def __init__(self, spec: ClusterSpec) -> None:
        k = Builder("lu_cluster_panel", block=spec.num_threads, cluster=spec.num_blocks, target="sm_90", min_blocks=1)
        super().__init__(k, spec.type, spec.height)
        self.spec, self.num_warps, self.columns = spec, spec.num_threads // WARP, spec.width
        self.line = spec.num_panels * self.columns + 1
        self.take()
        self.partials = k.dynamic_shared(u32, 2 * self.num_warps * WORDS)
        self.candidates = k.dynamic_shared(u32, 2 * spec.num_blocks * WORDS)
        self.outgoing = k.dynamic_shared(spec.type, self.columns)  # the row of this block's candidate
        self.inverses = k.dynamic_shared(spec.type, 2 * spec.height)  # of every thread's first row, then of the second
        self.rows = k.dynamic_shared(spec.type, 2 * spec.num_blocks * self.columns)
        self.reciprocals = k.dynamic_shared(spec.type, 2 * spec.num_blocks)
        self.vector = max(1, 16 // spec.type.nbytes)
        self.stores = ClusterStores(k)
        if spec.num_panels > 1:
            self.take_pair()

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        # Behind what blocks tell of their rows, what was told before is read, and used for nothing.
        with k.range(k.tid, 2 * spec.num_blocks * self.columns, spec.num_threads) as place:
            self.rows[place] = k.const(0, self.type)
        follow(k)
        self.own = k.warp * (WARP * spec.num_lines)  # the first row of this warp in the block
        self.rows_in()
        numbers = [self.own + k.lane + i * WARP for i in range(spec.num_lines)]
        tiles = [self.tile.at(number * self.line) for number in numbers]
        self.lines = [
            PanelLine(k, tile, self.top + number, self.num_rows, self.columns)
            for tile, number in zip(tiles, numbers, strict=True)
        ]
        # From here on every block is there. What it has read it has: nothing is written yet that would be flushed.
        cluster_barrier(k, is_ordering=False)
        if spec.num_panels == 1:
            self.factor(k.const(0, u32))
        else:
            with k.range(k.const(0, u32), self.num_columns, self.columns) as first:
                with k.when(first > 0):
                    self.proceed(first)
                self.factor(first)
        self.rows_out()
        return k.build()

    def factor(self, first: Value) -> None:
        """Factor the panel that begins at a column."""
        k, winner = self.k, self.k.var(0, u32)
        end = k.min(first + self.columns, self.num_columns)
        self.begin_lists()
        with k.range(first, end) as column:
            self.tell(column, column - first)
            with k.when(column > first):  # while what others tell is on its way
                self.note(column - first - 1, winner.get())
            self.stores.wait(column)
            winner.set(self.eliminate(column, column - first) - first)
        self.note(end - first - 1, winner.get())
        for line in self.lines:
            self.keep_upper(line, first)
        self.report(first, first / self.columns * (3 * self.width))

    # -- memory

    def rows_in(self) -> None:
        """Let the rows of each warp come in, zeros where there are none."""
        k, copies, nbytes = self.k, AsyncCopies(self.k), self.type.nbytes
        at_once = WARP // self.columns
        first, lane = self.own + k.lane / self.columns, k.lane % self.columns
        with k.range(k.const(0, u32), WARP * self.spec.num_lines, at_once * UNROLL) as start:
            for i, column in product(range(0, at_once * UNROLL, at_once), self.each_panel(lane)):
                row = first + start + i
                is_there = (self.top + row < self.num_rows) & (column < self.num_columns)
                place = k.cast(k.where(is_there, self.top + row, k.const(0, u32)), i64) * self.pitch
                source = self.a.at(place + k.cast(k.where(is_there, column, k.const(0, u32)), i64))
                valid = k.where(is_there, k.const(nbytes, u32), 0)
                copies.start(self.tile.at(row * self.line + column), source, nbytes, valid)
        copies.commit()
        copies.wait()
        k.warp_sync()

    def each_panel(self, column: Value) -> list[Value]:
        """A column of each panel."""
        return [column + i * self.columns if i else column for i in range(self.spec.num_panels)]

    def rows_out(self) -> None:
        """Store the rows at their positions."""
        self.k.warp_sync()
        for i, line in enumerate(self.lines):
            self.line_out(self.own + i * WARP, line)

    def line_out(self, own: Value, line: PanelLine) -> None:
        """Store a row of each lane."""
        k = self.k
        at_once = WARP // self.columns
        first, lane = k.lane / self.columns, k.lane % self.columns
        with k.range(k.const(0, u32), WARP, at_once * UNROLL) as start:
            for i in range(0, at_once * UNROLL, at_once):
                row = first + start + i
                position = k.shfl_idx(line.position.get(), row)
                for column in self.each_panel(lane):
                    with k.when((position < self.num_rows) & (column < self.num_columns)):
                        place = k.cast(position, i64) * self.pitch + k.cast(column, i64)
                        self.a[place] = self.tile[(own + row) * self.line + column]

    def keep_upper(self, line: PanelLine, first: Value) -> None:
        """Put what a pivot's row has of U behind its multipliers."""
        k, position = self.k, line.position.get()
        number = position - first
        with k.when((number < self.columns) & (position < self.num_columns)):
            upper = line.multipliers.at(position)
            for i, value in enumerate(line.values):
                with k.when(number + i < self.columns):
                    upper[i] = value.get()

    # -- the rest of the panel

    def eliminate(self, column: Value, number: Value) -> Value:
        """Exchange two positions, and eliminate a column of a panel; return from which position the pivot comes."""
        k, num_blocks = self.k, self.spec.num_blocks
        half = column % 2 * num_blocks
        candidates = self.candidates.at(half * WORDS)
        rank = self.best(self.some(candidates, num_blocks), num_blocks)
        winner, reciprocal = candidates[rank * WORDS + 2], self.reciprocals[half + rank]
        pivot_row = self.rows.at((half + rank) * self.columns)
        self.note_pivot(column, pivot_row[0])
        for line in self.lines:
            position = line.position.get()
            is_pivot, is_diagonal = position == winner, position == column
            line.position.set(k.where(is_pivot, column, k.where(is_diagonal, winner, position)))
            with k.when(line.position > column):
                factor = self.quotient(line.values[0].get(), pivot_row[0], reciprocal)
                line.multipliers[column] = factor
                self.update(k.const(self.columns, u32) - number, pivot_row, -factor, line, 0)
        return winner

    def quotient(self, element: Value, pivot: Value, reciprocal: Value) -> Value:
        """The element over the pivot, which is no smaller; the element itself where that is zero.

        By the reciprocal, as LAPACK's, unless that or the pivot is near an end of the range.
        """
        k = self.k
        far = 2.0 ** (100 if self.real is f32 else 1000)
        low, high = (top_word(x, self.real) for x in (1 / far, far))
        found = k.var(element * reciprocal)
        with k.when(self.size(reciprocal)[0] - low >= high - low):
            is_zero = pivot == k.const(0, self.type)
            found.set(k.where(is_zero, element, element / k.where(is_zero, k.const(1, self.type), pivot)))
        return found.get()


def launch(
    spec: ClusterSpec,
    panel: Panel,
    places: tuple[Argument, Argument, Argument, Argument],
) -> Launch:
    """Return the launch that factors a panel in place.

    Parameters
    ----------
    spec : ClusterSpec
        What `choose` gives.
    panel : Panel
        Of one matrix.
    places : tuple of Argument
        The panel's first element, its pivots, exchanges and the status, see `lu_panel.launch`.
    """
    num_rows, width = panel.shape
    constants = (num_rows, width, spec.num_blocks, panel.first, 0, panel.order, panel.start)
    work = Work((4 if spec.type.is_complex else 1) * num_rows * width**2, 2 * num_rows * width * spec.type.nbytes)
    strides = (panel.pitch, panel.move, panel.pivots_move)
    return Launch(make(spec), (spec.num_blocks, 1, 1), places, (*constants, *strides), work)


__all__ = ["ClusterSpec", "choose", "launch", "make"]
