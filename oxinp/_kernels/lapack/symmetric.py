"""The spectrum of Hermitian matrices that no block holds: tridiagonal ones, divide and conquer, and reflectors.

As LAPACK's xSYEVD and xHEEVD: matrices are reduced panel by panel, what is left after each by one product of twice its
width; of the eigenvectors of the tridiagonal matrices, which are real, block reflectors make those of the matrices.
Eigenvalues alone are found by counting.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.blas3 import symmetrize
from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.operand import HERMITIAN, Form, Matrices
from oxinp._kernels.lapack import (
    block_reflectors,
    conquer,
    divide,
    lu_panel,
    scaling,
    sturm,
    tridiagonal,
    tridiagonal_cluster,
)
from oxinp._kernels.lapack.lu import contiguous
from oxinp._kernels.lapack.qr import Qr
from oxinp._kernels.lapack.scaling import FORMATS
from oxinp._kernels.lapack.tridiagonal import WIDTH, Reduction
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Step
    from oxinp._kernels.problem import Operand

BLOCK = 256


def is_possible(type: Type, count: int, order: int, device: Device) -> bool:
    """Whether there are kernels for matrices of an order."""
    return (
        2 < order <= divide.most_rows(type.parts[0], device)
        and order <= lu_panel.most_rows(type, device)
        and tridiagonal.is_possible(type, count, order, device)
    )


class FinishSpec(NamedTuple):
    """One kernel that writes results: rows of so many elements, of longer ones, in their order.

    Attributes
    ----------
    type : Type
        Of the results; what is read is real.
    is_scaled : bool
        They are multiplied by what matrices were divided by.
    has_status : bool
        Matrices that are not finite are told of.
    """

    type: Type
    is_scaled: bool
    has_status: bool = False


@cache
@retraceable
def make_finish(spec: FinishSpec) -> Kernel:
    """The kernel of a Spec: NaN where a matrix is not finite."""
    type_ = spec.type.parts[0]
    shift, bias, safe = FORMATS[type_.bits]
    k = Builder("finish_spectrum", block=BLOCK, target="sm_80")
    out, found, words = k.pointer("out", spec.type, "w"), k.pointer("found", type_, "r"), k.pointer("words", u32, "r")
    status = k.pointer("status", u64) if spec.has_status else None
    total, rows, columns, pitch, move = (k.scalar(name, i64) for name in ("total", "rows", "columns", "pitch", "move"))
    with k.grid_stride(total) as number:
        line = number / columns
        matrix = line / rows
        value = found[matrix * move + (line - matrix * rows) * pitch + (number - line * columns)]
        word = words[matrix]
        exponent = word >> shift
        if spec.is_scaled:
            is_far = ((exponent + safe < bias) | (exponent > bias + safe)) & (word != 0)
            most = k.const(2 * bias - 1, u32)
            power = scaling.power(k, k.max(k.min(exponent, most), k.const(1, u32)), type_)
            value = k.where(is_far, value * power, value)
        value = k.where(exponent > 2 * bias, k.const(float("nan"), type_), value)
        if status is not None:
            with k.when(exponent > 2 * bias):
                status.atomic("min", 0, k.cast(matrix, u64))
        out[number] = k.compound(spec.type, value, k.const(0, type_)) if spec.type.is_complex else value
    return k.build()


def _finish(
    spec: FinishSpec, shape: tuple[int, int, int], places: tuple[Argument, ...], strides: tuple[int, int]
) -> Launch:
    total = math.prod(shape)
    grid = (min(-(-total // BLOCK), 1 << 16), 1, 1)
    return Launch(make_finish(spec), grid, places, (total, *shape[1:], *strides), Work(nbytes=2 * total * 8))


def plan(shape: Sequence[int], a: Operand, device: Device, *, has_vectors: bool) -> Plan:
    """Return the launches of the eigenvalues, ascending, of Hermitian matrices.

    Outputs are the values and, where they are asked for, the vectors, one a column; else a status, u64, which becomes
    the number of the first matrix that is not finite. Divide and conquer for vectors gives NaN, as LAPACK's does.

    Parameters
    ----------
    shape : sequence of int
        The batch, and the order twice; see `is_possible`.
    a : Operand
        Of which lower triangles are read.
    device : Device
    has_vectors : bool
    """
    order, count = shape[-1], math.prod(shape[:-2])
    return _Spectrum(a.type, count, order, device).plan(tuple(shape), a, has_vectors=has_vectors)


class _Spectrum:
    """A plan while it is made."""

    def __init__(self, type: Type, count: int, order: int, device: Device) -> None:
        self.type, self.count, self.order, self.device = type, count, order, device
        self.scratch = Scratch()
        self.steps: list[Step] = []
        nbytes = type.nbytes
        self.stack = contiguous(type, count, order, order)
        self.held = self.scratch.take(count * order * order * nbytes)
        self.p, self.q = (self.scratch.take(count * order * 2 * WIDTH * nbytes) for _ in range(2))
        self.real = type.parts[0]
        self.d, self.e, self.tau = (self.scratch.take(count * order * nbytes) for _ in range(3))
        self.words = self.scratch.take(scaling.WORD_NBYTES * count)
        rest = contiguous(type, count, order - 1, order - 1)
        self.reflectors = Qr(rest, self.held, self.tau, self.scratch, device, order)

    def plan(self, shape: tuple[int, ...], a: Operand, *, has_vectors: bool) -> Plan:
        """Return the plan."""
        matrices = Matrices(a.type, a.strides, a.alignment)
        self.steps += symmetrize.plan(shape, matrices, Form(HERMITIAN, is_lower=True), self.device).on(out0=self.held)
        self.steps += scaling.scaled(self.stack, self.held, self.words)
        self.reduce()
        if not has_vectors:
            return self.values_alone()
        padded = conquer.tree(self.order).padded
        values = self.scratch.take(self.count * padded * self.real.nbytes)
        vectors = self.scratch.take(self.count * padded * padded * self.real.nbytes)
        conquered = conquer.plan(self.real, self.count, self.order, self.device)
        more = self.scratch.take_of(conquered)
        self.steps += conquered.on(out0=values, out1=vectors, in0=self.d, in1=self.e, scratch=more)
        order = self.order
        self.finish_values(values, padded)
        shape_, strides = (self.count, order, order), (padded, padded * padded)
        places = (Argument("out1"), vectors, self.words)
        self.steps.append(_finish(FinishSpec(self.type, False), shape_, places, strides))
        self.turn_back()
        self.reflectors.steps = self.steps
        return self.reflectors.plan()

    def values_alone(self) -> Plan:
        """Return the plan without vectors."""
        values = self.scratch.take(self.count * self.order * self.real.nbytes)
        self.steps += sturm.plan(self.real, self.count, self.order).on(out0=values, in0=self.d, in1=self.e)
        self.finish_values(values, self.order, Argument("out1"))
        self.reflectors.steps = self.steps
        return self.reflectors.plan()

    def finish_values(self, values: Argument, move: int, *status: Argument) -> None:
        """Append what writes the eigenvalues, which lie at a distance for every matrix, and a status if it is told."""
        places = (Argument("out0"), values, self.words, *status)
        spec = FinishSpec(self.real, True, bool(status))
        self.steps.append(_finish(spec, (self.count, 1, self.order), places, (move, move)))

    def reduce(self) -> None:
        """Append what makes the tridiagonal matrices and the reflectors."""
        made, stack, order = self.reflectors.made, self.stack, self.order
        division = tridiagonal.cut(self.type, self.count, order, self.device)
        told = tridiagonal.board(self.scratch, self.type, self.count, order, division)
        places = {
            "a": self.held, "p": self.p, "q": self.q, "v": made.v_place, "d": self.d, "e": self.e, "tau": self.tau
        }  # fmt: skip
        nbytes = made.v.count * made.v.move * self.type.nbytes
        self.steps += [Fill(made.v_place, nbytes, 0), Fill(told.flags, told.flags_nbytes, 0)]
        epoch = 0
        for first in range(0, order, WIDTH):
            last = tridiagonal_cluster.choose(self.type, self.count, order - first, self.device)
            if last is not None:
                strides = stack.pitch, stack.move, made.v.pitch, made.v.move
                self.steps.append(tridiagonal_cluster.launch(last, self.count, (order, first), places, strides))
                return
            width = min(WIDTH, order - first)
            for start in range(0, self.count, division.at_once):
                panel = Reduction(
                    self.type,
                    order,
                    first,
                    width,
                    (stack.pitch, stack.move),
                    (made.v.pitch, made.v.move),
                    start,
                    min(division.at_once, self.count - start),
                    epoch,
                )
                self.steps.append(tridiagonal.launch(panel, division, places, told, self.device))
                epoch += 2 * WIDTH
            if first + width < order:
                self.update(first, first + width)

    def update(self, first: int, low: int) -> None:
        """Append what takes the products of a panel off what is left."""
        stack, nbytes = self.stack, self.type.nbytes
        rows, c = self.order - low, self.stack.part(low, low)
        batch, moves = ((self.count,), (self.order * 2 * WIDTH,)) if self.count > 1 else ((), ())
        offset = (low - first) * 2 * WIDTH * nbytes
        alignment = math.gcd(256, offset)
        left = Matrices(self.type, (*moves, 2 * WIDTH, 1), alignment)
        right = Matrices(self.type, (*moves, 1, 2 * WIDTH), alignment)
        # All of it, by the kernels that load C ahead: one triangle and its mirror image take three times as long.
        shape = (*batch, rows, rows)
        product = select.plan_update(shape, 2 * WIDTH, left, right, c, self.device)
        at = self.held.at(stack.at(low, low))
        self.steps += product.on(out0=at, in0=self.p.at(offset), in1=self.q.at(offset), in2=at)

    def turn_back(self) -> None:
        """Append what makes vectors of the matrices of those of the tridiagonal ones, in place."""
        self.reflectors.steps = self.steps
        block_reflectors.apply(self.reflectors, self.tau, (self.order, self.order), Argument("out1"))


__all__ = ["FinishSpec", "is_possible", "make_finish", "plan"]
