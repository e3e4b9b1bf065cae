"""Inner products of vectors with the four of `arnoldi_pairs`, on tensor cores in f64: no lane adds up what others have.

Data layout: that of `arnoldi_pairs`: vectors are the rows of a matrix, partial sums those of blocks. Who owns what:
a warp owns every so many-th run of elements, of all vectors. Of a fragment of vectors lane l has vector l / 4 and
every fourth pair of elements; of one of the four, whose elements the same lanes have, this is the transposed
operand, too, and gives their own inner products.

Algorithm: products of 8 x 4 elements of vectors and 4 x 8 of the four, half of which are zeros, are added up in
registers over all runs of a warp; then those of warps, in order. Up to `ROWS` vectors at a time: for more the four are
read once more. Bytes: the vectors once, and the four.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sparse.types import BLOCK
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.memory import Pointer
from oxinp._ptx.mma import multiply_f64
from oxinp._ptx.types import f64, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

NUM_WARPS = BLOCK // WARP
COLUMNS = 4
"""What every vector is multiplied with: the last two, w1 and w2."""
MMA_ROWS, MMA_DEPTH = 8, 4
RUN = 32
"""Elements of a run, up to three fragments of vectors; of more half of that, which is what registers hold."""
ROWS = 32
REGISTERS = 128


class TensorDotsSpec(Frozen):
    """One kernel.

    Attributes
    ----------
    tiles : int
        Fragments of eight vectors, at most ``ROWS / 8``.
    width : int
        Elements of a load: 2 where vectors begin at multiples of 16 bytes, or 1.
    """

    tiles: int
    width: int


def spec_for(size: int, known: int) -> TensorDotsSpec:
    """Return the Spec for a number of vectors of some size."""
    return TensorDotsSpec(-(-min(known, ROWS) // MMA_ROWS), 1 if size % 2 else 2)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TensorDotsSpec) -> Kernel:
    """Build the kernel of a Spec; its parameters are those of `arnoldi_pairs.PairDotsSpec`."""
    return _Dots(spec).build()


class _Dots:
    """The kernel while it is built."""

    def __init__(self, spec: TensorDotsSpec) -> None:
        self.spec = spec
        self.k = k = Builder("arnoldi_pair_tensor_dots", block=BLOCK, target="sm_80", max_registers=REGISTERS)
        self.partial = k.pointer("partial", f64, "w")
        self.vectors, *self.ws = (k.pointer(name, f64, "r") for name in ("vectors", "w1", "w2"))
        self.size, self.known = k.scalar("size", i64), k.scalar("known", u32)
        self.row, self.part = k.lane >> 2, k.lane & 3
        self.run = RUN if spec.tiles < ROWS // MMA_ROWS else RUN // 2
        self.num_tiles = spec.tiles + 1  # the last one of the four themselves
        self.sums = k.shared(f64, NUM_WARPS * self.num_tiles * MMA_ROWS * COLUMNS)

    def build(self) -> Kernel:
        k, known = self.k, self.known
        column = self.column()
        with k.range(k.const(0, u32), known, ROWS) as first:
            rows = [k.min(first + self.row + t * MMA_ROWS, known - 1) for t in range(self.spec.tiles)]
            self.add_up([self.vectors.at(k.cast(row, i64) * self.size) for row in rows], column)
            k.barrier()
            self.leave(first)
            k.barrier()
        return k.build()

    def column(self) -> Pointer:
        """Return which of the four this lane has the elements of; those of lanes beyond 16 count as zeros."""
        k = self.k
        which = self.row & 3
        before = k.where(which == 0, k.max(self.known, 2) - 2, self.known - 1)
        vector = self.vectors.at(k.cast(before, i64) * self.size)
        one, other = (w.at(k.const(0, i64)) for w in self.ws)
        base = k.where(which < 2, vector.base, k.where(which == 2, one.base, other.base))
        return Pointer(k, base, f64, "global", "r")

    def add_up(self, rows: list[Pointer], column: Pointer) -> None:
        """Add up the products of the warp's runs, and leave them in shared memory."""
        k, width = self.k, self.spec.width
        nothing, has_column = k.const(0, f64), self.row < COLUMNS
        totals = [[k.var(nothing) for _ in range(2)] for _ in range(self.num_tiles)]
        start = (k.cast(k.ctaid, i64) * NUM_WARPS + k.cast(k.warp, i64)) * self.run
        step = MMA_DEPTH * width
        with k.range(start, self.size, k.cast(k.nctaid, i64) * (NUM_WARPS * self.run)) as begin:
            wanted = [begin + k.cast(self.part * width, i64) + i for i in range(0, self.run, step)]
            places = [k.min(place, self.size - width) for place in wanted]
            loaded = [[row.load(place, width) for place in places] for row in rows]
            mine = [column.load(place, width) for place in places]
            for i, (place, found) in enumerate(zip(wanted, mine, strict=True)):
                is_valid = has_column & (place < self.size)
                for j, element in enumerate(found):
                    b = k.where(is_valid, element, nothing)
                    for tile, a in zip(totals, [*(row[i][j] for row in loaded), b], strict=True):
                        for total, value in zip(tile, multiply_f64(k, [a], [b], tile), strict=True):
                            total.set(value)
        with k.when(self.part < COLUMNS // 2):
            for t, tile in enumerate(totals):
                line = (k.warp * self.num_tiles + t) * MMA_ROWS + self.row
                for i, total in enumerate(tile):
                    self.sums[line * COLUMNS + self.part * 2 + i] = total.get()

    def leave(self, first: Value) -> None:
        """Store the block's sums: of vectors, and after these of w1 with itself and w2, and of w2."""
        k, known = self.k, self.known
        count = k.min(known - first, ROWS)
        with k.range(k.tid + 0, (count + 1) * COLUMNS, BLOCK) as slot:
            row, column = slot / COLUMNS, slot % COLUMNS
            is_own = row == count
            # The four's own products are those of (2, 2), (2, 3), (3, 3), and (3, 3) once more.
            own_row, own_column = k.where(column < 2, k.const(2, u32), 3), k.where(column < 1, k.const(2, u32), 3)
            line = k.where(is_own, self.spec.tiles * MMA_ROWS + own_row, row)
            place = line * COLUMNS + k.where(is_own, own_column, column)
            total = self.sums[place]
            for warp in range(1, NUM_WARPS):
                total = total + self.sums[place + warp * (self.num_tiles * MMA_ROWS * COLUMNS)]
            target = k.where(is_own, known, first + row)
            self.partial[(target * COLUMNS + column) * k.nctaid + k.ctaid] = total


__all__ = ["ROWS", "TensorDotsSpec", "make", "spec_for"]
