"""Plans of f32 and c64 products by fp16x2: conversions, the wgmma kernel, and the guard that makes the result safe.

Every row of A and every column of B is scaled by a power of two, so that its largest magnitude is in [2**14, 2**15).
Then hi = f16(x), lo = f16(x - hi), and the product is the sum of hi hi, lo hi and hi lo, in f32.

The error, in units of u = 2**-24 and S = sum |a| |b| (scaled, as all here; K the number of terms):

* hi + lo differs from x by at most 2 u |x|, or 2**-25 where |x| < 2**-2; the product of lo and lo is at most
  4 u |a b|. Together 8 u S, and 2**-25 * 2**15 = 2**-10 for each of the `tiny` nonzero elements below 2**-2 of a row or
  column.
* wgmma truncates below 2**-22 of the partial sum in each of the 12 instructions between additions to the totals, of
  which there are K / 64, each rounded once: at most (48 + K / 64) u S.

f32 sums may err by K u S. From K = 1024 on, the terms in S are less than a tenth of that. The others are compared with
half of it, by a lower bound of S: if at most `small` elements of a row are below 2**3, and likewise of a column, then
at least K minus both counts are products of two large elements, 2**6 or more each. The guard is::

    2**-10 (tiny_a + tiny_b) <= K u / 2 * 2**6 (K - small_a - small_b)

with the largest counts of any row and any column; lines of zeros do not count, as their products are exact. Since fused
multiply-adds are exact to 1 u where there are few terms, as in products with diagonal or permutation matrices, at least
K / 8 of the terms have to be large, too. If the guard fails, or if anything is infinite or NaN, it sets a flag, and the
multistage kernel computes the product by multiply-adds. Both kernels are always launched and read the flag; the host
does not.

Either part of a complex product is a product of real matrices, with both parts of A's elements in a row and of B's in a
column: all of the above holds for those, with twice the K. Both parts are scaled together.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise import plan as elementwise
from oxinp._kernels.gemm.fp16x2 import convert, guard
from oxinp._kernels.gemm.fp16x2 import kernel as fp16x2_kernel
from oxinp._kernels.gemm.fp16x2.convert import ConvertSpec, largest, padded
from oxinp._kernels.gemm.fp16x2.guard import Fp16x2GuardSpec
from oxinp._kernels.gemm.fp16x2.kernel import Fp16x2Spec
from oxinp._kernels.plan import ALIGNMENT, Argument, Launch, Plan, Scratch, Step, Work, inputs
from oxinp._kernels.problem import Instr, Operand, ReduceOp
from oxinp._kernels.reduce import plan as reduce
from oxinp._ptx.types import f16, i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.choice import Device
    from oxinp._kernels.gemm.operand import Source
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

MIN_EXTENT = 1024  # of real K, as the proof of the guard needs; of M and N, from which the conversions pay


def term_nbytes(source: Source) -> int:
    """Return the bytes of hi, and of lo."""
    return source.lines * padded(source.run) * len(source.type.parts) * f16.nbytes


def _larger(k: Builder, a: Value, b: Value) -> Value:
    result: Value = k.max(a, b)
    return result


def _zero(k: Builder) -> Value:
    return k.const(0, i64)


_MAGNITUDE = Instr(largest, i32, (0,))
_ZERO = Instr(_zero, i64, ())
_LARGEST = ReduceOp("largest", i32, 0, _larger)


@cache
def _maximum(type_: Type) -> reduce.Reduction:
    """Return the reduction to the largest magnitudes."""
    return reduce.Reduction([(type_, True)], (_MAGNITUDE,), 1, _LARGEST, i32)


@cache
def _zeros() -> elementwise.Elementwise:
    """Return the zeros that counts begin with."""
    return elementwise.Elementwise((), (_ZERO,), [(0, i64)])


_GUARD = Fp16x2GuardSpec()
_PLACES = tuple([argument.buffer for argument in inputs(7)])
_product_spec, _convert_spec = cache(Fp16x2Spec), cache(ConvertSpec)


def plan(a: Source, b: Source, fallback: Plan, device: Device) -> Plan:
    """Return the plan of C = A @ B in C order.

    Parameters
    ----------
    a, b : Source
    fallback : Plan
        The guarded multistage kernel of the same product; its third input is the guard.
    device : Device
        Of compute capability 9.0.
    """
    scratch = Scratch()
    flag = scratch.take(u32.nbytes)
    conversions = [_ConvertedOperand(source, scratch, device) for source in (a, b)]
    steps = [each for operand in conversions for each in operand.steps()]
    counted = [argument for each in conversions for argument in (each.maxima, each.counts)]
    m, n, depth, parts = a.extent, b.extent, a.depth, len(a.type.parts)
    steps.append(Launch(guard.make(_GUARD), (1, 1, 1), (flag, *counted), (m, n, depth * parts)))
    spec = _product_spec(a.major, b.major, n % 2 == 0, a.type)
    product = fp16x2_kernel.plan(spec, m, n, depth, device.num_sms)
    left, right = conversions
    places = (left.maxima, right.maxima, flag, *left.terms, *right.terms)
    nbytes = 2 * left.term_nbytes + 2 * right.term_nbytes + m * n * a.type.nbytes
    kernel, grid, arguments, constants, _ = product.launch
    launch = Launch(kernel, grid, arguments, constants, Work((2 if parts == 1 else 8) * m * n * depth, nbytes))
    steps.append(launch.on(dict(zip(_PLACES, places, strict=True))))
    return scratch.plan((*steps, *fallback.on(in2=flag)), is_guarded=True)


class _ConvertedOperand:
    """The conversion of one operand: largest magnitudes, counts of small elements, and the terms hi and lo."""

    def __init__(self, source: Source, scratch: Scratch, device: Device) -> None:
        self.source, self.device = source, device
        self.maxima = scratch.take(source.extent * i32.nbytes)
        self.counts = scratch.take(source.extent * i64.nbytes)
        self.reduction = None if source.major == "k" else self.maximum()
        # The reduction's workspace is where the terms are stored later.
        needed = self.reduction.scratch_nbytes if self.reduction is not None else 0
        self.term_nbytes = nbytes = term_nbytes(source)
        high = scratch.take(nbytes)
        self.terms = (high, scratch.take(max(nbytes, needed - nbytes)))

    def maximum(self) -> Plan:
        """Return the reduction along K to the largest magnitudes."""
        source = self.source
        operand, output = Operand(source.type, (source.pitch, 1), source.alignment), Operand(i32, (1,), ALIGNMENT)
        return _maximum(source.type).plan((source.lines, source.run), (0,), (operand,), output, self.device)

    def steps(self) -> Iterator[Step]:
        """Yield the launches."""
        source, x = self.source, Argument(self.source.buffer)
        if self.reduction is not None:
            yield from self.reduction.on(out0=self.maxima, in0=x, scratch=self.terms[0])
            yield from _zeros().plan_line(source.extent, (1,), (ALIGNMENT,), self.device).on(out0=self.counts)
        is_vector = source.alignment % 16 == 0 and source.pitch % convert.CHUNK == 0 and source.run % convert.CHUNK == 0
        spec = _convert_spec(source.type, source.major == "k", is_vector)
        high, low = self.terms
        yield from convert.plan(spec, source.lines, source.run, source.pitch).on(
            out0=high, out1=low, out2=self.maxima, out3=self.counts, in0=x
        )


__all__ = ["MIN_EXTENT", "plan"]
