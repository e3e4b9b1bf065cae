"""Two panels of LU in one launch: how a cluster that has factored the first one goes on to the second.

Data layout: as of `lu_cluster`; shared memory has both panels. All blocks have the rows of the first panel's pivots; in
the second panel, what these have is replaced by its rows of U.

Who owns what: as of `lu_cluster`. In all blocks, a thread has a column of the second panel's rows of U.

Algorithm: the rows of the pivots go to all blocks, each of which solves for the second panel's rows of U, all of them,
and takes the product with these off its own rows.

Per pair: one way from block to block, and rows * width^2 multiply-adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.lu_pivots import PanelLine, PivotKernel
from oxinp._kernels.lapack.panel_kernel import NOWHERE, WARP
from oxinp._ptx.cluster_store import ClusterStores
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

SOLVED_ROWS = 8  # that a thread has of U at a time, beside its own row


class PanelPairKernel(PivotKernel):
    """The kernel of a panel, or of two, while it is built.

    Attributes
    ----------
    line : int
        Elements from one row to the next in shared memory.
    """

    line: int

    def take_pair(self) -> None:
        """Take what pairs need of shared memory."""
        k, columns, type_ = self.k, self.columns, self.type
        self.pivot_stores = ClusterStores(k)
        self.owners = k.dynamic_shared(u32, columns)  # of the first panel's pivots: this block's rows
        self.pivot_rows = k.dynamic_shared(type_, 2 * columns**2)

    def upper(self, row: Value | int) -> Pointer:
        """A row of U in the second panel, once it is solved for."""
        return self.pivot_rows.at(row * (2 * self.columns) + self.columns)

    def proceed(self, first: Value) -> None:
        """Bring the panel that begins at a column up to date with the one before."""
        k, columns, (line,) = self.k, self.columns, self.lines
        number, own = line.position.get(), line.multipliers.at(first)
        with k.when(k.tid < columns):
            self.owners[k.tid] = NOWHERE
        with k.when(k.tid == 0):
            self.pivot_stores.expect(0, 2 * columns**2 * self.type.nbytes)
        k.barrier()
        with k.when(number < columns):
            self.owners[number] = k.tid
        k.barrier()
        self.send_pivot_rows()
        self.pivot_stores.wait(0)
        with k.when(k.tid < columns):
            self.solve()
        k.barrier()
        with k.when(number < columns):
            for i in range(columns):
                own[i] = self.upper(number)[i]
        with k.otherwise():
            for i, value in enumerate(line.values):
                value.set(own[i])
            self.reduce(line)

    def reduce(self, line: PanelLine) -> None:
        """Take the product of a row of L with the second panel's rows of U off the row."""
        k, columns = self.k, self.columns
        with k.range(k.const(0, u32), columns) as row:
            factor, upper = -line.multipliers[row], self.upper(row)
            for place in range(0, columns, self.vector):
                for i, element in enumerate(upper.load(place, self.vector), place):
                    line.values[i].set(multiply_add(k, factor, element, line.values[i].get()))

    def send_pivot_rows(self) -> None:
        """Put the rows of this block's pivots into the memory of all."""
        k, columns, num_blocks = self.k, self.columns, self.spec.num_blocks
        lanes = 2 * columns // self.vector
        at_once, place = min(WARP // lanes, num_blocks), k.lane % lanes * self.vector
        with k.range(k.warp + 0, k.const(columns, u32), self.num_warps) as number:
            owner = self.owners[number]
            with k.when((owner != NOWHERE) & (k.lane < lanes * at_once)):
                row = self.tile.at(owner * self.line + place)
                elements = [row[i] for i in range(self.vector)]
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


__all__ = ["PanelPairKernel"]
