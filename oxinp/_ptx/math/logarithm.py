"""log, log2, log10 and log1p.

``x = 2**n m`` with m in [3/4, 3/2), taken from the bits, and ``f = m - 1``, which is exact. In f32 a polynomial
gives ``log(1 + f)``; in f64 ``log(1 + f) = f - f**2/2 + s (f**2/2 + R(s**2))`` with ``s = f / (2 + f)``, as in fdlibm's
e_log.c, where the rounding of s hardly counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.math.floats import (
    FORMATS,
    Sum,
    as_float,
    polynomial,
    power_of_two,
    quotient,
    top_word,
    with_top_word,
)
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import Type, f32, f64, i32
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

# The top word of just above 3/4, and how far subnormal numbers are lifted
LOWEST = {f32: 0x3F400001, f64: 0x3FE80001}
LIFT = {f32: 24, f64: 54}

# Each in two parts; the first ones of LN2 and LOG10_2 are short, so that a product with n is exact.
LN2 = {f32: (0.693145751953125, 1.428606765330187e-06), f64: (0.6931471805598903, 5.497923018708371e-14)}
LOG10_2 = {f32: (0.301025390625, 4.605039066518657e-06), f64: (0.30102999566395283, 2.8363394551044964e-14)}
LOG2_E = {f32: (1.4426950216293335, 1.925963033500011e-08), f64: (1.4426950408889634, 2.0355273740931033e-17)}
LOG10_E = {f32: (0.4342944920063019, -1.0103049952192578e-08), f64: (0.4342944819032518, 1.098319650216765e-17)}
ONE = {f32: (1.0, 0.0), f64: (1.0, 0.0)}

# Of f: the quotient (log(1 + f) - f) / f**2.
LOG_F32 = (
    -0.5,
    0.333333403,
    -0.250001639,
    0.199995786,
    -0.166553155,
    0.142767996,
    -0.127284184,
    0.116970636,
    -0.091065526,
    0.0376055278,
)
# Of s**2: the quotient (2 atanh(s) / s - 2) / s**2.
LOG_F64 = (
    0.66666666666666596,
    0.40000000000056479,
    0.28571428555904327,
    0.22222224285800829,
    0.18181666599820409,
    0.1539108630545378,
    0.13174055303674556,
    0.13839823130426424,
)


def split(k: Builder, x: Value, lowest: dict[Type, int] = LOWEST) -> tuple[Value, Value]:
    """``f, n`` with ``x = 2**n (1 + f)`` for positive finite x, top words of ``1 + f`` from `lowest` on; n is i32."""
    form, lift = FORMATS[x.type], LIFT[x.type]
    is_small = x < form.smallest
    lifted = k.where(is_small, x * 2.0**lift, x)
    word = top_word(k, lifted)
    number = (word - lowest[x.type]) >> form.shift
    mantissa = with_top_word(k, lifted, word - (number << form.shift))
    return mantissa - 1.0, number - k.where(is_small, k.const(lift, i32), 0)


def halves(k: Builder, f: Value) -> tuple[Value, Value]:
    """``a, b`` with ``log(1 + f) = f - (a - b)`` for f from `split`: a is ``f**2 / 2`` rounded."""
    square = f * f
    half_square = square * 0.5
    if f.type is f32:
        return half_square, f * square * polynomial(k, f, LOG_F32[1:])
    s = quotient(k, f, f + 2.0)
    z = s * s
    ratio: Value = k.fma(z, polynomial(k, z, LOG_F64), half_square)
    return half_square, s * ratio


def natural(k: Builder, f: Value, number: Value, low: Value | None = None) -> Value:
    """``n log(2) + log(1 + f) + low``, low being small."""
    multiple = as_float(k, number, f.type)
    rest: Value
    if f.type is f32:
        tail = polynomial(k, f, LOG_F32)
        rest = k.fma(f * f, tail, f) if low is None else f + k.fma(f * f, tail, low)
        rest = k.fma(multiple, 0.6931471824645996, rest)
        return rest
    half_square, correction = halves(k, f)
    ln2, ln2_low = LN2[f.type]
    rest = k.fma(multiple, ln2_low, correction if low is None else correction + low)
    return multiple * ln2 - ((half_square - rest) - f)


def one_and(k: Builder, u: Sum, is_large: Value | None = None) -> tuple[Value, Value, Value, Value]:
    """``f, n, low, sum`` for ``1 + u``, u not below 0 (for ``2 u`` where `is_large` holds).

    Its logarithm is ``log(1 + f) + n log(2) + low``; sum is ``1 + u`` rounded.
    """
    is_above = u.high > 1
    more, less = k.where(is_above, u.high, 1.0), k.where(is_above, 1.0, u.high)
    total = more + less
    rest = (more - total) + less
    if is_large is not None:
        total, rest = k.where(is_large, u.high, total), k.where(is_large, 0.0, rest)
    f, number = split(k, total)
    # where this is no more the exact factor, there is no rest
    factor = power_of_two(k, -k.min(number, 100), f.type)
    first = rest * factor
    near = f + first
    # f is 0 or far above the rest; the derivative of log(1 + f) is needed to a few bits
    low = k.fma(u.low, factor, (f - near) + first) * k.fma(near, near, 1.0 - near)
    if is_large is not None:
        number = number + k.where(is_large, k.const(1, number.type), 0)
    return near, number, low, total


def log_of_sum(k: Builder, u: Sum, is_large: Value | None = None) -> Value:
    """``log(1 + u)`` for ``u >= 0``, infinity included; ``log(2 u)`` where `is_large` holds."""
    f, number, low, total = one_and(k, u, is_large)
    return k.where(total < float("inf"), natural(k, f, number, low), total)


def log1p_sum(k: Builder, u: Sum) -> Sum:
    """``log(1 + u)`` for u from 0 to 1; the second part may be a fifth of the first."""
    f, number, low, _ = one_and(k, u)
    multiple = as_float(k, number, f.type)
    ln2, ln2_low = LN2[f.type]
    whole = multiple * ln2
    high = whole + f
    lost = k.fma(multiple, ln2_low, (whole - high) + f)
    if f.type is f32:
        return Sum(high, lost + k.fma(f * f, polynomial(k, f, LOG_F32), low))
    half_square, correction = halves(k, f)
    low = low - k.fma(f * 0.5, f, -half_square)
    return Sum(high, (lost + low) + (correction - half_square))


def with_limits(k: Builder, x: Value, result: Value) -> Value:
    """`result`, but -inf at 0, inf at inf, NaN below 0."""
    result = k.where((x > 0) & (x < float("inf")), result, k.fma(x, float("inf"), float("inf")))
    return k.where(x == 0, float("-inf"), result)


@widened
def log(k: Builder, x: Value) -> Value:
    """Natural logarithm; at most 0.95 ulp from the true value."""
    return with_limits(k, x, natural(k, *split(k, x)))


def to_base(k: Builder, x: Value, unit: tuple[float, float], power: tuple[float, float]) -> Value:
    """Logarithm to a base: `unit` is the logarithm of e, `power` that of 2, in two parts each."""
    f, number = split(k, x)
    multiple = as_float(k, number, x.type)
    half_square, correction = halves(k, f)
    first = f - half_square
    lost = k.fma(f * 0.5, f, -half_square)
    second = ((f - first) - half_square) + (correction - lost)
    product = first * unit[0]
    tail = k.fma(first, unit[0], -product) + k.fma(first, unit[1], second * unit[0])
    whole = multiple * power[0]
    total = whole + product
    return with_limits(k, x, total + (((whole - total) + product) + k.fma(multiple, power[1], tail)))


@widened
def log2(k: Builder, x: Value) -> Value:
    """Logarithm to base 2, exact for powers of 2; at most 0.85 ulp from the true value."""
    return to_base(k, x, LOG2_E[x.type], ONE[x.type])


@widened
def log10(k: Builder, x: Value) -> Value:
    """Logarithm to base 10; at most 0.8 ulp from the true value."""
    return to_base(k, x, LOG10_E[x.type], LOG10_2[x.type])


@widened
def log1p(k: Builder, x: Value) -> Value:
    """``log(1 + x)``; at most 0.95 ulp from the true value.

    Method: n from the rounded sum, f from x itself, ``2**-n x + (2**-n - 1)``, which is exact.
    """
    total = x + 1.0
    f, number = split(k, total)
    factor = power_of_two(k, -number, x.type)
    # beyond, the 1 is far below the last place, and 2**-n is no number
    is_large = number > 64
    f = k.where(is_large, f, k.fma(factor, x, factor - 1.0))
    return k.emit("copysign", x, with_limits(k, total, natural(k, f, number)))


def log1p_above(k: Builder, x: Value) -> Value:
    """`log1p` of x from 0 to below 2**126 (f32) or 2**1022 (f64), within 1 ulp and in half its time."""
    number = (top_word(k, x + 1.0) - LOWEST[x.type]) >> FORMATS[x.type].shift
    factor = power_of_two(k, -number, x.type)
    # where the 1 is not exact it is far below the last place
    return natural(k, k.fma(factor, x, factor - 1.0), number)
