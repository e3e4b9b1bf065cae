"""Bunch and Kaufman's factorisation of a symmetric or Hermitian matrix: a panel of columns, with LAPACK's pivots.

J. Bunch and L. Kaufman, 1977, as LAPACK's xLASYF and xLAHEF of lower triangles: A = L D L^T or L D L^H, D of blocks of
one or two rows; W = L D, with which the rest becomes A - L W^T or A - L W^H, once for all columns of a panel.

Data layout: A (order, order), both triangles, row by row; rows and columns that have not been pivots change places, no
more is written. P = [L W], a row per row of A, CAPACITY columns each, zero before; L once more as columns of a matrix
of all, its rows in the last order. d and e, the diagonal of D and what is below it; which row each was; where every
panel begins, for a block of two rows may be the last column of one and the first of the next. In the workspace: two
columns, and of every block the largest magnitudes of both.

Who owns what: a block has consecutive rows from the panel's first on, of which some lanes share each. All blocks are
resident.

Algorithm, per pivot: every block brings its rows of the next column up to date and tells the largest magnitude below
the diagonal; when all have, that of the diagonal is enough, or the column of the largest one is brought up to date,
too, and told of in the same way; when all have, every block knows the pivot, exchanges its rows of two columns, and
what mirrors them, and writes its rows of L and W; and all wait again. Of equal magnitudes the first row is taken, the
last one where the matrix is in reverse. A column of zeros leaves zeros in D and L.

Per panel: 2 * width * rows elements of A, width^2 * rows of P are read, and two or three waits per pivot.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.lapack.resident import BLOCK, NUM_WARPS, WARP, WIDTH, ResidentPanel, share_of
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

CAPACITY = WIDTH + 8  # columns of L and of W: a panel has one more where it ends with a block of two
ALPHA = (1 + math.sqrt(17)) / 8
NOWHERE = 0xFFFFFFFF


class LdlSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    height : int
        Most rows of a block.
    is_hermitian : bool
        The matrix is its conjugate transpose; else its transpose.
    is_reversed : bool
        Of equal magnitudes the last row is taken.
    """

    type: Type
    height: int
    is_hermitian: bool = False
    is_reversed: bool = False

    @property
    def share(self) -> int:
        """Lanes that have a row of the panel together; see `share_of`."""
        return share_of(self.height)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: LdlSpec) -> Kernel:
    """The kernel of a Spec; see `oxinp._kernels.lapack.ldl`."""
    return _Panel(spec).build()


class _Panel(ResidentPanel):
    """The kernel while it is built."""

    def __init__(self, spec: LdlSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("ldl_panel", block=BLOCK, target="sm_80", min_blocks=1)
        self.real = spec.type.parts[0]
        names = ("a", "p", "l", "d", "e", "column", "other")
        self.a, self.p, self.l, self.d, self.e, self.column, self.other = (k.pointer(x, spec.type) for x in names)
        self.best, self.other_best = (k.pointer(name, self.real) for name in ("best", "other_best"))
        words = ("best_place", "other_place", "order_of", "starts", "flags")
        self.best_place, self.other_place, self.order_of, self.starts, self.flags = (k.pointer(x, u32) for x in words)
        sizes = ("order", "first", "width", "height", "num_blocks", "number")
        self.order, self.first, self.width, self.height, self.num_blocks, self.number = (
            k.scalar(name, u32) for name in sizes
        )
        self.pitch, self.l_pitch = (k.scalar(name, i64) for name in ("pitch", "l_pitch"))
        # W of the row on the diagonal, as columns lose it; what warps find.
        self.factors = k.shared(spec.type, CAPACITY)
        self.sizes, self.places = k.shared(self.real, NUM_WARPS), k.shared(u32, NUM_WARPS)
        self.begin_at(k.ctaid)
        self.epoch = k.var(0, u32)
        self.start = self.starts[k.cast(self.number, i64)]

    def build(self) -> Kernel:
        k = self.k
        j, stop = k.var(self.start), self.first + self.width
        with k.loop():
            k.break_if(j.get() >= stop)
            j.set(j.get() + self.eliminate(j.get()))
        rows = k.range(self.top + k.warp, self.end, NUM_WARPS)
        with rows as row, k.range(self.start + k.lane, j.get(), WARP) as column:
            place = k.cast(row, i64) * self.l_pitch + k.cast(column, i64)
            self.l[place] = self.p[self.place_of_p(row, column - self.first)]
        with k.when((self.rank == 0) & (k.tid == 0)):
            self.starts[k.cast(self.number + 1, i64)] = j.get()
        return k.build()

    def place_of_a(self, row: Value, column: Value) -> Value:
        """Where A has an element."""
        return self.k.cast(row, i64) * self.pitch + self.k.cast(column, i64)

    def place_of_p(self, row: Value, column: Value, offset: int = 0) -> Value:
        """Where P has an element of L, or, by the offset, of W."""
        k = self.k
        return k.cast(row - self.first, i64) * (2 * CAPACITY) + k.cast(column, i64) + offset

    def mirrored(self, value: Value) -> Value:
        """The element on the other side of the diagonal."""
        return self.conjugate(value) if self.spec.is_hermitian else value

    def on_diagonal(self, value: Value) -> Value:
        """An element of the diagonal."""
        return self.whole(value.parts[0]) if self.spec.is_hermitian else value

    def magnitude(self, value: Value) -> Value:
        """LAPACK's size of an element: of complex ones the sum of the parts' magnitudes."""
        total, *rest = (self.k.abs(part) for part in value.parts)
        for part in rest:
            total = total + part
        return total

    def sync(self) -> None:
        """Wait for all blocks."""
        self.epoch.set(self.epoch.get() + 1)
        self.wait(self.epoch.get())

    def eliminate(self, j: Value) -> Value:
        """Find a pivot and divide by it; return its rows, one or two."""
        k = self.k
        inner = j - self.first
        self.bring(j, j, (self.column, self.best, self.best_place))
        self.sync()
        largest, found = self.choose(self.best, self.best_place)
        diagonal = self.magnitude(self.column[k.cast(j, i64)])
        place, num_rows, is_other = k.var(j), k.var(1, u32), k.var(0, u32)
        with k.when(diagonal < largest * ALPHA):
            self.bring(j, found, (self.other, self.other_best, self.other_place))
            self.sync()
            across, _ = self.choose(self.other_best, self.other_place)
            with k.when(diagonal < largest * ALPHA * (largest / across)):
                place.set(found)
                with k.when(self.magnitude(self.other[k.cast(found, i64)]) >= across * ALPHA):
                    is_other.set(k.const(1, u32))
                with k.otherwise():
                    num_rows.set(k.const(2, u32))
        last = j + num_rows.get() - 1
        self.exchange(j, last, place.get(), inner)
        with k.when(num_rows.get() == 2):
            self.divide_by_two(j, place.get(), inner)
        with k.otherwise():
            with k.when(is_other.get() != 0):
                self.divide(self.other, j, place.get(), inner)
            with k.otherwise():
                self.divide(self.column, j, j, inner)
        self.sync()
        return num_rows.get()

    def bring(self, j: Value, column: Value, told: tuple[Pointer, Pointer, Pointer]) -> None:
        """Take L W off a column's rows from j on, and tell the largest magnitude beside its diagonal."""
        k, inner = self.k, j - self.first
        out, best, best_place = told
        with k.when(k.tid < inner):
            self.factors[k.tid] = self.mirrored(self.p[self.place_of_p(column, k.tid, CAPACITY)])
        k.barrier()
        most, where = k.var(k.const(-1, self.real)), k.var(NOWHERE, u32)
        with self.rows() as (row, is_row):
            lost = self.lost((self.p.at(self.place_of_p(row, k.const(0, u32))),), (self.factors,), inner, is_row)
            with k.when(is_row & (row >= j) & (k.tid % self.spec.share == 0)):
                value = self.a[self.place_of_a(row, column)] - lost
                with k.when(row == column):
                    out[k.cast(row, i64)] = self.on_diagonal(value)
                with k.otherwise():
                    out[k.cast(row, i64)] = value
                    size, name = self.magnitude(value), self.named(row)
                    with k.when((size > most.get()) | ((size == most.get()) & (name < where.get()))):
                        most.set(size)
                        where.set(name)
        k.warp_sync()
        size, name = self.largest(most.get(), where.get())
        with k.when(k.lane == 0):
            self.sizes[k.warp] = size
            self.places[k.warp] = name
        k.barrier()
        with k.when(k.warp == 0):
            held = k.min(k.lane, k.const(NUM_WARPS - 1, u32))
            size, name = self.largest(self.sizes[held], self.places[held])
            with k.when(k.lane == 0):
                best[k.cast(self.rank, i64)] = size
                best_place[k.cast(self.rank, i64)] = name

    def named(self, row: Value) -> Value:
        """What a row is called where the lowest name is taken; and the row of a name."""
        return self.order - 1 - row if self.spec.is_reversed else row

    def largest(self, size: Value, name: Value) -> tuple[Value, Value]:
        """Return the largest size of a warp's lanes, and the lowest name of those that have it."""
        k = self.k
        most = warp_reduce(k, size, k.max)
        return most, warp_reduce(k, k.where(size == most, name, k.const(NOWHERE, u32)), k.min)

    def choose(self, best: Pointer, best_place: Pointer) -> tuple[Value, Value]:
        """Return the largest magnitude that a block told, zero where there is none, and its row; by every warp."""
        k = self.k
        size, name = k.var(k.const(-1, self.real)), k.var(NOWHERE, u32)
        with k.range(k.lane + 0, self.num_blocks, WARP) as block:
            told, place = best[k.cast(block, i64)], best_place[k.cast(block, i64)]
            with k.when((told > size.get()) | ((told == size.get()) & (place < name.get()))):
                size.set(told)
                name.set(place)
        most, lowest = self.largest(size.get(), name.get())
        return k.max(most, self.none), self.named(lowest)

    def exchange(self, j: Value, last: Value, place: Value, inner: Value) -> None:
        """Let the pivot's last row and column change places with others, in A, P and L."""
        k = self.k
        with k.when(place != last):
            with k.range(k.max(self.top, j) + k.tid, self.end, BLOCK) as row, k.when((row != last) & (row != place)):
                for turn in (False, True):
                    one, other = (self.place_of_a(*((x, row) if turn else (row, x))) for x in (last, place))
                    self.swap(self.a, one, other)
            with k.range(self.rank * BLOCK + k.tid, self.start, self.num_blocks * BLOCK) as column:
                one, other = (k.cast(row, i64) * self.l_pitch + k.cast(column, i64) for row in (last, place))
                self.swap(self.l, one, other)
            with k.when(self.rank == 0):
                with k.when(k.tid < 2 * CAPACITY):
                    column = k.where(k.tid < CAPACITY, k.tid, k.tid - CAPACITY)
                    with k.when(column < inner):
                        self.swap(self.p, *(self.place_of_p(row, k.tid) for row in (last, place)))
                with k.when(k.tid == 0):
                    self.swap(self.a, self.place_of_a(last, last), self.place_of_a(place, place))
                    self.swap(self.a, self.place_of_a(last, place), self.place_of_a(place, last))
                    self.swap(self.order_of, k.cast(last, i64), k.cast(place, i64))

    def swap(self, array: Pointer, one: Value, other: Value) -> None:
        """Exchange two elements."""
        first, second = array[one], array[other]
        array[one] = second
        array[other] = first

    def exchanged(self, array: Pointer, row: Value, last: Value, place: Value) -> Value:
        """Return an element of a column when two have changed places."""
        k = self.k
        source = k.where(row == last, place, k.where(row == place, last, row))
        return array[k.cast(source, i64)]

    def own_rows(self, low: Value) -> AbstractContextManager[Value]:
        """Rows of this block from one on, a thread each."""
        return self.k.range(self.k.max(self.top, low) + self.k.tid, self.end, BLOCK)

    def put(self, row: Value, inner: Value, left: Value, w: Value) -> None:
        """Write an element of L and of W."""
        self.p[self.place_of_p(row, inner)] = left
        self.p[self.place_of_p(row, inner, CAPACITY)] = w

    def divide(self, column: Pointer, j: Value, place: Value, inner: Value) -> None:
        """Write a column of L and W of a pivot of one row, of the column that it has been in."""
        k = self.k
        pivot = column[k.cast(place, i64)]
        is_zero = self.magnitude(pivot) == 0
        scale = k.where(is_zero, self.zero, self.one / k.where(is_zero, self.one, pivot))
        with self.own_rows(j) as row:
            value = self.exchanged(column, row, j, place)
            self.put(row, inner, k.where(row == j, self.one, value * scale), value)
        with k.when((self.rank == 0) & (k.tid == 0)):
            self.d[k.cast(j, i64)] = pivot
            self.e[k.cast(j, i64)] = self.zero

    def divide_by_two(self, j: Value, place: Value, inner: Value) -> None:
        """Write two columns of L and W of a pivot of two rows, divided as LAPACK does, which does not overflow."""
        k = self.k
        first, below = self.column[k.cast(j, i64)], self.column[k.cast(place, i64)]
        second = self.other[k.cast(place, i64)]
        one, other = second / below, first / self.mirrored(below)
        product = self.on_diagonal(one * other)
        factor = self.one / (product - self.one) / below
        with self.own_rows(j) as row:
            w = self.exchanged(self.column, row, j + 1, place)
            v = self.exchanged(self.other, row, j + 1, place)
            left = self.mirrored(factor) * (one * w - v)
            right = factor * (other * v - w)
            is_one, is_two = row == j, row == j + 1
            self.put(row, inner, k.where(is_one, self.one, k.where(is_two, self.zero, left)), w)
            self.put(row, inner + 1, k.where(is_two, self.one, k.where(is_one, self.zero, right)), v)
        with k.when((self.rank == 0) & (k.tid == 0)):
            wide = k.cast(j, i64)
            self.d[wide] = first
            self.d[wide + 1] = second
            self.e[wide] = below
            self.e[wide + 1] = self.zero


__all__ = ["ALPHA", "CAPACITY", "LdlSpec", "make"]
