"""The C library's ``log1p``, bit for bit, which the tails of ziggurats go through.

glibc has Sun's, and computes that of f64 with fused operations where the processor has them, since 2.39 and in older
releases that were mended. Its f32 is Sun's until 2.40, and rounded correctly since. Other C libraries have others, in
place of which ours is taken: it is within an ulp of these.

With ``1 + x = 2**k (1 + f)``, the square root of 1/2 < 1 + f < that of 2, and ``s = f / (2 + f)``, the logarithm is
``k log(2) + f - f f / 2 + s (f f / 2 + R(s s))``, of which R is a polynomial of seven terms.

Algorithm and constants of fdlibm 5.3, s_log1p.c, as glibc has changed the order of R; freely granted: "Copyright (C)
1993 by Sun Microsystems, Inc. All rights reserved. Developed at SunPro, a Sun Microsystems, Inc. business. Permission
to use, copy, modify, and distribute this software is freely granted, provided that this notice is preserved."
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._ptx import math
from oxinp._ptx.types import f32, f64, i32, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

FUSED, PLAIN, OWN = "fused", "plain", "own"  # forms: Sun's, with fused operations or without, and ours
TINY = 2.0**-29  # below which two terms are the logarithm
FORMS = {f64: (FUSED, PLAIN, OWN), f32: (PLAIN, OWN)}


class _Constants(NamedTuple):
    """What Sun's algorithm has of a type; words are upper ones of f64, and all of f32.

    Attributes
    ----------
    ln2, ln2_low : float
        The logarithm of 2 in two parts, of which a small multiple of the first is exact.
    terms : tuple of float
        Of R.
    near : int
        The word of the largest ``|x|`` for which k is 0.
    fraction_bits : int
        Of a word.
    upper : int
        The fraction of the square root of 2, from which on 1 + f is below 1.
    bias : int
    """

    ln2: float
    ln2_low: float
    terms: tuple[float, ...]
    near: int
    fraction_bits: int
    upper: int
    bias: int


_CONSTANTS = {
    f64: _Constants(
        6.93147180369123816490e-01,
        1.90821492927058770002e-10,
        (
            6.666666666666735130e-01,
            3.999999999940941908e-01,
            2.857142874366239149e-01,
            2.222219843214978396e-01,
            1.818357216161805012e-01,
            1.531383769920937332e-01,
            1.479819860511658591e-01,
        ),
        0x3FD2BEC3,
        20,
        0x6A09E,
        1023,
    ),
    f32: _Constants(
        6.9313812256e-01,
        9.0580006145e-06,
        (
            6.6666668653e-01,
            4.0000000596e-01,
            2.8571429849e-01,
            2.2222198546e-01,
            1.8183572590e-01,
            1.5313838422e-01,
            1.4798198640e-01,
        ),
        0x3E95F61F,
        23,
        0x3504F7,
        127,
    ),
}


def log1p(k: Builder, x: Value, form: str) -> Value:
    """``log(1 + x)`` of the negative of a uniform number, of which ``1 + x`` is exact, in one of the forms."""
    if form == OWN:
        return math.log1p(k, x) if x.type is f64 else k.cvt(math.log1p(k, k.cvt(x, f64)), f32)
    return _Suns(k, x.type, is_fused=form == FUSED).log1p(x)


class _Suns:
    """Sun's algorithm in a kernel."""

    def __init__(self, k: Builder, type_: Type, *, is_fused: bool) -> None:
        self.k, self.type, self.is_fused, self.constants = k, type_, is_fused, _CONSTANTS[type_]

    def log1p(self, x: Value) -> Value:
        """The logarithm; where k is 0, what it adds changes nothing."""
        k, constants = self.k, self.constants
        exponent, f, is_small = self.reduced(x, self.word(k.abs(x)) <= constants.near)
        half_square = f * 0.5 * f
        low = exponent * constants.ln2_low
        s = f / (f + 2.0)
        product = s * (half_square + self.rest(s * s))
        few = half_square * self.multiply_add(-f, 2.0 / 3.0, 1.0) - low
        taken = k.where(is_small, few, half_square - (product + low))
        result = self.multiply_add(exponent, constants.ln2, f - taken)
        return k.where(k.abs(x) < TINY, x - x * x * 0.5, result)

    def reduced(self, x: Value, is_near: Value) -> tuple[Value, Value, Value]:
        """``k`` as a number, f, and whether that is below 2**-20 or as good as 0, which is asked where k is not 0."""
        k, constants = self.k, self.constants
        bits, one = constants.fraction_bits, constants.bias << constants.fraction_bits
        u = x + 1.0
        word = self.word(u)
        fraction = word & ((1 << bits) - 1)
        is_upper = fraction >= constants.upper
        normal = fraction | k.where(is_upper, k.const(one - (1 << bits), u32), k.const(one, u32))
        f = self.with_word(u, normal) - 1.0
        exponent = k.bitcast((word >> bits) + k.cast(is_upper, u32), i32) - constants.bias
        is_small = k.where(is_upper, ((1 << bits) - fraction) >> 2, fraction) == 0
        zero = k.const(0.0, self.type)
        return k.where(is_near, zero, k.cvt(exponent, self.type)), k.where(is_near, x, f), is_small & ~is_near

    def rest(self, z: Value) -> Value:
        """R."""
        first, *terms = self.constants.terms
        if self.type is f32:
            total = self.k.const(terms[-1], f32)
            for term in (*terms[-2::-1], first):
                total = self.multiply_add(z, total, term)
            return z * total
        square = z * z
        fourth = square * square
        pairs = [self.multiply_add(z, terms[i + 1], terms[i]) for i in (0, 2, 4)]
        total = self.multiply_add(z, first, square * pairs[0])
        total = self.multiply_add(fourth, pairs[1], total)
        return self.multiply_add(fourth * square, pairs[2], total)

    def multiply_add(self, a: Value, b: Any, c: Any) -> Value:
        """``a b + c``, rounded once or twice."""
        result: Value = self.k.fma(a, b, c) if self.is_fused else a * b + c
        return result

    def word(self, x: Value) -> Value:
        """The upper word of f64, all of f32."""
        k = self.k
        word: Value = k.unpack(k.bitcast(x, u64))[1] if self.type is f64 else k.bitcast(x, u32)
        return word

    def with_word(self, x: Value, word: Value) -> Value:
        """The number with that word."""
        k = self.k
        if self.type is f32:
            return k.bitcast(word, f32)
        return k.bitcast(k.pack(k.unpack(k.bitcast(x, u64))[0], word), f64)


__all__ = ["FORMS", "FUSED", "OWN", "PLAIN", "log1p"]
