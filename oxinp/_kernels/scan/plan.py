"""Scan problems: which family serves which layout, how the work is cut, the first pass that finds what chunks come to.

A scan is what `numpy.ufunc.accumulate` does: every element joined with all before it along one axis.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

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
from oxinp._kernels.plan import SCRATCH, Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.problem import Instr, Operand, ScalarOperand, touched_nbytes
from oxinp._kernels.scan import chained as scan_chained
from oxinp._kernels.scan import columns as scan_columns
from oxinp._kernels.scan import rows as scan_rows
from oxinp._kernels.scan.chained import ScanChainedSpec
from oxinp._kernels.scan.columns import ScanColumnsSpec
from oxinp._kernels.scan.kernel import CHAINED, PREFIXED, TOTALS, WHOLE
from oxinp._kernels.scan.rows import ScanRowsSpec
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.plan import Grid
    from oxinp._kernels.problem import ReduceOp

NBYTES_IN_FLIGHT = 64  # of loads per thread, of columns
BLOCKS_PER_SM = 8  # blocks with rows of their own that fill the device
TILE_NBYTES = 32768  # of elements, and of results that do not fit in their place
MAX_ITEMS = 31
WARPS_PER_SM = 64  # warps that chunks of columns aim at
MIN_COLUMNS = 32  # kept elements side by side from which lanes go along them
MAX_SERIAL = 16  # elements up to which a thread scans rows alone
MIN_CHUNK = 32  # rows of a chunk of columns
MAX_CHUNKS = 2048  # of columns, whose totals every thread joins alone
UNITS_PER_LANE = 16  # of rows that a warp takes


class _Pass(NamedTuple):
    """One launch before its kernel is built, and how many totals, or entries of each level, it leaves."""

    family: Any
    spec: ScanRowsSpec | ScanChainedSpec | ScanColumnsSpec
    grid: Grid
    constants: tuple[int, ...]
    num_totals: int = 0
    num_entries: tuple[int, ...] = ()


class _Problem(Frozen):
    """A scan with its kept loops collapsed; operands of `kept` and `steps` are the output, inputs, maybe the index."""

    kept: Nest
    steps: tuple[int, ...]
    length: int
    inputs: tuple[Operand | ScalarOperand, ...]
    instrs: tuple[Instr, ...]
    value: int
    op: ReduceOp
    output: Operand
    num_sms: int

    @property
    def arrays(self) -> tuple[Operand, ...]:
        """The output, then the inputs that lie in memory."""
        return (self.output, *(x for x in self.inputs if isinstance(x, Operand)))

    def nest(self, *, kept_innermost: bool) -> Nest:
        """The scanned loop inside the kept ones, or before the last of them."""
        kept = self.kept
        cut = len(kept.shape) - kept_innermost
        strides = [(*s[:cut], step, *s[cut:]) for s, step in zip(kept.strides, self.steps, strict=True)]
        return Nest((*kept.shape[:cut], self.length, *kept.shape[cut:]), tuple(strides), kept.shifts)

    def spec(self, nest: Nest, part: str) -> dict[str, Any]:
        """The fields that the Specs of all families have."""
        target, *specs = classify(self.arrays, nest)
        moving = iter(specs)
        inputs = [next(moving) if isinstance(x, Operand) else OperandSpec(x.type, SCALAR) for x in self.inputs]
        chain = Chain((*inputs, *moving), self.instrs, (), len(nest.shape), index_bits(nest))
        return {"chain": chain, "value": self.value, "op": self.op, "target": target, "part": part}

    def constants(self, spec: ScanRowsSpec | ScanChainedSpec | ScanColumnsSpec, nest: Nest) -> tuple[int, ...]:
        """Strides and shifts: of the chain's operands, and of the target where there is one."""
        whole = spec.chain.replace(outputs=((0, spec.target),))
        inner = nest_of_operands(whole, nest)
        own = Nest(inner.shape, inner.strides[1:], inner.shifts[1:])
        constants = spec.chain.constants(own)
        if spec.part == TOTALS:
            return constants
        loops = spec.target.stride_loops(spec.chain.ndim)
        shift = (nest.shifts[0],) if spec.target.is_shifted else ()
        return (*constants, *(nest.strides[0][loop] for loop in loops), *shift)


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
        One launch, of few long rows behind a fill with zeros; or two of which the first leaves the totals of chunks in
        the scratch buffer.

    Notes
    -----
    The order of combination follows from layout, sizes and `device.num_sms`: the same call gives the same bits.
    """
    if 0 in shape:
        return Plan(())
    passes = choose(shape, axis, inputs, instrs, value, op, output, device)
    # The totals of chunks are few beside the elements, which each pass reads.
    read = touched_nbytes(shape, [x for x in inputs if isinstance(x, Operand)])
    written = touched_nbytes(shape, [output])
    out, own = Argument("out0"), inputs_of(len(inputs))
    if isinstance(passes[0].spec, ScanChainedSpec):
        return _chained(passes[0], (out, *own), Work(nbytes=read + written))
    taken = [((out, *own), written)] if len(passes) == 1 else [((SCRATCH, *own), 0), ((out, SCRATCH, *own), written)]
    return Plan(
        tuple(
            Launch(each.family.make(each.spec), each.grid, arguments, each.constants, Work(nbytes=read + nbytes))
            for each, (arguments, nbytes) in zip(passes, taken, strict=True)
        ),
        sum(each.num_totals for each in passes) * op.acc.nbytes,
    )


def _chained(only: _Pass, arguments: tuple[Argument, ...], work: Work) -> Plan:
    """The plan of a scan in one pass, whose descriptors begin as zeros."""
    scratch, spec = Scratch(), only.spec
    assert isinstance(spec, ScanChainedSpec)
    tickets = scratch.take(u32.nbytes)
    entry_nbytes = scan_chained.num_words(spec.op.acc) * u64.nbytes
    levels = [scratch.take(count * entry_nbytes) for count in only.num_entries]
    launch = Launch(scan_chained.make(spec), only.grid, (tickets, *levels, *arguments), only.constants, work)
    return scratch.plan((Fill(tickets, scratch.nbytes, 0), launch))


def choose(
    shape: tuple[int, ...],
    axis: int,
    inputs: Sequence[Operand | ScalarOperand],
    instrs: Sequence[Instr],
    value: int,
    op: ReduceOp,
    output: Operand,
    device: Device,
) -> list[_Pass]:
    """Return the one or two passes of a scan of at least one element."""
    inputs, instrs = tuple(inputs), tuple(instrs)
    strides = [output.strides, *(x.strides for x in inputs if isinstance(x, Operand))]
    if any(instr.wants_index for instr in instrs):
        strides.append(contiguous_strides(shape))
    kept = collapse([*shape[:axis], *shape[axis + 1 :]], [s[:axis] + s[axis + 1 :] for s in strides])
    steps = tuple(s[axis] for s in strides)
    problem = _Problem(kept, steps, shape[axis], inputs, instrs, value, op, output, device.num_sms)
    loop = _column_loop(problem)
    if loop is None:
        return _rows(problem)
    order = [d for d in range(len(kept.shape)) if d != loop]
    return _columns(problem.replace(kept=kept.reordered([*order, loop])))


def _column_loop(problem: _Problem) -> int | None:
    """The kept loop that lanes go along; None where they go along the scanned one."""
    kept = problem.kept
    votes = dict.fromkeys(range(len(kept.shape)), 0)
    against = 0
    for array, strides, step in zip(problem.arrays, kept.strides, problem.steps, strict=False):
        along = {abs(s): loop for loop, s in enumerate(strides) if s and kept.shape[loop] > 1}
        nearest = min(along, default=None)
        if nearest is not None and (nearest < abs(step) or not step):
            votes[along[nearest]] += array.type.nbytes
        else:
            against += array.type.nbytes
    best = max(votes, key=lambda loop: (votes[loop], kept.shape[loop]))
    if votes[best] <= against and problem.length <= MAX_SERIAL:
        return max(votes, key=lambda loop: kept.shape[loop]) if kept.size >= MIN_COLUMNS else None
    return best if votes[best] > against and kept.shape[best] >= MIN_COLUMNS else None


def _rows(problem: _Problem) -> list[_Pass]:
    """Lanes along the scanned loop."""
    nest = problem.nest(kept_innermost=False)
    vector = vector_width(problem.arrays, nest, takes_rest=True)
    num_rows, num_units = problem.kept.size, problem.length // vector
    group = scan_rows.BLOCK
    if num_units <= scan_rows.WARP * UNITS_PER_LANE:
        group = min(scan_rows.WARP, 1 << (max(num_units, 1) - 1).bit_length())
    count = 1
    # Wide sums of more rounds do not fit into the registers of every architecture.
    most = scan_rows.MAX_UNROLL * min(1, 64 / problem.op.acc.bits)
    while count < most and count * group < num_units:
        count *= 2
    if group > scan_rows.WARP and num_rows < BLOCKS_PER_SM * problem.num_sms:
        chained = _chained_rows(problem, nest, vector)
        if chained is not None:
            return [chained]
    spec = ScanRowsSpec(**problem.spec(nest, WHOLE), group=group, vector=vector, unroll=count)
    constants = (
        *problem.constants(spec, nest),
        num_rows,
        num_units,
        problem.length - num_units * vector,
        *Splitter.constants(problem.kept.shape, spec.chain.index_bits),
    )
    return [_Pass(scan_rows, spec, (-(-num_rows // (scan_rows.BLOCK // group)), 1, 1), constants)]


def _chained_rows(problem: _Problem, nest: Nest, vector: int) -> _Pass | None:
    """The pass in which several blocks scan a row; None where a row is a single tile."""
    fields = problem.spec(nest, CHAINED)
    value, result = scan_chained.value_type(fields["chain"], problem.value), problem.output.type
    nbytes = value.nbytes + (0 if result.nbytes == value.nbytes else result.nbytes)
    most = max(1, TILE_NBYTES // (nbytes * scan_chained.BLOCK))
    items = min(MAX_ITEMS, most - 1 + most % 2) or 1
    tile = scan_chained.BLOCK * items
    tiles = -(-problem.length // tile)
    if tiles == 1:
        return None
    entries = [tiles]
    while entries[-1] > scan_chained.FAN:
        entries.append(-(-entries[-1] // scan_chained.FAN))
    spec = ScanChainedSpec(**fields, vector=vector, items=items, levels=len(entries))
    num_rows = problem.kept.size
    constants = (
        *problem.constants(spec, nest),
        problem.length,
        *Divisor.constants(tiles, spec.chain.index_bits),
        *entries,
        *Splitter.constants(problem.kept.shape, spec.chain.index_bits),
    )
    num_entries = tuple(num_rows * count for count in entries)
    return _Pass(scan_chained, spec, (num_rows * tiles, 1, 1), constants, num_entries=num_entries)


def _columns(problem: _Problem) -> list[_Pass]:
    """Lanes along the last kept loop."""
    nest = problem.nest(kept_innermost=True)
    *outer, num_columns = problem.kept.shape
    vector = vector_width(problem.arrays, nest, takes_rest=False)
    while vector > 1 and num_columns < scan_columns.WARP * vector:  # lanes without columns load nothing
        vector //= 2
    num_tiles = -(-num_columns // (scan_columns.WARP * vector))
    num_warps = num_tiles * math.prod(outer)
    wanted = min(MAX_CHUNKS, WARPS_PER_SM * problem.num_sms // num_warps)
    chunk = problem.length
    if wanted > 1:
        chunk = min(chunk, max(MIN_CHUNK, -(-problem.length // wanted)))
    num_chunks = -(-problem.length // chunk)
    passes = []
    for part in (WHOLE,) if num_chunks == 1 else (TOTALS, PREFIXED):
        fields = problem.spec(nest, part)
        count = unroll(fields["chain"], vector, NBYTES_IN_FLIGHT)
        spec = ScanColumnsSpec(**fields, vector=vector, unroll=count)
        chunks = num_chunks - (part == TOTALS)
        bits = spec.chain.index_bits
        constants = (
            *problem.constants(spec, nest),
            num_columns,
            problem.length,
            num_warps * chunks,
            *Divisor.constants(num_tiles, bits),
            *((chunk, problem.kept.size, *Divisor.constants(chunks, bits)) if part != WHOLE else ()),
            *Splitter.constants(tuple(outer) or (1,), bits),
        )
        num_blocks = -(-num_warps * chunks // scan_columns.NUM_WARPS)
        num_totals = chunks * problem.kept.size if part == TOTALS else 0
        passes.append(_Pass(scan_columns, spec, (num_blocks, 1, 1), constants, num_totals))
    return passes
