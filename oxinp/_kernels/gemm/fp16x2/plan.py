"""Products of f32 or c64 matrices as three products of halves: the passes around `fp16x2.kernel`; what makes them safe.

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
and the multiply-adds of `multistage` do the work. Both kernels are launched, nobody waits for the flag but they.

Either part of a complex product is one of real matrices, with both parts of A's elements in a row and of B's in a
column: all of the above is true of those, with twice the K. They are scaled together.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.fp16x2 import convert
from oxinp._kernels.gemm.fp16x2 import kernel as fp16x2_kernel
from oxinp._kernels.gemm.fp16x2.convert import ConvertSpec, largest, padded
from oxinp._kernels.gemm.fp16x2.kernel import Fp16x2Spec
from oxinp._kernels.plan import ALIGNMENT, Argument, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import Instr, Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import f16, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.operand import Source
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

MIN_EXTENT = 1024  # of real K, from which the guard proves what it says; of M and N, from which the passes pay
TINY_FACTOR = 512  # of the tiny ones in the guard
INFINITE = 0x7F800000
BLOCK = 1024


def half_nbytes(source: Source) -> int:
    """Return the size of hi and of lo."""
    return source.lines * padded(source.run) * len(source.type.parts) * f16.nbytes


def _larger(k: Builder, a: Value, b: Value) -> Value:
    result: Value = k.max(a, b)
    return result


def _zero(k: Builder) -> Value:
    return k.const(0, i64)


_MAGNITUDE = Instr(largest, i32, (0,))
_ZERO = Instr(_zero, i64, ())
_LARGEST = ReduceOp("largest", i32, 0, _larger)


@functools.cache
def _maximum(type_: Type) -> reduce.Reduction:
    """The largest magnitudes."""
    return reduce.Reduction([(type_, True)], (_MAGNITUDE,), 1, _LARGEST, i32)


@functools.cache
def _zeros() -> elementwise.Elementwise:
    """The counts, before any is taken."""
    return elementwise.Elementwise((), (_ZERO,), [(0, i64)])


def plan(a: Source, b: Source, native: Plan, device: Device) -> Plan:
    """Launches of C = A @ B in C order.

    Parameters
    ----------
    a, b : Source
    native : Plan
        Guarded, for the same product; the guard is its third input.
    device : Device
        Of compute capability 9.0.
    """
    scratch = Scratch()
    flag = scratch.take(u32.nbytes)
    passes = [_Passes(source, scratch, device) for source in (a, b)]
    steps = [each for operand in passes for each in operand.steps()]
    counted = [argument for each in passes for argument in (each.maxima, each.counts)]
    m, n, depth, parts = a.extent, b.extent, a.depth, len(a.type.parts)
    steps.append(Launch(make_guard(), (1, 1, 1), (flag, *counted), (m, n, depth * parts)))
    product = fp16x2_kernel.plan(Fp16x2Spec(a.major, b.major, n % 2 == 0, a.type), m, n, depth, device.num_sms)
    places = (*(each.maxima for each in passes), flag, *(half for each in passes for half in each.halves))
    nbytes = 2 * half_nbytes(a) + 2 * half_nbytes(b) + m * n * a.type.nbytes
    work = Work((2 if parts == 1 else 8) * m * n * depth, nbytes)
    steps += product.with_work(work).on(**{f"in{i}": place for i, place in enumerate(places)})
    return scratch.plan((*steps, *native.on(in2=flag)), is_guarded=True)


class _Passes:
    """What happens to one operand: the largest magnitudes, the counts, the halves."""

    def __init__(self, source: Source, scratch: Scratch, device: Device) -> None:
        self.source, self.device = source, device
        self.maxima = scratch.take(source.extent * i32.nbytes)
        self.counts = scratch.take(source.extent * i64.nbytes)
        self.reduction = None if source.major == "k" else self.maximum()
        # Partial results of the reduction lie where the halves come later.
        needed = self.reduction.scratch_nbytes if self.reduction is not None else 0
        high = scratch.take(half_nbytes(source))
        self.halves = (high, scratch.take(max(half_nbytes(source), needed - half_nbytes(source))))

    def maximum(self) -> Plan:
        """The reduction along K."""
        source = self.source
        operand, output = Operand(source.type, (source.pitch, 1), source.alignment), Operand(i32, (1,), ALIGNMENT)
        return _maximum(source.type).plan((source.lines, source.run), (0,), (operand,), output, self.device)

    def steps(self) -> Iterator[Step]:
        """Yield the launches."""
        source, x = self.source, Argument(self.source.buffer)
        if self.reduction is not None:
            yield from self.reduction.on(out0=self.maxima, in0=x, scratch=self.halves[0])
            yield from _zeros().plan_flat(source.extent, (ALIGNMENT,), self.device).on(out0=self.counts)
        is_vector = source.alignment % 16 == 0 and source.pitch % convert.CHUNK == 0 and source.run % convert.CHUNK == 0
        spec = ConvertSpec(source.type, source.major == "k", is_vector)
        high, low = self.halves
        yield from convert.plan(spec, source.lines, source.run, source.pitch).on(
            out0=high, out1=low, out2=self.maxima, out3=self.counts, in0=x
        )


@functools.cache
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


__all__ = ["MIN_EXTENT", "make_guard", "plan"]
