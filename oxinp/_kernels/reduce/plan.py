"""Plans of reductions: the kernel family of a layout, and the second pass over partial results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.choice import MIN_TUNED_NBYTES, unrolled
from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.elementwise.chain import INDEX, Chain, Divisor, Splitter
from oxinp._kernels.elementwise.plan import (
    MAX_INDEX_32,
    classify,
    contiguous_strides,
    index_bits,
    unroll,
    vector_width,
)
from oxinp._kernels.elementwise.planner import Planner, operand_spec
from oxinp._kernels.nest import Nest, collapse, shifted_alignment
from oxinp._kernels.plan import SCRATCH, Argument, Launch, Plan, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.problem import Instr, Operand, Output, ScalarOperand, touched_nbytes
from oxinp._kernels.reduce import columns, rows
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.loops import (
    MAX_VECTOR,
    MIN_COLUMNS,
    ReduceLoops,
    column_loop,
    fold,
    kept_and_reduced,
    pair,
    without,
)
from oxinp._kernels.reduce.rows import RowsSpec
from oxinp._ptx.types import i32, pred, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Again, Grid
    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx import Builder, Kernel
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

NBYTES_IN_FLIGHT = 128  # of loads per thread: threads are fewer than in elementwise kernels
BLOCKS_PER_SM = 8  # blocks per multiprocessor that chunks are to give
MAX_SERIAL = 16  # rows up to which one thread reduces a column
UNITS_PER_LANE = 4  # in rows that a warp or a part of it reduces
MAX_ROWS_AT_ONCE = 4  # short rows that a warp, or a part of it, loads together (half as many of predicates)
MAX_UNITS_PER_LANE = 16  # in rows that a warp reduces where there are enough rows to fill the device
SINGLE_BLOCK = 1024  # threads of a block that reduces a whole row, where rows are fewer than multiprocessors
SINGLE_UNROLL, MAX_SINGLE_NBYTES = 2, 16  # 64 registers per thread hold two units of accumulators of more bytes
MAX_SINGLE_ROUNDS = 8  # iterations of such a block; longer rows are worth a second pass
MAX_KEPT = 1024  # layouts of contiguous arrays whose plans' constant parts a reduction keeps

OUT = Argument("out0")


class ReducePass(NamedTuple):
    """One launch before its kernel is built, and how many chunks of partial results it stores (1: the results)."""

    family: Any
    spec: RowsSpec | ColumnsSpec
    grid: Grid
    constants: tuple[int, ...]
    num_chunks: int
    chunk_length: int
    chunk: int = 0  # units


class Walk(NamedTuple):
    """How threads go through the elements, as far as it does not depend on sizes: the chain, elements, units."""

    chain: Chain
    vector: int
    unroll: int


class _Met(NamedTuple):
    """What `Reduction.line_again` keeps of operands that move alike.

    Attributes
    ----------
    walk : Walk
    kernels : dict
        By what of a Spec depends on the size.
    values, shifts : tuple of int
        Constants before those of the size, and what is added to each per element that a reversed loop begins later.
    """

    walk: Walk
    kernels: dict[tuple[int, int, int], Kernel]
    values: tuple[int, ...]
    shifts: tuple[int, ...]


class Reduction(Planner):
    """The reduction of one value of a chain, planned for any shape, axes and layouts.

    Sizes, strides and grids are arithmetic of each call; Specs and kernels are kept by how operands move.

    Parameters
    ----------
    inputs : sequence of (Type, bool)
        Of every input, and whether it is an array; the last ones may be parameters of `op`.
    instrs : sequence of Instr
    value : int
        Number of the value that is reduced.
    op : ReduceOp
    type : Type
        Of the results.
    mask : int or None
        Number of the value, a `pred`, that says which elements count.
    is_joining : bool
        The inputs are the partial results of another reduction, which are few.
    """

    __slots__ = ("_joining", "_met", "_nbytes", "_walks", "is_joining", "mask", "op", "taken", "type", "value")

    def __init__(
        self,
        inputs: Sequence[tuple[Type, bool]],
        instrs: Sequence[Instr],
        value: int,
        op: ReduceOp,
        type: Type,
        mask: int | None = None,
        *,
        is_joining: bool = False,
    ) -> None:
        super().__init__(inputs, instrs)
        self.value, self.op, self.type, self.mask, self.is_joining = value, op, type, mask, is_joining
        self.taken = inputs_of(len(self.inputs))
        self._nbytes = sum([type_.nbytes for type_ in self.types])
        self._joining: Reduction | None = None
        self._walks: dict[Any, Walk] = {}
        self._met: dict[Any, _Met] = {}

    @property
    def joining(self) -> Reduction:
        """The reduction of the partial results that the first pass stores."""
        if self._joining is None:
            op = self.op
            parameters = [(spec.type, False) for spec in self.inputs[len(self.inputs) - op.num_parameters :] if spec]
            self._joining = Reduction([(op.acc, True), *parameters], (), 0, op.joining(), self.type, is_joining=True)
            # It takes the last inputs, those that are parameters of `op`.
            self._joining.taken = inputs_of(op.num_parameters, len(self.inputs) - op.num_parameters)
        return self._joining

    def plan(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, device: Device
    ) -> Plan:
        """Return the plan for input arrays of a shape, reduced over some axes into an output; see `plan`."""
        if 0 in shape:
            kept_shape = without(shape, axes)
            return Plan(()) if 0 in kept_shape else self._fill(kept_shape, output, device)
        return self._planned(shape, axes, arrays, output, device, Planner.kernel) or Plan(())

    def plan_again(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, device: Device
    ) -> Plan | None:
        """Return what `plan` does if its kernels have been made for other sizes, so that it takes arithmetic alone."""
        return None if 0 in shape else self._planned(shape, axes, arrays, output, device, Planner.known_kernel)

    def line_again(self, size: int, steps: tuple[int, ...], alignments: tuple[int, ...], num_sms: int) -> Again | None:
        """Return the launch of the plan for arrays of one dimension, reduced to one element; None if there are two.

        It is what `_rows` returns for a single row, as far as its kernel has been made: with 32-bit indices and no
        measured Spec.
        """
        if self.wants_index or self.op.wants_index or not 1 < size < MAX_INDEX_32 or not steps:
            return None
        least = min(steps)
        if max(*steps, -least) * (size - 1) >= MAX_INDEX_32 or size * self._nbytes >= MIN_TUNED_NBYTES:
            return None
        last = 0
        if least < 0 and (steps[0] or next(step for step in steps if step)) < 0:  # see `_line`
            last = size - 1
            offsets = [step * last * type_.nbytes for step, type_ in zip(steps, self.types, strict=True)]
            alignments = tuple([min(a, x & -x) if x else a for a, x in zip(alignments, offsets, strict=True)])
            steps = tuple([-step for step in steps])
        met = self._met.get((steps, last != 0, alignments))
        if met is None:
            met = self._meet(steps, last != 0, alignments)
            if met is None:
                return None
        walk, kernels, own, shifts = met
        vector = walk.vector
        num_units = size // vector
        group, count, at_once, chunk = self._group_rows(1, num_units, walk.unroll, num_sms)
        if chunk < num_units:
            return None
        kernel = kernels.get((group, count, at_once))
        if kernel is None:
            spec = self._spec(RowsSpec, walk.chain, 1, 1, group, vector, count, at_once)
            kernel = self._kernels.get(spec)
            if kernel is None:
                return None
            kernels[group, count, at_once] = kernel
        if shifts:
            own = tuple([value + shift * last for value, shift in zip(own, shifts, strict=True)])
        return kernel, (1, 1, 1), (*own, 1, 0, 1, num_units, size - num_units * vector)

    def _meet(self, steps: tuple[int, ...], is_shifted: bool, alignments: tuple[int, ...]) -> _Met | None:
        """Find what `line_again` needs of operands that move like this, whatever their size."""
        kinds = tuple([step if 0 <= step <= 1 else 2 for step in steps])
        walk = self._walks.get((kinds, is_shifted, False, alignments))
        if walk is None:
            return None
        values: list[int] = []
        shifts: list[int] = []
        for (loops, has_shift), step in zip(walk.chain.moves, steps, strict=True):
            values += [step if loop else 1 for loop in loops]
            shifts += [0] * len(loops)
            if has_shift:
                values.append(0)
                shifts.append(-step)
        if len(self._met) >= MAX_KEPT:
            self._met.clear()
        met = _Met(walk, {}, tuple(values), tuple(shifts) if any(shifts) else ())
        self._met[steps, is_shifted, alignments] = met
        return met

    def _planned(
        self,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        arrays: Sequence[Operand],
        output: Operand,
        device: Device,
        kernel_of: Callable[[Reduction, Any, Any], Kernel | None],
    ) -> Plan | None:
        kept_shape = without(shape, axes)
        passes = self.passes(shape, axes, arrays, output, device)
        first = passes[0]
        nbytes = touched_nbytes(shape, arrays)
        kernel = kernel_of(self, first.family, first.spec)
        if kernel is None:
            return None
        written = touched_nbytes(kept_shape, (output,))
        if len(passes) == 1:
            work = Work(0, nbytes + written)
            return Plan((Launch(kernel, first.grid, (OUT, *self.taken), first.constants, work),), 0)
        joining, second = self.joining, passes[1]
        scratch_nbytes = first.num_chunks * first.chunk_length * self.op.acc.nbytes
        works = Work(0, nbytes + scratch_nbytes), Work(0, scratch_nbytes + written)
        joined = kernel_of(joining, second.family, second.spec)
        if joined is None:
            return None
        return Plan(
            (
                Launch(kernel, first.grid, (OUT, SCRATCH, *self.taken), first.constants, works[0]),
                Launch(joined, second.grid, (OUT, SCRATCH, *joining.taken), second.constants, works[1]),
            ),
            scratch_nbytes,
        )

    def passes(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, device: Device
    ) -> list[ReducePass]:
        """Return the passes of `plan`: those of `choose`, with the sizes that were measured to be best."""
        first, *rest = self.choose(shape, axes, arrays, output, device.num_sms)
        if touched_nbytes(shape, arrays) >= MIN_TUNED_NBYTES:
            first = _measured(first, math.prod(without(shape, axes)), math.prod(shape), device)
        return [first, *rest]

    def choose(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, num_sms: int
    ) -> list[ReducePass]:
        """Return the one or two passes of a reduction of at least one element to at least one result."""
        partial_shape = kept_shape = without(shape, axes)
        partial_axes: tuple[int, ...] = (0,)
        first = None
        num_folded = fold(shape, arrays) if axes == (0,) and len(shape) == 2 and not self.op.wants_index else 1
        if num_folded > 1:
            length, width = shape
            partial_shape, partial_axes = (num_folded, width), (0, 1)
            moved = (num_folded * width, width, 1)
            folded = [x.replace(strides=moved if any(x.strides) else (0, 0, 0)) for x in arrays]
            target = output.replace(strides=(width, 1))
            first = self._pass((length // num_folded, num_folded, width), (0,), folded, target, num_sms)
        if first is None or first.num_chunks == 1:
            partial_shape, partial_axes = kept_shape, (0,)
            first = self._pass(shape, axes, arrays, output, num_sms)
        if first.num_chunks == 1:
            return [first]
        # Partial results lie by chunk, then in C order of the kept dimensions.
        shape = (first.num_chunks, *partial_shape)
        partial = Operand(self.op.acc, contiguous_strides(shape))
        return [first, self.joining._pass(shape, partial_axes, (partial,), output, num_sms)]

    def _pass(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, num_sms: int
    ) -> ReducePass:
        has_line = arrays and not (self.wants_index or self.op.wants_index)
        if has_line and axes == (0,) and len(shape) == 1 < shape[0]:
            return self._rows(*self._line(shape[0], tuple([x.strides[0] for x in arrays]), arrays), num_sms)
        dense = contiguous_strides(shape)
        for x in arrays:
            if x.strides != dense:
                break
        else:
            parts = kept_and_reduced(shape, axes)
            if parts is not None and has_line and parts[0] == 1 < parts[1]:
                return self._rows(*self._line(parts[1], (1,) * len(arrays), arrays), num_sms)
            kept_shape = without(shape, axes)
            is_vector = len(kept_shape) == 1
            if parts is not None and output.strides == ((1,) if is_vector else contiguous_strides(kept_shape)):
                found = self._contiguous(*parts, arrays)
                if found is not None:
                    return self._columns(*found, num_sms) if parts[2] else self._rows(*found, num_sms)
        is_pair = has_line and len(axes) == 1 and len(shape) == 2
        two = pair((shape[0], shape[1]), axes[0], arrays, output) if is_pair else None
        if two is not None:
            loops, is_kept_innermost, key = two
            walk = self._walks.get(key)
            if walk is None:
                walk = self._keep_walk(key, self._walk(loops, arrays, kept_innermost=is_kept_innermost))
            return (self._columns if is_kept_innermost else self._rows)(loops, walk, num_sms)
        loops = self._collapse(shape, axes, arrays, output)
        loop = column_loop(loops, arrays)
        if loop is None:
            return self._rows(loops, self._walk(loops, arrays, kept_innermost=False), num_sms)
        kept = loops.kept
        loops = ReduceLoops(kept.reordered([*(d for d in range(len(kept.shape)) if d != loop), loop]), loops.reduced)
        return self._columns(loops, self._walk(loops, arrays, kept_innermost=True), num_sms)

    def _line(self, size: int, steps: tuple[int, ...], arrays: Sequence[Operand]) -> tuple[ReduceLoops, Walk]:
        """The loops of arrays of one dimension that are reduced to one element, and how threads go through them."""
        # As `_collapse` returns them: the loop goes the way of the first array that moves.
        count = len(steps)
        shifts = (0,) * count
        alignments = tuple([x.alignment for x in arrays])
        if min(steps) < 0 and next(step for step in steps if step) < 0:
            shifts = tuple([step * (size - 1) for step in steps])
            steps = tuple([-step for step in steps])
            alignments = tuple([shifted_alignment(x, shift) for x, shift in zip(arrays, shifts, strict=True)])
        kept = Nest((1,), ((1,),) * (count + 2), (0,) * (count + 2))
        loops = ReduceLoops(kept, Nest((size,), tuple([(step,) for step in steps]), shifts))
        is_long = size >= MAX_INDEX_32 or max(*steps, -min(steps)) * (size - 1) >= MAX_INDEX_32
        key = (tuple([step if 0 <= step <= 1 else 2 for step in steps]), any(shifts), is_long, alignments)
        walk = self._walks.get(key)
        if walk is None:
            walk = self._keep_walk(key, self._walk(loops, arrays, kept_innermost=False))
        return loops, walk

    def _keep_walk(self, key: Any, walk: Walk) -> Walk:
        if len(self._walks) >= MAX_KEPT:
            self._walks.clear()
        self._walks[key] = walk
        return walk

    def _contiguous(
        self, num_kept: int, length: int, is_first: bool, arrays: Sequence[Operand]
    ) -> tuple[ReduceLoops, Walk] | None:
        """The loops of contiguous arrays, and how threads go through them; None where `_collapse` has to decide.

        `num_kept` rows, or columns if the first axes are reduced (`is_first`), of `length` elements are reduced.
        """
        if length == 1 or (is_first and (num_kept < MIN_COLUMNS or not arrays)):
            return None
        # As `_collapse` returns them.
        count, wants_index = len(arrays) + self.wants_index, self.op.wants_index
        step, along = (1, num_kept) if is_first else (length, 1)
        own = ((step if num_kept > 1 else 1,),) * count
        index = ((0 if num_kept > 1 else 1,),) * wants_index
        kept = Nest((num_kept,), (*own, *index, (1,), (1,)), (0,) * (count + wants_index + 2))
        reduced = Nest((length,), (((along,),) * count + ((1,),) * wants_index), (0,) * (count + wants_index))
        loops = ReduceLoops(kept, reduced)
        # Of the extents, only the elements per load depend.
        pitch = num_kept if is_first else length if num_kept > 1 else 0
        is_long = num_kept * length >= MAX_INDEX_32
        key = (is_first, pitch % MAX_VECTOR, is_long, *[x.alignment for x in arrays])
        walk = self._walks.get(key)
        if walk is None:
            walk = self._keep_walk(key, self._walk(loops, arrays, kept_innermost=is_first))
        return loops, walk

    def _collapse(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand
    ) -> ReduceLoops:
        strides = [array.strides for array in arrays]
        if self.wants_index:
            strides.append(contiguous_strides(shape))
        if self.op.wants_index:
            steps = dict(zip(sorted(axes), contiguous_strides([shape[d] for d in sorted(axes)]), strict=True))
            strides.append(tuple([steps.get(d, 0) for d in range(len(shape))]))
        kept_dims = [d for d in range(len(shape)) if d not in axes]
        kept_shape = [shape[d] for d in kept_dims]
        kept_strides = [[s[d] for d in kept_dims] for s in strides]
        kept = collapse(kept_shape, [*kept_strides, output.strides, contiguous_strides(kept_shape)])
        return ReduceLoops(kept, collapse([shape[d] for d in axes], [[s[d] for d in axes] for s in strides]))

    def _walk(self, loops: ReduceLoops, arrays: Sequence[Operand], *, kept_innermost: bool) -> Walk:
        op, nest = self.op, loops.nest(kept_innermost=kept_innermost)
        specs = classify(arrays, nest)
        bits = max(index_bits(nest), index_bits(loops.kept))
        if op.wants_index and bits == 32:
            specs[-1] = operand_spec(i32, INDEX, specs[-1].is_shifted)
        chain = self.chain(specs, len(nest.shape), bits)
        if kept_innermost:
            vector = vector_width(arrays, nest, takes_rest=False)
            nbytes = NBYTES_IN_FLIGHT // (1 + op.wants_index)  # indices take registers too
            return Walk(chain, vector, unroll(chain, vector, nbytes))
        vector = vector_width(arrays, nest, takes_rest=len(loops.reduced.shape) == 1, limit=MAX_VECTOR)
        return Walk(chain, vector, min(unroll(chain, vector, NBYTES_IN_FLIGHT), op.batch // vector))

    def _rows(self, loops: ReduceLoops, walk: Walk, num_sms: int) -> ReducePass:
        """The pass whose lanes go along the reduced loops."""
        (kept, reduced), (chain, vector, _) = loops, walk
        num_rows, length = math.prod(kept.shape), math.prod(reduced.shape)
        num_units = length // vector
        group, count, at_once, chunk = self._group_rows(num_rows, num_units, walk.unroll, num_sms)
        num_chunks = -(-num_units // max(chunk, 1)) or 1
        spec = self._spec(RowsSpec, chain, len(kept.shape), num_chunks, group, vector, count, at_once)
        bits = chain.index_bits
        *outer, inner = reduced.shape
        constants = (
            *self._places(chain, loops.nest(kept_innermost=False), kept, num_chunks),
            num_rows,
            num_units,
            length - num_units * vector,
            *((chunk, *Divisor.constants(num_chunks, bits)) if num_chunks > 1 else ()),
            *(Splitter.constants(kept.shape, bits) if len(kept.shape) > 1 else ()),
            *(Splitter.constants((*outer, inner // vector), bits) if outer else ()),
        )
        per_block = max(1, at_once) * spec.block // group
        num_blocks = -(-num_rows // per_block) * num_chunks
        return ReducePass(rows, spec, (num_blocks, 1, 1), constants, num_chunks, num_rows, chunk)

    def _group_rows(self, num_rows: int, num_units: int, count: int, num_sms: int) -> tuple[int, int, int, int]:
        """Threads per row, units that a thread loads before it uses the first, rows at once, units of a chunk."""
        if 0 < num_units <= rows.WARP * UNITS_PER_LANE:
            group = _power_of_two(-(-num_units // UNITS_PER_LANE))
            own = _power_of_two(-(-num_units // group))
            most = MAX_ROWS_AT_ONCE // 2 if pred in self.types else MAX_ROWS_AT_ONCE
            return group, own, min(most, max(1, count // own)), num_units
        chunk = num_units
        if num_units <= rows.WARP * MAX_UNITS_PER_LANE and num_rows >= num_sms * rows.BLOCK:
            group = rows.WARP
        elif num_rows < num_sms and num_units <= SINGLE_BLOCK * count * MAX_SINGLE_ROUNDS:
            group = SINGLE_BLOCK
            count = min(count, SINGLE_UNROLL) if self.op.acc.nbytes > MAX_SINGLE_NBYTES else count
        else:
            group = rows.BLOCK
            chunk = self._chunk(num_units, num_rows, group * count, num_sms)
        # Where a thread has fewer units than it loads at once, it loads the last one repeatedly.
        share = max(1, chunk // group)
        return group, min(count, 1 << (share.bit_length() - 1)), 0, chunk

    def _columns(self, loops: ReduceLoops, walk: Walk, num_sms: int) -> ReducePass:
        """The pass whose lanes go along the last kept loop."""
        (kept, reduced), (chain, vector, count) = loops, walk
        num_rows, num_kept = math.prod(reduced.shape), math.prod(kept.shape)
        *outer, num_columns = kept.shape
        down = 1 if num_rows <= MAX_SERIAL else columns.NUM_WARPS
        num_tiles = -(-num_columns // (columns.WARP * vector * (columns.NUM_WARPS // down)))
        num_blocks = num_tiles * (num_kept // num_columns)
        chunk = self._chunk(num_rows, num_blocks, down * count, num_sms) if down > 1 else num_rows
        num_chunks = -(-num_rows // chunk)
        spec = self._spec(ColumnsSpec, chain, len(kept.shape), num_chunks, down, vector, count)
        bits = chain.index_bits
        constants = (
            *self._places(chain, loops.nest(kept_innermost=True), kept, num_chunks),
            num_columns,
            num_rows,
            *Divisor.constants(num_tiles, bits),
            *((chunk, num_kept, *Divisor.constants(num_chunks, bits)) if num_chunks > 1 else ()),
            *(Splitter.constants(outer, bits) if len(outer) > 1 else ()),
            *(Splitter.constants(reduced.shape, bits) if len(reduced.shape) > 1 else ()),
        )
        return ReducePass(columns, spec, (num_blocks * num_chunks, 1, 1), constants, num_chunks, num_kept)

    def _chunk(self, length: int, num_blocks: int, unroll_k: int, num_sms: int) -> int:
        """Length of the chunks that give every multiprocessor its blocks; whole iterations, at least two."""
        wanted = BLOCKS_PER_SM * num_sms // num_blocks
        if self.is_joining or wanted <= 1:
            return length
        rounds = max(2, -(-length // (wanted * unroll_k)))
        return min(length, rounds * unroll_k)

    def _spec(self, kind: Any, chain: Chain, num_kept: int, num_chunks: int, *fields: int) -> Any:
        """The Spec of a family; partial results are accumulators."""
        is_split = num_chunks > 1
        type_ = self.op.acc if is_split else self.type
        return self.spec(kind, chain, self.value, self.mask, self.op, num_kept, type_, is_split, *fields)

    @staticmethod
    def _places(chain: Chain, nest: Nest, kept: Nest, num_chunks: int) -> tuple[int, ...]:
        """Strides and shifts of the chain's operands, then of the output or the scratch buffer."""
        i = -1 if num_chunks > 1 else -2
        return (*chain.constants(nest), *kept.strides[i], kept.shifts[i])

    def _fill(self, kept_shape: tuple[int, ...], output: Operand, device: Device) -> Plan:
        """The plan that stores the identity everywhere; inputs are parameters of the kernel and not used."""
        op, type_ = self.op, self.type

        def identity(k: Builder, *parameters: Value) -> Value:
            total = k.const(op.identity, op.acc)
            return k.cast(total if op.finish is None else op.finish(k, total, *parameters), type_)

        unused = [ScalarOperand(u64 if spec is None else spec.type) for spec in self.inputs]
        instr = Instr(identity, type_, tuple(range(len(unused) - op.num_parameters, len(unused))))
        return elementwise.plan(kept_shape, unused, [instr], [Output(len(unused), output)], device)


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
        One launch, or two: the first stores partial results in the scratch buffer, the second reduces them.

    Notes
    -----
    Layout, sizes and `device.num_sms` fix the order of combination: the same call gives the same bits. Accumulators of
    compensated operators do not round, so the error is that of the trees within threads: about 20 roundings, whatever
    the size.
    """
    reduction = Reduction([(x.type, isinstance(x, Operand)) for x in inputs], instrs, value, op, output.type, mask)
    return reduction.plan(shape, axes, [x for x in inputs if isinstance(x, Operand)], output, device)


def choose(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
) -> list[ReducePass]:
    """Return the one or two passes of a reduction of at least one element to at least one result."""
    reduction = Reduction([(x.type, isinstance(x, Operand)) for x in inputs], instrs, value, op, output.type)
    return reduction.choose(shape, axes, [x for x in inputs if isinstance(x, Operand)], output, device.num_sms)


def _measured(first: ReducePass, num_kept: int, size: int, device: Device) -> ReducePass:
    """The pass, with the sizes that were measured to be best near this problem."""
    spec = first.spec
    if isinstance(spec, RowsSpec) and spec.at_once:
        return first  # rows are too short to leave a choice
    family, group = ("rows", spec.group) if isinstance(spec, RowsSpec) else ("columns", spec.down)
    key = (spec.op.name, spec.op.acc.name, spec.chain.kinds[0])
    layout = (f"{spec.chain.ndim} loops", f"{spec.vector} elements", f"{group} threads")
    most = max(spec.unroll, spec.op.batch // spec.vector)
    measured = unrolled(spec, f"reduce/{family}", key, layout, (num_kept, size // num_kept), most, device)
    return first._replace(spec=measured)


def _power_of_two(count: int) -> int:
    """The least power of two that is not below `count`."""
    return 1 << max(0, count - 1).bit_length()
