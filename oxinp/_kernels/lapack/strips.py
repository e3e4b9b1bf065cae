"""Strips of columns that blocks hold from beginning to end while a matrix is factored: what is done to them by panels.

Data layout: of a strip, a thread has one or some rows in registers, `width` elements each. In shared memory a block has
its rows once more, on their way from and to memory and to other threads; a panel's triangle; and rows of U or X, those
beside the triangle. Panels, strips that have been factored, lie in the workspace column by column, all of their rows,
and to each belongs where rows were moved to as it was factored.

Who owns what: a block has a strip at a time, a thread of it every `num_threads`-th row.

Algorithm: per panel, rows change places; a thread per column of the strip solves with the panel's triangle for the rows
beside that; then every thread takes the products of its rows in the panel with those off its rows. Panels from the
first on have unit lower triangles and rows below, from the last one on upper triangles and rows above.

Per panel and strip: rows * width^2 multiply-adds, three barriers, and the panel's rows read once. Pivots that the upper
triangles have on the diagonal are divided by as by a power of two and a number near one: see `reciprocal`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.panel_kernel import WARP
from oxinp._kernels.lapack.pivot_search import PivotSearch, top_word
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.types import i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

SOLVED_ROWS = 8  # that a thread has of a triangle's at a time, beside its own ones
AHEAD = 5  # columns of a panel that are on their way while others are multiplied with
UNROLL = 8  # rows of a warp that are on their way at a time


class StripLine:
    """A row of a thread: its number, its elements, where it is in shared memory, and its position in a panel."""

    position: Var
    is_present: Value  # in the panel that is factored

    def __init__(self, row: Value, tile: Pointer, order: Value) -> None:
        self.row, self.tile, self.is_there = row, tile, row < order
        self.values: list[Var] = []


class StripKernel(PivotSearch):
    """The kernel while it is built.

    Attributes
    ----------
    spec : StripSpec
    a, panels, positions : Pointer
        In memory: the matrix and what is beside it; panels; positions of rows.
    order, last_column, height : Value
        Of the matrix; columns of both; rows of a panel in memory.
    pitch : Value
        Elements from one row of the matrix to the next.
    tile, triangle, beside : Pointer
        In shared memory: the strip's rows; a panel's triangle, row by row; the rows beside that.
    inverses, scales : Pointer
        In shared memory: of the triangle's diagonal, see `reciprocal`.
    lines : list of StripLine
        Of a thread.
    """

    spec: Any
    a: Pointer
    panels: Pointer
    positions: Pointer
    order: Value
    last_column: Value
    height: Value
    pitch: Value
    tile: Pointer
    triangle: Pointer
    beside: Pointer
    inverses: Pointer
    scales: Pointer
    lines: list[StripLine]

    def take(self) -> None:
        """Take shared memory."""
        k, spec, columns = self.k, self.spec, self.columns
        self.line = columns + self.vector  # from one row to the next: vectors of no bank twice
        self.tile = k.dynamic_shared(self.type, (spec.height + columns) * self.line)
        self.beside = self.tile.at(spec.height * self.line)
        self.triangle = k.dynamic_shared(self.type, columns * self.line)
        self.inverses = k.dynamic_shared(self.type, columns)
        self.scales = k.dynamic_shared(self.real, columns)

    # -- memory

    def elements(self, line: int, first: Value, end: Value, at_once: int) -> Iterator[tuple[Value, Value, Value]]:
        """Yield the rows of a warp, their columns by lanes, and whether they are there; unrolled."""
        k, columns = self.k, self.columns
        lanes = WARP // columns
        own, column = k.warp * WARP + line * self.spec.num_threads, first + k.lane % columns
        with k.range(k.const(0, u32), WARP, lanes * at_once) as start:
            for i in range(0, lanes * at_once, lanes):
                row = own + (start + k.lane / columns + i)
                yield row, column, (row < self.order) & (column < end)

    def place(self, row: Value, column: Value) -> Value:
        """Where an element of the matrix is."""
        return self.k.cast(row, i64) * self.pitch + self.k.cast(column, i64)

    def rows_in(self, first: Value, end: Value) -> None:
        """Let columns from one to another come in, zeros where there are none, to the registers of threads."""
        k, copies, nbytes = self.k, AsyncCopies(self.k), self.type.nbytes
        for i in range(len(self.lines)):
            for row, column, is_there in self.elements(i, first, end, UNROLL):
                source = self.a.at(k.where(is_there, self.place(row, column), k.const(0, i64)))
                valid = k.where(is_there, k.const(nbytes, u32), 0)
                copies.start(self.tile.at(row * self.line + (column - first)), source, nbytes, valid)
        copies.commit()
        copies.wait()
        k.warp_sync()
        for line in self.lines:
            line.values = [k.var(value) for value in self.row_at(line.tile)]
        k.barrier()

    def rows_out(self, first: Value, end: Value) -> None:
        """Store columns from one to another."""
        k = self.k
        for line in self.lines:
            self.put(line.tile, line)
        k.warp_sync()
        for i in range(len(self.lines)):
            for row, column, is_there in self.elements(i, first, end, UNROLL):
                with k.when(is_there):
                    self.a[self.place(row, column)] = self.tile[row * self.line + (column - first)]

    def put(self, place: Pointer, line: StripLine) -> None:
        """Put a row into shared memory."""
        for start in range(0, self.columns, self.vector):
            place.store(start, [value.get() for value in line.values[start : start + self.vector]])

    def row_at(self, place: Pointer) -> Iterator[Value]:
        """Yield the elements of a row in shared memory."""
        for start in range(0, self.columns, self.vector):
            yield from place.load(start, self.vector)

    def panel(self, number: Value) -> Pointer:
        """A panel in the workspace."""
        return self.panels.at(number * self.columns * self.height)

    def triangle_in(self, panel: Pointer, top: Value, *, is_upper: bool) -> None:
        """Let the triangle of a panel come in, that of the identity where the matrix ends."""
        k, columns = self.k, self.columns
        with k.range(k.tid, columns * columns, self.spec.num_threads) as entry:
            column, row = entry / columns, entry % columns
            is_there = (top + row < self.order) & (top + column < self.order)
            found = panel[column * self.height + k.where(is_there, top + row, k.const(0, u32))]
            diagonal = k.where(row == column, k.const(1, self.type), k.const(0, self.type))
            found = k.where(is_there, found, diagonal)
            self.triangle[row * self.line + column] = found
            if is_upper:
                with k.when(row == column):
                    self.inverses[row], self.scales[row] = self.reciprocal(found)

    # -- what a panel does to a strip

    def is_beside(self, line: StripLine, top: Value) -> Value:
        """Whether a row is beside the triangle of the panel that begins at a row."""
        return line.row - top < self.columns

    def is_solved_with(self, line: StripLine, top: Value) -> Value:
        """Whether a row is in shared memory while a triangle is solved with: those of who solves make it room."""
        return self.is_beside(line, top) | (self.k.tid < self.columns)

    def forward(self, number: Value) -> None:
        """Exchange rows as a panel has, and eliminate with it."""
        k, panel, top = self.k, self.panel(number), number * self.columns
        positions = self.positions.at(number * self.height)
        self.triangle_in(panel, top, is_upper=False)
        last = self.order - 1
        found = [positions[k.min(line.row, last)] for line in self.lines]
        moved = []
        for line, position in zip(self.lines, found, strict=True):
            is_moved = line.is_there & (position != line.row)
            with k.when(is_moved | self.is_solved_with(line, top)):
                self.put(self.tile.at(k.where(is_moved, position, line.row) * self.line), line)
            moved.append(is_moved)
        k.barrier()
        with k.when(k.tid < self.columns):
            self.solve(top, is_upper=False)
            self.fetch()
        k.barrier()
        self.finish(panel, top, moved, [line.row >= top + self.columns for line in self.lines])

    def backward(self, number: Value) -> None:
        """Substitute back with a panel of U."""
        k, panel, top = self.k, self.panel(number), number * self.columns
        self.triangle_in(panel, top, is_upper=True)
        for line in self.lines:
            with k.when(self.is_solved_with(line, top)):
                self.put(line.tile, line)
        k.barrier()
        with k.when(k.tid < self.columns):
            self.solve(top, is_upper=True)
            self.fetch()
        k.barrier()
        self.finish(panel, top, None, [line.row < top for line in self.lines])

    def fetch(self) -> None:
        """Take this thread's rows from shared memory."""
        for line in self.lines:
            for value, found in zip(line.values, self.row_at(line.tile), strict=True):
                value.set(found)

    def finish(self, panel: Pointer, top: Value, moved: list[Value] | None, wanted: list[Value]) -> None:
        """Take rows that were moved or solved for; take their products with a panel's off those that want that."""
        k = self.k
        for i, line in enumerate(self.lines):
            is_beside = self.is_beside(line, top)
            place = k.where(is_beside, line.row - top + self.spec.height, line.row)
            with k.when(is_beside if moved is None else is_beside | moved[i]):
                for value, found in zip(line.values, self.row_at(self.tile.at(place * self.line)), strict=True):
                    value.set(found)
        for line, is_wanted in zip(self.lines, wanted, strict=True):
            with k.when(is_wanted & line.is_there):
                self.reduce(panel.at(line.row), line)

    def reduce(self, panel: Pointer, line: StripLine) -> None:
        """Take the products of a row of a panel with the rows beside its triangle off the row."""
        k, columns = self.k, self.columns
        coming = [k.var(panel[i * self.height]) for i in range(AHEAD)]
        with k.range(k.const(0, u32), columns) as number:
            factor = -coming[0].get()
            for value, following in pairwise(coming):
                value.set(following.get())
            coming[-1].set(panel[k.min(number + AHEAD, columns - 1) * self.height])
            row = self.row_at(self.beside.at(number * self.line))
            for value, element in zip(line.values, row, strict=True):
                value.set(multiply_add(k, factor, element, value.get()))

    # -- triangles

    def solve(self, top: Value, *, is_upper: bool) -> None:
        """Solve for this thread's column of the rows beside a triangle, some rows at a time."""
        k, columns, zero = self.k, self.columns, self.k.const(0, u32)
        with k.range(zero, columns, SOLVED_ROWS) as before:
            start = k.const(columns - SOLVED_ROWS, u32) - before if is_upper else before
            given = self.tile.at((top + start) * self.line + k.tid)
            values = [k.var(given[i * self.line]) for i in range(SOLVED_ROWS)]
            with k.range(zero, before, SOLVED_ROWS) as number:
                known = k.const(columns - SOLVED_ROWS, u32) - number if is_upper else number
                self.subtract(start, known, values)
            solved = self.beside.at(start * self.line + k.tid)
            corner = self.triangle.at(start * (self.line + 1))
            for i in reversed(range(SOLVED_ROWS)) if is_upper else range(SOLVED_ROWS):
                if is_upper:
                    inverse, scale = self.inverses[start + i], self.scales[start + i]
                    values[i].set(self.scaled(values[i].get() * inverse, scale))
                solved[i * self.line] = values[i].get()
                for other in range(i) if is_upper else range(i + 1, SOLVED_ROWS):
                    factor = -corner[other * self.line + i]
                    values[other].set(multiply_add(k, factor, values[i].get(), values[other].get()))

    def subtract(self, start: Value, first: Value, values: Sequence[Var]) -> None:
        """Take the products of some elements of the triangle with what is known off some rows."""
        known = self.beside.at(first * self.line + self.k.tid)
        for place in range(0, SOLVED_ROWS, self.vector):
            others = [known[i * self.line] for i in range(place, place + self.vector)]
            for i, value in enumerate(values):
                factors = self.triangle.load((start + i) * self.line + first + place, self.vector)
                for factor, other in zip(factors, others, strict=True):
                    value.set(multiply_add(self.k, -factor, other, value.get()))

    # -- numbers

    def reciprocal(self, value: Value) -> tuple[Value, Value]:
        """A number near one and a power of two, by both of which to multiply is to divide by a value.

        One and one where the value is zero; where it is not finite, one over it and one.
        """
        k = self.k
        infinity = top_word(float("inf"), self.real)
        unit = top_word(1.0, self.real) - top_word(0.5, self.real)  # of the exponent
        size = k.abs(value.parts[0])
        for part in value.parts[1:]:
            size = k.max(size, k.abs(part))
        bits = k.bitcast(size, u64 if self.real.bits == 64 else u32)
        exponent = (k.cast(bits >> 32, u32) if self.real.bits == 64 else bits) & infinity
        # The power of two that is the reciprocal of the value's, or half of the least normal number.
        power = k.max(infinity - unit - k.min(exponent, infinity - unit), k.const(unit // 2, u32))
        scale = self.from_top_word(power)
        near = self.scaled(value, scale)
        found = k.var(self.inverse_of_normal(near))
        is_plain = (exponent != infinity) & (value != k.const(0, self.type))
        with k.when(~is_plain):
            one = k.const(1, self.type)
            found.set(k.where(value == k.const(0, self.type), one, one / value))
        return found.get(), k.where(is_plain, scale, k.const(1, self.real))

    def inverse_of_normal(self, value: Value) -> Value:
        """One over a value whose largest part is near one."""
        k = self.k
        if not self.type.is_complex:
            return self.newton(value)
        real, imag = value.parts
        norm = self.newton(k.fma(real, real, imag * imag))
        return k.compound(self.type, real * norm, -(imag * norm))

    def from_top_word(self, word: Value) -> Value:
        """The number whose upper 32 bits are given, and whose others are zeros."""
        k = self.k
        return k.bitcast(k.cast(word, u64) << 32 if self.real.bits == 64 else word, self.real)

    def scaled(self, value: Value, scale: Value) -> Value:
        """The product of a value with a real number."""
        parts = [part * scale for part in value.parts]
        return self.k.compound(self.type, *parts) if self.type.is_complex else parts[0]


__all__ = ["StripKernel", "StripLine"]
