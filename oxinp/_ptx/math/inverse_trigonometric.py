"""arcsin, arccos, arctan and arctan2: all of them the angle of a point in the first quadrant, turned where it belongs.

The angle of (x, y) is ``K + sigma atan(t)`` with ``|t| <= tan(pi / 8)``: t is the smaller coordinate over the larger
one, or, K being pi/4, their difference over their sum. t is a sum of two numbers, and so is K; for the rest,
``atan(t) = t + t**3 P(t**2)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from oxinp._ptx.math.floats import Sum, exponent_of, polynomial, quotient, quotient_sum, root_sum, top_word
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, f64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

TAN_PI_8 = 0.41421356
BEYOND = {f32: 2.0**30, f64: 2.0**60}  # arctan is pi / 2, rounded
TINY = {f32: 2.0**-20, f64: 2.0**-40}  # arctan is its argument, rounded

# pi/4, pi/2, 3 pi/4 and pi, in two parts each
ANGLES = {
    f32: (
        (0.7853981852531433, -2.1855694143368964e-08),
        (1.5707963705062866, -4.371138828673793e-08),
        (2.356194496154785, -5.962440319251527e-09),
        (3.1415927410125732, -8.742277657347586e-08),
    ),
    f64: (
        (0.7853981633974483, 3.061616997868383e-17),
        (1.5707963267948966, 6.123233995736766e-17),
        (2.356194490192345, 9.184850993605148e-17),
        (3.141592653589793, 1.2246467991473532e-16),
    ),
}

# Of z = t**2: the quotient (atan(t) / t - 1) / z.
ATAN_F32 = (
    -0.333333164,
    0.199985325,
    -0.142445117,
    0.106001876,
    -0.0609278902,
)
ATAN_F64 = (
    -0.33333333333333198,
    0.19999999999953844,
    -0.14285714280225234,
    0.11111110785008403,
    -0.09090897804915965,
    0.076920610920302335,
    -0.066631143541819468,
    0.05847966149316506,
    -0.05039657347878309,
    0.038073644978609385,
    -0.017917262688626884,
)
ATAN = {f32: ATAN_F32, f64: ATAN_F64}


class Quotient(NamedTuple):
    """``high + low``, and how it came about: see `angle`."""

    high: Value
    low: Value
    is_steep: Value
    is_middle: Value


def ratio(k: Builder, y: Sum, x: Sum) -> Quotient:
    """The t of a point with coordinates not below 0, not both 0, and far from the ends of the range."""
    is_steep = y.high > x.high
    less, more = k.where(is_steep, x.high, y.high), k.where(is_steep, y.high, x.high)
    zero = k.const(0.0, less.type)
    less_low, more_low = k.where(is_steep, x.low, y.low), k.where(is_steep, y.low, x.low)
    is_middle = less > more * TAN_PI_8
    taken, taken_low = k.where(is_middle, more, zero), k.where(is_middle, more_low, zero)
    given, given_low = k.where(is_middle, less, zero), k.where(is_middle, less_low, zero)
    above, below = less - taken, more + given
    # of the difference the subtrahend is the larger one
    above_low = k.where(is_middle, ((-taken - above) + less) + (less_low - taken_low), less_low)
    below_low = ((more - below) + given) + (more_low + given_low)
    t, low = quotient_sum(k, above, below, above_low, below_low)
    return Quotient(t, low, is_steep, is_middle)


def plain_ratio(k: Builder, y: Value, x: Value) -> Quotient:
    """The same of single numbers, rounded: angles are within 2 ulp."""
    is_steep = y > x
    less, more = k.where(is_steep, x, y), k.where(is_steep, y, x)
    zero = k.const(0.0, less.type)
    is_middle = less > more * TAN_PI_8
    t = quotient(k, less - k.where(is_middle, more, zero), more + k.where(is_middle, less, zero))
    return Quotient(t, zero, is_steep, is_middle)


def angle(k: Builder, t: Quotient, is_behind: Value | None = None) -> Value:
    """The angle, that of the point mirrored to the other side where `is_behind` holds."""
    high, low = angle_sum(k, t, is_behind)
    return high + low


def angle_sum(k: Builder, t: Quotient, is_behind: Value | None = None) -> Sum:
    """The same as a number and what that lacks, to a few bits more."""
    z = t.high * t.high
    tail: Value = k.fma(t.high * z, polynomial(k, z, ATAN[z.type]), t.low)
    start, rest = (corner(k, t, parts, is_behind) for parts in zip(*ANGLES[z.type], strict=True))
    flips = t.is_steep if is_behind is None else t.is_steep ^ is_behind
    head, tail = k.where(flips, -t.high, t.high), k.where(flips, -tail, tail)
    total = start + head
    return Sum(total, ((start - total) + head) + (tail + rest))


def corner(k: Builder, t: Quotient, parts: tuple[float, ...], is_behind: Value | None) -> Value:
    """The K of the module's docstring, or its second part: `parts` are those of pi/4, pi/2, 3 pi/4 and pi."""
    quarter, half, three, full = (k.const(part, t.high.type) for part in parts)
    level = k.const(0.0, t.high.type)
    if is_behind is not None:
        quarter, level = k.where(is_behind, three, quarter), k.where(is_behind, full, level)
    return k.where(t.is_middle, quarter, k.where(t.is_steep, half, level))


def other_side(k: Builder, x: Value) -> Sum:
    """``sqrt(1 - x**2)``; NaN beyond 1."""
    square = x * x
    rest = 1.0 - square
    rest_low = ((1.0 - rest) - square) - k.fma(x, x, -square)
    return root_sum(k, rest, rest_low)


def alone(k: Builder, x: Value) -> Sum:
    """A number as such a sum."""
    return Sum(x, k.const(0.0, x.type))


@widened
def arcsin(k: Builder, x: Value) -> Value:
    """Inverse sine; at most 0.8 ulp from the true value.

    Method: the angle of ``(sqrt(1 - x**2), x)``.
    """
    result = angle(k, ratio(k, alone(k, k.abs(x)), other_side(k, x)))
    return k.emit("copysign", x, result)


@widened
def arccos(k: Builder, x: Value) -> Value:
    """Inverse cosine; at most 0.8 ulp from the true value.

    Method: the angle of ``(x, sqrt(1 - x**2))``.
    """
    return angle(k, ratio(k, other_side(k, x), alone(k, k.abs(x))), x < 0)


@widened
def arctan(k: Builder, x: Value) -> Value:
    """Inverse tangent; at most 0.8 ulp from the true value.

    Method: the angle of ``(1, x)``.
    """
    beyond = k.const(BEYOND[x.type], x.type)
    magnitude = k.abs(x)
    magnitude = k.where(magnitude > beyond, beyond, magnitude)
    result = angle(k, ratio(k, alone(k, magnitude), alone(k, k.const(1.0, x.type))))
    return k.emit("copysign", x, result)


@widened
def arctan2(k: Builder, y: Value, x: Value) -> Value:
    """Angle of the point (x, y), with C's results for zeros and infinities; at most 0.8 ulp from the true value.

    Method: see the module; both coordinates are scaled, so that the larger one is near 1.
    """
    type = x.type
    across, along = k.abs(x), k.abs(y)
    more = k.where(along > across, along, across)
    is_special = (more == 0) | (more == float("inf"))
    # zeros and infinities: coordinates that are the same, or one of which does not count
    one, zero = k.const(1.0, type), k.const(0.0, type)
    is_alone = (along != across) & (more > 0)
    across = k.where(is_special, k.where((across == more) | ~is_alone, one, zero), across)
    along = k.where(is_special, k.where((along == more) & (more > 0), one, zero), along)
    factor = k.where(is_special, one, exponent_of(k, more)[0])
    is_behind = top_word(k, x) < 0
    t = ratio(k, alone(k, along * factor), alone(k, across * factor))
    result = k.var(angle(k, t, is_behind))
    # a quotient that may be subnormal is rounded once
    with k.when((t.high < TINY[type]) & ~(t.is_steep | t.is_middle | is_behind | is_special)):
        result.set(k.abs(y) / k.abs(x))
    signed = k.emit("copysign", y, result)
    return k.where(k.emit("isnan", x, y), float("nan"), signed)
