"""Substitution: triangular systems of a few blocks, many right-hand sides at a time.

Data layout: L (order, order) lower triangular, X (order, columns), each with any strides, backwards too (so that upper
systems are lower ones), one or many of them. In shared memory lie the block's columns of X, and `height` columns of L
at a time, transposed, with the reciprocals of the diagonal on it.

Who owns what: a block has `WIDTH` columns of X, each lane of every warp one of them.

Algorithm: for every `height` rows: the first warp solves for them in registers, each found value taken at once off the
rows of these below it; then all warps take the products with the found rows off the rows further below, `ROWS` at a
time.

Per column: order^2 flops; per block, order^2 / 2 elements of L are read. The diagonal's reciprocals are rounded, as in
OpenBLAS: each value has an error of two roundings more than by division.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm_units import multiply_add
from oxinp._kernels.problem import Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WIDTH = 32
NUM_WARPS = 4
ROWS = 8  # of a warp at a time
NUM_HEIGHTS = 4  # of a system
HEIGHTS = {4: 32, 8: 32, 16: 16}  # rows that are solved for in registers, by the bytes of an element
VECTOR_NBYTES = 16


class SubstitutionSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    has_unit_diagonal, is_conjugated : bool
        Of L.
    is_turned : bool
        X lies in memory column by column.
    """

    type: Type
    has_unit_diagonal: bool = False
    is_conjugated: bool = False
    is_turned: bool = False


def length(type: Type) -> int:
    """Largest order of a system."""
    return NUM_HEIGHTS * HEIGHTS[type.nbytes]


@cache
@retraceable
def make(spec: SubstitutionSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Substitution(spec).build()


class _Substitution:
    """The kernel while it is built."""

    def __init__(self, spec: SubstitutionSpec) -> None:
        self.spec = spec
        self.height, self.length = HEIGHTS[spec.type.nbytes], length(spec.type)
        self.k = k = Builder("substitution", block=NUM_WARPS * WIDTH, target="sm_80", min_blocks=1)
        self.x, self.a = k.pointer("x", spec.type), k.pointer("a", spec.type, "r")
        self.order, self.columns, self.strips = (k.scalar(name, u32) for name in ("order", "columns", "strips"))
        self.a_strides = [k.scalar(name, i64) for name in ("a_row", "a_column")]
        self.x_strides = [k.scalar(name, i64) for name in ("x_row", "x_column")]
        self.moves = [k.scalar(name, i64) for name in ("a_move", "x_move")]
        self.pitch = WIDTH + 1
        self.vector = max(1, VECTOR_NBYTES // spec.type.nbytes)
        self.values = k.dynamic_shared(spec.type, (self.length, self.pitch))
        self.panel = k.dynamic_shared(spec.type, (self.height, self.length))

    def build(self) -> Kernel:
        k = self.k
        matrix = k.ctaid / self.strips
        first = (k.ctaid - matrix * self.strips) * WIDTH
        a, x = (p.at(k.cast(matrix, i64) * move) for p, move in zip((self.a, self.x), self.moves, strict=True))
        self.copy(x, first, is_in=True)
        with k.range(0, self.order, self.height) as start:
            self.load(a, start)
            k.barrier()
            with k.when(k.warp == 0):
                self.solve(start)
            k.barrier()
            self.reduce(start)
            k.barrier()
        self.copy(x, first, is_in=False)
        return k.build()

    def copy(self, x: Pointer, first: Value, *, is_in: bool) -> None:
        """Bring the block's columns of X in, rows beyond the last as zeros, or out; lanes along what is contiguous."""
        k = self.k
        with k.range(k.tid, self.length * WIDTH, NUM_WARPS * WIDTH) as number:
            if self.spec.is_turned:
                row, column = number % self.length, number / self.length
            else:
                row, column = number / WIDTH, number % WIDTH
            here = self.values.at(row * self.pitch + column)
            there = x.at(k.cast(row, i64) * self.x_strides[0]).at(k.cast(first + column, i64) * self.x_strides[1])
            is_present = (row < self.order) & (first + column < self.columns)
            if is_in:
                value = k.var(k.const(0, self.spec.type))
                with k.when(is_present):
                    value.set(there[0])
                here[0] = value.get()
            else:
                with k.when(is_present):
                    there[0] = here[0]

    def load(self, a: Pointer, start: Value) -> None:
        """Bring columns of L from `start` on in, from the diagonal down; beyond the order it is the unit matrix."""
        k, spec = self.k, self.spec
        with k.range(k.tid, self.height * self.length, NUM_WARPS * WIDTH) as number:
            column, row = number / self.length, number % self.length
            along = start + column
            value = k.var(k.const(0, spec.type))
            with k.when((row < self.order) & (along < self.order) & (row >= along)):
                found = a.at(k.cast(row, i64) * self.a_strides[0]).at(k.cast(along, i64) * self.a_strides[1])[0]
                if spec.is_conjugated and spec.type.is_complex:
                    real, imag = found.parts
                    found = k.compound(spec.type, real, -imag)
                value.set(found)
            one = k.const(1, spec.type)
            with k.when((row == along) & (row >= self.order)):
                value.set(one)
            if not spec.has_unit_diagonal:
                with k.when(row == along):
                    value.set(one / value.get())
            self.panel.at(column * self.length + row)[0] = value.get()

    def solve(self, start: Value) -> None:
        """Solve for the rows of the block on the diagonal."""
        k = self.k
        column = self.values.at(start * self.pitch + k.lane)
        panel = self.panel.at(start)
        found = [k.var(column[i * self.pitch]) for i in range(self.height)]
        for j in range(self.height):
            first = j // self.vector * self.vector
            factors = self.factors(panel, j, first, self.height)
            if not self.spec.has_unit_diagonal:
                found[j].set(found[j].get() * factors[j - first])
            value = -found[j].get()
            for i in range(j + 1, self.height):
                found[i].set(multiply_add(k, factors[i - first], value, found[i].get()))
        for i, variable in enumerate(found):
            column[i * self.pitch] = variable.get()

    def reduce(self, start: Value) -> None:
        """Take the products with the rows that are found off those below."""
        k = self.k
        known = self.values.at(start * self.pitch + k.lane)
        with k.range(start + self.height + k.warp * ROWS, self.length, NUM_WARPS * ROWS) as row:
            column = self.values.at(row * self.pitch + k.lane)
            totals = [k.var(column[i * self.pitch]) for i in range(ROWS)]
            panel = self.panel.at(row)
            for j in range(self.height):
                value = -known[j * self.pitch]
                for factor, total in zip(self.factors(panel, j, 0, ROWS), totals, strict=True):
                    total.set(multiply_add(k, factor, value, total.get()))
            for i, total in enumerate(totals):
                column[i * self.pitch] = total.get()

    def factors(self, panel: Pointer, column: int, begin: int, end: int) -> list[Value]:
        """Elements of a column of L, which all lanes read."""
        lines = range(column * self.length + begin, column * self.length + end, self.vector)
        return [value for line in lines for value in panel.load(line, self.vector)]


def plan(
    spec: SubstitutionSpec,
    shape: tuple[int, int],
    a_strides: tuple[int, int],
    x_strides: tuple[int, int],
    batch: tuple[int, int, int] = (1, 0, 0),
) -> Launch:
    """Launch that solves L X = B; parameters are the pointers to the first elements of X, which is B before, and L.

    Parameters
    ----------
    spec : SubstitutionSpec
    shape : (order, columns)
        Of X, at least 1 each, the order at most `length`.
    a_strides, x_strides : (int, int)
        Of L and X along rows and columns, in elements.
    batch : (int, int, int)
        Number of systems, and elements from one to the next of L and X.
    """
    order, columns = shape
    if not 1 <= order <= length(spec.type):
        raise ValueError(f"a system is of order 1 to {length(spec.type)}, not {order}")
    strips = -(-columns // WIDTH)
    count, *moves = batch
    constants = (order, columns, strips, *a_strides, *x_strides, *moves)
    flops = (4 if spec.type.is_complex else 1) * order * order * columns * count
    work = Work(flops, (2 * order * columns + order * order // 2) * spec.type.nbytes * count)
    return Launch(make(spec), (strips * count, 1, 1), constants, work)


__all__ = ["SubstitutionSpec", "length", "make", "plan"]
