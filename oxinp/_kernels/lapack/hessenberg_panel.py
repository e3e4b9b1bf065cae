"""Matrices reduced to Hessenberg form: a panel of columns, whose products with the rest are left to others.

G. Quintana-Orti and R. van de Geijn, 2006, as LAPACK's xLAHR2: reflectors H = I - tau v v^H, v with a one in front, the
T of the panel's block reflector I - V T V^H, and Y = A V T, with which the rest becomes (I - V T^H V^H) (A - Y V^H).

Data layout: A (order, order) row by row; it stays as it is. P, the panel's V, and P T, rows from the panel's first on,
and Y, all rows, WIDTH columns each; V once more as columns of a matrix of all reflectors; H, of whose columns of the
panel the rows below the panel's first are written; tau. In the workspace: a column of A, and the sums of every block.
In shared memory a block has its rows of V and Y, T, v, and the sums of all blocks.

Who owns what: a block has consecutive rows from the panel's first on, of which some lanes share each, or a thread has
one. In products with A a warp has one to four rows at a time. All blocks are resident.

Algorithm, per column: every block takes Y V^H off its rows of the column and tells V^H of these; when all have, every
block takes V T^H of the sum off its rows, tells these, their squares, and V^H of those that become v; when all have,
v and V^H v are known to all, and every block multiplies its rows of A with v, which are a column of Y less Y V^H v.
Sums are added in the order of the blocks.

Per panel: width * rows^2 elements of A are read, and two waits per column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.resident import (
    BLOCK,
    LOADS,
    NUM_WARPS,
    VECTOR_NBYTES,
    WARP,
    WIDTH,
    ResidentPanel,
    ResidentSpec,
)
from oxinp._kernels.plan import Argument, Launch, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MIN_ROWS = 8  # of a block, one a warp
COLUMNS_AT_ONCE = 8


class HessenbergSpec(ResidentSpec):
    """One kernel of the family."""

    __slots__ = ()

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        elements = self.padded + self.height * (2 * (WIDTH + 1) + 2) + (WIDTH + 1) * WIDTH + (4 + NUM_WARPS) * WIDTH
        return elements * self.type.nbytes + 1024


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: HessenbergSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _Panel(spec).build()


class _Panel(ResidentPanel):
    """The kernel while it is built."""

    def __init__(self, spec: HessenbergSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("hessenberg_panel", block=BLOCK, target="sm_80", min_blocks=1)
        type_ = spec.type
        self.real = type_.parts[0]
        names = ("p", "pt", "y", "v", "h", "tau", "column", "before", "after")
        self.p, self.pt, self.y, self.v, self.h, self.tau, self.column, self.before, self.after = (
            k.pointer(name, type_) for name in names
        )
        self.squares = k.pointer("squares", self.real)
        self.flags, self.a = k.pointer("flags", u32), k.pointer("a", type_, "r")
        sizes = ("order", "first", "width", "height", "num_blocks", "epoch")
        self.order, self.first, self.width, self.height, self.num_blocks, self.epoch = (
            k.scalar(name, u32) for name in sizes
        )
        self.pitch, self.v_pitch, self.h_pitch = (k.scalar(name, i64) for name in ("pitch", "v_pitch", "h_pitch"))
        self.line, self.stride = WIDTH + 1, WIDTH
        self.x = k.dynamic_shared(type_, spec.padded)
        self.vs, self.ys = (k.dynamic_shared(type_, spec.height * self.line) for _ in range(2))
        self.own_column, self.own_product = (k.dynamic_shared(type_, spec.height) for _ in range(2))
        self.t = k.dynamic_shared(type_, WIDTH * self.line)
        # V of the row below the diagonal; V^H of a column, and what T makes of that; V^H v.
        self.pivot, self.inner_sums, self.factors, self.with_v = (k.dynamic_shared(type_, WIDTH) for _ in range(4))
        self.partials = k.dynamic_shared(type_, NUM_WARPS * WIDTH)
        self.norms = k.dynamic_shared(self.real, NUM_WARPS)
        self.begin_at(k.ctaid)

    def build(self) -> Kernel:
        k = self.k
        with k.range(k.tid + 0, WIDTH * self.line, BLOCK) as place:
            self.t[place] = self.zero
        with k.when(k.tid < WIDTH):
            self.pivot[k.tid] = self.zero
        self.keep_column(self.next_column(self.first))
        k.barrier()
        with k.range(k.const(0, u32), self.width) as inner:
            j = self.first + inner
            self.take_off_products(inner)
            self.tell(self.before, inner, k.const(0, u32))
            self.wait(self.epoch + inner * 2 + 1)
            self.sum_up(self.before, inner)
            self.multiply_t(self.inner_sums, inner, is_adjoint=True)
            self.take_off_reflected(j, inner)
            self.tell(self.after, inner, j + 2)
            self.wait(self.epoch + inner * 2 + 2)
            tau = self.reflect(j, inner)
            following = self.next_column(j + 1)
            self.multiply_by(j, self.keep_product)
            self.keep_column(following)
            self.extend_t(tau, inner)
            self.finish(tau, inner)
        self.multiply_reflectors()
        return k.build()

    def next_column(self, j: Value) -> list[Value]:
        """Load this block's rows of a column of A, long before they are needed."""
        k, last = self.k, self.order - 1
        line = self.a.at(k.cast(k.min(j, last), i64))
        found = []
        for start in range(0, self.spec.height, BLOCK):
            row = self.top + k.tid + start
            found.append(line[k.cast(k.min(row, last), i64) * self.pitch])
        return found

    def take_off_products(self, inner: Value) -> None:
        """Take Y V^H off this block's rows of a column."""
        k = self.k
        with self.rows() as (row, is_row):
            lost = self.lost((self.own(self.ys, row),), (self.pivot,), inner, is_row, is_conjugated=True)
            with k.when(is_row & (k.tid % self.spec.share == 0)):
                self.own_column[row - self.top] = self.own_column[row - self.top] - lost
        k.barrier()

    def multiply_t(self, vector: Pointer, inner: Value, *, is_adjoint: bool) -> None:
        """Put T, or its adjoint, times a vector into `factors`: a warp has some terms of every element."""
        k = self.k
        total = k.var(self.zero)
        with k.range(k.warp, inner, NUM_WARPS) as term:
            place = term * self.line + k.lane if is_adjoint else k.lane * self.line + term
            element = self.conjugate(self.t[place]) if is_adjoint else self.t[place]
            total.set(multiply_add(k, element, vector[term], total.get()))
        self.partials[k.warp * WIDTH + k.lane] = total.get()
        k.barrier()
        with k.when(k.tid < WIDTH):
            self.factors[k.tid] = self.total_over_warps(k.tid)
        k.barrier()

    def take_off_reflected(self, j: Value, inner: Value) -> None:
        """Take V times `factors` off this block's rows of the column, tell them and their squares, and write H."""
        k = self.k
        square = k.var(self.none)
        with self.rows() as (row, is_row):
            lost = self.lost((self.own(self.vs, row),), (self.factors,), inner, is_row)
            with k.when(is_row & (k.tid % self.spec.share == 0)):
                value = self.own_column[row - self.top] - lost
                self.own_column[row - self.top] = value
                self.column[k.cast(row, i64)] = value
                with k.when(row > j + 1):
                    square.set(self.inner(value, value, square.get()))
                with k.when((row > self.first) & (row <= j)):
                    self.h[k.cast(row, i64) * self.h_pitch + k.cast(j, i64)] = value
        part = warp_reduce(k, square.get(), lambda a, b: a + b)
        with k.when(k.lane == 0):
            self.norms[k.warp] = part
        k.barrier()
        with k.when(k.tid == 0):
            total = self.norms[0]
            for warp in range(1, NUM_WARPS):
                total = total + self.norms[warp]
            self.squares[k.cast(self.rank, i64)] = total

    def reflect(self, j: Value, inner: Value) -> Value:
        """Make the reflector, whole in shared memory, and V^H v; return tau."""
        k = self.k
        has_row = j + 1 < self.order
        below = k.where(has_row, j + 1, j)
        alpha = self.column[k.cast(below, i64)]
        square = self.total_over_blocks(self.squares)
        length = self.order - self.first
        padded = length + WARP * LOADS * self.spec.vector
        with k.range(k.tid + 0, length, BLOCK * COLUMNS_AT_ONCE) as start:
            locals_ = [start + i * BLOCK if i else start for i in range(COLUMNS_AT_ONCE)]
            found = [self.column[k.cast(k.min(self.first + local, self.order - 1), i64)] for local in locals_]
            for local, value in zip(locals_, found, strict=True):
                with k.when(local < length):
                    self.x[local] = value
        line = k.var(self.zero)
        with k.when((k.tid < inner) & has_row):
            line.set(self.p[k.cast(below - self.first, i64) * WIDTH + k.cast(k.tid, i64)])
        tau, scale, beta = self.reflector(alpha, square, has_row)
        with k.when((self.rank == 0) & (k.tid == 0) & has_row):
            self.h[k.cast(j + 1, i64) * self.h_pitch + k.cast(j, i64)] = self.whole(beta)
            self.tau[k.cast(j, i64)] = tau
        self.sum_up(self.after, inner)
        second = j + 1 - self.first
        with k.range(k.tid + 0, padded, BLOCK) as local:  # by the thread that wrote it
            value = k.var(self.zero)
            with k.when((local > second) & (local < length)):
                value.set(self.x[local] * scale)
            self.x[local] = k.where(local == second, self.one, value.get())
        with k.when(k.tid < WIDTH):
            self.with_v[k.tid] = multiply_add(k, scale, self.inner_sums[k.tid], self.conjugate(line.get()))
            self.pivot[k.tid] = k.where(k.tid == inner, self.one, line.get())
        k.barrier()
        with k.range(self.top + k.tid, self.end, BLOCK) as row:
            element = self.x[row - self.first]
            self.own(self.vs, row)[inner] = element
            self.p[k.cast(row - self.first, i64) * WIDTH + k.cast(inner, i64)] = element
            with k.when((row > j) & has_row):
                # Of the matrix of all reflectors the first row is the matrix's second one.
                self.v[k.cast(row - 1, i64) * self.v_pitch + k.cast(j, i64)] = element
        return tau

    def keep_product(self, row: Value, found: Value) -> None:
        """Keep an element of the product with A."""
        with self.k.when(self.k.lane == 0):
            self.own_product[row - self.top] = found

    def extend_t(self, tau: Value, inner: Value) -> None:
        """Append a column to T: -tau T V^H v, and tau on the diagonal."""
        k = self.k
        self.multiply_t(self.with_v, inner, is_adjoint=False)
        with k.when(k.tid < inner):
            self.t[k.tid * self.line + inner] = -(tau * self.factors[k.tid])
        with k.when(k.tid == inner):
            self.t[inner * self.line + inner] = tau

    def finish(self, tau: Value, inner: Value) -> None:
        """Make this block's rows of a column of Y."""
        k = self.k
        with self.rows() as (row, is_row):
            lost = self.lost((self.own(self.ys, row),), (self.with_v,), inner, is_row)
            found = tau * (self.own_product[row - self.top] - lost)
            with k.when(is_row & (k.tid % self.spec.share == 0)):
                self.own(self.ys, row)[inner] = found
                self.y[k.cast(row, i64) * WIDTH + k.cast(inner, i64)] = found
        k.barrier()

    def multiply_reflectors(self) -> None:
        """Write V T, of this block's rows."""
        k = self.k
        count = k.where(self.end > self.top, self.end - self.top, k.const(0, u32)) * WIDTH
        with k.range(k.tid + 0, count, BLOCK) as number:
            local = number / WIDTH
            column = number - local * WIDTH
            total = k.var(self.zero)
            with k.range(k.const(0, u32), k.min(column + 1, self.width)) as term:
                element = self.vs[local * self.line + term]
                total.set(multiply_add(k, element, self.t[term * self.line + column], total.get()))
            self.pt[k.cast(self.top - self.first, i64) * WIDTH + k.cast(number, i64)] = total.get()


def height(order: int, device: Device) -> int:
    """Return the rows of a block: there are as many blocks as multiprocessors, or fewer."""
    blocks = max(1, min(device.num_sms, -(-order // MIN_ROWS)))
    return -(-order // blocks)


def _spec(type: Type, order: int, device: Device, *, is_wide: bool) -> HessenbergSpec:
    power = 1 << max(3, (height(order, device) - 1).bit_length())
    return HessenbergSpec(type, 1 << max(5, (order - 1).bit_length()), power, is_wide)


def is_possible(type: Type, order: int, device: Device) -> bool:
    """Whether there is a kernel for matrices of an order."""
    return _spec(type, order, device, is_wide=True).shared_nbytes <= device.max_shared_nbytes


class Board(NamedTuple):
    """Where blocks tell each other, in the workspace."""

    column: Argument
    before: Argument
    after: Argument
    squares: Argument
    flags: Argument
    flags_nbytes: int


def board(scratch: Scratch, type: Type, order: int, device: Device) -> Board:
    """Return where the blocks of a matrix tell each other."""
    blocks = -(-order // height(order, device))
    before, after = (scratch.take(blocks * WIDTH * type.nbytes) for _ in range(2))
    squares, flags = scratch.take(blocks * type.nbytes), scratch.take(blocks * 4)
    return Board(scratch.take(order * type.nbytes), before, after, squares, flags, blocks * 4)


def launch(
    type: Type,
    order: int,
    columns: tuple[int, int],
    pitches: tuple[int, int, int],
    places: dict[str, Argument],
    told: Board,
    epoch: int,
    device: Device,
) -> Launch:
    """Return the launch that reduces a panel.

    Parameters
    ----------
    type : Type
    order : int
    columns : (int, int)
        The panel's first, and how many.
    pitches : (int, int, int)
        Elements from one row to the next of A, of the matrix of all reflectors, and of H.
    places : dict
        The arrays of the module's data layout: ``a``, ``p``, ``pt``, ``y``, ``v``, ``h``, ``tau``.
    told : Board
    epoch : int
        How often blocks have waited for its flags.
    device : Device
    """
    first, width = columns
    rows, blocks = order - first, -(-order // height(order, device))
    own = -(-rows // blocks)
    num_blocks = -(-rows // own)
    vector = VECTOR_NBYTES // type.nbytes
    is_wide = order % vector == 0 and pitches[0] % vector == 0
    kernel = make(_spec(type, order, device, is_wide=is_wide))
    at = places | told._asdict()
    names = [param.name for param in kernel.params if param.is_pointer]
    constants = (order, first, width, own, num_blocks, epoch)
    flops = (16 if type.is_complex else 4) * width * rows * rows
    work = Work(flops, width * rows * rows * type.nbytes)
    return Launch(kernel, (num_blocks, 1, 1), tuple(at[name] for name in names), (*constants, *pitches), work)


__all__ = ["Board", "HessenbergSpec", "board", "is_possible", "launch", "make"]
