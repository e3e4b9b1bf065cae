"""Conversion of f32 or c64 matrices to fp16x2: two f16 matrices, `hi` and `lo`, whose sum is the scaled matrix.

Data layout: `lines` lines of `run` contiguous elements, at any pitch. The f16 matrices have lines of padded length;
imaginary parts lie behind the real ones along M or N. Per row of A or column of B there are the bits of the largest
magnitude of any part, and a count: of parts below `SMALL` after scaling, plus 2**32 times those below `TINY` but not 0.

Who owns what: where every line has its scale, a block converts a line: it computes the largest magnitude, then reads
the line again, from the caches. Where every column has its scale, the magnitudes are given; a block converts `ROWS`
lines of `WIDTH` columns, a warp one line at a time, and adds its counts to those in memory. A thread converts `CHUNK`
neighbours at a time.

Bytes per element: it is read once from memory, and as many bytes are written.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.fp16x2.scaling import scaled, scaling_exponent
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._ptx import Builder, Kernel, block
from oxinp._ptx.types import Type, f16, f32, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

SMALL, TINY = 2.0**3, 2.0**-2
CHUNK = 4
WARP = 32
LINE_THREADS, LINE_UNROLL = 512, 2
WARPS, ROWS = 8, 64
WIDTH = WARP * CHUNK  # columns of a block


@dataclass(frozen=True, slots=True)
class ConvertSpec:
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        f32 or c64.
    is_per_line : bool
        Every line has its scale, else every column.
    is_vector : bool
        Lines begin at multiples of 16 bytes and have multiples of `CHUNK` elements.
    """

    type: Type
    is_per_line: bool
    is_vector: bool


def padded(run: int) -> int:
    """Return the pitch of f16 matrices whose lines have `run` elements."""
    return -(-run // 8) * 8


def plan(spec: ConvertSpec, lines: int, run: int, pitch: int) -> Plan:
    """Return the plan over `lines` lines, `pitch` elements apart: one launch.

    The outputs are hi, lo, the largest magnitudes and the counts, the input is the matrix. With scales per column, the
    magnitudes are read, and the counts have to be zeros before.
    """
    parts = len(spec.type.parts)
    line = padded(run)
    if spec.is_per_line:
        blocks, term_pitch, plane = lines, line, lines * line
    else:
        blocks, term_pitch, plane = -(-run // WIDTH) * -(-lines // ROWS), line * parts, line
    work = Work(0, 2 * lines * run * spec.type.nbytes)
    constants = (lines, run, pitch, term_pitch, plane)
    return Plan((Launch(make(spec), (blocks, 1, 1), (*outputs(4), *inputs(1)), constants, work),))


@functools.cache
def make(spec: ConvertSpec) -> Kernel:
    """Return the kernel of a Spec; for its parameters see `plan`."""
    return (_ByLine if spec.is_per_line else _ByColumn)(spec).build()


def largest(k: Builder, x: Value) -> Value:
    """Return the bits of the larger part's magnitude."""
    return functools.reduce(k.max, [k.bitcast(part, i32) & 0x7FFFFFFF for part in x.parts])


class _Conversion:
    """Loads, conversion and stores, which both kinds of kernels have."""

    def __init__(self, spec: ConvertSpec, num_threads: int) -> None:
        self.spec = spec
        self.k = k = Builder("halves", block=num_threads)
        self.terms = [k.pointer(name, f16, "w") for name in ("hi", "lo")]
        self.maxima = k.pointer("maxima", i32, "w" if spec.is_per_line else "r")
        self.counts = k.pointer("counts", u64, "w" if spec.is_per_line else "rw")
        self.x = k.pointer("x", spec.type, "r")
        self.lines, self.run = (k.scalar(name, u32) for name in ("lines", "run"))
        self.pitch, self.term_pitch, self.plane = (k.scalar(name, i64) for name in ("pitch", "half_pitch", "plane"))

    def load(self, line: Value, column: Value) -> tuple[Value, ...]:
        """Return elements of a line from a column on; those beyond its end are others of the line."""
        k = self.k
        source = self.x.at(k.cast(line, i64) * self.pitch)
        if self.spec.is_vector:
            return source.at(k.cast(k.min(column, self.run - CHUNK), i64)).load(0, CHUNK)
        return tuple(source[k.cast(k.min(column + i, self.run - 1), i64)] for i in range(CHUNK))

    def present(self, column: Value) -> list[Value]:
        """Return which elements from a column on are inside the line."""
        return [column + (0 if self.spec.is_vector else i) < self.run for i in range(CHUNK)]

    def split(self, values: Sequence[Value], present: Sequence[Value], exponents: Sequence[Value]) -> tuple[Any, Any]:
        """Return hi and lo of every part of elements, zeros if not present, and counts of small and tiny ones."""
        k = self.k
        terms: tuple[Any, Any] = ([], [])
        counts = [[k.const(0, u32), k.const(0, u32)] for _ in values]
        for part in range(len(self.spec.type.parts)):
            highs, lows = [], []
            for x, is_present, exponent, count in zip(values, present, exponents, counts, strict=True):
                own = k.where(is_present, x.parts[part], 0.0)
                value = scaled(k, own, exponent)
                high = k.cast(value, f16)
                highs.append(high)
                lows.append(k.cast(value - k.cast(high, f32), f16))
                is_small = (k.abs(value) < SMALL) & is_present
                is_tiny = (k.abs(value) < TINY) & (own != 0.0)
                for i, predicate in enumerate((is_small, is_tiny)):
                    count[i] = count[i] + k.where(predicate, k.const(1, u32), k.const(0, u32))
            terms[0].append(highs)
            terms[1].append(lows)
        return terms, counts

    def store(self, line: Value, column: Value, terms: tuple[Any, Any]) -> None:
        """Store hi and lo of elements of a line from a column on."""
        k = self.k
        for target, parts in zip(self.terms, terms, strict=True):
            place: Pointer = target.at(k.cast(line, i64) * self.term_pitch).at(k.cast(column, i64))
            for part, values in enumerate(parts):
                (place.at(self.plane) if part else place).store(0, values)


class _ByLine(_Conversion):
    """The kernel with a scale per line: a block has a line."""

    def __init__(self, spec: ConvertSpec) -> None:
        super().__init__(spec, LINE_THREADS)

    def build(self) -> Kernel:
        """Build the kernel."""
        k, line = self.k, self.k.ctaid
        step = LINE_THREADS * LINE_UNROLL * CHUNK
        columns = [(k.tid + i * LINE_THREADS) * CHUNK for i in range(LINE_UNROLL)]
        most = k.var(0, i32)
        with k.range(0, self.run, step) as start:
            loaded = [self.load(line, start + column) for column in columns]
            most.set(functools.reduce(k.max, [largest(k, x) for values in loaded for x in values], most.get()))
        bits = block.reduce(k, most.get(), k.max)
        exponent = scaling_exponent(k, bits)
        small, tiny = k.var(0, u32), k.var(0, u32)
        length = (self.run + 7) & 0xFFFFFFF8
        with k.range(0, length, step) as start:
            places = [start + column for column in columns]
            for place, values in zip(places, [self.load(line, place) for place in places], strict=True):
                terms, counts = self.split(values, self.present(place), [exponent] * CHUNK)
                for count in counts:
                    small.set(small + count[0])
                    tiny.set(tiny + count[1])
                with k.when(place < length):
                    self.store(line, place, terms)
        count = k.cast(small.get(), u64) + k.shl(k.cast(tiny.get(), u64), 32)
        count = block.reduce(k, count, lambda a, b: a + b)
        with k.when(k.tid == 0):
            at = k.cast(line, i64)
            self.maxima[at] = bits
            self.counts[at] = count
        return k.build()


class _ByColumn(_Conversion):
    """The kernel with a scale per column: a block converts the same columns of several lines."""

    def __init__(self, spec: ConvertSpec) -> None:
        super().__init__(spec, WARPS * WARP)

    def build(self) -> Kernel:
        """Build the kernel."""
        k = self.k
        across = (self.run + (WIDTH - 1)) / WIDTH
        row = k.ctaid / across
        left = (k.ctaid - row * across) * WIDTH
        column = left + k.lane * CHUNK
        present = self.present(column)
        exponents = [
            scaling_exponent(k, self.maxima[k.cast(k.min(column + i, self.run - 1), i64)]) for i in range(CHUNK)
        ]
        lines = [row * ROWS + k.warp + i for i in range(0, ROWS, WARPS)]
        loaded = [self.load(k.min(line, self.lines - 1), column) for line in lines]
        totals = [k.const(0, u32) for _ in range(CHUNK)]
        for line, values in zip(lines, loaded, strict=True):
            is_inside = line < self.lines
            terms, counts = self.split(values, [each & is_inside for each in present], exponents)
            totals = [total + (small | k.shl(tiny, 16)) for total, (small, tiny) in zip(totals, counts, strict=True)]
            with k.when(is_inside & (column < self.run)):
                self.store(line, column, terms)
        self.add(totals, left)
        return k.build()

    def add(self, totals: list[Value], left: Value) -> None:
        """Add the counts of all warps, of `CHUNK` columns per lane, to those in memory."""
        k = self.k
        shared = k.shared(u32, (WARPS, WIDTH))
        shared.at(k.warp * WIDTH + k.lane * CHUNK).store(0, totals)
        k.barrier()
        column = left + k.tid
        with k.when((k.tid < WIDTH) & (column < self.run)):
            total = functools.reduce(lambda a, b: a + b, [shared.at(i * WIDTH)[k.tid] for i in range(WARPS)])
            with k.when(total != 0):
                count = k.cast(total & 0xFFFF, u64) + k.shl(k.cast(total >> 16, u64), 32)
                self.counts.atomic("add", k.cast(column, i64), count)


__all__ = ["SMALL", "TINY", "ConvertSpec", "largest", "make", "padded", "plan"]
