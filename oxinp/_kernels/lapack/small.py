"""Many small matrices: a warp has one, or several, in registers, and solves systems with it or factors it.

Data layout: A (order, order), the order at most `SIDE`, row by row in memory with any pitch; B and X with any pitch. A
lane has a row of A, and of so many columns of B. In shared memory lie the values that all lanes need, those of one step
and those of the next; and some columns of A, on their way from memory and of Cholesky's factors to memory, where lanes
go along rows.

Who owns what: `side` lanes have one matrix, and a block is a warp, so that its barriers are a warp's.

Algorithm of systems: in every step, the lanes that have not been pivots look for the element of largest magnitude, the
first of equal ones as if rows had changed places, which they do in name only; the pivot's row goes through shared
memory, and is taken off the others, multiplied. Then, backwards, every pivot's lane divides, and the others take the
product off theirs. Of Cholesky: every lane's element of a column goes there, and the product with its own comes off.

Flops: as LAPACK's; A and B are read once, X is written once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.diagonal import STATUS_NBYTES
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.math import floats
from oxinp._ptx.types import Type, c64, c128, compound, f32, f64, i64, u32, u64
from oxinp._ptx.warp import reduce as warp_reduce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.lapack.lu import Stack
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

WARP = 32
SIDE = 32
SIDES = (4, 8, 16, 32)
VECTOR_NBYTES = 16
MAX_COLUMNS = {f32: 32, f64: 32, c64: 16, c128: 8}  # of B, for which a lane has registers beside its row of A
STRIP = 16  # columns that are on their way at a time,
UNROLL = 4  # and rows of a lane
MIN_COALESCED = 8  # columns of X from which lanes go along them
NOWHERE = 0xFFFFFFFF
SOLVE, CHOLESKY = "solve", "cholesky"


class SmallSpec(NamedTuple):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    side : int
        One of `SIDES`: rows and columns that a matrix has in registers.
    what : str
    columns : int
        Of B that a lane has, a power of two; 0 for Cholesky.
    """

    type: Type
    side: int
    what: str
    columns: int = 0


def most_columns(type: Type, side: int) -> int:
    """Return how many columns of B a lane may have, a power of two."""
    return min(side, MAX_COLUMNS[type])


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SmallSpec) -> Kernel:
    """The kernel of a Spec; see `plan`."""
    return (_Cholesky if spec.what == CHOLESKY else _System)(spec).build()


class _Small:
    """What the kernels have in common, while they are built."""

    def __init__(self, spec: SmallSpec) -> None:
        self.spec, self.type, self.side = spec, spec.type, spec.side
        self.real = spec.type.parts[0]
        self.k = k = Builder(f"small_{spec.what}", block=WARP, target="sm_80", min_blocks=1)
        self.x, self.status = k.pointer("x", spec.type, "w"), k.pointer("status", u64)
        self.a = k.pointer("a", spec.type, "r")
        self.b = k.pointer("b", spec.type, "r") if spec.what == SOLVE else None
        self.order, self.count, self.num_columns, self.chunks = (
            k.scalar(name, u32) for name in ("order", "count", "num_columns", "chunks")
        )
        self.a_pitch, self.a_move, self.x_pitch, self.x_move = (
            k.scalar(name, i64) for name in ("a_pitch", "a_move", "x_pitch", "x_move")
        )
        if self.b is not None:
            self.b_pitch, self.b_step, self.b_move = (k.scalar(f"b_{name}", i64) for name in ("pitch", "step", "move"))
        self.vector = max(1, VECTOR_NBYTES // spec.type.nbytes)
        per_warp = WARP // self.side
        self.length = -(-max(self.side + spec.columns, self.side) // self.vector) * self.vector
        self.buffers = k.shared(spec.type, 2 * per_warp * self.length)
        self.row = k.lane % self.side
        block = k.ctaid / self.chunks
        self.chunk = k.ctaid - block * self.chunks
        self.segment = k.lane / self.side
        self.matrix = block * per_warp + self.segment
        self.is_inside = self.matrix < self.count
        self.per_warp, self.block = per_warp, block
        self.strip = min(STRIP, self.side)
        self.tile = k.shared(spec.type, WARP * (self.strip + 1))
        self.own = self.tile.at(k.lane * (self.strip + 1))
        self.zero, self.one = k.const(0, spec.type), k.const(1, spec.type)
        # Beside 64 numbers of f64 a lane has none to spare.
        self.has_registers = self.side + spec.columns < 2 * SIDE or spec.type is f32

    def buffer(self, step: int) -> Pointer:
        """Where the values of a step lie, of this lane's matrix."""
        return self.buffers.at(self.segment * self.length + step % 2 * self.per_warp * self.length)

    def loaded(self, buffer: Pointer, begin: int, end: int) -> Iterator[tuple[int, Value]]:
        """Yield values of a step with their numbers; few are loaded before those before them have been used."""
        first = begin // self.vector * self.vector
        for start in range(first, end, self.vector):
            for i, value in enumerate(buffer.load(start, self.vector)):
                if begin <= start + i < end:
                    yield start + i, value

    def stored(self, buffer: Pointer, values: dict[int, Value]) -> None:
        """Let values of a step be those."""
        for start in range(min(values) // self.vector * self.vector, max(values) + 1, self.vector):
            group = [values.get(start + i, self.zero) for i in range(self.vector)]
            buffer.store(start, group)

    def rows(self) -> list[Var]:
        """The row of A that a lane has; of the identity where there is none."""
        k, copies, nbytes = self.k, AsyncCopies(self.k), self.type.nbytes
        is_row = self.is_inside & (self.row < self.order)
        found = []
        if not self.has_registers:
            return self.rows_apart(is_row)
        for start in range(0, self.side, self.strip):
            if start:
                k.barrier()  # all have what came before
            for element, is_there, (matrix, row), column in self.elements(start):
                place = k.cast(matrix, i64) * self.a_move + k.cast(row, i64) * self.a_pitch + k.cast(column, i64)
                source = self.a.at(k.where(is_there, place, k.const(0, i64)))
                copies.start(element, source, nbytes, k.where(is_there, k.const(nbytes, u32), 0))
            copies.commit()
            copies.wait()
            k.barrier()
            for i in range(start, start + self.strip):
                is_read = is_row & (self.order > i) & self.is_read(i)
                other = k.where(self.row == i, self.one, self.zero)
                found.append(k.var(k.where(is_read, self.own[i - start], other)))
        return found

    def rows_apart(self, is_row: Value) -> list[Var]:
        """The same, which every lane loads by itself."""
        k = self.k
        wide = k.cast(self.matrix, i64) * self.a_move + k.cast(self.row, i64) * self.a_pitch
        base = self.a.at(k.where(is_row, wide, k.const(0, i64)))
        found = []
        for column in range(self.side):
            value = k.var(k.where(self.row == column, self.one, self.zero))
            with k.when(is_row & (self.order > column) & self.is_read(column)):
                value.set(base[column])
            found.append(value)
        return found

    def elements(self, start: int) -> Iterator[tuple[Pointer, Value, tuple[Value, Value], Value]]:
        """Yield places of a strip that a lane moves: there, whether it is one, the matrix and its row, the column."""
        k, at_once = self.k, WARP // self.strip
        within = k.lane % self.strip
        with k.range(k.const(0, u32), WARP, at_once * UNROLL) as first:
            for i in range(0, at_once * UNROLL, at_once):
                entry = k.lane / self.strip + first + i
                matrix, row, column = self.block * self.per_warp + entry / self.side, entry % self.side, within + start
                is_there = (matrix < self.count) & (row < self.order) & (column < self.order)
                yield self.tile.at(entry * (self.strip + 1) + within), is_there, (matrix, row), column

    def quotient(self, dividend: Value, divisor: Value) -> Value:
        """A number over another one, of which it is the smaller, or one."""
        is_short = self.has_registers and not self.type.is_complex
        return floats.divided(self.k, dividend, divisor) if is_short else dividend / divisor

    def is_read(self, column: int) -> Value:
        """Whether this lane's element of a column counts."""
        return self.row >= column if self.spec.what == CHOLESKY else self.row == self.row

    def report(self, first: Value) -> None:
        """Take the minimum of the status and the number of a pivot that will not do."""
        k = self.k
        number = k.cast(self.matrix, u64) * k.cast(self.order, u64) + k.cast(first, u64)
        with k.when(self.is_inside & (self.row == 0) & (first < self.order)):
            self.status.atomic("min", 0, number)


class _System(_Small):
    """Elimination with partial pivoting, and substitution."""

    def build(self) -> Kernel:
        k = self.k
        self.candidate = compound(self.real, u32)
        values, right = self.rows(), self.right()
        self.position = k.var(self.row + 0)
        first = k.var(NOWHERE, u32)
        for j in range(self.side):
            self.eliminate(j, values, right, first)
        if self.side > 1:
            k.barrier()
        for j in reversed(range(self.side)):
            self.substitute(j, values, right)
        if self.spec.columns < MIN_COALESCED:
            place = self.target(self.position.get())
            for column, value in enumerate(right):
                with k.when(self.is_inside & (self.position < self.order) & self.is_column(column)):
                    place[column] = value.get()
        self.report(first.get())
        return k.build()

    def is_column(self, column: int | Value) -> Value:
        """Whether there is a column of B of that number, in this chunk."""
        return self.chunk * self.spec.columns + column < self.num_columns

    def target(self, row: Value) -> Pointer:
        """Where a row of X lies, from this chunk's first column on."""
        k = self.k
        place = k.cast(self.matrix, i64) * self.x_move + k.cast(row, i64) * self.x_pitch
        return self.x.at(place + k.cast(self.chunk * self.spec.columns, i64))

    def right(self) -> list[Var]:
        """The row of B that a lane has."""
        k, b, found = self.k, self.b, []
        assert b is not None
        first = self.chunk * self.spec.columns
        for column in range(self.spec.columns):
            value = k.var(self.zero)
            with k.when(self.is_inside & (self.row < self.order) & self.is_column(column)):
                place = k.cast(self.matrix, i64) * self.b_move + k.cast(self.row, i64) * self.b_pitch
                value.set(b[place + k.cast(first + column, i64) * self.b_step])
            found.append(value)
        return found

    def magnitude(self, value: Value) -> Value:
        """Sum of the parts' magnitudes; of NaN infinity."""
        k = self.k
        total = k.abs(value.parts[0])
        for part in value.parts[1:]:
            total = total + k.abs(part)
        return k.where(k.isnan(total), k.const(float("inf"), self.real), total)

    def pivot(self, j: int, value: Value) -> Value:
        """Position of the pivot of a step."""
        k = self.k
        is_left = self.position >= j
        magnitude = self.magnitude(value)
        if self.side < WARP:
            own = k.compound(self.candidate, k.where(is_left, magnitude, k.const(-1, self.real)), self.position.get())
            return warp_reduce(k, own, self.better, self.side).parts[1]
        # Magnitudes are in the order of their bits.
        words = [k.bitcast(magnitude, u32)] if self.real.bits == 32 else list(k.unpack(k.bitcast(magnitude, u64)))[::-1]
        is_best = is_left
        for word in words:
            most = k.redux("max", k.where(is_best, word, k.const(0, u32)))
            is_best = is_best & (word == most)
        return k.redux("min", k.where(is_best, self.position.get(), k.const(NOWHERE, u32)))

    def better(self, own: Value, other: Value) -> Value:
        """The candidate of larger magnitude, or of lower position."""
        (magnitude, position), (others, place) = own.parts, other.parts
        is_better = (others > magnitude) | ((others == magnitude) & (place < position))
        return self.k.where(is_better, other, own)

    def eliminate(self, j: int, values: list[Var], right: list[Var], first: Var) -> None:
        """Find the pivot of a step, and take its row off those that are left."""
        k, side = self.k, self.side
        winner = self.pivot(j, values[j].get())
        is_pivot, is_first = self.position == winner, self.position == j
        self.position.set(k.where(is_pivot, k.const(j, u32), k.where(is_first, winner, self.position.get())))
        buffer = self.buffer(j)
        row = {i: values[i].get() for i in range(j, side)} | {side + i: value.get() for i, value in enumerate(right)}
        with k.when(is_pivot):
            self.stored(buffer, row)
        k.barrier()
        pivot = buffer[j]
        is_zero = pivot == self.zero
        first.set(k.where(is_zero, k.min(first.get(), k.const(j, u32)), first.get()))
        is_below = (self.position > j) & ~is_zero
        factor = -k.where(is_below, self.quotient(values[j].get(), pivot), self.zero)
        both = [*values, *right]
        for i, above in self.loaded(buffer, j + 1, len(both)):
            both[i].set(multiply_add(k, factor, above, both[i].get()))

    def substitute(self, j: int, values: list[Var], right: list[Var]) -> None:
        """Solve for a row of X, and take its products off what is above."""
        k, columns = self.k, self.spec.columns
        is_pivot = self.position == j
        buffer = self.buffer(j)
        with k.when(is_pivot):
            inverse = self.quotient(self.one, values[j].get())
            for value in right:
                value.set(value.get() * inverse)
            self.stored(buffer, {i: value.get() for i, value in enumerate(right)})
        k.barrier()
        factor = -k.where(self.position < j, values[j].get(), self.zero)
        for i, found in self.loaded(buffer, 0, columns):
            right[i].set(multiply_add(k, factor, found, right[i].get()))
        if columns < MIN_COALESCED:
            return
        place = self.target(k.const(j, u32))
        for start in range(0, columns, self.side):
            column = self.row + start if start else self.row
            inside = column < columns if columns < start + self.side else self.is_inside
            with k.when(self.is_inside & inside & (self.order > j) & self.is_column(column)):
                place[column] = buffer[column]


class _Cholesky(_Small):
    """Cholesky, with zeros above the diagonal."""

    def build(self) -> Kernel:
        k, side = self.k, self.side
        values = self.rows()
        first = k.var(NOWHERE, u32)
        for j in range(side):
            buffer = self.buffer(j)
            buffer[self.row] = values[j].get()
            k.barrier()
            diagonal = buffer[j].parts[0]
            is_bad = diagonal <= 0
            first.set(k.where(is_bad, k.min(first.get(), k.const(j, u32)), first.get()))
            root = k.sqrt(diagonal)
            inverse = 1.0 / root
            scaled = self.scaled(values[j].get(), inverse)
            factor = -k.where(self.row > j, self.scaled(scaled, inverse), self.zero)
            for i, other in self.loaded(buffer, j + 1, side):
                values[i].set(multiply_add(k, factor, self.conjugate(other), values[i].get()))
            head = k.cast(root, self.type) if self.type.is_complex else root
            values[j].set(k.where(self.row == j, head, k.where(self.row > j, scaled, self.zero)))
        for start in range(0, side, self.strip):
            k.barrier()  # all have read, or stored, what came before
            for j in range(start, start + self.strip):
                self.own[j - start] = values[j].get()
            k.barrier()
            for element, is_there, (matrix, row), column in self.elements(start):
                place = k.cast(matrix, i64) * self.x_move + k.cast(row, i64) * self.x_pitch + k.cast(column, i64)
                with k.when(is_there):
                    self.x[place] = element[0]
        self.report(first.get())
        return k.build()

    def scaled(self, value: Value, scale: Value) -> Value:
        if not self.type.is_complex:
            return value * scale
        return self.k.compound(self.type, *[part * scale for part in value.parts])

    def conjugate(self, value: Value) -> Value:
        if not self.type.is_complex:
            return value
        real, imag = value.parts
        return self.k.compound(self.type, real, -imag)


def plan(what: str, stack: Stack, x: Stack, b_strides: tuple[int, int, int] = (0, 0, 0)) -> Plan:
    """Return the launch that solves or factors: outputs are X and the status, inputs A, and B of systems.

    Parameters
    ----------
    what : str
        `SOLVE` or `CHOLESKY`.
    stack : Stack
        A, square, of at most `SIDE` rows.
    x : Stack
    b_strides : (int, int, int)
        Elements from one matrix, row and column of B to the next.
    """
    side = next(side for side in SIDES if side >= stack.num_rows)
    columns, chunks = 0, 1
    if what != CHOLESKY:
        wanted = 1 << (x.num_columns - 1).bit_length()
        columns = min(wanted, most_columns(stack.type, side))
        chunks = -(-x.num_columns // columns)
    kernel = make(SmallSpec(stack.type, side, what, columns))
    blocks = -(-stack.count // (WARP // side))
    arguments = [Argument("out0"), Argument("out1"), Argument("in0")]
    constants = [stack.num_rows, stack.count, x.num_columns, chunks, stack.pitch, stack.move, x.pitch, x.move]
    if what == SOLVE:
        arguments.append(Argument("in1"))
        move, pitch, step = b_strides
        constants += [pitch, step, move]
    n = stack.num_rows
    flops = {SOLVE: 2 * n**3 / 3 + 2 * n * n * x.num_columns, CHOLESKY: n**3 / 3}[what]
    nbytes = (n * n + (2 if what == SOLVE else 1) * n * x.num_columns) * stack.type.nbytes * stack.count
    work = Work(round(flops * (4 if stack.type.is_complex else 1)) * stack.count, nbytes)
    launch = Launch(kernel, (blocks * chunks, 1, 1), tuple(arguments), tuple(constants), work)
    return Plan((Fill(Argument("out1"), STATUS_NBYTES, 0xFF), launch))


__all__ = ["CHOLESKY", "SIDE", "SOLVE", "SmallSpec", "make", "plan"]
