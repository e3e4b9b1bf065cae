"""The first zero on the diagonals of matrices.

Data layout: matrices with any strides, one or many of them, one status word of type u64 that is all ones before.

Who owns what: a thread has an element of a diagonal at a time.

Algorithm: whoever finds a zero takes the minimum of the status and its number, counted through all diagonals. Reads
one element per row.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Fill, Launch, Plan, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.gemm.operand import Matrices

BLOCK = 256
STATUS_NBYTES = 8
NO_ZERO = -1  # as i64: the status where no diagonal has a zero


@cache
@retraceable
def make(type: Type) -> Kernel:
    """The kernel for elements of a type; see `plan`."""
    k = Builder("first_zero", block=BLOCK, target="sm_80")
    status, a = k.pointer("status", u64), k.pointer("a", type, "r")
    order, count = k.scalar("order", u32), k.scalar("count", u32)
    step, move = k.scalar("step", i64), k.scalar("move", i64)
    with k.grid_stride(count) as number:
        matrix = number / order
        place = k.cast(matrix, i64) * move + k.cast(number - matrix * order, i64) * step
        with k.when(a[place] == k.const(0, type)):
            status.atomic("min", 0, k.cast(number, u64))
    return k.build()


def plan(matrices: Matrices, order: int, count: int, move: int) -> Plan:
    """Return the plan that leaves the number of the first zero, or `NO_ZERO`: the output is the status.

    Parameters
    ----------
    matrices : Matrices
        The input.
    order : int
        At least 1.
    count : int
        How many matrices there are.
    move : int
        Elements from one to the next.
    """
    total = order * count
    grid = (-(-total // BLOCK), 1, 1)
    constants = (order, total, sum(matrices.strides[-2:]), move)
    (status,) = outputs(1)
    launch = Launch(make(matrices.type), grid, (status, *inputs(1)), constants)
    return Plan((Fill(status, STATUS_NBYTES, 0xFF), launch))


__all__ = ["NO_ZERO", "STATUS_NBYTES", "make", "plan"]
