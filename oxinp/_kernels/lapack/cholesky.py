"""Cholesky: blocks on the diagonal in registers, the rest as triangular systems and products.

Block columns of `Outer.width` are factored one after the other, each by narrow ones: what the block column has so far
is taken off the next narrow one (left-looking), of which the block on the diagonal is factored, and the rows below are
solved for, by one launch: every block factors the block on the diagonal again, with some of the rows below it. What is
right of a block column loses its product with itself at once (right-looking).

Data layout: A (order, order), its lower triangle, row by row in memory with any pitch, one or many. A block of the
kernel has one matrix of up to `4 * SIDE` rows in registers, and as many rows below it; in shared memory lie one column
of both, twice, and the diagonal. Factors that other blocks still read the matrices of go to the workspace first.

Who owns what: thread (i, j) of `SIDE` x `SIDE` has the elements at rows i and columns j modulo `SIDE`.

Algorithm: for every column, whoever has it puts it into shared memory, before its elements are divided by the root on
the diagonal; behind one barrier all take the product of the column with itself, over the diagonal's element, off what
they have. At the end every column is divided by its root. Upper triangles are not read, and written with zeros.

Flops: order^3 / 3; per column a barrier, and a division on the way to the next one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.choice import Choice, decide
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.epilogue import subtracted
from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.gemm.operand import Matrices
from oxinp._kernels.gemm.operand import contiguous as contiguous_strides
from oxinp._kernels.gemm.variant import Variant
from oxinp._kernels.lapack import cholesky_tiles
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.lapack.lu import contiguous
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Operand, Output
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.math import floats
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu import Stack
    from oxinp._kernels.plan import Step
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

SIDE = 16
BLOCK = SIDE * SIDE
NUM_TILES = 4  # of SIDE rows, in the largest block
LENGTH = NUM_TILES * SIDE
NOWHERE = 0xFFFFFFFF
WIDTHS = (128, 256, 512, 1024)  # of block columns, multiples of `LENGTH`
TILED_WIDTHS = (1024, 2048, 4096, 8192)  # of those that are factored by one launch


class CholeskySpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    num_tiles : int
        Of `SIDE` rows and columns, 1 to `NUM_TILES`.
    is_out_of_place : bool
        The result goes elsewhere.
    has_rows : bool
        There are rows below, which are solved for in place.
    """

    type: Type
    num_tiles: int
    is_out_of_place: bool = False
    has_rows: bool = False


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
        access = "rw" if spec.has_rows else "r"
        self.a = k.pointer("a", type_, access) if spec.is_out_of_place else self.out
        self.order, self.first, self.whole = (k.scalar(name, u32) for name in ("order", "first", "whole"))
        self.pitch, self.move = k.scalar("pitch", i64), k.scalar("move", i64)
        self.out_pitch, self.out_move = self.pitch, self.move
        if spec.is_out_of_place:
            self.out_pitch, self.out_move = k.scalar("out_pitch", i64), k.scalar("out_move", i64)
        self.group, self.matrix = k.const(0, u32), k.ctaid + 0
        if spec.has_rows:
            self.num_rows, groups = k.scalar("num_rows", u32), k.scalar("groups", u32)
            self.matrix = k.ctaid / groups
            self.group = k.ctaid - self.matrix * groups
        self.height = length * (2 if spec.has_rows else 1)  # of a column in shared memory
        self.columns = k.shared(type_, 2 * self.height)
        self.diagonal = k.shared(self.real, length)
        self.i, self.j = k.tid / SIDE, k.tid % SIDE

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        wide = k.cast(self.matrix, i64)
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
        below = self.load_rows(a, rows, columns) if spec.has_rows else {}
        for t in tiles:
            self.factor(t, rows, columns, values, below)
        k.barrier()
        with k.when(self.group == 0):
            for s, row in enumerate(rows):
                for t, column in enumerate(columns[: s + 1]):
                    is_inside = (row < self.order) & (column < self.order)
                    with k.when(is_inside & (column <= row)):
                        place = k.cast(row, i64) * self.out_pitch + k.cast(column, i64)
                        out[place] = self.finished(values[s, t].get(), row, column)
                for column in columns[s:]:
                    with k.when((row < column) & (column < self.order)):
                        out[k.cast(row, i64) * self.out_pitch + k.cast(column, i64)] = zero
            self.report()
        for (s, t), value in below.items():
            root = k.sqrt(self.diagonal[columns[t]])
            parts = [part / root for part in value.get().parts]
            with k.when(self.number(rows[s]) < self.num_rows):
                solved = k.compound(spec.type, *parts) if spec.type.is_complex else parts[0]
                a[self.place(rows[s], columns[t])] = solved
        return k.build()

    def number(self, row: Value) -> Value:
        """Which of all rows below a row of this block's is."""
        return self.group * (self.spec.num_tiles * SIDE) + row

    def place(self, row: Value, column: Value) -> Value:
        """Where an element of this block's rows below is."""
        k = self.k
        first = k.cast(self.number(row) + self.spec.num_tiles * SIDE, i64)
        return first * self.pitch + k.cast(column, i64)

    def load_rows(self, a: Pointer, rows: list[Value], columns: list[Value]) -> dict[tuple[int, int], Var]:
        """Load the rows below: zeros beyond the last one."""
        k, found = self.k, {}
        for s, row in enumerate(rows):
            for t, column in enumerate(columns):
                found[s, t] = value = k.var(k.const(0, self.spec.type))
                with k.when(self.number(row) < self.num_rows):
                    value.set(a[self.place(row, column)])
        return found

    def factor(
        self,
        t: int,
        rows: list[Value],
        columns: list[Value],
        values: dict[tuple[int, int], Var],
        below: dict[tuple[int, int], Var],
    ) -> None:
        """Take the products of the columns of a tile off those to their right."""
        k, spec = self.k, self.spec
        length = spec.num_tiles * SIDE
        with k.range(k.const(0, u32), SIDE) as inner:
            number = inner + t * SIDE if t else inner
            here = self.columns.at(number % 2 * self.height)
            with k.when(self.j == inner):
                for s in range(t, spec.num_tiles):
                    here[rows[s]] = values[s, t].get()
                for s in range(spec.num_tiles if below else 0):
                    here[rows[s] + length] = below[s, t].get()
                with k.when(self.i == inner):
                    self.diagonal[number] = values[t, t].get().parts[0]
            k.barrier()
            scale = floats.divided(k, k.const(1, self.real), here[number].parts[0])
            left = [here[row] for row in rows[t:]]
            left_below = [here[row + length] for row in rows] if below else []
            for u in range(t, spec.num_tiles):
                element = self.conjugate(here[columns[u]])
                factor = k.where(columns[u] > number, self.scaled(element, -scale), k.const(0, spec.type))
                for s in range(u, spec.num_tiles):
                    value = values[s, u]
                    value.set(multiply_add(k, left[s - t], factor, value.get()))
                for s, element in enumerate(left_below):
                    value = below[s, u]
                    value.set(multiply_add(k, element, factor, value.get()))

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
                wide = [k.cast(x, u64) for x in (self.matrix, self.whole, self.first + found)]
                self.status.atomic("min", 0, wide[0] * wide[1] + wide[2])


class Outer(NamedTuple):
    """How block columns are factored.

    Attributes
    ----------
    width : int
        Of block columns, after each of which the rest of the matrix is brought up to date.
    resident : int
        Where one launch factors a block column: of how many blocks on a multiprocessor. 0 where many do.
    """

    width: int
    resident: int = 0


def outer(stack: Stack, device: Device) -> Outer:
    """Return what was measured to be best; unless something was, one launch, or block columns with enough to do."""
    legal = [Outer(width) for width in WIDTHS]
    default = Outer(256 if stack.num_rows <= 8192 else 512)
    if cholesky_tiles.is_possible(stack, device):
        legal += [Outer(width, resident) for width in TILED_WIDTHS for resident in (1, 2)]
        # Of more rows, products have most of the work, which are faster.
        default = Outer(4096, 1) if stack.num_rows <= 4096 else Outer(2048, 2)
    choice = Choice(
        "cholesky/outer",
        (stack.type.name,),
        (),
        (stack.count, stack.num_rows),
        Outer,
        legal.__contains__,
        lambda: default,
        lambda: [default, *legal],
    )
    found: Outer = decide(choice, device)
    return found


def plan_factor(stack: Stack, width: int, device: Device) -> Plan:
    """Return the launches that factor matrices in place, in block columns of a width: A = L L^H in lower triangles.

    Outputs are the matrices, of whose upper triangles nothing is read and only blocks on the diagonal are written, with
    zeros, and the status, see `diagonal`.
    """
    steps: list[Step] = [Fill(Argument("out1"), STATUS_NBYTES, 0xFF)]
    order, scratch = stack.num_rows, Scratch()
    num_blocks = -(-order // LENGTH) - 1  # but for the last one
    blocks = contiguous(stack.type, stack.count * num_blocks, LENGTH, LENGTH)
    held = scratch.take(max(1, blocks.count) * blocks.move * stack.type.nbytes)
    for start in range(0, order, width):
        end = min(start + width, order)
        for low in range(start, end, LENGTH):
            high = min(low + LENGTH, end)
            if low > start:
                steps += _reduced(stack, (low, high), (start, low), device)
            if high < order:
                place = held.at(low // LENGTH * blocks.move * stack.type.nbytes)
                steps.append(_block_and_rows(stack, low, place, num_blocks * blocks.move))
            else:
                steps.append(_block(stack, low, high))
        if end < order:
            steps += _reduced_rest(stack, start, end, device, Argument("out0"), stack)
    if num_blocks:
        shape = (stack.count, num_blocks, LENGTH, LENGTH)
        source = Operand(stack.type, contiguous_strides(shape))
        target = Operand(stack.type, (stack.move, LENGTH * (stack.pitch + 1), stack.pitch, 1), stack.aligned)
        steps += elementwise.plan(shape, (source,), (), (Output(0, target),), device).on(in0=held)
    return scratch.plan(steps)


def plan_tiles(stack: Stack, given: Stack, chosen: Outer, device: Device) -> Plan:
    """Return the launches that factor a matrix that is given elsewhere, with zeros above the diagonal.

    Outputs are the factor and the status; the input is the matrix. `chosen` is what `outer` gives.
    """
    steps: list[Step] = [Fill(Argument("out1"), STATUS_NBYTES, 0xFF)]
    order, width, scratch = stack.num_rows, chosen.width, Scratch()
    source, held = Argument("in0"), given
    for low in range(0, order, width):
        high = min(low + width, order)
        steps += cholesky_tiles.plan(
            stack,
            (low, high),
            cholesky_tiles.Source(source, held.pitch),
            chosen.resident * device.num_sms,
            scratch,
            is_clearing=True,
            is_sm90=device.cc >= (9, 0),
        )
        if high < order:
            steps += _reduced_rest(stack, low, high, device, source, held)
        source, held = Argument("out0"), stack
    return scratch.plan(steps)


def _block_and_rows(stack: Stack, low: int, place: Argument, move: int) -> Launch:
    """Return the launch that factors a block on the diagonal, into the workspace, and solves for the rows below."""
    spec = CholeskySpec(stack.type, NUM_TILES, is_out_of_place=True, has_rows=True)
    num_rows = stack.num_rows - low - LENGTH
    groups = -(-num_rows // LENGTH)
    constants = (LENGTH, low, stack.num_rows, stack.pitch, stack.move, LENGTH, move, num_rows, groups)
    arguments = (place, Argument("out1"), Argument("out0", stack.at(low, low)))
    flops = LENGTH**2 * num_rows * (4 if stack.type.is_complex else 1) * stack.count
    work = Work(flops, 2 * LENGTH * num_rows * stack.type.nbytes * stack.count)
    return Launch(make(spec), (groups * stack.count, 1, 1), arguments, constants, work)


def _reduced(stack: Stack, columns: tuple[int, int], known: tuple[int, int], device: Device) -> tuple[Step, ...]:
    """Take the product of known columns with their rows of some columns off these, from the diagonal block on."""
    a, (low, high), order = Argument("out0"), columns, stack.num_rows
    left, c = stack.part(low, known[0]), stack.part(low, low)
    *batch_strides, pitch, step = left.strides
    above = Matrices(stack.type, (*batch_strides, step, pitch), left.alignment)
    batch = (stack.count,) if stack.count > 1 else ()
    variant = Variant(is_b_conjugated=stack.type.is_complex)
    shape = (*batch, order - low, high - low)
    product = select.plan_update(shape, known[1] - known[0], left, above, c, device, variant)
    source, target = a.at(stack.at(low, known[0])), a.at(stack.at(low, low))
    return product.on(out0=target, in0=source, in1=source, in2=target)


def _reduced_rest(stack: Stack, low: int, high: int, device: Device, source: Argument, held: Stack) -> tuple[Step, ...]:
    """Take the product of a block column below the diagonal with itself off what is right of it in `held`."""
    a, rows = Argument("out0"), stack.num_rows - high
    x, c, before = stack.part(high, low), stack.part(high, high), held.part(high, high)
    batch = (stack.count,) if stack.count > 1 else ()
    product = blas3.plan_rank_k(
        (*batch, rows, rows),
        high - low,
        x,
        device,
        is_lower=True,
        is_hermitian=True,
        epilogue=subtracted(stack.type, before.strides, before.alignment),
        c_strides=c.strides,
    )
    places = {"in0": a.at(stack.at(high, low)), "in1": source.at(held.at(high, high))}
    return product.on(out0=a.at(stack.at(high, high)), **places)


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


__all__ = ["LENGTH", "CholeskySpec", "Outer", "make", "outer", "plan_factor", "plan_small", "plan_tiles"]
