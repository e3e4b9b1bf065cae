"""Plans of row-wise chains: whether one kernel computes them, and its Spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.chain import (
    BROADCAST,
    MAX_GATHERED,
    OUTER,
    SCALAR,
    STRIDED,
    UNIT,
    Chain,
    OperandSpec,
    Splitter,
)
from oxinp._kernels.elementwise.plan import index_bits
from oxinp._kernels.nest import Nest, collapse
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import Operand, touched_nbytes
from oxinp._kernels.reduce.rows import BLOCK, WARP, RowsSpec
from oxinp._kernels.rowwise import kernel
from oxinp._kernels.rowwise.kernel import RowwiseSpec
from oxinp._kernels.rowwise.program import RowReduction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Grid
    from oxinp._kernels.problem import Output, ScalarOperand
    from oxinp._kernels.reduce.plan import ReducePass
    from oxinp._kernels.rowwise.program import Item

MAX_ACCESS = 16  # bytes
MAX_HELD_BY_LARGE_BLOCK = 16  # registers for elements where a block of 1024 threads leaves each thread 64


class Walk(NamedTuple):
    """How a reduction goes through a row, and a row-wise kernel with it: see `RowwiseSpec` and `RowReduction`."""

    group: int
    vector: int
    batch: int
    is_short: bool


def walk_of(passes: Sequence[ReducePass]) -> Walk | None:
    """Return how a reduction goes through its rows; None where it does anything but one run along each of them."""
    spec = passes[0].spec
    if (
        len(passes) > 1
        or not isinstance(spec, RowsSpec)
        or spec.op.wants_index
        or spec.chain.wants_index
        or spec.chain.ndim - spec.num_kept != 1
        or any(operand.is_shifted for operand in spec.chain.inputs)
    ):
        return None
    return Walk(spec.group, spec.vector, spec.unroll, spec.at_once > 0)


def plan(
    shape: tuple[int, ...],
    num_axes: int,
    operands: Sequence[Operand | ScalarOperand],
    items: Sequence[Item],
    results: Sequence[Output],
    walk: Walk,
) -> Plan | None:
    """Return the launch that computes a row program; None where no kernel does.

    Parameters
    ----------
    shape : tuple of int
        Of every operand; broadcast ones have strides of 0, also the outputs that have one element per row.
    num_axes : int
        How many of the last axes are a row.
    operands : sequence of Operand or ScalarOperand
        The inputs.
    items : sequence of Instr or RowReduction
        At least one is a reduction; their `batch` and `is_short` are those of their own walks.
    results : sequence of Output
        None may overlap an input, unless both are read and written at the same index only.
    walk : Walk
        Group and vector, the same for all reductions.
    """
    found = choose(shape, num_axes, operands, items, results, walk)
    if found is None:
        return None
    spec, grid, constants = found
    arrays = [result.operand for result in results] + [x for x in operands if isinstance(x, Operand)]
    arguments = (*outputs(len(results)), *inputs(len(operands)))
    work = Work(0, touched_nbytes(shape, arrays))
    return Plan((Launch(kernel.make(spec), grid, arguments, constants, work),))


def choose(
    shape: tuple[int, ...],
    num_axes: int,
    operands: Sequence[Operand | ScalarOperand],
    items: Sequence[Item],
    results: Sequence[Output],
    walk: Walk,
) -> tuple[RowwiseSpec, Grid, tuple[int, ...]] | None:
    """Return the Spec, the grid and the constants of a row program; None where no kernel computes it."""
    arrays = [result.operand for result in results] + [x for x in operands if isinstance(x, Operand)]
    first = len(shape) - num_axes
    kept = collapse(shape[:first], [x.strides[:first] for x in arrays])
    along = collapse(shape[first:], [x.strides[first:] for x in arrays])
    length = along.shape[0]
    if len(along.shape) > 1 or any(along.shifts) or length < max(2, walk.vector):
        return None
    strides = tuple([a + b for a, b in zip(kept.strides, along.strides, strict=True)])
    nest = Nest(kept.shape + along.shape, strides, kept.shifts)
    specs = [_classify(x, nest, i, walk.vector) for i, x in enumerate(arrays)]
    moving = iter(specs[len(results) :])
    chain = Chain(
        tuple([next(moving) if isinstance(x, Operand) else OperandSpec(x.type, SCALAR) for x in operands]),
        (),
        tuple([(result.value, spec) for result, spec in zip(results, specs, strict=False)]),
        len(nest.shape),
        index_bits(nest),
    )
    group, vector = walk.group, walk.vector
    num_units = length // vector
    batch = max([item.batch for item in items if isinstance(item, RowReduction)])
    units = -(-num_units // (group * batch)) * batch
    num_rest = length - num_units * vector
    rest = -(-(vector - 1) // group) if num_rest else 0
    spec = RowwiseSpec(chain, tuple(items), group, vector, units, num_units == group * units, rest)
    program = spec.program
    if any(program.is_uniform[number] != (operand.kind == OUTER) for number, operand in chain.outputs):
        return None
    if program.held_words() * vector * units > (MAX_GATHERED if group <= BLOCK else MAX_HELD_BY_LARGE_BLOCK):
        if group > BLOCK:  # there are too few rows to read them on one multiprocessor each
            return None
        spec = spec.replace(units=0, is_full=False)
    num_rows = kept.size
    counts = (num_rows, num_units, num_rest) if num_rest else (num_rows, num_units)
    constants = (*chain.constants(nest), *counts, *Splitter.constants(kept.shape, chain.index_bits))
    per_block = spec.block // group if group <= WARP else 1
    return spec, (-(-num_rows // per_block), 1, 1), constants


def _classify(x: Operand, nest: Nest, i: int, vector: int) -> OperandSpec:
    """How an operand moves through the nest: as UNIT where one instruction, or a few, can take a unit of it."""
    *outer, inner = nest.strides[i]
    shift, nbytes = nest.shifts[i], x.type.nbytes
    if not inner:
        return OperandSpec(x.type, OUTER if any(outer) else BROADCAST, shift != 0)
    access = min(MAX_ACCESS, vector * nbytes)
    distances = [shift * nbytes, *[step * nbytes for step, n in zip(outer, nest.shape, strict=False) if n > 1]]
    is_unit = inner == 1 and x.alignment % access == 0 and all(distance % access == 0 for distance in distances)
    return OperandSpec(x.type, UNIT if is_unit else STRIDED, shift != 0)


__all__ = ["Walk", "choose", "plan", "walk_of"]
