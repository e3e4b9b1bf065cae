"""Floored and truncated division of floats, with exact remainders.

A remainder is exact whatever the quotient. Where the quotient is below 2**22 (2**50 in f64) one division gives it, at
most one too large, and one fused multiply-add the remainder; beyond, long division of the significands as integers,
some bits a step.

Source: `npy_divmod` and `npy_floor_divide` of NumPy (npymath), and C's `fmod`.
"""

from __future__ import annotations

from typing import Any

from oxinp._ptx.math.parts import FORMATS, floor, trunc
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, i32


@widened
def fmod(k: Any, a: Any, b: Any) -> Any:
    """``a - trunc(a / b) * b``, exactly, with the sign of `a`."""
    return _fmod(k, a, b)


def _fmod(k: Any, a: Any, b: Any) -> Any:
    x, y = k.abs(a), k.abs(b)
    quotient = x / y
    whole = trunc(k, quotient)
    rest = k.fma(-whole, y, x)
    rest = k.where(rest < 0, rest + y, rest)  # the quotient was rounded up to a whole number
    rest = k.where(x < y, x, rest)
    result = k.var(rest)
    limit = 2.0**22 if a.type is f32 else 2.0**50
    infinity = float("inf")
    with k.when((quotient >= limit) & (x < infinity) & (y > 0)):
        result.set(_long_division(k, x, y))
    is_invalid = (y == 0) | ~(x < infinity) | k.isnan(b)
    nan = k.const(float("nan"), a.type)
    return k.where(is_invalid, nan, k.emit("copysign", a, result.get()))


def _long_division(k: Any, x: Any, y: Any) -> Any:
    """Remainder of finite positive numbers, x > y."""
    form = FORMATS[x.type]
    word = form.bits
    step = word.bits - 1 - form.digits  # bits that a significand leaves free
    x_whole, x_exponent = _parts(k, x)
    y_whole, y_exponent = _parts(k, y)
    rest = k.var(x_whole % y_whole)
    left = k.var(x_exponent - y_exponent)
    with k.loop():
        k.break_if(left <= 0)
        shift = k.min(left.get(), step)
        rest.set(k.shl(rest, shift) % y_whole)
        left -= shift
    # Up to where a significand has its leading bit, or the exponent is that of subnormals.
    free = k.cast(k.clz(rest), i32) - step
    up = k.min(free, y_exponent - 1)
    up = k.where(rest == 0, 0, up)
    bits = (k.cast(y_exponent - up - 1, word) << form.digits) + k.shl(rest, up)
    return k.where(rest == 0, k.const(0.0, x.type), k.bitcast(bits, x.type))


def _parts(k: Any, a: Any) -> tuple[Any, Any]:
    """Significand of a positive number as an integer, and its exponent field (1 for subnormals)."""
    form = FORMATS[a.type]
    bits = k.bitcast(a, form.bits)
    field = bits >> form.digits
    fraction = bits & ((1 << form.digits) - 1)
    whole = k.where(field == 0, fraction, fraction | (1 << form.digits))
    return whole, k.max(k.cast(field, i32), 1)


def _divmod(k: Any, a: Any, b: Any) -> tuple[Any, Any]:
    rest = _fmod(k, a, b)
    quotient = (a - rest) / b
    is_off = (rest != 0) & ((b < 0) ^ (rest < 0))
    floored = k.where(is_off, quotient - 1.0, quotient)
    zero = k.emit("copysign", b, k.const(0.0, a.type))
    modulus = k.where(rest == 0, zero, k.where(is_off, rest + b, rest))
    down = floor(k, floored)
    down = k.where(floored - down > 0.5, down + 1.0, down)
    signed_zero = k.emit("copysign", a / b, k.const(0.0, a.type))
    return k.where(floored == 0, signed_zero, down), modulus


@widened
def floor_divide(k: Any, a: Any, b: Any) -> Any:
    """``floor(a / b)``, from the exact remainder; ``a / b`` where `b` is 0."""
    return k.where(b == 0, a / b, _divmod(k, a, b)[0])


@widened
def remainder(k: Any, a: Any, b: Any) -> Any:
    """What `floor_divide` leaves, with the sign of `b`; NaN where `b` is 0."""
    return k.where(b == 0, _fmod(k, a, b), _divmod(k, a, b)[1])
