"""Symmetric matrices reduced to tridiagonal ones: a panel of columns, whose products with the rest are left to others.

J. Dongarra, S. Hammarling and D. Sorensen, 1989, as LAPACK's xLATRD of lower triangles: reflectors H = I - tau v v^T, v
with a one in front, and vectors w with which the rest becomes A - v w^T - w v^T, once for all columns of a panel.

Data layout: A (order, order), both triangles, row by row, one or many; it stays as it is. P = [V W] and Q = [W V], rows
from the panel's first on, 2 * width columns; V once more as columns of a matrix of all reflectors; d, e and tau. In the
workspace: a column of A, a product, and the sums of every block. In shared memory a block has its rows of V and W, v,
and the sums of all blocks.

Who owns what: a block has consecutive rows of the panel's, a warp every so many of these. All blocks are resident.

Algorithm, per column: every block brings its rows of the column up to date, which makes the sum of squares, tells them,
and waits; v is known to all then. Every block multiplies its rows of A with v, sums up the products of v with V, W and
its rows of the result, tells these, and waits; w is known then. Sums are added in the order of the blocks.

Per panel: width * rows^2 elements of A are read, and two waits per column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.plan import Argument, Launch, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
NUM_WARPS = BLOCK // WARP
WIDTH = 32
MIN_ROWS = 8  # of a block, one a warp
ROWS_PER_WARP = 4  # whose products with v a warp has in registers
ALONE = 512  # rows up to which each of many matrices is one block


class PanelSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    rows : int
        Most rows of the matrix, a power of two.
    height : int
        Most rows of a block.
    """

    type: Type
    rows: int
    height: int

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        elements = self.rows + self.height * (2 * (WIDTH + 1) + 2) + 8 * WIDTH + NUM_WARPS * (2 * WIDTH + 2)
        return elements * self.type.nbytes + 1024


class Cut(NamedTuple):
    """How many rows of a matrix a block has, and how many matrices are reduced at a time."""

    height: int
    at_once: int


def cut(type: Type, count: int, order: int, device: Device) -> Cut:
    """Return how matrices are cut into blocks: as many as multiprocessors, unless there are many matrices."""
    if count > 1 and order <= ALONE and PanelSpec(type, _power(order), order).shared_nbytes <= device.max_shared_nbytes:
        return Cut(order, count)
    blocks = max(1, min(device.num_sms, -(-order // MIN_ROWS)))
    height = -(-order // blocks)
    return Cut(height, max(1, device.num_sms // -(-order // height)))


def is_possible(type: Type, count: int, order: int, device: Device) -> bool:
    """Whether there is a kernel for matrices of an order."""
    spec = PanelSpec(type, _power(order), _power_of(cut(type, count, order, device).height))
    return spec.shared_nbytes <= device.max_shared_nbytes


def _power(order: int) -> int:
    return 1 << max(5, (order - 1).bit_length())


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PanelSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _Panel(spec).build()


class _Panel:
    """The kernel while it is built."""

    def __init__(self, spec: PanelSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("tridiagonal_panel", block=BLOCK, target="sm_80", min_blocks=1)
        type_ = spec.type
        pointers = ("p", "q", "v", "d", "e", "tau", "column", "product", "squares", "sums")
        self.p, self.q, self.v, self.d, self.e, self.tau, self.column, self.product, self.squares, self.sums = (
            k.pointer(name, type_) for name in pointers
        )
        self.flags, self.a = k.pointer("flags", u32), k.pointer("a", type_, "r")
        names = ("order", "first", "width", "height", "num_blocks", "epoch", "start")
        self.order, self.first, self.width, self.height, self.num_blocks, self.epoch, self.start = (
            k.scalar(name, u32) for name in names
        )
        self.pitch, self.move, self.v_pitch, self.v_move = (
            k.scalar(name, i64) for name in ("pitch", "move", "v_pitch", "v_move")
        )
        line = WIDTH + 1
        self.line = line
        self.x = k.dynamic_shared(type_, spec.rows)
        self.vs, self.ws = (k.dynamic_shared(type_, spec.height * line) for _ in range(2))
        self.own_column, self.own_product = (k.dynamic_shared(type_, spec.height) for _ in range(2))
        # Of the row on the diagonal: V and W; of all blocks: W^T v and V^T v.
        self.pivot_v, self.pivot_w, self.with_w, self.with_v = (k.dynamic_shared(type_, WIDTH) for _ in range(4))
        self.partials = k.dynamic_shared(type_, NUM_WARPS * (2 * WIDTH + 2))
        self.scalars = k.dynamic_shared(type_, 8)
        self.matrix = k.ctaid / self.num_blocks
        self.rank = k.ctaid - self.matrix * self.num_blocks
        self.top = self.first + self.rank * self.height
        self.end = k.min(self.top + self.height, self.order)
        self.zero, self.one = k.const(0, type_), k.const(1, type_)
        number = self.matrix + self.start
        wide, order = k.cast(number, i64), k.cast(self.order, i64)
        self.a, self.v = self.a.at(wide * self.move), self.v.at(wide * self.v_move)
        self.p, self.q = (x.at(wide * order * (2 * WIDTH)) for x in (self.p, self.q))
        self.d, self.e, self.tau, self.column, self.product = (
            x.at(wide * order) for x in (self.d, self.e, self.tau, self.column, self.product)
        )
        board = k.cast(self.matrix * self.num_blocks, i64)
        self.squares, self.flags = self.squares.at(board), self.flags.at(board)
        self.sums = self.sums.at(board * (2 * WIDTH + 1))

    def build(self) -> Kernel:
        k = self.k
        with k.range(k.const(0, u32), self.width) as inner:
            j = self.first + inner
            self.bring(j, inner)
            self.wait(self.epoch + inner * 2 + 1)
            self.reflect(j, inner)
            self.multiply(j, inner)
            self.wait(self.epoch + inner * 2 + 2)
            self.finish(j, inner)
        return k.build()

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

    def whole(self, value: Value, place: int) -> Value:
        """Return the sum over the block, in the order of its warps; barriers on both sides."""
        k = self.k
        part = warp_reduce(k, value, lambda a, b: a + b)
        with k.when(k.lane == 0):
            self.partials[k.warp * (2 * WIDTH + 2) + place] = part
        k.barrier()
        total = self.partials[place]
        for warp in range(1, NUM_WARPS):
            total = total + self.partials[warp * (2 * WIDTH + 2) + place]
        return total

    def bring(self, j: Value, inner: Value) -> None:
        """Bring this block's rows of a column up to date; sum up the squares of those below the second one."""
        k = self.k
        square = k.var(self.zero)
        with k.range(k.max(self.top, j) + k.tid, self.end, BLOCK) as row:
            local = (row - self.top) * self.line
            value = k.var(self.a[k.cast(row, i64) * self.pitch + k.cast(j, i64)])
            with k.range(k.const(0, u32), inner) as before:
                value.set(k.fma(-self.vs[local + before], self.pivot_w[before], value.get()))
                value.set(k.fma(-self.ws[local + before], self.pivot_v[before], value.get()))
            self.column[k.cast(row, i64)] = value.get()
            with k.when(row > j + 1):
                square.set(k.fma(value.get(), value.get(), square.get()))
        k.warp_sync()
        total = self.whole(square.get(), 0)
        with k.when(k.tid == 0):
            self.squares[k.cast(self.rank, i64)] = total

    def reflect(self, j: Value, inner: Value) -> None:
        """Make the reflector: v, whole in shared memory, with zeros from the first row to the diagonal."""
        k = self.k
        square = k.var(self.zero)
        with k.range(k.const(0, u32), self.num_blocks) as other:
            square.set(square.get() + self.squares[k.cast(other, i64)])
        has_row = j + 1 < self.order
        alpha = self.column[k.cast(k.where(has_row, j + 1, j), i64)]
        norm = k.sqrt(k.fma(alpha, alpha, square.get()))
        is_done = (square.get() == 0) | ~has_row
        beta = k.where(is_done, alpha, -k.copysign(alpha, norm))
        safe = k.where(is_done, self.one, beta)
        tau = k.where(is_done, self.zero, (beta - alpha) / safe)
        scale = k.where(is_done, self.zero, self.one / k.where(is_done, self.one, alpha - beta))
        with k.when((self.rank == 0) & (k.tid == 0)):
            wide = k.cast(j, i64)
            self.d[wide] = self.column[wide]
            with k.when(has_row):
                self.e[wide] = beta
                self.tau[wide] = tau
        with k.when(k.tid == 0):
            self.scalars[0] = tau
        with k.range(self.first + k.tid, self.order, BLOCK) as row:
            value = k.var(self.zero)
            with k.when(row > j):
                value.set(k.where(row == j + 1, self.one, self.column[k.cast(row, i64)] * scale))
            self.x[row - self.first] = value.get()
        k.barrier()
        with k.range(self.top + k.tid, self.end, BLOCK) as row:
            element = self.x[row - self.first]
            self.vs[(row - self.top) * self.line + inner] = element
            place = k.cast(row - self.first, i64) * (2 * WIDTH) + k.cast(inner, i64)
            self.p[place] = element
            self.q[place + WIDTH] = element
            with k.when((row > j) & has_row):
                # Of the matrix of all reflectors the first row is the matrix's second one.
                self.v[k.cast(row - 1, i64) * self.v_pitch + k.cast(j, i64)] = element
        k.barrier()

    def multiply(self, j: Value, inner: Value) -> None:
        """Multiply this block's rows of A with v, and sum up what of v goes with V, W and the result."""
        k = self.k
        step = NUM_WARPS * ROWS_PER_WARP
        begin = k.cast(self.first, i64)
        with k.range(self.top + k.warp * ROWS_PER_WARP, self.end, step) as row:
            rows = [k.min(row + i, self.end - 1) for i in range(ROWS_PER_WARP)]
            lines: list[Pointer] = [self.a.at(k.cast(x, i64) * self.pitch + begin) for x in rows]
            sums = [k.var(self.zero) for _ in rows]
            # From the lane's first column that is not before the diagonal's.
            inside = (j + 1 - self.first) / WARP * WARP
            with k.range(inside + k.lane, self.order - self.first, WARP) as column:
                value = self.x[column]
                for line, total in zip(lines, sums, strict=True):
                    total.set(k.fma(line[column], value, total.get()))
            k.warp_sync()
            for i, total in enumerate(sums):
                found = warp_reduce(k, total.get(), lambda a, b: a + b)
                with k.when((k.lane == 0) & (row + i < self.end)):
                    self.own_product[row + i - self.top] = found
                    self.product[k.cast(row + i, i64)] = found
        k.barrier()
        self.inner_products(inner)
        # Behind the barriers of `wait`, block sums of all warps.

    def inner_products(self, inner: Value) -> None:
        """Tell W^T v, V^T v and v^T A v of this block's rows: a warp has a few of the columns, a lane rows."""
        k = self.k
        board = self.sums.at(k.cast(self.rank, i64) * (2 * WIDTH + 1))
        rows = self.end - k.min(self.top, self.end)
        with k.range(k.warp + 0, inner * 2 + 1, NUM_WARPS) as number:
            total = k.var(self.zero)
            is_last = number == inner * 2
            is_v = number >= inner
            column = k.where(is_last, k.const(0, u32), k.where(is_v, number - inner, number))
            with k.range(k.lane + 0, rows, WARP) as row:
                place = row * self.line + column
                other = k.var(self.own_product[row])
                with k.when(~is_last):
                    other.set(k.where(is_v, self.vs[place], self.ws[place]))
                total.set(k.fma(other.get(), self.x[self.top + row - self.first], total.get()))
            k.warp_sync()
            found = warp_reduce(k, total.get(), lambda a, b: a + b)
            with k.when(k.lane == 0):
                board[k.cast(number, i64)] = found

    def finish(self, j: Value, inner: Value) -> None:
        """Make w, of this block's rows and of the next row on the diagonal, of which V and W are kept."""
        k = self.k
        length = 2 * WIDTH + 1
        with k.range(k.warp + 0, inner * 2 + 1, NUM_WARPS) as number:
            total = k.var(self.zero)
            with k.range(k.lane + 0, self.num_blocks, WARP) as other:
                total.set(total.get() + self.sums[k.cast(other, i64) * length + k.cast(number, i64)])
            k.warp_sync()
            found = warp_reduce(k, total.get(), lambda a, b: a + b)
            with k.when(k.lane == 0):
                is_last = number == inner * 2
                with k.when(is_last):
                    self.scalars[1] = found
                with k.otherwise():
                    with k.when(number >= inner):
                        self.with_v[number - inner] = found
                    with k.otherwise():
                        self.with_w[number] = found
        k.barrier()
        tau, whole = self.scalars[0], k.var(self.scalars[1])
        with k.range(k.const(0, u32), inner) as before:
            both = self.with_v[before] * self.with_w[before]
            whole.set(whole.get() - (both + both))
        alpha = tau * tau * whole.get() * -0.5

        def w_of(product: Value, value: Value, v: Pointer, w: Pointer) -> Value:
            found = k.var(product)
            with k.range(k.const(0, u32), inner) as before:
                found.set(k.fma(-v[before], self.with_w[before], found.get()))
                found.set(k.fma(-w[before], self.with_v[before], found.get()))
            made: Value = k.fma(tau, found.get(), alpha * value)
            return made

        with k.range(self.top + k.tid, self.end, BLOCK) as row:
            local = (row - self.top) * self.line
            value = self.x[row - self.first]
            found = w_of(self.own_product[row - self.top], value, self.vs.at(local), self.ws.at(local))
            found = k.where(row > j, found, self.zero)
            self.ws[local + inner] = found
            place = k.cast(row - self.first, i64) * (2 * WIDTH) + k.cast(inner, i64)
            self.p[place + WIDTH] = found
            self.q[place] = found
        self.pivot(j + 1, inner, w_of)

    def pivot(self, row: Value, inner: Value, w_of: Callable[[Value, Value, Pointer, Pointer], Value]) -> None:
        """Have V and W of the next row on the diagonal: what others told of, and the last of W again."""
        k = self.k
        is_row = (row < self.order) & (inner + 1 < self.width)
        line = self.p.at(k.cast(k.where(is_row, row - self.first, k.const(0, u32)), i64) * (2 * WIDTH))
        with k.when(is_row & (k.tid <= inner)):
            own = k.cast(k.tid + 0, i64)
            self.pivot_v[k.tid] = k.where(k.tid == inner, self.x[row - self.first], line[own])
            with k.when(k.tid < inner):
                self.pivot_w[k.tid] = line[own + WIDTH]
        k.barrier()
        with k.when(is_row & (k.tid == 0)):
            product = self.product[k.cast(row, i64)]
            self.pivot_w[inner] = w_of(product, self.x[row - self.first], self.pivot_v, self.pivot_w)
        k.barrier()


class Board(NamedTuple):
    """Where blocks tell each other, in the workspace."""

    column: Argument
    product: Argument
    squares: Argument
    sums: Argument
    flags: Argument
    flags_nbytes: int


def board(scratch: Scratch, type: Type, count: int, order: int, division: Cut) -> Board:
    """Return where the blocks of matrices tell each other."""
    blocks = min(count, division.at_once) * -(-order // division.height)
    return Board(
        scratch.take(count * order * type.nbytes),
        scratch.take(count * order * type.nbytes),
        scratch.take(blocks * type.nbytes),
        scratch.take(blocks * (2 * WIDTH + 1) * type.nbytes),
        scratch.take(blocks * 4),
        blocks * 4,
    )


class Reduction(NamedTuple):
    """A panel of some matrices.

    Attributes
    ----------
    type : Type
    order, first, width : int
        Rows of the matrices; the first column, and how many.
    strides, v_strides : (int, int)
        Elements from one row, and from one matrix, to the next of A, and of the matrix of all reflectors.
    start, count : int
        Number of the first matrix, and how many.
    epoch : int
        How often blocks have waited, of this launch's flags.
    """

    type: Type
    order: int
    first: int
    width: int
    strides: tuple[int, int]
    v_strides: tuple[int, int]
    start: int
    count: int  # type: ignore[assignment]  # instead of the method of tuples
    epoch: int


def launch(panel: Reduction, division: Cut, places: dict[str, Argument], told: Board) -> Launch:
    """Return the launch that reduces a panel.

    Parameters
    ----------
    panel : Reduction
    division : Cut
    places : dict
        The arrays of the module's data layout: ``a``, ``p``, ``q``, ``v``, ``d``, ``e``, ``tau``.
    told : Board
    """
    rows = panel.order - panel.first
    blocks = -(-panel.order // division.height)
    height = -(-rows // blocks)
    num_blocks = -(-rows // height)
    spec = PanelSpec(panel.type, _power(panel.order), _power_of(division.height))
    kernel = make(spec)
    at = places | told._asdict()
    names = [param.name for param in kernel.params if param.is_pointer]
    constants = (panel.order, panel.first, panel.width, height, num_blocks, panel.epoch, panel.start)
    strides = (*panel.strides, *panel.v_strides)
    work = Work(4 * panel.width * rows * rows * panel.count, panel.width * rows * rows * panel.type.nbytes)
    grid = (num_blocks * panel.count, 1, 1)
    return Launch(kernel, grid, tuple(at[name] for name in names), (*constants, *strides), work)


def _power_of(height: int) -> int:
    return 1 << max(3, (height - 1).bit_length())


__all__ = ["WIDTH", "Board", "Cut", "PanelSpec", "Reduction", "board", "cut", "is_possible", "launch", "make"]
