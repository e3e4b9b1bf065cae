"""Cholesky: blocks on the diagonal in registers, and by halves the rest as triangular systems and products.

Data layout: A (order, order), its lower triangle, row by row in memory with any pitch, one or many. A block of the
kernel has one matrix of up to `4 * SIDE` rows in registers; in shared memory lie one column of it, twice, and the
diagonal.

Who owns what: thread (i, j) of `SIDE` x `SIDE` has the elements at rows i and columns j modulo `SIDE`.

Algorithm: for every column, whoever has it puts it into shared memory, before its elements are divided by the root on
the diagonal; behind one barrier all take the product of the column with itself, over the diagonal's element, off what
they have. At the end every column is divided by its root. Upper triangles are not read, and written with zeros where
that is asked for.

Flops: order^3 / 3; per column a barrier, and a division on the way to the next one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3.plan import TriangularSystem
from oxinp._kernels.gemm.epilogue import subtracted
from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.gemm.operand import TRIANGULAR, Form
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu import Stack
    from oxinp._kernels.plan import Step
    from oxinp._ptx.value import Value, Var

SIDE = 16
BLOCK = SIDE * SIDE
NUM_TILES = 4  # of SIDE rows, in the largest block
LENGTH = NUM_TILES * SIDE
NOWHERE = 0xFFFFFFFF
LOWER = Form(TRIANGULAR, is_lower=True)


class CholeskySpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    num_tiles : int
        Of `SIDE` rows and columns, 1 to `NUM_TILES`.
    is_out_of_place : bool
        The result goes elsewhere, with zeros above the diagonal.
    """

    type: Type
    num_tiles: int
    is_out_of_place: bool = False


@cache
@retraceable
def make(spec: CholeskySpec) -> Kernel:
    """The kernel of a Spec; see `plan_blocks`."""
    return _Cholesky(spec).build()


class _Cholesky:
    """The kernel while it is built."""

    def __init__(self, spec: CholeskySpec) -> None:
        self.spec = spec
        type_, length = spec.type, spec.num_tiles * SIDE
        self.real = type_.parts[0]
        self.k = k = Builder("cholesky", block=BLOCK, target="sm_80", min_blocks=1)
        self.out, self.status = k.pointer("out", type_), k.pointer("status", u64)
        self.a = k.pointer("a", type_, "r") if spec.is_out_of_place else self.out
        self.order, self.first, self.whole = (k.scalar(name, u32) for name in ("order", "first", "whole"))
        self.pitch, self.move = k.scalar("pitch", i64), k.scalar("move", i64)
        self.out_pitch, self.out_move = self.pitch, self.move
        if spec.is_out_of_place:
            self.out_pitch, self.out_move = k.scalar("out_pitch", i64), k.scalar("out_move", i64)
        self.columns = k.shared(type_, 2 * length)
        self.diagonal = k.shared(self.real, length)
        self.i, self.j = k.tid / SIDE, k.tid % SIDE

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        wide = k.cast(k.ctaid, i64)
        a, out = self.a.at(wide * self.move), self.out.at(wide * self.out_move)
        tiles = range(spec.num_tiles)
        rows, columns = ([x + t * SIDE if t else x for t in tiles] for x in (self.i, self.j))
        values: dict[tuple[int, int], Var] = {}
        zero, one = k.const(0, spec.type), k.const(1, spec.type)
        for s, row in enumerate(rows):
            for t, column in enumerate(columns[: s + 1]):
                values[s, t] = value = k.var(k.where(row == column, one, zero))
                with k.when((row < self.order) & (column <= row)):
                    value.set(a[k.cast(row, i64) * self.pitch + k.cast(column, i64)])
        for t in tiles:
            self.factor(t, rows, columns, values)
        k.barrier()
        for s, row in enumerate(rows):
            for t, column in enumerate(columns[: s + 1]):
                is_inside = (row < self.order) & (column < self.order)
                with k.when(is_inside & (column <= row)):
                    place = k.cast(row, i64) * self.out_pitch + k.cast(column, i64)
                    out[place] = self.finished(values[s, t].get(), row, column)
            if spec.is_out_of_place:
                for column in columns[s:]:
                    with k.when((row < column) & (column < self.order)):
                        out[k.cast(row, i64) * self.out_pitch + k.cast(column, i64)] = zero
        self.report()
        return k.build()

    def factor(self, t: int, rows: list[Value], columns: list[Value], values: dict[tuple[int, int], Var]) -> None:
        """Take the products of the columns of a tile off those to their right."""
        k, spec = self.k, self.spec
        length = spec.num_tiles * SIDE
        with k.range(k.const(0, u32), SIDE) as inner:
            number = inner + t * SIDE if t else inner
            here = self.columns.at(number % 2 * length)
            with k.when(self.j == inner):
                for s in range(t, spec.num_tiles):
                    here[rows[s]] = values[s, t].get()
                with k.when(self.i == inner):
                    self.diagonal[number] = values[t, t].get().parts[0]
            k.barrier()
            scale = 1.0 / here[number].parts[0]
            left = [here[row] for row in rows[t:]]
            for u in range(t, spec.num_tiles):
                element = self.conjugate(here[columns[u]])
                factor = k.where(columns[u] > number, self.scaled(element, -scale), k.const(0, spec.type))
                for s in range(u, spec.num_tiles):
                    value = values[s, u]
                    value.set(multiply_add(k, left[s - t], factor, value.get()))

    def conjugate(self, value: Value) -> Value:
        if not self.spec.type.is_complex:
            return value
        real, imag = value.parts
        return self.k.compound(self.spec.type, real, -imag)

    def scaled(self, value: Value, scale: Value) -> Value:
        if not self.spec.type.is_complex:
            return value * scale
        return self.k.compound(self.spec.type, *[part * scale for part in value.parts])

    def finished(self, value: Value, row: Value, column: Value) -> Value:
        """An element of the result: over the root on the diagonal, or that root."""
        k = self.k
        root = k.sqrt(self.diagonal[column])
        is_diagonal = row == column
        if not self.spec.type.is_complex:
            return k.where(is_diagonal, root, value / root)
        real, imag = value.parts
        return k.compound(
            self.spec.type, k.where(is_diagonal, root, real / root), k.where(is_diagonal, 0.0, imag / root)
        )

    def report(self) -> None:
        """Take the minimum of the status and the number of the first pivot that is not positive."""
        k = self.k
        with k.when(k.warp == 0):
            first = k.var(NOWHERE, u32)
            for start in range(0, self.spec.num_tiles * SIDE, 32):
                number = k.lane + start if start else k.lane
                is_bad = k.var(number < self.order)
                with k.when(is_bad.get()):
                    is_bad.set(self.diagonal[number] <= 0)
                first.set(k.where(is_bad.get(), k.min(first, number), first))
            found = k.redux("min", first.get())
            with k.when((k.lane == 0) & (found != NOWHERE)):
                wide = [k.cast(x, u64) for x in (k.ctaid + 0, self.whole, self.first + found)]
                self.status.atomic("min", 0, wide[0] * wide[1] + wide[2])


def plan_factor(stack: Stack, device: Device) -> Plan:
    """Return the launches that factor matrices in place: A = L L^H in their lower triangles.

    Outputs are the matrices, of which upper triangles are neither read nor written, and the status, see `diagonal`.
    """
    steps: list[Step] = [Fill(Argument("out1"), STATUS_NBYTES, 0xFF)]
    _factor(stack, 0, stack.num_rows, device, steps)
    return Plan(tuple(steps))


def _factor(stack: Stack, low: int, high: int, device: Device, steps: list[Step]) -> None:
    a = Argument("out0")
    if high - low <= LENGTH:
        steps.append(_block(stack, low, high))
        return
    middle = low + -(-(high - low) // (2 * LENGTH)) * LENGTH
    _factor(stack, low, middle, device, steps)
    turned, form = blas3.transposed(stack.part(low, low), LOWER, is_conjugated=True)
    x = stack.part(middle, low)
    shape = (high - middle, middle - low)
    system = TriangularSystem(shape, turned, form, False, stack.pitch, x.alignment, stack.count, stack.move, stack.move)
    below, rest = a.at(stack.at(middle, low)), a.at(stack.at(middle, middle))
    steps += blas3.plan_solve(system, device).on(in0=a.at(stack.at(low, low)), out0=below)
    c = stack.part(middle, middle)
    batch = (stack.count,) if stack.count > 1 else ()
    product = blas3.plan_rank_k(
        (*batch, high - middle, high - middle),
        middle - low,
        x,
        device,
        is_lower=True,
        is_hermitian=True,
        epilogue=subtracted(stack.type, c.strides),
        c_strides=c.strides,
    )
    steps += product.on(out0=rest, in0=below, in1=rest)
    _factor(stack, middle, high, device, steps)


def _block(stack: Stack, low: int, high: int) -> Launch:
    spec = CholeskySpec(stack.type, -(-(high - low) // SIDE))
    constants = (high - low, low, stack.num_rows, stack.pitch, stack.move)
    arguments = (Argument("out0", stack.at(low, low)), Argument("out1"))
    return Launch(make(spec), (stack.count, 1, 1), arguments, constants, _work(stack, high - low))


def plan_small(stack: Stack, out: Stack) -> Plan:
    """Return the launch that factors matrices of at most `LENGTH` rows, with zeros above the diagonal.

    Outputs are the factors and the status; the input is the matrices.
    """
    order = stack.num_rows
    spec = CholeskySpec(stack.type, -(-order // SIDE), is_out_of_place=True)
    constants = (order, 0, order, stack.pitch, stack.move, out.pitch, out.move)
    arguments = (Argument("out0"), Argument("out1"), Argument("in0"))
    launch = Launch(make(spec), (stack.count, 1, 1), arguments, constants, _work(stack, order))
    return Plan((Fill(Argument("out1"), STATUS_NBYTES, 0xFF), launch))


def _work(stack: Stack, order: int) -> Work:
    flops = math.ceil(order**3 / 3) * (4 if stack.type.is_complex else 1) * stack.count
    return Work(flops, order * (order + 1) * stack.type.nbytes * stack.count)


__all__ = ["LENGTH", "CholeskySpec", "make", "plan_factor", "plan_small"]
