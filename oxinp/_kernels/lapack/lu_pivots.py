"""Pivots of a panel of LU that a cluster holds: warps and blocks find candidates, and tell all blocks.

Data layout and who owns what: as of `lu_cluster`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from oxinp._kernels.lapack.panel_kernel import NOWHERE, WARP, PanelKernel
from oxinp._ptx.cluster_store import WORDS
from oxinp._ptx.types import Type, f32, u32, u64

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


class PivotKernel(PanelKernel):
    """The kernel of a panel while it is built.

    Attributes
    ----------
    spec : ClusterSpec
    columns, vector, num_warps : int
        Of a panel; elements of 16 bytes; of a block.
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
    columns: int
    vector: int
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

    def candidate(self, column: Value, line: PanelLine) -> list[Value]:
        """A row as a candidate: two words of the magnitude, and the position."""
        k = self.k
        position, zero = line.position.get(), k.const(0, u32)
        is_below = (position >= column) & line.is_present
        words = self.size(line.values[0].get())
        words = [k.where(is_below, word, zero) for word in words]
        return [*words, k.where(is_below, position, k.const(NOWHERE, u32))]

    def size(self, value: Value) -> list[Value]:
        """Two words of a magnitude, that of infinity for NaN; of numbers as large as theirs are."""
        k = self.k
        if self.type.is_complex:
            value = self.magnitude(value)
        infinity, zero = k.const(top_word(float("inf"), self.real), u32), k.const(0, u32)
        bits = k.bitcast(value, u64 if self.real.bits == 64 else u32)
        if self.real.bits == 32:
            return [k.min(bits & 0x7FFFFFFF, infinity), zero]
        high, low = k.cast(bits >> 32, u32) & 0x7FFFFFFF, k.cast(bits, u32)
        return [k.min(high, infinity), k.where(high >= infinity, zero, low)]

    def search(self, column: Value) -> tuple[Value, Value, list[Value]]:
        """The lanes whose candidates are those of this warp and of this block, and for each row whether it is that."""
        k = self.k
        if not self.type.is_complex:  # while candidates are compared, of all; of complex numbers, this takes too long
            self.put_inverses(column)
        words, others = self.candidate(column, self.lines[0]), []
        for line in self.lines[1:]:
            second = self.candidate(column, line)
            (high, low, row), (next_high, next_low, next_row) = words, second
            is_next = (next_low > low) | ((next_low == low) & (next_row < row))
            is_next = (next_high > high) | ((next_high == high) & is_next)
            words = [k.where(is_next, theirs, ours) for theirs, ours in zip(second, words, strict=True)]
            others.append(is_next)
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

    def inverse(self, pivot: Value) -> Value:
        """One over a pivot, anything where that is far from the ends of the range: see `quotient`."""
        k = self.k
        if self.type.is_complex:
            return k.const(1, self.type) / pivot
        found: Value = k.rcp_approx(pivot)
        for _ in range(1 if self.type is f32 else 2):
            found = k.fma(k.fma(-pivot, found, 1.0), found, found)
        return found

    def some(self, candidates: Pointer, count: int) -> list[Value]:
        """A candidate for each of as many lanes; nothing for the others."""
        k = self.k
        is_there = k.lane < count
        words = candidates.load(k.where(is_there, k.lane, k.const(0, u32)) * WORDS, WORDS)[:3]
        nothing = [k.const(0, u32), k.const(0, u32), k.const(NOWHERE, u32)]
        return [k.where(is_there, word, none) for word, none in zip(words, nothing, strict=True)]

    def best(self, candidate: list[Value], count: int) -> Value:
        """Which of the first lanes has the candidate of the largest magnitude, and of equal ones the first row."""
        k = self.k
        high, low, row = candidate
        lanes = k.var(k.ballot(high == k.redux("max", high)))
        with k.when((lanes & (lanes - 1)) != 0):
            is_best = ((lanes >> k.lane) & 1) != 0
            if self.real.bits == 64:
                is_best = is_best & (low == k.redux("max", k.where(is_best, low, k.const(0, u32))))
            first = k.redux("min", k.where(is_best, row, k.const(NOWHERE, u32)))
            lanes.set(k.ballot(is_best & (row == first)))
        last: Value = k.bfind(lanes.get())
        return last if count == WARP else k.min(last, count - 1)

    def words_of(self, part: Value) -> list[Value]:
        """The words of 32 bits of a real number, the lower one first."""
        k = self.k
        return [k.bitcast(part, u32)] if part.type.bits == 32 else list(k.unpack(k.bitcast(part, u64)))


def top_word(number: float, real: Type) -> int:
    """The upper 32 bits of a number."""
    return int.from_bytes(struct.pack(">f" if real is f32 else ">d", number)[:4])


__all__ = ["PanelLine", "PivotKernel", "top_word"]
