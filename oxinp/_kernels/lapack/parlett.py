"""Parlett's recurrence: a function of a triangular matrix, of what the function is on the diagonal.

B. Parlett, A recurrence among the elements of functions of triangular matrices, 1976: F commutes with T, so that an
element of F follows from those left of it and below it, diagonal by diagonal.

Data layout: T and F (order, order) row by row, their transposes beside them, so that columns are read as rows are; F is
zero below the diagonal, and on it what is given.

Who owns what: a launch has a diagonal, a warp some of its elements, of which lanes share the sums.

Algorithm: f[i, j] (t[j, j] - t[i, i]) = t[i, j] (f[j, j] - f[i, i]) + sum of t[i, m] f[m, j] - f[i, m] t[m, j] over m
between i and j; where two elements of the diagonal are equal, nothing is divided by, as SciPy does.

Per diagonal `distance` of `order`: 4 * distance * (order - distance) elements are read.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import Operand, Output
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step

BLOCK, WARP = 128, 32
NUM_WARPS = BLOCK // WARP
AT_ONCE = 4  # elements of each row that a lane loads together
MAX_ORDER = 8192  # of which there are so many launches


@cache
@retraceable
def make(type: Type) -> Kernel:
    """The kernel of a type; see `plan`."""
    k = Builder("parlett_diagonal", block=BLOCK, target="sm_80")
    f, f_turned = (k.pointer(name, type) for name in ("f", "f_turned"))
    t, t_turned = (k.pointer(name, type, "r") for name in ("t", "t_turned"))
    order, distance = (k.scalar(name, u32) for name in ("order", "distance"))
    i = k.ctaid * NUM_WARPS + k.warp
    with k.when(i + distance < order):
        j = i + distance
        wide, row, column = k.cast(order, i64), k.cast(i, i64), k.cast(j, i64)
        lines = [x.at(k.cast(number, i64) * wide) for x, number in ((t, i), (f_turned, j), (f, i), (t_turned, j))]
        total = k.var(k.const(0, type))
        with k.range(i + 1 + k.lane, j, WARP * AT_ONCE) as first:
            places = [first + step * WARP if step else first for step in range(AT_ONCE)]
            loaded = [[line[k.cast(k.min(place, j - 1), i64)] for line in lines] for place in places]
            for place, (left, below, own, other) in zip(places, loaded, strict=True):
                with k.when(place < j):
                    total.set(multiply_add(k, left, below, total.get()) - own * other)
        k.warp_sync()
        found = warp_reduce(k, total.get(), lambda a, b: a + b)
        with k.when(k.lane == 0):
            here, last = row * wide + row, column * wide + column
            found = found + t[row * wide + column] * (f[last] - f[here])
            gap = t[last] - t[here]
            is_zero = gap.parts[0] == 0
            for part in gap.parts[1:]:
                is_zero = is_zero & (part == 0)
            value = k.where(is_zero, found, found / k.where(is_zero, k.const(1, type), gap))
            f[row * wide + column] = value
            f_turned[column * wide + row] = value
    return k.build()


@cache
@retraceable
def make_diagonal(type: Type) -> Kernel:
    """The kernel that writes the diagonal of F, and of its transpose."""
    k = Builder("parlett_start", block=BLOCK, target="sm_80")
    f, f_turned, diagonal = (
        k.pointer("f", type, "w"),
        k.pointer("f_turned", type, "w"),
        k.pointer("diagonal", type, "r"),
    )
    order = k.scalar("order", u32)
    i = k.ctaid * BLOCK + k.tid
    with k.when(i < order):
        place = k.cast(i, i64) * k.cast(order + 1, i64)
        value = diagonal[k.cast(i, i64)]
        f[place] = value
        f_turned[place] = value
    return k.build()


def plan(order: int, t: Operand, device: Device) -> Plan:
    """Return the launches of F; the inputs are T, of which the upper triangle counts, and the diagonal of F.

    Parameters
    ----------
    order : int
        At most `MAX_ORDER`.
    t : Operand
        Complex.
    device : Device
    """
    type_, scratch = t.type, Scratch()
    nbytes = order * order * type_.nbytes
    rows, columns, f_turned = (scratch.take(nbytes) for _ in range(3))
    f = Argument("out0")
    steps: list[Step] = [Fill(f, nbytes, 0), Fill(f_turned, nbytes, 0)]
    for to, strides in ((rows, t.strides), (columns, t.strides[::-1])):
        source = Operand(type_, strides, t.alignment)
        moved = elementwise.plan((order, order), (source,), (), (Output(0, Operand(type_, (order, 1))),), device)
        steps += moved.on(out0=to, in0=Argument("in0"))
    start = make_diagonal(type_)
    steps.append(Launch(start, (-(-order // BLOCK), 1, 1), (f, f_turned, Argument("in1")), (order,)))
    kernel = make(type_)
    for distance in range(1, order):
        count = order - distance
        work = Work(16 * count * distance, 4 * count * distance * type_.nbytes)
        grid = (-(-count // NUM_WARPS), 1, 1)
        steps.append(Launch(kernel, grid, (f, f_turned, rows, columns), (order, distance), work))
    return scratch.plan(steps)


__all__ = ["MAX_ORDER", "make", "make_diagonal", "plan"]
