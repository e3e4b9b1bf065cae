"""Powers of complex numbers, c64 and c128, in the precision of their parts.

Integer exponents below 100 are products, in NumPy's own steps. Other powers are ``2**R (cos phi + i sin phi)``, with R
and phi from a base-2 logarithm of the modulus and an angle, sums of two numbers each. What is infinite or NaN is
``exp(b log(a))``, as in C, where products have infinities that do not become NaN (C99, G.5.1).

Source: NumPy, ``npy_cpow`` in ``npy_math_complex.c.src``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oxinp._ptx.math.complex import LN_2, exp, log
from oxinp._ptx.math.floats import Sum, exponent_of, top_word
from oxinp._ptx.math.inverse_trigonometric import alone, angle_sum, ratio
from oxinp._ptx.math.power import exp2_of_sum, log2_parts
from oxinp._ptx.math.trigonometric import cos as real_cos
from oxinp._ptx.math.trigonometric import sin as real_sin
from oxinp._ptx.types import f32, f64, i32
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

INFINITY = float("inf")
FEW = 100  # integer exponents below are products
UNITS = 3  # up to here products do not begin with 1
# log2(e) in two parts
LOG2_E = {f32: (1.4426950216293335, 1.925963033500011e-08), f64: (1.4426950408889634, 2.0355273740931033e-17)}


def power(k: Builder, a: Any, b: Any) -> Value:
    """``a**b``: of integer exponents below 100 as NumPy's, else within 6 ulp of the larger part where R is below 64."""
    real, imag = (k.var(part) for part in a.parts)
    size = k.abs(b.real)
    has_steps = k.compare("eq", b.imag, 0) & (size < FEW) & k.compare("eq", k.cvt(b.real, b.real.type, "rzi"), b.real)
    with k.when(has_steps):
        _assign(real, imag, _in_steps(k, a, k.cast(size, i32), b.real < 0))
    with k.otherwise():
        parts = (*a.parts, *b.parts)
        is_finite = k.max(k.max(*map(k.abs, parts[:2])), k.max(*map(k.abs, parts[2:]))) < INFINITY
        is_finite = is_finite & ~k.emit("isnan", *parts[:2]) & ~k.emit("isnan", *parts[2:])
        with k.when(is_finite):
            _assign(real, imag, _polar(k, a, b))
        with k.otherwise():
            _assign(real, imag, exp(k, _product(k, b, log(k, a))))
    zero, one = k.const(0, size.type), k.const(1, size.type)
    is_zero = k.compare("eq", a.real, 0) & k.compare("eq", a.imag, 0)
    of_zero = k.where(b.real > 0, zero, k.const(math.nan, size.type))
    is_one = k.compare("eq", b.real, 0) & k.compare("eq", b.imag, 0)
    first = k.where(is_one, one, k.where(is_zero, of_zero, real))
    return k.compound(a.type, first, k.where(is_one, zero, k.where(is_zero, of_zero, imag)))


def _assign(real: Any, imag: Any, value: Any) -> None:
    real.set(value.real)
    imag.set(value.imag)


def _times(k: Builder, a: Any, b: Any) -> Value:
    """The schoolbook's product, every step rounded."""
    return k.compound(a.type, a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _in_steps(k: Builder, a: Any, count: Value, is_inverse: Value) -> Value:
    """``a**count``, and its inverse."""
    total: Any = k.var(k.const(1, a.type))
    factor: Any = k.var(a)
    left, is_first = k.var(count), k.var((count <= UNITS) & ~is_inverse)
    with k.loop():
        k.break_if(left <= 0)
        with k.when((left & 1) != 0):
            total.set(k.where(is_first, factor.get(), _times(k, total, factor)))
            is_first.set(is_first & (left < 0))
        left.set(left >> 1)
        factor.set(_times(k, factor, factor))
    value: Any = total.get()
    inverse: Any = k.const(1, a.type) / value
    return k.where(is_inverse, inverse, value)


def _polar(k: Builder, a: Any, b: Any) -> Value:
    """``a**b`` of finite numbers, of which `a` is not 0."""
    modulus, angle = _modulus(k, a), _angle(k, a)
    size = b.real.type
    first, second = _scaled(k, modulus, b.real), _scaled(k, _multiplied(k, angle, LOG2_E[size]), -b.imag)
    exponent = _added(first, second)
    turns = _scaled(k, angle, b.real), _scaled(k, _multiplied(k, modulus, LN_2[size]), b.imag)
    turn = _added(*turns)
    cosine, sine = real_cos(k, turn.high), real_sin(k, turn.high)
    half = exp2_of_sum(k, exponent.high * 0.5, exponent.low * 0.5)  # of which twice the exponent is a square
    real = half * k.fma(-turn.low, sine, cosine) * half
    imag = half * k.fma(turn.low, cosine, sine) * half
    level = turns[0].high + turns[1].high  # a zero with its sign
    return k.compound(a.type, real, k.where(k.compare("eq", turn.high, 0), level, imag))


def _modulus(k: Builder, a: Any) -> Sum:
    """The base-2 logarithm of the modulus: half of that of the sum of squares, which has two parts."""
    x, y = k.abs(a.real), k.abs(a.imag)
    large = k.max(x, y)
    type_ = large.type
    is_small = large < SMALLEST[type_]
    up = k.where(is_small, k.const(2.0**64, type_), k.const(1, type_))
    factor, power = exponent_of(k, large * up)
    u, v = k.max(x, y) * up * factor, k.min(x, y) * up * factor
    square, other = u * u, v * v
    total = square + other
    rest = ((square - total) + other) + k.fma(u, u, -square) + k.fma(v, v, -other)
    log, log_low = log2_parts(k, total)
    tail = k.fma(rest / total, k.const(LOG2_E[type_][0], type_), log_low) * 0.5
    # `factor` is 2 over `power`
    whole, _ = log2_parts(k, power)
    whole = whole - k.where(is_small, k.const(65, type_), k.const(1, type_))
    high = whole + log * 0.5
    seen = high - whole
    low = (log * 0.5 - seen) + (whole - (high - seen)) + tail
    return _renormalised(high, low)


SMALLEST = {f32: 2.0**-100, f64: 2.0**-960}


def _angle(k: Builder, a: Any) -> Sum:
    """The angle of a number that is not 0."""
    x, y = k.abs(a.real), k.abs(a.imag)
    large = k.max(x, y)
    up = k.where(large < SMALLEST[large.type], k.const(2.0**64, large.type), k.const(1, large.type))
    factor = exponent_of(k, large * up)[0]
    quotient = ratio(k, alone(k, y * up * factor), alone(k, x * up * factor))
    high, low = angle_sum(k, quotient, top_word(k, a.real) < 0)
    found = _renormalised(high, low)
    is_below = top_word(k, a.imag) < 0
    return Sum(k.where(is_below, -found.high, found.high), k.where(is_below, -found.low, found.low))


def _renormalised(high: Value, low: Value) -> Sum:
    total = high + low
    return Sum(total, (high - total) + low)


def _scaled(k: Builder, a: Sum, factor: Value) -> Sum:
    """A sum times a number."""
    product = a.high * factor
    return Sum(product, k.fma(a.high, factor, -product) + a.low * factor)


def _multiplied(k: Builder, a: Sum, constant: tuple[float, float]) -> Sum:
    """A sum times a constant in two parts."""
    high, low = (k.const(part, a.high.type) for part in constant)
    product = a.high * high
    return _renormalised(product, k.fma(a.high, high, -product) + k.fma(a.high, low, a.low * high))


def _added(a: Sum, b: Sum) -> Sum:
    """The sum of two."""
    total = a.high + b.high
    seen = total - a.high
    return _renormalised(total, (a.high - (total - seen)) + (b.high - seen) + (a.low + b.low))


def _product(k: Builder, a: Any, b: Any) -> Value:
    """C's product (G.5.1): infinite where a factor is, whatever NaN stands beside it."""
    plain: Any = _times(k, a, b)
    zero, one = (k.const(value, a.real.type) for value in (0, 1))

    def is_infinite(value: Value) -> Value:
        return k.compare("eq", k.abs(value), INFINITY)

    def boxed(own: Any, other: Any) -> tuple[Any, Any, Value]:
        """Infinities as 1 beside 0 if `own` has one, NaN then as 0."""
        is_far = is_infinite(own.real) | is_infinite(own.imag)
        parts = [k.where(is_far, k.copysign(p, k.where(is_infinite(p), one, zero)), p) for p in own.parts]
        others = [k.where(is_far & k.isnan(p), k.copysign(p, zero), p) for p in other.parts]
        return k.compound(own.type, *parts), k.compound(own.type, *others), is_far

    a, b, is_far = boxed(a, b)
    b, a, is_other_far = boxed(b, a)
    again: Any = _times(k, a, b)
    is_lost = k.isnan(plain.real) & k.isnan(plain.imag) & (is_far | is_other_far)
    return k.compound(
        plain.type,
        k.where(is_lost, again.real * INFINITY, plain.real),
        k.where(is_lost, again.imag * INFINITY, plain.imag),
    )
