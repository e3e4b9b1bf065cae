"""Pivots of a panel of LU that a cluster holds: warps and blocks find candidates, and tell all blocks.

Data layout and who owns what: as of `lu_cluster`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.lapack.panel_kernel import WARP, PanelKernel
from oxinp._kernels.lapack.pivot_search import PivotSearch
from oxinp._ptx.cluster_store import WORDS
from oxinp._ptx.types import u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.cluster_store import ClusterStores
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value


class PanelLine:
    """A row of a thread: its elements from the column on that is eliminated, its multipliers, its position."""

    def __init__(self, k: Builder, tile: Pointer, number: Value, num_rows: Value, width: int) -> None:
        self.multipliers = tile
        self.values = [k.var(tile[i]) for i in range(width)]
        self.position = k.var(number)  # in the panel
        self.is_present = number < num_rows


class PivotKernel(PivotSearch, PanelKernel):
    """The kernel of a panel while it is built.

    Attributes
    ----------
    spec : ClusterSpec
    num_warps : int
        Of a block.
    lines : list of PanelLine
        Of a thread.
    stores : ClusterStores
        Of candidates, a round for each column.
    partials, candidates : Pointer
        In shared memory: candidates of warps, and of blocks; for even columns, then for odd ones.
    outgoing : Pointer
        In shared memory: the row of this block's candidate.
    inverses, reciprocals : Pointer
        In shared memory: of the elements of every thread's rows, and of what blocks tell; for even, then odd columns.
    rows : Pointer
        In shared memory: the rows that blocks tell; for even, then odd columns.
    words : list of Value
        The candidate of a warp, in the lane of its number.
    """

    spec: Any
    num_warps: int
    lines: list[PanelLine]
    stores: ClusterStores
    partials: Pointer
    candidates: Pointer
    outgoing: Pointer
    inverses: Pointer
    reciprocals: Pointer
    rows: Pointer
    words: list[Value]

    def search(self, column: Value) -> tuple[Value, Value, list[Value]]:
        """The lanes whose candidates are those of this warp and of this block, and for each row whether it is that."""
        k = self.k
        if not self.type.is_complex:  # while candidates are compared, of all; of complex numbers, this takes too long
            self.put_inverses(column)
        words, others = self.compare(column, self.lines)
        lane = self.best(words, WARP)
        is_best = k.lane == lane
        partials = self.partials.at(column % 2 * (self.num_warps * WORDS))
        with k.when(is_best):
            partials.store(k.warp * WORDS, [*words, k.const(0, u32)])
        own = []
        for is_next in reversed(others):
            own.append(is_best & is_next)
            is_best = is_best & ~is_next
        k.barrier()
        self.words = self.some(partials, self.num_warps)
        return lane, self.best(self.words, self.num_warps), [is_best, *reversed(own)]

    def put_inverses(self, column: Value) -> None:
        """Tell the block the reciprocals of this thread's elements."""
        inverses = self.inverses.at(column % 2 * self.spec.height)
        for i, line in enumerate(self.lines):
            inverses[self.k.tid + i * self.spec.num_threads] = self.inverse(line.values[0].get())

    def tell(self, column: Value, number: Value) -> None:
        """Put this block's candidate and its row into the memory of all."""
        k, stores, num_blocks = self.k, self.stores, self.spec.num_blocks
        # Elements of rows that are in use go to the other blocks by lanes, some each.
        num_lanes = (k.const(self.columns, u32) - number + (self.vector - 1)) / self.vector
        with k.when(k.tid == 0):
            line_nbytes = WORDS * u32.nbytes
            stores.expect(column, (num_lanes * line_nbytes + (line_nbytes + self.type.nbytes)) * num_blocks)
        lane, warp, are_best = self.search(column)
        half = column % 2 * num_blocks
        with k.when(k.warp == warp):
            place = k.var(column % 2 * self.spec.height + k.warp * WARP + lane)  # of the reciprocal
            for i, (is_best, line) in enumerate(zip(are_best, self.lines, strict=True)):
                with k.when(is_best):
                    for start in range(0, self.columns, self.vector):
                        self.outgoing.store(start, [value.get() for value in line.values[start : start + self.vector]])
                if i:
                    is_other = k.ballot(is_best) != 0
                    place.set(k.where(is_other, place + i * self.spec.num_threads, place))
            if self.type.is_complex:
                with k.when(k.lane == lane):
                    self.put_inverses(column)
            k.warp_sync()
            self.send(column, num_lanes)
            words = [k.shfl_idx(word, warp) for word in self.words]
            with k.when(k.lane < num_blocks):
                target, rank = half + self.rank, k.lane % num_blocks
                stores.store(column, self.reciprocals, target, self.inverses[place.get()], rank)
                stores.store_words(column, self.candidates, target * WORDS, [*words, k.const(0, u32)], rank)

    def send(self, column: Value, num_lanes: Value) -> None:
        """Put the row of this block's candidate into the memory of all: a few blocks at a time, by lanes of a warp."""
        k, num_blocks, lanes = self.k, self.spec.num_blocks, self.columns // self.vector
        at_once = min(WARP // lanes, num_blocks)
        place = k.lane % lanes * self.vector
        with k.when((k.lane < lanes * at_once) & (k.lane % lanes < num_lanes)):
            elements = self.outgoing.load(place, self.vector)
            words = [word for element in elements for part in element.parts for word in self.words_of(part)]
            target = (column % 2 * num_blocks + self.rank) * self.columns + place
            for first in range(0, num_blocks, at_once):
                self.stores.store_words(column, self.rows, target, words, k.lane / lanes % at_once + first)

    def words_of(self, part: Value) -> list[Value]:
        """The words of 32 bits of a real number, the lower one first."""
        k = self.k
        return [k.bitcast(part, u32)] if part.type.bits == 32 else list(k.unpack(k.bitcast(part, u64)))


__all__ = ["PanelLine", "PivotKernel"]
