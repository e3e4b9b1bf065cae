"""The C library's ``expm1``, bit for bit, which Pareto's and power distributions go through.

glibc has Sun's, in the forms that `libm_log1p` says. With ``x = k log(2) + r + c``, ``|r| <= log(2) / 2``, and
``h = r r / 2``, ``exp(r) - 1`` is ``r - (r e - h)``, of which e comes of a rational function of h; where k is not 0, c
is made good and the result scaled so that the 1 is taken away where it loses least.

Algorithm and constants of fdlibm 5.3, s_expm1.c, as glibc has changed the order of a sum; freely granted: "Copyright
(C) 1993 by Sun Microsystems, Inc. All rights reserved. Developed at SunPro, a Sun Microsystems, Inc. business.
Permission to use, copy, modify, and distribute this software is freely granted, provided that this notice is
preserved."
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxinp._kernels.random.libm_log1p import FUSED, OWN
from oxinp._ptx import math
from oxinp._ptx.types import f64, i32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

_LN2, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_PER_LN2 = 1.44269504088896338700e00
_TERMS = (
    -3.33333333333331316428e-02,
    1.58730158725481460165e-03,
    -7.93650757867487942473e-05,
    4.00821782732936239552e-06,
    -2.01099218183624371326e-07,
)
# Upper words of |x|: from which on k is 1 or -1, and what is next to it, and from which on results are -1
_HALF_LN2, _THREE_HALVES, _ALL_LOST = 0x3FD62E43, 0x3FF0A2B2, 0x4043687A
_LARGEST = 709.0


def expm1(k: Builder, x: Value, form: str) -> Value:
    """``exp(x) - 1`` in one of the forms of `libm_log1p.FORMS`; ours where that may be too large, or of NaN."""
    if form == OWN:
        own: Value = math.expm1(k, x)
        return own
    is_usual = x < _LARGEST
    result = k.var(_Suns(k, is_fused=form == FUSED).expm1(x))
    with k.when(~is_usual):
        result.set(math.expm1(k, x))
    return result.get()


class _Suns:
    """Sun's algorithm in a kernel."""

    def __init__(self, k: Builder, *, is_fused: bool) -> None:
        self.k, self.is_fused = k, is_fused

    def expm1(self, x: Value) -> Value:
        """The exponential less 1, of what is not too large."""
        k = self.k
        number, r, lost = self.reduced(x)
        half = r * 0.5
        h = r * half
        e = self.quotient(r, half, h)
        at_0 = r - self.multiply_add(r, e, -h)
        e = self.multiply_add(r, e - lost, -lost) - h
        result = k.where(number == 0, at_0, self.scaled(number, r, e))
        word = k.unpack(k.bitcast(k.abs(x), u64))[1]
        result = k.where((x < 0.0) & (word >= _ALL_LOST), k.const(-1.0, f64), result)
        return k.where(k.abs(x) < 2.0**-54, x, result)

    def reduced(self, x: Value) -> tuple[Value, Value, Value]:
        """``k``, i32, r, and c."""
        k = self.k
        word = k.unpack(k.bitcast(k.abs(x), u64))[1]
        half = k.bitcast((k.bitcast(x, u64) & (1 << 63)) | k.bitcast(k.const(0.5, f64), u64), f64)
        one = k.where(x < 0.0, k.const(-1.0, f64), k.const(1.0, f64))
        multiple = k.where(word < _THREE_HALVES, one, k.cvt(x * _PER_LN2 + half, f64, "rzi"))
        multiple = k.where(word < _HALF_LN2, k.const(0.0, f64), multiple)
        upper, lower = k.fma(multiple, -_LN2, x), multiple * _LN2_LOW
        r = upper - lower
        return k.cvt(multiple, i32, "rzi"), r, (upper - r) - lower

    def quotient(self, r: Value, half: Value, h: Value) -> Value:
        """What Sun's rational function is."""
        first, second, third, fourth, fifth = _TERMS
        square = h * h
        total = self.multiply_add(h, first, 1.0)
        total = self.multiply_add(square, self.multiply_add(h, third, second), total)
        total = self.multiply_add(square * square, self.multiply_add(h, fifth, fourth), total)
        t = self.multiply_add(-total, half, 3.0)
        result: Value = h * ((total - t) / self.multiply_add(-r, t, 6.0))
        return result

    def scaled(self, number: Value, r: Value, e: Value) -> Value:
        """The result where k is not 0."""
        k = self.k
        at_1 = k.where(r < -0.25, (e - (r + 0.5)) * -2.0, (r - e) * 2.0 + 1.0)
        inverse = self.times_power(k.const(1.0, f64), -number)
        whole = self.times_power(1.0 - (e - r), number) - 1.0
        few = self.times_power((1.0 - inverse) - (e - r), number)
        many = self.times_power((r - (e + inverse)) + 1.0, number)
        result = k.where(number < 20, few, many)
        result = k.where((number <= -2) | (number > 56), whole, result)
        return k.where(number == 1, at_1, k.where(number == -1, (r - e) * 0.5 - 0.5, result))

    def times_power(self, x: Value, number: Value) -> Value:
        """``2**number x``, of which neither is subnormal."""
        k = self.k
        low, high = k.unpack(k.bitcast(x, u64))
        return k.bitcast(k.pack(low, high + (k.bitcast(number, high.type) << 20)), f64)

    def multiply_add(self, a: Value, b: Any, c: Any) -> Value:
        """``a b + c``, rounded once or twice."""
        result: Value = self.k.fma(a, b, c) if self.is_fused else a * b + c
        return result


__all__ = ["expm1"]
