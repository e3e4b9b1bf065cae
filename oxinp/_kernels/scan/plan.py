"""Plans of scans: the kernel family of a layout, and how it is cut.

A scan is what `numpy.ufunc.accumulate` computes: every element combined with all elements before it along one axis.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.elementwise.access import (
    classify,
    contiguous_strides,
    index_bits,
    unroll,
    vector_width,
)
from oxinp._kernels.elementwise.chain import Chain, Divisor, OperandSpec, Splitter
from oxinp._kernels.elementwise.planner import Planner
from oxinp._kernels.nest import Nest, collapse
from oxinp._kernels.plan import ALIGNMENT, MARKS, MARKS_NBYTES, Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.problem import Operand, touched_nbytes
from oxinp._kernels.scan import ahead as scan_ahead
from oxinp._kernels.scan import chained as scan_chained
from oxinp._kernels.scan import chained_columns
from oxinp._kernels.scan import columns as scan_columns
from oxinp._kernels.scan import rows as scan_rows
from oxinp._kernels.scan.ahead import ScanAheadSpec
from oxinp._kernels.scan.chained import ScanChainedSpec
from oxinp._kernels.scan.chained_columns import ScanChainedColumnsSpec
from oxinp._kernels.scan.columns import ScanColumnsSpec
from oxinp._kernels.scan.kernel import CHAINED, WHOLE, ScanSpec
from oxinp._kernels.scan.rows import ScanRowsSpec
from oxinp._kernels.scan.totals import FAN, num_words
from oxinp._ptx.types import u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Grid
    from oxinp._kernels.problem import Instr, ReduceOp, ScalarOperand
    from oxinp._ptx.types import Type

NBYTES_IN_FLIGHT = 64  # of loads per thread, of columns
BLOCKS_PER_SM = 8  # blocks that scan a whole row each, and fill the device
TILE_NBYTES = 32768  # of elements, and of results that are wider than elements
MAX_ITEMS = 31
AHEAD_FROM = (9, 0)  # compute capability: of L2 caches that keep tiles until they are scanned
LAG = 3  # tiles per multiprocessor that are added up before one is scanned
MIN_LAGS = 4  # of so many times as many tiles
WARPS_PER_SM = 64  # warps per multiprocessor that scan a column each
MIN_COLUMNS = 32  # extent of a kept loop from which lanes go along it
MAX_SERIAL = 16  # elements up to which a thread scans rows alone
MIN_CHAINED_ROWS = 64  # of columns that several warps scan
MAX_VALUE_NBYTES = 128  # of a thread, of columns that several blocks scan
MAX_ACCUMULATOR_BITS = 128  # of a thread's columns, where it has several
UNITS_PER_LANE = 16  # in rows that a warp scans

OUT = Argument("out0")


class ScanPass(NamedTuple):
    """One launch before its kernel is built, and how many entries of each level blocks leave for each other."""

    family: Any
    spec: ScanRowsSpec | ScanChainedSpec | ScanColumnsSpec | ScanChainedColumnsSpec
    grid: Grid
    constants: tuple[int, ...]
    num_entries: tuple[int, ...] = ()


class ScanLoops(NamedTuple):
    """The loops of a scan, the kept ones collapsed; operands are the output, the input arrays, maybe the index."""

    kept: Nest
    steps: tuple[int, ...]
    length: int

    def nest(self, *, kept_innermost: bool) -> Nest:
        """The scanned loop inside the kept ones, or before the last of them."""
        kept = self.kept
        outer = len(kept.shape) - kept_innermost
        strides = [(*s[:outer], step, *s[outer:]) for s, step in zip(kept.strides, self.steps, strict=True)]
        return Nest((*kept.shape[:outer], self.length, *kept.shape[outer:]), tuple(strides), kept.shifts)


class Scan(Planner):
    """The scan of one value of a chain, planned for any shape, axis and layouts.

    Sizes, strides and grids are arithmetic of each call; Specs and kernels are kept by how operands move.

    Parameters
    ----------
    inputs : sequence of (Type, bool)
        Of every input, and whether it is an array.
    instrs : sequence of Instr
    value : int
        Number of the value that is scanned.
    op : ReduceOp
        Without parameters; its identity combines exactly to the other accumulator.
    """

    __slots__ = ("op", "taken", "value")

    def __init__(self, inputs: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], value: int, op: ReduceOp) -> None:
        super().__init__(inputs, instrs)
        self.value, self.op = value, op
        self.taken = inputs_of(len(self.inputs))

    def plan(
        self, shape: tuple[int, ...], axis: int, arrays: Sequence[Operand], output: Operand, device: Device
    ) -> Plan:
        """Return the plan for input arrays of a shape, scanned along an axis into an output; see `plan`."""
        if 0 in shape:
            return Plan(())
        only = self.choose(shape, axis, arrays, output, device)
        work = Work(0, touched_nbytes(shape, arrays) + touched_nbytes(shape, (output,)))
        if only.num_entries:
            return self._chained(only, work)
        return Plan((Launch(self.kernel(only.family, only.spec), only.grid, (OUT, *self.taken), only.constants, work),))

    def choose(
        self, shape: tuple[int, ...], axis: int, arrays: Sequence[Operand], output: Operand, device: Device
    ) -> ScanPass:
        """Return the pass of a scan of at least one element."""
        operands = (output, *arrays)
        strides = [x.strides for x in operands]
        if self.wants_index:
            strides.append(contiguous_strides(shape))
        kept = collapse([*shape[:axis], *shape[axis + 1 :]], [s[:axis] + s[axis + 1 :] for s in strides])
        loops = ScanLoops(kept, tuple([s[axis] for s in strides]), shape[axis])
        loop = _column_loop(loops, operands)
        if loop is None:
            return self._rows(loops, operands, device)
        order = [d for d in range(len(kept.shape)) if d != loop]
        return self._columns(loops._replace(kept=kept.reordered([*order, loop])), operands, device.num_sms)

    def _rows(self, loops: ScanLoops, operands: Sequence[Operand], device: Device) -> ScanPass:
        """The pass whose lanes go along the scanned loop."""
        nest = loops.nest(kept_innermost=False)
        target, chain = self._moving(operands, nest)
        vector = vector_width(operands, nest, takes_rest=True)
        num_rows, num_units = loops.kept.size, loops.length // vector
        group = scan_rows.BLOCK
        if num_units <= scan_rows.WARP * UNITS_PER_LANE:
            group = min(scan_rows.WARP, 1 << (max(num_units, 1) - 1).bit_length())
        count = 1
        # Registers do not hold wide accumulators of more units on every architecture.
        most = scan_rows.MAX_UNROLL * min(1, 64 / self.op.acc.bits)
        while count < most and count * group < num_units:
            count *= 2
        if group > scan_rows.WARP and num_rows < BLOCKS_PER_SM * device.num_sms:
            chained = self._chained_rows(loops, nest, target, chain, vector, device)
            if chained is not None:
                return chained
        spec = self.spec(ScanRowsSpec, chain, self.value, self.op, target, WHOLE, group, vector, count)
        constants = (
            *_places(spec, nest),
            num_rows,
            num_units,
            loops.length - num_units * vector,
            *Splitter.constants(loops.kept.shape, chain.index_bits),
        )
        return ScanPass(scan_rows, spec, (-(-num_rows // (scan_rows.BLOCK // group)), 1, 1), constants)

    def _chained_rows(
        self, loops: ScanLoops, nest: Nest, target: OperandSpec, chain: Chain, vector: int, device: Device
    ) -> ScanPass | None:
        """The pass in which several blocks scan a row; None where a row is a single tile."""
        value, result = scan_chained.value_type(chain, self.value), target.type
        nbytes = value.nbytes + (0 if result.nbytes == value.nbytes else result.nbytes)
        most = max(1, TILE_NBYTES // (nbytes * scan_chained.BLOCK))
        items = min(MAX_ITEMS, most - 1 + most % 2)
        tiles = -(-loops.length // (scan_chained.BLOCK * items))
        if tiles == 1:
            return None
        entries = [tiles]
        while entries[-1] > FAN:
            entries.append(-(-entries[-1] // FAN))
        num_rows, bits = loops.kept.size, chain.index_bits
        num_entries = tuple([num_rows * count for count in entries])
        is_marked = sum(self._entry_sizes(num_entries)) <= MARKS_NBYTES
        fields = (self.value, self.op, target, CHAINED, vector, items, len(entries), is_marked)
        spec = self.spec(ScanChainedSpec, chain, *fields)
        num_tiles, lag = num_rows * tiles, LAG * device.num_sms
        family: Any = scan_chained
        ahead: tuple[int, ...] = ()
        is_long = len(entries) > 1 and num_tiles >= MIN_LAGS * lag
        if device.cc >= AHEAD_FROM and is_long and spec.is_copied and spec.is_joined:
            family, ahead = scan_ahead, (lag, num_tiles)
            spec = self.spec(ScanAheadSpec, chain, *fields)
        constants = (
            *_places(spec, nest),
            loops.length,
            *Divisor.constants(tiles, bits),
            *entries,
            *Splitter.constants(loops.kept.shape, bits),
            *ahead,
        )
        return ScanPass(family, spec, (num_tiles + sum(ahead[:1]), 1, 1), constants, num_entries)

    def _entry_sizes(self, num_entries: tuple[int, ...]) -> list[int]:
        """Bytes of the ticket and of each level's entries."""
        sizes = [u64.nbytes, *[count * num_words(self.op.acc) * u64.nbytes for count in num_entries]]
        return [-(-nbytes // ALIGNMENT) * ALIGNMENT for nbytes in sizes]

    def _chained(self, only: ScanPass, work: Work) -> Plan:
        """The plan of a scan in one pass, whose descriptors are marks or begin as zeros."""
        scratch, spec, sizes = Scratch(), only.spec, self._entry_sizes(only.num_entries)
        kernel = self.kernel(only.family, spec)
        if isinstance(spec, ScanChainedSpec) and spec.is_marked:
            places = [MARKS.at(offset) for offset in accumulate(sizes[:-1], initial=0)]
            return Plan((Launch(kernel, only.grid, (*places, OUT, *self.taken), only.constants, work),))
        places = [scratch.take(nbytes) for nbytes in sizes]
        launch = Launch(kernel, only.grid, (*places, OUT, *self.taken), only.constants, work)
        return scratch.plan((Fill(places[0], scratch.nbytes, 0), launch))

    def _columns(self, loops: ScanLoops, operands: Sequence[Operand], num_sms: int) -> ScanPass:
        """The pass whose lanes go along the last kept loop."""
        nest = loops.nest(kept_innermost=True)
        target, chain = self._moving(operands, nest)
        *outer, num_columns = loops.kept.shape
        vector = vector_width(operands, nest, takes_rest=False)
        while vector > 1 and num_columns < scan_columns.WARP * vector:  # lanes without columns load nothing
            vector //= 2
        num_tiles = -(-num_columns // (scan_columns.WARP * vector))
        num_warps = num_tiles * math.prod(outer)
        if 2 * num_warps <= WARPS_PER_SM * num_sms and loops.length >= MIN_CHAINED_ROWS:
            return self._chained_columns(loops, nest, target, chain, vector, num_sms)
        count = unroll(chain, vector, NBYTES_IN_FLIGHT)
        spec = self.spec(ScanColumnsSpec, chain, self.value, self.op, target, WHOLE, vector, count)
        bits = chain.index_bits
        constants = (
            *_places(spec, nest),
            num_columns,
            loops.length,
            num_warps,
            *Divisor.constants(num_tiles, bits),
            *Splitter.constants(tuple(outer) or (1,), bits),
        )
        return ScanPass(scan_columns, spec, (-(-num_warps // scan_columns.NUM_WARPS), 1, 1), constants)

    def _chained_columns(
        self, loops: ScanLoops, nest: Nest, target: OperandSpec, chain: Chain, vector: int, num_sms: int
    ) -> ScanPass:
        """The pass in which several blocks scan a column."""
        value = scan_chained.value_type(chain, self.value)
        while vector > 1 and vector * self.op.acc.bits > MAX_ACCUMULATOR_BITS:
            vector //= 2
        *outer, num_columns = loops.kept.shape
        num_tiles = -(-num_columns // (scan_columns.WARP * vector))
        abreast = num_tiles * math.prod(outer)
        rows = max(1, MAX_VALUE_NBYTES // (vector * max(u32.nbytes, value.nbytes)))
        while rows > 1 and 2 * abreast * loops.length < rows * chained_columns.NUM_WARPS * num_sms:
            rows //= 2
        entries = [-(-loops.length // (chained_columns.NUM_WARPS * rows))]
        while entries[-1] > chained_columns.FAN:
            entries.append(-(-entries[-1] // chained_columns.FAN))
        count = min(rows, unroll(chain, vector, NBYTES_IN_FLIGHT))
        fields = (self.value, self.op, target, CHAINED, vector, rows, count, len(entries))
        spec, bits = self.spec(ScanChainedColumnsSpec, chain, *fields), chain.index_bits
        constants = (
            *_places(spec, nest),
            num_columns,
            loops.length,
            *Divisor.constants(num_tiles, bits),
            *Divisor.constants(abreast, bits),
            loops.kept.size,
            *Splitter.constants(tuple(outer) or (1,), bits),
        )
        num_entries = tuple([loops.kept.size * count for count in entries])
        return ScanPass(chained_columns, spec, (abreast * entries[0], 1, 1), constants, num_entries)

    def _moving(self, operands: Sequence[Operand], nest: Nest) -> tuple[OperandSpec, Chain]:
        """The output's OperandSpec, and the chain."""
        target, *specs = classify(operands, nest)
        return target, self.chain(specs, len(nest.shape), index_bits(nest))


def plan(
    shape: tuple[int, ...],
    axis: int,
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
) -> Plan:
    """Return the plan that scans one value of a chain along an axis.

    Parameters
    ----------
    shape : tuple of int
        Of every input and of the output; at least one dimension.
    axis : int
        Not negative.
    inputs, instrs : sequences
        As for `elementwise.plan`.
    value : int
        Number of the value that is scanned.
    op : ReduceOp
        Without parameters; its identity combines exactly to the other accumulator.
    output : Operand
        Must not overlap an input.
    device : Device

    Returns
    -------
    Plan
        One launch, of few long columns and very long rows after a fill with zeros.

    Notes
    -----
    Layout, sizes and `device.num_sms` fix the order of combination: the same call gives the same bits.
    """
    scan = Scan([(x.type, isinstance(x, Operand)) for x in inputs], instrs, value, op)
    return scan.plan(shape, axis, [x for x in inputs if isinstance(x, Operand)], output, device)


def choose(
    shape: tuple[int, ...],
    axis: int,
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
) -> ScanPass:
    """Return the pass of a scan of at least one element."""
    scan = Scan([(x.type, isinstance(x, Operand)) for x in inputs], instrs, value, op)
    return scan.choose(shape, axis, [x for x in inputs if isinstance(x, Operand)], output, device)


def _column_loop(loops: ScanLoops, operands: Sequence[Operand]) -> int | None:
    """The kept loop that lanes go along; None where they go along the scanned one."""
    kept = loops.kept
    votes = dict.fromkeys(range(len(kept.shape)), 0)
    against = 0
    for array, strides, step in zip(operands, kept.strides, loops.steps, strict=False):
        along = {abs(s): loop for loop, s in enumerate(strides) if s and kept.shape[loop] > 1}
        nearest = min(along, default=None)
        if nearest is not None and (nearest < abs(step) or not step):
            votes[along[nearest]] += array.type.nbytes
        else:
            against += array.type.nbytes
    best = max(votes, key=lambda loop: (votes[loop], kept.shape[loop]))
    if votes[best] <= against and loops.length <= MAX_SERIAL:
        return max(votes, key=lambda loop: kept.shape[loop]) if kept.size >= MIN_COLUMNS else None
    return best if votes[best] > against and kept.shape[best] >= MIN_COLUMNS else None


def _places(spec: ScanSpec, nest: Nest) -> tuple[int, ...]:
    """Strides and shifts of the chain's operands, then of the target."""
    constants = spec.chain.constants(Nest(nest.shape, nest.strides[1:], nest.shifts[1:]))
    loops = spec.target.stride_loops(spec.chain.ndim)
    shift = (nest.shifts[0],) if spec.target.is_shifted else ()
    return (*constants, *[nest.strides[0][loop] for loop in loops], *shift)
