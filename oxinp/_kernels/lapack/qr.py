"""Householder QR by block reflectors I - V T V^H, of whose T the inverse M is kept.

M is what V^H V has above its diagonal, and 1 / tau on it (C. Puglisi, 1992; T. Joffrain and others, 2006): M of two
reflectors beside each other needs one product, and T B is a triangular system. Matrices are factored block column by
block column, these by halves down to panels.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3 import trsm
from oxinp._kernels.blas3.plan import TriangularSystem
from oxinp._kernels.choice import Choice, decide
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import TRIANGULAR, Form, Matrices
from oxinp._kernels.gemm.operand import contiguous as contiguous_strides
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.lapack import cluster, lu_panel, qr_cluster, qr_panel
from oxinp._kernels.lapack.lu import Stack
from oxinp._kernels.lapack.panel_kernel import WIDTHS
from oxinp._kernels.lapack.qr_panel import QrPanel
from oxinp._kernels.lapack.rows import each_element, spread
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work, beside
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step
    from oxinp._ptx.value import Value

UPPER = Form(TRIANGULAR, is_lower=False)
BLOCK = 256
BLOCK_WIDTHS = (64, 128, 256, 512)  # columns of a block reflector
GROUPS = (32, 128, 256, 512)
LOOKS_AHEAD = True  # where that was measured to be faster, see `block_columns`
AHEAD = 4096  # columns from which it is
LARGE = 2048  # columns from which a block reflector has twice as many as a system of `trsm`


class UpperSpec(NamedTuple):
    """One kernel that writes trapezoids.

    Attributes
    ----------
    type : Type
    is_identity : bool
        What is written is the identity; nothing is read.
    """

    type: Type
    is_identity: bool


@cache
@retraceable
def make_upper(spec: UpperSpec) -> Kernel:
    """The kernel of a Spec: what matrices have on and above the diagonal, with zeros below; see `upper`."""
    k = Builder("upper_trapezoid", block=BLOCK, target="sm_80")
    out = k.pointer("out", spec.type, "w")
    a = None if spec.is_identity else k.pointer("a", spec.type, "r")
    rows = k.scalar("rows", u32)
    pitch, move, out_pitch, out_move = (k.scalar(name, i64) for name in ("pitch", "move", "out_pitch", "out_move"))
    zero = k.const(0, spec.type)
    for line, column in each_element(k):
        matrix = line / rows
        row = line - matrix * rows
        value = k.var(zero)
        if a is None:
            value.set(k.where(row == column, k.const(1, spec.type), zero))
        else:
            with k.when(row <= column):
                value.set(a.at(k.cast(matrix, i64) * move).at(k.cast(row, i64) * pitch)[column])
        out.at(k.cast(matrix, i64) * out_move).at(k.cast(row, i64) * out_pitch)[column] = value.get()
    return k.build()


def upper(out: Stack, to: Argument, source: tuple[Stack, Argument] | None) -> Launch:
    """Return the launch that writes upper trapezoids, or identities where there is no source."""
    total = out.count * out.num_rows * out.num_columns
    pitch, move = (0, 0) if source is None else (source[0].pitch, source[0].move)
    grid, spreading = spread(out.count * out.num_rows, out.num_columns)
    constants = (out.num_rows, pitch, move, out.pitch, out.move, *spreading)
    arguments = (to,) if source is None else (to, source[1])
    kernel = make_upper(UpperSpec(out.type, source is None))
    work = Work(nbytes=(1 if source is None else 2) * total * out.type.nbytes)
    return Launch(kernel, grid, arguments, constants, work)


class Reflectors(NamedTuple):
    """Block reflectors: V, of as many columns as there are reflectors, and M, the M of every block under each other.

    `block`, `group` and `looks_ahead` are those of `BlockColumns`.
    """

    v: Stack
    v_place: Argument
    m: Stack
    m_place: Argument
    block: int
    group: int
    looks_ahead: bool


class BlockColumns(NamedTuple):
    """How block columns are factored.

    Attributes
    ----------
    width : int
        Columns that have one block reflector.
    group : int
        Columns among which every panel is applied to all to its right; beyond, halves are.
    looks_ahead : bool
        The next block column is factored while the rest of the matrix is multiplied by the block reflector before.
    """

    width: int
    group: int = GROUPS[0]
    looks_ahead: bool = False


def block_columns(stack: Stack, device: Device) -> BlockColumns:
    """Return the width that was measured to be best; else a system of `trsm`, or two where products are large."""
    ahead = (False,) if stack.count > 1 else (False, True)
    legal = tuple(BlockColumns(*way) for way in product(BLOCK_WIDTHS, GROUPS, ahead) if way[1] <= way[0])
    depth = min(stack.num_rows, stack.num_columns)
    width = trsm.length(stack.type) * (2 if stack.count == 1 and depth >= LARGE else 1)
    has_cluster = not stack.type.is_complex and qr_cluster.choose(stack.type, stack.num_rows, device) is not None
    looks_ahead = LOOKS_AHEAD and stack.count == 1 and depth >= AHEAD and has_cluster
    default = BlockColumns(width, width if stack.count == 1 else GROUPS[0], looks_ahead)
    choice = Choice(
        "qr/block",
        (stack.type.name,),
        (),
        (stack.count, stack.num_rows, stack.num_columns),
        BlockColumns,
        legal.__contains__,
        lambda: default,
        lambda: [default, *legal],
    )
    found: BlockColumns = decide(choice, device)
    return found


def reflectors(stack: Stack, scratch: Scratch, device: Device) -> Reflectors:
    """Return where the reflectors of matrices lie in the workspace."""
    type_, count, depth = stack.type, stack.count, min(stack.num_rows, stack.num_columns)
    block, group, looks_ahead = block_columns(stack, device)
    pitch = -(-depth // 16) * 16
    v = Stack(type_, count, stack.num_rows, depth, pitch, stack.num_rows * pitch)
    m = Stack(type_, count, depth, block, block, depth * block)
    return Reflectors(
        v,
        scratch.take(count * v.move * type_.nbytes),
        m,
        scratch.take(count * m.move * type_.nbytes),
        block,
        group,
        looks_ahead,
    )


class Qr:
    """Factorisations while they are planned: steps are appended to `steps`.

    Parameters
    ----------
    stack : Stack
        The matrices, in place.
    place : Argument
    tau : Argument
        min(rows, columns) elements per matrix.
    scratch : Scratch
    device : Device
    columns : int
        Most columns of what else is multiplied by the reflectors.
    """

    def __init__(
        self, stack: Stack, place: Argument, tau: Argument, scratch: Scratch, device: Device, columns: int = 0
    ) -> None:
        self.stack, self.place, self.tau, self.scratch, self.device = stack, place, tau, scratch, device
        self.type, self.count = stack.type, stack.count
        self.depth = min(stack.num_rows, stack.num_columns)
        self.width = WIDTHS[stack.type.nbytes]
        self.made = reflectors(stack, scratch, device)
        self.height = lu_panel.block_height(stack.type, stack.num_rows, device, are_many=stack.count > 1)
        most = -(-stack.num_rows // self.height)
        self.board = lu_panel.board(scratch, stack.type, most, stack.count)
        self.at_once = stack.count if most == 1 else max(1, device.num_sms // most)
        widest = max(stack.num_rows, stack.num_columns, columns)
        nbytes = stack.count * self.made.block * widest * stack.type.nbytes
        self.inner, self.more = scratch.take(nbytes), Argument("more")
        self.others = (scratch.take(nbytes), Argument("other")) if self.made.looks_ahead else None  # of steps beside
        self.more_nbytes = 0
        self.steps: list[Step] = []

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First and last column of every block column."""
        block = self.made.block
        return [(low, min(low + block, self.depth)) for low in range(0, self.depth, block)]

    def factor(self) -> None:
        """Append what leaves R, with the reflectors below, in place of the matrices, and the reflectors."""
        made = self.made
        nbytes = made.v.count * made.v.move * self.type.nbytes
        self.steps += [Fill(self.board.flags, self.board.flags_nbytes, 0), Fill(made.v_place, nbytes, 0)]
        if made.looks_ahead:
            self.look_ahead()
            return
        for low, high in self.blocks:
            self.factor_columns(low, high, low)
            self.update((low, high), (high, self.stack.num_columns))

    def look_ahead(self) -> None:
        """Factor every block column while what is right of it is multiplied by the block reflector before."""
        end, blocks = self.stack.num_columns, self.blocks
        self.factor_columns(*blocks[0], blocks[0][0])
        for own, following in pairwise(blocks):
            self.update(own, following)
            before, self.steps = self.steps, []
            self.swap()
            self.factor_columns(*following, following[0])
            self.swap()
            urgent, self.steps = self.steps, []
            whole, self.device = self.device, self.remainder(following[0])
            self.update(own, (following[1], end))
            self.device, self.steps = whole, [*before, *beside(urgent, self.steps)]
        self.update(blocks[-1], (blocks[-1][1], end))

    def remainder(self, low: int) -> Device:
        """What a panel from a row on leaves of the device."""
        spec = qr_cluster.choose(self.type, self.stack.num_rows - low, self.device)
        return cluster.remainder(self.device, spec)

    def swap(self) -> None:
        """Let steps have the workspace of those that run beside them."""
        assert self.others is not None
        self.others, (self.inner, self.more) = (self.inner, self.more), self.others

    def update(self, own: tuple[int, int], columns: tuple[int, int]) -> None:
        """Append what multiplies columns of the matrix with the adjoint of a block reflector, if there are any."""
        if columns[0] < columns[1]:
            self.apply(own, own[0], self.stack, self.place, columns, is_adjoint=True)

    def form(self, q: Stack, place: Argument) -> None:
        """Append what makes the first columns of Q."""
        self.steps.append(upper(q, place, None))
        for low, high in reversed(self.blocks):
            self.apply((low, high), low, q, place, (low, q.num_columns), is_adjoint=False)

    def factor_columns(self, low: int, high: int, block: int) -> None:
        """Factor some columns of a block column, which begins at `block`."""
        if high - low <= self.width:
            self.factor_panel(low, high, block)
            return
        if high - low <= self.made.group:
            for start in range(low, high, self.width):
                end = min(start + self.width, high)
                self.factor_panel(start, end, block)
                if end < high:
                    self.apply((start, end), block, self.stack, self.place, (end, high), is_adjoint=True)
            self.join_panels(low, high, block)
            return
        middle = low + -(-(high - low) // (2 * self.width)) * self.width
        self.factor_columns(low, middle, block)
        self.apply((low, middle), block, self.stack, self.place, (middle, high), is_adjoint=True)
        self.factor_columns(middle, high, block)
        self.join(low, middle, high, block)

    def factor_panel(self, low: int, high: int, block: int) -> None:
        stack, made, nbytes = self.stack, self.made, self.type.nbytes
        for start in range(0, self.count, self.at_once):
            panel = QrPanel(
                self.type,
                (stack.num_rows - low, high - low),
                low,
                (stack.pitch, stack.move),
                (made.v.pitch, made.v.move),
                (made.m.pitch, made.m.move),
                self.depth,
                min(self.at_once, self.count - start),
                start,
            )
            places = (
                self.place.at(stack.at(low, low) + start * stack.move * nbytes),
                made.v_place.at(made.v.at(low, low) + start * made.v.move * nbytes),
                made.m_place.at(made.m.at(low, low - block) + start * made.m.move * nbytes),
                self.tau.at((low + start * self.depth) * nbytes),
            )
            spec = qr_cluster.choose(self.type, panel.shape[0], self.device) if self.count == 1 else None
            if spec is not None:
                self.steps.append(qr_cluster.launch(spec, panel, places))
            else:
                self.steps.append(qr_panel.launch(panel, self.height, places, self.board))

    def product(self, row: int, columns: tuple[int, int], right: Matrices, source: Argument, width: int) -> None:
        """Append what makes V^H B, of rows from `row` on, in `inner`."""
        v = self.made.v
        batch, moves = ((self.count,), (v.move,)) if self.count > 1 else ((), ())
        own = v.part(row, columns[0])
        left = Matrices(self.type, (*moves, 1, v.pitch), own.alignment)
        shape = (*batch, columns[1] - columns[0], width)
        variant = Variant(is_a_conjugated=self.type.is_complex)
        plan = select.plan_product(shape, v.num_rows - row, left, right, self.device, variant)
        self.more_nbytes = max(self.more_nbytes, plan.scratch_nbytes)
        at = self.made.v_place.at(v.at(row, columns[0]))
        self.steps += plan.on(out0=self.inner, in0=at, in1=source, scratch=self.more)

    def apply(
        self,
        own: tuple[int, int],
        block: int,
        target: Stack,
        place: Argument,
        columns: tuple[int, int],
        *,
        is_adjoint: bool,
    ) -> None:
        """Append what multiplies columns of a matrix from the left with a block reflector, or its adjoint."""
        made, (low, high), width = self.made, own, columns[1] - columns[0]
        at = place.at(target.at(low, columns[0]))
        self.product(low, own, target.part(low, columns[0]), at, width)
        m, form = made.m.part(low, low - block), UPPER
        if is_adjoint:
            m, form = blas3.transposed(m, form, is_conjugated=True)
        size = (high - low) * width
        system = TriangularSystem((high - low, width), m, form, True, width, 256, self.count, made.m.move, size)
        solved = blas3.plan_solve(system, self.device)
        self.steps += solved.on(in0=made.m_place.at(made.m.at(low, low - block)), out0=self.inner)
        batch, moves = ((self.count,), (size,)) if self.count > 1 else ((), ())
        c = target.part(low, columns[0])
        inner = Matrices(self.type, (*moves, width, 1), 256)
        shape = (*batch, made.v.num_rows - low, width)
        plan = select.plan_update(shape, high - low, made.v.part(low, low), inner, c, self.device)
        self.steps += plan.on(out0=at, in0=made.v_place.at(made.v.at(low, low)), in1=self.inner, in2=at)

    def join(self, low: int, middle: int, high: int, block: int) -> None:
        """Append what makes M of two block reflectors that of both: V^H V of one with the other."""
        made, width = self.made, high - middle
        source = made.v_place.at(made.v.at(middle, middle))
        self.product(middle, (low, middle), made.v.part(middle, middle), source, width)
        shape = (self.count, middle - low, width)
        target = Operand(self.type, (made.m.move, made.m.pitch, 1), made.m.part(low, middle - block).alignment)
        source_ = Operand(self.type, contiguous_strides(shape))
        moved = elementwise.plan(shape, (source_,), (), (Output(0, target),), self.device)
        self.steps += moved.on(out0=made.m_place.at(made.m.at(low, middle - block)), in0=self.inner)

    def join_panels(self, low: int, high: int, block: int) -> None:
        """Append what makes M of the block reflectors of panels that of all: V^H V beside those of panels."""
        made, width = self.made, high - low
        self.product(low, (low, high), made.v.part(low, low), made.v_place.at(made.v.at(low, low)), width)
        shape = (self.count, width, width)
        m = Operand(self.type, (made.m.move, made.m.pitch, 1), made.m.part(low, low - block).alignment)
        tau = Operand(self.type, (self.depth, 0, 1), self.type.nbytes)
        inputs = (Operand(self.type, contiguous_strides(shape)), tau, ScalarOperand(i64))
        launch = elementwise.plan(shape, inputs, (_joined(self.type),), (Output(3, m),), self.device).launch
        # The width, which is the last input, is a constant here.
        moved = Plan((launch._replace(arguments=launch.arguments[:-1], constants=(width, *launch.constants)),))
        places = {"in0": self.inner, "in1": self.tau.at(low * self.type.nbytes)}
        self.steps += moved.on(out0=made.m_place.at(made.m.at(low, low - block)), **places)

    def plan(self) -> Plan:
        """Return the plan of the steps that have been appended."""
        names = ("more", "other") if self.others is not None else ("more",)
        places = {name: self.scratch.take(self.more_nbytes) for name in names}
        return self.scratch.plan(step.on(places) for step in self.steps)


@cache
def _joined(type: Type) -> Instr:
    """The instruction that takes elements of square matrices, but on their diagonal 1 / tau, see `QrPanelKernel`."""

    def lower(k: Builder, index: Value, own: Value, tau: Value, order: Value) -> Value:
        line = index / order
        is_diagonal = index - line * order == line - line / order * order
        zero, one = k.const(0, type), k.const(1, type)
        is_zero = tau == zero
        inverse = one / k.where(is_zero, one, tau)
        return k.where(is_diagonal, k.where(is_zero, k.const(float("inf"), type), inverse), own)

    lowering: Any = lower
    lowering.wants_index = True
    return Instr(lower, type, (0, 1, 2))


__all__ = ["Qr", "Reflectors", "UpperSpec", "make_upper", "reflectors", "upper"]
