"""Plans of f64 and c128 products by the Ozaki scheme II: scaling, residues, int8 products, CRT, and the guard.

Every row of A and every column of B is scaled by a power of two and rounded to integers, as large as the moduli allow:
if the product of the norms of a row a and a column b is below P / 2, where P is the product of the moduli, then so is
the sum of a b (Cauchy and Schwarz). Its residues are sums of products of residues, which fit bytes and which wgmma
multiplies exactly; the sum itself follows from them exactly (CRT), and is rounded once. So the only error is that of
rounding to integers. Let u = 2**-53, and T the largest norm after scaling: 1.5 / u for 14 moduli, 14 times more with
each further one (a line's norm may be T / 2, since scales are powers of two). With 14 moduli, the largest error of many
sums of normal numbers is 1 u |a| |b|, where |a| |b| is the product of the norms; fused multiply-adds err by 2.

What counts is the error relative to S, the sum of |a b|, which is not much less than |a| |b| where large elements meet
large ones. The guard proves that by counting: let r be the root mean square of a line. If at most s elements of a row,
and at most s' of a column, are below 2**-i r, then at least K - s - s' terms of S are 4**-i r r' or more. Together for
three i this bounds |a| |b| / S, pessimistically: by a factor of 8 for normal numbers. The guard takes the least number
of moduli, 14 to 16, that has room for this bound. It sets a flag if none has, if less than an eighth of the terms are
large (products with diagonal or permutation matrices, which multiply-adds get right to the last bit), if norms are so
large or small that scales would leave the range of f64, or if anything is infinite or NaN; then the guarded multistage
kernel computes the product. All kernels are always launched and read the flag; the host does not.

Complex numbers are pairs of f64 in all this, a row being real and imaginary parts; three products per modulus give the
four products of parts, exactly, since these are integers.

Large products are computed in blocks of C and ranges of K, small enough for the workspace. Sums of residues are
residues of sums, so results are the same bit by bit. Per range of K, the planes of C are read and written once more;
per block of C, lines are converted to residues once more; the cost model chooses the block sizes. K is also split where
sums would leave 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.gemm.ozaki import cost as ozaki_cost
from oxinp._kernels.gemm.ozaki import crt, guard, residues
from oxinp._kernels.gemm.ozaki import kernel as ozaki_kernel
from oxinp._kernels.gemm.ozaki.cost import planes_per_modulus
from oxinp._kernels.gemm.ozaki.crt import Residues
from oxinp._kernels.gemm.ozaki.guard import FIELD, LEVELS, MAX_TERMS, OzakiGuardSpec
from oxinp._kernels.gemm.ozaki.kernel import OzakiSpec
from oxinp._kernels.gemm.ozaki.moduli import COUNTS, MODULI
from oxinp._kernels.gemm.ozaki.residues import ResidueSpec
from oxinp._kernels.plan import ALIGNMENT, Argument, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import Instr, Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx import Builder
from oxinp._ptx.types import f64, i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.operand import Source
    from oxinp._ptx.value import Value

MIN_EXTENT = 1024  # of M, N and K
FLOOR = 2.0**-400  # smaller elements count as this large, so that their squares do not underflow


def _square(k: Builder, x: Value) -> Value:
    magnitude = k.abs(x)
    magnitude = k.where((magnitude < FLOOR) & (magnitude != 0), k.const(FLOOR, f64), magnitude)
    return magnitude * magnitude


def _sum(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a + b


@cache
def _counted(depth_bits: int) -> Callable[[Builder, Value, Value], Value]:
    """The lowering that counts small elements, a field per level, given the sum of up to 2**depth_bits squares."""

    def count(k: Builder, x: Value, squares: Value) -> Value:
        total = k.const(0, i64)
        for number, level in enumerate(LEVELS):
            is_small = x * x < squares * 2.0 ** -(2 * level + depth_bits)
            total = total + k.where(is_small, k.const(1 << (FIELD * number), i64), 0)
        return total

    return count


_SQUARES = ReduceOp("sum", f64, 0, _sum)
_COUNT = ReduceOp("count", i64, 0, _sum)


def plan(a: Source, b: Source, fallback: Plan, device: Device, workspace_nbytes: int) -> Plan | None:
    """Return the plan of C = A @ B in C order.

    Parameters
    ----------
    a, b : Source
        Of f64 or c128.
    fallback : Plan
        The guarded multistage kernel of the same product; its third input is the guard.
    device : Device
        Of compute capability 9.0.
    workspace_nbytes : int
        Largest workspace.

    Returns
    -------
    Plan or None
        None if the workspace is too small, K too large for the counts, or complex numbers do not lie at multiples of
        16 bytes.
    """
    depth, type = a.depth, a.type
    if depth * len(type.parts) > MAX_TERMS or min(a.alignment, b.alignment) % type.nbytes:
        return None
    scratch = Scratch()
    flag, count = scratch.take(u32.nbytes), scratch.take(i32.nbytes)
    lines = [_Lines(source, scratch, device) for source in (a, b)]
    partial = scratch.take(max(line.scratch_nbytes for line in lines))
    sizes = ozaki_cost.best_block_sizes(type, a.extent, b.extent, depth, workspace_nbytes - scratch.nbytes)
    if sizes is None:
        return None
    product = _Blocks((lines[0], lines[1]), count, scratch, device, sizes)
    steps = [each for line in lines for each in line.steps(partial)]
    arguments = [argument for line in lines for argument in (line.squares, line.counts, line.exponents)]
    m, n = a.extent, b.extent
    steps.append(Launch(guard.make(OzakiGuardSpec()), (1, 1, 1), (flag, count, *arguments), (m, n, lines[0].num_terms)))
    steps.extend(product.steps())
    return scratch.plan((*steps, *fallback.on(in2=flag)), is_guarded=True)


@cache
def _reduction(instr: Instr, op: ReduceOp) -> reduce.Reduction:
    """The reduction of what an instruction makes of f64 operands."""
    count = len(instr.args)
    return reduce.Reduction([(f64, True)] * count, (instr,), count, op, op.acc)


class _Lines:
    """The lines (rows of A or columns of B) of one operand: sums of squares, counts, exponents of scales, residues."""

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
        """Workspace of the reductions."""
        return max(reduction.scratch_nbytes for reduction in self.reductions)

    def reduction(self, instr: Instr, op: ReduceOp) -> Plan:
        """Return the reduction along K, and over the parts of complex numbers."""
        source, width = self.source, len(self.type.parts)
        spread = (*(int(axis == source.extent_axis) for axis in range(2)), 0)
        both = (Operand(f64, (source.pitch * width, width, 1), source.alignment), Operand(f64, spread, ALIGNMENT))
        inputs = both[: len(instr.args)]
        output = Operand(op.acc, (1,), ALIGNMENT)
        shape, axes = (source.lines, source.run, width), (1 - source.extent_axis, 2)
        return _reduction(instr, op).plan(shape, axes, inputs, output, self.device)

    def steps(self, partial: Argument) -> Iterator[Step]:
        """Yield the launches of the reductions."""
        x = Argument(self.source.buffer)
        for plan, output in zip(self.reductions, (self.squares, self.counts), strict=True):
            yield from plan.on(out0=output, in0=x, in1=self.squares, scratch=partial)

    def residues(self, planes: Argument, count: Argument, block: _Block, plane_nbytes: int) -> tuple[Step, ...]:
        """Return the launch that converts this operand's lines and range of K of a block to residues."""
        source = self.source
        is_right = source.buffer == "in1"
        line, num = (block.column, block.columns) if is_right else (block.row, block.rows)
        start = line * source.pitch + block.start if source.major == "k" else block.start * source.pitch + line
        spec = ResidueSpec(source.major, is_right, self.type.is_complex)
        plan = residues.plan(spec, num, block.depth, source.pitch, plane_nbytes, self.device.num_sms)
        x, exponents = Argument(source.buffer, start * self.type.nbytes), self.exponents.at(line * i32.nbytes)
        return plan.on(out0=planes, in0=x, in1=exponents, in2=count)


class _Block(NamedTuple):
    """Some rows and columns of C, and a range of K."""

    row: int
    rows: int
    column: int
    columns: int
    start: int
    depth: int


@dataclass(slots=True)
class _Blocks:
    """The blocks of C, one after the other in the same workspace, each range by range of K."""

    lines: tuple[_Lines, _Lines]
    count: Argument
    scratch: Scratch
    device: Device
    sizes: ozaki_cost.BlockSizes

    def steps(self) -> Iterator[Step]:
        """Yield the launches."""
        a, b = self.lines
        m, n, depth = a.source.extent, b.source.extent, a.depth
        num_planes = len(MODULI) * planes_per_modulus(a.type)
        planes = [self.scratch.take(num_planes * size) for size in self.sizes.sizes]
        held: list[tuple[int, int] | None] = [None, None]  # the residues of A and B that are there
        for row, rows in _ranges(m, self.sizes.rows):
            for column, columns in _ranges(n, self.sizes.columns):
                for start, run in _ranges(depth, self.sizes.chunk):
                    block = _Block(row, rows, column, columns, start, run)
                    wanted = [(row, start), (column, start)]
                    for i, line_count in enumerate((self.sizes.rows, self.sizes.lines)):
                        if wanted[i] != held[i]:
                            yield from self.lines[i].residues(
                                planes[i], self.count, block, line_count * residues.padded(run)
                            )
                    held = [*wanted]
                    yield from self.multiplied(planes, block, num_planes)
                yield from self.back(planes[2], block)

    def multiplied(self, planes: list[Argument], block: _Block, num_planes: int) -> tuple[Step, ...]:
        """Return the launch of a block's products, added to those of the ranges of K before."""
        type_ = self.lines[0].type
        spec = OzakiSpec(planes_per_modulus=planes_per_modulus(type_), is_accumulated=block.start > 0)
        product = ozaki_kernel.plan(
            spec,
            (block.rows, self.sizes.rows),
            (block.columns, self.sizes.lines),
            residues.padded(block.depth),
            num_planes,
            self.device.num_sms,
        )
        # With the fewest moduli.
        nbytes = (
            COUNTS[0]
            * spec.planes_per_modulus
            * ((block.rows + block.columns) * block.depth + block.rows * block.columns)
        )
        work = Work((8 if type_.is_complex else 2) * block.rows * block.columns * block.depth, nbytes)
        return product.with_work(work).on(out0=planes[2], in0=self.count, in1=planes[0], in2=planes[1])

    def back(self, planes: Argument, block: _Block) -> Iterator[Step]:
        """Yield the launches that reconstruct a block of C from its residues: one for each number of moduli."""
        n, type_ = self.lines[1].source.extent, self.lines[0].type
        rows, columns = (
            each.exponents.at(first * i32.nbytes)
            for each, first in zip(self.lines, (block.row, block.column), strict=True)
        )
        result = Argument("out0", (block.row * n + block.column) * type_.nbytes)
        pitch = self.sizes.lines
        source = Residues(block.rows, block.columns, pitch, block.rows * pitch)
        for count in COUNTS:
            plan = crt.plan(count, source, n, self.device.num_sms, is_complex=type_.is_complex)
            yield from plan.on(out0=result, in0=planes, in1=rows, in2=columns, in3=self.count)


def _ranges(extent: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of the ranges of an extent."""
    for start in range(0, extent, most):
        yield start, min(most, extent - start)


__all__ = ["MIN_EXTENT", "plan"]
