"""Inverses of many small matrices: LU in the registers of a few lanes, then a system per column.

Data layout: A (order, order), the order at most `SIDE`, row by row in memory with any pitch; X like A. In shared memory
a tile for every matrix, rows at a pitch for which lanes that read rows of their own do not meet: A on its way from
memory, then L and U, reciprocals on the diagonal.

Who owns what: a lane has one row of a matrix, or two of the largest real ones, and later as many columns of X; a block
is a warp.

Algorithm: LU with partial pivoting, where rows change places in name only: the pivot's row goes through the tile and
is taken off the others, multiplied. Then rows of L and U lie in the tile in the order of their places, and every lane
solves for its columns of X by itself, with the identity's right-hand sides, as LAPACK's xGESV does: each residual is as
small as a system's, however ill-conditioned A. For the largest side that is in loops, a few steps an iteration, behind
each of which the registers move up by as many, so that all iterations have the same code; else every step has its own.

Loads of shared memory, which all lanes make of the same numbers, are what bounds it: with two rows in a lane every
number that is loaded is used twice. Flops: 8/3 n^3, zeros included; A is read once, X is written once.
"""

from __future__ import annotations

import contextlib
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.lapack.small import NOWHERE, SIDES, UNROLL, VECTOR_NBYTES, WARP
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.math import floats
from oxinp._ptx.types import Type, i64, pred, u32, u64
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from oxinp._kernels.lapack.lu import Stack
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var


STEP = 8  # of loops for matrices of 32 rows, whose code would be too long for the instruction cache without


class InverseSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    side : int
        One of `SIDES`: rows and columns that a matrix has in registers.
    step : int
        Steps of an iteration, where there are loops; 0 where there are none.
    """

    type: Type
    side: int
    step: int = 0

    @property
    def rows_each(self) -> int:
        """Rows of a lane."""
        return 2 if self.side == WARP and not self.type.is_complex else 1

    @property
    def per_warp(self) -> int:
        """Matrices of a warp."""
        return WARP * self.rows_each // self.side


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: InverseSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return _Inverse(spec).build()


class _Row(NamedTuple):
    """A row that a lane has."""

    number: Value
    """As it came; later that of the column of X."""
    position: Var
    """Where it is now."""
    values: list[Var]
    """Of A, then of U, reciprocals on its diagonal, and of L, their signs changed."""


class _Candidate(NamedTuple):
    """A number that may be a step's pivot."""

    bits: Value
    """Of its magnitude."""
    place: Value
    """Of its row; `NOWHERE` where that has been a pivot."""
    value: Value


class _Inverse:
    """One matrix while its kernel is built."""

    def __init__(self, spec: InverseSpec) -> None:
        self.spec, self.type, self.side = spec, spec.type, spec.side
        self.k = k = Builder("small_invert", block=WARP, target="sm_80", min_blocks=1)
        self.x, self.status = k.pointer("x", spec.type, "w"), k.pointer("status", u64)
        self.a = k.pointer("a", spec.type, "r")
        self.order, self.count = k.scalar("order", u32), k.scalar("count", u32)
        self.a_pitch, self.a_move, self.x_pitch, self.x_move = (
            k.scalar(name, i64) for name in ("a_pitch", "a_move", "x_pitch", "x_move")
        )
        self.vector = max(1, VECTOR_NBYTES // spec.type.nbytes)
        self.pitch = self.side + self.vector
        self.tiles = k.shared(spec.type, spec.per_warp * self.side * self.pitch)
        self.lanes = WARP // spec.per_warp
        self.segment, self.lane = k.lane / self.lanes, k.lane % self.lanes
        self.first = k.ctaid * spec.per_warp
        self.matrix = self.first + self.segment
        self.is_inside = self.matrix < self.count
        self.tile = self.tiles.at(self.segment * (self.side * self.pitch))
        self.zero, self.one = k.const(0, spec.type), k.const(1, spec.type)

    def build(self) -> Kernel:
        """Load, factor, solve."""
        k = self.k
        self.copy()
        rows = [self.row(i) for i in range(self.spec.rows_each)]
        singular = k.var(NOWHERE, u32)
        k.barrier()
        if self.spec.step:
            with k.range(k.const(0, u32), self.side, self.spec.step) as base:
                for i in range(self.spec.step):
                    self.eliminate_in_loop(base, i, rows, singular)
                for row in rows:
                    self.rotate(row.values)
            self.put_columns(rows)
            self.substitute_in_loops(rows)
        else:
            for j in range(self.side):
                self.eliminate(j, rows, singular)
            self.put(rows)
            self.substitute(rows)
        self.report(singular.get())
        return k.build()

    # -- in loops, whose code stays in the instruction cache

    def rotate(self, values: list[Var]) -> None:
        """Bring the numbers behind those of a loop's iteration to the front, and these to the end."""
        step = self.spec.step
        copies = [self.k.var(value.get()) for value in values[:step]]
        for value, following in zip(values, values[step:], strict=False):
            value.set(following.get())
        for value, copy in zip(values[-step:], copies, strict=True):
            value.set(copy.get())

    def chunks(self, base: Value, number: int) -> Iterator[tuple[int, int]]:
        """Yield where parts of the numbers from one on begin and end, each as long as a step, while there are such."""
        k, step = self.k, self.spec.step
        left = k.const(self.side, u32) - base
        with contextlib.ExitStack() as stack:
            for start in range(0, self.side, step):
                if start:
                    stack.enter_context(k.when(left > start))
                yield max(start, number), start + step

    def eliminate_in_loop(self, base: Value, i: int, rows: list[_Row], singular: Var) -> None:
        """As `eliminate` step base + i, whose column is the i-th in registers."""
        k = self.k
        j = base + i if i else base
        shared = self.tile.at(j * self.pitch + base)
        winner, is_zero, reciprocal = self.pivot(j, rows, i)
        singular.set(k.where(is_zero, k.min(singular.get(), j), singular.get()))
        for row in rows:
            is_pivot, is_first = row.position == winner, row.position == j
            row.position.set(k.where(is_pivot, j, k.where(is_first, winner, row.position.get())))
            with k.when(is_pivot):
                row.values[i].set(reciprocal)
                for begin, end in self.chunks(base, i):
                    for start in range(begin // self.vector * self.vector, end, self.vector):
                        shared.store(start, [value.get() for value in row.values[start : start + self.vector]])
        k.barrier()
        inverse, factors = shared[i], []
        for row in rows:
            is_below, value = row.position > j, row.values[i]
            factors.append(k.where(is_below & ~is_zero, -(value.get() * inverse), self.zero))
            value.set(k.where(is_below, factors[-1], value.get()))
        for begin, end in self.chunks(base, i + 1):
            for number, above in self.loaded(shared, begin, end):
                for row, factor in zip(rows, factors, strict=True):
                    row.values[number].set(multiply_add(k, factor, above, row.values[number].get()))

    def put_columns(self, rows: list[_Row]) -> None:
        """Let the tile have L and U in order, column by column."""
        self.k.barrier()
        for row in rows:
            place = self.tile.at(row.position.get())
            for column, value in enumerate(row.values):
                place[column * self.pitch] = value.get()
        self.k.barrier()

    def substitute_in_loops(self, rows: list[_Row]) -> None:
        """As `substitute`, but that every number is taken off those that need it as soon as it is known."""
        k, side, step = self.k, self.side, self.spec.step
        columns = [[k.var(k.where(row.position == i, self.one, self.zero)) for i in range(side)] for row in rows]
        with k.range(k.const(0, u32), side, step) as base:
            for i in range(step):
                place = self.tile.at((base + i) * self.pitch + base)
                factors = [column[i].get() for column in columns]
                for begin, end in self.chunks(base, i + 1):
                    self.spread(self.loaded(place, begin, end), columns, factors)
            for column in columns:
                self.rotate(column)
        first = k.cast(self.matrix, i64) * self.x_move + k.cast(self.lane, i64)
        target = k.var(first + self.x_pitch * (side - 1))
        with k.range(k.const(0, u32), side, step) as done:  # rows below, which are known
            for i in reversed(range(step)):
                number = k.const(side - step + i, u32) - done
                place = self.tile.at(number * self.pitch)
                inverse = place[number]
                found = [column[side - step + i].get() * inverse for column in columns]
                for part, (row, x) in enumerate(zip(rows, found, strict=True)):
                    with k.when(self.is_inside & (row.number < self.order) & (number < self.order)):
                        self.x[target + part * self.lanes] = x
                target.set(target - self.x_pitch)
                factors = [-x for x in found]
                for start in range(0, side, step):
                    end = min(start + step, side - step + i)
                    with k.when(done <= start):
                        # The register of a row is as many behind the row as are done.
                        above = ((n, x) for n, x in self.loaded_behind(place, done, start, end))
                        self.spread(above, columns, factors)
            for column in columns:
                for value, before in zip(reversed(column), list(reversed(column))[step:], strict=False):
                    value.set(before.get())

    def loaded_behind(self, place: Pointer, done: Value, begin: int, end: int) -> Iterator[tuple[int, Value]]:
        """Yield numbers of a column of the tile by their registers."""
        start = place.at(self.k.const(begin, u32) - done)
        for number, value in self.loaded(start, 0, end - begin):
            yield begin + number, value

    def spread(self, loaded: Iterable[tuple[int, Value]], columns: list[list[Var]], factors: list[Value]) -> None:
        """Add products of what is loaded, of rows by their registers, and of a factor per column to columns."""
        for number, value in loaded:
            for column, factor in zip(columns, factors, strict=True):
                column[number].set(multiply_add(self.k, value, factor, column[number].get()))

    # -- without

    def copy(self) -> None:
        """Let the tiles have A, by lanes that go along rows, and the identity where there is none."""
        k, copies, nbytes, side = self.k, AsyncCopies(self.k), self.type.nbytes, self.side
        at_once, column = WARP // side, k.lane % side
        with k.range(k.const(0, u32), side * self.spec.per_warp, at_once * UNROLL) as first:
            for i in range(0, at_once * UNROLL, at_once):
                entry = k.lane / side + first + i
                matrix, row = self.first + entry / side, entry % side
                is_there = (matrix < self.count) & (row < self.order) & (column < self.order)
                place = k.cast(matrix, i64) * self.a_move + k.cast(row, i64) * self.a_pitch + k.cast(column, i64)
                source = self.a.at(k.where(is_there, place, k.const(0, i64)))
                size = k.where(is_there, k.const(nbytes, u32), 0)
                copies.start(self.tiles.at(entry * self.pitch + column), source, nbytes, size)
        copies.commit()
        copies.wait()
        k.barrier()

    def row(self, i: int) -> _Row:
        """A row that a lane has."""
        k = self.k
        number = self.lane + i * self.lanes if i else self.lane
        is_there = self.is_inside & (number < self.order)
        values = []
        for column, value in self.loaded(self.tile.at(number * self.pitch), 0, self.side):
            values.append(k.var(k.where(is_there | (number != column), value, self.one)))
        return _Row(number, k.var(number + 0), values)

    def loaded(self, place: Pointer, begin: int, end: int) -> Iterator[tuple[int, Value]]:
        """Yield numbers of a row of a tile, with those of their columns."""
        for start in range(begin // self.vector * self.vector, end, self.vector):
            for column, value in enumerate(place.load(start, self.vector), start):
                if begin <= column < end:
                    yield column, value

    def stored(self, place: Pointer, values: list[Var], begin: int = 0) -> None:
        """Let a row of a tile be those from a column on; those before it lose what they had."""
        for start in range(begin // self.vector * self.vector, self.side, self.vector):
            place.store(start, [value.get() for value in values[start : start + self.vector]])

    def over_lanes(self, name: str, value: Value) -> Value:
        """Maximum or minimum over a matrix's lanes."""
        k = self.k
        operation, none = {"max": (k.max, 0), "min": (k.min, NOWHERE)}[name]
        if self.spec.per_warp > 2:
            return warp_reduce(k, value, operation, self.lanes)
        if self.spec.per_warp == 1:
            return k.redux(name, value)
        first, second = (k.redux(name, k.where(self.segment == i, value, k.const(none, u32))) for i in range(2))
        return k.where(self.segment == 0, first, second)

    def candidate(self, j: int | Value, row: _Row, column: int) -> _Candidate:
        """A row's for the pivot of a step; it is the last choice where the row has been one."""
        k = self.k
        is_left, value = row.position >= j, row.values[column].get()
        size = k.abs(value.parts[0])
        for part in value.parts[1:]:
            size = size + k.abs(part)
        bits = k.bitcast(size, u32 if size.type.bits == WARP else u64)  # in the order of magnitudes
        place = k.where(is_left, row.position.get(), k.const(NOWHERE, u32))
        return _Candidate(k.where(is_left, bits, k.const(0, bits.type)), place, value)

    def better(self, own: _Candidate, other: _Candidate) -> _Candidate:
        """The candidate of larger magnitude, or of the lower place."""
        k = self.k
        is_better = (other.bits > own.bits) | ((other.bits == own.bits) & (other.place < own.place))
        return _Candidate(*(k.where(is_better, theirs, ours) for ours, theirs in zip(own, other, strict=True)))

    def pivot(self, j: int | Value, rows: list[_Row], column: int) -> tuple[Value, Value, Value]:
        """Place of the pivot of a step, whether it is zero, and, found meanwhile, the reciprocal of a lane's best."""
        k = self.k
        best = reduce(self.better, [self.candidate(j, row, column) for row in rows])
        reciprocal = self.one / best.value if self.type.is_complex else floats.divided(k, self.one, best.value)
        words = list(k.unpack(best.bits))[::-1] if best.bits.type is u64 else [best.bits]
        is_best, is_zero = k.const(value=True, type=pred), k.const(value=True, type=pred)
        for word in words:
            most = self.over_lanes("max", k.where(is_best, word, k.const(0, u32)))
            is_best, is_zero = is_best & (word == most), is_zero & (most == 0)
        return self.over_lanes("min", k.where(is_best, best.place, k.const(NOWHERE, u32))), is_zero, reciprocal

    def eliminate(self, j: int, rows: list[_Row], singular: Var) -> None:
        """Find the pivot of a step, and take its row off those that are left."""
        k, shared = self.k, self.tile.at(j * self.pitch)
        winner, is_zero, reciprocal = self.pivot(j, rows, j)
        singular.set(k.where(is_zero, k.min(singular.get(), k.const(j, u32)), singular.get()))
        for row in rows:
            is_pivot, is_first = row.position == winner, row.position == j
            row.position.set(k.where(is_pivot, k.const(j, u32), k.where(is_first, winner, row.position.get())))
            with k.when(is_pivot):
                row.values[j].set(reciprocal)
                self.stored(shared, row.values, j)
        k.barrier()
        inverse, factors = shared[j], []
        for row in rows:
            is_below, value = row.position > j, row.values[j]
            factors.append(k.where(is_below & ~is_zero, -(value.get() * inverse), self.zero))
            value.set(k.where(is_below, factors[-1], value.get()))
        for i, above in self.loaded(shared, j + 1, self.side):
            for row, factor in zip(rows, factors, strict=True):
                row.values[i].set(multiply_add(k, factor, above, row.values[i].get()))

    def put(self, rows: list[_Row]) -> None:
        """Let the tile have L and U in order."""
        self.k.barrier()
        for row in rows:
            self.stored(self.tile.at(row.position.get() * self.pitch), row.values)
        self.k.barrier()

    def substitute(self, rows: list[_Row]) -> None:
        """Solve for the columns of X that a lane has, and store them."""
        k, side = self.k, self.side
        columns = [[k.where(row.position == i, self.one, self.zero) for i in range(side)] for row in rows]
        for i in range(1, side):
            self.dot(i, 0, i, columns, columns)
        negated: list[list[Value]] = [[self.zero] * side for _ in rows]
        for i in reversed(range(side)):
            self.dot(i, i + 1, side, negated, columns)
            inverse = self.tile.at(i * self.pitch)[i]
            place = k.cast(self.matrix, i64) * self.x_move + self.x_pitch * i
            for row, column, other in zip(rows, columns, negated, strict=True):
                column[i] = column[i] * inverse
                other[i] = -column[i]
                with k.when(self.is_inside & (row.number < self.order) & (self.order > i)):
                    self.x[place + k.cast(row.number, i64)] = column[i]

    def dot(self, i: int, begin: int, end: int, factors: list[list[Value]], columns: list[list[Value]]) -> None:
        """Add products of a part of a row of L or U, and of columns, to a number of each column: two sums of each."""
        k = self.k
        sums: list[list[Value | None]] = [[column[i], None] for column in columns]
        for number, value in self.loaded(self.tile.at(i * self.pitch), begin, end):
            for own, factor in zip(sums, factors, strict=True):
                so_far = own[number % 2]
                own[number % 2] = (
                    value * factor[number] if so_far is None else multiply_add(k, value, factor[number], so_far)
                )
        for column, (first, second) in zip(columns, sums, strict=True):
            column[i] = first if second is None else first + second  # type: ignore[assignment]

    def report(self, singular: Value) -> None:
        """Take the minimum of the status and the number of a pivot that is zero."""
        k = self.k
        number = k.cast(self.matrix, u64) * k.cast(self.order, u64) + k.cast(singular, u64)
        with k.when(self.is_inside & (self.lane == 0) & (singular < self.order)):
            self.status.atomic("min", 0, number)


def plan(stack: Stack, x: Stack) -> Plan:
    """Return the launch that inverts: outputs are X and the status, the input A.

    Parameters
    ----------
    stack : Stack
        A, square, of at most `SIDE` rows.
    x : Stack
    """
    n = stack.num_rows
    side = next(side for side in SIDES if side >= n)
    spec = InverseSpec(stack.type, side, STEP if side == WARP else 0)
    constants = (n, stack.count, stack.pitch, stack.move, x.pitch, x.move)
    flops = 2 * n**3 * (4 if stack.type.is_complex else 1)
    work = Work(flops * stack.count, 2 * n * n * stack.type.nbytes * stack.count)
    grid = (-(-stack.count // spec.per_warp), 1, 1)
    arguments = tuple(map(Argument, ("out0", "out1", "in0")))
    return Plan((Fill(Argument("out1"), STATUS_NBYTES, 0xFF), Launch(make(spec), grid, arguments, constants, work)))


__all__ = ["InverseSpec", "make", "plan"]
