"""Tiles of a Cholesky factor in shared memory: one on the diagonal is factored, others are solved with it, by strips.

Data layout, who owns what, and the algorithm: see `cholesky_tiles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx.math import floats
from oxinp._ptx.mma import multiply_f64
from oxinp._ptx.types import f64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

SIDE, STRIP = 64, 16  # rows and columns of a tile; columns of a strip of it
PITCH = SIDE + 4  # without bank conflicts of MMA fragments
VECTOR = 2  # elements of 16 bytes
NUM_FACTORING = SIDE // STRIP - 1  # warps that factor a strip


class TilesSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    mma_rows : int
        Of an MMA instruction: 8 (sm_80), or 16 (sm_90).
    """

    mma_rows: int = 16

    @property
    def mma_depth(self) -> int:
        """Of an MMA instruction."""
        return self.mma_rows // 2


class TileStrips:
    """A kernel while it is built.

    Attributes
    ----------
    k : Builder
    spec : TilesSpec
    tile, corner : Pointer
        In shared memory: the tile, and the tile on the diagonal that it is solved with.
    reciprocals, columns : Pointer
        In shared memory: of the corner's diagonal; of a strip, for each warp that factors it.
    high, low : Value
        Of this lane in fragments.
    warp_row : Value
        Of this warp in the tile.
    first, num_columns : Value
        By which the status counts columns, and how many there are.
    status : Pointer
    """

    k: Builder
    spec: TilesSpec
    tile: Pointer
    corner: Pointer
    reciprocals: Pointer
    columns: Pointer
    high: Value
    low: Value
    warp_row: Value
    first: Value
    num_columns: Value
    status: Pointer

    def parts(self) -> list[tuple[int, int]]:
        """Numbers and first rows of what a warp's rows are by MMA instructions."""
        return [(part, part * self.spec.mma_rows) for part in range(STRIP // self.spec.mma_rows)]

    def zeros(self, count: int) -> list[list[list[Var]]]:
        """Sums of a warp's rows, and of `count` times 8 columns."""
        k = self.k
        zero = k.const(0, f64)
        return [[[k.var(zero) for _ in range(self.spec.mma_rows // 4)] for _ in range(count)] for _ in self.parts()]

    def fragment(self, start: Value, pitch: int) -> Value:
        """Where this lane's elements are in rows from `start` on."""
        return (start + self.high) * pitch + self.low

    def add(
        self, sums: list[list[list[Var]]], pair: tuple[Pointer, Pointer], pitches: tuple[int, int], step: int
    ) -> None:
        """Add the products of some columns of two matrices, of the first by the second's transpose."""
        k, spec = self.k, self.spec
        (left, right), (pitch, other) = pair, pitches
        along = range(0, spec.mma_depth, 4)
        halves = [(8 * i, j) for j in along for i in range(spec.mma_rows // 8)]
        y = [[right[8 * n * other + step + j] for j in along] for n in range(len(sums[0]))]
        for part, first in self.parts():
            x = [left[(first + extent) * pitch + step + j] for extent, j in halves]
            for values, totals in zip(y, sums[part], strict=True):
                for total, value in zip(totals, multiply_f64(k, x, values, totals), strict=True):
                    total.set(value)

    def reduce(self, strip: Value, corner: Pointer, first: Any) -> None:
        """Take off a strip of the tile what the strips to the left contribute, in rows from `first` on."""
        k = self.k
        sums = self.zeros(1)
        begin = strip * STRIP
        own_column = begin + k.warp % 2 * 8
        with k.when((self.warp_row >= first) & (strip != 0)):
            left = self.tile.at(self.fragment(self.warp_row, PITCH))
            right = corner.at(self.fragment(own_column, PITCH))
            with k.range(k.const(0, u32), begin, STRIP) as start:
                for step in range(0, STRIP, self.spec.mma_depth):
                    self.add(sums, (left.at(start), right.at(start)), (PITCH, PITCH), step)
            for part, i in self.parts():
                for half, pair in enumerate(pairs(sums[part][0])):
                    place = (self.warp_row + self.high + (i + 8 * half)) * PITCH + own_column + 2 * self.low
                    held = self.tile.load(place, VECTOR)
                    self.tile.store(place, [value - total for value, total in zip(held, pair, strict=True)])
        k.barrier()

    def solve(self) -> None:
        """Solve for the tile with the tile on the diagonal."""
        k = self.k
        with k.range(k.const(0, u32), SIDE // STRIP) as strip:
            self.reduce(strip, self.corner, k.const(0, u32))
            begin = strip * STRIP
            with k.when(k.tid < SIDE):
                own = self.tile.at(k.tid * PITCH + begin)
                corner = self.corner.at(begin * (PITCH + 1))
                values = [k.var(value) for value in self.line(own)]
                for c, value in enumerate(values):
                    value.set(value.get() * self.reciprocals[begin + c])
                    factor = -value.get()
                    for m in range(c + 1, STRIP):
                        values[m].set(k.fma(factor, corner[m * PITCH + c], values[m].get()))
                self.keep(own, [value.get() for value in values])
            k.barrier()

    def line(self, place: Pointer) -> list[Value]:
        """A row of a strip."""
        return [value for i in range(0, STRIP, VECTOR) for value in place.load(i, VECTOR)]

    def keep(self, place: Pointer, values: list[Value]) -> None:
        """Store a row of a strip."""
        for i in range(0, STRIP, VECTOR):
            place.store(i, values[i : i + VECTOR])

    def factor(self, row: Value) -> None:
        """Factor the tile, which is on the diagonal."""
        k = self.k
        with k.range(k.const(0, u32), SIDE // STRIP) as strip:
            begin = strip * STRIP
            self.reduce(strip, self.tile, begin)
            # The lower half of every warp's lanes has the rows on the diagonal, the upper half others.
            is_top = k.lane < STRIP
            line = begin + k.lane + k.where(is_top, k.const(0, u32), k.warp * STRIP)
            is_factoring = (k.warp == 0) | (k.warp + strip < NUM_FACTORING)
            own = self.tile.at(k.min(line, SIDE - 1) * PITCH + begin)
            values = [k.var(k.const(0, f64)) for _ in range(STRIP)]
            with k.when(is_factoring):
                for value, element in zip(values, self.line(own), strict=True):
                    value.set(element)
            k.barrier()  # all have read the rows on the diagonal
            with k.when(is_factoring):
                found, pivot = self.factor_strip(values)
                with k.when((line < SIDE) & (~is_top | (k.warp == 0))):  # the last strip has no rows below
                    self.keep(own, found)
                number = row * SIDE + line
                with k.when(is_top & (k.warp == 0) & (pivot <= 0) & (number < self.num_columns)):
                    self.status.atomic("min", 0, k.cast(self.first + number, u64))
                k.warp_sync()
            k.barrier()

    def factor_strip(self, values: list[Var]) -> tuple[list[Value], Value]:
        """Return the row of each lane of a strip of the factor, and the pivots, in the lanes of their rows."""
        k = self.k
        is_top, lane = k.lane < STRIP, k.lane
        pivot = k.var(k.const(1, f64))
        columns = self.columns.at(k.warp * ((STRIP + 1) * STRIP))  # what each column was, and the roots' reciprocals
        for c, value in enumerate(values):
            shared = columns.at(c * STRIP)
            with k.when(is_top):
                shared[lane] = value.get()
            k.warp_sync()
            here = shared[c]
            factor = -(value.get() * floats.divided(k, k.const(1, f64), here))
            pivot.set(k.where(lane == c, here, pivot))
            for m in range(c + 1, STRIP):
                values[m].set(k.fma(factor, shared[m], values[m].get()))
        root = k.sqrt(pivot)
        shared = columns.at(STRIP * STRIP)
        with k.when(is_top):
            shared[lane] = k.const(1, f64) / root
        k.warp_sync()
        found = []
        for c, value in enumerate(values):
            scaled = k.where(lane == c, root, value.get() * shared[c])
            found.append(k.where(is_top & (lane < c), k.const(0, f64), scaled))
        return found, pivot.get()


def pairs(sums: list[Var]) -> list[list[Var]]:
    """Sums of two neighbouring columns each."""
    return [sums[i : i + 2] for i in range(0, len(sums), 2)]


__all__ = ["NUM_FACTORING", "PITCH", "SIDE", "STRIP", "VECTOR", "TileStrips", "TilesSpec", "pairs"]
