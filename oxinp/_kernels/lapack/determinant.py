"""Determinants of factored matrices, as a sign and the logarithm of a magnitude.

Data layout: U, the upper triangle of matrices row by row in memory, and the rows that changed places with each, u32.

Who owns what: a warp has a matrix, a lane every 32nd element of its diagonal.

Algorithm: logarithms of magnitudes are summed up and signs (of complex numbers, directions) multiplied, by lane and
then over the warp; every row that changed places with another turns the sign. Of a zero the sign is zero.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Launch, Plan
from oxinp._ptx import Builder, Kernel
from oxinp._ptx import math as device_math
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._kernels.lapack.lu import Stack
    from oxinp._ptx.value import Value

BLOCK, WARP = 128, 32


@cache
@retraceable
def make(type: Type) -> Kernel:
    """The kernel for matrices of a type; see `plan`."""
    k = Builder("determinant", block=BLOCK, target="sm_80")
    real = type.parts[0]
    signs, logarithms = k.pointer("signs", type, "w"), k.pointer("logarithms", real, "w")
    a, pivots = k.pointer("a", type, "r"), k.pointer("pivots", u32, "r")
    order, count, step, move = (
        *(k.scalar(name, u32) for name in ("order", "count")),
        *(k.scalar(name, i64) for name in ("step", "move")),
    )
    matrix = k.ctaid * (BLOCK // WARP) + k.warp
    with k.when(matrix < count):
        sign, total = k.var(k.const(1, type)), k.var(k.const(0, real))
        a, pivots = a.at(k.cast(matrix, i64) * move), pivots.at(k.cast(matrix, i64) * k.cast(order, i64))
        with k.range(k.lane + 0, order, WARP) as row:
            element = a[k.cast(row, i64) * step]
            magnitude = k.abs(element)
            turned = _direction(k, element, magnitude)
            is_moved = pivots[k.cast(row, i64)] != row
            sign.set(sign.get() * k.where(is_moved, -turned, turned))
            total.set(total.get() + device_math.log(k, magnitude))
        k.warp_sync()
        product = warp_reduce(k, sign.get(), lambda x, y: x * y)
        logarithm = warp_reduce(k, total.get(), lambda x, y: x + y)
        with k.when(k.lane == 0):
            signs[k.cast(matrix, i64)] = product
            logarithms[k.cast(matrix, i64)] = logarithm
    return k.build()


def _direction(k: Builder, element: Value, magnitude: Value) -> Value:
    """The element over its magnitude; 0 of 0."""
    is_zero = magnitude == 0
    if not element.type.is_complex:
        one = k.where(k.isnan(element), element, k.copysign(element, k.const(1, element.type)))
        return k.where(is_zero, k.const(0, element.type), one)
    parts = [k.where(is_zero, k.const(0, part.type), part / magnitude) for part in element.parts]
    return k.compound(element.type, *parts)


def plan(stack: Stack) -> Plan:
    """Return the launch: outputs are signs and logarithms, one per matrix, inputs the factors and the pivots."""
    constants = (stack.num_rows, stack.count, stack.pitch + 1, stack.move)
    grid = (-(-stack.count // (BLOCK // WARP)), 1, 1)
    return Plan((Launch(make(stack.type), grid, tuple(map(Argument, ("out0", "out1", "in0", "in1"))), constants),))


__all__ = ["make", "plan"]
