"""Matrices reduced to Hessenberg form, as LAPACK's xGEHRD, and multiplied by the reflectors that did so, as its xORMHR.

Panels are `hessenberg_panel`'s; what is left after each is brought up to date by four products as wide as the panel.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.lapack import block_reflectors, hessenberg_panel, lu_panel
from oxinp._kernels.lapack.lu import Stack, contiguous
from oxinp._kernels.lapack.qr import Qr
from oxinp._kernels.lapack.resident import WIDTH
from oxinp._kernels.plan import Argument, Copy, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Operand, Output
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step

BLOCK = 256
PITCH = 16  # elements that rows of the workspace are multiples of


def is_possible(type: Type, order: int, device: Device) -> bool:
    """Whether there are kernels for a matrix of an order."""
    return order > 2 and hessenberg_panel.is_possible(type, order, device) and order <= lu_panel.most_rows(type, device)


def reflectors_shape(order: int) -> tuple[int, int]:
    """Return the shape of the matrix that reflectors are columns of, one row and column less, rows padded."""
    return order - 1, -(-(order - 1) // PITCH) * PITCH


@cache
@retraceable
def make_upper_rows(type: Type) -> Kernel:
    """The kernel that writes what of H is left in A: of every column the rows up to the first of its panel."""
    k = Builder("hessenberg_upper_rows", block=BLOCK, target="sm_80")
    h, a = k.pointer("h", type, "w"), k.pointer("a", type, "r")
    total, order, pitch = (k.scalar(name, i64) for name in ("total", "order", "pitch"))
    with k.grid_stride(total) as number:
        row = number / order
        column = number - row * order
        with k.when(row <= column / WIDTH * WIDTH):
            h[number] = a[row * pitch + column]
    return k.build()


def plan_reduce(order: int, a: Operand, device: Device) -> Plan:
    """Return the launches of Q^H A Q = H.

    Outputs are H, zero below its subdiagonal; the reflectors, see `reflectors_shape`; and their tau, `order` elements.

    Parameters
    ----------
    order : int
        See `is_possible`.
    a : Operand
        A matrix whose squares are normal numbers.
    device : Device
    """
    return _Reduction(a.type, order, device).plan(a)


class _Reduction:
    """A plan while it is made."""

    def __init__(self, type: Type, order: int, device: Device) -> None:
        self.type, self.order, self.device = type, order, device
        self.scratch = Scratch()
        self.steps: list[Step] = []
        pitch = -(-order // PITCH) * PITCH
        self.stack = Stack(type, 1, order, order, pitch, order * pitch)
        self.held = self.scratch.take(order * pitch * type.nbytes)
        self.p, self.pt, self.y = (self.scratch.take(order * WIDTH * type.nbytes) for _ in range(3))
        self.inner = self.scratch.take(order * WIDTH * type.nbytes)
        self.more_nbytes = 0

    def plan(self, a: Operand) -> Plan:
        """Return the plan."""
        order, type_, stack = self.order, self.type, self.stack
        h, v, tau = (Argument(f"out{i}") for i in range(3))
        rows, v_pitch = reflectors_shape(order)
        within = Operand(type_, (stack.pitch, 1))
        moved = elementwise.plan((order, order), (a,), (), (Output(0, within),), self.device)
        told = hessenberg_panel.board(self.scratch, type_, order, self.device)
        self.steps += moved.on(out0=self.held)
        self.steps += [
            Fill(h, order * order * type_.nbytes, 0),
            Fill(v, rows * v_pitch * type_.nbytes, 0),
            Fill(tau, order * type_.nbytes, 0),
            Fill(told.flags, told.flags_nbytes, 0),
        ]
        places = {"a": self.held, "p": self.p, "pt": self.pt, "y": self.y, "v": v, "h": h, "tau": tau}
        pitches = (stack.pitch, v_pitch, order)
        for first in range(0, order, WIDTH):
            width, epoch = min(WIDTH, order - first), 2 * first
            self.steps.append(
                hessenberg_panel.launch(type_, order, (first, width), pitches, places, told, epoch, self.device)
            )
            self.update(first, width)
        total = order * order
        grid = (min(-(-total // BLOCK), 1 << 16), 1, 1)
        work = Work(nbytes=total * type_.nbytes)
        self.steps.append(Launch(make_upper_rows(type_), grid, (h, self.held), (total, order, stack.pitch), work))
        more = self.scratch.take(self.more_nbytes)
        return self.scratch.plan(step.on({"more": more}) for step in self.steps)

    def update(self, first: int, width: int) -> None:
        """Append what takes Y V^H off all rows after a panel, then V T^H V^H of the lower ones."""
        order, stack, type_ = self.order, self.stack, self.type
        rows, low = order - first, first + width
        is_complex = type_.is_complex
        panel, transposed = Matrices(type_, (WIDTH, 1), 256), Matrices(type_, (1, WIDTH), 256)
        if first:  # Y of the rows above the panel
            variant = Variant(c_strides=(WIDTH, 1))
            self.multiply(
                (first, width), rows, stack.part(0, first), panel, variant,
                out0=self.y, in0=self.held.at(stack.at(0, first)), in1=self.pt,
            )  # fmt: skip
        at = self.held.at(stack.at(0, first))
        c = stack.part(0, first)
        update = select.plan_update(
            (order, rows), width, panel, transposed, c, self.device, Variant(is_b_conjugated=is_complex)
        )
        self.append(update, out0=at, in0=self.y, in1=self.p, in2=at)
        if low == order:
            return
        at, c, columns = self.held.at(stack.at(first, low)), stack.part(first, low), order - low
        self.multiply(
            (width, columns), rows, transposed, c, Variant(is_a_conjugated=is_complex),
            out0=self.inner, in0=self.pt, in1=at,
        )  # fmt: skip
        update = select.plan_update((rows, columns), width, panel, Matrices(type_, (columns, 1), 256), c, self.device)
        self.append(update, out0=at, in0=self.p, in1=self.inner, in2=at)

    def multiply(
        self, shape: tuple[int, int], depth: int, a: Matrices, b: Matrices, variant: Variant, **places: Argument
    ) -> None:
        """Append a product."""
        made = select.plan(shape, depth, a, b, self.type, self.type, self.device, variant)
        assert made is not None
        self.append(made, **places)

    def append(self, plan: Plan, **places: Argument) -> None:
        """Append the steps of a product."""
        self.more_nbytes = max(self.more_nbytes, plan.scratch_nbytes)
        self.steps += plan.on(scratch=Argument("more"), **places)


def plan_apply(shape: tuple[int, int], type: Type, device: Device) -> Plan:
    """Return the launches of Q C: the output is that, the inputs the reflectors, their tau, and C, all in C order.

    Parameters
    ----------
    shape : (int, int)
        Of C.
    type : Type
    device : Device
    """
    order, columns = shape
    scratch, out = Scratch(), Argument("out0")
    rest = contiguous(type, 1, order - 1, order - 1)
    qr = Qr(rest, Argument("in0"), Argument("in1"), scratch, device, columns)
    qr.made = qr.made._replace(v_place=Argument("in0"))
    qr.steps.append(Copy(out, Argument("in2"), math.prod(shape) * type.nbytes))
    block_reflectors.apply(qr, Argument("in1"), shape, out)
    return qr.plan()


__all__ = ["is_possible", "make_upper_rows", "plan_apply", "plan_reduce", "reflectors_shape"]
