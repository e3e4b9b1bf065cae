"""What is asked of factorisations: matrices with any strides in, results in C order and a status out.

Every plan has the result and the status as outputs, and its operands, which stay as they are, as inputs.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from oxinp._kernels.blas3 import symmetrize
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.operand import TRIANGULAR, Form, Matrices
from oxinp._kernels.gemm.operand import contiguous as contiguous_strides
from oxinp._kernels.lapack import cholesky, determinant, lu, lu_panel, lu_solve, scaling, small, small_inverse
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.lapack.lu import Stack, contiguous
from oxinp._kernels.lapack.qr import Qr, upper
from oxinp._kernels.plan import ALIGNMENT, Argument, Plan, Scratch
from oxinp._kernels.problem import Instr, Operand, Output
from oxinp._kernels.workspace import is_sparing
from oxinp._ptx.types import f32, f64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.lapack.lu import Fills
    from oxinp._kernels.plan import Step
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

OUT, STATUS = Argument("out0"), Argument("out1")
MIN_GROUP = 256  # rows
PITCH = 16  # elements that rows are multiples of where we choose
LOWER = Form(TRIANGULAR, is_lower=True)


def _cast(type: Type) -> Instr:
    def lower(k: Builder, x: Value) -> Value:
        return k.cast(x, type)

    return Instr(lower, type, (0,))


WIDENED = 6144  # rows of f32 from which a system is solved in f64, whose products are faster
WIDENED_FACTOR = 4096  # rows of f32 from which a Cholesky factor is computed in f64, whose kernels are faster
CASTS = {type_: _cast(type_) for type_ in (f32, f64)}


def is_possible(type: Type, num_rows: int, device: Device) -> bool:
    """Whether matrices of so many rows can be factored; Cholesky's always can."""
    return num_rows <= lu_panel.most_rows(type, device)


def rows_of_groups(type: Type, num_columns: int, device: Device) -> int:
    """Return of how many rows the groups are in which a taller matrix is factored; 0 where columns are too many."""
    rows = min(lu_panel.most_rows_alone(type, device), max(MIN_GROUP, 8 * num_columns))
    return rows if rows >= 2 * num_columns else 0


def _whole(shape: Sequence[int], a: Operand) -> Stack:
    """Return matrices in C order, as many and as large."""
    *batch, rows, columns = shape
    return contiguous(a.type, math.prod(batch), rows, columns)


def _moved(shape: Sequence[int], source: Operand, target: Operand, device: Device) -> Plan:
    """Return the launch that copies, and converts where types are different."""
    casts = () if source.type is target.type else (CASTS[target.type],)
    return elementwise.plan(tuple(shape), (source,), casts, (Output(len(casts), target),), device)


def _filling(
    shape: Sequence[int], a: Operand, target: Operand, device: Device, *, number: int = 0, at: int = 0
) -> Fills:
    """Return what copies columns of an input to matrices that are factored: see `lu.plan_factor`.

    Parameters
    ----------
    shape : sequence of int
        Of the input: the batch, rows, columns.
    a, target : Operand
        How the input lies, and the matrices.
    device : Device
    number, at : int
        Of the input, and the column of the matrices where it begins.
    """
    *lines, columns = shape

    def fill(low: int, high: int) -> tuple[Step, ...]:
        low, high = max(low - at, 0), min(high - at, columns)
        if low >= high:
            return ()
        offsets = [column * x.strides[-1] * x.type.nbytes for column, x in ((low, a), (low + at, target))]
        source, found = (
            x._replace(alignment=math.gcd(x.alignment, offset)) for x, offset in zip((a, target), offsets, strict=True)
        )
        moved = _moved((*lines, high - low), source, found, device)
        return moved.on(in0=Argument(f"in{number}", offsets[0]), out0=OUT.at(offsets[1]))

    return fill


def plan_cholesky(shape: Sequence[int], a: Operand, device: Device) -> Plan:
    """Return the launches of the Cholesky factors, lower triangles with zeros above, of matrices.

    Parameters
    ----------
    shape : sequence of int
        The batch, and the order twice; at least 1 each.
    a : Operand
        Of which lower triangles are read.
    device : Device
    """
    stack, order = _whole(shape, a), shape[-1]
    if a.type is f32 and stack.count == 1 and order >= WIDENED_FACTOR and not is_sparing(device):
        return _plan_widened(shape, a, device)
    given = _stacked(shape, a)
    if order <= small.SIDE and given is None:
        copied = _moved(shape, a, Operand(a.type, contiguous_strides(tuple(shape))), device)
        return Plan((*copied.steps, *small.plan(small.CHOLESKY, stack, stack).on(in0=OUT)))
    if given is not None and order <= small.SIDE:
        return small.plan(small.CHOLESKY, given, stack)
    if given is not None and order <= cholesky.LENGTH:
        return cholesky.plan_small(given, stack)
    chosen = cholesky.outer(stack, device)
    if chosen.resident:
        tiled = cholesky.plan_tiles(stack, given or stack, chosen, device)
        if given is not None:
            return tiled
        copied = _moved(shape, a, Operand(a.type, contiguous_strides(shape)), device)
        return tiled.replace(steps=(*copied.on(out0=OUT), *tiled.on(in0=OUT)))
    matrices = Matrices(a.type, a.strides, a.alignment)
    lower = symmetrize.plan(tuple(shape), matrices, LOWER, device)
    factor = cholesky.plan_factor(stack, chosen.width, device)
    return factor.replace(steps=(*lower.steps, *factor.steps))


def _plan_widened(shape: Sequence[int], a: Operand, device: Device) -> Plan:
    """Return the plan of the Cholesky factor of one matrix by that in double precision."""
    wide, scratch = Operand(f64, contiguous_strides(tuple(shape))), Scratch()
    given, held = (scratch.take(math.prod(shape) * f64.nbytes) for _ in range(2))
    factor = plan_cholesky(shape, wide, device)
    more = scratch.take_of(factor)
    steps = (
        *_moved(shape, a, wide, device).on(out0=given),
        *factor.on(out0=held, in0=given, scratch=more),
        *_moved(shape, wide, Operand(a.type, wide.strides), device).on(in0=held),
    )
    return scratch.plan(steps)


def _stacked(shape: Sequence[int], a: Operand) -> Stack | None:
    """Return matrices that follow each other at one distance; None where they do not, or not row by row."""
    *batch, pitch, step = a.strides
    loops = [(n, move) for n, move in zip(shape[:-2], batch, strict=True) if n > 1]
    is_regular = all(outer == n * inner for (_, outer), (n, inner) in pairwise(loops))
    if (step != 1 and shape[-1] > 1) or not is_regular:
        return None
    move = loops[-1][1] if loops else 0
    rows, columns = shape[-2:]
    return Stack(a.type, math.prod(shape[:-2]), rows, columns, pitch, move, a.alignment)


def plan_solve(shape: Sequence[int], a: Operand, b: Operand, device: Device) -> Plan:
    """Return the launches that solve A X = B.

    Parameters
    ----------
    shape : sequence of int
        Of X: the batch, rows, columns; at least 1 each.
    a, b : Operand
        Of the shape of X, but for A's columns.
    device : Device
    """
    *batch, order, columns = shape
    square = (*batch, order, order)
    stack, scratch = _whole(square, a), Scratch()
    given, right = _stacked(square, a), _stacked(shape, b)
    if given is not None and right is not None and order <= small.SIDE:
        strides = (right.move, right.pitch, 1)
        return small.plan(small.SOLVE, given, contiguous(a.type, stack.count, order, columns), strides)
    if is_sparing(device) and (right is not None or stack.count == 1):
        moves = (right.move, right.pitch, 1) if right is not None else (0, b.strides[-2], b.strides[-1])
        held = scratch.take(math.prod(square) * a.type.nbytes)
        apart = lu_solve.plan_solve_apart(stack, columns, moves, device)
        more = scratch.take_of(apart)
        copied = _moved(square, a, Operand(a.type, contiguous_strides(square)), device)
        steps = (*copied.on(out0=held), *apart.on(out0=OUT, out1=held, out2=STATUS, in0=Argument("in1"), scratch=more))
        return scratch.plan(steps)
    pitch = -(-(order + columns) // PITCH) * PITCH
    is_widened = (
        not is_sparing(device)
        and a.type is f32
        and order >= WIDENED
        and stack.count == 1
        and is_possible(f64, order, device)
    )
    type_ = f64 if is_widened else a.type
    both = Stack(type_, stack.count, order, order + columns, pitch, order * pitch)
    held = scratch.take(both.count * both.move * type_.nbytes)
    within = (*(pitch * step for step in contiguous_strides((*batch, order))), 1)
    target = Operand(type_, within)
    fills = _filling(square, a, target, device), _filling(shape, b, target, device, number=1, at=order)
    solved = lu_solve.plan_solve(both, device, lambda low, high: [step for fill in fills for step in fill(low, high)])
    more = scratch.take_of(solved)
    x = held.at(order * type_.nbytes)
    beside = Operand(type_, within, math.gcd(ALIGNMENT, order * type_.nbytes))
    steps = (
        *solved.on(out0=held, out1=STATUS, scratch=more),
        *_moved(shape, beside, Operand(a.type, contiguous_strides(shape)), device).on(out0=OUT, in0=x),
    )
    return scratch.plan(steps)


def plan_invert(shape: Sequence[int], a: Operand, device: Device) -> Plan:
    """Return the launches that invert matrices; parameters as for `plan_cholesky`."""
    stack, scratch = _whole(shape, a), Scratch()
    given = _stacked(shape, a)
    if given is not None and stack.num_rows <= small.SIDE:
        return small_inverse.plan(given, stack)
    factors = scratch.take(math.prod(shape) * a.type.nbytes)
    target = Operand(a.type, contiguous_strides(tuple(shape)))
    inverted = lu_solve.plan_invert(stack, device, _filling(shape, a, target, device))
    more = scratch.take_of(inverted)
    return scratch.plan(inverted.on(out0=OUT, out1=factors, out2=STATUS, scratch=more))


def plan_lu(shape: Sequence[int], a: Operand, device: Device) -> Plan:
    """Return the launches of LU factorisations with partial pivoting.

    Outputs are the factors, in C order, the unit diagonal of L not stored; the pivots, u32, the row that changed places
    with each; the permutation, u32, the row of A that each row is; the status. Parameters are those of `plan_qr`.
    """
    target = Operand(a.type, contiguous_strides(tuple(shape)))
    return lu.plan_factor(_whole(shape, a), device, _filling(shape, a, target, device))


def plan_slogdet(shape: Sequence[int], a: Operand, device: Device) -> Plan:
    """Return the launches of determinants: outputs are their signs and the logarithms of their magnitudes.

    Parameters are those of `plan_cholesky`.
    """
    stack, scratch = _whole(shape, a), Scratch()
    nbytes = stack.count * stack.num_rows * 4
    factors, pivots, permutation = (scratch.take(n) for n in (math.prod(shape) * a.type.nbytes, nbytes, nbytes))
    status = scratch.take(STATUS_NBYTES)
    target = Operand(a.type, contiguous_strides(tuple(shape)))
    factor = lu.plan_factor(stack, device, _filling(shape, a, target, device), keeps_lower=False)
    more = scratch.take_of(factor)
    return scratch.plan(
        (
            *factor.on(out0=factors, out1=pivots, out2=permutation, out3=status, scratch=more),
            *determinant.plan(stack).on(in0=factors, in1=pivots),
        )
    )


def plan_qr(shape: Sequence[int], a: Operand, device: Device, mode: str = "reduced") -> Plan:
    """Return the launches of QR factorisations.

    Parameters
    ----------
    shape : sequence of int
        Of A: the batch, rows, columns; at least 1 each.
    a : Operand
    device : Device
    mode : str
        What the outputs are: ``"reduced"`` and ``"complete"`` Q and R, ``"r"`` R alone, ``"raw"`` R with the
        reflectors below, and their tau.
    """
    *batch, rows, columns = shape
    count, type_, depth = math.prod(batch), a.type, min(rows, columns)
    pitch = columns if mode == "raw" else -(-columns // PITCH) * PITCH
    stack, scratch = Stack(type_, count, rows, columns, pitch, rows * pitch), Scratch()
    outputs = (Argument("out0"), Argument("out1"))
    held = outputs[0] if mode == "raw" else scratch.take(count * stack.move * type_.nbytes)
    tau = outputs[1] if mode == "raw" else scratch.take(count * depth * type_.nbytes)
    qr = Qr(stack, held, tau, scratch, device)
    within = Operand(type_, (*(pitch * step for step in contiguous_strides((*batch, rows))), 1))
    qr.steps += _moved(shape, a, within, device).on(out0=held)
    words = scratch.take(scaling.WORD_NBYTES * count)
    qr.steps += scaling.scaled(stack, held, words)
    qr.factor()
    qr.steps.append(scaling.scaled_back(stack, held, words))
    if mode != "raw":
        height = rows if mode == "complete" else depth
        r = contiguous(type_, count, height, columns)
        qr.steps.append(upper(r, outputs[mode != "r"], (stack, held)))
        if mode != "r":
            qr.form(contiguous(type_, count, rows, height), outputs[0])
    return qr.plan()


__all__ = [
    "is_possible",
    "plan_cholesky",
    "plan_invert",
    "plan_lu",
    "plan_qr",
    "plan_slogdet",
    "plan_solve",
    "rows_of_groups",
]
