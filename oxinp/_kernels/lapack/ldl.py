"""Bunch and Kaufman's factorisations, as LAPACK's xSYTRF and xHETRF: panels, and the rest after each by one product."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.lapack import ldl_panel, rows
from oxinp._kernels.lapack.ldl_panel import CAPACITY, LdlSpec
from oxinp._kernels.lapack.lu import Stack
from oxinp._kernels.lapack.resident import WIDTH
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Operand, Output

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step
    from oxinp._ptx.types import Type

MIN_ROWS = 8  # of a block
PITCH = 16  # elements that rows are multiples of


class _Ldl:
    """A plan while it is made.

    Parameters
    ----------
    type : Type
    order : int
    device : Device
    is_hermitian, is_reversed : bool
        See `LdlSpec`.
    """

    def __init__(self, type: Type, order: int, device: Device, *, is_hermitian: bool, is_reversed: bool) -> None:
        self.type, self.order, self.device = type, order, device
        self.is_hermitian, self.is_reversed = is_hermitian and type.is_complex, is_reversed
        self.scratch = Scratch()
        pitch = -(-order // PITCH) * PITCH
        self.stack = Stack(type, 1, order, order, pitch, order * pitch)
        self.held = self.scratch.take(order * pitch * type.nbytes)
        self.p_nbytes = 2 * CAPACITY * type.nbytes  # of a row
        self.p = self.scratch.take(order * self.p_nbytes)
        self.blocks = max(1, min(device.num_sms, -(-order // MIN_ROWS)))
        columns = {name: self.scratch.take(order * type.nbytes) for name in ("column", "other")}
        words = {
            name: self.scratch.take(self.blocks * 8) for name in ("best", "other_best", "best_place", "other_place")
        }
        self.starts = self.scratch.take((-(-order // WIDTH) + 1) * 4)
        self.flags = self.scratch.take(self.blocks * 4)
        self.places = {
            "a": self.held, "p": self.p, "l": Argument("out0"), "d": Argument("out1"), "e": Argument("out2"),
            "order_of": Argument("out3"), "starts": self.starts, "flags": self.flags, **columns, **words,
        }  # fmt: skip
        self.steps: list[Step] = []
        self.more_nbytes = 0

    def panel(self, number: int) -> None:
        """Append what factors a panel."""
        first = number * WIDTH
        width, left = min(WIDTH, self.order - first), self.order - first
        height = -(-left // self.blocks)
        num_blocks = -(-left // height)
        power = 1 << max(3, (height - 1).bit_length())
        kernel = ldl_panel.make(LdlSpec(self.type, power, self.is_hermitian, self.is_reversed))
        names = [param.name for param in kernel.params if param.is_pointer]
        constants = (self.order, first, width, height, num_blocks, number, self.stack.pitch, self.order)
        flops = (8 if self.type.is_complex else 2) * left * width * width
        work = Work(flops, left * width * (width + 2) * self.type.nbytes)
        self.steps += [
            Fill(self.p, left * self.p_nbytes, 0),
            Fill(self.flags, self.blocks * 4, 0),
            Launch(kernel, (num_blocks, 1, 1), tuple(self.places[name] for name in names), constants, work),
        ]

    def update(self, low: int) -> None:
        """Append what takes L W^T, or L W^H, of a panel off the rows and columns from `low` on."""
        stack, type_ = self.stack, self.type
        c, at = stack.part(low, low), self.held.at(stack.at(low, low))
        alignment = math.gcd(256, WIDTH * self.p_nbytes)
        left = Matrices(type_, (2 * CAPACITY, 1), alignment)
        right = Matrices(type_, (1, 2 * CAPACITY), math.gcd(alignment, CAPACITY * type_.nbytes))
        variant = Variant(is_b_conjugated=self.is_hermitian)
        shape = (self.order - low,) * 2
        made = select.plan_update(shape, CAPACITY, left, right, c, self.device, variant)
        self.more_nbytes = max(self.more_nbytes, made.scratch_nbytes)
        from_row = self.p.at(WIDTH * self.p_nbytes)
        places = {"out0": at, "in0": from_row, "in1": from_row.at(CAPACITY * type_.nbytes), "in2": at}
        self.steps += made.on(scratch=Argument("more"), **places)


class Problem(NamedTuple):
    """What is factored: a matrix, which is its conjugate transpose, or its transpose, and perhaps in reverse."""

    order: int
    is_hermitian: bool
    is_reversed: bool


def plan(problem: Problem, a: Operand, device: Device) -> Plan:
    """Return the launches of A[p][:, p] = L D L^T, or L D L^H.

    The outputs are L, (order, order); the diagonal of D and what is below it, order elements each, zero but for blocks
    of two rows; and p, u32.

    Parameters
    ----------
    problem : Problem
        Of a matrix in reverse pivots are those of LAPACK's upper triangles.
    a : Operand
        Both triangles.
    device : Device
    """
    order, type_ = problem.order, a.type
    made = _Ldl(type_, order, device, is_hermitian=problem.is_hermitian, is_reversed=problem.is_reversed)
    within = Operand(type_, (made.stack.pitch, 1))
    moved = elementwise.plan((order, order), (a,), (), (Output(0, within),), device)
    made.steps += [
        *moved.on(out0=made.held),
        Fill(Argument("out0"), order * order * type_.nbytes, 0),
        Fill(made.starts, 4, 0),
        rows.start(Argument("out3"), order, 1),
    ]
    for number in range(-(-order // WIDTH)):
        made.panel(number)
        if (number + 1) * WIDTH < order:
            made.update((number + 1) * WIDTH)
    more = made.scratch.take(made.more_nbytes)
    return made.scratch.plan(step.on({"more": more}) for step in made.steps)


__all__ = ["Problem", "plan"]
