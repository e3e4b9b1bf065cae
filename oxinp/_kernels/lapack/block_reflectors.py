"""Matrices multiplied from the left by reflectors of which V and tau are known.

Block reflectors I - V M^-1 V^H are made of them, see `qr`: M is V^H V above its diagonal, and 1 / tau on it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.lapack.lu import Stack
from oxinp._kernels.plan import Launch
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64

if TYPE_CHECKING:
    from oxinp._kernels.lapack.qr import Qr
    from oxinp._kernels.plan import Argument

BLOCK = 256


@cache
@retraceable
def make_diagonal(type: Type) -> Kernel:
    """The kernel that puts 1 / tau on the diagonals of products of reflectors: infinity where there is none."""
    k = Builder("reflectors_diagonal", block=BLOCK, target="sm_80")
    m, inner, tau = k.pointer("m", type, "w"), k.pointer("inner", type, "r"), k.pointer("tau", type, "r")
    total, width, pitch, move, tau_move = (
        k.scalar(name, i64) for name in ("total", "width", "pitch", "move", "tau_move")
    )
    one, zero = k.const(1, type), k.const(0, type)
    with k.grid_stride(total) as number:
        line = number / width
        column = number - line * width
        matrix = line / width
        row = line - matrix * width
        value = k.var(inner[number])
        infinite = k.const(float("inf"), type)
        with k.when(row == column):
            found = tau[matrix * tau_move + row]
            is_none = found == zero
            value.set(k.where(is_none, infinite, one / k.where(is_none, one, found)))
        m[matrix * move + row * pitch + column] = value.get()
    return k.build()


def apply(reflectors: Qr, tau: Argument, shape: tuple[int, int], out: Argument, skipped: int = 1) -> None:
    """Append what multiplies matrices, rows behind each other, by the reflectors, in place.

    Parameters
    ----------
    reflectors : Qr
        Of matrices of as many rows as are not skipped.
    tau : Argument
        As many elements per matrix as there are reflectors, and skipped rows.
    shape : (int, int)
        Rows and columns of the matrices.
    out : Argument
    skipped : int
        First rows, which stay as they are.
    """
    (order, columns), type_, count, made = shape, reflectors.type, reflectors.count, reflectors.made
    offset = skipped * columns * type_.nbytes
    below = out.at(offset)
    target = Stack(type_, count, order - skipped, columns, columns, order * columns, math.gcd(256, offset))
    for low, high in reversed(reflectors.blocks):
        width = high - low
        source = made.v_place.at(made.v.at(low, low))
        reflectors.product(low, (low, high), made.v.part(low, low), source, width)
        total = count * width * width
        grid = (min(-(-total // BLOCK), 1 << 16), 1, 1)
        m = made.m_place.at(made.m.at(low, 0))
        arguments = (m, reflectors.inner, tau.at(low * type_.nbytes))
        constants = (total, width, made.m.pitch, made.m.move, reflectors.depth + skipped)
        reflectors.steps.append(Launch(make_diagonal(type_), grid, arguments, constants))
        reflectors.apply((low, high), low, target, below, (0, columns), is_adjoint=False)


__all__ = ["apply", "make_diagonal"]
