"""Reduction problems: which family serves which layout, how the work is cut, the second pass that joins the cuts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES, unrolled
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.elementwise.chain import SCALAR, Chain, Divisor, OperandSpec, Splitter
from oxinp._kernels.elementwise.plan import (
    classify,
    contiguous_strides,
    index_bits,
    nest_of_operands,
    unroll,
    vector_width,
)
from oxinp._kernels.nest import Nest, collapse
from oxinp._kernels.plan import SCRATCH, Argument, Launch, Plan, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand, touched_nbytes
from oxinp._kernels.reduce import columns, rows
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.rows import RowsSpec
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import i32, pred, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Grid
    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

NBYTES_IN_FLIGHT = 128  # of loads per thread: threads are fewer than in elementwise kernels
BLOCKS_PER_SM = 8  # blocks that a split aims at
MIN_COLUMNS = 32  # kept elements side by side from which lanes go along them
MIN_FOLDED = 1 << 16  # elements from which few columns are worth folding
MAX_FOLDED = 512  # columns that rows are folded to
MAX_SERIAL = 16  # rows up to which a thread takes whole columns
MAX_VECTOR = 16  # elements of one load: 16 bytes of the narrowest type
UNITS_PER_LANE = 4  # of rows that a warp or a part of it takes
MAX_ROWS_AT_ONCE = 4  # short rows of a warp, or of a part of it, that are loaded together (of predicates half)
MAX_UNITS_PER_LANE = 16  # where there are rows enough for warps to fill the device
SINGLE_BLOCK = 1024  # threads of the block that takes a row alone where rows are fewer than multiprocessors
SINGLE_UNROLL, MAX_SINGLE_NBYTES = 2, 16  # of larger accumulators its 64 registers hold two units' worth
MAX_SINGLE_ROUNDS = 8  # of its rounds; longer rows are worth a second pass


class _Pass(NamedTuple):
    """One launch before its kernel is built, and how many chunks of partial results it leaves (1: the results)."""

    family: Any
    spec: RowsSpec | ColumnsSpec
    grid: Grid
    constants: tuple[int, ...]
    num_chunks: int
    chunk_length: int


class _Problem(Frozen):
    """A reduction with its loops collapsed, kept and reduced ones apart.

    The nests' operands are the input arrays, the index if there is one, and in `kept` then the output and the scratch.
    """

    kept: Nest
    reduced: Nest
    arrays: tuple[Operand, ...]
    inputs: tuple[Operand | ScalarOperand, ...]
    instrs: tuple[Instr, ...]
    value: int
    mask: int | None
    op: ReduceOp
    output: Operand
    num_sms: int
    may_split: bool

    def nest(self, *, kept_innermost: bool) -> Nest:
        """The inputs' nest: the reduced loops inside the kept ones, or before the last of them."""
        kept = self.kept
        cut = len(kept.shape) - kept_innermost
        strides = [a[:cut] + b + a[cut:] for a, b in zip(kept.strides, self.reduced.strides, strict=False)]
        shifts = [a + b for a, b in zip(kept.shifts, self.reduced.shifts, strict=False)]
        return Nest(kept.shape[:cut] + self.reduced.shape + kept.shape[cut:], tuple(strides), tuple(shifts))

    def chain(self, nest: Nest) -> Chain:
        """What the code depends on of inputs and instructions."""
        specs = iter(classify(self.arrays, nest))
        inputs = [next(specs) if isinstance(x, Operand) else OperandSpec(x.type, SCALAR) for x in self.inputs]
        bits = max(index_bits(nest), index_bits(self.kept))
        indices = [*specs]
        if self.op.wants_index and bits == 32:
            indices[-1] = indices[-1].replace(type=i32)
        return Chain((*inputs, *indices), self.instrs, (), len(nest.shape), bits)

    def target(self, num_chunks: int) -> tuple[Type, tuple[int, ...]]:
        """Type, and strides and shift as constants, of what the first pass writes."""
        i = -1 if num_chunks > 1 else -2
        type_ = self.op.acc if num_chunks > 1 else self.output.type
        return type_, (*self.kept.strides[i], self.kept.shifts[i])

    def spec(self, chain: Chain, num_chunks: int) -> dict[str, Any]:
        """The fields that the Specs of all families have."""
        return {
            "chain": chain,
            "value": self.value,
            "mask": self.mask,
            "op": self.op,
            "num_kept": len(self.kept.shape),
            "type": self.target(num_chunks)[0],
            "is_split": num_chunks > 1,
        }


def plan(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
    *,
    mask: int | None = None,
) -> Plan:
    """Return the plan that reduces one value of a chain over some axes.

    Parameters
    ----------
    shape : tuple of int
        Of every input.
    axes : tuple of int
        Reduced dimensions, not negative.
    inputs, instrs : sequences
        As for `elementwise.plan`; the last inputs may be parameters of `op`.
    value : int
        Number of the value that is reduced.
    op : ReduceOp
    output : Operand
        Strides over the kept dimensions, in order. Must not overlap an input.
    device : Device
    mask : int or None
        Number of the value, a `pred`, that says which elements count.

    Returns
    -------
    Plan
        One launch, or two of which the first leaves partial results in the scratch buffer and the second joins them.

    Notes
    -----
    The order of combination follows from layout, sizes and `device.num_sms`: the same call gives the same bits. No
    running value of a compensated op rounds, so its error is that of the tree: about 20 roundings, whatever the size.
    """
    kept_shape = tuple(n for d, n in enumerate(shape) if d not in axes)
    if 0 in kept_shape:
        return Plan(())
    if 0 in shape:
        return _fill(kept_shape, inputs, op, output, device)
    passes = choose(shape, axes, inputs, instrs, value, op, output, device, mask=mask)
    nbytes = touched_nbytes(shape, [x for x in inputs if isinstance(x, Operand)])
    if nbytes >= MIN_TUNED_NBYTES:
        passes[0] = _measured(passes[0], math.prod(kept_shape), math.prod(shape), device)
    num_partial = passes[0].num_chunks * passes[0].chunk_length if len(passes) > 1 else 0
    scratch_nbytes = num_partial * op.acc.nbytes
    written = touched_nbytes(kept_shape, [output])
    moved = (nbytes + scratch_nbytes, scratch_nbytes + written) if scratch_nbytes else (nbytes + written,)
    pointers = (Argument("out0"), *((SCRATCH,) if scratch_nbytes else ()))
    # The second pass takes the last inputs, those that are parameters of `op`.
    taken = (inputs_of(len(inputs)), inputs_of(op.num_parameters, len(inputs) - op.num_parameters))
    return Plan(
        tuple(
            Launch(each.family.make(each.spec), each.grid, (*pointers, *own), each.constants, Work(nbytes=each_nbytes))
            for each, own, each_nbytes in zip(passes, taken, moved, strict=False)
        ),
        scratch_nbytes,
    )


def _measured(first: _Pass, num_kept: int, size: int, device: Device) -> _Pass:
    """The pass with what was measured to be best near this problem."""
    spec = first.spec
    if isinstance(spec, RowsSpec) and spec.at_once:
        return first  # rows are too short to leave a choice
    family, group = ("rows", spec.group) if isinstance(spec, RowsSpec) else ("columns", spec.down)
    key = (spec.op.name, spec.op.acc.name, spec.chain.kinds[0])
    layout = (f"{spec.chain.ndim} loops", f"{spec.vector} elements", f"{group} threads")
    most = max(spec.unroll, spec.op.batch // spec.vector)
    measured = unrolled(spec, f"reduce/{family}", key, layout, (num_kept, size // num_kept), most, device)
    return first._replace(spec=measured)


def choose(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
    *,
    mask: int | None = None,
) -> list[_Pass]:
    """Return the one or two passes of a reduction of at least one element to at least one result."""
    inputs, instrs = tuple(inputs), tuple(instrs)

    def first_pass(shape: tuple[int, ...], inputs: tuple[Operand | ScalarOperand, ...], output: Operand) -> _Pass:
        return _choose_pass(
            _collapse(shape, axes, inputs, instrs, value, mask, op, output, device.num_sms, may_split=True)
        )

    kept_shape = tuple(n for d, n in enumerate(shape) if d not in axes)
    partial_shape = kept_shape
    partial_axes: tuple[int, ...] = (0,)
    fold = _fold(shape, axes, inputs, op)
    first = None
    if fold > 1:
        length, width = shape
        partial_shape, partial_axes = (fold, width), (0, 1)
        folded = tuple(
            x.replace(strides=(fold * width, width, 1)) if isinstance(x, Operand) and any(x.strides) else x
            for x in inputs
        )
        first = first_pass((length // fold, fold, width), folded, output.replace(strides=(width, 1)))
    if first is None or first.num_chunks == 1:
        partial_shape, partial_axes = kept_shape, (0,)
        first = first_pass(shape, inputs, output)
    if first.num_chunks == 1:
        return [first]
    # Partial results lie by chunk, then in C order of the kept dimensions.
    partial = Operand(op.acc, (math.prod(partial_shape), *contiguous_strides(partial_shape)))
    joined = _collapse(
        (first.num_chunks, *partial_shape),
        partial_axes,
        (partial, *inputs[len(inputs) - op.num_parameters :]),
        (),
        0,
        None,
        op.joining(),
        output,
        device.num_sms,
        may_split=False,
    )
    return [first, _choose_pass(joined)]


def _fold(
    shape: tuple[int, ...], axes: tuple[int, ...], inputs: tuple[Operand | ScalarOperand, ...], op: ReduceOp
) -> int:
    """How many rows of a few columns to lay side by side, as columns of their own that the second pass joins.

    Lanes along a few columns would be few, and lanes along rows read every line of memory once per column.
    """
    if len(shape) != 2 or axes != (0,) or op.wants_index or not 1 < shape[1] < MIN_COLUMNS:
        return 1
    length, width = shape
    arrays = [x for x in inputs if isinstance(x, Operand)]
    if length * width < MIN_FOLDED or any(x.strides not in {(width, 1), (0, 0)} for x in arrays):
        return 1
    counts = range(MAX_FOLDED // width, MIN_COLUMNS // width, -1)
    return next((count for count in counts if length % count == 0), 1)


def _collapse(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: tuple[Operand | ScalarOperand, ...],
    instrs: tuple[Instr, ...],
    value: int,
    mask: int | None,
    op: ReduceOp,
    output: Operand,
    num_sms: int,
    *,
    may_split: bool,
) -> _Problem:
    kept_dims = [d for d in range(len(shape)) if d not in axes]
    arrays = tuple(x for x in inputs if isinstance(x, Operand))
    strides = [array.strides for array in arrays]
    if any(instr.wants_index for instr in instrs):
        strides.append(contiguous_strides(shape))
    if op.wants_index:
        steps = dict(zip(sorted(axes), contiguous_strides([shape[d] for d in sorted(axes)]), strict=True))
        strides.append(tuple(steps.get(d, 0) for d in range(len(shape))))
    kept_shape = [shape[d] for d in kept_dims]
    kept_strides = [[s[d] for d in kept_dims] for s in strides]
    kept = collapse(kept_shape, [*kept_strides, output.strides, contiguous_strides(kept_shape)])
    reduced = collapse([shape[d] for d in axes], [[s[d] for d in axes] for s in strides])
    return _Problem(kept, reduced, arrays, inputs, instrs, value, mask, op, output, num_sms, may_split)


def _choose_pass(problem: _Problem) -> _Pass:
    loop = _column_loop(problem)
    if loop is None:
        return _rows(problem)
    order = [d for d in range(len(problem.kept.shape)) if d != loop]
    return _columns(problem.replace(kept=problem.kept.reordered([*order, loop])))


def _column_loop(problem: _Problem) -> int | None:
    """The kept loop that lanes go along; None where they go along the reduced ones."""
    kept, reduced = problem.kept, problem.reduced
    votes = dict.fromkeys(range(len(kept.shape)), 0)
    against = 0
    for i, array in enumerate(problem.arrays):
        along_kept = {abs(step): loop for loop, step in enumerate(kept.strides[i]) if step and kept.shape[loop] > 1}
        along_reduced = [abs(step) for step, n in zip(reduced.strides[i], reduced.shape, strict=True) if step and n > 1]
        nearest = min(along_kept, default=None)
        if nearest is not None and nearest < min(along_reduced, default=nearest + 1):
            votes[along_kept[nearest]] += array.type.nbytes
        else:
            against += array.type.nbytes
    best = max(votes, key=lambda loop: (votes[loop], kept.shape[loop]))
    if votes[best] > against and kept.shape[best] >= MIN_COLUMNS:
        return best
    return None


def _rows(problem: _Problem) -> _Pass:
    """Lanes along the reduced loops."""
    nest = problem.nest(kept_innermost=False)
    chain = problem.chain(nest)
    *outer, inner = problem.reduced.shape
    vector = vector_width(problem.arrays, nest, takes_rest=not outer, limit=MAX_VECTOR)
    num_rows = problem.kept.size
    num_units = problem.reduced.size // vector
    group, count, at_once, chunk = _share_rows(
        problem, num_units, min(unroll(chain, vector, NBYTES_IN_FLIGHT), problem.op.batch // vector)
    )
    num_chunks = -(-num_units // max(chunk, 1)) or 1
    _, place = problem.target(num_chunks)
    spec = RowsSpec(**problem.spec(chain, num_chunks), group=group, vector=vector, unroll=count, at_once=at_once)
    bits = chain.index_bits
    constants = (
        *chain.constants(nest_of_operands(chain, nest)),
        *place,
        num_rows,
        num_units,
        problem.reduced.size - num_units * vector,
        *((chunk, *Divisor.constants(num_chunks, bits)) if num_chunks > 1 else ()),
        *Splitter.constants(problem.kept.shape, bits),
        *Splitter.constants((*outer, inner // vector), bits),
    )
    per_block = max(1, at_once) * spec.block // group
    num_blocks = -(-num_rows // per_block) * num_chunks
    return _Pass(rows, spec, (num_blocks, 1, 1), constants, num_chunks, num_rows)


def _share_rows(problem: _Problem, num_units: int, count: int) -> tuple[int, int, int, int]:
    """Threads per row, units that one loads before it uses the first, rows at once, units of a chunk."""
    num_rows = problem.kept.size
    has_predicates = any(array.type is pred for array in problem.arrays)
    if 0 < num_units <= rows.WARP * UNITS_PER_LANE:
        group = _power_of_two(-(-num_units // UNITS_PER_LANE))
        own = _power_of_two(-(-num_units // group))
        most = MAX_ROWS_AT_ONCE // 2 if has_predicates else MAX_ROWS_AT_ONCE
        return group, own, min(most, max(1, count // own)), num_units
    chunk = num_units
    if num_units <= rows.WARP * MAX_UNITS_PER_LANE and num_rows >= problem.num_sms * rows.BLOCK:
        group = rows.WARP
    elif num_rows < problem.num_sms and num_units <= SINGLE_BLOCK * count * MAX_SINGLE_ROUNDS:
        group = SINGLE_BLOCK
        count = min(count, SINGLE_UNROLL) if problem.op.acc.nbytes > MAX_SINGLE_NBYTES else count
    else:
        group = rows.BLOCK
        chunk = _chunk(problem, num_units, num_rows, group * count)
    # A round that a thread's share of the row does not fill loads the last unit again and again.
    share = max(1, chunk // group)
    return group, min(count, 1 << (share.bit_length() - 1)), 0, chunk


def _power_of_two(count: int) -> int:
    """The least power of two that is not below `count`."""
    return 1 << max(0, count - 1).bit_length()


def _columns(problem: _Problem) -> _Pass:
    """Lanes along the last kept loop."""
    nest = problem.nest(kept_innermost=True)
    chain = problem.chain(nest)
    *outer, num_columns = problem.kept.shape
    vector = vector_width(problem.arrays, nest, takes_rest=False)
    count = unroll(chain, vector, NBYTES_IN_FLIGHT // (1 + problem.op.wants_index))  # indices take registers too
    num_rows = problem.reduced.size
    down = 1 if num_rows <= MAX_SERIAL else columns.NUM_WARPS
    num_tiles = -(-num_columns // (columns.WARP * vector * (columns.NUM_WARPS // down)))
    num_blocks = num_tiles * (problem.kept.size // num_columns)
    chunk = _chunk(problem, num_rows, num_blocks, down * count) if down > 1 else num_rows
    num_chunks = -(-num_rows // chunk)
    _, place = problem.target(num_chunks)
    spec = ColumnsSpec(**problem.spec(chain, num_chunks), down=down, vector=vector, unroll=count)
    bits = chain.index_bits
    split = (chunk, problem.kept.size, *Divisor.constants(num_chunks, bits))
    constants = (
        *chain.constants(nest_of_operands(chain, nest)),
        *place,
        num_columns,
        num_rows,
        *Divisor.constants(num_tiles, bits),
        *(split if num_chunks > 1 else ()),
        *Splitter.constants(tuple(outer) or (1,), bits),
        *Splitter.constants(problem.reduced.shape, bits),
    )
    return _Pass(columns, spec, (num_blocks * num_chunks, 1, 1), constants, num_chunks, problem.kept.size)


def _chunk(problem: _Problem, length: int, num_blocks: int, unroll_k: int) -> int:
    """Length of the chunks that give every multiprocessor its blocks; whole rounds, at least two."""
    wanted = BLOCKS_PER_SM * problem.num_sms // num_blocks
    if not problem.may_split or wanted <= 1:
        return length
    rounds = max(2, -(-length // (wanted * unroll_k)))
    return min(length, rounds * unroll_k)


def _fill(
    kept_shape: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    op: ReduceOp,
    output: Operand,
    device: Device,
) -> Plan:
    """Write the identity everywhere; the inputs' parameters are taken and not used."""

    def identity(k: Builder, *parameters: Value) -> Value:
        total = k.const(op.identity, op.acc)
        return k.cast(total if op.finish is None else op.finish(k, total, *parameters), output.type)

    unused = [ScalarOperand(u64) if isinstance(x, Operand) else x for x in inputs]
    instr = Instr(identity, output.type, tuple(range(len(unused) - op.num_parameters, len(unused))))
    return elementwise.plan(kept_shape, unused, [instr], [Output(len(unused), output)], device)
