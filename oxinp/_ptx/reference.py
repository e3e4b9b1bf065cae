"""What instructions mean: NumPy functions over arrays of lanes, used as ``ref`` in the instruction table.

Every function takes and returns arrays of the instruction's own types and computes lane by lane. The emulator
calls them with floating-point warnings off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from oxinp._ptx import fused
from oxinp._ptx.truths import all_of, any_of

# An array of lanes; the stubs of NumPy lose the type wherever dtypes are run-time values.
Array: TypeAlias = Any


# --------------------------------------------------------------------------------------------------------------
# integers


def truncating_divide(a: Array, b: Array) -> Array:
    """Quotient rounded to zero; all ones where `b` is 0, which is what the hardware gives."""
    if a.dtype.kind == "u":
        return np.where(b == 0, ~np.zeros_like(b), a // np.where(b == 0, 1, b).astype(b.dtype))
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = np.floor_divide(a, safe)
    # floor and truncation differ where the exact quotient is negative and not whole
    inexact = quotient * safe != a
    quotient = quotient + (inexact & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, b.dtype.type(-1), quotient)


def truncating_remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of `a`; `a` itself where `b` is 0."""
    return np.where(b == 0, a, a - truncating_divide(a, b) * b)


def multiply_high(a: Array, b: Array) -> Array:
    """Upper half of the double-width product."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{bits // 4}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(bits)).astype(a.dtype)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = ua & low, ua >> shift, ub & low, ub >> shift
    middle = a1 * b0 + ((a0 * b0) >> shift)
    high = a1 * b1 + (middle >> shift) + (((middle & low) + a0 * b1) >> shift)
    if a.dtype.kind == "i":  # signed = unsigned minus the weights of the two sign bits
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    return high.view(a.dtype)


def multiply_wide(a: Array, b: Array) -> Array:
    """Full product in the type twice as wide."""
    wide = _WIDER[a.dtype]
    return a.astype(wide) * b.astype(wide)


_WIDER = {np.dtype(f"{kind}{nbytes}"): np.dtype(f"{kind}{2 * nbytes}") for kind in "iu" for nbytes in (1, 2, 4)}


def multiply_add_wide(a: Array, b: Array, c: Array) -> Array:
    """Full product plus a double-width addend."""
    return multiply_wide(a, b) + c


def _without_axes(values: Any, dtype: Any) -> list[Array]:
    """Constants as arrays without axes: operations with them take half of the time of those with numbers."""
    return [np.array(value, dtype) for value in values]


_COUNTS = {np.dtype(f"{kind}{n}"): _without_axes(range(8 * n), f"{kind}{n}") for kind in "iu" for n in (1, 2, 4, 8)}


def shift_left(a: Array, count: Array) -> Array:
    """Left shift; counts of the width and above give 0."""
    bits = a.dtype.itemsize * 8
    if count.size == 1 and count.item() < bits:
        return np.left_shift(a, _COUNTS[a.dtype][count.item()])
    shifted = np.left_shift(a, np.minimum(count, bits - 1).astype(a.dtype))
    return np.where(count >= bits, a.dtype.type(0), shifted)


def shift_right(a: Array, count: Array) -> Array:
    """Right shift, arithmetic for signed types; large counts shift everything out."""
    bits = a.dtype.itemsize * 8
    if count.size == 1 and count.item() < bits:
        return np.right_shift(a, _COUNTS[a.dtype][count.item()])
    shifted = np.right_shift(a, np.minimum(count, bits - 1).astype(a.dtype))
    if a.dtype.kind == "i":
        return shifted
    return np.where(count >= bits, a.dtype.type(0), shifted)


def funnel_shift_left(low: Array, high: Array, count: Array) -> Array:
    """Upper word of ``high:low`` shifted left by ``count & 31``."""
    wide = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return ((wide << (count & np.uint32(31)).astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)


def funnel_shift_right(low: Array, high: Array, count: Array) -> Array:
    """Lower word of ``high:low`` shifted right by ``count & 31``."""
    wide = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return (wide >> (count & np.uint32(31)).astype(np.uint64)).astype(np.uint32)


def population_count(a: Array) -> Array:
    """Number of one bits."""
    return np.bitwise_count(a.view(f"u{a.dtype.itemsize}")).astype(np.uint32)


def reverse_bits(a: Array) -> Array:
    """Bits in the opposite order."""
    value = a.view(f"u{a.dtype.itemsize}")
    scalar, bits = value.dtype.type, a.dtype.itemsize * 8
    for shift, pattern in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        mask = scalar(pattern & ((1 << bits) - 1))
        value = ((value >> scalar(shift)) & mask) | ((value & mask) << scalar(shift))
    return value.byteswap().view(a.dtype)


def count_leading_zeros(a: Array) -> Array:
    """Number of zero bits above the highest one bit; the width for 0."""
    value = a.view(f"u{a.dtype.itemsize}")
    bits, filled = a.dtype.itemsize * 8, value.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < bits:
            filled |= filled >> value.dtype.type(shift)
    return np.uint32(bits) - np.bitwise_count(filled).astype(np.uint32)


def find_leading_one(a: Array) -> Array:
    """Position of the highest bit that differs from the sign; all ones if there is none."""
    magnitude = np.where(a < 0, ~a, a).astype(a.dtype) if a.dtype.kind == "i" else a
    return np.uint32(a.dtype.itemsize * 8 - 1) - count_leading_zeros(magnitude)


def extract_bits(a: Array, start: Array, length: Array) -> Array:
    """Unsigned bit field of `length` bits from bit `start`."""
    start, length = start & np.uint32(255), length & np.uint32(255)
    mask = shift_left(np.ones_like(a), length) - a.dtype.type(1)
    return shift_right(a, start) & mask


def permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """Four bytes picked from the eight of ``b:a``; selector nibbles, bit 3 replicates the sign."""
    if selector.size == 1:
        return _pick_bytes(a, b, selector.item())
    wide = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    result = np.zeros(np.broadcast(a, b, selector).shape, np.uint32)
    for i in range(4):
        nibble = (selector >> np.uint32(4 * i)) & np.uint32(15)
        byte = (wide >> ((nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint8)
        sign = np.where(byte >= 128, 255, 0).astype(np.uint8)
        result |= np.where(nibble >= 8, sign, byte).astype(np.uint32) << np.uint32(8 * i)
    return result


def _pick_bytes(a: Array, b: Array, selector: int) -> Array:
    """What `permute_bytes` gives where all lanes have one selector."""
    num = max(a.size, b.size)
    result = np.empty(num, np.uint32)
    places = result.view(np.uint8).reshape(num, 4)
    words = [np.ascontiguousarray(word).view(np.uint8).reshape(-1, 4) for word in (a, b)]
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = words[nibble >> 2 & 1][:, nibble & 3]
        places[:, i] = byte if nibble < 8 else byte.view(np.int8) >> 7
    return result


def multiply_add_bytes(a: Array, b: Array, c: Array) -> Array:
    """Sum of the products of the four unsigned bytes, and of `c`."""
    result = c.copy()
    for shift in (np.uint32(0), np.uint32(8), np.uint32(16), np.uint32(24)):
        result = result + (a >> shift & np.uint32(255)) * (b >> shift & np.uint32(255))
    return result


def absolute(a: Array) -> Array:
    """Absolute value; clears the sign bit of floats, NaN included."""
    return np.abs(a)


# --------------------------------------------------------------------------------------------------------------
# floating point


def minimum_number(a: Array, b: Array) -> Array:
    """Smaller of two, the number if one is NaN, -0 below +0."""
    smaller = np.fmin(a, b)
    return np.where((a == 0) & (b == 0) & (np.signbit(a) | np.signbit(b)), a.dtype.type(-0.0), smaller)


def maximum_number(a: Array, b: Array) -> Array:
    """Larger of two, the number if one is NaN, +0 above -0."""
    larger = np.fmax(a, b)
    return np.where((a == 0) & (b == 0) & ~(np.signbit(a) & np.signbit(b)), a.dtype.type(0.0), larger)


def minimum_nan(a: Array, b: Array) -> Array:
    """Smaller of two, NaN if either is."""
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), minimum_number(a, b))


def maximum_nan(a: Array, b: Array) -> Array:
    """Larger of two, NaN if either is."""
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), maximum_number(a, b))


def of_halves(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Apply a function to both f16 of words."""

    def on_words(a: Array, b: Array) -> Array:
        halves = function(*[np.ascontiguousarray(x[..., None]).view(np.float16) for x in (a, b)])
        return np.where(np.isnan(halves), _NAN_F16, halves).view(np.uint32)[..., 0]

    return on_words


_NAN_F16 = np.array(0x7FFF, np.uint16).view(np.float16)  # the hardware's


def negate(a: Array) -> Array:
    """Negation; flips the sign bit of floats, zeros and NaN included."""
    return np.negative(a)


def approximate_reciprocal(a: Array) -> Array:
    """Reciprocal; of f64 the upper word alone, from the operand's upper word alone, as PTX has it."""
    return 1 / a if a.dtype == np.float32 else _upper(1 / _upper(a))


def approximate_inverse_root(a: Array) -> Array:
    """Reciprocal of the square root; of f64 the upper word alone, likewise."""
    return 1 / np.sqrt(a) if a.dtype == np.float32 else _upper(1 / np.sqrt(_upper(a)))


def _upper(a: Array) -> Array:
    """f64 without their lower words."""
    return (a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


def copy_sign(sign: Array, magnitude: Array) -> Array:
    """`magnitude` with the sign of the first operand (the order of PTX, not of C)."""
    return np.copysign(magnitude, sign)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Rounded sum and its exact error."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _round_to_odd(total: Array, error: Array) -> Array:
    """Turn a finite nearest-rounded f64 sum and its error into the sum rounded to odd."""
    bits = total.view(np.int64)
    # move one unit in the last place toward the error: up in magnitude if both have one sign
    step = ~bits & (error != 0)
    opposite = (bits ^ error.view(np.int64)) >> 63
    return (bits + ((step ^ opposite) - opposite)).view(np.float64)


# Of the f64 bits: those that the type lacks, the highest of them, and the type's least normal number.
_NARROW = {
    np.dtype(np.float16): (*_without_axes((2**42 - 1, 2**41), np.int64), np.array(2.0**-14, np.float16)),
    np.dtype(np.float32): (*_without_axes((2**29 - 1, 2**28), np.int64), np.array(2.0**-126, np.float32)),
}
_F64, _I64 = np.dtype(np.float64), np.dtype(np.int64)


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` with one rounding, for f16, f32 and f64."""
    if a.dtype == _F64:
        result = fused.multiply_add(a, b, c)
        return _fma64(a, b, c) if result is None else result
    # The product is exact in f64. The sum is rounded there and once more here, which is wrong at most where it is half
    # way between two numbers of the type, and among its subnormal numbers, where half way is elsewhere.
    total = a.astype(_F64) * b.astype(_F64) + c.astype(_F64)
    result = total.astype(a.dtype)
    below, half, least = _NARROW[a.dtype]
    doubtful = (total.view(_I64) & below) == half
    small = np.abs(result) <= least
    if any_of(small):
        doubtful |= small & (total != _ZERO)
    if any_of(doubtful):
        a, b, addend = (np.broadcast_to(x, total.shape)[doubtful].astype(np.float64) for x in (a, b, c))
        result[doubtful] = _round_to_odd(*two_sum(a * b, addend)).astype(result.dtype)
    return result


_SPLITTER, _ZERO = _without_axes((2**27 + 1, 0), np.float64)


def _split(a: Array) -> tuple[Array, Array]:
    spread = a * _SPLITTER
    high = spread - (spread - a)
    return high, a - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Rounded f64 product and its exact error (no overflow or underflow)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """f64 FMA: a sum and what it lacks, and by exact transformations where that might be rounded in two ways."""
    product, error = two_product(a, b)
    total, rest = two_sum(product, c)
    rest = rest + error
    # The sum lacks a number between these two, which give one result nearly always. Near the range's end infinities
    # come up, whose difference is NaN.
    result = total + rest * _ABOVE
    doubtful = result - (total + rest * _BELOW) != _ZERO
    tiny = np.abs(product) < _LEAST_PRODUCT
    if any_of(tiny):
        doubtful = doubtful | (tiny & (a != 0) & (b != 0))
    zero = result == _ZERO
    if any_of(zero):  # an exact one, whose sign the errors lose
        result = np.where(zero, total, result)
    if any_of(doubtful):
        a, b, c = (np.broadcast_to(x, result.shape)[doubtful] for x in (a, b, c))
        result[doubtful] = _fma64_anywhere(a, b, c)
    return result


_ABOVE, _BELOW = _without_axes((1 + 2.0**-52, 1 - 2.0**-52), np.float64)
_LEAST_PRODUCT = np.array(2.0**-960)  # from here on the error of a product has all its bits


def _fma64_anywhere(a: Array, b: Array, c: Array) -> Array:
    """f64 FMA by error-free transformations (Boldo and Melquiond 2008); exact integers near the range's ends."""
    special = ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c) | (a == 0) | (b == 0)
    plain: Array = a * b + c
    if all_of(special):
        return plain
    product, product_error = two_product(a, b)
    upper, lower = two_sum(c, product_error)
    total, total_error = two_sum(product, upper)
    result = total + _round_to_odd(*two_sum(total_error, lower))
    np.copyto(result, plain, where=special | (result == 0))  # a zero's sign, too, which the errors lose
    sizes = [np.frexp(x)[1] for x in (a, b, c)]
    safe = (np.abs(sizes[0] + sizes[1]) < 900) & ((np.abs(sizes[2]) < 900) | (c == 0))
    safe &= (np.abs(sizes[0]) < 900) & (np.abs(sizes[1]) < 900)
    for lane in np.flatnonzero(~(special | safe)):
        result[lane] = fma_exact(float(a[lane]), float(b[lane]), float(c[lane]))
    return result


def fma_exact(a: float, b: float, c: float) -> float:
    """f64 FMA of three finite numbers in integer arithmetic."""
    (an, ad), (bn, bd), (cn, cd) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    numerator, denominator = an * bn * cd + cn * ad * bd, ad * bd * cd
    if numerator == 0:
        return a * b + c if a * b == 0 or c == 0 else 0.0
    try:
        rounded = numerator / denominator  # Python divides integers with one rounding
    except OverflowError:
        rounded = float("inf") if numerator > 0 else float("-inf")
    return -0.0 if rounded == 0 and numerator < 0 else rounded


# --------------------------------------------------------------------------------------------------------------
# conversions

_ROUND = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


def bf16_to_f32(a: Array) -> Array:
    """The f32 of bf16 bits."""
    return (a.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(a: Array) -> Array:
    """bf16 bits of f32, to nearest even; NaN becomes 0x7FFF."""
    bits = a.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(a), np.uint32(0x7FFF), rounded).astype(np.uint16)


def f32_to_bf16_pair(high: Array, low: Array) -> Array:
    """Word of two bf16, the first one in its upper half."""
    return (f32_to_bf16(high).astype(np.uint32) << np.uint32(16)) | f32_to_bf16(low)


def float_to_integer(to: np.dtype, rounding: str) -> Callable[[Array], Array]:
    """Saturating conversion; NaN gives 0, or the top bit alone where PTX says so."""
    info, round_ = np.iinfo(to), _ROUND[rounding]

    def convert(a: Array) -> Array:
        rounded = round_(a.astype(np.float64))
        # 2**63 - 1 is not a float: compare against the power of two above it
        too_big = rounded >= float(info.max) + (0 if to.itemsize < 8 else 1)
        too_small = rounded <= float(info.min)
        if_nan = 1 << (to.itemsize * 8 - 1) if a.dtype == np.float64 or to.itemsize == 8 else 0
        safe = np.where(too_big | too_small | np.isnan(rounded), 0.0, rounded)
        result = safe.astype(np.int64).astype(to) if info.min < 0 else safe.astype(np.uint64).astype(to)
        result = np.where(too_big, to.type(info.max), np.where(too_small, to.type(info.min), result))
        return np.where(np.isnan(rounded), np.array(if_nan, np.uint64).astype(to), result)

    return convert


def round_to_integral(rounding: str) -> Callable[[Array], Array]:
    """Round to an integral value of the same type."""
    return _ROUND[rounding]


def convert(to: np.dtype) -> Callable[[Array], Array]:
    """Conversion that NumPy and PTX agree on: between integers, to floats, between floats."""

    def astype(a: Array) -> Array:
        return a.astype(to)

    return astype


_UNSIGNED = {nbytes: np.dtype(f"u{nbytes}") for nbytes in (1, 2, 4, 8)}


def pack_words(low: Array, high: Array) -> Array:
    """The word twice as wide made of two."""
    nbytes = low.dtype.itemsize
    wide = _UNSIGNED[2 * nbytes]
    return low.astype(wide) | (high.astype(wide) << _COUNTS[wide][8 * nbytes])


def unpack_words(word: Array) -> tuple[Array, Array]:
    """The lower and upper half of a word."""
    half = _UNSIGNED[word.dtype.itemsize // 2]
    return word.astype(half), (word >> _COUNTS[word.dtype][half.itemsize * 8]).astype(half)
