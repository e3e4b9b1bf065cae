"""Products of f64 or c128 from products of bytes (Ozaki scheme II): the passes around `ozaki.kernel`, their guard.

Every row of A and every column of B is scaled by a power of two and rounded to integers, as large as the range of the
moduli allows: for lines a and b the product of whose norms is below P / 2, P being the product of the moduli, so is the
sum of a b (Cauchy and Schwarz). Its residues are sums of residues, which bytes hold and tensor units multiply exactly;
the sum itself follows from them exactly, and is rounded once. So what the product errs by comes from rounding to
integers. In units of u = 2**-53, with T the largest norm after scaling (1.5 / u for 14 moduli, 14 times more with each
further one; scales being powers of two, a line's norm may be T / 2) that is, for the largest of many sums of normal
numbers, 1 |a| |b| with 14 moduli, |a| |b| being the product of the norms, where chains of fused multiply-adds err by 2.

What counts is the error relative to S, the sum of |a b|. It is not much less than |a| |b| where large elements meet
large ones. The guard proves that from counts: let r be the root mean square of a line. If at most s elements of a row,
and likewise of a column, are below 2**-i r, then at least K - s - s' terms of S are 4**-i r r' or more. Together for
three i this bounds |a| |b| / S. The first number of moduli, 14 to 16, that has room for this bound is taken; it is
pessimistic, by a factor of 8 for normal numbers. Where none has, where less than an eighth of the terms are large
(products with diagonal or permutation matrices, which multiply-adds get right to the last bit), where norms are so
large or small that scales would leave f64's range, or where anything is infinite or NaN, the flag is set, and the
native kernel does the work. All kernels are launched, nobody waits for the flag but they.

Complex numbers are pairs of f64 in all this, a row being real parts and imaginary ones; three products per modulus make
the four of parts, exactly, as integers do.

Large products are made chunk by chunk along K, and C in blocks, as many as bring all memory below the workspace that
is allowed. Sums of residues are residues of the sum: bits are those of the whole. For chunks C's planes are read and
written once more each, for blocks lines are brought to bytes once more; the cut is the one expected to take the least
time. K is also cut where sums would leave 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.ozaki import cost as ozaki_cost
from oxinp._kernels.gemm.ozaki import crt, residues
from oxinp._kernels.gemm.ozaki import kernel as ozaki_kernel
from oxinp._kernels.gemm.ozaki.cost import num_parts
from oxinp._kernels.gemm.ozaki.crt import Residues
from oxinp._kernels.gemm.ozaki.kernel import OzakiSpec
from oxinp._kernels.gemm.ozaki.moduli import COUNTS, MODULI, reconstruction
from oxinp._kernels.gemm.ozaki.residues import ResidueSpec
from oxinp._kernels.plan import ALIGNMENT, Argument, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import Instr, Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f64, i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.operand import Source
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MIN_EXTENT = 1024  # of M, N and K
LEVELS = (1, 2, 5)  # elements are small below 2**-level of the root mean square
FIELD = 21  # bits of a count
MAX_TERMS = (1 << FIELD) - 1
MIN_SHARE = 8  # one in so many terms has to be large
ROOM = 8 * 2.0**-53  # times T: what |a| |b| / S may be
LEAST, MOST = 2.0**-350, 2.0**350  # norms whose scales, and those of their products, f64 holds
FLOOR = 2.0**-400  # smaller elements count as this large, so that their squares are not lost
BLOCK = 1024


def _square(k: Builder, x: Value) -> Value:
    magnitude = k.abs(x)
    magnitude = k.where((magnitude < FLOOR) & (magnitude != 0), k.const(FLOOR, f64), magnitude)
    return magnitude * magnitude


def _sum(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a + b


@cache
def _counted(depth_bits: int) -> Callable[[Builder, Value, Value], Value]:
    """Per level 1 in its field if an element is small, the squares' sum being of up to 2**depth_bits elements."""

    def count(k: Builder, x: Value, squares: Value) -> Value:
        total = k.const(0, i64)
        for number, level in enumerate(LEVELS):
            is_small = x * x < squares * 2.0 ** -(2 * level + depth_bits)
            total = total + k.where(is_small, k.const(1 << (FIELD * number), i64), 0)
        return total

    return count


_SQUARES = ReduceOp("sum", f64, 0, _sum)
_COUNT = ReduceOp("count", i64, 0, _sum)


def plan(a: Source, b: Source, native: Plan, device: Device, workspace_nbytes: int) -> Plan | None:
    """Launches of C = A @ B in C order.

    Parameters
    ----------
    a, b : Source
        Of f64 or c128.
    native : Plan
        Guarded, for the same product; the guard is its third input.
    device : Device
        Of compute capability 9.0.
    workspace_nbytes : int
        Memory there is.

    Returns
    -------
    Plan or None
        None where the workspace does not suffice, K is too large for counts, or complex numbers do not lie at multiples
        of 16 bytes.
    """
    depth, type = a.depth, a.type
    if depth * len(type.parts) > MAX_TERMS or min(a.alignment, b.alignment) % type.nbytes:
        return None
    scratch = Scratch()
    flag, count = scratch.take(u32.nbytes), scratch.take(i32.nbytes)
    lines = [_Lines(source, scratch, device) for source in (a, b)]
    partial = scratch.take(max(line.scratch_nbytes for line in lines))
    config = ozaki_cost.fitting(type, a.extent, b.extent, depth, workspace_nbytes - scratch.nbytes)
    if config is None:
        return None
    product = _Blocks((lines[0], lines[1]), count, scratch, device, config)
    steps = [each for line in lines for each in line.steps(partial)]
    arguments = [argument for line in lines for argument in (line.squares, line.counts, line.exponents)]
    m, n = a.extent, b.extent
    steps.append(Launch(make_guard(), (1, 1, 1), (flag, count, *arguments), (m, n, lines[0].num_terms)))
    steps.extend(product.steps())
    return scratch.plan((*steps, *native.on(in2=flag)), is_guarded=True)


@cache
def _reduction(instr: Instr, op: ReduceOp) -> reduce.Reduction:
    """The reduction of what an instruction makes of f64 operands."""
    count = len(instr.args)
    return reduce.Reduction([(f64, True)] * count, (instr,), count, op, op.acc)


class _Lines:
    """What happens to the lines of one operand: the sums of squares, the counts, the exponents."""

    def __init__(self, source: Source, scratch: Scratch, device: Device) -> None:
        self.type, self.source, self.device = source.type, source, device
        self.depth = source.depth
        self.num_terms = self.depth * len(source.type.parts)
        self.squares, self.counts = (scratch.take(source.extent * 8) for _ in range(2))
        self.exponents = scratch.take(source.extent * i32.nbytes)
        count = Instr(_counted((self.num_terms - 1).bit_length()), i64, (0, 1))
        self.reductions = [self.reduction(*what) for what in ((Instr(_square, f64, (0,)), _SQUARES), (count, _COUNT))]

    @property
    def scratch_nbytes(self) -> int:
        """What the reductions need."""
        return max(reduction.scratch_nbytes for reduction in self.reductions)

    def reduction(self, instr: Instr, op: ReduceOp) -> Plan:
        """The reduction along K, and over the parts of complex numbers."""
        source, width = self.source, len(self.type.parts)
        spread = (*(int(axis == source.extent_axis) for axis in range(2)), 0)
        both = (Operand(f64, (source.pitch * width, width, 1), source.alignment), Operand(f64, spread, ALIGNMENT))
        inputs = both[: len(instr.args)]
        output = Operand(op.acc, (1,), ALIGNMENT)
        shape, axes = (source.lines, source.run, width), (1 - source.extent_axis, 2)
        return _reduction(instr, op).plan(shape, axes, inputs, output, self.device)

    def steps(self, partial: Argument) -> Iterator[Step]:
        """Yield the launches."""
        x = Argument(self.source.buffer)
        for plan, output in zip(self.reductions, (self.squares, self.counts), strict=True):
            yield from plan.on(out0=output, in0=x, in1=self.squares, scratch=partial)

    def residues(self, planes: Argument, count: Argument, block: _Block, plane_nbytes: int) -> tuple[Step, ...]:
        """The bytes of the lines and the part of K that a block has of this operand."""
        source = self.source
        is_right = source.buffer == "in1"
        line, num = (block.column, block.columns) if is_right else (block.row, block.rows)
        start = line * source.pitch + block.start if source.major == "k" else block.start * source.pitch + line
        spec = ResidueSpec(source.major, is_right, self.type.is_complex)
        plan = residues.plan(spec, num, block.depth, source.pitch, plane_nbytes, self.device.num_sms)
        x, exponents = Argument(source.buffer, start * self.type.nbytes), self.exponents.at(line * i32.nbytes)
        return plan.on(out0=planes, in0=x, in1=exponents, in2=count)


class _Block(NamedTuple):
    """Some rows and columns of C, and a part of K."""

    row: int
    rows: int
    column: int
    columns: int
    start: int
    depth: int


@dataclass(slots=True)
class _Blocks:
    """The blocks of C, chunk by chunk, one after the other in the same memory."""

    lines: tuple[_Lines, _Lines]
    count: Argument
    scratch: Scratch
    device: Device
    config: ozaki_cost.BlockSizes

    def steps(self) -> Iterator[Step]:
        """Yield the launches."""
        a, b = self.lines
        m, n, depth = a.source.extent, b.source.extent, a.depth
        num_planes = len(MODULI) * num_parts(a.type)
        planes = [self.scratch.take(num_planes * size) for size in self.config.sizes]
        held: list[tuple[int, int] | None] = [None, None]  # what of A and B is there
        for row, rows in _parts(m, self.config.rows):
            for column, columns in _parts(n, self.config.columns):
                for start, run in _parts(depth, self.config.chunk):
                    block = _Block(row, rows, column, columns, start, run)
                    wanted = [(row, start), (column, start)]
                    for i, line_count in enumerate((self.config.rows, self.config.lines)):
                        if wanted[i] != held[i]:
                            yield from self.lines[i].residues(
                                planes[i], self.count, block, line_count * residues.padded(run)
                            )
                    held = [*wanted]
                    yield from self.multiplied(planes, block, num_planes)
                yield from self.back(planes[2], block)

    def multiplied(self, planes: list[Argument], block: _Block, num_planes: int) -> tuple[Step, ...]:
        """The products of a block, added to those of the chunks before."""
        type_ = self.lines[0].type
        spec = OzakiSpec(num_parts=num_parts(type_), is_added=block.start > 0)
        product = ozaki_kernel.plan(
            spec,
            (block.rows, self.config.rows),
            (block.columns, self.config.lines),
            residues.padded(block.depth),
            num_planes,
            self.device.num_sms,
        )
        # With as few moduli as may be.
        nbytes = COUNTS[0] * spec.num_parts * ((block.rows + block.columns) * block.depth + block.rows * block.columns)
        work = Work((8 if type_.is_complex else 2) * block.rows * block.columns * block.depth, nbytes)
        return product.with_work(work).on(out0=planes[2], in0=self.count, in1=planes[0], in2=planes[1])

    def back(self, planes: Argument, block: _Block) -> Iterator[Step]:
        """The way of a block of C out of its planes: a launch for each number of moduli."""
        n, type_ = self.lines[1].source.extent, self.lines[0].type
        rows, columns = (
            each.exponents.at(first * i32.nbytes)
            for each, first in zip(self.lines, (block.row, block.column), strict=True)
        )
        result = Argument("out0", (block.row * n + block.column) * type_.nbytes)
        pitch = self.config.lines
        source = Residues(block.rows, block.columns, pitch, block.rows * pitch)
        for count in COUNTS:
            plan = crt.plan(count, source, n, self.device.num_sms, is_complex=type_.is_complex)
            yield from plan.on(out0=result, in0=planes, in1=rows, in2=columns, in3=self.count)


def _parts(extent: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield where parts begin, and how long they are."""
    for start in range(0, extent, most):
        yield start, min(most, extent - start)


@cache
@retraceable
def make_guard() -> Kernel:
    """The kernel of one block that sets the flag, 1 or 0, the number of moduli, 0 or some, and the exponents of scales.

    Parameters of the kernel: pointers to the flag and to the number, to the sums of squares, the counts and the
    exponents of A's rows, to those of B's columns, then as u32 m, n and the number of terms.
    """
    k = Builder("ozaki_guard", block=BLOCK)
    flag, chosen = k.pointer("flag", u32, "w"), k.pointer("chosen", i32, "w")
    pointers = [
        (
            k.pointer(f"{name}_squares", f64, "r"),
            k.pointer(f"{name}_counts", i64, "r"),
            k.pointer(f"{name}_exponents", i32, "w"),
        )
        for name in ("a", "b")
    ]
    extents = [k.scalar(name, u32) for name in ("m", "n")]
    depth = k.scalar("depth", u32)
    # Per operand the most small elements of any line at each level; whether a norm is out of range; the number.
    shared = k.shared(u32, (2 * len(LEVELS) + 2,))
    wrong, number = 2 * len(LEVELS), 2 * len(LEVELS) + 1
    with k.when(k.tid < 2 * len(LEVELS) + 2):
        shared[k.tid] = k.const(0, u32)
    k.barrier()
    for operand, ((squares, counts, _), extent) in enumerate(zip(pointers, extents, strict=True)):
        most, is_wrong = [k.var(0, u32) for _ in LEVELS], k.var(0, u32)
        with k.range(k.tid, extent, BLOCK) as line:
            total, count = squares[line], counts[line]
            is_right = (total == 0) | ((total >= LEAST * LEAST) & (total <= MOST * MOST))
            is_wrong.set(k.where(is_right, is_wrong.get(), 1))
            for i, var in enumerate(most):
                var.set(k.max(var, k.cast(k.shr(count, FIELD * i), u32) & ((1 << FIELD) - 1)))
        for i, var in enumerate(most):
            shared.atomic("max", operand * len(LEVELS) + i, var)
        shared.atomic("max", wrong, is_wrong)
    k.barrier()
    with k.when(k.tid == 0):
        most_small = [shared.load(i)[0] for i in range(2 * len(LEVELS))]
        count = k.where(shared.load(wrong)[0] == 0, _number_of_moduli(k, most_small, depth), 0)
        shared[number] = k.bitcast(count, u32)
        chosen[0] = count
        flag[0] = k.where(count == 0, k.const(1, u32), k.const(0, u32))
    k.barrier()
    count = k.bitcast(shared.load(number)[0], i32)
    limit = k.const(0.0, f64)
    for each in COUNTS:
        limit = k.where(count == each, k.const(reconstruction(each).limit ** 2, f64), limit)
    for (squares, _, exponents), extent in zip(pointers, extents, strict=True):
        with k.when(count > 0), k.range(k.tid, extent, BLOCK) as line:
            _set_exponent(k, exponents, line, squares[line], limit)
    return k.build()


def _number_of_moduli(k: Builder, most_small: list[Value], depth: Value) -> Value:
    """How many are needed, 0 if those there are do not suffice."""
    levels = len(LEVELS)
    total = k.const(0.0, f64)
    for i, level in enumerate(LEVELS):
        small = most_small[i] + most_small[levels + i]
        # Those counted before are counted with what they are more.
        worth = 4.0**-level - (4.0 ** -LEVELS[i + 1] if i + 1 < levels else 0)
        has_enough = small <= depth - (depth + (MIN_SHARE - 1)) / MIN_SHARE
        total = total + k.where(has_enough, k.cast(depth - small, f64) * worth, 0.0)
    depth_bits = 32 - k.cast(k.clz(depth - 1), i32)
    wide = k.bitcast(k.shl(k.cast(depth_bits + 1023, i64), 52), f64)
    result = k.const(0, i32)
    for each in reversed(COUNTS):
        result = k.where(total * (ROOM * reconstruction(each).limit) >= wide, k.const(each, i32), result)
    return result


def _set_exponent(k: Builder, exponents: Pointer, line: Value, squares: Value, limit: Value) -> None:
    """The largest power of two that keeps the norm within the limit, whose square is given; 0 for empty lines."""
    is_empty = squares == 0
    quotient = limit / k.where(is_empty, limit, squares)
    exponent = k.cast(k.shr(k.bitcast(quotient, i64), 52), i32) - 1023
    exponents[line] = k.shr(exponent, 1)


__all__ = ["MAX_TERMS", "MIN_EXTENT", "make_guard", "plan"]
