"""Scaling of matrices whose squares would overflow or vanish, by powers of two.

Data layout: matrices row by row in memory, one or many; a word per matrix, zero before, u32: the upper bits of the
largest magnitude of its elements' parts.

Who owns what: a warp has a row at a time, a lane an element.

Algorithm: the largest magnitude's bits are in the order of the magnitudes. Where its exponent is so far from that of
one that squares are in danger, elements are multiplied by the power of two that brings it there, and, later, those of
the upper trapezoid back; elsewhere nothing is read. Infinities and NaN stay. Reads all elements once.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.plan import Argument, Fill, Launch, Work
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f64, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.lapack.lu import Stack
    from oxinp._ptx.value import Value

BLOCK, WARP = 256, 32
MAX_BLOCKS = 1024  # of a matrix
WORD_NBYTES = 4


class _Format(NamedTuple):
    """Where a float has its exponent in its upper word, what that is of one, and how far from it squares are safe."""

    shift: int
    bias: int
    safe: int


FORMATS = {32: _Format(23, 127, 40), 64: _Format(20, 1023, 400)}


@cache
@retraceable
def make_largest(type: Type) -> Kernel:
    """The kernel that finds the upper bits of the largest magnitude."""
    k = Builder("largest_magnitude", block=BLOCK, target="sm_80")
    words, a = k.pointer("words", u32), k.pointer("a", type, "r")
    rows, columns, per_matrix = (k.scalar(name, u32) for name in ("rows", "columns", "per_matrix"))
    pitch, move = k.scalar("pitch", i64), k.scalar("move", i64)
    matrix = k.ctaid / per_matrix
    block = k.ctaid - matrix * per_matrix
    a = a.at(k.cast(matrix, i64) * move)
    best = k.var(0, u32)
    with k.range(block * (BLOCK // WARP) + k.warp, rows, per_matrix * (BLOCK // WARP)) as row:
        line = a.at(k.cast(row, i64) * pitch)
        with k.range(k.lane + 0, columns, WARP) as column:
            for part in line[k.cast(column, i64)].parts:
                best.set(k.max(best.get(), upper_bits(k, k.abs(part))))
    k.warp_sync()
    found = k.redux("max", best.get())
    with k.when(k.lane == 0):
        words.atomic("max", k.cast(matrix, i64), found)
    return k.build()


def upper_bits(k: Builder, magnitude: Value) -> Value:
    if magnitude.type.bits == 32:
        return k.bitcast(magnitude, u32)
    return k.unpack(k.bitcast(magnitude, u64))[1]  # type: ignore[no-any-return]


class RescaleSpec(NamedTuple):
    """One kernel that scales: the whole matrix, or its upper trapezoid back to what it was."""

    type: Type
    is_back: bool


@cache
@retraceable
def make_rescale(spec: RescaleSpec) -> Kernel:
    """The kernel of a Spec."""
    type_ = spec.type
    real = type_.parts[0]
    shift, bias, safe = FORMATS[real.bits]
    k = Builder("rescale", block=BLOCK, target="sm_80")
    a, words = k.pointer("a", type_), k.pointer("words", u32, "r")
    rows, columns, per_matrix = (k.scalar(name, u32) for name in ("rows", "columns", "per_matrix"))
    pitch, move = k.scalar("pitch", i64), k.scalar("move", i64)
    matrix = k.ctaid / per_matrix
    block = k.ctaid - matrix * per_matrix
    word = words[k.cast(matrix, i64)]
    exponent = word >> shift
    is_far = (exponent + safe < bias) | (exponent > bias + safe)
    # A power of two whose reciprocal is a normal number, too.
    wanted = k.max(k.const(2 * bias, u32) - k.max(k.min(exponent, k.const(2 * bias - 1, u32)), k.const(1, u32)), 1)
    scale = power(k, k.const(2 * bias, u32) - wanted if spec.is_back else wanted, real)

    def is_wanted(row: Value, column: Value) -> Value:
        return row <= column if spec.is_back else row < rows

    with k.when(is_far & (word != 0) & (exponent <= 2 * bias)):
        a = a.at(k.cast(matrix, i64) * move)
        with k.range(block * (BLOCK // WARP) + k.warp, rows, per_matrix * (BLOCK // WARP)) as row:
            line = a.at(k.cast(row, i64) * pitch)
            first = row / WARP * WARP if spec.is_back else k.const(0, u32)
            with k.range(first + k.lane, columns, WARP) as column, k.when(is_wanted(row, column)):
                place = k.cast(column, i64)
                parts = [part * scale for part in line[place].parts]
                line[place] = k.compound(type_, *parts) if type_.is_complex else parts[0]
    return k.build()


def power(k: Builder, exponent: Value, real: Type) -> Value:
    """The power of two with an exponent's bits."""
    bits = exponent << FORMATS[real.bits].shift
    return k.bitcast(k.pack(k.const(0, u32), bits), f64) if real is f64 else k.bitcast(bits, real)


def _geometry(stack: Stack) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    per_matrix = min(MAX_BLOCKS, -(-stack.num_rows // (BLOCK // WARP)))
    constants = (stack.num_rows, stack.num_columns, per_matrix, stack.pitch, stack.move)
    return (per_matrix * stack.count, 1, 1), constants


def scaled(stack: Stack, a: Argument, words: Argument) -> tuple[Fill | Launch, ...]:
    """Return what scales matrices in place where they need it; `words` says how."""
    grid, constants = _geometry(stack)
    work = Work(nbytes=stack.count * stack.num_rows * stack.num_columns * stack.type.nbytes)
    return (
        Fill(words, WORD_NBYTES * stack.count, 0),
        Launch(make_largest(stack.type), grid, (words, a), constants, work),
        Launch(make_rescale(RescaleSpec(stack.type, is_back=False)), grid, (a, words), constants),
    )


def scaled_back(stack: Stack, a: Argument, words: Argument) -> Launch:
    """Return the launch that scales upper trapezoids back."""
    grid, constants = _geometry(stack)
    return Launch(make_rescale(RescaleSpec(stack.type, is_back=True)), grid, (a, words), constants)


__all__ = ["FORMATS", "RescaleSpec", "make_largest", "make_rescale", "power", "scaled", "scaled_back", "upper_bits"]
