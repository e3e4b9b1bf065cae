"""Jacobi's method for many small matrices: eigenvalues of Hermitian ones, singular values of others, and vectors.

Data layout: A with any strides, as many rows as columns or more; in shared memory, column by column at a pitch for
which the lanes of a warp read from different banks: the matrix, one column of zeros, and, where right singular vectors
are asked for, the product of all rotations.

Who owns what: a matrix has `side / 2` groups of `lanes` lanes; a group rotates two columns at a time, of which a lane
has every `lanes`-th element in registers. A block has one matrix, or several small ones.

Algorithm: one-sided Jacobi (M. Hestenes, 1958). Columns that are not orthogonal to `tolerance` are rotated until they
are; in a sweep of `n - 1` steps all pairs meet once, `n / 2` at a time, as in a tournament. A sweep in which no angle
and no cosine between columns was larger than `SMALL` is the last one: what it leaves is below their squares. The norms
of the columns are then the singular values, the columns over their norms left singular vectors. A Hermitian matrix is
shifted by 5/4 of a bound of its norm, which makes it positive definite and well-conditioned: its columns over their
norms are eigenvectors then, and eigenvalues the Rayleigh quotients of A with them. Elements are scaled by a power of
two before.

Flops: 8 rows * n^2 a sweep, 12 with right vectors; about 7 to 12 sweeps of random matrices, up to 40 of graded ones.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.jacobi_columns import EIGEN, LANES, SINGULAR, JacobiColumns, JacobiSpec
from oxinp._kernels.plan import Argument, Launch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Limits
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

MAX_SWEEPS = 60
MOST_SWEPT = 25
"""Order of matrices up to which LAPACK finds vectors of Hermitian ones by QR iterations, which NaN does not end."""
MANTISSA = {32: 23, 64: 52}
FLOORS = {32: 1e-17, 64: 1e-60}
"""Norms of columns, over that of the matrix, that count as zeros: what is parallel to another column loses all but the
rounding error in every rotation, which is parallel in turn."""


def side_of(type: Type, rows: int, what: str, *, has_vectors: bool, limits: Limits) -> int | None:
    """Return the side of the kernel for matrices of so many rows, None where there is none."""
    for side in LANES:
        if side >= rows:
            spec = JacobiSpec(type, side, what, has_vectors)
            return side if spec.shared_nbytes <= limits.max_shared_nbytes else None
    return None


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: JacobiSpec) -> Kernel:
    """The kernel of a Spec; see `launch`."""
    return _Jacobi(spec).build()


class _Rotation(NamedTuple):
    """What two columns become: x - conj(u) (y + v x), and y + u (x - conj(v) y).

    u is the sine, v the tangent of half the angle, of which both have the phase: so lengths are kept to the rounding
    error of the difference, which is small where the angle is.
    """

    is_wanted: Value
    is_large: Value
    u: Value
    v: Value


class _Jacobi(JacobiColumns):
    """The kernel while it is built."""

    def build(self) -> Kernel:
        k = self.k
        self.load()
        moved = self.sweeps()
        with k.when(moved.get()):
            self.status.atomic("min", 0, k.cast(self.number, u64))
        self.finish()
        return k.build()

    # -- rotations

    def sweeps(self) -> Var:
        """Rotate until all columns are orthogonal; return whether this thread saw some that were not."""
        k = self.k
        moved, sweep = k.var(k.const(0, u32) != 0), k.var(0, u32)
        no = k.const(0, u32) != 0
        with k.loop():
            moved.set(no)
            with k.range(k.const(0, u32), self.padded - 1) as step:
                self.step(step, moved)
                k.barrier()
            turn = sweep.get() % 2
            with k.when(moved.get()):
                self.flags.atomic("or", turn, k.const(1, u32))
            with k.when(k.tid == 0):
                self.flags[1 - turn] = k.const(0, u32)
            k.barrier()
            sweep.set(sweep.get() + 1)
            k.break_if((self.flags[turn] == 0) | (sweep.get() >= MAX_SWEEPS))
        return moved

    def pair(self, step: Value) -> tuple[Value, Value]:
        """The columns of this group: the columns of zeros where there are none."""
        k, j, last = self.k, self.slot, self.padded - 1
        is_pair = (j * 2 < self.padded) & self.is_ok
        up, down = step + j, step + last - j
        x = k.where(up >= last, up - last, up)
        y = k.where(j == 0, last, k.where(down >= last, down - last, down))
        nowhere = k.const(self.spec.side, u32)
        return k.where(is_pair, x, nowhere), k.where(is_pair, y, nowhere)

    def step(self, step: Value, moved: Var) -> None:
        """Rotate the pairs of a step."""
        k, spec = self.k, self.spec
        first, second = self.pair(step)
        places = [self.b.at(column * spec.pitch + self.g) for column in (first, second)]
        x, y = (self.held(place) for place in places)
        inner = self.zero
        for a, b in zip(x, y, strict=True):
            inner = multiply_add(k, self.conjugate(a), b, inner)
        rotation = self.rotation(self.square(x), self.square(y), self.summed(inner))
        moved.set(moved.get() | rotation.is_large)
        with k.when(rotation.is_wanted):
            self.rotate(rotation, places, x, y)
            if self.turned is not None:
                places = [self.turned.at(column * spec.pitch + self.g) for column in (first, second)]
                self.rotate(rotation, places, *(self.held(place) for place in places))

    def rotation(self, alpha: Value, beta: Value, gamma: Value) -> _Rotation:
        """The rotation that makes two columns orthogonal, by their squares and their product."""
        k, real, side = self.k, self.real, self.spec.side
        epsilon = 2.0 ** -MANTISSA[real.bits]
        small = math.sqrt(epsilon) / 8
        one = k.const(1, real)
        magnitude, norms = k.abs(gamma), (k.sqrt(alpha), k.sqrt(beta))
        most, is_zero = norms[0] * norms[1], k.min(*norms) <= FLOORS[real.bits]
        is_wanted = ~(magnitude <= most * (epsilon * math.sqrt(side))) & ~is_zero & self.is_ok
        safe = k.where(is_wanted, magnitude, one)
        zeta = (beta - alpha) / (safe + safe)
        t = k.copysign(zeta, one / (k.abs(zeta) + k.sqrt(k.fma(zeta, zeta, one))))
        c = one / k.sqrt(k.fma(t, t, one))
        is_large = is_wanted & ((k.abs(t) > small) | (magnitude > most * small))
        s = c * t
        u = self.scaled(gamma, s / safe) if self.type.is_complex else k.where(gamma < 0, -s, s)
        return _Rotation(is_wanted, is_large, u, self.scaled(u, one / (c + 1)))

    def rotate(self, rotation: _Rotation, places: list[Pointer], x: list[Value], y: list[Value]) -> None:
        """Store two columns that have been rotated."""
        k, lanes = self.k, self.spec.lanes
        _, _, u, v = rotation
        minus_u, minus_v = -self.conjugate(u), -self.conjugate(v)
        for e, (a, b) in enumerate(zip(x, y, strict=True)):
            places[0][e * lanes] = multiply_add(k, minus_u, multiply_add(k, v, a, b), a)
            places[1][e * lanes] = multiply_add(k, u, multiply_add(k, minus_v, b, a), b)

    # -- results

    def finish(self) -> None:
        """Write values in their order, and vectors."""
        k, spec = self.k, self.spec
        nan, infinity = (k.const(float(x), self.real) for x in ("nan", "inf"))
        for column in self.halves():
            values = self.held(self.b.at(column * spec.pitch + self.g))
            norm = k.sqrt(self.square(values))
            # Over infinity, columns are zeros; over their norms, those of diagonal matrices exactly ones.
            divisor = k.where(norm > FLOORS[self.real.bits], norm, infinity)
            value = self.quotient(column, values, divisor) if spec.what == EIGEN else norm
            with k.when((self.g == 0) & (column < spec.side)):
                self.found[column] = value
                self.norms[column] = divisor
        k.barrier()
        with self.mine(self.columns) as column:
            before, own = k.var(0, u32), self.found[column]
            with k.range(k.const(0, u32), self.columns) as other:
                value = self.found[other]
                is_before = value > own if spec.what == SINGULAR else value < own
                is_first = is_before | ((value == own) & (other < column))
                before.set(before.get() + k.where(is_first, k.const(1, u32), k.const(0, u32)))
            self.order[k.where(self.is_ok, before.get(), column)] = column
        k.barrier()
        with k.when(self.is_inside):
            with self.mine(self.columns) as rank:
                column = self.order[rank]
                value = k.where(self.is_ok, self.found[column] * self.back, nan)
                self.values[k.cast(self.number, i64) * k.cast(self.columns, i64) + k.cast(rank, i64)] = value
                if spec.has_right:
                    with k.when(self.is_ok & (self.norms[column] == infinity)):
                        self.status.atomic("add", 1, k.const(1, u64))
            with k.when(self.is_failed() & (self.own == 0)):
                self.status.atomic("min", 0, k.cast(self.number, u64))
            if self.left is not None:
                self.write(self.left, "left", self.b, self.rows)
            if self.right is not None:
                assert self.turned is not None
                self.write(self.right, "right", self.turned, self.columns)

    def is_failed(self) -> Value:
        """Whether a matrix is not finite and LAPACK's iterations on it do not converge.

        Those of eigenvalues end where there is one rotation, and its divide and conquer, of orders above `MOST_SWEPT`
        where vectors are wanted, gives NaN.
        """
        failed = ~self.is_ok
        if self.spec.what == EIGEN:
            failed = failed & (self.columns > 2)
            if self.left is not None:
                failed = failed & (self.columns <= MOST_SWEPT)
        return failed

    def quotient(self, column: Value, values: list[Value], divisor: Value) -> Value:
        """The Rayleigh quotient of A with a column over its norm."""
        k, spec = self.k, self.spec
        zero = k.const(0, u32)
        rows = [self.g + e * spec.lanes if e else self.g for e in range(len(values))]
        inside = [k.where(row < self.columns, row, zero) for row in rows]
        sums = [k.var(self.zero) for _ in values]
        with k.when(self.is_inside), k.range(zero, self.columns) as other:
            factor = self.divided(self.b[column * spec.pitch + other], divisor)
            for row, total in zip(inside, sums, strict=True):
                element = self.scaled(self.element(row, other), self.scale)
                total.set(multiply_add(k, element, factor, total.get()))
        found = k.const(0, self.real)
        for value, total in zip(values, sums, strict=True):
            for own, product in zip(self.divided(value, divisor).parts, total.get().parts, strict=True):
                found = k.fma(own, product, found)
        return self.summed(found)

    def write(self, out: Pointer, name: str, source: Pointer, rows: Value) -> None:
        """Write columns in the order of their values: left ones over their norms, right ones conjugated."""
        k, spec = self.k, self.spec
        down, along, move = self.out_strides[name]
        out = out.at(k.cast(self.number, i64) * move)
        nan = k.const(float("nan"), self.real)
        with self.mine(rows * self.columns) as place:
            row = place / self.columns
            rank = place - row * self.columns
            column = self.order[rank]
            value = source[column * spec.pitch + row]
            value = self.divided(value, self.norms[column]) if name == "left" else self.conjugate(value)
            parts = [k.where(self.is_ok, part, nan) for part in value.parts]
            whole = k.compound(self.type, *parts) if self.type.is_complex else parts[0]
            out[k.cast(row, i64) * down + k.cast(rank, i64) * along] = whole


class Problem(NamedTuple):
    """Matrices whose values are asked for.

    Attributes
    ----------
    type : Type
    what : str
    count, rows, columns : int
        At least 1 each, and as many rows as columns or more.
    strides : (int, int, int)
        Elements from one row, column and matrix of A to the next.
    left, right : (int, int, int) or None
        The same of vectors: those of A's columns, one a column; and the conjugates of the others.
    """

    type: Type
    what: str
    count: int  # type: ignore[assignment]  # instead of the method of tuples
    rows: int
    columns: int
    strides: tuple[int, int, int]
    left: tuple[int, int, int] | None = None
    right: tuple[int, int, int] | None = None

    @property
    def has_vectors(self) -> bool:
        """Whether vectors are asked for."""
        return self.left is not None

    def side(self, limits: Limits) -> int | None:
        """Return the side of the kernel, None where there is none."""
        return side_of(self.type, self.rows, self.what, has_vectors=self.has_vectors, limits=limits)


def launch(problem: Problem, side: int, places: dict[str, Argument]) -> Launch:
    """Return the launch.

    Parameters
    ----------
    problem : Problem
    side : int
    places : dict
        ``"values"``, (count, columns), real; ``"status"``, two u64: all ones, then zero, become the number of the
        first matrix of which nothing was found, and how many left singular vectors are zeros; ``"a"``; ``"left"`` and
        ``"right"`` where they are asked for.
    """
    type_, what, count, rows, columns, strides, left, right = problem
    spec = JacobiSpec(type_, side, what, left is not None)
    names = ["values", "status", *(name for name, x in (("left", left), ("right", right)) if x is not None), "a"]
    constants = [rows, columns, max(2, columns + columns % 2), count, *strides]
    for given in (left, right):
        constants += given or ()
    blocks = -(-count // spec.per_block)
    each = (12 if spec.has_right else 8) * rows * columns**2 * 8 * (4 if type_.is_complex else 1)
    work = Work(each * count, 2 * rows * columns * type_.nbytes * count)
    return Launch(make(spec), (blocks, 1, 1), tuple(places[name] for name in names), tuple(constants), work)


__all__ = ["EIGEN", "LANES", "SINGULAR", "JacobiSpec", "Problem", "launch", "make", "side_of"]
