"""Arguments of trigonometric functions reduced: ``x = n pi/2 + r``, r as a sum of two numbers.

Up to `LIMITS` by Cody and Waite's method: pi/2 in three parts, products and differences exact by FMA and
error-free transformations. Beyond, by that of Payne and Hanek (1983): x is an integer times a power of two, so of the
product with 2/pi only a window of 2/pi's bits matters; what is above gives multiples of 2 pi. The bits are in
a table, so that what hardly ever runs takes few registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oxinp._ptx.math.floats import nearest, power_of_two
from oxinp._ptx.types import Type, f32, f64, i32, i64, u32, u64
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder

LIMITS = {f32: 1e5, f64: 1e9}
TWO_OVER_PI = 0.6366197723675814
HALF_PI = {
    f32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    f64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}

# 2 / pi, 1152 bits behind the point
TWO_OVER_PI_BITS = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08",
    16,
)
NUM_WORDS = {u32: 7, u64: 19}  # as many as arguments of the type ask for
WORDS = {
    type_: np.array(
        [0, *[TWO_OVER_PI_BITS >> (1152 - i * type_.bits) & ((1 << type_.bits) - 1) for i in range(1, n)]], type_.dtype
    )
    for type_, n in NUM_WORDS.items()
}


def reduced(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """``r, low, n`` with ``x = n pi/2 + (r + low)``, ``|r| < 0.79``; n is i32, right modulo 4. NaN for infinite x."""
    first, second, third = HALF_PI[x.type]
    multiple, number = nearest(k, x, TWO_OVER_PI)
    start = k.fma(multiple, -first, x)
    product = multiple * second
    r = start - product
    low = ((start - r) - product) - k.fma(multiple, second, -product)
    results = [k.var(r), k.var(k.fma(multiple, -third, low)), k.var(number)]
    with k.when(k.abs(x) > LIMITS[x.type]):
        for result, value in zip(results, from_bits(k, x), strict=True):
            result.set(value)
    return results[0], results[1], results[2]


def rounded(k: Builder, x: Value) -> tuple[Value, Value]:
    """``r, n`` as those of `reduced` without the low part, in fewer instructions; within an ulp of r."""
    first, second, third = HALF_PI[x.type]
    multiple, number = nearest(k, x, TWO_OVER_PI)
    r = k.fma(multiple, -second, k.fma(multiple, -first, x))
    results = [k.var(k.fma(multiple, -third, r)), k.var(number)]
    with k.when(k.abs(x) > LIMITS[x.type]):
        r, _, number = from_bits(k, x)
        results[0].set(r)
        results[1].set(number)
    return results[0], results[1]


def from_bits(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The same for `x` of at least 2."""
    r, low, number = (from_bits32 if x.type is f32 else from_bits64)(k, k.abs(x))
    is_negative = x < 0
    not_finite = x - x  # NaN for infinities
    return (
        k.where(is_negative, -r, r) + not_finite,
        k.where(is_negative, -low, low),
        k.where(is_negative, -number, number),
    )


def window(k: Builder, start: Value, type: Type) -> list[Value]:
    """Four words from word number `start` on of 2/pi's bits, which a word of zeros precedes."""
    words = k.table(WORDS[type])
    return [words[start + i] for i in range(4)]


def from_bits32(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """`from_bits` of a positive f32."""
    word = k.bitcast(x, u32)
    offset = (word >> 23) - 128
    mantissa = (word << 8) | 0x80000000
    words = window(k, offset >> 5, u32)
    shifted = [k.shf_l(words[i + 1], words[i], offset & 31) for i in range(3)]
    # the lower 96 bits of the product: 2 of the quadrant, 94 behind the point
    last = k.mul_wide(mantissa, shifted[2])
    middle = k.mad_wide(mantissa, shifted[1], last >> 32)
    first = k.pack(k.cast(middle, u32), mantissa * shifted[0] + k.cast(middle >> 32, u32))
    fraction = k.bitcast((first << 2) | k.cast(k.cast(last, u32) >> 30, u64), i64)
    number = k.cast(first >> 62, i32) + k.where(fraction < 0, k.const(1, i32), 0)
    # three instructions of f64 are no loss here, and exact enough
    wide = k.cast(fraction, f64) * (HALF_PI[f64][0] * 2.0**-64)
    r = k.cast(wide, f32)
    return r, k.cast(wide - k.cast(r, f64), f32), number


def from_bits64(k: Builder, x: Value) -> tuple[Value, Value, Value]:
    """`from_bits` of a positive f64."""
    word = k.bitcast(x, u64)
    offset = k.cast(word >> 52, u32) - 1024
    mantissa = (word << 11) | (1 << 63)
    words = window(k, offset >> 6, u64)
    bit = offset & 63
    shifted = [(words[i] << bit) | (words[i + 1] >> (64 - bit)) for i in range(3)]
    # the lower 192 bits of the product: 2 of the quadrant, 190 behind the point
    last = mantissa * shifted[2]
    carried = k.mulhi(mantissa, shifted[2])
    middle = mantissa * shifted[1] + carried
    carry = k.where(middle < carried, k.const(1, u64), 0)
    first = mantissa * shifted[0] + k.mulhi(mantissa, shifted[1]) + carry
    high, low = (first << 2) | (middle >> 62), (middle << 2) | (last >> 62)
    is_upper = k.bitcast(high, i64) < 0
    number = k.cast(first >> 62, i32) + k.where(is_upper, k.const(1, i32), 0)
    # to the nearest quadrant: the magnitude of a negative fraction
    high = k.where(is_upper, ~high + k.where(low == 0, k.const(1, u64), 0), high)
    low = k.where(is_upper, 0 - low, low)
    zeros = k.clz(high)
    top = (high << zeros) | (low >> (64 - zeros))
    rest = ((top & 0x7FF) << 42) | ((low << zeros) >> 22)
    unit = power_of_two(k, -k.bitcast(zeros, i32), f64)
    a, b = k.cast(top >> 11, f64) * (unit * 2.0**-53), k.cast(rest, f64) * (unit * 2.0**-106)
    first_part, second_part, _ = HALF_PI[f64]
    r = a * first_part
    tail = k.fma(a, first_part, -r) + k.fma(a, second_part, b * first_part)
    return k.where(is_upper, -r, r), k.where(is_upper, -tail, tail), number
