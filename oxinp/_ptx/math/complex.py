"""Elementary functions of complex numbers, c64 and c128, in the precision of their parts.

They are put together from the real ones by the textbook's formulas, arranged so that nothing overflows, underflows or
cancels on the way; a docstring says how far either part may be from the true value, in ulp of the larger part. Special
values are those of C99, annex G, as in NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oxinp._ptx.math.exponential import exp as real_exp
from oxinp._ptx.math.exponential import exp2_parts, exp_parts
from oxinp._ptx.math.exponential import expm1 as real_expm1
from oxinp._ptx.math.floats import FORMATS, power_of_two, top_word, with_top_word
from oxinp._ptx.math.hyperbolic import cosh as real_cosh
from oxinp._ptx.math.hyperbolic import sinh as real_sinh
from oxinp._ptx.math.inverse_trigonometric import arctan2
from oxinp._ptx.math.logarithm import log as real_log
from oxinp._ptx.math.logarithm import log1p as real_log1p
from oxinp._ptx.math.roots import hypot
from oxinp._ptx.math.trigonometric import rounded_sine_and_cosine, sine_and_cosine
from oxinp._ptx.math.trigonometric import sin as real_sin
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._ptx.builder import Builder

INFINITY = float("inf")
# From here on, exp overflows or its inverse underflows: the power is split into two halves.
STEEP = {f32: 80.0, f64: 700.0}
# Up to here the rounding error of an angle turns by so little that its square does not count.
FAR = {f32: 2.0**11, f64: 2.0**26}
# log(2) in two parts
LN_2 = {f32: (0.6931471824645996, -1.9046542121259336e-09), f64: (0.6931471805599453, 2.3190468138462996e-17)}
# From here on, tanh is 1.
FLAT = {f32: 20.0, f64: 50.0}
# Beyond these, moduli are scaled: bounds of what is not, exponents for below and above.
MODULI = {f32: (2.0**-60, 2.0**60, 60, -62), f64: (2.0**-500, 2.0**500, 520, -510)}


def conjugate(k: Builder, z: Any) -> Value:
    """The imaginary part negated."""
    return k.compound(z.type, z.real, -z.imag)


def square(k: Builder, z: Any) -> Value:  # noqa: ARG001 - every function takes the builder
    """``z * z``."""
    value: Value = z * z
    return value


def reciprocal(k: Builder, z: Any) -> Value:
    """``1 / z`` in NumPy's own steps (Smith), bit for bit."""
    is_real = k.abs(z.imag) <= k.abs(z.real)
    large, small = k.where(is_real, z.real, z.imag), k.where(is_real, z.imag, z.real)
    ratio = small / large
    scale = large + small * ratio
    one = k.const(1, ratio.type)
    return k.compound(z.type, k.where(is_real, one, ratio) / scale, k.where(is_real, -ratio, -one) / scale)


def sign(k: Builder, z: Any) -> Value:
    """``z / abs(z)``, and 0 of 0; within 2 ulp where `abs(z)` is normal. Infinities have a direction, or none: NaN."""
    factor = k.where(k.max(k.abs(z.real), k.abs(z.imag)) > 1, k.const(0.25, z.real.type), 1.0)
    x, y = z.real * factor, z.imag * factor
    size = hypot(k, x, y)
    zero, one = k.const(0, size.type), k.const(1, size.type)
    is_zero, is_infinite = size == 0, size == INFINITY

    def part(own: Value, other: Value) -> Value:
        quotient = k.where(is_zero, zero, own / size)
        both = k.where(k.abs(other) == INFINITY, k.const(float("nan"), size.type), k.copysign(own, one))
        far = k.where(k.abs(own) == INFINITY, both, zero)
        return k.where(is_infinite, far, quotient)

    return k.compound(z.type, part(x, y), part(y, x))


def exp(k: Builder, z: Any) -> Value:
    """``e**z``; within 3 ulp, 5 where the power is near overflow or underflow.

    Method: where the power is a normal number, as most are, it is scaled by an addition to its exponent.
    """
    x, y = z.real, z.imag
    power, number = exp_parts(k, _bounded(k, x, 1.0))
    sine, cosine = rounded_sine_and_cosine(k, y)
    scaled = with_top_word(k, power, top_word(k, power) + (number << FORMATS[x.type].shift))
    real, imag = k.var(cosine * scaled), k.var(sine * scaled)
    with k.when(~((k.abs(x) < STEEP[x.type]) & (k.abs(y) < INFINITY))):
        grown: Any = _grown(k, z, power, number, k.compound(z.type, cosine, sine))
        real.set(grown.real)
        imag.set(grown.imag)
    return k.compound(z.type, real.get(), imag.get())


def _bounded(k: Builder, x: Value, unit: float) -> Value:
    """`x`, where powers are not infinite whatever they are multiplied by; `unit` is log(base)."""
    bound = k.const(int(2 * FORMATS[x.type].bias * math.log(2) / unit), x.type)
    return k.where(k.abs(x) < bound, x, k.copysign(x, bound))


def _grown(k: Builder, z: Any, power: Value, number: Value, turned: Any) -> Value:
    """A direction times ``power * 2**number``, which is that of the real part."""
    x, y = z.real, z.imag
    half = number >> 1
    first, rest = power * power_of_two(k, half, x.type), power_of_two(k, number - half, x.type)
    real, imag = k.var(turned.real * first * rest), k.var(turned.imag * first * rest)
    is_angle = k.abs(y) < INFINITY
    with k.when(~(is_angle & (k.abs(x) < INFINITY))):
        zero = k.const(0, x.type)
        is_nothing = x == -INFINITY
        vanishes = is_nothing & ~is_angle
        far = k.where(is_nothing, zero, x)
        real.set(k.where(vanishes, zero, k.where((x == INFINITY) & ~is_angle, x, far * turned.real)))
        imag.set(k.where(vanishes, k.copysign(y, zero), k.where(y == 0, y, far * turned.imag)))
    return k.compound(z.type, real.get(), imag.get())


def exp2(k: Builder, z: Any) -> Value:
    """``2**z``; within 5 ulp for imaginary parts up to 2**11 (c64) or 2**26 (c128), beyond as NumPy's."""
    x, y = z.real, z.imag
    high, low = LN_2[x.type]
    angle = y * high
    error = k.fma(y, high, -angle) + y * low
    error = k.where(k.abs(angle) < FAR[x.type], error, k.const(0, x.type))  # beyond, the angle is NumPy's own
    sine, cosine = sine_and_cosine(k, angle)
    turned = k.compound(z.type, k.fma(-error, sine, cosine), k.fma(error, cosine, sine))
    return _grown(k, z, *exp2_parts(k, _bounded(k, x, math.log(2))), turned)


def expm1(k: Builder, z: Any) -> Value:
    """``e**z - 1``, in NumPy's own steps as far as they go; within 5 ulp."""
    x, y = z.real, z.imag
    half_sine = real_sin(k, y * 0.5)
    sine, cosine = sine_and_cosine(k, y)
    real = k.var(real_expm1(k, x) * cosine - 2.0 * half_sine * half_sine)
    imag = k.var(sine * real_exp(k, x))
    with k.when((x > STEEP[x.type]) & (x < INFINITY)):
        steep: Any = exp(k, z)
        real.set(steep.real)
        imag.set(steep.imag)
    return k.compound(z.type, real.get(), imag.get())


def log1p(k: Builder, z: Any) -> Value:
    """The principal logarithm of ``1 + z``; within 4 ulp."""
    x, y = z.real, z.imag
    above = 1.0 + x
    far: Any = log(k, k.compound(z.type, above, y))
    near = real_log1p(k, k.fma(x, 2.0 + x, y * y)) * 0.5
    is_near = (k.abs(x) < 0.25) & (k.abs(y) < 0.25)
    return k.compound(z.type, k.where(is_near, near, far.real), far.imag)


def rint(k: Builder, z: Any) -> Value:
    """Both parts to the nearest integer, ties to even."""
    return k.compound(z.type, *[k.cvt(part, part.type, "rni") for part in z.parts])


def log(k: Builder, z: Any) -> Value:
    """The principal logarithm; within 3 ulp.

    Method: near the unit circle ``log1p(x*x + y*y - 1) / 2``, the sum in two registers; elsewhere the logarithm of the
    modulus, scaled where that or its square would leave the range.
    """
    x, y = k.abs(z.real), k.abs(z.imag)
    large, small = k.max(x, y), k.min(x, y)
    type_ = large.type
    low, high, up, down = MODULI[type_]
    one, zero = k.const(1, type_), k.const(0, type_)
    is_low, is_high = large < low, large > high
    scale = k.where(is_low, k.const(2.0**up, type_), k.where(is_high, k.const(2.0**down, type_), one))
    shift = k.where(
        is_low, k.const(up * math.log(2), type_), k.where(is_high, k.const(down * math.log(2), type_), zero)
    )
    far = real_log(k, hypot(k, z.real * scale, z.imag * scale)) - shift
    # large**2 - 1 + small**2 with all rounding errors; large - 1 is exact where it matters
    below, above = large - 1.0, large + 1.0
    above_error = 1.0 - (above - large)
    product, square = below * above, small * small
    total = product + square
    from_product = total - square
    errors = (product - from_product) + (square - (total - from_product))
    errors = errors + k.fma(below, above, -product) + k.fma(small, small, -square) + below * above_error
    near = real_log1p(k, total + errors) * 0.5
    is_near = (large > 0.5) & (large < 1.5) & (k.abs(total) < 0.5)
    return k.compound(z.type, k.where(is_near, near, far), arctan2(k, z.imag, z.real))


def _to_base(base: int) -> Callable[..., Value]:
    factor = 1 / math.log(base)

    def logarithm(k: Builder, z: Any) -> Value:
        natural: Any = log(k, z)
        return k.compound(z.type, natural.real * factor, natural.imag * factor)

    logarithm.__doc__ = f"The principal logarithm to base {base}; within 4 ulp."
    return logarithm


log2, log10 = _to_base(2), _to_base(10)


def sinh(k: Builder, z: Any) -> Value:
    """Hyperbolic sine; within 4 ulp."""
    x, y = z.real, z.imag
    return _hyperbolic(k, z, real_sinh, real_cosh, k.where(x == 0, x, _nan(k, x)), k.where(y == 0, y, _nan(k, y)))


def cosh(k: Builder, z: Any) -> Value:
    """Hyperbolic cosine; within 4 ulp."""
    x, y = z.real, z.imag
    zero = k.where(k.where(k.emit("isnan", x, y), k.const(1, x.type), x) < 0, -y, y) * 0.0
    is_flat = (x == 0) | (y == 0)
    nothing = k.where(is_flat, k.where(k.compare("eq", zero, zero), zero, k.const(0, x.type)), _nan(k, x))
    return _hyperbolic(k, z, real_cosh, real_sinh, _nan(k, x), nothing)


def _nan(k: Builder, like: Value) -> Value:
    return k.const(float("nan"), like.type)


def _hyperbolic(
    k: Builder, z: Any, own: Callable[..., Value], other: Callable[..., Value], real_rest: Value, imag_rest: Value
) -> Value:
    """``own(x) cos(y) + i other(x) sin(y)``; the last two arguments stand where 0 met infinity or NaN."""
    x, y = z.real, z.imag
    size = k.abs(x)
    is_steep = size > STEEP[x.type]
    power = real_exp(k, size * 0.5)
    half = k.where(is_steep, power * 0.5, k.const(1, x.type))
    rest = k.where(is_steep, power, k.const(1, x.type))

    def grown(function: Callable[..., Value]) -> Value:
        is_odd = function is real_sinh
        return k.where(is_steep, k.copysign(x, half) if is_odd else half, function(k, x))

    sine, cosine = sine_and_cosine(k, y)
    real, imag = grown(own) * cosine * rest, grown(other) * sine * rest
    is_infinite = (size == INFINITY) & ~(k.abs(y) < INFINITY)
    steep_real = x if own is real_sinh else size
    real = k.where(is_infinite, steep_real, k.where(k.compare("eq", real, real), real, real_rest))
    return k.compound(z.type, real, k.where(k.compare("eq", imag, imag), imag, imag_rest))


def tanh(k: Builder, z: Any) -> Value:
    """Hyperbolic tangent; within 6 ulp."""
    x, y = z.real, z.imag
    size = k.abs(x)
    is_flat = size > FLAT[x.type]
    bounded = k.where(is_flat, k.const(0, x.type), x)
    sine, cosine = sine_and_cosine(k, y)
    rise = real_sinh(k, bounded)
    divisor = k.fma(rise, rise, cosine * cosine)
    decay = real_exp(k, -size)
    flat_imag = 4.0 * (sine * decay) * (cosine * decay)
    real = k.where(is_flat, k.copysign(x, k.const(1, x.type)), rise * real_cosh(k, bounded) / divisor)
    imag = k.where(is_flat, flat_imag, sine * cosine / divisor)
    is_infinite = size == INFINITY
    imag = k.where(is_infinite & ~(k.abs(y) < INFINITY), k.copysign(y, k.const(0, x.type)), imag)
    is_angle = k.abs(y) < INFINITY
    real = k.where(is_angle | is_infinite, real, k.where(x == 0, x, y - y))
    is_number = k.compare("eq", x, x)
    return k.compound(z.type, k.where(is_number, real, x), k.where(is_number, imag, k.where(y == 0, y, x)))


def _turned(function: Callable[..., Any]) -> Callable[..., Value]:
    """The circular function of a hyperbolic one: ``-i f(i z)``."""

    def circular(k: Builder, z: Any) -> Value:
        turned = function(k, k.compound(z.type, -z.imag, z.real))
        return k.compound(z.type, turned.imag, -turned.real)

    circular.__doc__ = f"As accurate as `{function.__name__}`, of which it is made."
    return circular


sin = _turned(sinh)
tan = _turned(tanh)


def cos(k: Builder, z: Any) -> Value:
    """As accurate as `cosh`, of which it is made."""
    return cosh(k, k.compound(z.type, -z.imag, z.real))
