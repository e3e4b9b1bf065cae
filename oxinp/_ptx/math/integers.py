"""Integer functions with NumPy's results: dividing by zero gives 0, all wraps, no count is too large to shift by.

Those in which a narrow type may be computed in 32 bits are `widened`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import UNSIGNED, u8, u32


def _divisor(k: Any, b: Any) -> Any:
    """`b`, or 1 where the hardware's division is not NumPy's: by 0, and by -1, whose quotient may overflow."""
    special = b == 0
    if b.type.kind == "i":
        special = special | (b == -1)
    return k.where(special, 1, b)


@widened
def floor_divide(k: Any, a: Any, b: Any) -> Any:
    """Quotient rounded down; 0 where `b` is 0."""
    divisor = _divisor(k, b)
    quotient = a / divisor
    if a.type.kind == "i":
        rest = a - quotient * divisor
        quotient = k.where((rest != 0) & ((rest ^ divisor) < 0), quotient - 1, quotient)
        quotient = k.where(b == -1, -a, quotient)
    return k.where(b == 0, 0, quotient)


@widened
def remainder(k: Any, a: Any, b: Any) -> Any:
    """What `floor_divide` leaves, with the sign of `b`; 0 where `b` is 0."""
    divisor = _divisor(k, b)
    rest = a % divisor
    if a.type.kind == "i":
        rest = k.where((rest != 0) & ((rest ^ divisor) < 0), rest + divisor, rest)
        rest = k.where(b == -1, 0, rest)
    return k.where(b == 0, 0, rest)


@widened
def fmod(k: Any, a: Any, b: Any) -> Any:
    """What division rounded to zero leaves, with the sign of `a`; 0 where `b` is 0."""
    return a % _divisor(k, b)  # a divisor of 1 in its place leaves 0 as well


@widened
def power(k: Any, base: Any, exponent: Any) -> Any:
    """`base` to a power that is not negative, by squaring."""
    result = k.var(1, base.type)
    factor = k.var(base)
    left = k.var(exponent)
    with k.loop():
        k.break_if(left <= 0)
        result.set(k.where((left & 1) != 0, result * factor, result))
        factor.set(factor * factor)
        left.set(left >> 1)
    return result.get()


def _magnitude(k: Any, a: Any) -> Any:
    """Absolute value as an unsigned integer: that of the lowest integer, too."""
    return k.bitcast(k.abs(a), UNSIGNED[a.type.bits])


@widened
def gcd(k: Any, a: Any, b: Any) -> Any:
    """Greatest common divisor of the absolute values, by Euclid."""
    return k.bitcast(_gcd(k, _magnitude(k, a), _magnitude(k, b)), a.type)


def _gcd(k: Any, a: Any, b: Any) -> Any:
    x, y = k.var(a), k.var(b)
    with k.loop():
        k.break_if(y == 0)
        rest = x % y
        x.set(y)
        y.set(rest)
    return x.get()


@widened
def lcm(k: Any, a: Any, b: Any) -> Any:
    """Least common multiple of the absolute values; 0 if either is."""
    x, y = _magnitude(k, a), _magnitude(k, b)
    divisor = _gcd(k, x, y)
    multiple = x / k.where(divisor == 0, 1, divisor) * y
    return k.bitcast(k.where(divisor == 0, 0, multiple), a.type)


@widened
def left_shift(k: Any, a: Any, b: Any) -> Any:
    """Shift; 0 where the count is negative or not below the width."""
    return k.shl(a, _count(k, b))


@widened
def right_shift(k: Any, a: Any, b: Any) -> Any:
    """Arithmetic shift; where the count is negative or not below the width nothing but the sign is left."""
    return k.shr(a, _count(k, b))


def _count(k: Any, b: Any) -> Any:
    """A shift count as the hardware takes it: negative ones are large."""
    count = k.bitcast(b, UNSIGNED[b.type.bits])
    return k.cast(k.min(count, 64), u32) if b.type.bits == 64 else count


@widened
def bitwise_count(k: Any, a: Any) -> Any:
    """One bits of the absolute value, as u8."""
    return k.cast(k.popc(_magnitude(k, a)), u8)


def sign(k: Any, a: Any) -> Any:
    """-1, 0 or 1."""
    positive = k.where(a > 0, k.const(1, a.type), 0)
    return k.where(a < 0, -1, positive) if a.type.kind == "i" else positive


def reciprocal(k: Any, a: Any) -> Any:
    """``1 / a`` rounded to zero, and for 0 what NumPy's cast makes of infinity on this machine."""
    with np.errstate(divide="ignore", invalid="ignore"):
        of_zero = int(np.reciprocal(np.zeros(1, a.type.dtype))[0])
    of_others = k.where(a == 0, of_zero, k.where(a == 1, k.const(1, a.type), 0))
    return k.where(a == -1, -1, of_others) if a.type.kind == "i" else of_others
