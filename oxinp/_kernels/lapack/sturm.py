"""Eigenvalues of real symmetric tridiagonal matrices, without vectors: all of them at a time, by counting.

W. Givens, 1954; W. Barth, R. Martin and J. Wilkinson, 1967. As many eigenvalues are below x as signs change in the
sequence of the leading minors of T - x.

Data layout: `d` and `e`, (count, order), as divide and conquer takes them; `values`, (count, order), ascending.

Who owns what: `LANES` lanes have an eigenvalue, each a point of the interval that it lies in; a block has BLOCK / LANES
eigenvalues of one matrix, which lies in shared memory, (d, e^2) by rows, divided by a power of two above its norm.

Algorithm: an interval becomes the part of it between two points of LANES that the counts tell; `NUM_ROUNDS` times. All
eigenvalues start with the same interval, so that they are in order whatever rounding does to counts. Minors are made by
the recurrence with three terms, p = (d - x) p' - e^2 p'', and divided by a power of two every few rows. Beside the norm
of 1 e^2 is never below `TINY`, so that minors neither vanish nor leave the range between; rounding them errs as
changes of d by two and of e^2 by three units in the last place of the norm do. What divide and conquer has room for,
this has.

Steps: NUM_ROUNDS * order per lane.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack import scaling
from oxinp._kernels.lapack.scaling import FORMATS
from oxinp._kernels.plan import Argument, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._ptx.value import Value


BLOCK, WARP = 128, 32
NUM_WARPS = BLOCK // WARP
LANES = 4
PER_BLOCK = BLOCK // LANES
NUM_ROUNDS = {32: 13, 64: 25}  # of intervals of 4 / (LANES + 1)^rounds: an eighth of the last place of 1
STEPS = {32: 4, 64: 8}  # rows after which minors are scaled
TINY = {32: 2.0**-60, 64: 2.0**-124}
FAR = 4  # what follows the last row: an eigenvalue above all others


class SturmSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    rows : int
        Most rows of a matrix, a multiple of `STEPS`.
    """

    type: Type
    rows: int

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        return 2 * self.rows * self.type.nbytes + 512


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SturmSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Values(spec).build()


class _Values:
    """The kernel while it is built."""

    def __init__(self, spec: SturmSpec) -> None:
        self.spec, self.real = spec, spec.type
        self.k = k = Builder("sturm_values", block=BLOCK, target="sm_80")
        real = spec.type
        self.values = k.pointer("values", real, "w")
        self.d, self.e = k.pointer("d", real, "r"), k.pointer("e", real, "r")
        self.order, self.per_matrix = k.scalar("order", u32), k.scalar("per_matrix", u32)
        self.rows = k.dynamic_shared(real, 2 * spec.rows)
        self.partials = k.shared(real, NUM_WARPS)
        matrix = k.ctaid / self.per_matrix
        base = k.cast(matrix, i64) * k.cast(self.order, i64)
        self.d, self.e, self.values = self.d.at(base), self.e.at(base), self.values.at(base)
        self.item = (k.ctaid - matrix * self.per_matrix) * PER_BLOCK + k.tid / LANES

    def build(self) -> Kernel:
        k, real = self.k, self.real
        largest = self.largest()
        exponent = self.exponent_of(largest)
        self.put_rows(exponent)
        k.barrier()
        low, width = k.var(k.const(-2, real)), k.var(k.const(4, real))
        number = k.lane % LANES
        group = k.lane - number
        with k.range(k.const(0, u32), k.const(NUM_ROUNDS[real.bits], u32)):
            part = width.get() * (1 / (LANES + 1))
            x = k.fma(part, k.cast(number + 1, real), low.get())
            count = self.count_below(x)
            k.warp_sync()
            is_below = k.ballot(count <= self.item) >> group
            found = k.popc(is_below & k.const((1 << LANES) - 1, u32))
            low.set(k.fma(part, k.cast(found, real), low.get()))
            width.set(part)
        value = k.fma(width.get(), k.const(0.5, real), low.get()) * self.power(exponent)
        value = k.where(largest == 0, k.const(0, real), value)
        with k.when((number == 0) & (self.item < self.order)):
            self.values[k.cast(self.item, i64)] = value
        return k.build()

    def coupling(self, row: Value) -> Value:
        """The element beside the diagonal, of a row and the next one."""
        k = self.k
        found = k.var(k.const(0, self.real))
        with k.when(row + 1 < self.order):
            found.set(self.e[k.cast(row, i64)])
        return found.get()

    def largest(self) -> Value:
        """Return the largest magnitude of the matrix."""
        k, real = self.k, self.real
        most = k.var(k.const(0, real))
        with k.range(k.tid + 0, self.order, BLOCK) as row:
            most.set(k.max(most.get(), k.max(k.abs(self.d[k.cast(row, i64)]), k.abs(self.coupling(row)))))
        k.warp_sync()
        found = warp_reduce(k, most.get(), k.max)
        with k.when(k.lane == 0):
            self.partials[k.warp] = found
        k.barrier()
        found = self.partials[0]
        for warp in range(1, NUM_WARPS):
            found = k.max(found, self.partials[warp])
        return found

    def exponent_of(self, largest: Value) -> Value:
        """Return the exponent's bits of a power of two, of which the norm is between a quarter and one and a half."""
        k, real = self.k, self.real
        shift, bias, _ = FORMATS[real.bits]
        exponent = (scaling.upper_bits(k, largest) >> shift) + 2
        return k.min(k.max(exponent, k.const(3, u32)), k.const(2 * bias - 1, u32))

    def power(self, exponent: Value) -> Value:
        """The power of two with an exponent's bits."""
        return scaling.power(self.k, exponent, self.real)

    def put_rows(self, exponent: Value) -> None:
        """Put d and the square of what is beside, of the row before, into shared memory, by rows, scaled."""
        k, real = self.k, self.real
        _, bias, _ = FORMATS[real.bits]
        factor = self.power(k.const(2 * bias, u32) - exponent)
        steps = STEPS[real.bits]
        padded = (self.order + (steps - 1)) / steps * steps
        tiny = k.const(TINY[real.bits], real)
        with k.range(k.tid + 0, padded, BLOCK) as row:
            own, square = k.var(k.const(FAR, real)), k.var(tiny)
            with k.when(row < self.order):
                own.set(self.d[k.cast(row, i64)] * factor)
                with k.when(row > 0):
                    beside = self.e[k.cast(row - 1, i64)] * factor
                    square.set(k.max(beside * beside, tiny))
            self.rows.store(row * 2, [own.get(), square.get()])

    def count_below(self, x: Value) -> Value:
        """Return how many eigenvalues are below a point."""
        k, real = self.k, self.real
        shift, bias, _ = FORMATS[real.bits]
        steps, word = STEPS[real.bits], u32 if real.bits == 32 else u64
        last, before = k.var(k.const(1, real)), k.var(k.const(0, real))
        count = k.var(0, u32)
        with k.range(k.const(0, u32), self.order, steps) as row:
            now, previous, found = last.get(), before.get(), count.get()
            for step in range(steps):
                own, square = self.rows.load((row + step) * 2, 2)
                minor = k.fma(own - x, now, -(square * previous))
                signs = k.bitcast(minor, word) ^ k.bitcast(now, word)
                if word is u64:
                    signs = k.unpack(signs)[1]
                found = found + (signs >> 31)
                now, previous = minor, now
            # By the exponent of the larger one, and where both are subnormal by that of the smallest normal number.
            bits = scaling.upper_bits(k, k.max(k.abs(now), k.abs(previous))) >> shift
            factor = self.power(k.const(2 * bias, u32) - k.min(k.max(bits, 1), k.const(2 * bias - 1, u32)))
            last.set(now * factor)
            before.set(previous * factor)
            count.set(found)
        return count.get()


def plan(type: Type, count: int, order: int) -> Plan:
    """Return the launch of the eigenvalues of tridiagonal matrices.

    The output is the values, (count, order), ascending; inputs are the diagonals and what lies beside them, (count,
    order).
    """
    spec = SturmSpec(type, 1 << max(5, math.ceil(math.log2(order))))
    per_matrix = -(-order // PER_BLOCK)
    places = (Argument("out0"), Argument("in0"), Argument("in1"))
    work = Work(5 * NUM_ROUNDS[type.bits] * LANES * order * order * count, 3 * order * count * type.nbytes)
    return Plan((Launch(make(spec), (per_matrix * count, 1, 1), places, (order, per_matrix), work),), 0)


__all__ = ["SturmSpec", "make", "plan"]
