"""Products of f32 matrices as three products of halves: the passes around `gemm_split`, and what makes them safe.

Every row of A and every column of B is scaled by a power of two, so that its largest magnitude is in [2**14, 2**15).
Then hi = f16(x), lo = f16(x - hi), and the product is that of hi and hi, lo and hi, hi and lo, summed up in f32.

What it errs by, in units of u = 2**-24 and S = sum |a| |b| (scaled, as all here; K the number of terms):

* hi + lo differs from x by at most 2 u |x|, or 2**-25 where |x| < 2**-2; the product of lo and lo is at most
  4 u |a b|. Together 8 u S, and 2**-25 * 2**15 = 2**-10 for each of the `tiny` nonzero elements below 2**-2 of a row or
  column.
* The tensor units cut off below 2**-22 of the partial sum in each of 12 instructions until these are added to the
  totals, K / 64 of them, each rounded once: at most (48 + K / 64) u S.

f32 sums are allowed K u S. From K = 1024 on the terms in S take less than a tenth of that; the others are compared to
half of it, with a lower bound of S: if at most `small` elements of a row are below 2**3, and likewise of a column,
then at least K minus both are products of two large ones, 2**6 or more each. The guard is::

    2**-10 (tiny_a + tiny_b) <= K u / 2 * 2**6 (K - small_a - small_b)

for the most of any row and any column; lines of zeros do not count, their products are exact. One thing more: fused
multiply-adds are exact to 1 u where there are few terms, as in products with diagonal or permutation matrices, so at
least K / 8 of the terms have to be large. Where either fails, or where anything is infinite or NaN, the flag is set,
and the multiply-adds of `gemm_any` do the work. Both kernels are launched, nobody waits for the flag but they.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels import elementwise, gemm_split, reduce
from oxinp._kernels.gemm_split import SplitGemmSpec, padded
from oxinp._kernels.problem import Instr, Operand, Output, ReduceOp, Work
from oxinp._kernels.scaling import scaled, scaling_exponent
from oxinp._kernels.steps import ALIGNMENT, Argument, Scratch, Step, StepsPlan, step
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f16, f32, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.problem import Device, Launch
    from oxinp._ptx.value import Value

MIN_EXTENT = 1024  # of K, from which the guard proves what it says; of M and N, from which the passes pay
SMALL, TINY = 2.0**3, 2.0**-2
TINY_FACTOR = 512  # of the tiny ones in the guard
INFINITE = 0x7F800000
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class Source:
    """An f32 operand: `lines` of `run` elements that follow each other, `pitch` elements from one to the next.

    Attributes
    ----------
    name : str
        ``"a"`` or ``"b"``.
    major : str
        Whether the runs go along K, ``"k"``, or along M or N, ``"mn"``.
    alignment : int
        Of the pointer.
    """

    name: str
    major: str
    lines: int
    run: int
    pitch: int
    alignment: int

    @property
    def scaled_axis(self) -> int:
        """The axis along which scales differ."""
        return 0 if self.major == "k" else 1

    @property
    def num_scales(self) -> int:
        """Rows of A or columns of B."""
        return (self.lines, self.run)[self.scaled_axis]

    @property
    def half_nbytes(self) -> int:
        """Size of hi and of lo."""
        return self.lines * padded(self.run) * f16.nbytes


def _magnitude(k: Builder, x: Value) -> Value:
    return k.bitcast(x, i32) & 0x7FFFFFFF


def _larger(k: Builder, a: Value, b: Value) -> Value:
    larger: Value = k.max(a, b)
    return larger


def _sum(k: Builder, a: Value, b: Value) -> Value:
    del k
    return a + b


def _high(k: Builder, x: Value, bits: Value) -> Value:
    return k.cast(_scaled(k, x, bits), f16)


def _low(k: Builder, x: Value, bits: Value) -> Value:
    value = _scaled(k, x, bits)
    return k.cast(value - k.cast(k.cast(value, f16), f32), f16)


def _scaled(k: Builder, x: Value, bits: Value) -> Value:
    return scaled(k, x, scaling_exponent(k, bits))


def _counted(k: Builder, x: Value, bits: Value) -> Value:
    """1 for an element below `SMALL`, and 2**32 more for one below `TINY` that is not 0."""
    value = k.abs(_scaled(k, x, bits))
    is_tiny = (value < TINY) & (_magnitude(k, x) != 0)
    small, tiny = (k.cast(k.where(p, k.const(1, i32), k.const(0, i32)), i64) for p in (value < SMALL, is_tiny))
    return small + k.shl(tiny, 32)


def _zero(k: Builder) -> Value:
    return k.const(0, f16)


_MAGNITUDE = Instr(_magnitude, i32, (0,))
_COUNTED = Instr(_counted, i64, (0, 1))
_HALVES = (Instr(_high, f16, (0, 1)), Instr(_low, f16, (0, 1)))
_ZERO = Instr(_zero, f16, ())
_LARGEST = ReduceOp("largest", i32, 0, _larger)
_COUNT = ReduceOp("count", i64, 0, _sum)


def plan(a: Source, b: Source, native: Launch, device: Device) -> StepsPlan:
    """Launches of C = A @ B in C order.

    Parameters
    ----------
    a, b : Source
    native : Launch
        Guarded, for the same product.
    device : Device
        Of compute capability 9.0.
    """
    scratch = Scratch()
    flag = scratch.take(u32.nbytes)
    passes = [_Passes(source, scratch, device) for source in (a, b)]
    steps = [each for operand in passes for each in operand.steps()]
    counted = [argument for each in passes for argument in (each.maxima, each.counts)]
    m, n = a.num_scales, b.num_scales
    depth = a.run if a.major == "k" else a.lines
    steps.append(Step(make_guard(), (1, 1, 1), (flag, *counted), (m, n, depth)))
    launch = gemm_split.plan(SplitGemmSpec(a.major, b.major, n % 2 == 0), m, n, depth, device.num_sms)
    maps = [
        half._replace(map=spec)
        for each, spec in zip(passes, (launch.a_map, launch.b_map), strict=True)
        for half in each.halves
    ]
    maxima = [each.maxima for each in passes]
    work = Work(2 * m * n * depth, 2 * f16.nbytes * (m + n) * depth + m * n * f32.nbytes)
    steps.append(Step(launch.kernel, launch.grid, (Argument("c"), *maxima, flag, *maps), launch.constants, work))
    pointers = (Argument("c"), Argument("a"), Argument("b"), flag)
    steps.append(Step(native.kernel, native.grid, pointers, native.constants))
    return StepsPlan(tuple(steps), scratch.nbytes)


class _Passes:
    """What happens to one operand: the largest magnitudes, the counts, the halves."""

    def __init__(self, source: Source, scratch: Scratch, device: Device) -> None:
        self.source, self.device = source, device
        self.maxima = scratch.take(source.num_scales * i32.nbytes)
        self.counts = scratch.take(source.num_scales * i64.nbytes)
        self.reductions = [self.reduction(*what) for what in ((_MAGNITUDE, _LARGEST), (_COUNTED, _COUNT))]
        # Partial results of the reductions lie where the halves come later.
        needed = max(reduction.scratch_nbytes for reduction in self.reductions)
        high = scratch.take(source.half_nbytes)
        self.halves = (high, scratch.take(max(source.half_nbytes, needed - source.half_nbytes)))

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """The matrix, and the scales spread over it."""
        source = self.source
        spread = tuple(int(axis == source.scaled_axis) for axis in range(2))
        return Operand(f32, (source.pitch, 1), source.alignment), Operand(i32, spread, ALIGNMENT)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the source."""
        return self.source.lines, self.source.run

    def reduction(self, instr: Instr, op: ReduceOp) -> reduce.ReducePlan:
        """The reduction along K."""
        inputs = self.operands[: len(instr.args)]
        output = Operand(op.acc, (1,), ALIGNMENT)
        axis = 1 - self.source.scaled_axis
        return reduce.plan(self.shape, (axis,), inputs, (instr,), len(inputs), op, output, self.device)

    def steps(self) -> Iterator[Step]:
        """Yield the launches."""
        x = Argument(self.source.name)
        for plan, output, inputs in zip(
            self.reductions, (self.maxima, self.counts), ((x,), (x, self.maxima)), strict=True
        ):
            scratch = self.halves[:1] if plan.scratch_nbytes else ()
            yield step(plan.launches[0], (output, *scratch, *inputs))
            for launch in plan.launches[1:]:
                yield step(launch, (output, *scratch))
        pitch = padded(self.source.run)
        half = Operand(f16, (pitch, 1), ALIGNMENT)
        outputs = [Output(number, half) for number in (2, 3)]
        yield step(
            elementwise.plan(self.shape, self.operands, _HALVES, outputs, self.device), (*self.halves, x, self.maxima)
        )
        if self.source.major == "k" and pitch != self.source.run:
            yield self.padding(pitch)

    def padding(self, pitch: int) -> Step:
        """Zeros at the ends of runs along K."""
        run = self.source.run
        end = Operand(f16, (pitch, 1), math.gcd(ALIGNMENT, run * f16.nbytes))
        launch = elementwise.plan(
            (self.source.lines, pitch - run), (), (_ZERO,), [Output(0, end), Output(0, end)], self.device
        )
        return step(launch, [half._replace(offset=half.offset + run * f16.nbytes) for half in self.halves])


@cache
@retraceable
def make_guard() -> Kernel:
    """The kernel of one block that sets the flag: to 1 where halves would not do, else to 0.

    Parameters of the kernel: pointers to the flag, to largest magnitudes and counts of A's rows and of B's columns,
    then as u32 m, n and K.
    """
    k = Builder("split_guard", block=BLOCK)
    flag = k.pointer("flag", u32, "w")
    pointers = [(k.pointer(f"{name}_max", i32, "r"), k.pointer(f"{name}_counts", i64, "r")) for name in ("a", "b")]
    extents = [k.scalar(name, u32) for name in ("m", "n")]
    depth = k.scalar("depth", u32)
    # Per operand the largest magnitude, the most small and the most tiny elements.
    shared = k.shared(u32, (6,))
    with k.when(k.tid < 6):
        shared[k.tid] = k.const(0, u32)
    k.barrier()
    for number, ((maxima, counts), extent) in enumerate(zip(pointers, extents, strict=True)):
        most = [k.var(0, u32) for _ in range(3)]
        with k.range(k.tid, extent, BLOCK) as line:
            magnitude, count = k.bitcast(maxima[line], u32), k.bitcast(counts[line], u64)
            count = k.where(magnitude == 0, k.const(0, u64), count)
            for var, value in zip(most, (magnitude, k.cast(count, u32), k.cast(k.shr(count, 32), u32)), strict=True):
                var.set(k.max(var, value))
        for i, var in enumerate(most):
            shared.atomic("max", 3 * number + i, var)
    k.barrier()
    with k.when(k.tid == 0):
        (a_max, a_small, a_tiny), (b_max, b_small, b_tiny) = (
            (shared.load(i)[0] for i in range(3)),
            (shared.load(3 + i)[0] for i in range(3)),
        )
        small, tiny, wide = (k.cast(value, u64) for value in (a_small + b_small, a_tiny + b_tiny, depth))
        room = k.where(small < wide, wide - small, 0) * wide
        is_unfit = (tiny * TINY_FACTOR > room) | (small * 8 > wide * 7) | (k.max(a_max, b_max) >= INFINITE)
        flag[0] = k.where(is_unfit, k.const(1, u32), k.const(0, u32))
    return k.build()


__all__ = ["MIN_EXTENT", "Source", "make_guard", "plan"]
