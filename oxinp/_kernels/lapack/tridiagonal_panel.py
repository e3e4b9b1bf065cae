"""Hermitian matrices reduced to tridiagonal ones: a panel of columns, whose products with the rest are left to others.

J. Dongarra, S. Hammarling and D. Sorensen, 1989, as LAPACK's xLATRD of lower triangles: reflectors H = I - tau v v^H, v
with a one in front, and vectors w with which the rest becomes A - v w^H - w v^H, once for all columns of a panel.

Data layout: A (order, order), both triangles, row by row, one or many; it stays as it is. P = [V W], conj([W V]) as Q,
rows from the panel's first on, 2 * width columns; V once more as columns of a matrix of all reflectors; d, e, tau. In
the workspace: a column of A, and the sums of every block; `parts`, (tiles, tiles, side): of the product's row `tile`
what each tile of A gives it. In shared memory a block has its rows of V and W, v, the first rows of its tile of A, and
the sums of all blocks.

Who owns what: a block has consecutive rows of the panel's, of which some lanes share each, or a thread has one, where
there are many; and of A, the upper triangle of which is cut into `tiles` x `tiles` tiles of `side` rows and columns,
one on the diagonal or above it, if there is one left. Of a tile a warp has some rows at a time, and a lane the sums
of some columns. All blocks are resident.

Algorithm, per column: every block brings its rows of the column up to date, which makes the sum of squares, tells them,
and waits; v is known to all then. Every block multiplies its tile with v, and the tile's adjoint where it is above the
diagonal, sums up the products of v with V, W and these parts of the result, tells all, and waits; w is known then. Sums
are added in the order of blocks and tiles.

Per panel: width * rows^2 / 2 elements of A are read but for those in shared memory, and two waits per column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.resident import (
    BLOCK,
    NUM_WARPS,
    SUMS_AT_ONCE,
    VECTOR_NBYTES,
    WIDTH,
)
from oxinp._kernels.lapack.tridiagonal_tiles import LAST, PanelSpec, TiledPanel
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

COLUMNS_AT_ONCE = 8  # elements of the column that a thread loads together


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PanelSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _Panel(spec).build()


class _Panel(TiledPanel):
    """The kernel while it is built."""

    def __init__(self, spec: PanelSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("tridiagonal_panel", block=BLOCK, target="sm_80", min_blocks=1)
        type_ = spec.type
        self.real = type_.parts[0]
        pointers = ("p", "q", "v", "tau", "column", "parts", "sums")
        self.p, self.q, self.v, self.tau, self.column, self.parts, self.sums = (
            k.pointer(name, type_) for name in pointers
        )
        self.d, self.e, self.squares = (k.pointer(name, self.real) for name in ("d", "e", "squares"))
        self.flags, self.a = k.pointer("flags", u32), k.pointer("a", type_, "r")
        names = ("order", "first", "width", "height", "num_blocks", "epoch", "start", "tiles", "side")
        (
            self.order,
            self.first,
            self.width,
            self.height,
            self.num_blocks,
            self.epoch,
            self.start,
            self.tiles,
            self.side,
        ) = (k.scalar(name, u32) for name in names)
        self.pitch, self.move, self.v_pitch, self.v_move = (
            k.scalar(name, i64) for name in ("pitch", "move", "v_pitch", "v_move")
        )
        self.line, self.stride = WIDTH + 1, 2 * WIDTH
        self.x = k.dynamic_shared(type_, spec.elements)
        self.vs, self.ws = (k.dynamic_shared(type_, spec.height * self.line) for _ in range(2))
        self.own_column, self.own_product = (k.dynamic_shared(type_, spec.height) for _ in range(2))
        # Of the row on the diagonal: V and W; of all blocks: W^H v and V^H v.
        self.pivot_v, self.pivot_w, self.with_w, self.with_v = (k.dynamic_shared(type_, WIDTH) for _ in range(4))
        self.partials = k.dynamic_shared(type_, NUM_WARPS * 2 * WIDTH)
        self.scalars = k.dynamic_shared(type_, 8)
        self.columns = self.x
        if spec.columns and not spec.is_tight:
            self.columns = k.dynamic_shared(type_, spec.columns)
        self.kept_rows = k.dynamic_shared(type_, max(1, spec.kept))
        self.matrix = k.ctaid / self.num_blocks
        self.begin_at(k.ctaid - self.matrix * self.num_blocks)
        number = self.matrix + self.start
        wide, order = k.cast(number, i64), k.cast(self.order, i64)
        self.a, self.v = self.a.at(wide * self.move), self.v.at(wide * self.v_move)
        self.p, self.q = (x.at(wide * order * (2 * WIDTH)) for x in (self.p, self.q))
        self.d, self.e, self.tau, self.column = (x.at(wide * order) for x in (self.d, self.e, self.tau, self.column))
        self.parts = self.parts.at(k.cast(self.matrix * (self.tiles * self.tiles * self.side), i64))
        board = k.cast(self.matrix * self.num_blocks, i64)
        self.squares, self.flags = self.squares.at(board), self.flags.at(board)
        self.sums = self.sums.at(board * (2 * WIDTH))
        self.find_tile()

    def build(self) -> Kernel:
        k = self.k
        self.keep_rows()
        self.keep_column(self.next_column(self.first))
        k.barrier()
        with k.range(k.const(0, u32), self.width) as inner:
            j = self.first + inner
            self.bring(j, inner)
            self.wait(self.epoch + inner * 2 + 1)
            self.reflect(j, inner)
            following = self.next_column(j + 1)
            self.multiply(j)
            self.keep_column(following)
            self.tell_sums(inner)
            self.wait(self.epoch + inner * 2 + 2)
            self.finish(j, inner)
        return k.build()

    def next_column(self, j: Value) -> list[Value]:
        """Load this block's rows of a column of A, which is a row too, long before they are needed."""
        k, last = self.k, self.order - 1
        line = self.a.at(k.cast(k.min(j, last), i64) * self.pitch)
        found = []
        for start in range(0, self.spec.height, BLOCK):
            row = self.top + k.tid + start
            found.append(line[k.cast(k.min(row, last), i64)])
        return found

    def kept(self, value: Value) -> Value:
        """The conjugate: a column of a Hermitian matrix is a row."""
        return self.conjugate(value)

    def pair(self, row: Value) -> tuple[Pointer, Pointer]:
        """V and W of a row of this block."""
        place = (row - self.top) * self.line
        return self.vs.at(place), self.ws.at(place)

    def bring(self, j: Value, inner: Value) -> None:
        """Bring this block's rows of a column up to date; sum up the squares of those below the second one."""
        k = self.k
        square = k.var(self.none)
        with self.rows() as (row, is_row):
            lost = self.lost(self.pair(row), (self.pivot_w, self.pivot_v), inner, is_row, is_conjugated=True)
            value = self.own_column[row - self.top] - lost
            with k.when(is_row & (k.tid % self.spec.share == 0) & (row >= j)):
                self.column[k.cast(row, i64)] = value
                with k.when(row > j + 1):
                    square.set(self.inner(value, value, square.get()))
        part = warp_reduce(k, square.get(), lambda a, b: a + b)
        with k.when(k.lane == 0):
            self.partials[k.warp] = self.whole(part)
        k.barrier()
        with k.when(k.tid == 0):
            total = self.partials[0].parts[0]
            for warp in range(1, NUM_WARPS):
                total = total + self.partials[warp].parts[0]
            self.squares[k.cast(self.rank, i64)] = total

    def reflect(self, j: Value, inner: Value) -> None:
        """Make the reflector: v, whole in shared memory, with zeros up to the diagonal and beyond the last row."""
        k = self.k
        has_row = j + 1 < self.order
        alpha = self.column[k.cast(k.where(has_row, j + 1, j), i64)]
        length, step = self.order - self.first, BLOCK * COLUMNS_AT_ONCE
        elements = self.elements_of_column(k.tid + 0)  # in flight beside the sums
        square = self.total_over_blocks(self.squares)
        self.put_column(k.tid + 0, elements)
        with k.range(k.tid + step, length, step) as start:
            self.put_column(start, self.elements_of_column(start))
        tau, scale, beta = self.reflector(alpha, square, has_row)
        with k.when((self.rank == 0) & (k.tid == 0)):
            wide = k.cast(j, i64)
            self.d[wide] = self.column[wide].parts[0]
            with k.when(has_row):
                self.e[wide] = beta
                self.tau[wide] = tau
        with k.when(k.tid == 0):
            self.scalars[0] = tau
        second = j + 1 - self.first
        with k.range(k.tid + 0, length, BLOCK) as local:  # by the thread that wrote it
            value = k.var(self.zero)
            with k.when(local > second):
                value.set(self.x[local] * scale)
            self.x[local] = k.where(local == second, self.one, value.get())
        k.barrier()
        with k.range(self.top + k.tid, self.end, BLOCK) as row:
            element = self.x[row - self.first]
            self.vs[(row - self.top) * self.line + inner] = element
            place = k.cast(row - self.first, i64) * (2 * WIDTH) + k.cast(inner, i64)
            self.p[place] = element
            self.q[place + WIDTH] = self.conjugate(element)
            with k.when((row > j) & has_row):
                # Of the matrix of all reflectors the first row is the matrix's second one.
                self.v[k.cast(row - 1, i64) * self.v_pitch + k.cast(j, i64)] = element

    def elements_of_column(self, start: Value) -> list[Value]:
        """Load some elements of the column that is reflected."""
        k, last = self.k, self.order - 1
        return [self.column[k.cast(k.min(self.first + start + i * BLOCK, last), i64)] for i in range(COLUMNS_AT_ONCE)]

    def put_column(self, start: Value, elements: list[Value]) -> None:
        """Put them into shared memory, in the place of v."""
        k, length = self.k, self.order - self.first
        for i, element in enumerate(elements):
            with k.when(start + i * BLOCK < length):
                self.x[start + i * BLOCK] = element

    def own_parts(self) -> list[list[Value]]:
        """Load the parts of this block's rows of the product."""
        k, step = self.k, BLOCK // self.spec.share
        rows = [self.top + k.tid / self.spec.share + start for start in range(0, self.spec.height, step)]
        return [self.parts_of(self.place_of(k.min(row, self.end - 1))) for row in rows]

    def keep_product(self, parts: list[list[Value]]) -> None:
        """Keep this block's rows of the product, of what `own_parts` loaded."""
        k, share = self.k, self.spec.share
        for i, found in enumerate(parts):
            total, local = self.whole_of(found), k.tid / share + i * (BLOCK // share)
            with k.when((k.tid % share == 0) & (local < self.spec.height)):
                self.own_product[local] = total

    def tell_sums(self, inner: Value) -> None:
        """Tell W^H v, V^H v and v^H A v of this block's rows: a lane has a column of each, a warp some of the rows."""
        k = self.k
        sums = [k.var(self.zero) for _ in range(2)]
        with k.when(k.lane < inner):
            with k.range(self.top + k.warp, self.end, NUM_WARPS) as row:
                line = (row - self.top) * self.line
                place = line + k.lane
                element = self.vs[line + inner] if self.spec.is_tight else self.x[row - self.first]
                for array, total in zip((self.ws, self.vs), sums, strict=True):
                    total.set(multiply_add(k, self.conjugate(array[place]), element, total.get()))
            for i, total in enumerate(sums):
                self.partials[k.warp * (2 * WIDTH) + i * WIDTH + k.lane] = total.get()
        k.barrier()
        if self.spec.columns:
            self.tell_columns()
        column = k.tid % WIDTH
        with k.when((k.tid < 2 * WIDTH) & ((column < inner) | (k.tid == LAST))):
            self.sums[k.cast(self.rank * (2 * WIDTH) + k.tid, i64)] = self.total_over_warps(k.tid)

    def finish(self, j: Value, inner: Value) -> None:
        """Make w, of this block's rows and of the next row on the diagonal, of which V and W are kept."""
        k = self.k
        line, parts = self.next_row(j + 1, inner)
        own = self.own_parts()
        sums = [k.var(self.zero) for _ in range(2)]
        is_known = [(k.lane < inner) | (k.lane == LAST), k.lane < inner]
        # Lanes of columns that nobody has told of load what everybody tells.
        columns = [k.cast(k.where(k.lane < inner, k.lane + half * WIDTH, LAST), i64) for half in range(2)]
        at_once = SUMS_AT_ONCE[self.type.nbytes > VECTOR_NBYTES // 2]
        with k.range(k.warp, self.num_blocks, NUM_WARPS * at_once) as start:
            others = [start + i * NUM_WARPS if i else start for i in range(at_once)]
            places = [k.cast(k.min(other, self.num_blocks - 1) * (2 * WIDTH), i64) for other in others]
            told = [[self.sums[place + column] for column in columns] for place in places]
            for other, values in zip(others, told, strict=True):
                for is_told, value, total in zip(is_known, values, sums, strict=True):
                    total.set(total.get() + k.where((other < self.num_blocks) & is_told, value, self.zero))
        for half, total in enumerate(sums):
            self.partials[k.warp * (2 * WIDTH) + half * WIDTH + k.lane] = total.get()
        self.keep_product(own)
        product = self.whole_of(parts)
        k.barrier()
        column = k.tid % WIDTH
        with k.when(k.tid < 2 * WIDTH):
            found = self.total_over_warps(k.tid)
            with k.when(k.tid == LAST):
                self.scalars[1] = found
            kept = k.where(column < inner, found, self.zero)
            with k.when(k.tid < WIDTH):
                self.with_w[column] = kept
            with k.otherwise():
                self.with_v[column] = kept
            with k.when(k.tid <= inner):
                self.pivot_v[column] = line
            with k.when((k.tid >= WIDTH) & (column < inner)):
                self.pivot_w[column] = line
        k.barrier()
        both = self.inner(self.with_v[k.lane], self.with_w[k.lane], self.none)
        both = warp_reduce(k, both, lambda a, b: a + b)
        tau = self.scalars[0]
        quadratic = self.scalars[1].parts[0] - (both + both)
        alpha = self.whole(self.inner(tau, tau, self.none) * quadratic * -0.5)
        factors = self.with_w, self.with_v
        with self.rows() as (row, is_row):
            lost = self.lost(self.pair(row), factors, inner, is_row)
            element = self.pair(row)[0][inner]
            found = multiply_add(k, tau, self.own_product[row - self.top] - lost, alpha * element)
            found = k.where(row > j, found, self.zero)
            with k.when(is_row & (k.tid % self.spec.share == 0)):
                self.pair(row)[1][inner] = found
                place = k.cast(row - self.first, i64) * (2 * WIDTH) + k.cast(inner, i64)
                self.p[place + WIDTH] = found
                self.q[place] = self.conjugate(found)
        with k.when(k.warp == 0):
            lost = self.lost((self.pivot_v, self.pivot_w), factors, inner, k.warp == 0)
            k.warp_sync()
            with k.when(k.tid == 0):
                self.pivot_w[inner] = multiply_add(k, tau, product - lost, alpha * self.pivot_v[inner])
        k.barrier()

    def next_row(self, row: Value, inner: Value) -> tuple[Value, list[Value]]:
        """Load V and W of the next row on the diagonal, a thread a column of both, and parts of its product with v."""
        k = self.k
        held = k.min(row, self.order - 1)
        column = k.tid % WIDTH
        place = k.cast((held - self.first) * (2 * WIDTH) + k.tid % (2 * WIDTH), i64)
        found = k.var(self.zero)
        with k.when((k.tid < 2 * WIDTH) & ((column < inner) | (k.tid == inner))):
            found.set(self.p[place])
        return found.get(), self.parts_of(self.place_of(held))


__all__ = ["make"]
