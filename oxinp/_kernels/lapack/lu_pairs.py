"""Two panels of LU in one launch: how a cluster that has factored the first one goes on to the second.

Data layout: as of `lu_cluster`. Shared memory has both panels, or one after the other: then the rows of the first one
are stored where they are once it is factored, and those that change places later on follow at the end. In shared memory
all blocks have the rows of the first panel's pivots, in both panels, and the second panel's rows of U.

Who owns what: as of `lu_cluster`. In all blocks, a thread has a column of the second panel's rows of U.

Algorithm: the rows of the pivots go to all blocks, each of which solves for the second panel's rows of U, all of them,
and takes the product with these off its own rows.

Per pair: one way from block to block, and rows * width^2 multiply-adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.panel_kernel import NOWHERE, WARP, PanelKernel
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import ClusterStores
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

STAGED_NBYTES = 64  # of a row that come to its thread at a time
SOLVED_ROWS = 8  # that a thread has of U at a time, beside its own row


def staged_columns(type: Type) -> int:
    """Return how many elements of a row come to its thread at a time."""
    return STAGED_NBYTES // type.nbytes


class PanelLine:
    """A row of a thread: its elements from the column on that is eliminated, its multipliers, its position."""

    def __init__(self, k: Builder, tile: Pointer, number: Value, num_rows: Value, width: int) -> None:
        self.multipliers = tile
        self.values = [k.var(tile[i]) for i in range(width)]
        self.position = k.var(number)  # in the panel
        self.is_present = number < num_rows


class PanelPairKernel(PanelKernel):
    """The kernel of a panel, or of two, while it is built.

    Attributes
    ----------
    spec : ClusterSpec
    columns, vector, num_warps, line : int
        Of a panel; elements of 16 bytes; of a block; elements from one row to the next in shared memory.
    lines : list of PanelLine
        Of a thread.
    own : Value
        The first row of this warp in the block.
    """

    spec: Any
    columns: int
    vector: int
    num_warps: int
    line: int
    lines: list[PanelLine]
    own: Value

    def rows_out(self, first: Value) -> None:
        """Store the rows in shared memory at their positions, from a column of the panel on."""
        raise NotImplementedError

    def take_pair(self) -> None:
        """Take what pairs need of shared memory."""
        k, columns, type_ = self.k, self.columns, self.type
        self.pivot_stores = ClusterStores(k)
        self.owners = k.dynamic_shared(u32, columns)  # of the first panel's pivots: this block's rows
        self.pivot_rows = k.dynamic_shared(type_, 2 * columns**2)
        self.own_rows = k.dynamic_shared(type_, columns**2)  # of these, what this block's have in the second panel
        if not self.spec.is_held:
            self.staged = k.dynamic_shared(type_, self.spec.num_threads * (staged_columns(type_) + 1))
            self.before = k.dynamic_shared(u32, self.spec.height)  # positions of rows after the first panel

    def place(self, column: Value, number: Value) -> Value:
        """Where a column is in a row in shared memory, by its number in both panels and in its own."""
        return column if self.spec.is_held else number

    def upper(self, row: Value | int) -> Pointer:
        """A row of U in the second panel, once it is solved for."""
        return self.pivot_rows.at(row * (2 * self.columns) + self.columns)

    def words_of(self, part: Value) -> list[Value]:
        """The words of 32 bits of a real number, the lower one first."""
        k = self.k
        return [k.bitcast(part, u32)] if part.type.bits == 32 else list(k.unpack(k.bitcast(part, u64)))

    def proceed(self, first: Value) -> None:
        """Bring the panel that begins at a column up to date with the one before."""
        k, columns, is_held = self.k, self.columns, self.spec.is_held
        start = k.const(0, u32)  # of the first panel
        numbers = [line.position.get() for line in self.lines]
        rows = [self.own + k.lane + i * WARP for i in range(len(self.lines))]
        with k.when(k.tid < columns):
            self.owners[k.tid] = NOWHERE
        with k.when(k.tid == 0):
            self.pivot_stores.expect(0, 2 * columns**2 * self.type.nbytes)
        for i, line in enumerate(self.lines):
            if is_held:
                for value, element in zip(line.values, range(columns), strict=True):
                    value.set(line.multipliers.at(first)[element])
            else:
                self.bring(line, self.own + i * WARP, first)
                self.before[rows[i]] = numbers[i]
        k.barrier()
        for line, number, row in zip(self.lines, numbers, rows, strict=True):
            with k.when(number < columns):
                self.owners[number] = row
                for i, value in enumerate(line.values):
                    self.own_rows[number * columns + i] = value.get()
        k.barrier()
        self.send_pivot_rows()
        if not is_held:  # what the blocks have read here others may write later on
            k.emit("cluster_arrive_relaxed", types=())
            self.rows_out(start)
        self.pivot_stores.wait(0)
        with k.when(k.tid < columns):
            self.solve()
        k.barrier()
        for line, number in zip(self.lines, numbers, strict=True):
            with k.when(number < columns):
                own = line.multipliers.at(self.place(first, start))
                for i in range(columns):
                    own[i] = self.upper(number)[i]
            with k.otherwise():
                self.reduce(line)
        if not is_held:
            k.emit("cluster_wait", types=())

    def reduce(self, line: PanelLine) -> None:
        """Take the product of a row of L with the second panel's rows of U off the row."""
        k, columns = self.k, self.columns
        with k.range(k.const(0, u32), columns) as row:
            factor, upper = -line.multipliers[row], self.upper(row)
            for place in range(0, columns, self.vector):
                for i, element in enumerate(upper.load(place, self.vector), place):
                    line.values[i].set(multiply_add(k, factor, element, line.values[i].get()))

    def bring(self, line: PanelLine, own: Value, first: Value) -> None:
        """Load a row of each lane, some columns of all rows of the warp at a time; none has changed places there."""
        k, step = self.k, min(staged_columns(self.type), self.columns)
        at_once, column = WARP // step, k.lane % step
        staged = self.staged.at(k.warp * (WARP * (staged_columns(self.type) + 1)))
        pitch = staged_columns(self.type) + 1
        rows = range(0, WARP, at_once)
        for start in range(0, self.columns, 2 * step):
            starts = range(start, min(start + 2 * step, self.columns), step)
            loaded = [[self.element(own + k.lane / step + row, first + column + x) for row in rows] for x in starts]
            for x, elements in zip(starts, loaded, strict=True):
                k.warp_sync()
                for row, element in zip(rows, elements, strict=True):
                    staged[(k.lane / step + row) * pitch + column] = element
                k.warp_sync()
                for i in range(step):
                    line.values[x + i].set(staged[k.lane * pitch + i])

    def element(self, row: Value, column: Value) -> Value:
        """Load an element of a row of this block, of the second panel; zero where there is none."""
        k, row = self.k, self.top + row
        is_there = (row < self.num_rows) & (column < self.num_columns)
        offset = k.cast(row, i64) * self.pitch + k.cast(column, i64)
        # Elsewhere the second panel's first element, which is there, and is not written yet.
        value = self.a[k.where(is_there, offset, k.const(self.columns, i64))]
        return k.where(is_there, value, k.const(0, self.type))

    def send_pivot_rows(self) -> None:
        """Put the rows of this block's pivots into the memory of all."""
        k, columns, num_blocks = self.k, self.columns, self.spec.num_blocks
        lanes = 2 * columns // self.vector
        at_once, place = min(WARP // lanes, num_blocks), k.lane % lanes * self.vector
        is_left = place < columns
        inside = k.where(is_left, place, place - columns)
        with k.range(k.warp + 0, k.const(columns, u32), self.num_warps) as number:
            owner = self.owners[number]
            with k.when((owner != NOWHERE) & (k.lane < lanes * at_once)):
                left, right = self.tile.at(owner * self.line + inside), self.own_rows.at(number * columns + inside)
                elements = [k.where(is_left, left[i], right[i]) for i in range(self.vector)]
                words = [word for element in elements for part in element.parts for word in self.words_of(part)]
                for first in range(0, num_blocks, at_once):
                    rank = k.lane / lanes % at_once + first
                    self.pivot_stores.store_words(0, self.pivot_rows, number * (2 * columns) + place, words, rank)

    def solve(self) -> None:
        """Solve with the first panel's triangle for this thread's column of the second one, by substitution."""
        k, columns = self.k, self.columns
        rows = [self.pivot_rows.at(i * 2 * columns) for i in range(columns)]
        for start in range(0, columns, SOLVED_ROWS):
            end = min(start + SOLVED_ROWS, columns)
            values = {row: k.var(self.upper(row)[k.tid]) for row in range(start, end)}
            for first in range(0, end, self.vector):
                before = {i: self.upper(i)[k.tid] for i in range(first, first + self.vector) if i < start}
                for row in range(max(start, first + 1), end):
                    for i, factor in enumerate(rows[row].load(first, self.vector), first):
                        if i < row:
                            other = before[i] if i < start else values[i].get()
                            values[row].set(multiply_add(k, -factor, other, values[row].get()))
            for row, value in values.items():
                self.upper(row)[k.tid] = value.get()

    def settle(self) -> None:
        """Store the rows of the panel that is in shared memory; of the first one, those that have changed places since.

        Nobody stores such a row before all have read theirs.
        """
        k, columns = self.k, self.columns
        has_both = self.num_columns > columns
        self.rows_out(k.where(has_both, k.const(columns, u32), k.const(0, u32)))
        with k.when(has_both):
            places = [self.before[self.own + k.lane + i * WARP] for i in range(len(self.lines))]
            are_moved = [
                (place != line.position) & line.is_present for place, line in zip(places, self.lines, strict=True)
            ]
            for is_moved, place, line in zip(are_moved, places, self.lines, strict=True):
                with k.when(is_moved):
                    source = self.a.at(k.cast(place, i64) * self.pitch)
                    for i, value in enumerate(line.values):
                        value.set(source[i])
            cluster_barrier(k)
            for is_moved, line in zip(are_moved, self.lines, strict=True):
                with k.when(is_moved):
                    target = self.a.at(k.cast(line.position.get(), i64) * self.pitch)
                    for i, value in enumerate(line.values):
                        target[i] = value.get()


__all__ = ["PanelLine", "PanelPairKernel", "staged_columns"]
