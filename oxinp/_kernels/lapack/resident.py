"""Panels whose rows lie with resident blocks that wait for each other twice a column: what such kernels share.

Data layout: A row by row in memory. Who owns what: a block has consecutive rows; in products with A a warp has one to
four rows at a time, the vector lies in shared memory, whole.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
NUM_WARPS = BLOCK // WARP
WIDTH = 32  # of a panel
FLAT = 64  # rows of a block up to which some lanes share each
SHARE = 8
SUMS_AT_ONCE = (17, 9)  # blocks of a warp, whose sums it loads together: all of 132; fewer of wide elements
BLOCKS_AT_ONCE = 5  # of a lane, whose squares it loads together
VECTOR_NBYTES = 16
LOADS = 16  # of A that a lane starts before it uses the first
TILES = ((1, 0, 8), (2, 8, 16), (4, 16, 1 << 30))  # rows of a warp at a time, by the rows of a block: above, up to


class ResidentSpec(NamedTuple):
    """One kernel that multiplies A by vectors: the base of the Specs of families.

    Attributes
    ----------
    type : Type
    rows : int
        Most rows of the matrix, a power of two.
    height : int
        Most rows of a block.
    is_wide : bool
        Rows of A are multiples of 16 bytes, in which they are loaded.
    """

    type: Type
    rows: int
    height: int
    is_wide: bool = False

    @property
    def share(self) -> int:
        """Lanes that have a row of the panel's columns together; see `share_of`."""
        return share_of(self.height)

    @property
    def vector(self) -> int:
        """Elements of A in a load."""
        return VECTOR_NBYTES // self.type.nbytes if self.is_wide else 1

    @property
    def padded(self) -> int:
        """Elements of v in shared memory: zeros follow, as many as a warp may load beyond."""
        return self.rows + WARP * LOADS * self.vector


def share_of(height: int) -> int:
    """Return how many lanes have a row together: one where there are more rows than warps could have."""
    return SHARE if height <= FLAT else 1


class ResidentPanel:
    """A kernel while it is built.

    Attributes
    ----------
    k : Builder
    spec : object
        With `height`, the most rows of a block, and `vector`, the elements of A in a load.
    type, real : Type
        Of elements, and of their parts.
    zero, one, none : Value
        Of the type, and zero of its parts.
    a, x, partials : Pointer
        A; the vector, from row `first` on, zero beyond the last; what warps leave for each other.
    flags : Pointer
        A word per block.
    rank, num_blocks, height : Value
        Of the block, and of all; rows of a block.
    order, first, top, end : Value
        Rows of A; the panel's first; the block's first, and the one after its last.
    pitch : Value
        Elements from one row of A to the next.
    stride : int
        Elements of what a warp leaves in `partials`.
    line : int
        Elements from one row of a panel's columns in shared memory to the next.
    vs, own_column, inner_sums : Pointer
        Of the block's rows V and a column; sums over all blocks. Where blocks add up V^H of a column.
    """

    k: Builder
    spec: Any
    type: Type
    real: Type
    zero: Value
    one: Value
    none: Value
    a: Pointer
    x: Pointer
    partials: Pointer
    flags: Pointer
    rank: Value
    num_blocks: Value
    height: Value
    order: Value
    first: Value
    top: Value
    end: Value
    pitch: Value
    stride: int
    line: int
    vs: Pointer
    own_column: Pointer
    inner_sums: Pointer

    def begin_at(self, rank: Value) -> None:
        """Find this block's rows, by its number among those of a matrix, and make the constants."""
        k, type_ = self.k, self.type
        self.rank = rank
        self.top = self.first + rank * self.height
        self.end = k.min(self.top + self.height, self.order)
        self.zero, self.one, self.none = k.const(0, type_), k.const(1, type_), k.const(0, self.real)

    def keep_column(self, values: list[Value]) -> None:
        """Put this block's rows of a column, loaded before, into shared memory."""
        k = self.k
        for i, value in enumerate(values):
            local = k.tid + i * BLOCK
            with k.when(local < self.spec.height):
                self.own_column[local] = self.kept(value)

    def kept(self, value: Value) -> Value:
        """What is kept of an element of a column."""
        return value

    def conjugate(self, value: Value) -> Value:
        """The conjugate of complex values."""
        if not self.type.is_complex:
            return value
        real, imag = value.parts
        return self.k.compound(self.type, real, -imag)

    def whole(self, value: Value) -> Value:
        """A real number as an element."""
        return self.k.compound(self.type, value, self.none) if self.type.is_complex else value

    def inner(self, x: Value, y: Value, total: Value) -> Value:
        """Add the real part of conj(x) y."""
        for own, other in zip(x.parts, y.parts, strict=True):
            total = self.k.fma(own, other, total)
        return total

    def wait(self, epoch: Value) -> None:
        """Tell that this block is so far, and wait for the others."""
        k = self.k
        k.barrier()
        with k.when(self.num_blocks > 1):
            with k.when(k.tid == 0):
                self.flags.store(k.cast(self.rank, i64), [epoch], order="release.gpu")
            with k.range(k.tid + 0, self.num_blocks, BLOCK) as other, k.loop():
                k.break_if(self.flags.load(k.cast(other, i64), order="acquire.gpu")[0] >= epoch)
        k.barrier()

    @contextmanager
    def rows(self) -> Iterator[tuple[Value, Value]]:
        """Rows of this block, by the lanes that share one; and whether there is one."""
        k, share = self.k, self.spec.share
        with k.range(self.top + 0, self.end, BLOCK // share) as base:
            row = base + k.tid / share
            yield k.min(row, self.end - 1), row < self.end

    def lost(
        self,
        row: tuple[Pointer, ...],
        factors: tuple[Pointer, ...],
        inner: Value,
        is_row: Value,
        *,
        is_conjugated: bool = False,
    ) -> Value:
        """What a row loses to the columns of the panel before: its part of some arrays, each times a vector."""
        k, share = self.k, self.spec.share
        total = k.var(self.zero)

        def add(before: Value) -> None:
            for x, factor in zip(row, factors, strict=True):
                other = self.conjugate(factor[before]) if is_conjugated else factor[before]
                total.set(multiply_add(k, x[before], other, total.get()))

        if share == 1:
            with k.range(k.const(0, u32), inner) as before:
                add(before)
            return total.get()
        for start in range(0, WIDTH, share):
            before = k.tid % share + start
            with k.when(is_row & (before < inner)):
                add(before)
        k.warp_sync()
        return warp_reduce(k, total.get(), lambda a, b: a + b, share)

    def total_over_blocks(self, told: Pointer) -> Value:
        """Return the sum of the real numbers that every block told; a warp adds it up."""
        k = self.k
        total = k.var(self.none)
        with k.range(k.const(0, u32), self.num_blocks, WARP * BLOCKS_AT_ONCE) as start:
            others = [start + k.lane + i * WARP for i in range(BLOCKS_AT_ONCE)]
            found = [told[k.cast(k.min(other, self.num_blocks - 1), i64)] for other in others]
            for other, value in zip(others, found, strict=True):
                total.set(total.get() + k.where(other < self.num_blocks, value, self.none))
        return warp_reduce(k, total.get(), lambda a, b: a + b)

    def reflector(self, alpha: Value, square: Value, has_row: Value) -> tuple[Value, Value, Value]:
        """Return tau, what the column is multiplied by to be v, and what is left of it, as LAPACK's xLARFG."""
        k, none, one = self.k, self.none, self.k.const(1, self.real)
        real, *imag = alpha.parts
        norm = k.sqrt(self.inner(alpha, alpha, square))
        is_zero = square == 0
        for part in imag:
            is_zero = is_zero & (part == 0)
        is_done = is_zero | ~has_row
        beta = k.where(is_done, real, -k.copysign(real, norm))
        safe = k.where(is_done, one, beta)
        difference = alpha - self.whole(beta)
        scale = k.where(is_done, self.zero, self.one / k.where(is_done, self.one, difference))
        parts = [k.where(is_done, none, part / safe) for part in (beta - real, *(-part for part in imag))]
        return k.compound(self.type, *parts) if imag else parts[0], scale, beta

    def multiply_by(self, j: Value, keep: Callable[[Value, Value], None]) -> None:
        """Multiply this block's rows of A with v, which is zero up to row j; every lane of a warp keeps an element."""
        k = self.k
        for rows, low, high in TILES:
            if low < self.spec.height:
                with k.when((self.height > low) & (self.height <= high)):
                    self._multiply_rows(j, rows, keep)

    def _multiply_rows(self, j: Value, num_rows: int, keep: Callable[[Value, Value], None]) -> None:
        """Do so with so many rows of a warp at a time, and `LOADS` loads."""
        k, vector = self.k, self.spec.vector
        begin, length = k.cast(self.first, i64), self.order - self.first
        unroll = LOADS // num_rows
        with k.range(self.top + k.warp * num_rows, self.end, NUM_WARPS * num_rows) as row:
            rows = [k.min(row + i, self.end - 1) for i in range(num_rows)]
            lines: list[Pointer] = [self.a.at(k.cast(x, i64) * self.pitch + begin) for x in rows]
            sums = [[k.var(self.zero) for _ in range(vector)] for _ in rows]
            # From the last multiple of a vector before the diagonal on; v is zero where loads are beyond the last one.
            inside = (j + 1 - self.first) / vector * vector
            with k.range(inside, length, WARP * vector * unroll) as start:
                places = [start + k.lane * vector + i * WARP * vector for i in range(unroll)]
                loaded = [[line.load(k.min(x, length - vector), vector) for line in lines] for x in places]
                for x, elements in zip(places, loaded, strict=True):
                    values = self.x.load(x, vector)
                    for line_sums, line_elements in zip(sums, elements, strict=True):
                        for total, element, value in zip(line_sums, line_elements, values, strict=True):
                            total.set(multiply_add(k, element, value, total.get()))
            for i, line_sums in enumerate(sums):
                both = line_sums[0].get()
                for total in line_sums[1:]:
                    both = both + total.get()
                found = warp_reduce(k, both, lambda a, b: a + b)
                with k.when(row + i < self.end):
                    keep(row + i, found)

    def own(self, array: Pointer, row: Value) -> Pointer:
        """A row of this block, of an array of the panel's columns."""
        return array.at((row - self.top) * self.line)

    def tell(self, board: Pointer, inner: Value, low: Value) -> None:
        """Tell V^H of this block's rows of the column, from row `low` on: a lane has a column, a warp some rows."""
        k = self.k
        total = k.var(self.zero)
        with k.when(k.lane < inner), k.range(self.top + k.warp, self.end, NUM_WARPS) as row:
            element = k.where(row >= low, self.own_column[row - self.top], self.zero)
            other = self.conjugate(self.own(self.vs, row)[k.lane])
            total.set(multiply_add(k, other, element, total.get()))
        self.partials[k.warp * WIDTH + k.lane] = total.get()
        k.barrier()
        with k.when(k.tid < inner):
            board[k.cast(self.rank * WIDTH + k.tid, i64)] = self.total_over_warps(k.tid)

    def sum_up(self, board: Pointer, inner: Value) -> None:
        """Add up what all blocks told, zeros beyond the panel's columns, in `inner_sums`."""
        k = self.k
        total = k.var(self.zero)
        at_once = SUMS_AT_ONCE[self.type.nbytes > VECTOR_NBYTES // 2]
        with k.when(k.lane < inner), k.range(k.warp, self.num_blocks, NUM_WARPS * at_once) as start:
            others = [start + i * NUM_WARPS if i else start for i in range(at_once)]
            places = [k.cast(k.min(other, self.num_blocks - 1) * WIDTH + k.lane, i64) for other in others]
            for other, value in zip(others, [board[place] for place in places], strict=True):
                total.set(total.get() + k.where(other < self.num_blocks, value, self.zero))
        self.partials[k.warp * WIDTH + k.lane] = total.get()
        k.barrier()
        with k.when(k.tid < WIDTH):
            self.inner_sums[k.tid] = self.total_over_warps(k.tid)
        k.barrier()

    def total_over_warps(self, place: Value) -> Value:
        """Return the sum of what the warps of this block left at a place."""
        total = self.partials[place]
        for warp in range(1, NUM_WARPS):
            total = total + self.partials[place + warp * self.stride]
        return total


__all__ = [
    "BLOCK",
    "FLAT",
    "LOADS",
    "NUM_WARPS",
    "SHARE",
    "SUMS_AT_ONCE",
    "VECTOR_NBYTES",
    "WARP",
    "WIDTH",
    "ResidentPanel",
]
