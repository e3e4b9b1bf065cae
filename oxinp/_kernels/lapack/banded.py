"""Banded systems of which the factors are known, with many right-hand sides: substitution down, then up, as xGBTRS.

Data layout: X (order, columns) row by row, in place; for every row j of the factors the diagonal of L and what is below
it, ``lower`` + 1 elements; the diagonal of U and what is right of it, ``upper`` + 1; and how far below the row lies
with which row j changes places before, u32, where rows do.

Who owns what: a thread has a column of X, of which it holds the rows that the band reaches in registers.

Algorithm: of some rows at a time everything is loaded before the first is used; rows move through the window by their
names. Terms are taken off in LAPACK's order.

Per column: four passes over X, 2 * (lower + upper + 1) multiply-adds per row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.plan import Argument, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 32
HELD = 32  # words of the factors that a thread holds, of 8 bytes
MAX_ROWS = 8  # at a time
MAX_BAND = 16  # elements beside the diagonal


class BandedSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    lower, upper : int
        Elements of L below its diagonal and of U right of it.
    is_pivoted : bool
        Rows change places.
    """

    type: Type
    lower: int
    upper: int
    is_pivoted: bool

    def rows(self, band: int) -> int:
        """Rows at a time, of a factor with so many elements beside its diagonal."""
        return max(1, min(MAX_ROWS, HELD * 8 // (self.type.nbytes * (band + 2))))


def is_possible(lower: int, upper: int) -> bool:
    """Whether a window of the band fits into registers."""
    return max(lower, upper) <= MAX_BAND


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BandedSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Substitution(spec).build()


class _Substitution:
    """The kernel while it is built."""

    def __init__(self, spec: BandedSpec) -> None:
        self.spec = spec
        self.k = k = Builder("banded_substitution", block=BLOCK, target="sm_80")
        self.x = k.pointer("x", spec.type)
        self.l, self.u = (k.pointer(name, spec.type, "r") for name in ("l", "u"))
        self.places = k.pointer("places", u32, "r") if spec.is_pivoted else None
        self.order, self.columns = k.scalar("order", u32), k.scalar("columns", u32)
        number = k.ctaid * BLOCK + k.tid
        self.is_inside = number < self.columns
        self.column = self.x.at(k.cast(number, i64))

    def build(self) -> Kernel:
        with self.k.when(self.is_inside):
            self.go_down()
            self.go_up()
        return self.k.build()

    def load(self, row: Value) -> Value:
        """Return the column's element of a row, of the last one beyond it."""
        k = self.k
        return self.column[k.cast(k.min(row, self.order - 1), i64) * k.cast(self.columns, i64)]

    def store(self, row: Value, value: Value) -> None:
        """Write an element, if there is one."""
        k = self.k
        with k.when(row < self.order):
            self.column[k.cast(row, i64) * k.cast(self.columns, i64)] = value

    def factor(self, table: Pointer, row: Value, band: int) -> list[Value]:
        """Return the elements of a row of a factor."""
        k = self.k
        line = table.at(k.cast(k.min(row, self.order - 1), i64) * (band + 1))
        return [line[i] for i in range(band + 1)]

    def go_down(self) -> None:
        """Solve L Y = P B."""
        k, band = self.k, self.spec.lower
        count = self.spec.rows(band)
        window = [k.var(self.load(k.const(i, u32))) for i in range(band)]
        with k.range(k.const(0, u32), self.order, count) as first:
            rows = [first + i if i else first for i in range(count)]
            loaded = [self.load(row + band) for row in rows]
            factors = [self.factor(self.l, row, band) for row in rows]
            places = [self.places[k.cast(k.min(row, self.order - 1), i64)] for row in rows] if self.places else []
            held = [x.get() for x in window]
            for i, row in enumerate(rows):
                held.append(loaded[i])
                if self.places:
                    top = held[0]
                    for below in range(1, band + 1):
                        is_it = places[i] == below
                        top, held[below] = k.where(is_it, held[below], top), k.where(is_it, held[0], held[below])
                    held[0] = top
                value = held.pop(0)
                if not self.places:  # L of LU has ones on its diagonal
                    value = value / factors[i][0]
                self.store(row, value)
                held = [multiply_add(k, -factors[i][j + 1], value, x) for j, x in enumerate(held)]
            for x, value in zip(window, held, strict=True):
                x.set(value)

    def go_up(self) -> None:
        """Solve U X = Y."""
        k, band = self.k, self.spec.upper
        count = self.spec.rows(band)
        window = [k.var(k.const(0, self.spec.type)) for _ in range(band)]
        padded = (self.order + (count - 1)) / count * count
        with k.range(k.const(0, u32), padded, count) as done:
            # From the last row up; those beyond it, which come first, are zeros.
            rows = [padded - 1 - done - i for i in range(count)]
            loaded = [self.load(row) for row in rows]
            factors = [self.factor(self.u, row, band) for row in rows]
            held = [x.get() for x in window]
            for i, row in enumerate(rows):
                value = loaded[i]
                for j in reversed(range(band)):
                    value = multiply_add(k, -factors[i][j + 1], held[j], value)
                value = k.where(row < self.order, value / factors[i][0], k.const(0, self.spec.type))
                self.store(row, value)
                held = [value, *held[: band - 1]] if band else []
            for x, value in zip(window, held, strict=True):
                x.set(value)


def plan(spec: BandedSpec, order: int, columns: int, copied: Plan) -> Plan:
    """Return the launches of X: the output is that; the inputs are B, L, U and, where rows change places, by how much.

    Parameters
    ----------
    spec : BandedSpec
    order, columns : int
        Rows and columns of X, at least 1 each.
    copied : Plan
        Of B to where X is to be, in C order.
    """
    names = ("out0", "in1", "in2", *(["in3"] if spec.is_pivoted else []))
    size = order * columns
    flops = (8 if spec.type.is_complex else 2) * size * (spec.lower + spec.upper + 2)
    work = Work(flops, 4 * size * spec.type.nbytes)
    grid = (-(-columns // BLOCK), 1, 1)
    launch = Launch(make(spec), grid, tuple(Argument(name) for name in names), (order, columns), work)
    return copied.replace(steps=(*copied.steps, launch))


__all__ = ["MAX_BAND", "BandedSpec", "is_possible", "make", "plan"]
