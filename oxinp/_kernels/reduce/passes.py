"""Passes of reductions: how threads go through the elements of a layout, the Specs of kernels, grids and constants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from oxinp._kernels.elementwise.access import (
    classify,
    contiguous_strides,
    index_bits,
    unroll,
    vector_width,
)
from oxinp._kernels.elementwise.chain import INDEX, Chain, Divisor, Splitter
from oxinp._kernels.elementwise.planner import Planner, operand_spec
from oxinp._kernels.nest import MAX_INDEX_32, Nest, collapse, shifted_alignment
from oxinp._kernels.plan import NUM_FLAGS
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.problem import MIN_COLUMNS, Instr, Operand
from oxinp._kernels.reduce import columns, rows
from oxinp._kernels.reduce.columns import ColumnsSpec
from oxinp._kernels.reduce.loops import (
    MAX_VECTOR,
    ReduceLoops,
    column_loop,
    fold,
    kept_and_reduced,
    pair,
    without,
)
from oxinp._kernels.reduce.rows import RowsSpec
from oxinp._ptx.types import i32, pred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.plan import Grid
    from oxinp._kernels.problem import ReduceOp
    from oxinp._ptx.types import Type

NBYTES_IN_FLIGHT = 128  # of loads per thread: threads are fewer than in elementwise kernels
BLOCKS_PER_SM = 8  # blocks per multiprocessor that chunks are to give
MAX_SERIAL = 16  # rows up to which one thread reduces a column
UNITS_PER_LANE = 4  # in rows that a warp or a part of it reduces
MAX_ROWS_AT_ONCE = 4  # short rows that a warp, or a part of it, loads together (half as many of predicates)
MAX_UNITS_PER_LANE = 16  # in rows that a warp reduces where there are enough rows to fill the device
SINGLE_BLOCK = 1024  # threads of a block that reduces a whole row, where rows are fewer than multiprocessors
SINGLE_UNROLL, MAX_SINGLE_NBYTES = 2, 16  # 64 registers per thread hold two units of accumulators of more bytes
MAX_SINGLE_ROUNDS = 8  # iterations of such a block; longer rows are worth a second pass
MAX_COLUMN_ROUNDS = 8  # iterations of a block down the rows of its columns; more are worth a second pass
MAX_KEPT = 1024  # layouts of contiguous arrays whose plans' constant parts a reduction keeps


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
    """How threads go through the elements, as far as it does not depend on sizes.

    Attributes
    ----------
    chain : Chain
    vector : int
        Elements of a unit.
    unroll : int
        Units that a thread loads before it uses the first.
    kernels : dict
        Those that have been made, by what else of their Specs depends on sizes; of vectors
        each with its Spec and the choice that this leaves, see `unrolling`.
    """

    chain: Chain
    vector: int
    unroll: int
    kernels: dict[tuple[int, ...], Any]


def key_of_all(shape: tuple[int, ...], steps: tuple[tuple[int, ...], ...], alignments: tuple[int, ...]) -> Any:
    """Return what the walk through arrays that are reduced to one element, and go forward, is kept by.

    None where their dimensions are not one loop, or two in their order.
    """
    if len(shape) == 1:  # as `_line` has it
        return tuple([min(step, 2) for (step,) in steps]), False, False, alignments
    if len(shape) != 2:
        return None
    outer, inner = zip(*steps, strict=True)
    if outer < inner or outer == tuple([step * shape[1] for step in inner]):  # see `collapse`
        return None
    pitches = [step % MAX_VECTOR or (step and MAX_VECTOR) for step in outer]
    return ("all", shape[1] % MAX_VECTOR, *[min(step, 2) for step in inner], *pitches, *alignments)


class Passes(Planner):
    """The passes of the reduction of one value of a chain, for any shape, axes and layouts.

    Sizes, strides and grids are arithmetic of each call; Specs are kept by how operands move.

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
    has_flags : bool
        Kernels may use the flags, so that one launch does what would take two: what runs beside it uses none.

    Attributes
    ----------
    nbytes : int
        Of an element of each array.
    """

    __slots__ = ("_joining", "_walks", "has_flags", "is_joining", "mask", "nbytes", "op", "taken", "type", "value")

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
        has_flags: bool = False,
    ) -> None:
        super().__init__(inputs, instrs)
        self.has_flags = has_flags
        self.value, self.op, self.type, self.mask, self.is_joining = value, op, type, mask, is_joining
        self.taken = inputs_of(len(self.inputs))
        self.nbytes = sum([type_.nbytes for type_ in self.types])
        self._joining: Self | None = None
        self._walks: dict[Any, Walk] = {}

    @property
    def joining(self) -> Self:
        """The reduction of the partial results that the first pass stores."""
        if self._joining is None:
            op = self.op
            parameters = [(spec.type, False) for spec in self.inputs[len(self.inputs) - op.num_parameters :] if spec]
            self._joining = type(self)([(op.acc, True), *parameters], (), 0, op.joining(), self.type, is_joining=True)
            # It takes the last inputs, those that are parameters of `op`.
            self._joining.taken = inputs_of(op.num_parameters, len(self.inputs) - op.num_parameters)
        return self._joining

    def choose(
        self, shape: tuple[int, ...], axes: tuple[int, ...], arrays: Sequence[Operand], output: Operand, num_sms: int
    ) -> list[ReducePass]:
        """Return the one or two passes of a reduction of at least one element to at least one result."""
        kept_shape, first = without(shape, axes), None
        num_folded = fold(shape, arrays) if axes == (0,) and len(shape) == 2 and not self.op.wants_index else 1
        if num_folded > 1:
            length, width = shape
            moved = (num_folded * width, width, 1)
            folded = [x.replace(strides=moved if any(x.strides) else (0, 0, 0)) for x in arrays]
            target = output.replace(strides=(width, 1))
            first = self._pass((length // num_folded, num_folded, width), (0,), folded, target, num_sms, may_join=False)
        if first is None or first.num_chunks == 1:
            num_folded = 1
            first = self._pass(shape, axes, arrays, output, num_sms)
        if first.num_chunks == 1 or first.spec.joins:
            return [first]
        # Partial results lie by chunk, then by folded row, then in C order of the kept dimensions.
        shape = (first.num_chunks * num_folded, *kept_shape)
        partial = Operand(self.op.acc, contiguous_strides(shape))
        return [first, self.joining._pass(shape, (0,), (partial,), output, num_sms)]

    def _pass(
        self,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        arrays: Sequence[Operand],
        output: Operand,
        num_sms: int,
        *,
        may_join: bool = True,
    ) -> ReducePass:
        """Return the first pass; its results are not those of the reduction unless it may join chunks itself."""
        is_indexed = self.op.wants_index
        has_line = arrays and not self.wants_index
        is_line = has_line and axes == (0,) and len(shape) == 1 < shape[0]
        if is_line and not (is_indexed and min([x.strides[0] for x in arrays]) < 0):
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
                    return self._columns(*found, num_sms, may_join) if parts[2] else self._rows(*found, num_sms)
        is_pair = has_line and len(axes) == 1 and len(shape) == 2 and not is_indexed
        two = pair((shape[0], shape[1]), axes[0], arrays, output) if is_pair else None
        if two is not None:
            loops, is_kept_innermost, key = two
            walk = self._walks.get(key)
            if walk is None:
                walk = self._keep_walk(key, self._walk(loops, arrays, kept_innermost=is_kept_innermost))
            return (
                self._columns(loops, walk, num_sms, may_join) if is_kept_innermost else self._rows(loops, walk, num_sms)
            )
        loops = self._collapse(shape, axes, arrays, output)
        loop = column_loop(loops, arrays)
        if loop is None:
            walk = self._walk(loops, arrays, kept_innermost=False)
            steps, (extents, moves, _) = tuple([x.strides for x in arrays]), loops.reduced
            if has_line and not is_indexed and extents == shape and moves == steps and walk.chain.index_bits == 32:
                key = key_of_all(shape, steps, tuple([x.alignment for x in arrays]))
                walk = walk if key is None else self._keep_walk(key, walk)
            return self._rows(loops, walk, num_sms)
        kept = loops.kept
        loops = ReduceLoops(kept.reordered([*(d for d in range(len(kept.shape)) if d != loop), loop]), loops.reduced)
        return self._columns(loops, self._walk(loops, arrays, kept_innermost=True), num_sms, may_join)

    def _line(self, size: int, steps: tuple[int, ...], arrays: Sequence[Operand]) -> tuple[ReduceLoops, Walk]:
        """The loops of arrays of one dimension that are reduced to one element, and how threads go through them.

        None of them goes backwards where places of elements are told apart.
        """
        # As `_collapse` returns them: the loop goes the way of the first array that moves.
        index = (1,) * self.op.wants_index
        count = len(steps) + len(index)
        shifts = (0,) * count
        alignments = tuple([x.alignment for x in arrays])
        if min(steps) < 0 and next(step for step in steps if step) < 0:
            shifts = tuple([step * (size - 1) for step in steps])
            steps = tuple([-step for step in steps])
            alignments = tuple([shifted_alignment(x, shift) for x, shift in zip(arrays, shifts, strict=True)])
        kept = Nest((1,), ((1,),) * (count + 2), (0,) * (count + 2))
        loops = ReduceLoops(kept, Nest((size,), tuple([(step,) for step in (*steps, *index)]), shifts))
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
            return Walk(chain, vector, unroll(chain, vector, nbytes), {})
        vector = vector_width(arrays, nest, takes_rest=len(loops.reduced.shape) == 1, limit=MAX_VECTOR)
        return Walk(chain, vector, min(unroll(chain, vector, NBYTES_IN_FLIGHT), op.batch // vector), {})

    def _rows(self, loops: ReduceLoops, walk: Walk, num_sms: int) -> ReducePass:
        """The pass whose lanes go along the reduced loops."""
        (kept, reduced), (chain, vector, *_) = loops, walk
        num_rows, length = math.prod(kept.shape), math.prod(reduced.shape)
        num_units = length // vector
        group, count, at_once, chunk = self.group_rows(num_rows, num_units, walk.unroll, num_sms)
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

    def group_rows(self, num_rows: int, num_units: int, count: int, num_sms: int) -> tuple[int, int, int, int]:
        """Threads per row, units that a thread loads before it uses the first, rows at once, units of a chunk."""
        if 0 < num_units <= rows.WARP * UNITS_PER_LANE:
            group = 1 << (-(-num_units // UNITS_PER_LANE) - 1).bit_length()  # the least powers of two, not below those
            own = 1 << (-(-num_units // group) - 1).bit_length()
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

    def _columns(self, loops: ReduceLoops, walk: Walk, num_sms: int, may_join: bool) -> ReducePass:
        """The pass whose lanes go along the last kept loop."""
        (kept, reduced), (chain, vector, count, _) = loops, walk
        num_rows, num_kept = math.prod(reduced.shape), math.prod(kept.shape)
        *outer, num_columns = kept.shape
        down, num_tiles, num_blocks, chunk = self._tiles(num_rows, num_columns, num_kept // num_columns, walk, num_sms)
        num_chunks = -(-num_rows // chunk)
        joins = may_join and self._joins(num_chunks, num_tiles) and not outer
        spec = self._spec(ColumnsSpec, chain, len(kept.shape), num_chunks, down, vector, count, joins=joins)
        bits = chain.index_bits
        constants = (
            *self._places(chain, loops.nest(kept_innermost=True), kept, 1 if joins else num_chunks),
            num_columns,
            num_rows,
            *Divisor.constants(num_tiles, bits),
            *((chunk, num_kept, *Divisor.constants(num_chunks, bits)) if num_chunks > 1 else ()),
            *(Splitter.constants(outer, bits) if len(outer) > 1 else ()),
            *(Splitter.constants(reduced.shape, bits) if len(reduced.shape) > 1 else ()),
        )
        return ReducePass(columns, spec, (num_blocks * num_chunks, 1, 1), constants, num_chunks, num_kept)

    def _tiles(
        self, num_rows: int, num_columns: int, count: int, walk: Walk, num_sms: int
    ) -> tuple[int, int, int, int]:
        """Warps down the rows of a tile, tiles along the columns, tiles of `count` matrices, rows of a chunk."""
        down = 1 if num_rows <= MAX_SERIAL else columns.NUM_WARPS
        num_tiles = -(-num_columns // (columns.WARP * walk.vector * (columns.NUM_WARPS // down)))
        num_blocks = num_tiles * count
        step = down * walk.unroll
        is_whole = down == 1 or num_rows <= MAX_COLUMN_ROUNDS * step
        chunk = num_rows if is_whole else self._chunk(num_rows, num_blocks, step, num_sms)
        return down, num_tiles, num_blocks, chunk

    def _chunk(self, length: int, num_blocks: int, unroll_k: int, num_sms: int) -> int:
        """Length of the chunks that give every multiprocessor its blocks; whole iterations, at least two."""
        wanted = BLOCKS_PER_SM * num_sms // num_blocks
        if self.is_joining or wanted <= 1:
            return length
        rounds = max(2, -(-length // (wanted * unroll_k)))
        return min(length, rounds * unroll_k)

    def _joins(self, num_chunks: int, num_tiles: int) -> bool:
        """Whether the blocks of each tile of columns combine its chunks, which takes a flag for each."""
        return self.has_flags and num_chunks > 1 and num_tiles <= NUM_FLAGS

    def _spec(
        self, kind: Any, chain: Chain, num_kept: int, num_chunks: int, *fields: int, joins: bool | None = None
    ) -> Any:
        """The Spec of a family; partial results are accumulators."""
        is_split = num_chunks > 1
        type_ = self.op.acc if is_split and not joins else self.type
        own = fields if joins is None else (*fields, joins)
        return self.spec(kind, chain, self.value, self.mask, self.op, num_kept, type_, is_split, *own)

    @staticmethod
    def _places(chain: Chain, nest: Nest, kept: Nest, num_chunks: int) -> tuple[int, ...]:
        """Strides and shifts of the chain's operands, then of the output or the scratch buffer."""
        i = -1 if num_chunks > 1 else -2
        return (*chain.constants(nest), *kept.strides[i], kept.shifts[i])
