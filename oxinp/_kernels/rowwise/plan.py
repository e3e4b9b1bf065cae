"""Plans of row-wise chains: whether one kernel computes them, and its Spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.access import index_bits
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
from oxinp._kernels.nest import MAX_INDEX_32, Nest, collapse
from oxinp._kernels.plan import Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import Operand, touched_nbytes
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.rows import BLOCK, WARP, RowsSpec
from oxinp._kernels.rowwise import kernel
from oxinp._kernels.rowwise.kernel import RowwiseSpec
from oxinp._kernels.rowwise.program import RowReduction
from oxinp._kernels.rowwise.sharing import BATCHES, CHUNKS, THREADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Limits
    from oxinp._kernels.plan import Grid
    from oxinp._kernels.problem import Output, ScalarOperand
    from oxinp._kernels.reduce.passes import ReducePass
    from oxinp._kernels.rowwise.program import Item
    from oxinp._ptx import Kernel

MAX_ACCESS = 16  # bytes
CLUSTERS = (2, 4, 8)  # blocks
MAX_LEFT = 40 << 10  # bytes of shared memory for the accumulators that blocks of a cluster leave for each other
MAX_HELD_BY_LARGE_BLOCK = 16  # registers for elements where a block of 1024 threads leaves each thread 64


class AnyRows(NamedTuple):
    """The launch of a row program on a matrix of any number of rows, of which there are at least two.

    Attributes
    ----------
    kernel : Kernel
    before, after : tuple of int
        Constants before the number of rows and behind it.
    per_block : int
        Rows of a block.
    cluster : int
        Blocks that share a row.
    most : int
        Rows up to which indices of 32 bits hold.
    """

    kernel: Kernel
    before: tuple[int, ...]
    after: tuple[int, ...]
    per_block: int
    cluster: int
    most: int


class AnyLine(NamedTuple):
    """The launch of a row program on a single row of any length for which a thread has as many units.

    Attributes
    ----------
    kernel : Kernel
    before : tuple of int
        Constants before the number of rows, that of units, and that of the elements behind those if there may be any.
    vector : int
        Elements of a unit.
    has_rest : bool
    most : int
        Elements up to which indices of 32 bits hold.
    """

    kernel: Kernel
    before: tuple[int, ...]
    vector: int
    has_rest: bool
    most: int


class Walk(NamedTuple):
    """How a reduction goes through a row, and a row-wise kernel with it: see `RowwiseSpec` and `RowReduction`.

    `chunk` is the units of each of several chunks.
    """

    group: int
    vector: int
    num_chunks: int
    chunk: int
    batch: int
    is_short: bool
    join: int

    @property
    def common(self) -> tuple[int, ...]:
        """What reductions have in common that are computed by one kernel."""
        return self[:4]


def walk_of(passes: Sequence[ReducePass]) -> Walk | None:
    """Return how a reduction goes through its rows; None where it does anything but one run along each of them."""
    spec, join = passes[0].spec, 0
    if len(passes) > 1:
        second = passes[1].spec
        if not isinstance(second, ColumnsSpec) or second.down > 1:
            return None
        join = second.unroll
    if (
        not isinstance(spec, RowsSpec)
        or spec.op.wants_index
        or spec.chain.wants_index
        or spec.chain.ndim - spec.num_kept != 1
        or any(operand.is_shifted for operand in spec.chain.inputs)
    ):
        return None
    chunks = (passes[0].num_chunks, passes[0].chunk) if join else (1, 0)
    return Walk(spec.group, spec.vector, *chunks, spec.unroll, spec.at_once > 0, join)


def plan(
    shape: tuple[int, ...],
    num_axes: int,
    operands: Sequence[Operand | ScalarOperand],
    items: Sequence[Item],
    results: Sequence[Output],
    walk: Walk,
    device: Limits,
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
        Of reductions `batch`, `is_short` and `join` are those of their own walks. Without one there is no kernel.
    results : sequence of Output
        None may overlap an input, unless both are read and written at the same index only.
    walk : Walk
        What the reductions have in common.
    device : Limits
    """
    found = choose(shape, num_axes, operands, items, results, walk, device)
    return None if found is None else _planned(found, shape, operands, results)


def _planned(
    found: tuple[RowwiseSpec, Grid, tuple[int, ...]],
    shape: tuple[int, ...],
    operands: Sequence[Operand | ScalarOperand],
    results: Sequence[Output],
) -> Plan:
    """Return the plan of what was chosen."""
    spec, grid, constants = found
    arrays = [result.operand for result in results] + [x for x in operands if isinstance(x, Operand)]
    arguments = (*outputs(len(results)), *inputs(len(operands)))
    work = Work(0, touched_nbytes(shape, arrays))
    return Plan((Launch(kernel.make(spec), grid, arguments, constants, work),))


def any_rows(
    shape: tuple[int, int],
    operands: Sequence[Operand | ScalarOperand],
    items: Sequence[Item],
    results: Sequence[Output],
    walk: Walk,
    device: Limits,
) -> tuple[AnyRows, Plan] | None:
    """Return the launch of a row program on matrices of as long rows; None where it depends on how many there are.

    With it comes the plan for this matrix, of the same kernel.

    Parameters are those of `plan`, for rows of one axis.
    """
    arrays = [result.operand for result in results] + [x for x in operands if isinstance(x, Operand)]
    down, along = zip(*[x.strides for x in arrays], strict=True)
    num_rows, length = shape
    if num_rows < 2 or min(*down, *along) < 0:  # where a loop begins depends on its length
        return None
    found = choose(shape, 1, operands, items, results, walk, device)
    if found is None or found[0].chain.index_bits != 32:
        return None
    spec, _, constants = found
    place = -3 if spec.rest else -2
    most = (MAX_INDEX_32 - 1 - max(along) * length) // max(*down, length)
    planned = _planned(found, shape, operands, results)
    made = kernel.make(spec)
    return AnyRows(made, constants[:place], constants[place + 1 :], per_block(spec), spec.cluster, most), planned


def any_line(
    shape: tuple[int],
    operands: Sequence[Operand | ScalarOperand],
    items: Sequence[Item],
    results: Sequence[Output],
    walk: Walk,
    device: Limits,
) -> tuple[AnyLine, Plan] | None:
    """Return the launch of a row program on a single row; None where it depends on its length. See `any_rows`.

    A result of one element may be one of those that are read: that is stored after all of them have been.
    """
    arrays = [result.operand for result in results] + [x for x in operands if isinstance(x, Operand)]
    steps = [x.strides[0] for x in arrays]
    if min(steps) < 0:
        return None
    found = choose(shape, 1, operands, items, results, walk, device, any_length=True)
    if found is None or found[0].chain.index_bits != 32:
        return None
    spec, _, constants = found
    before = constants[: -3 if spec.rest else -2]
    most = (MAX_INDEX_32 - 1) // max(*steps, 1)
    line = AnyLine(kernel.make(spec), before, spec.vector, spec.rest > 0, most)
    return line, _planned(found, shape, operands, results)


def per_block(spec: RowwiseSpec) -> int:
    """Return how many rows a block computes, or the blocks of a cluster together."""
    return spec.block // spec.group if spec.group <= WARP else 1


def choose(
    shape: tuple[int, ...],
    num_axes: int,
    operands: Sequence[Operand | ScalarOperand],
    items: Sequence[Item],
    results: Sequence[Output],
    walk: Walk,
    device: Limits,
    *,
    any_length: bool = False,
) -> tuple[RowwiseSpec, Grid, tuple[int, ...]] | None:
    """Return the Spec, the grid and the constants of a row program; None where no kernel computes it.

    Parameters are those of `plan`, and whether the kernel is to serve other lengths for which each thread has as many
    units.
    """
    if not any(isinstance(item, RowReduction) for item in items):  # nobody wants its result any more
        return None
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
    rest = -(-(vector - 1) // group) if num_rest or any_length else 0
    is_full = num_units == group * units and not any_length
    spec = RowwiseSpec(chain, tuple(items), group, vector, units, is_full, rest, is_ordered=any_length)
    program = spec.program
    if any(program.is_uniform[number] != (operand.kind == OUTER) for number, operand in chain.outputs):
        return None
    most = MAX_GATHERED if group <= BLOCK else MAX_HELD_BY_LARGE_BLOCK
    held = program.held_words()
    if not held and units > batch and walk.num_chunks == 1:  # nothing is read again: a loop takes fewer registers
        spec = spec.replace(units=0, is_full=False)
    elif walk.num_chunks > 1 or held * vector * units > most:
        is_sharing = device.cc >= (9, 0) and not rest and not any_length
        shared = _in_cluster(spec, walk, num_units) if is_sharing else None
        if shared is None and (walk.num_chunks > 1 or group > BLOCK):
            return None  # there are too few rows to read each on one multiprocessor
        spec = shared or spec.replace(units=0, is_full=False)
    num_rows = kept.size
    counts = (num_rows, num_units, num_rest) if rest else (num_rows, num_units)
    constants = (*chain.constants(nest), *counts, *Splitter.constants(kept.shape, chain.index_bits))
    return spec, (-(-num_rows // per_block(spec)) * spec.cluster, 1, 1), constants


def _in_cluster(spec: RowwiseSpec, walk: Walk, num_units: int) -> RowwiseSpec | None:
    """Return the Spec for rows that a cluster holds in registers; None where none does."""
    reductions = [item for item in spec.items if isinstance(item, RowReduction)]
    batch = max([item.batch for item in reductions])
    if walk.num_chunks > 1:
        ways = [(CHUNKS, walk.num_chunks)]
    else:
        ways = [(THREADS, spec.group // BLOCK)] if spec.group > BLOCK else [(BATCHES, count) for count in CLUSTERS]
    for sharing, cluster in ways:
        own = walk.chunk if sharing == CHUNKS else -(-num_units // cluster)  # units of a block, at least
        units = -(-own // (BLOCK * batch)) * batch
        left = sum([units // item.batch * item.op.acc.nbytes for item in reductions]) * BLOCK
        if (
            cluster <= CLUSTERS[-1]
            and spec.program.held_words() * spec.vector * units <= MAX_GATHERED
            and (sharing != BATCHES or left <= MAX_LEFT)
            and (sharing != CHUNKS or units * BLOCK == walk.chunk)
        ):
            is_full = num_units == units * BLOCK * cluster
            return spec.replace(units=units, is_full=is_full, cluster=cluster, sharing=sharing)
    return None


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


__all__ = ["AnyLine", "AnyRows", "Walk", "any_line", "any_rows", "choose", "plan", "walk_of"]
