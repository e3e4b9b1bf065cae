"""Elementwise problems: which kernel of which family serves which layout.

Fused chains, fills, aranges, copies, casts, transposed copies, slices and stencils are all one thing: operands with
strides over one shape, and instructions between them.
"""

from __future__ import annotations

import sys
from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES, Choice, Device, decide, unrolled
from oxinp._kernels.elementwise import linear, tile
from oxinp._kernels.elementwise.chain import (
    BROADCAST,
    INDEX,
    MAX_GATHERED,
    OUTER,
    SCALAR,
    STAGED,
    STEPPED,
    STRIDED,
    TRANSPOSED,
    UNIT,
    Chain,
    OperandSpec,
)
from oxinp._kernels.elementwise.linear import LinearSpec
from oxinp._kernels.elementwise.tile import TileSpec
from oxinp._kernels.nest import Nest, collapse, shifted_alignment
from oxinp._kernels.plan import Launch, Plan, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.plan import outputs as outputs_of
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand, touched_nbytes
from oxinp._ptx.types import i64

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_INDEX_32 = 2**31 - 2**20  # what 32-bit indices may reach, with room for a block's overshoot
MAX_VECTOR = 4
MAX_UNROLL = 8
NBYTES_IN_FLIGHT = 32  # of loads per thread
# Units and rows per thread of tiles with transposed inputs, by the registers that an element of all inputs takes.
STAGED_SHAPES = ((1, (4, 8)), (2, (2, 8)), (4, (2, 4)))
LEAST_STAGED_SHAPE = (1, 4)
MAX_TRANSPOSED_STEP = 8  # elements between neighbours along a line that is worth staging
MIN_TILE_SIDE = 16  # extents from which transposed inputs are staged
MIN_FILL = 0.7  # share of a tile that problems have to fill on average
MAX_STATIC_SHARED = 48 * 1024


def plan(
    shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
    device: Device,
) -> Plan:
    """Return the plan that computes `outputs` over `shape`: one launch.

    Parameters
    ----------
    shape : tuple of int
        Of every operand; broadcast ones have strides of 0. With no elements there is nothing to launch.
    inputs : sequence of Operand or ScalarOperand
    instrs : sequence of Instr
        May be empty: outputs then copy inputs.
    outputs : sequence of Output
        The first decides the order of traversal. None may overlap an input, unless both are read and written at the
        same index only.
    device : Device

    Returns
    -------
    Plan
        The arguments are the outputs, then the inputs, each in order.
    """
    if 0 in shape:
        return Plan(())
    family, spec, nest = choose(shape, inputs, instrs, outputs)
    arrays = [output.operand for output in outputs] + [x for x in inputs if isinstance(x, Operand)]
    nbytes = touched_nbytes(shape, arrays)
    if nbytes >= MIN_TUNED_NBYTES:
        spec = _measured(spec, nest, device)
    grid, constants = family.geometry(spec, nest)
    arguments = (*outputs_of(len(outputs)), *inputs_of(len(inputs)))
    return Plan((Launch(family.make(spec), grid, arguments, constants, Work(nbytes=nbytes)),))


class Extents(NamedTuple):
    """The shape of a tile with transposed inputs; see `TileSpec`."""

    units: int
    rows: int


def _measured(spec: LinearSpec | TileSpec, nest: Nest, device: Device) -> LinearSpec | TileSpec:
    """The Spec with what was measured to be best near this problem."""
    chain = spec.chain
    key = chain.kinds
    if isinstance(spec, LinearSpec):
        most = min(MAX_UNROLL, max(spec.unroll, MAX_GATHERED // (spec.vector * max(1, chain.words))))
        layout = (f"{chain.ndim} loops", f"{spec.vector} elements")
        measured: LinearSpec = unrolled(spec, "elementwise/linear", key, layout, (nest.size,), most, device)
        return measured
    staged = [operand for operand in chain.inputs if operand.kind in STAGED]
    if not staged:
        return spec

    def is_legal(extents: Extents) -> bool:
        units, rows = extents
        if units not in {1, 2, 4, 8} or rows not in {4, 8, 16}:
            return False
        nbytes = sum(tile.shared_nbytes(tile.WARP * units, tile.NUM_WARPS * rows, x.type) for x in staged)
        return nbytes <= MAX_STATIC_SHARED and units * rows * chain.words <= MAX_GATHERED

    default = Extents(spec.units, spec.rows)
    candidates = [default, *filter(is_legal, starmap(Extents, product((1, 2, 4, 8), (4, 8, 16))))]
    choice = Choice("transpose/tile", key, (), nest.shape[-2:], Extents, is_legal, lambda: default, lambda: candidates)
    answer = decide(choice, device)
    return spec if answer == default else spec.replace(**answer._asdict())


def choose(
    shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
) -> tuple[Any, LinearSpec | TileSpec, Nest]:
    """Return the family's module, the Spec, and the nest with one entry per operand of the chain."""
    arrays = [output.operand for output in outputs] + [x for x in inputs if isinstance(x, Operand)]
    nest = with_index(shape, arrays, instrs)
    specs = classify(arrays, nest)
    loop = _transposed_loop(arrays, nest, len(outputs))
    if loop is not None:
        tiled = _with_rows(nest, loop)
        specs, units, rows = _with_transposed(specs, tiled, len(outputs))
        chain = _chain(inputs, instrs, outputs, specs, nest)
        return tile, TileSpec(chain, 1, units, rows), nest_of_operands(chain, tiled)
    chain = _chain(inputs, instrs, outputs, specs, nest)
    vector = vector_width(arrays, nest, takes_rest=len(nest.shape) == 1)
    if len(nest.shape) > 1:
        tiled = _with_rows(nest, _longest_loop(nest))
        spec = TileSpec(chain, vector, _tile_units(chain, vector), 1)
        if _fill(nest.shape[-1], spec.width) * _fill(tiled.shape[-2], spec.height) >= MIN_FILL:
            return tile, spec, nest_of_operands(chain, tiled)
    return linear, LinearSpec(chain, vector, unroll(chain, vector, NBYTES_IN_FLIGHT)), nest_of_operands(chain, nest)


def _chain(
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    outputs: Sequence[Output],
    specs: Sequence[OperandSpec],
    nest: Nest,
) -> Chain:
    """The chain over `specs` of the outputs, the input arrays and the index."""
    moving = iter(specs)
    output_specs = tuple((output.value, next(moving)) for output in outputs)
    input_specs = [next(moving) if isinstance(x, Operand) else OperandSpec(x.type, SCALAR) for x in inputs]
    return Chain((*input_specs, *moving), tuple(instrs), output_specs, len(nest.shape), index_bits(nest))


def _with_rows(nest: Nest, loop: int) -> Nest:
    """The nest with one of the outer loops moved to the place of a tile's rows."""
    last = len(nest.shape) - 1
    return nest.reordered([*(d for d in range(last) if d != loop), loop, last])


def _fill(extent: int, length: int) -> float:
    """Share of whole pieces of some length that an extent fills."""
    return extent / (-(-extent // length) * length)


def _longest_loop(nest: Nest) -> int:
    """The loop that a tile's rows go along: the longest but the innermost, of equal ones the inner."""
    return max(range(len(nest.shape) - 1), key=lambda loop: (nest.shape[loop], loop))


def _nearest_loop(strides: Sequence[int]) -> int:
    """The loop along which an operand's elements are nearest to each other."""
    return min(range(len(strides)), key=lambda loop: abs(strides[loop]) or sys.maxsize)


def _is_transposed(strides: Sequence[int], loop: int) -> bool:
    """Whether a loop, and not the innermost, goes along an operand's lines in memory."""
    return 0 < abs(strides[loop]) <= MAX_TRANSPOSED_STEP and abs(strides[-1]) > abs(strides[loop])


def _transposed_loop(arrays: Sequence[Operand], nest: Nest, num_outputs: int) -> int | None:
    """The loop along which most bytes of inputs lie in lines, if that is not the innermost."""
    votes = [0] * len(nest.shape)
    for array, strides in list(zip(arrays, nest.strides, strict=False))[num_outputs:]:
        nearest = _nearest_loop(strides)
        if _is_transposed(strides, nearest):
            votes[nearest] += array.type.nbytes
    loop = max(range(len(votes)), key=votes.__getitem__)
    is_worthwhile = votes[loop] and nest.shape[loop] >= MIN_TILE_SIDE and nest.shape[-1] >= MIN_TILE_SIDE
    return loop if is_worthwhile else None


def _with_transposed(specs: list[OperandSpec], nest: Nest, num_outputs: int) -> tuple[list[OperandSpec], int, int]:
    """Stage the inputs whose lines lie along the last loop but one, as many as shared memory takes.

    Returns
    -------
    specs, units, rows
        The last two are the tile's shape, see `TileSpec`: the fewer inputs, the larger.
    """
    words = sum(spec.words for spec in specs[num_outputs:])
    units, rows = next((shape for limit, shape in STAGED_SHAPES if words <= limit), LEAST_STAGED_SHAPE)
    left = MAX_STATIC_SHARED
    result = []
    for i, (spec, strides) in enumerate(zip(specs, nest.strides, strict=True)):
        nbytes = tile.shared_nbytes(tile.WARP * units, tile.NUM_WARPS * rows, spec.type)
        is_staged = i >= num_outputs and spec.kind == STRIDED and _is_transposed(strides, -2) and nbytes <= left
        left -= nbytes * is_staged
        result.append(spec.replace(kind=TRANSPOSED if strides[-2] == 1 else STEPPED) if is_staged else spec)
    return result, units, rows


def _tile_units(chain: Chain, vector: int) -> int:
    """Units per thread of a tile: four elements, or what registers take."""
    words = vector * chain.words
    units = MAX_VECTOR // vector
    while units > 1 and units * words > MAX_GATHERED:
        units //= 2
    return units


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
    """How each array, then what indices the nest has as more operands, moves through the nest."""
    specs = []
    for i, (strides, shift) in enumerate(zip(nest.strides, nest.shifts, strict=True)):
        if i >= len(arrays):
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


def vector_width(arrays: Sequence[Operand], nest: Nest, *, takes_rest: bool, limit: int = MAX_VECTOR) -> int:
    """Elements that one access can take: 16 bytes of the widest array, where strides and alignments allow it.

    `takes_rest`: the family handles an innermost extent that is no multiple of the width; `limit`: what it can use.
    """
    moving = [
        (array, strides, shifted_alignment(array, shift))
        for array, strides, shift in zip(arrays, nest.strides, nest.shifts, strict=False)
        if any(strides)
    ]
    if any(strides[-1] not in {0, 1} for _, strides, _ in moving):
        return 1
    streams = [(array, strides, alignment) for array, strides, alignment in moving if strides[-1] == 1]
    if not streams:
        limit = min(limit, MAX_VECTOR)
    outer = [loop for loop, n in enumerate(nest.shape[:-1]) if n > 1]
    vector = min([limit, *(max(1, 16 // array.type.nbytes) for array, _, _ in streams)])
    while vector > 1:
        if (takes_rest or nest.shape[-1] % vector == 0) and all(
            alignment % (vector * array.type.nbytes) == 0 and all(strides[loop] % vector == 0 for loop in outer)
            for array, strides, alignment in streams
        ):
            break
        vector //= 2
    return vector


def unroll(chain: Chain, vector: int, nbytes_in_flight: int) -> int:
    """Units per thread that bring its loads to a number of bytes; a power of two."""
    nbytes = sum(spec.type.nbytes for spec in chain.inputs if spec.kind in {UNIT, STRIDED}) * vector
    count = nbytes_in_flight // max(nbytes, 8)
    return max(1, min(MAX_UNROLL, 1 << (count.bit_length() - 1 if count else 0)))
