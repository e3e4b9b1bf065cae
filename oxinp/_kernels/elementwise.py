"""Elementwise problems: which kernel of which family serves which layout.

Fused chains, fills, aranges, copies, casts, transposed copies, slices and stencils are all one thing: operands with
strides over one shape, and instructions between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels import linear
from oxinp._kernels.chain import BROADCAST, INDEX, OUTER, SCALAR, STRIDED, UNIT, Chain, OperandSpec
from oxinp._kernels.problem import (
    Device,
    Instr,
    Launch,
    Nest,
    Operand,
    Output,
    ScalarOperand,
    collapse,
    shifted_alignment,
)
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_INDEX_32 = 2**31 - 2**20  # what 32-bit indices may reach, with room for a block's overshoot
MAX_VECTOR = 4
MAX_UNROLL = 8
NBYTES_IN_FLIGHT = 64  # of loads per thread


def plan(
    shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
    device: Device,
) -> Launch:
    """Return the kernel that computes `outputs` over `shape`, and its launch geometry.

    Parameters
    ----------
    shape : tuple of int
        Of every operand; broadcast ones have strides of 0. With no elements the launch touches nothing.
    inputs : sequence of Operand or ScalarOperand
    instrs : sequence of Instr
        May be empty: outputs then copy inputs.
    outputs : sequence of Output
        The first decides the order of traversal. None may overlap an input, unless both are read and written at the
        same index only.
    device : Device

    Returns
    -------
    Launch
        Parameters at launch: output pointers, inputs (pointer or value) in order, `constants`.
    """
    del device  # every family fills any number of multiprocessors
    arrays = [output.operand for output in outputs] + [x for x in inputs if isinstance(x, Operand)]
    nest = with_index(shape, arrays, instrs)
    specs = iter(classify(arrays, nest))
    output_specs = tuple((output.value, next(specs)) for output in outputs)
    input_specs = tuple(next(specs) if isinstance(x, Operand) else OperandSpec(x.type, SCALAR) for x in inputs)
    chain = Chain(input_specs + tuple(specs), tuple(instrs), output_specs, len(nest.shape), index_bits(nest))
    vector = vector_width(arrays, nest, takes_rest=len(nest.shape) == 1)
    return linear.launch(linear.LinearSpec(chain, vector, unroll(chain, vector)), nest_of_operands(chain, nest))


def with_index(shape: Sequence[int], arrays: Sequence[Operand], instrs: Sequence[Instr]) -> Nest:
    """Return the nest of the arrays and, if an instruction wants it, of the flat index as one more operand."""
    strides = [array.strides for array in arrays]
    if any(instr.wants_index for instr in instrs):
        strides.append(contiguous_strides(shape))
    return collapse(shape, strides)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """C-order strides in elements."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def classify(arrays: Sequence[Operand], nest: Nest) -> list[OperandSpec]:
    """How each array, then the flat index if the nest has one more operand, moves through the nest."""
    specs = []
    for i, (strides, shift) in enumerate(zip(nest.strides, nest.shifts, strict=True)):
        if i == len(arrays):
            specs.append(OperandSpec(i64, INDEX, shift != 0))
            continue
        kind = UNIT if strides[-1] == 1 else OUTER if strides[-1] == 0 else STRIDED
        specs.append(OperandSpec(arrays[i].type, BROADCAST if not any(strides) else kind, shift != 0))
    return specs


def nest_of_operands(chain: Chain, nest: Nest) -> Nest:
    """The nest with one entry per operand of the chain: scalars have strides of 0."""
    moving = iter(zip(nest.strides, nest.shifts, strict=True))
    still = ((0,) * len(nest.shape), 0)
    entries = [still if spec.kind == SCALAR else next(moving) for spec in chain.operands]
    return Nest(nest.shape, tuple(strides for strides, _ in entries), tuple(shift for _, shift in entries))


def index_bits(nest: Nest) -> int:
    """Width of indices that every element and every distance fits."""
    return 32 if max(nest.size, nest.reach) < MAX_INDEX_32 else 64


def vector_width(arrays: Sequence[Operand], nest: Nest, *, takes_rest: bool) -> int:
    """Elements that one access can take: 16 bytes of the widest array, where strides and alignments allow it.

    `takes_rest`: the family handles an innermost extent that is no multiple of the width.
    """
    moving = [
        (array, strides, shifted_alignment(array, shift))
        for array, strides, shift in zip(arrays, nest.strides, nest.shifts, strict=False)
        if any(strides)
    ]
    if any(strides[-1] not in {0, 1} for _, strides, _ in moving):
        return 1
    streams = [(array, strides, alignment) for array, strides, alignment in moving if strides[-1] == 1]
    outer = [loop for loop, n in enumerate(nest.shape[:-1]) if n > 1]
    vector = min([MAX_VECTOR, *(16 // array.type.nbytes for array, _, _ in streams)])
    while vector > 1:
        if (takes_rest or nest.shape[-1] % vector == 0) and all(
            alignment % (vector * array.type.nbytes) == 0 and all(strides[loop] % vector == 0 for loop in outer)
            for array, strides, alignment in streams
        ):
            break
        vector //= 2
    return vector


def unroll(chain: Chain, vector: int) -> int:
    """Units per thread that bring its loads to `NBYTES_IN_FLIGHT`; a power of two."""
    nbytes = sum(spec.type.nbytes for spec in chain.inputs if spec.kind in {UNIT, STRIDED}) * vector
    count = NBYTES_IN_FLIGHT // max(nbytes, 8)
    return max(1, min(MAX_UNROLL, 1 << (count.bit_length() - 1 if count else 0)))
