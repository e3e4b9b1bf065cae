"""Forward substitution in f64 by tensor cores: small triangular systems L X = B with many right-hand sides.

Data layout: L (order, order) is lower triangular, of any strides, X is (order, columns), row by row at any distance,
negative ones too, in batches. Shared memory has the block's columns of X, and three strips of `STRIP` rows of L.

Who owns what: a block has `WIDTH` columns of X. Of a strip's rows a warp has 8 columns in products, and a thread one
column in the substitution.

Algorithm: for every strip: the products with the rows above are taken off it, then its rows are solved for in
registers, each value's products being taken off those below, while other warps start the loads of the strip of L behind
the next one.

Per column: order^2 flops, most of them in products; per block, order^2 / 2 elements of L are read. The diagonal's
reciprocals are rounded, as in `trsm`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.mma import multiply_f64
from oxinp._ptx.synchronize import follow
from oxinp._ptx.types import f64, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK, STRIP, WIDTH = 256, 16, 64
NUM_STRIPS, NUM_LOADERS = 3, 128  # in shared memory; threads that load strips while others solve
LENGTH = 128  # largest order
PITCH, X_PITCH = LENGTH + 4, WIDTH + 4  # without bank conflicts of MMA fragments
SHARED_NBYTES = (NUM_STRIPS * STRIP * PITCH + LENGTH * X_PITCH + LENGTH) * f64.nbytes + 1024


class TrsmDmmaSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    has_unit_diagonal : bool
        Of L.
    mma_rows : int
        Of an MMA instruction: 8 (sm_80), or 16 (sm_90).
    """

    has_unit_diagonal: bool
    mma_rows: int


@cache
@retraceable
def make(spec: TrsmDmmaSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Trsm(spec).build()


class _Trsm:
    """The kernel while it is built."""

    def __init__(self, spec: TrsmDmmaSpec) -> None:
        self.spec = spec
        target = "sm_90" if spec.mma_rows == STRIP else "sm_80"
        self.k = k = Builder("substitution_dmma", block=BLOCK, target=target, min_blocks=2)
        self.x, self.a = k.pointer("x", f64), k.pointer("a", f64, "r")
        self.order, self.num_columns, self.num_groups = (k.scalar(name, u32) for name in ("order", "columns", "groups"))
        self.a_row, self.a_column, self.x_row, a_move, x_move = (
            k.scalar(name, i64) for name in ("a_row", "a_column", "x_row", "a_move", "x_move")
        )
        matrix = k.ctaid / self.num_groups
        self.first = (k.ctaid - matrix * self.num_groups) * WIDTH
        self.a, self.x = self.a.at(k.cast(matrix, i64) * a_move), self.x.at(k.cast(matrix, i64) * x_move)
        self.values = k.dynamic_shared(f64, LENGTH * X_PITCH)
        self.strips = k.dynamic_shared(f64, NUM_STRIPS * STRIP * PITCH)
        self.reciprocals = k.dynamic_shared(f64, LENGTH)
        self.copies = AsyncCopies(k)

    def build(self) -> Kernel:
        k = self.k
        if self.spec.mma_rows == STRIP:
            follow(k)
        with k.range(k.tid, self.height() * WIDTH, BLOCK) as number:
            here, there, is_present = self.place(number)
            self.start(here, there, is_present)
        for strip_number in range(NUM_STRIPS - 1):
            self.load(k.const(strip_number * STRIP, u32), k.tid, BLOCK)
            self.copies.commit()
        self.invert()
        with k.range(k.const(0, u32), self.height(), STRIP) as begin:
            self.copies.wait(NUM_STRIPS - 2)
            k.barrier()
            strip = self.strip(begin)
            self.reduce(begin, strip)
            k.barrier()
            self.solve(begin, strip)
            with k.when(k.tid >= BLOCK - NUM_LOADERS):
                self.load(begin + (NUM_STRIPS - 1) * STRIP, k.tid - (BLOCK - NUM_LOADERS), NUM_LOADERS)
            self.copies.commit()
        k.barrier()
        with k.range(k.tid, self.order * WIDTH, BLOCK) as number:
            here, there, is_present = self.place(number)
            with k.when(is_present):
                there[0] = here[0]
        return k.build()

    def height(self) -> Value:
        """The order, up to whole strips."""
        height: Value = (self.order + (STRIP - 1)) / STRIP * STRIP
        return height

    def start(self, here: Pointer, there: Pointer, is_present: Value) -> None:
        """Start the copy of an element to shared memory, or of a zero."""
        k = self.k
        self.copies.start(here, there, f64.nbytes, k.where(is_present, k.const(f64.nbytes, u32), 0))

    def place(self, number: Value) -> tuple[Pointer, Pointer, Value]:
        """Where an element of X is in shared and in global memory, and whether it is inside."""
        k = self.k
        row, column = number / WIDTH, number % WIDTH
        is_present = (row < self.order) & (self.first + column < self.num_columns)
        place = k.cast(row, i64) * self.x_row + k.cast(self.first + column, i64)
        there = self.x.at(k.where(is_present, place, k.const(0, i64)))
        return self.values.at(row * X_PITCH + column), there, is_present

    def strip(self, begin: Value) -> Pointer:
        """The rows of L from `begin` on."""
        return self.strips.at(begin / STRIP % NUM_STRIPS * (STRIP * PITCH))

    def load(self, begin: Value, thread: Value, num_threads: int) -> None:
        """Start a thread's copies of rows of L, zeros above the diagonal and beyond the order."""
        k = self.k
        strip = self.strip(begin)
        for start in range(0, STRIP * LENGTH, num_threads):
            number = thread + start if start else thread
            line, column = number / LENGTH, number % LENGTH
            row = begin + line
            is_present = (row < self.order) & (column <= row)
            place = k.cast(row, i64) * self.a_row + k.cast(column, i64) * self.a_column
            there = self.a.at(k.where(is_present, place, k.const(0, i64)))
            with k.when(column < begin + STRIP):
                self.start(strip.at(line * PITCH + column), there, is_present)

    def invert(self) -> None:
        """Compute the reciprocals of the diagonal, ones beyond the order."""
        if self.spec.has_unit_diagonal:
            return
        k = self.k
        with k.when(k.tid < LENGTH):
            one = k.const(1, f64)
            is_present = k.tid < self.order
            number = k.cast(k.where(is_present, k.tid, 0), i64)
            element = self.a[number * (self.a_row + self.a_column)]
            self.reciprocals[k.tid] = one / k.where(is_present, element, one)

    def reduce(self, begin: Value, strip: Pointer) -> None:
        """Take the products with the rows above off a strip's rows."""
        k, rows = self.k, self.spec.mma_rows
        depth = rows // 2
        high, low = k.lane >> 2, k.lane & 3
        along, zero = range(0, depth, 4), k.const(0, f64)
        sums = [[k.var(zero) for _ in range(rows // 4)] for _ in range(STRIP // rows)]
        column = k.warp * 8
        with k.range(k.const(0, u32), begin, STRIP) as start:
            left = strip.at(high * PITCH + low + start)
            right = self.values.at((start + low) * X_PITCH + column + high)
            for step in range(0, STRIP, depth):
                y = [right[(step + j) * X_PITCH] for j in along]
                for part, totals in enumerate(sums):
                    x = [left[(part * rows + 8 * i) * PITCH + step + j] for j in along for i in range(rows // 8)]
                    for total, value in zip(totals, multiply_f64(k, x, y, totals), strict=True):
                        total.set(value)
        for part, totals in enumerate(sums):
            for half in range(rows // 8):
                line = begin + high + (part * rows + 8 * half)
                place = line * X_PITCH + column + 2 * low
                held = self.values.load(place, 2)
                pair = totals[2 * half : 2 * half + 2]
                self.values.store(place, [value - total for value, total in zip(held, pair, strict=True)])

    def solve(self, begin: Value, strip: Pointer) -> None:
        """Solve for a strip's rows."""
        k = self.k
        corner = strip.at(begin)
        with k.when(k.tid < WIDTH):
            own = self.values.at(begin * X_PITCH + k.tid)
            found = [k.var(own[i * X_PITCH]) for i in range(STRIP)]
            for i, value in enumerate(found):
                if not self.spec.has_unit_diagonal:
                    value.set(value.get() * self.reciprocals[begin + i])
                factor = -value.get()
                for m in range(i + 1, STRIP):
                    found[m].set(k.fma(factor, corner[m * PITCH + i], found[m].get()))
            for i, value in enumerate(found):
                own[i * X_PITCH] = value.get()


def is_possible(device: Device) -> bool:
    """Whether the device has room for a block."""
    return device.max_shared_nbytes >= SHARED_NBYTES


def plan(
    shape: tuple[int, int],
    a_strides: tuple[int, int],
    x_row: int,
    batch: tuple[int, int, int],
    device: Device,
    *,
    has_unit_diagonal: bool,
) -> Plan:
    """Return the plan that solves L X = B, one launch: the output is X, which is B before, the input L.

    Parameters
    ----------
    shape : (order, columns)
        Of X, at least 1 each, the order at most `LENGTH`.
    a_strides : (int, int)
        Of L along rows and columns, in elements.
    x_row : int
        Elements from one row of X to the next.
    batch : (int, int, int)
        Number of systems, and elements from one to the next of L and X.
    device : Device
        See `is_possible`.
    has_unit_diagonal : bool
        Of L.
    """
    order, columns = shape
    if not 1 <= order <= LENGTH:
        raise ValueError(f"a system is of order 1 to {LENGTH}, not {order}")
    groups = -(-columns // WIDTH)
    count, *moves = batch
    spec = TrsmDmmaSpec(has_unit_diagonal, STRIP if device.cc >= (9, 0) else STRIP // 2)
    constants = (order, columns, groups, *a_strides, x_row, *moves)
    work = Work(order * order * columns * count, (2 * order * columns + order * order // 2) * f64.nbytes * count)
    return Plan((Launch(make(spec), (groups * count, 1, 1), (*outputs(1), *inputs(1)), constants, work),))


__all__ = ["LENGTH", "TrsmDmmaSpec", "is_possible", "make", "plan"]
