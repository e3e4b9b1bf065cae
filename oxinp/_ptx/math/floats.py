"""Parts of floating-point functions: what f16 goes through, polynomials, powers of two, the bits of a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from oxinp._ptx.types import Type, f32, f64, i32, u32, u64
from oxinp._ptx.value import Language, Value

Function = Callable[..., Value]


class Format(NamedTuple):
    """A binary floating-point format.

    Attributes
    ----------
    bias : int
        Of the exponent.
    shift : int
        Position of the exponent in the top word.
    rounder : float
        1.5 times the power of two from which on neighbours are 1 apart: added, it rounds to an integer.
    smallest : float
        Smallest normal number.
    """

    bias: int
    shift: int
    rounder: float
    smallest: float


FORMATS = {
    f32: Format(127, 23, 1.5 * 2.0**23, 2.0**-126),
    f64: Format(1023, 20, 1.5 * 2.0**52, 2.0**-1022),
}


def polynomial(k: Language, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule with FMA; coefficients from the lowest power on, two of them at least."""
    *rest, total = coefficients
    value: Value = k.const(total, x.type)
    for coefficient in reversed(rest):
        value = k.fma(value, x, coefficient)
    return value


def nearest(k: Language, x: Value, factor: float) -> tuple[Value, Value]:
    """The integer nearest to ``x * factor``, as a float and as i32; below 2**22 (f32), 2**31 (f64) in magnitude."""
    rounder = FORMATS[x.type].rounder
    raised = k.fma(x, factor, rounder)
    word = k.bitcast(raised, i32) - 0x4B400000 if x.type is f32 else k.bitcast(low_word(k, raised), i32)
    return raised - rounder, word


def low_word(k: Language, x: Value) -> Value:
    """Lower 32 bits of an f64, u32."""
    word: Value = k.unpack(k.bitcast(x, u64))[0]
    return word


def top_word(k: Language, x: Value) -> Value:
    """The 32 bits with sign and exponent, i32: all of an f32, the upper half of an f64."""
    if x.type is f32:
        return k.bitcast(x, i32)
    return k.bitcast(k.unpack(k.bitcast(x, u64))[1], i32)


def with_top_word(k: Language, x: Value, word: Value) -> Value:
    """`x` with other upper 32 bits."""
    if x.type is f32:
        return k.bitcast(word, f32)
    return k.bitcast(k.pack(low_word(k, x), k.bitcast(word, u32)), f64)


def power_of_two(k: Language, exponent: Value, type: Type) -> Value:
    """``2**exponent`` of an i32 for normal results; 0 and infinity one beyond."""
    form = FORMATS[type]
    return from_top_word(k, (exponent << form.shift) + (form.bias << form.shift), type)


def as_float(k: Language, number: Value, type: Type) -> Value:
    """An i32 below 2**22 in magnitude as a float, without a conversion instruction."""
    rounder = FORMATS[type].rounder
    if type is f32:
        return k.bitcast(number + 0x4B400000, f32) - rounder
    raised = k.pack(k.bitcast(number, u32), k.const(0x43380000, u32))
    # a negative number's word stands for 2**32 more
    return k.bitcast(raised, f64) - k.where(number < 0, k.const(rounder + 2.0**32, f64), rounder)


def exponent_of(k: Language, x: Value) -> tuple[Value, Value]:
    """``2**(1 - e)`` and ``2**e`` with the exponent e of a finite number, not below that of the smallest normal one."""
    form = FORMATS[x.type]
    word = k.max(top_word(k, x) & (-1 << form.shift), 1 << form.shift)
    return from_top_word(k, ((2 * form.bias + 1) << form.shift) - word, x.type), from_top_word(k, word, x.type)


def from_top_word(k: Language, word: Value, type: Type) -> Value:
    """The number with these upper 32 bits, i32, and zeros below."""
    if type is f32:
        return k.bitcast(word, f32)
    return k.bitcast(k.pack(k.const(0, u32), k.bitcast(word, u32)), f64)


def scale(k: Language, x: Value, exponent: Value) -> Value:
    """``x * 2**exponent`` for `x` near 1: rounded once more where the result is subnormal, infinite above."""
    half = exponent >> 1
    return x * power_of_two(k, half, x.type) * power_of_two(k, exponent - half, x.type)


def inverse(k: Language, x: Value) -> Value:
    """``1 / x`` to 2**-23 (f32) or 2**-38 (f64), for x and results far from the ends of the range.

    The hardware's approximation (PTX ISA, rcp.approx.ftz): good to 2**-23 in f32; 20 bits and a Newton step in f64.
    """
    y: Value = k.rcp_approx(x)
    if x.type is f64:
        y = k.fma(k.fma(-x, y, 1.0), y, y)
    return y


class Sum(NamedTuple):
    """A number as the sum of two, the second one at most about a unit in the last place of the first."""

    high: Value
    low: Value


def quotient_sum(k: Language, a: Value, b: Value, a_low: Value | None = None, b_low: Value | None = None) -> Sum:
    """``(a + a_low) / (b + b_low)`` for quotients far from the ends of the range."""
    factor = inverse(k, b)
    q = a * factor
    residual: Value = k.fma(-b, q, a)
    if a_low is not None:
        residual = residual + a_low
    if b_low is not None:
        residual = k.fma(-b_low, q, residual)
    change = residual * factor
    total = q + change
    return Sum(total, (q - total) + change)


def divided(k: Language, a: Value, b: Value) -> Value:
    """``a / b`` where that is at most one, or `a` is, rounded almost as by a division, and in a third of its time.

    By Newton's iteration where `b` is far from the ends of the range, by a division elsewhere.
    """
    far = 2.0 ** (60 if b.type is f32 else 500)
    size = k.abs(b)
    found = k.var(quotient_sum(k, a, b).high)
    with k.when(~((size > 1 / far) & (size < far))):
        found.set(a / b)
    return found.get()


def root_sum(k: Language, x: Value, low: Value) -> Sum:
    """``sqrt(x + low)``; x may be 0."""
    root = k.sqrt(x)
    change = (k.fma(-root, root, x) + low) * inverse(k, root + root)
    return Sum(root, k.where(root == 0, 0.0, change))


def quotient(k: Language, a: Value, b: Value, a_low: Value | None = None, b_low: Value | None = None) -> Value:
    """`quotient_sum` as one number, to a little over half an ulp."""
    return quotient_sum(k, a, b, a_low, b_low).high
