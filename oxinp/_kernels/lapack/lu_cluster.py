"""LU with partial pivoting of a panel by one cluster of blocks (sm_90): its rows in registers.

Data layout: of a panel, see `lu_panel`, a thread has one row in registers. In shared memory a block has its rows, on
their way from and to memory; and what other blocks put there: of each a candidate for the pivot, and its row; the row
on the diagonal.

Who owns what: a block has consecutive rows, a thread one, rank by rank of the cluster.

Algorithm, per column: warps and blocks find their rows of the element of largest magnitude, the first of equal ones,
by comparing magnitudes as integers; every block puts its candidate, and that row, into the shared memory of all, the
first one its row on the diagonal, too, and each waits until it has those of all. The best of the candidates and the row
on the diagonal change places; the multipliers and what is left of the panel are computed.

Per panel: rows * width^2 flops, and per column one way from block to block. What blocks put into each other's memory,
and what warps tell each other, is there twice, for columns of even and of odd number: who tells of a column has all
that was told of the one before, so that nobody reads of the one before that any more.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack import cluster
from oxinp._kernels.lapack.lu_panel import NOWHERE, WARP, WIDTHS, PanelKernel
from oxinp._kernels.plan import Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.cluster import cluster_barrier
from oxinp._ptx.cluster_store import WORDS, ClusterStores
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.math import floats
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu_panel import Panel
    from oxinp._kernels.plan import Argument
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

SHAPES = ((128, 8), (256, 8), (512, 8), (512, 16))  # threads of a block, blocks of a cluster


class ClusterSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    num_threads : int
        Of a block, and its rows.
    num_blocks : int
        Of the cluster.
    """

    type: Type
    num_threads: int
    num_blocks: int

    @property
    def width(self) -> int:
        """Most columns of a panel."""
        return WIDTHS[self.type.nbytes]

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        lines = 4 + 2 * (self.num_blocks + 1)
        return (self.num_threads * (self.width + 1) + lines * self.width) * self.type.nbytes + 2048


def choose(type: Type, num_rows: int, device: Device) -> ClusterSpec | None:
    """Return the Spec of the smallest cluster that has a panel's rows; None where there is none."""
    return cluster.smallest((ClusterSpec(type, *shape) for shape in SHAPES), num_rows, device)


@cache
@retraceable
def make(spec: ClusterSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _ClusterPanel(spec).build()


class _ClusterPanel(PanelKernel):
    """The kernel while it is built."""

    def __init__(self, spec: ClusterSpec) -> None:
        k = Builder("lu_cluster_panel", block=spec.num_threads, cluster=spec.num_blocks, target="sm_90", min_blocks=1)
        super().__init__(k, spec.type, spec.num_threads)
        self.spec, self.num_warps = spec, spec.num_threads // WARP
        self.take()
        self.partials = k.dynamic_shared(u32, 2 * self.num_warps * WORDS)
        self.candidates = k.dynamic_shared(u32, 2 * spec.num_blocks * WORDS)
        self.outgoing = k.dynamic_shared(spec.type, 2 * self.width)  # of this block: its candidate, the diagonal's row
        self.rows = k.dynamic_shared(spec.type, 2 * spec.num_blocks * self.width)
        self.diagonals = k.dynamic_shared(spec.type, 2 * self.width)
        self.row = self.top + k.tid  # in the panel
        self.vector = max(1, 16 // spec.type.nbytes)
        self.stores = ClusterStores(k)
        line_nbytes = self.width * spec.type.nbytes
        self.nbytes = spec.num_blocks * (u32.nbytes * WORDS + line_nbytes) + line_nbytes  # that a block is told

    def build(self) -> Kernel:
        k = self.k
        follow(k)
        self.copy_in()
        own = self.tile.at(k.tid * self.line)
        values = [k.var(own[i]) for i in range(self.width)]
        cluster_barrier(k)  # from here on every block is there
        winner = k.var(0, u32)
        for column in range(self.width):
            with k.when(self.num_columns > column):
                self.tell(column, values)
                if column:  # while what others tell is on its way
                    self.note(k.const(column - 1, u32), winner.get())
                self.stores.wait(column)
                found, pivot_row = self.exchange(column, values)
                winner.set(found)
                self.note_pivot(k.const(column, u32), pivot_row[column])
                self.update(column, pivot_row, values)
        self.note(self.num_columns - 1, winner.get())
        for i, value in enumerate(values):
            own[i] = value.get()
        k.barrier()
        self.copy_out()
        self.report()
        return k.build()

    # -- the pivot

    def search(self, column: int, value: Value) -> list[Value]:
        """The candidate of this block; of rows in the panel."""
        k = self.k
        found = self.magnitude(value)
        is_below = (self.row >= column) & (self.row < self.num_rows)
        zero = k.const(0, u32)
        if found.type.bits == 64:
            bits = k.bitcast(found, u64)
            words = [k.cast(bits >> 32, u32), k.cast(bits, u32)]
        else:
            words = [k.bitcast(found, u32), zero]
        words = [k.where(is_below, word, zero) for word in words]
        best = self.best([*words, k.where(is_below, self.row, k.const(NOWHERE, u32))])
        partials = self.partials.at(column % 2 * self.num_warps * WORDS)
        with k.when(k.lane == 0):
            partials.store(k.warp * WORDS, [*best, zero])
        k.barrier()
        return self.best(self.some(partials, self.num_warps))

    def tell(self, column: int, values: list[Var]) -> None:
        """Put this block's candidate and its row, and the row on the diagonal, into the memory of all."""
        k, width, half, stores = self.k, self.width, column % 2, self.stores
        with k.when(k.tid == 0):
            stores.expect(column, self.nbytes)
        candidate = self.search(column, values[column].get())
        row = candidate[2]
        for is_mine, start in ((self.row == row, 0), (self.row == column, width)):
            with k.when(is_mine):
                for i in range(0, width, self.vector):
                    self.outgoing.store(start + i, [value.get() for value in values[i : i + self.vector]])
        k.warp_sync()
        first, blocks = self.row - k.lane, range(self.spec.num_blocks)
        is_nowhere = row == NOWHERE  # a block without rows below the diagonal says so
        has_row = (is_nowhere & (k.warp == 0)) | (~is_nowhere & (first <= row) & (row < first + WARP))
        with k.when(has_row & (k.lane < width)):
            found = k.var(k.const(0, self.type))
            with k.when(~is_nowhere):
                found.set(self.outgoing[k.lane])
            place = (self.rank + half * self.spec.num_blocks) * width + k.lane
            for rank in blocks:
                stores.store(column, self.rows, place, found.get(), rank)
        with k.when((first == 0) & (k.lane < width)):
            element = self.outgoing[k.lane + width]
            for rank in blocks:
                stores.store(column, self.diagonals, k.lane + half * width, element, rank)
        with k.when((k.warp == 0) & (k.lane < self.spec.num_blocks)):
            place = (self.rank + half * self.spec.num_blocks) * WORDS
            words = [*candidate, k.const(0, u32)]
            stores.store_words(column, self.candidates, place, words, k.lane % self.spec.num_blocks)

    def some(self, candidates: Pointer, count: int) -> list[Value]:
        """A candidate for each of as many lanes; nothing for the others."""
        k = self.k
        is_there = k.lane < count
        words = candidates.load(k.where(is_there, k.lane, k.const(0, u32)) * WORDS, WORDS)[:3]
        nothing = [k.const(0, u32), k.const(0, u32), k.const(NOWHERE, u32)]
        return [k.where(is_there, word, none) for word, none in zip(words, nothing, strict=True)]

    def best(self, candidate: list[Value]) -> list[Value]:
        """The best candidate of a warp: of the largest magnitude, and of equal ones the first row."""
        k = self.k
        high, low, row = candidate
        best_high = k.redux("max", high)
        is_best = high == best_high
        best_low = k.redux("max", k.where(is_best, low, k.const(0, u32)))
        is_best = is_best & (low == best_low)
        return [best_high, best_low, k.redux("min", k.where(is_best, row, k.const(NOWHERE, u32)))]

    # -- the rest of the panel

    def exchange(self, column: int, values: list[Var]) -> tuple[Value, Pointer]:
        """Exchange two rows; return which one the pivot was in, and that row."""
        k, half = self.k, column % 2
        candidates = self.candidates.at(half * self.spec.num_blocks * WORDS)
        winner = self.best(self.some(candidates, self.spec.num_blocks))[2]
        pivot_row = self.rows.at((winner / self.height + half * self.spec.num_blocks) * self.width)
        diagonal = self.diagonals.at(half * self.width)
        for is_mine, row in ((self.row == winner, diagonal), (self.row == column, pivot_row)):
            with k.when(is_mine):
                for i in range(0, self.width, self.vector):
                    taken = row.load(i, self.vector)
                    for value, element in zip(values[i : i + self.vector], taken, strict=True):
                        value.set(element)
        return winner, pivot_row

    def update(self, column: int, pivot_row: Pointer, values: list[Var]) -> None:
        """Compute the multiplier of this thread's row, and take its product with the pivot's row off the row."""
        k = self.k
        pivot = pivot_row[column]
        with k.when(self.row > column):
            factor = self.quotient(values[column].get(), pivot)
            values[column].set(factor)
            negative = -factor
            for start in range((column + 1) // self.vector * self.vector, self.width, self.vector):
                for i, element in enumerate(pivot_row.load(start, self.vector), start):
                    if i > column:
                        values[i].set(multiply_add(k, negative, element, values[i].get()))

    def quotient(self, element: Value, pivot: Value) -> Value:
        """The element over the pivot, which is no smaller; the element itself where that is zero."""
        k = self.k
        is_zero = pivot == k.const(0, self.type)
        divisor = k.where(is_zero, k.const(1, self.type), pivot)
        if self.type.is_complex:
            return k.where(is_zero, element, element / divisor)
        return k.where(is_zero, element, floats.divided(k, element, divisor))


def launch(spec: ClusterSpec, panel: Panel, places: tuple[Argument, Argument, Argument, Argument]) -> Launch:
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
    rows, columns = panel.shape
    constants = (rows, columns, spec.num_blocks, panel.first, 0, panel.order, panel.start)
    work = Work((4 if spec.type.is_complex else 1) * rows * columns**2, 2 * rows * columns * spec.type.nbytes)
    strides = (panel.pitch, panel.move, panel.pivots_move)
    return Launch(make(spec), (spec.num_blocks, 1, 1), places, (*constants, *strides), work)


__all__ = ["ClusterSpec", "choose", "launch", "make"]
