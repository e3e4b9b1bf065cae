"""Pivots of a column of a panel of LU, and what eliminating with them does to a row, in any kernel of panels.

Data layout: a thread has one or some rows in registers, from the column on that is eliminated. Candidates are words:
two of the magnitude, compared as integers, and the position.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from oxinp._kernels.gemm.multistage.warp_mma import multiply_add
from oxinp._kernels.lapack.panel_kernel import NOWHERE, WARP, magnitude
from oxinp._ptx.cluster_store import WORDS
from oxinp._ptx.types import Type, f32, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value, Var

CHUNK = 8  # elements of a row that are brought up to date without asking whether there are as many


class Line(Protocol):
    """A row of a thread: its elements from the column on that is eliminated, its position in the panel."""

    values: list[Var]
    position: Var
    is_present: Value


class PivotSearch:
    """What finds pivots and eliminates, while a kernel is built.

    Attributes
    ----------
    k : Builder
    type, real : Type
        Of elements, and of their parts.
    columns, vector : int
        Of a panel; elements of 16 bytes.
    """

    k: Builder
    type: Type
    real: Type
    columns: int
    vector: int

    def candidate(self, column: Value, line: Line) -> list[Value]:
        """A row as a candidate: two words of the magnitude, and the position."""
        k = self.k
        position, zero = line.position.get(), k.const(0, u32)
        is_below = (position >= column) & line.is_present
        words = self.size(line.values[0].get())
        words = [k.where(is_below, word, zero) for word in words]
        return [*words, k.where(is_below, position, k.const(NOWHERE, u32))]

    def compare(self, column: Value, lines: Sequence[Line]) -> tuple[list[Value], list[Value]]:
        """The best candidate of a thread's rows, and for each but the first whether it is better than those before."""
        k = self.k
        words, others = self.candidate(column, lines[0]), []
        for line in lines[1:]:
            second = self.candidate(column, line)
            (high, low, row), (next_high, next_low, next_row) = words, second
            is_next = (next_low > low) | ((next_low == low) & (next_row < row))
            is_next = (next_high > high) | ((next_high == high) & is_next)
            words = [k.where(is_next, theirs, ours) for theirs, ours in zip(second, words, strict=True)]
            others.append(is_next)
        return words, others

    def size(self, value: Value) -> list[Value]:
        """Two words of a magnitude, that of infinity for NaN; of numbers as large as theirs are."""
        k = self.k
        if self.type.is_complex:
            value = magnitude(k, value)
        infinity, zero = k.const(top_word(float("inf"), self.real), u32), k.const(0, u32)
        bits = k.bitcast(value, u64 if self.real.bits == 64 else u32)
        if self.real.bits == 32:
            return [k.min(bits & 0x7FFFFFFF, infinity), zero]
        high, low = k.cast(bits >> 32, u32) & 0x7FFFFFFF, k.cast(bits, u32)
        return [k.min(high, infinity), k.where(high >= infinity, zero, low)]

    def inverse(self, pivot: Value) -> Value:
        """One over a pivot, anything where that is far from the ends of the range: see `quotient`."""
        k = self.k
        if self.type.is_complex:
            return k.const(1, self.type) / pivot
        return self.newton(pivot)

    def newton(self, value: Value) -> Value:
        """One over a real number, anything where that is far from the ends of the range."""
        k = self.k
        found: Value = k.rcp_approx(value)
        for _ in range(1 if self.type is f32 else 2):
            found = k.fma(k.fma(-value, found, 1.0), found, found)
        return found

    def some(self, candidates: Pointer, count: int) -> list[Value]:
        """A candidate for each of as many lanes; nothing for the others."""
        k = self.k
        is_there = k.lane < count
        words = candidates.load(k.where(is_there, k.lane, k.const(0, u32)) * WORDS, WORDS)[:3]
        nothing = [k.const(0, u32), k.const(0, u32), k.const(NOWHERE, u32)]
        return [k.where(is_there, word, none) for word, none in zip(words, nothing, strict=True)]

    def best(self, candidate: list[Value], count: int) -> Value:
        """Which of the first lanes has the candidate of the largest magnitude, and of equal ones the first row."""
        k = self.k
        high, low, row = candidate
        lanes = k.var(k.ballot(high == k.redux("max", high)))
        with k.when((lanes & (lanes - 1)) != 0):
            is_best = ((lanes >> k.lane) & 1) != 0
            if self.real.bits == 64:
                is_best = is_best & (low == k.redux("max", k.where(is_best, low, k.const(0, u32))))
            first = k.redux("min", k.where(is_best, row, k.const(NOWHERE, u32)))
            lanes.set(k.ballot(is_best & (row == first)))
        last: Value = k.bfind(lanes.get())
        return last if count == WARP else k.min(last, count - 1)

    def update(self, left: Value, pivot_row: Pointer, factor: Value, line: Line, start: int) -> None:
        """Take the product of a factor with the pivot's row off a row, chunk by chunk, and move that up."""
        k, values = self.k, line.values
        end = min(start + CHUNK, self.columns)
        for first in range(start, end, self.vector):
            for i, element in enumerate(pivot_row.load(first, self.vector), first):
                if i:
                    values[i - 1].set(multiply_add(k, factor, element, values[i].get()))
        if end < self.columns:
            with k.when(left > end):
                self.update(left, pivot_row, factor, line, end)


def top_word(number: float, real: Type) -> int:
    """The upper 32 bits of a number."""
    return int.from_bytes(struct.pack(">f" if real is f32 else ">d", number)[:4])


__all__ = ["Line", "PivotSearch", "top_word"]
