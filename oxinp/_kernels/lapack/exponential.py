"""Exponentials of matrices: Taylor's polynomial of degree 18 in five products, and squares of what it gives.

Data layout: matrices in C order, one after the other; powers of them, and the terms of the polynomial, as many.

Who owns what: of norms a block has `WARP` columns of a matrix, a warp a part of their rows. Of terms a block has a row.

Algorithm: the second, third and sixth powers, and the largest 1-norm of each power over the stack, from which the host
finds by which power of two the matrix is scaled. Terms of scaled powers are sums with coefficients that have the scale
in them: so powers are not computed again.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import Matrices, contiguous
from oxinp._kernels.plan import ALIGNMENT, Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Instr, Operand, Output
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f64, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

TAYLOR = (
    (0.0, -0.10036558103014462, -0.00802924648241157, -0.0008921384980457299, 0.0),
    (0.0, 0.39784974949964506, 1.3678377846041172, 0.4982896225253826, -0.0006378981945947233),
    (-10.967639605296206, 1.680158138789062, 0.05717798464788655, -0.006982101224880520, 3.349750170860705e-05),
    (-0.09043168323908106, -0.06764045190713819, 0.06759613017704597, 0.029555257042931552, -1.391802575160607e-05),
    (0.0, 0.0, -0.09233646193671186, -0.016936493900208172, -1.4008679818203616e-05),
)
"""Of I, A, A^2, A^3 and A^6 in the five factors and terms that make Taylor's polynomial of degree 18, in two products.

P. Bader, S. Blanes and F. Casas, Computing the matrix exponential with an optimized Taylor polynomial approximation,
2019.
"""
DEGREES = (0, 1, 2, 3, 6)  # of these powers
NORMS = DEGREES[1:]  # of the powers whose norms are found
BLOCK, WARP = 256, 32
NORM_BLOCK, NORM_UNROLL = 1024, 4
Settings = tuple[str, int]
"""``config.matmul`` and ``config.matmul_workspace``, of products."""


@cache
@retraceable
def make_norms(type: Type) -> Kernel:
    """The kernel that finds the largest sums of a column's magnitudes, in double precision, of each of four arrays."""
    k = Builder("column_norms", block=NORM_BLOCK, target="sm_80")
    norms = k.pointer("norms", u64)
    powers = [k.pointer(f"power{degree}", type, "r") for degree in NORMS]
    order, groups = k.scalar("order", u32), k.scalar("groups", u32)
    partial = k.shared(f64, (NORM_BLOCK // WARP, WARP + 1))
    matrix = k.ctaid / groups
    column = (k.ctaid - matrix * groups) * WARP + k.lane
    first = k.cast(matrix, i64) * k.cast(order, i64) * k.cast(order, i64)
    for number, power in enumerate(powers):
        with k.when(k.ctaid.y == number):
            _sum_columns(k, power.at(first), partial, (order, column))
    k.barrier()
    with k.when(k.warp == 0):
        total = k.var(0, f64)
        for i in range(NORM_BLOCK // WARP):
            total.set(total.get() + partial[k.lane + i * (WARP + 1)])
        norms.atomic("max", k.ctaid.y, k.bitcast(total.get(), u64))
    return k.build()


def _sum_columns(k: Builder, a: Pointer, partial: Pointer, place: tuple[Value, Value]) -> None:
    """Leave the sums of each warp's rows of a column."""
    order, column = place
    step = NORM_BLOCK // WARP
    total = k.var(0, f64)
    with k.range(k.warp + 0, order, step * NORM_UNROLL) as start:
        values = []
        for i in range(NORM_UNROLL):
            row = start + i * step
            is_inside = (row < order) & (column < order)
            index = k.cast(k.where(is_inside, row, 0), i64) * k.cast(order, i64)
            element = a[index + k.cast(k.where(is_inside, column, 0), i64)]
            values.append((is_inside, element))
        for is_inside, element in values:
            total.set(total.get() + k.where(is_inside, _magnitude(k, element), k.const(0, f64)))
    k.warp_sync()
    partial[k.warp * (WARP + 1) + k.lane] = total.get()


def _magnitude(k: Builder, element: Value) -> Value:
    """The absolute value, in double precision; of complex numbers without regard to overflow, which is seen as such."""
    parts = [k.cast(part, f64) for part in element.parts]
    found: Value = k.abs(parts[0]) if len(parts) == 1 else k.sqrt(k.fma(parts[0], parts[0], parts[1] * parts[1]))
    return found


class TermsSpec(NamedTuple):
    """One kernel of sums of powers.

    Attributes
    ----------
    type : Type
        Of the numbers, or of their parts.
    num_parts : int
        2 of complex numbers, whose matrices are twice as many columns.
    width : int
        Neighbours that a thread loads at once.
    """

    type: Type
    num_parts: int
    width: int


@cache
@retraceable
def make_terms(spec: TermsSpec) -> Kernel:
    """The kernel of a Spec: the sums of a matrix's powers with rows of coefficients, given as their bits."""
    type_, width = spec.type, spec.width
    k = Builder("taylor_terms", block=BLOCK, target="sm_80")
    sums = [k.pointer(f"sum{i}", type_, "w") for i in range(len(TAYLOR))]
    powers = [k.pointer(f"power{degree}", type_, "r") for degree in NORMS]
    order, columns = k.scalar("order", u32), k.scalar("columns", u32)
    bits = u64 if type_ is f64 else u32
    coefficients = [
        [k.bitcast(k.scalar(f"c{i}_{j}", bits), type_) if c else None for j, c in enumerate(row)]
        for i, row in enumerate(TAYLOR)
    ]
    row = k.ctaid
    diagonal = (row - row / order * order) * spec.num_parts
    line = k.cast(row, i64) * k.cast(columns, i64)
    with k.range(k.tid * width, columns, BLOCK * width) as column:
        place = line + k.cast(column, i64)
        loaded = [power.load(place, width) for power in powers]
        for own, target in zip(coefficients, sums, strict=True):
            values = []
            for i in range(width):
                value = None
                if own[0] is not None:
                    value = k.where(column + i == diagonal, own[0], k.const(0, type_))
                for factor, power in zip(own[1:], loaded, strict=True):
                    if factor is not None:
                        value = factor * power[i] if value is None else k.fma(factor, power[i], value)
                values.append(value)
            target.store(place, values)
    return k.build()


def _add(k: Builder, x: Value, y: Value) -> Value:  # noqa: ARG001
    return x + y


class _Stack:
    """Matrices in C order, and how two of them are multiplied."""

    def __init__(self, shape: tuple[int, ...], type: Type, device: Device, settings: Settings) -> None:
        self.shape, self.type, self.device = shape, type, device
        self.count = math.prod(shape[:-2])
        self.nbytes = math.prod(shape) * type.nbytes
        given = (shape, shape[-1], *(Matrices(type, contiguous(shape), ALIGNMENT),) * 2)
        fastest = select.plan_steps(*given, type, device, *settings)
        plan = fastest or select.plan(*given, type, type, device)
        assert plan is not None
        self.product_plan = plan

    def product(self, left: Argument, right: Argument, out: Argument, more: Argument) -> Sequence[Step]:
        """Return the launches of a product of two of them."""
        return self.product_plan.on(in0=left, in1=right, out0=out, scratch=more)


def plan_powers(shape: tuple[int, ...], type: Type, device: Device, settings: Settings) -> Plan:
    """Return the plan of the powers and their norms.

    Outputs are the second, the third and the sixth power, and the largest 1-norms over the stack of the first, second,
    third and sixth, f64. The input is the matrices.

    Parameters
    ----------
    shape : tuple of int
        The batch, and the order twice.
    type : Type
    device : Device
    settings : (str, int)
        Of products.
    """
    stack, scratch = _Stack(shape, type, device, settings), Scratch()
    a, second, third, sixth, norms = (Argument(name) for name in ("in0", "out0", "out1", "out2", "out3"))
    more = scratch.take(stack.product_plan.scratch_nbytes)
    order = shape[-1]
    groups = -(-order // WARP)
    found = Launch(
        make_norms(type),
        (groups * stack.count, len(NORMS), 1),
        (norms, a, second, third, sixth),
        (order, groups),
        Work(nbytes=len(NORMS) * stack.nbytes),
    )
    steps = (
        *stack.product(a, a, second, more),
        *stack.product(second, a, third, more),
        *stack.product(third, third, sixth, more),
        Fill(norms, len(NORMS) * u64.nbytes, 0),
        found,
    )
    return scratch.plan(steps)


def plan_polynomial(
    shape: tuple[int, ...], type: Type, device: Device, scale: int, num_squares: int, settings: Settings
) -> Plan:
    """Return the plan of the exponential of matrices divided by a power of two, squared some times.

    The output is the result, the inputs are the matrices and their second, third and sixth powers.

    Parameters
    ----------
    shape, type, device, settings
        As for `plan_powers`.
    scale : int
        The exponent of the power of two.
    num_squares : int
    """
    stack, scratch = _Stack(shape, type, device, settings), Scratch()
    left, inner, other, right, product = (scratch.take(stack.nbytes) for _ in range(5))
    more = scratch.take(stack.product_plan.scratch_nbytes)
    term = Argument("out0")
    # Squares go to and fro, so that the last one is the output; `left` has been multiplied before.
    places = (term, left) if num_squares % 2 == 0 else (left, term)
    steps: list[Step] = [_terms(stack, (left, term, other, inner, right), scale)]
    steps += stack.product(left, right, product, more)
    # `inner` becomes its sum with the product, `other` its sum with that.
    steps += _added(stack, 3, ((0, 1), (2, 3))).on(in0=product, in1=inner, in2=other, out0=inner, out1=other)
    steps += stack.product(other, inner, product, more)
    steps += _added(stack, 2, ((0, 1),)).on(in0=product, in1=term, out0=places[0])
    for i in range(num_squares):
        source = places[i % 2]
        steps += stack.product(source, source, places[1 - i % 2], more)
    return scratch.plan(steps)


def _terms(stack: _Stack, sums: tuple[Argument, ...], scale: int) -> Launch:
    """Return the launch that makes the terms and factors of the polynomial."""
    real, num_parts = stack.type.parts[0], len(stack.type.parts)
    order = stack.shape[-1]
    columns = order * num_parts
    width = next(n for n in (16 // real.nbytes, 2, 1) if columns % n == 0)
    pack, unpack = ("<d", "<Q") if real is f64 else ("<f", "<I")
    bits = [
        struct.unpack(unpack, struct.pack(pack, c * 2.0 ** (-scale * degree)))[0]
        for row in TAYLOR
        for c, degree in zip(row, DEGREES, strict=True)
        if c
    ]
    return Launch(
        make_terms(TermsSpec(real, num_parts, width)),
        (order * stack.count, 1, 1),
        (*sums, *(Argument(f"in{i}") for i in range(len(NORMS)))),
        (order, columns, *bits),
        Work(nbytes=(len(sums) + len(NORMS)) * stack.nbytes),
    )


def _added(stack: _Stack, num_inputs: int, pairs: Sequence[tuple[int, int]]) -> Plan:
    """Return the launch that adds pairs of arrays and of sums, and stores all sums."""
    operand = Operand(stack.type, contiguous(stack.shape))
    instrs = [Instr(_add, stack.type, pair) for pair in pairs]
    outputs = [Output(num_inputs + i, operand) for i in range(len(pairs))]
    return elementwise.plan(stack.shape, (operand,) * num_inputs, instrs, outputs, stack.device)


__all__ = ["DEGREES", "NORMS", "TermsSpec", "make_norms", "make_terms", "plan_polynomial", "plan_powers"]
