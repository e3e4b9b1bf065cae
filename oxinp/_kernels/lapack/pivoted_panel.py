"""Householder QR with column pivoting: a panel of columns, whose products with the rest are left to others.

G. Quintana-Orti, X. Sun and C. Bischof, 1998, as LAPACK's xLAQPS: of the columns left the one of the largest norm comes
next; F = A^H V T, with which the rest becomes A - V F^H; norms are what the rows of R leave of them.

Data layout: A (rows, columns) row by row; in the panel's rows it becomes R, below them the columns of the panel become
reflectors, and others stay as they are, but for exchanges. P, the panel's V, rows from the panel's first on, and F, a
row per column of A, WIDTH columns each; V once more as columns of a matrix of all reflectors; tau; of every column its
norm and what that was when it was last computed; which column each was. In the workspace: a column, the largest norms
and the sums of every block. In shared memory a block has its rows of V, and v.

Who owns what: of the rows from the panel's first on a block has consecutive ones, of which some lanes share each; of
the columns it has strips, of which a thread has one with every so many rows. All blocks are resident.

Algorithm, per column: every block tells the largest norm of its columns; when all have, every block exchanges its rows
of two columns, takes V F^H off the new one's, tells these, their squares and V^H of them; when all have, v and V^H v
are known to all, and every block makes its columns' element of F and of R, and their norms. Where too little is left of
a norm for its digits to be right, it is computed from the column, as that would be after the panel: LAPACK ends the
panel for that. Of equal norms the first is taken; sums are added in the order of the blocks.

Per panel: width * rows * columns elements of A are read, and two waits per column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.resident import BLOCK, NUM_WARPS, WARP, WIDTH, ResidentPanel, share_of
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

STRIPS = (8, 16, 32)  # columns of a strip
ROWS_AT_ONCE = 8  # of a thread, which it loads together
NOWHERE = 0xFFFFFFFF
COLUMNS_AT_ONCE = 8


class PivotedSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    rows : int
        Most rows of the matrix, a power of two.
    height : int
        Most rows of a block.
    strip : int
        Columns of a strip.
    """

    type: Type
    rows: int
    height: int
    strip: int

    @property
    def share(self) -> int:
        """Lanes that have a row of V together; see `share_of`."""
        return share_of(self.height)

    @property
    def groups(self) -> int:
        """Threads that have a column of a strip together."""
        return BLOCK // self.strip

    @property
    def padded(self) -> int:
        """Elements of v in shared memory: zeros follow, as many as a thread may load beyond."""
        return self.rows + self.groups * ROWS_AT_ONCE

    @property
    def shared_nbytes(self) -> int:
        """Of a block, and some more."""
        elements = self.padded + self.height * (WIDTH + 2) + 4 * WIDTH + 2 * BLOCK
        return elements * self.type.nbytes + 2048


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PivotedSpec) -> Kernel:
    """The kernel of a Spec; see `pivoted_strips.launch`."""
    return _Panel(spec).build()


class _Panel(ResidentPanel):
    """The kernel while it is built."""

    def __init__(self, spec: PivotedSpec) -> None:
        self.spec, self.type = spec, spec.type
        self.k = k = Builder("pivoted_qr_panel", block=BLOCK, target="sm_80", min_blocks=1)
        type_ = spec.type
        self.real = type_.parts[0]
        names = ("a", "p", "f", "v", "tau", "column", "after")
        self.a, self.p, self.f, self.v, self.tau, self.column, self.after = (k.pointer(name, type_) for name in names)
        self.norms, self.exact, self.squares, self.best = (
            k.pointer(name, self.real) for name in ("norms", "exact", "squares", "best")
        )
        self.best_place, self.order_of, self.flags = (
            k.pointer(name, u32) for name in ("best_place", "order_of", "flags")
        )
        sizes = ("order", "columns", "first", "width", "height", "num_blocks", "epoch")
        self.order, self.columns, self.first, self.width, self.height, self.num_blocks, self.epoch = (
            k.scalar(name, u32) for name in sizes
        )
        self.pitch, self.v_pitch = (k.scalar(name, i64) for name in ("pitch", "v_pitch"))
        self.line, self.stride = WIDTH + 1, WIDTH
        self.x = k.dynamic_shared(type_, spec.padded)
        self.vs = k.dynamic_shared(type_, spec.height * self.line)
        self.own_column = k.dynamic_shared(type_, spec.height)
        # F of the column that comes next, conjugated; V of the row on the diagonal; V^H v.
        self.factors, self.inner_sums, self.pivot, self.with_v = (k.dynamic_shared(type_, WIDTH) for _ in range(4))
        self.partials, self.others = (k.dynamic_shared(type_, BLOCK) for _ in range(2))
        self.reals = k.dynamic_shared(self.real, NUM_WARPS)
        self.flagged = k.dynamic_shared(u32, WARP)
        self.begin_at(k.ctaid)

    def build(self) -> Kernel:
        k = self.k
        with k.range(k.const(0, u32), self.width) as inner:
            j = self.first + inner
            self.tell_best(j)
            self.wait(self.epoch + inner * 2 + 1)
            place = self.choose(j)
            with k.when(k.tid < inner):
                self.factors[k.tid] = self.conjugate(self.f[self.place_of_f(place, k.tid)])
            k.barrier()
            self.take_column(j, place, inner)
            self.tell(self.after, inner, j + 1)
            self.wait(self.epoch + inner * 2 + 2)
            tau = self.reflect(j, place, inner)
            self.exchange_norms(j, place, inner)
            self.bring_strips(j, tau, inner)
        return k.build()

    def place_of_f(self, column: Value, inner: Value) -> Value:
        """Where F has an element."""
        return self.k.cast(column, i64) * WIDTH + self.k.cast(inner, i64)

    def place_of_a(self, row: Value, column: Value) -> Value:
        """Where A has an element."""
        return self.k.cast(row, i64) * self.pitch + self.k.cast(column, i64)

    def largest(self, value: Value, place: Value) -> tuple[Value, Value]:
        """Return the largest value of a warp's lanes, and the lowest place of those that have it."""
        k = self.k
        most = warp_reduce(k, value, k.max)
        return most, warp_reduce(k, k.where(value == most, place, k.const(NOWHERE, u32)), k.min)

    def tell_best(self, j: Value) -> None:
        """Tell the largest norm of this block's columns from j on, and whose it is; a warp finds it."""
        k, strip = self.k, self.spec.strip
        with k.when(k.warp == 0):
            value, place = k.var(k.const(-1, self.real)), k.var(NOWHERE, u32)
            with k.range(self.rank * strip, self.columns, self.num_blocks * strip) as start:
                column = start + k.lane
                with k.when((k.lane < strip) & (column >= j) & (column < self.columns)):
                    norm = self.norms[k.cast(column, i64)]
                    with k.when(norm > value.get()):
                        value.set(norm)
                        place.set(column)
            most, lowest = self.largest(value.get(), place.get())
            with k.when(k.lane == 0):
                self.best[k.cast(self.rank, i64)] = most
                self.best_place[k.cast(self.rank, i64)] = lowest

    def choose(self, j: Value) -> Value:
        """Return the column of the largest norm; every warp finds it."""
        k = self.k
        value, place = k.var(k.const(-1, self.real)), k.var(NOWHERE, u32)
        with k.range(k.lane + 0, self.num_blocks, WARP) as block:
            norm, column = self.best[k.cast(block, i64)], self.best_place[k.cast(block, i64)]
            is_better = (norm > value.get()) | ((norm == value.get()) & (column < place.get()))
            with k.when(is_better):
                value.set(norm)
                place.set(column)
        _, lowest = self.largest(value.get(), place.get())
        return k.where(lowest < self.columns, lowest, j)  # where norms are NaN

    def take_column(self, j: Value, place: Value, inner: Value) -> None:
        """Exchange two columns, take V F^H off the new one's rows from j on, tell them and their squares."""
        k = self.k
        threads = self.num_blocks * BLOCK
        with k.range(self.rank * BLOCK + k.tid, self.first, threads) as row:
            self.exchange(row, j, place)
        square = k.var(self.none)
        with self.rows() as (row, is_row):
            lost = self.lost((self.own(self.vs, row),), (self.factors,), inner, is_row)
            with k.when(is_row & (k.tid % self.spec.share == 0)):
                with k.when(row < j):
                    self.exchange(row, j, place)
                    self.own_column[row - self.top] = self.zero
                with k.otherwise():
                    taken, left = self.place_of_a(row, place), self.place_of_a(row, j)
                    value = self.a[taken] - lost
                    self.a[taken] = self.a[left]
                    self.own_column[row - self.top] = value
                    self.column[k.cast(row, i64)] = value
                    with k.when(row > j):
                        square.set(self.inner(value, value, square.get()))
        part = warp_reduce(k, square.get(), lambda a, b: a + b)
        with k.when(k.lane == 0):
            self.reals[k.warp] = part
        k.barrier()
        with k.when(k.tid == 0):
            self.squares[k.cast(self.rank, i64)] = self.total_of_reals()

    def total_of_reals(self) -> Value:
        """Return the sum of what warps left in `reals`."""
        total = self.reals[0]
        for warp in range(1, NUM_WARPS):
            total = total + self.reals[warp]
        return total

    def exchange(self, row: Value, j: Value, place: Value) -> None:
        """Exchange two elements of a row."""
        one, other = self.place_of_a(row, j), self.place_of_a(row, place)
        value, second = self.a[one], self.a[other]
        self.a[one] = second
        self.a[other] = value

    def reflect(self, j: Value, place: Value, inner: Value) -> Value:
        """Make the reflector, whole in shared memory, and V^H v; return tau."""
        k = self.k
        alpha = self.column[k.cast(j, i64)]
        square = self.total_over_blocks(self.squares)
        length = self.order - self.first
        padded = length + self.spec.groups * ROWS_AT_ONCE
        with k.range(k.tid + 0, length, BLOCK * COLUMNS_AT_ONCE) as start:
            locals_ = [start + i * BLOCK if i else start for i in range(COLUMNS_AT_ONCE)]
            held = [k.max(k.min(self.first + local, self.order - 1), j) for local in locals_]
            found = [self.column[k.cast(row, i64)] for row in held]
            for local, value in zip(locals_, found, strict=True):
                with k.when(local < length):
                    self.x[local] = value
        line = k.var(self.zero)
        with k.when(k.tid < inner):
            line.set(self.p[k.cast(inner, i64) * WIDTH + k.cast(k.tid, i64)])
        tau, scale, beta = self.reflector(alpha, square, j < self.order)
        with k.when((self.rank == 0) & (k.tid == 0)):
            self.tau[k.cast(j, i64)] = tau
            self.a[self.place_of_a(j, j)] = self.whole(beta)
            own, other = (self.order_of[k.cast(x, i64)] for x in (j, place))
            self.order_of[k.cast(j, i64)] = other
            self.order_of[k.cast(place, i64)] = own
        self.sum_up(self.after, inner)
        with k.range(k.tid + 0, padded, BLOCK) as local:  # by the thread that wrote it
            value = k.var(self.zero)
            with k.when((local > inner) & (local < length)):
                value.set(self.x[local] * scale)
            self.x[local] = k.where(local == inner, self.one, value.get())
        with k.when(k.tid < WIDTH):
            self.with_v[k.tid] = multiply_add(k, scale, self.inner_sums[k.tid], self.conjugate(line.get()))
            self.pivot[k.tid] = line.get()
        k.barrier()
        with k.range(self.top + k.tid, self.end, BLOCK) as row:
            element = self.x[row - self.first]
            self.own(self.vs, row)[inner] = element
            self.p[k.cast(row - self.first, i64) * WIDTH + k.cast(inner, i64)] = element
            with k.when(row >= j):
                self.v[k.cast(row, i64) * self.v_pitch + k.cast(j, i64)] = element
            with k.when(row > j):
                self.a[self.place_of_a(row, j)] = element
        return tau

    def exchange_norms(self, j: Value, place: Value, inner: Value) -> None:
        """Give the place that the column was at F and the norms of the one that went there: by who owns it."""
        k = self.k
        with k.when((place != j) & ((place / self.spec.strip) % self.num_blocks == self.rank)):
            with k.when(k.tid < inner):
                self.f[self.place_of_f(place, k.tid)] = self.f[self.place_of_f(j, k.tid)]
            with k.when(k.tid == 0):
                for norms in (self.norms, self.exact):
                    norms[k.cast(place, i64)] = norms[k.cast(j, i64)]
        k.barrier()

    def bring_strips(self, j: Value, tau: Value, inner: Value) -> None:
        """Make F and R of this block's columns right of j, and their norms."""
        k, strip = self.k, self.spec.strip
        with k.range(self.rank * strip, self.columns, self.num_blocks * strip) as start, k.when(start + strip > j + 1):
            column = start + k.tid % strip
            is_right = (column > j) & (column < self.columns)
            self.multiply_strip(column, is_right, j, inner)
            k.barrier()
            with k.when(k.tid < strip):
                self.flagged[k.tid] = k.const(0, u32)
                with k.when(is_right):
                    self.bring_column(column, j, tau, inner)
            k.barrier()
            with k.range(k.const(0, u32), k.const(strip, u32)) as number, k.when(self.flagged[number] != 0):
                self.compute_norm(start + number, j, inner)
            k.barrier()

    def multiply_strip(self, column: Value, is_right: Value, j: Value, inner: Value) -> None:
        """Leave in `partials` and `others` what threads have of A^H v - F V^H v, and of V F^H in row j."""
        k, groups = self.k, self.spec.groups
        group = k.tid / self.spec.strip
        total, other = k.var(self.zero), k.var(self.zero)
        base = self.a.at(k.cast(column, i64))
        with k.when(is_right):
            with k.range(j + group, self.order, groups * ROWS_AT_ONCE) as row:
                rows = [row + i * groups if i else row for i in range(ROWS_AT_ONCE)]
                loaded = [base[k.cast(k.min(x, self.order - 1), i64) * self.pitch] for x in rows]
                for x, element in zip(rows, loaded, strict=True):
                    total.set(multiply_add(k, self.conjugate(element), self.x[x - self.first], total.get()))
            with k.range(group + 0, inner, groups) as term:
                element = self.f[self.place_of_f(column, term)]
                total.set(total.get() - element * self.with_v[term])
                other.set(multiply_add(k, self.pivot[term], self.conjugate(element), other.get()))
        self.partials[k.tid] = total.get()
        self.others[k.tid] = other.get()

    def bring_column(self, column: Value, j: Value, tau: Value, inner: Value) -> None:
        """Make a column's elements of F and R, and its norm; flag it where that has to be computed."""
        k, strip = self.k, self.spec.strip
        sums = []
        for array in (self.partials, self.others):
            total = array[k.tid]
            for group in range(1, self.spec.groups):
                total = total + array[k.tid + group * strip]
            sums.append(total)
        element = tau * sums[0]
        self.f[self.place_of_f(column, inner)] = element
        place = self.place_of_a(j, column)
        found = self.a[place] - sums[1] - self.conjugate(element)
        self.a[place] = found
        wide = k.cast(column, i64)
        norm, exact = self.norms[wide], self.exact[wide]
        with k.when(norm > 0):
            one = k.const(1, self.real)
            ratio = k.sqrt(self.inner(found, found, self.none)) / norm
            left = k.max((one + ratio) * (one - ratio), self.none)
            quotient = norm / exact
            tolerance = float(np.sqrt(np.finfo(f"f{self.real.nbytes}").eps / 2))
            with k.when(left * quotient * quotient <= tolerance):
                self.flagged[k.tid] = k.const(1, u32)
            with k.otherwise():
                self.norms[wide] = norm * k.sqrt(left)

    def compute_norm(self, column: Value, j: Value, inner: Value) -> None:
        """Compute the norm that a column has below row j, when the panel's products are taken off."""
        k = self.k
        square = k.var(self.none)
        row_of_f = self.f.at(self.place_of_f(column, k.const(0, u32)))
        with k.range(j + 1 + k.tid, self.order, BLOCK) as row:
            value = k.var(self.a[self.place_of_a(row, column)])
            own = self.p.at(k.cast(row - self.first, i64) * WIDTH)
            # This column of P is others' to write, as long as they do; it is v.
            with k.range(k.const(0, u32), inner) as term:
                at = k.cast(term, i64)
                value.set(value.get() - own[at] * self.conjugate(row_of_f[at]))
            last = self.conjugate(row_of_f[k.cast(inner, i64)])
            value.set(value.get() - self.x[row - self.first] * last)
            square.set(self.inner(value.get(), value.get(), square.get()))
        part = warp_reduce(k, square.get(), lambda a, b: a + b)
        with k.when(k.lane == 0):
            self.reals[k.warp] = part
        k.barrier()
        with k.when(k.tid == 0):
            norm = k.sqrt(self.total_of_reals())
            for norms in (self.norms, self.exact):
                norms[k.cast(column, i64)] = norm
        k.barrier()


__all__ = ["STRIPS", "PivotedSpec", "make"]
