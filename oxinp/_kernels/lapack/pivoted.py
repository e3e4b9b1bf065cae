"""QR with column pivoting, as LAPACK's xGEQP3: the norms, panels, and what is left after each by one product."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.lapack import block_reflectors, lu_panel, pivoted_strips, rows, scaling
from oxinp._kernels.lapack.lu import Stack, contiguous
from oxinp._kernels.lapack.qr import Qr, upper
from oxinp._kernels.lapack.resident import WIDTH
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Operand, Output
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step

BLOCK, STRIP = 256, 32
GROUPS = BLOCK // STRIP
PITCH = 16  # elements that rows are multiples of where we choose


def is_possible(type: Type, shape: tuple[int, int], device: Device) -> bool:
    """Whether there are kernels for a matrix of a shape."""
    return pivoted_strips.is_possible(type, shape, device) and shape[0] <= lu_panel.most_rows(type, device)


@cache
@retraceable
def make_norms(type: Type) -> Kernel:
    """The kernel that computes the norms of columns, twice: a block has 32 columns, a warp every eighth row of them."""
    k = Builder("column_norms", block=BLOCK, target="sm_80")
    real = type.parts[0]
    norms, exact = (k.pointer(name, real, "w") for name in ("norms", "exact"))
    a = k.pointer("a", type, "r")
    num_rows, columns, pitch = (k.scalar(name, i64) for name in ("num_rows", "columns", "pitch"))
    squares = k.shared(real, BLOCK)
    column = k.cast(k.ctaid * STRIP + k.lane, i64)
    total = k.var(k.const(0, real))
    with k.when(column < columns), k.range(k.cast(k.warp, i64), num_rows, GROUPS) as row:
        for part in a[row * pitch + column].parts:
            total.set(k.fma(part, part, total.get()))
    squares[k.tid] = total.get()
    k.barrier()
    with k.when((k.tid < STRIP) & (column < columns)):
        square = squares[k.tid]
        for group in range(1, GROUPS):
            square = square + squares[k.tid + group * STRIP]
        for array in (norms, exact):
            array[column] = k.sqrt(square)
    return k.build()


class _Pivoted:
    """A plan while it is made."""

    def __init__(self, type: Type, shape: tuple[int, int], device: Device) -> None:
        self.type, self.shape, self.device = type, shape, device
        self.depth = min(shape)
        self.scratch = Scratch()
        self.steps: list[Step] = []
        pitch = -(-shape[1] // PITCH) * PITCH
        self.stack = Stack(type, 1, *shape, pitch, shape[0] * pitch)
        self.held = self.scratch.take(shape[0] * pitch * type.nbytes)
        self.p, self.f = (self.scratch.take(extent * WIDTH * type.nbytes) for extent in shape)
        self.norms, self.exact = (self.scratch.take(shape[1] * type.parts[0].nbytes) for _ in range(2))
        self.more_nbytes = 0

    def factor(self, a: Operand, v: tuple[Argument, int], tau: Argument, order_of: Argument) -> None:
        """Append what leaves R, with reflectors below, in place of a copy of A."""
        (num_rows, columns), stack, type_ = self.shape, self.stack, self.type
        within = Operand(type_, (stack.pitch, 1))
        moved = elementwise.plan(self.shape, (a,), (), (Output(0, within),), self.device)
        words = self.scratch.take(scaling.WORD_NBYTES)
        told = pivoted_strips.board(self.scratch, type_, self.shape, self.device)
        self.steps += moved.on(out0=self.held)
        self.steps += scaling.scaled(stack, self.held, words)
        self.steps += [
            Fill(v[0], num_rows * v[1] * type_.nbytes, 0),
            Fill(told.flags, told.flags_nbytes, 0),
            rows.start(order_of, columns, 1),
            Launch(
                make_norms(type_),
                (-(-columns // STRIP), 1, 1),
                (self.norms, self.exact, self.held),
                (num_rows, columns, stack.pitch),
                Work(nbytes=num_rows * columns * type_.nbytes),
            ),
        ]
        places = {
            "a": self.held, "p": self.p, "f": self.f, "v": v[0], "tau": tau, "norms": self.norms, "exact": self.exact,
            "order_of": order_of,
        }  # fmt: skip
        for first in range(0, self.depth, WIDTH):
            width = min(WIDTH, self.depth - first)
            self.steps.append(
                pivoted_strips.launch(type_, self.shape, (first, width), (stack.pitch, v[1]), places, told, self.device)
            )
            self.update(first, width)
        self.steps.append(scaling.scaled_back(stack, self.held, words))

    def update(self, first: int, width: int) -> None:
        """Append what takes V F^H of a panel off the rows and columns after it."""
        (num_rows, columns), stack, type_, low = self.shape, self.stack, self.type, first + width
        if low >= min(num_rows, columns):
            return
        c, at, nbytes = stack.part(low, low), self.held.at(stack.at(low, low)), WIDTH * type_.nbytes
        left = Matrices(type_, (WIDTH, 1), math.gcd(256, width * nbytes))
        right = Matrices(type_, (1, WIDTH), math.gcd(256, low * nbytes))
        variant = Variant(is_b_conjugated=type_.is_complex)
        shape = (num_rows - low, columns - low)
        made = select.plan_update(shape, width, left, right, c, self.device, variant)
        self.more_nbytes = max(self.more_nbytes, made.scratch_nbytes)
        places = {"out0": at, "in0": self.p.at(width * nbytes), "in1": self.f.at(low * nbytes), "in2": at}
        self.steps += made.on(scratch=Argument("more"), **places)


def plan(shape: tuple[int, int], a: Operand, device: Device, mode: str) -> Plan:
    """Return the launches of A P = Q R with the diagonal of R descending in magnitude.

    The first output is which column of A each of A P is, u32.

    Parameters
    ----------
    shape : (int, int)
        See `is_possible`.
    a : Operand
    device : Device
    mode : str
        What the others are: ``"reduced"`` and ``"complete"`` Q and R, ``"r"`` R alone, ``"raw"`` R with the
        reflectors below, and their tau.
    """
    (num_rows, columns), type_, made = shape, a.type, _Pivoted(a.type, shape, device)
    depth, order_of, outputs = made.depth, Argument("out0"), (Argument("out1"), Argument("out2"))
    height = num_rows if mode == "complete" else depth
    tau = outputs[1] if mode == "raw" else made.scratch.take(depth * type_.nbytes)
    panels = contiguous(type_, 1, num_rows, depth)
    qr = Qr(panels, made.held, tau, made.scratch, device, height)
    made.factor(a, (qr.made.v_place, qr.made.v.pitch), tau, order_of)
    qr.steps = made.steps
    qr.more_nbytes = made.more_nbytes
    if mode == "raw":
        whole = Operand(type_, (made.stack.pitch, 1))
        moved = elementwise.plan(shape, (whole,), (), (Output(0, Operand(type_, (columns, 1))),), device)
        qr.steps += moved.on(out0=outputs[0], in0=made.held)
        return qr.plan()
    r = contiguous(type_, 1, num_rows if mode in ("complete", "r") else depth, columns)
    qr.steps.append(upper(r, outputs[mode != "r"], (made.stack, made.held)))
    if mode != "r":
        qr.steps.append(upper(contiguous(type_, 1, num_rows, height), outputs[0], None))
        block_reflectors.apply(qr, tau, (num_rows, height), outputs[0], skipped=0)
    return qr.plan()


__all__ = ["is_possible", "make_norms", "plan"]
