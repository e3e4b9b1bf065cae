"""power.

``|x|**y = 2**(y log2 |x|)``, the logarithm as a sum of two numbers and to a dozen bits more than a number has: with
``s = f / (2 + f)`` and ``z = s**2``, such sums as well, ``log2(1 + f) = s (2 + z (2/3 + z P(z))) / ln 2``, where only P
is a polynomial in ordinary arithmetic. For such sums see Muller et al., Handbook of Floating-Point Arithmetic (2018),
chapter 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.math.exponential import EXP2_F32, EXP2_F64
from oxinp._ptx.math.floats import as_float, polynomial, quotient_sum, scale
from oxinp._ptx.math.logarithm import split
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, f64, i32
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

SQRT_HALF = {f32: 0x3F3504F3, f64: 0x3FE6A09E}  # top words

# 2 / ln 2 and a third of it, in two parts
DOUBLE = {f32: (2.885390043258667, 3.851926067000022e-08), f64: (2.8853900817779268, 4.0710547481862066e-17)}
THIRD = {f32: (0.9617967009544373, -7.028461812552678e-09), f64: (0.9617966939259756, 5.0577616648125907e-17)}

# Of z = s**2: the quotient (log2((1 + s) / (1 - s)) / s - (2 + 2 z / 3) / log(2)) / z**2.
LOG2_F32 = (
    0.577077985,
    0.412205935,
    0.320011616,
    0.281721532,
)
LOG2_F64 = (
    0.57707801635558509,
    0.41219858311134611,
    0.3205988979126238,
    0.26230819868360422,
    0.22195226828524747,
    0.19240141206058617,
    0.1684495205908195,
    0.17283511875564794,
)

LOG2 = {f32: LOG2_F32, f64: LOG2_F64}
EXP2 = {f32: EXP2_F32, f64: EXP2_F64}
RANGE = {f32: (-160.0, 130.0), f64: (-1085.0, 1030.0)}  # of exponents: beyond, results are 0 and infinite


def log2_parts(k: Builder, x: Value) -> tuple[Value, Value]:
    """Base-2 logarithm of a positive finite number as a sum of two."""
    type = x.type
    f, number = split(k, x, SQRT_HALF)
    d = f + 2.0
    d_low = (2.0 - d) + f
    s, s_low = quotient_sum(k, f, d, None, d_low)
    z = s * s
    z_low = k.fma(s, s, -z) + (s + s) * s_low
    (double, double_low), (third, third_low) = DOUBLE[type], THIRD[type]
    tail = z * polynomial(k, z, LOG2[type])
    c = tail + third
    c_low = ((third - c) + tail) + third_low
    e = z * c
    e_low = k.fma(z, c, -e) + k.fma(z, c_low, z_low * c)
    g = e + double
    g_low = ((double - g) + e) + (e_low + double_low)
    log = s * g
    log_low = k.fma(s, g, -log) + k.fma(s, g_low, s_low * g)
    whole = as_float(k, number, type)
    total = whole + log
    return total, ((whole - total) + log) + log_low


def exp2_of_sum(k: Builder, x: Value, low: Value) -> Value:
    """``2**(x + low)``; 0 and infinity far enough out."""
    lowest, highest = RANGE[x.type]
    multiple = k.cvt(x, x.type, "rni")
    part = x - multiple
    r = part + low
    r_low = (part - r) + low
    slope, *rest = EXP2[x.type]
    tail = k.fma(r, slope, k.fma(r * r, polynomial(k, r, rest), r_low * slope))
    result = scale(k, tail + 1.0, k.cvt(multiple, i32, "rni"))
    return k.where(x >= highest, float("inf"), k.where(x <= lowest, 0.0, result))


@widened
def power(k: Builder, x: Value, y: Value) -> Value:
    """``x**y`` with IEEE 754's special cases (pow); at most 0.9 ulp from the true value.

    Method: see the module.
    """
    infinity = float("inf")
    magnitude = k.abs(x)
    log, log_low = log2_parts(k, magnitude)
    log = k.where(magnitude < infinity, log, magnitude)
    log = k.where(magnitude == 0, -infinity, log)
    product = y * log
    result = exp2_of_sum(k, product, k.fma(y, log, -product) + y * log_low)
    result = k.where(magnitude == 1, 1.0, result)
    half = y * 0.5
    is_whole = k.cvt(y, y.type, "rzi") == y
    is_odd = is_whole & (k.cvt(half, y.type, "rzi") != half)
    result = k.where(is_odd, k.copysign(x, result), result)
    result = k.where((x < 0) & (x > -infinity) & ~is_whole, float("nan"), result)
    return k.where((x == 1) | (y == 0), 1.0, result)
