"""hypot and cbrt: approximations corrected by their residuals, which FMA gives almost exactly."""

from __future__ import annotations

from oxinp._ptx.math.floats import exponent_of, root_sum, top_word
from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import f32, f64, u32
from oxinp._ptx.value import Language, Value


@widened
def hypot(k: Language, x: Value, y: Value) -> Value:
    """``sqrt(x**2 + y**2)`` without overflow or underflow on the way; at most 0.51 ulp from the true value.

    At most 0.75 ulp where it is subnormal. Method: both scaled by a power of two; squares and their sum with their
    errors; the root corrected by its residual.
    """
    x, y = k.abs(x), k.abs(y)
    is_steep = y > x
    more, less = k.where(is_steep, y, x), k.where(is_steep, x, y)
    factor, back = exponent_of(k, more)
    a, b = more * factor, less * factor
    square, other = a * a, b * b
    total = square + other
    low = ((square - total) + other) + (k.fma(a, a, -square) + k.fma(b, b, -other))
    root, change = root_sum(k, total, low)
    result = (root + change) * 0.5 * back
    infinity = float("inf")
    return k.where((x == infinity) | (y == infinity), infinity, result)


def plain_root(k: Language, a: Value) -> Value:
    """Square root within 1 ulp, of numbers far from the ends of the range; in half the time of ``k.sqrt``.

    Method: the hardware's inverse root (20 bits in f64), and the first terms of its error's series.
    """
    inverse_root: Value = k.rsqrt_approx_ftz(a)
    found: Value = a * inverse_root
    error = k.fma(-found, inverse_root, 1.0)
    slope = k.const(0.5, a.type) if a.type is f32 else k.fma(error, 0.375, 0.5)
    result: Value = k.fma(found * error, slope, found)
    return result


# The top word of 1 / cbrt(x) is about this less a third of that of x.
MAGIC = {f32: 0x54A20000, f64: 0x553EE000}
# Below SMALL, where residuals would be subnormal, arguments are multiplied by LIFT and results by DROP.
SMALL = {f32: 2.0**-60, f64: 2.0**-900}
LIFT = {f32: 2.0**90, f64: 2.0**540}
DROP = {f32: 2.0**-30, f64: 2.0**-180}
ROUNDS = {f32: 2, f64: 3}


@widened
def cbrt(k: Language, x: Value) -> Value:
    """Cube root; at most 0.51 ulp from the true value.

    Method: ``y = a**(-1/3)`` from the bits to 4 %, two (f32) or three cubic steps, then ``a y**2``
    corrected by its residual.
    """
    type = x.type
    magnitude = k.abs(x)
    is_small = magnitude < SMALL[type]
    a = k.where(is_small, magnitude * LIFT[type], magnitude)
    word = k.mulhi(k.bitcast(top_word(k, a), u32), 0x55555556)
    word = k.const(MAGIC[type], u32) - word
    y = k.bitcast(word, f32) if type is f32 else k.bitcast(k.pack(k.const(0, u32), word), f64)
    for _ in range(ROUNDS[type]):
        error = k.fma(-(a * y), y * y, 1.0)
        y = k.fma(y * error, k.fma(error, 2 / 9, 1 / 3), y)
    square = y * y
    root = a * square
    residual = k.fma(-(root * root), root, a) - k.fma(root, root, -(root * root)) * root
    root = k.fma(residual, square * (1 / 3), root) * k.where(is_small, k.const(DROP[type], type), 1.0)
    return k.where((magnitude > 0) & (magnitude < float("inf")), k.copysign(x, root), x + x)
