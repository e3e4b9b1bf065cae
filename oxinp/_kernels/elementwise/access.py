"""How operands are accessed: how each moves through the loops, how wide accesses are, how many are in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import BROADCAST, INDEX, OUTER, STRIDED, UNIT, Chain, OperandSpec
from oxinp._kernels.elementwise.planner import operand_spec
from oxinp._kernels.nest import MAX_INDEX_32, Nest, shifted_alignment
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_VECTOR = 4
MAX_UNROLL = 8
NBYTES_IN_FLIGHT = 32  # of loads per thread
WIDEST = 16  # bytes of an element, of which one at a time leaves registers for more threads
MIN_UNIT_NBYTES = 8  # that a unit's loads count as at least


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of C order, in elements."""
    if len(shape) == 2:  # spelled out, for matrices are reduced all the time
        return shape[1], 1
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def classify(arrays: Sequence[Operand], nest: Nest) -> list[OperandSpec]:
    """Return how each array moves through the nest, then each index that the nest has as a further operand."""
    specs = []
    for i, (strides, shift) in enumerate(zip(nest.strides, nest.shifts, strict=True)):
        if i >= len(arrays):
            specs.append(operand_spec(i64, INDEX, shift != 0))
            continue
        kind = UNIT if strides[-1] == 1 else OUTER if strides[-1] == 0 else STRIDED
        specs.append(operand_spec(arrays[i].type, BROADCAST if not any(strides) else kind, shift != 0))
    return specs


def index_bits(nest: Nest) -> int:
    """Return the width of indices that holds every element number and every distance."""
    return 32 if nest.size < MAX_INDEX_32 and nest.reach < MAX_INDEX_32 else 64


def vector_width(arrays: Sequence[Operand], nest: Nest, *, takes_rest: bool, limit: int = MAX_VECTOR) -> int:
    """Return the elements per access: 16 bytes of the widest array, where strides and alignments allow that.

    `takes_rest`: the family also computes innermost extents that are no multiple of the width; `limit`: its maximum.
    """
    streams = []
    for array, strides, shift in zip(arrays, nest.strides, nest.shifts, strict=False):
        if strides[-1] == 1:
            streams.append((array.type.nbytes, strides, shifted_alignment(array, shift) if shift else array.alignment))
        elif strides[-1]:
            return 1
    if not streams:
        limit = min(limit, MAX_VECTOR)
    vector = limit
    for nbytes, _, _ in streams:
        vector = min(vector, 16 // nbytes or 1)
    while vector > 1 and not (
        (takes_rest or nest.shape[-1] % vector == 0) and _are_even(streams, nest.shape[:-1], vector)
    ):
        vector //= 2
    return vector


def _are_even(streams: Sequence[tuple[int, tuple[int, ...], int]], outer: tuple[int, ...], vector: int) -> bool:
    """Whether accesses of so many elements begin at multiples of their size; streams: bytes, strides, alignments."""
    for nbytes, strides, alignment in streams:
        if alignment % (vector * nbytes):
            return False
        for n, step in zip(outer, strides, strict=False):
            if n > 1 and step % vector:
                return False
    return True


def nbytes_per_thread(chain: Chain) -> int:
    """Return the bytes of loads per thread: `exp` of complex128 takes 0.73 ms so, with two at a time 0.83 (H100)."""
    return WIDEST if any(spec.type.nbytes == WIDEST for spec in chain.inputs) else NBYTES_IN_FLIGHT


def unroll(chain: Chain, vector: int, nbytes_in_flight: int) -> int:
    """Return the units per thread whose loads add up to a number of bytes; a power of two."""
    nbytes = sum(spec.type.nbytes for spec in chain.inputs if spec.kind in {UNIT, STRIDED}) * vector
    count = nbytes_in_flight // max(nbytes, MIN_UNIT_NBYTES)
    return max(1, min(MAX_UNROLL, 1 << (count.bit_length() - 1 if count else 0)))
