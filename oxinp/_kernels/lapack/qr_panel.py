"""Householder QR of a panel: some columns, all rows from the diagonal on.

Data layout: as of `lu_panel`. Reflectors H = I - tau v v^H, v with a one in front, go below R, and once more, with
that one and zeros above it, to a matrix of their own; of V^H V what is above the diagonal, and 1 / tau on it, goes to
a matrix M, the inverse of the T of the block reflector I - V T V^H. In shared memory columns keep what they were when
their reflector was made: what they are divided by is kept beside them.

Who owns what: a block has consecutive rows, a warp every so many of these, a lane a column of the panel.

Algorithm, per column x: every block sums up the products of x^H with all columns over its rows below, tells them, waits
for the others', and adds all in the order of the blocks. The sum with x itself gives the reflector, those with the
columns to the right what they lose, those with the columns to the left a column of M: one wait per column.

Per panel: 4 rows * width^2 flops, its elements read once and written twice. Signs and tau are LAPACK's. Squares are
not scaled: matrices are before, see `scaling`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.lu_panel import BLOCK, MAX_BLOCKS, Board
from oxinp._kernels.lapack.panel_kernel import WIDTHS, PanelRows
from oxinp._kernels.plan import Argument, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.value import Value


class QrPanelSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    height : int
        Rows of a block.
    is_alone : bool
        A panel is one block.
    """

    type: Type
    height: int
    is_alone: bool

    @property
    def width(self) -> int:
        """Most columns of a panel."""
        return WIDTHS[self.type.nbytes]


class Reflector(NamedTuple):
    """What a column's reflector is made of: tau, what x is divided by to be v, and the diagonal's element then."""

    tau: Value
    scale: Value
    beta: Value


@cache
@retraceable
def make(spec: QrPanelSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _Panel(spec).build()


class QrPanelKernel(PanelRows):
    """What kernels of panels have in common, while one is built: rows in shared memory, reflectors, M.

    Parameters
    ----------
    k : Builder
    type : Type
    height : int
        Rows of a block.
    """

    def __init__(self, k: Builder, type: Type, height: int) -> None:
        self.k, self.type, self.height, self.width = k, type, height, WIDTHS[type.nbytes]
        self.a, self.v, self.m, self.tau = (k.pointer(name, type) for name in ("a", "v", "m", "tau"))
        self.line = self.width + 1
        self.num_groups = k.block[0] // self.width
        self.column, self.group = k.tid % self.width, k.tid / self.width
        self.zero, self.one = k.const(0, type), k.const(1, type)

    def take(self, *, is_single: bool = False) -> None:
        """Take the scalar parameters, and shared memory for the rows; there is a single panel where that is known."""
        k = self.k
        names = ("num_rows", "num_columns", "num_blocks", "epoch")
        self.num_rows, self.num_columns, self.num_blocks, self.epoch = (k.scalar(name, u32) for name in names)
        moves = ("pitch", "move", "v_pitch", "v_move", "m_pitch", "m_move", "tau_move")
        strides = [k.scalar(name, i64) for name in moves]
        self.pitch, self.move, self.v_pitch, self.v_move, self.m_pitch, self.m_move, self.tau_move = strides
        self.tile = k.dynamic_shared(self.type, self.height * self.line)
        self.scales, self.betas, self.taus = (k.dynamic_shared(self.type, self.width) for _ in range(3))
        self.matrix = k.const(0, u32) if is_single else k.ctaid / self.num_blocks
        self.rank = k.ctaid - self.matrix * self.num_blocks
        self.top = self.rank * self.height
        if is_single:
            return
        wide = k.cast(self.matrix, i64)
        self.a, self.v = self.a.at(wide * self.move), self.v.at(wide * self.v_move)
        self.m, self.tau = self.m.at(wide * self.m_move), self.tau.at(wide * self.tau_move)

    # -- memory

    def copy_out(self) -> None:
        """Write R with the reflectors below, the reflectors, tau, and the diagonal of M."""
        k = self.k
        with k.when((self.rank == 0) & (k.tid < self.num_columns)):
            made, place = Reflector(self.taus[k.tid], self.scales[k.tid], self.betas[k.tid]), k.cast(k.tid, i64)
            self.tau[place] = made.tau
            self.m[place * self.m_pitch + place] = self.inverse(made)
        own = k.where(self.column < self.num_columns, self.column, k.const(0, u32))
        scale, beta = self.scales[own], self.betas[own]
        with k.range(k.tid / self.width, self.height, self.num_groups) as row:
            number = self.top + row
            with k.when((number < self.num_rows) & (self.column < self.num_columns)):
                element = self.tile[row * self.line + self.column]
                below = element * scale
                is_below, is_diagonal = number > self.column, number == self.column
                place = k.cast(number, i64) * self.pitch + k.cast(self.column, i64)
                self.a[place] = k.where(is_below, below, k.where(is_diagonal, beta, element))
                place = k.cast(number, i64) * self.v_pitch + k.cast(self.column, i64)
                self.v[place] = k.where(is_below, below, k.where(is_diagonal, self.one, self.zero))

    # -- reflectors

    def conjugate(self, value: Value) -> Value:
        if not self.type.is_complex:
            return value
        real, imag = value.parts
        return self.k.compound(self.type, real, -imag)

    def reflector(self, alpha: Value, squares: Value) -> Reflector:
        """The reflector that leaves nothing below an element, of a sum of squares there, as LAPACK's larfg."""
        k = self.k
        head = squares
        for part in alpha.parts:
            head = k.fma(part, part, head)
        real = alpha.parts[0]
        is_done = squares == 0
        if self.type.is_complex:
            is_done = is_done & (alpha.parts[1] == 0)
        norm = k.where(is_done, real, -k.copysign(real, k.sqrt(head)))
        safe = k.where(is_done, k.const(1, norm.type), norm)
        if not self.type.is_complex:
            tau = k.where(is_done, self.zero, (norm - alpha) / safe)
            return Reflector(tau, k.where(is_done, self.zero, 1.0 / (alpha - norm)), norm)
        zero = k.const(0, norm.type)
        tau = k.compound(
            self.type, k.where(is_done, zero, (norm - real) / safe), k.where(is_done, zero, -alpha.parts[1] / safe)
        )
        difference = k.compound(self.type, real - norm, alpha.parts[1])
        return Reflector(tau, k.where(is_done, self.zero, self.one / difference), k.compound(self.type, norm, zero))

    def keep(self, j: Value, reflector: Reflector, column: Value, inner: Value) -> None:
        """Keep the reflector, and the column of M: of the first threads, a column each, its product is `inner`."""
        k = self.k
        with k.when(k.tid == 0):
            for array, value in zip((self.taus, self.scales, self.betas), reflector, strict=True):
                array[j] = value
        with k.when((self.rank == 0) & (k.tid < self.width) & (column < j)):
            product = self.conjugate(self.scales[column] * inner)
            self.m[k.cast(column, i64) * self.m_pitch + k.cast(j, i64)] = product

    def inverse(self, made: Reflector) -> Value:
        """One over tau; infinity of zero, so that the reflector's part of a solution is zero."""
        return self.k.where(made.tau == self.zero, self.k.const(float("inf"), self.type), -(made.beta * made.scale))


class _Panel(QrPanelKernel):
    """The kernel while it is built."""

    def __init__(self, spec: QrPanelSpec) -> None:
        k = Builder("qr_panel", block=BLOCK, target="sm_80", min_blocks=1)
        super().__init__(k, spec.type, spec.height)
        self.spec = spec
        self.sums, self.lines = k.pointer("sums", spec.type), k.pointer("lines", spec.type)
        self.flags = k.pointer("flags", u32)
        self.take()
        self.partials = k.dynamic_shared(spec.type, self.num_groups * self.width)
        self.totals, self.row = (k.dynamic_shared(spec.type, self.width) for _ in range(2))

    def build(self) -> Kernel:
        k = self.k
        self.copy_in()
        with k.range(k.const(0, u32), self.num_columns) as j:
            self.sum_up(j)
            self.tell(j)
            reflector = self.reflector(self.row[j], self.totals[j].parts[0])
            inner = self.row[self.column] + self.conjugate(reflector.scale) * self.totals[self.column]
            self.keep(j, reflector, self.column, inner)
            self.update(j, reflector, inner)
            k.barrier()
        self.copy_out()
        return k.build()

    def sum_up(self, j: Value) -> None:
        """Put the products of column j with all, over this block's rows below, into `totals`."""
        k, column = self.k, self.column
        total = k.var(self.zero)
        with k.range(self.group, self.spec.height, self.num_groups) as row:
            elements = self.tile.at(row * self.line)
            with k.when(self.top + row > j):
                total.set(multiply_add(k, self.conjugate(elements[j]), elements[column], total.get()))
        self.partials[k.tid] = total.get()
        k.barrier()
        with k.when(k.tid < self.width):
            self.totals[column] = self.total_of_groups()
            has_diagonal = (j >= self.top) & (j < self.top + self.spec.height)
            with k.when(has_diagonal):
                self.row[column] = self.tile[(j - self.top) * self.line + column]
        if self.spec.is_alone:
            k.barrier()

    def tell(self, j: Value) -> None:
        """Let `totals` be those of all blocks, and `row` the one on the diagonal."""
        if self.spec.is_alone:
            return
        k, column = self.k, self.column
        half = self.matrix * 2 + j % 2
        has_diagonal = (j >= self.top) & (j < self.top + self.spec.height)
        with k.when(k.tid < self.width):
            place = (half * self.num_blocks + self.rank) * self.width + column
            self.sums[k.cast(place, i64)] = self.totals[column]
            with k.when(has_diagonal):
                self.lines[k.cast(half * self.width + column, i64)] = self.row[column]
        k.barrier()
        epoch = self.epoch + j
        flags = self.flags.at(k.cast(self.matrix * self.num_blocks, i64))
        with k.when(k.tid == 0):
            flags.store(k.cast(self.rank, i64), [epoch], order="release.gpu")
        with k.when((k.warp == 0) & (k.lane < self.num_blocks)), k.loop():
            k.break_if(flags.load(k.cast(k.lane, i64), order="acquire.gpu")[0] >= epoch)
        k.barrier()
        line = k.var(self.zero)
        with k.when(k.tid < self.width):
            line.set(self.lines[k.cast(half * self.width + column, i64)])
        blocks = [self.group + start for start in range(0, MAX_BLOCKS, self.num_groups)]
        # Every group of threads has some blocks, whose sums are loaded together.
        held = [k.where(block < self.num_blocks, block, k.const(0, u32)) for block in blocks]
        found = [self.sums[k.cast((half * self.num_blocks + x) * self.width + column, i64)] for x in held]
        total = self.zero
        for block, value in zip(blocks, found, strict=True):
            total = total + k.where(block < self.num_blocks, value, self.zero)
        self.partials[k.tid] = total
        k.barrier()
        with k.when(k.tid < self.width):
            self.totals[column] = self.total_of_groups()
            self.row[column] = line.get()
        k.barrier()

    def total_of_groups(self) -> Value:
        """The sum of what groups of threads left for a column."""
        added = self.partials[self.column]
        for group in range(1, self.num_groups):
            added = added + self.partials[self.column + group * self.width]
        return added

    def update(self, j: Value, reflector: Reflector, inner: Value) -> None:
        """Take the reflected off the columns to the right, in this block's rows."""
        k, column = self.k, self.column
        factor = -(self.conjugate(reflector.tau) * inner)
        below = factor * reflector.scale
        with k.range(self.group, self.spec.height, self.num_groups) as row:
            number = self.top + row
            elements = self.tile.at(row * self.line)
            with k.when((column > j) & (number >= j)):
                with k.when(number > j):
                    elements[column] = multiply_add(k, below, elements[j], elements[column])
                with k.otherwise():
                    elements[column] = elements[column] + factor


class QrPanel(NamedTuple):
    """A panel, of a matrix or of each of some.

    Attributes
    ----------
    type : Type
    shape : (int, int)
        Rows and columns.
    epoch : int
        Columns of the panels before.
    strides, v_strides, m_strides : (int, int)
        Elements from one row, and from one matrix, to the next of A, V and M.
    tau_move : int
    count : int
    start : int
        Number of the first matrix.
    """

    type: Type
    shape: tuple[int, int]
    epoch: int
    strides: tuple[int, int]
    v_strides: tuple[int, int]
    m_strides: tuple[int, int]
    tau_move: int
    count: int = 1  # type: ignore[assignment]  # instead of the method of tuples
    start: int = 0


def launch(panel: QrPanel, height: int, places: tuple[Argument, Argument, Argument, Argument], board: Board) -> Launch:
    """Return the launch that factors panels in place.

    Parameters
    ----------
    panel : QrPanel
    height : int
        Rows of a block, see `lu_panel.block_height`.
    places : tuple of Argument
        The panel's first elements of A, V, M and tau.
    board : Board
        Its flags are zero before the first panel.
    """
    rows, columns = panel.shape
    num_blocks = -(-rows // height)
    spec = QrPanelSpec(panel.type, height, is_alone=num_blocks == 1)
    constants = (rows, columns, num_blocks, panel.epoch + 1)
    strides = (*panel.strides, *panel.v_strides, *panel.m_strides, panel.tau_move)
    flops = 4 * (4 if panel.type.is_complex else 1) * rows * columns**2 * panel.count
    work = Work(flops, 3 * rows * columns * panel.type.nbytes * panel.count)
    flags = board.flags.at(panel.start * num_blocks * u32.nbytes)
    return Launch(
        make(spec),
        (num_blocks * panel.count, 1, 1),
        (*places, board.rows, board.diagonals, flags),
        (*constants, *strides),
        work,
    )


__all__ = ["QrPanel", "QrPanelKernel", "QrPanelSpec", "Reflector", "launch", "make"]
