"""sin, cos and tan: `reduction`, then polynomials on [-pi/4, pi/4].

The reduced argument is a sum ``r + low``. ``sin = r + (r z S(z) + low)`` and ``cos = 1 + z C(z)`` with
``z = (r + low)**2`` rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.math.floats import polynomial, quotient, top_word, with_top_word
from oxinp._ptx.math.reduction import reduced, rounded
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

# Of z = r**2: the quotient (sin(r) / r - 1) / z.
SIN_F32 = (
    -0.166666672,
    0.0083333794,
    -0.00019853015,
    2.83151235e-06,
)
SIN_F64 = (
    -0.1666666666666663,
    0.0083333333333217869,
    -0.0001984126982928095,
    2.7557313501561096e-06,
    -2.5050727252098531e-08,
    1.5894951091626411e-10,
)
# Of z = r**2: the quotient (cos(r) - 1) / z.
COS_F32 = (
    -0.5,
    0.0416666456,
    -0.00138873013,
    2.44306684e-05,
)
COS_F64 = (
    -0.5,
    0.041666666666666595,
    -0.0013888888888873292,
    2.4801587288935279e-05,
    -2.7557314187299174e-07,
    2.0875699976468702e-09,
    -1.135840074050384e-11,
)

SIN = {f32: SIN_F32, f64: SIN_F64}
COS = {f32: COS_F32, f64: COS_F64}


@widened
def sin(k: Builder, x: Value) -> Value:
    """Sine; at most 0.9 ulp from the true value for every argument."""
    r, low, number = reduced(k, x)
    # reduction turns -0 into 0
    return k.where(x == 0, x, quarter(k, r, low, number))


@widened
def cos(k: Builder, x: Value) -> Value:
    """Cosine; at most 0.9 ulp from the true value for every argument."""
    r, low, number = reduced(k, x)
    return quarter(k, r, low, number + 1)


def sine_and_cosine(k: Builder, x: Value) -> tuple[Value, Value]:
    """Both, as exact as each; the argument is reduced once."""
    r, low, number = reduced(k, x)
    return _turned(k, x, *octant(k, r, low), number)


def rounded_sine_and_cosine(k: Builder, x: Value) -> tuple[Value, Value]:
    """Both, in fewer instructions; at most 1.5 ulp from the true values."""
    r, number = rounded(k, x)
    z = r * r
    sine = k.fma(r * z, polynomial(k, z, SIN[x.type]), r)
    return _turned(k, x, sine, k.fma(z, polynomial(k, z, COS[x.type]), 1.0), number)


def _turned(k: Builder, x: Value, sine: Value, cosine: Value, number: Value) -> tuple[Value, Value]:
    """Sine and cosine of `x`, of which those of ``x - number * pi / 2`` are given."""
    is_odd = (number & 1) != 0
    real = negated(k, k.where(is_odd, sine, cosine), (number + 1) & 2, 30)
    imag = negated(k, k.where(is_odd, cosine, sine), number & 2, 30)
    return k.where(x == 0, x, imag), real


def quarter(k: Builder, r: Value, low: Value, number: Value) -> Value:
    """``sin(number * pi / 2 + r + low)``."""
    sine, cosine = octant(k, r, low)
    return negated(k, k.where((number & 1) != 0, cosine, sine), number & 2, 30)


def octant(k: Builder, r: Value, low: Value) -> tuple[Value, Value]:
    """Sine and cosine of ``r + low`` in [-pi/4, pi/4]."""
    z = k.fma(r, r, (r + r) * low)
    sine = r + k.fma(r * z, polynomial(k, z, SIN[r.type]), low)
    return sine, k.fma(z, polynomial(k, z, COS[r.type]), 1.0)


def negated(k: Builder, x: Value, bit: Value, shift: int) -> Value:
    """`x`, negated where `bit` is set, which `shift` brings to the place of the sign."""
    return with_top_word(k, x, top_word(k, x) ^ (bit << shift))


@widened
def tan(k: Builder, x: Value) -> Value:
    """Tangent; at most 0.85 ulp from the true value for every argument.

    Method: sine and cosine of the reduced argument as sums of two numbers, their quotient with its residual.
    """
    r, low, number = reduced(k, x)
    z = r * r
    z_low = k.fma(r, r, -z) + (r + r) * low
    half = z * 0.5
    # the derivative of the sine is the cosine, about 1 - z / 2
    tail = k.fma(r * z, polynomial(k, z, SIN[x.type]), k.fma(-low, half, low))
    sine = r + tail
    sine_low = (r - sine) + tail
    start = 1.0 - half
    rest = k.fma(z * z, polynomial(k, z, COS[x.type][1:]), ((1.0 - start) - half) - z_low * 0.5)
    cosine = start + rest
    cosine_low = (start - cosine) + rest
    is_odd = (number & 1) != 0
    above, above_low = k.where(is_odd, cosine, sine), k.where(is_odd, cosine_low, sine_low)
    below, below_low = k.where(is_odd, sine, cosine), k.where(is_odd, sine_low, cosine_low)
    result = negated(k, quotient(k, above, below, above_low, below_low), number & 1, 31)
    return k.where(x == 0, x, result)
