"""Forward substitution: small triangular systems L X = B with many right-hand sides.

Data layout: L (order, order) is lower triangular, X is (order, columns), each with any strides, negative ones too (so
that upper systems are lower ones), in batches. Shared memory has the block's columns of X, and two panels of `height`
columns of L, transposed, with the reciprocals of the diagonal.

Who owns what: a block has `WIDTH` columns of X, each lane of every warp one of them.

Algorithm: for every `height` rows: while the next panel of L is loaded, the first warp solves for these rows in
registers, subtracting the products of each solved value from the values below it; then all warps subtract the products
with the solved rows from the rows further below, `ROWS` at a time.

Per column: order^2 flops; per block, order^2 / 2 elements of L are read. The diagonal's reciprocals are rounded, as in
OpenBLAS: each value has an error of two roundings more than by division.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

WIDTH = 32
NUM_WARPS = 4
ROWS = 8  # of an update, per warp at a time
NUM_HEIGHTS = 4  # panels of the largest system
HEIGHTS = {4: 32, 8: 32, 16: 16}  # rows that are solved for in registers, by the size of an element
VECTOR_NBYTES = 16
NUM_PANELS, UNROLL = 2, 8


class TrsmSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    has_unit_diagonal, is_conjugated : bool
        Of L.
    is_column_major : bool
        X is stored column by column.
    """

    type: Type
    has_unit_diagonal: bool = False
    is_conjugated: bool = False
    is_column_major: bool = False


def length(type: Type) -> int:
    """Return the largest order of a system."""
    return NUM_HEIGHTS * HEIGHTS[type.nbytes]


@cache
@retraceable
def make(spec: TrsmSpec) -> Kernel:
    """Return the kernel of a Spec; for its parameters see `plan`."""
    return _Trsm(spec).build()


class _Trsm:
    """The kernel while it is built."""

    def __init__(self, spec: TrsmSpec) -> None:
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
        self.panels = k.dynamic_shared(spec.type, (NUM_PANELS, self.height * self.length))
        self.copies = AsyncCopies(k)

    def build(self) -> Kernel:
        k = self.k
        matrix = k.ctaid / self.strips
        first = (k.ctaid - matrix * self.strips) * WIDTH
        a, x = (p.at(k.cast(matrix, i64) * move) for p, move in zip((self.a, self.x), self.moves, strict=True))
        for here, there, is_present in self.places(x, first):
            self.start(here, there, is_present)
        self.load(a, k.const(0, u32))
        with k.range(0, self.order, self.height) as start:
            self.copies.wait()
            k.barrier()
            self.load(a, start + self.height)
            panel = self.panel(start)
            with k.when(k.warp == 0):
                self.invert(start, panel.at(start))
                k.warp_sync()
                self.solve(start, panel.at(start))
            k.barrier()
            self.reduce(start, panel)
        self.copies.wait()
        k.barrier()
        for here, there, is_present in self.places(x, first):
            with k.when(is_present):
                there[0] = here[0]
        return k.build()

    def start(self, here: Pointer, there: Pointer, is_present: Value) -> None:
        """Start the copy of an element to shared memory, or of a zero."""
        nbytes = self.spec.type.nbytes
        self.copies.start(here, there, nbytes, self.k.where(is_present, self.k.const(nbytes, u32), 0))

    def numbers(self, count: int) -> Iterator[Value]:
        """Yield a thread's share of `count` elements, unrolled so that their accesses overlap."""
        k = self.k
        with k.range(k.tid, count, NUM_WARPS * WIDTH * UNROLL) as number:
            for i in range(UNROLL):
                yield number + i * NUM_WARPS * WIDTH if i else number

    def places(self, x: Pointer, first: Value) -> Iterator[tuple[Pointer, Pointer, Value]]:
        """Yield places of X in shared and in global memory, and whether they are inside; lanes go along memory."""
        k = self.k
        for number in self.numbers(self.length * WIDTH):
            if self.spec.is_column_major:
                row, column = number % self.length, number / self.length
            else:
                row, column = number / WIDTH, number % WIDTH
            here = self.values.at(row * self.pitch + column)
            there = x.at(k.cast(row, i64) * self.x_strides[0]).at(k.cast(first + column, i64) * self.x_strides[1])
            yield here, there, (row < self.order) & (first + column < self.columns)

    def panel(self, start: Value) -> Pointer:
        """Return the panel of columns of L from `start` on."""
        return self.panels.at(start / self.height % NUM_PANELS * (self.height * self.length))

    def load(self, a: Pointer, start: Value) -> None:
        """Start the copy of columns of L from `start` on, zeros above the diagonal and beyond the order."""
        k = self.k
        panel = self.panel(start)
        for number in self.numbers(self.height * self.length):
            column, row = number / self.length, number % self.length
            along = start + column
            there = a.at(k.cast(row, i64) * self.a_strides[0]).at(k.cast(along, i64) * self.a_strides[1])
            is_present = (row < self.order) & (along < self.order) & (row >= along)
            self.start(panel.at(number), there, is_present)
        self.copies.commit()

    def element(self, value: Value) -> Value:
        """Return an element of L, conjugated if the Spec says so."""
        if not (self.spec.is_conjugated and self.spec.type.is_complex):
            return value
        real, imag = value.parts
        return self.k.compound(self.spec.type, real, -imag)

    def invert(self, start: Value, panel: Pointer) -> None:
        """Replace the diagonal of the panel by its reciprocals, each lane one."""
        if self.spec.has_unit_diagonal:
            return
        k = self.k
        with k.when((k.lane < self.height) & (start + k.lane < self.order)):
            place = panel.at(k.lane * self.length + k.lane)
            one = k.const(1, self.spec.type)
            place[0] = one / place[0]

    def solve(self, start: Value, panel: Pointer) -> None:
        """Solve for the rows of the diagonal block."""
        k = self.k
        column = self.values.at(start * self.pitch + k.lane)
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

    def reduce(self, start: Value, panel: Pointer) -> None:
        """Subtract the products with the solved rows from the rows below."""
        k = self.k
        known = self.values.at(start * self.pitch + k.lane)
        with k.range(start + self.height + k.warp * ROWS, self.length, NUM_WARPS * ROWS) as row:
            column = self.values.at(row * self.pitch + k.lane)
            totals = [k.var(column[i * self.pitch]) for i in range(ROWS)]
            below = panel.at(row)
            for j in range(self.height):
                value = -known[j * self.pitch]
                for factor, total in zip(self.factors(below, j, 0, ROWS), totals, strict=True):
                    total.set(multiply_add(k, factor, value, total.get()))
            for i, total in enumerate(totals):
                column[i * self.pitch] = total.get()

    def factors(self, panel: Pointer, column: int, begin: int, end: int) -> list[Value]:
        """Return elements of a column of L, the same in all lanes."""
        lines = range(column * self.length + begin, column * self.length + end, self.vector)
        return [self.element(value) for line in lines for value in panel.load(line, self.vector)]


def plan(
    spec: TrsmSpec,
    shape: tuple[int, int],
    a_strides: tuple[int, int],
    x_strides: tuple[int, int],
    batch: tuple[int, int, int] = (1, 0, 0),
) -> Plan:
    """Return the plan that solves L X = B, one launch: the output is X, which is B before, the input L.

    Parameters
    ----------
    spec : TrsmSpec
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
    return Plan((Launch(make(spec), (strips * count, 1, 1), (*outputs(1), *inputs(1)), constants, work),))


__all__ = ["TrsmSpec", "length", "make", "plan"]
