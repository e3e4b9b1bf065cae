"""Systems by LU with partial pivoting in one launch: blocks have strips of columns, and wait for those to their left.

Data layout and who owns what: see `strips`. A flag per panel, in the workspace, says that it is there.

Algorithm: a block with a strip of the matrix waits for the panels to the left, one after the other, eliminates with
each, and then factors its strip, which becomes the next panel: per column, warps and then the block find the row of the
element of largest magnitude, the first of equal ones, by comparing magnitudes as integers; that row goes to all threads
through shared memory. Rows do not move meanwhile: each has the position to which exchanges would have brought it, where
it lies in the panel. A block with right-hand sides eliminates with all panels, and substitutes back with them.

Blocks wait for strips of smaller numbers alone, which begin before them. Flags are stored with release behind a barrier
that all stores are before, and loaded with acquire before a barrier that all loads are behind.

Flops: those of the system; the chain is that of the panels, each of which is `width` columns of two barriers each, and
one way from block to block. Nothing is exchanged between blocks per column.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.lapack.panel_kernel import NOWHERE, WARP, WIDTHS
from oxinp._kernels.lapack.strips import StripKernel, StripLine
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.cluster_store import WORDS
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu import Fills, Stack
    from oxinp._ptx.value import Value

SHAPES = ((128, 1), (256, 1), (512, 1), (512, 2))  # threads of a block, rows of a thread
MOST_TURNS = 2  # strips of a block


class StripSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    num_threads : int
        Of a block.
    num_lines : int
        Rows of a thread.
    follows : bool
        It may begin before the kernel before it has ended (sm_90).
    """

    type: Type
    num_threads: int
    num_lines: int = 1
    follows: bool = False

    @property
    def width(self) -> int:
        """Columns of a strip: the registers of a thread are as many, however many rows it has."""
        return WIDTHS[self.type.nbytes] // self.num_lines

    @property
    def height(self) -> int:
        """Rows of a strip."""
        return self.num_threads * self.num_lines

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        line = self.width * self.type.nbytes + 16
        return (self.height + 2 * self.width + 4) * line + 1024


def choose(stack: Stack, device: Device) -> StripSpec | None:
    """Return the kernel for [A B] of one system; None where there is none, or its blocks would have too many strips."""
    if stack.count > 1:
        return None
    specs = (StripSpec(stack.type, *shape, device.cc >= (9, 0)) for shape in SHAPES)
    return next((spec for spec in specs if _is_possible(spec, stack, device)), None)


def _is_possible(spec: StripSpec, stack: Stack, device: Device) -> bool:
    has_room = spec.height >= stack.num_rows and spec.shared_nbytes <= device.max_shared_nbytes
    return has_room and sum(_num_strips(spec, stack)) <= MOST_TURNS * device.num_sms


def _num_strips(spec: StripSpec, stack: Stack) -> tuple[int, int]:
    """Return how many strips A has, and B."""
    return -(-stack.num_rows // spec.width), -(-(stack.num_columns - stack.num_rows) // spec.width)


@cache
@retraceable
def make(spec: StripSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Strips(spec).build()


class _Strips(StripKernel):
    """The kernel while it is built."""

    def __init__(self, spec: StripSpec) -> None:
        self.spec, self.type, self.real = spec, spec.type, spec.type.parts[0]
        target = "sm_90" if spec.follows else "sm_80"
        self.k = k = Builder("lu_strips", block=spec.num_threads, target=target, min_blocks=1)
        self.a, self.status = k.pointer("a", spec.type), k.pointer("status", u64)
        self.panels, self.positions = k.pointer("panels", spec.type), k.pointer("positions", u32)
        self.flags = k.pointer("flags", u32)
        names = ("order", "last_column", "num_panels", "num_strips", "height")
        self.order, self.last_column, self.num_panels, self.num_strips, self.height = (
            k.scalar(name, u32) for name in names
        )
        self.pitch = k.scalar("pitch", i64)
        self.columns, self.vector = spec.width, max(1, 16 // spec.type.nbytes)
        self.num_warps = spec.num_threads // WARP
        self.take()
        self.partials = k.dynamic_shared(u32, self.num_warps * WORDS)
        self.pivot_row = k.dynamic_shared(spec.type, self.columns)
        self.inverse_pivot, self.scale = k.dynamic_shared(spec.type, 1), k.dynamic_shared(self.real, 1)
        self.winner = k.dynamic_shared(u32, 1)
        numbers = [k.tid + i * spec.num_threads if i else k.tid for i in range(spec.num_lines)]
        self.lines = [StripLine(number, self.tile.at(number * self.line), self.order) for number in numbers]

    def build(self) -> Kernel:
        k = self.k
        if self.spec.follows:
            follow(k)
        with k.range(k.ctaid + 0, self.num_strips, k.nctaid + 0) as strip:
            is_left = strip < self.num_panels
            first = k.where(is_left, strip * self.columns, self.order + (strip - self.num_panels) * self.columns)
            end = k.where(is_left, self.order, self.last_column)
            self.rows_in(first, end)
            with k.range(k.const(0, u32), k.min(strip, self.num_panels)) as number:
                self.wait(number)
                self.forward(number)
            with k.when(is_left):
                self.factor(strip, first)
            with k.otherwise():
                with k.range(k.const(0, u32), self.num_panels) as number:
                    self.backward(self.num_panels - 1 - number)
                self.rows_out(first, end)
            k.barrier()
        return k.build()

    def wait(self, number: Value) -> None:
        """Wait for a panel."""
        k = self.k
        with k.when(k.tid == 0), k.loop():
            k.break_if(self.flags.load(k.cast(number, i64), order="acquire.gpu")[0] != 0)
        k.barrier()

    # -- a panel

    def factor(self, number: Value, top: Value) -> None:
        """Factor the strip that begins at a row of the matrix, and let others have it."""
        k = self.k
        self.first_zero = k.var(NOWHERE, u32)
        panel, positions = self.panel(number), self.positions.at(number * self.height)
        for line in self.lines:
            with k.when(line.row < top):
                for i, value in enumerate(line.values):
                    panel[line.row + i * self.height] = value.get()
            line.position = k.var(line.row - top)
            line.is_present = line.is_there & (line.row >= top)
        with k.range(k.const(0, u32), k.min(self.order - top, self.columns)) as column:
            self.search(column)
            self.eliminate(column)
        for line in self.lines:
            with k.when(line.is_there):
                positions[line.row] = top + line.position
            with k.when(line.is_present):
                self.keep_upper(line)
                for i in range(self.columns):
                    panel[top + line.position + i * self.height] = line.tile[i]
        k.barrier()
        with k.when(k.tid == 0):
            self.flags.store(k.cast(number, i64), [k.const(1, u32)], order="release.gpu")
            with k.when(self.first_zero != NOWHERE):
                self.status.atomic("min", 0, k.cast(top + self.first_zero, u64))

    def search(self, column: Value) -> None:
        """Put the pivot's row into shared memory, with what divides by the pivot."""
        k = self.k
        words, others = self.compare(column, self.lines)
        is_best = k.lane == self.best(words, WARP)
        with k.when(is_best):
            self.partials.store(k.warp * WORDS, [*words, k.const(0, u32)])
        k.barrier()
        found = self.some(self.partials, self.num_warps)
        is_best = is_best & (k.warp == self.best(found, self.num_warps))
        with k.when(is_best):
            self.winner[0] = words[2]
        for line, is_next in reversed(list(zip(self.lines[1:], others, strict=True))):
            self.tell(is_best & is_next, line)
            is_best = is_best & ~is_next
        self.tell(is_best, self.lines[0])
        k.barrier()

    def tell(self, is_best: Value, line: StripLine) -> None:
        """Put the row of a thread into shared memory if it is the pivot's."""
        k = self.k
        with k.when(is_best):
            self.put(self.pivot_row, line)
            self.inverse_pivot[0], self.scale[0] = self.reciprocal(line.values[0].get())

    def eliminate(self, column: Value) -> None:
        """Exchange two positions, and eliminate a column."""
        k, winner = self.k, self.winner[0]
        inverse, scale, pivot = self.inverse_pivot[0], self.scale[0], self.pivot_row[0]
        is_first = (pivot == k.const(0, self.type)) & (self.first_zero == NOWHERE)
        self.first_zero.set(k.where(is_first, column, self.first_zero))
        for line in self.lines:
            position = line.position.get()
            is_pivot, is_diagonal = position == winner, position == column
            line.position.set(k.where(is_pivot, column, k.where(is_diagonal, winner, position)))
            with k.when(line.is_present & (line.position > column)):
                factor = self.scaled(line.values[0].get() * inverse, scale)
                line.tile[column] = factor
                self.update(k.const(self.columns, u32) - column, self.pivot_row, -factor, line, 0)

    def keep_upper(self, line: StripLine) -> None:
        """Put what a pivot's row has of U behind its multipliers."""
        k, position = self.k, line.position.get()
        with k.when(position < self.columns):
            upper = line.tile.at(position)
            for i, value in enumerate(line.values):
                with k.when(position + i < self.columns):
                    upper[i] = value.get()


def plan(spec: StripSpec, stack: Stack, device: Device, fill: Fills | None = None) -> Plan:
    """Return the launches that solve A X = B, where [A B] is a matrix with more columns than rows, in place.

    Outputs are the matrix, X in the place of B, and the status, see `diagonal`; what becomes of A is of no use.

    Parameters
    ----------
    spec : StripSpec
        What `choose` gives.
    stack : Stack
    device : Device
    fill : callable, optional
        See `lu.plan_factor`.
    """
    scratch, order, width = Scratch(), stack.num_rows, stack.num_columns
    num_panels, others = _num_strips(spec, stack)
    height = -(-order // WARP) * WARP
    panels = scratch.take(num_panels * spec.width * height * spec.type.nbytes)
    positions, flags = scratch.take(num_panels * height * u32.nbytes), scratch.take(num_panels * u32.nbytes)
    a, status = Argument("out0"), Argument("out1")
    num_strips = num_panels + others
    grid = (min(num_strips, device.num_sms), 1, 1)
    constants = (order, width, num_panels, num_strips, height, stack.pitch)
    flops = order**3 * 2 // 3 + 2 * order**2 * (width - order)
    work = Work((4 if spec.type.is_complex else 1) * flops, 2 * order * width * spec.type.nbytes)
    return scratch.plan(
        [
            Fill(status, STATUS_NBYTES, 0xFF),
            Fill(flags, num_panels * u32.nbytes, 0),
            *(fill(0, width) if fill is not None else ()),
            Launch(make(spec), grid, (a, status, panels, positions, flags), constants, work),
        ]
    )


__all__ = ["StripSpec", "choose", "make", "plan"]
