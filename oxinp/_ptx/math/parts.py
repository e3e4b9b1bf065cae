"""Functions that take floats apart and put them together: signs, neighbours, exponents, whole and fractional parts.

All are exact, with the results of NumPy for zeros of either sign, infinities and NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oxinp._ptx.math.widen import widened
from oxinp._ptx.types import SIGNED, f16, f32, f64, i32, u16, u32, u64

_INFINITY = float("inf")


class Format(NamedTuple):
    """How a float is stored: bits of its significand, greatest exponent, and the unsigned type of its bits."""

    digits: int
    largest: int
    bits: Any

    @property
    def sign(self) -> int:
        """The sign bit."""
        bits: int = self.bits.bits
        return 1 << (bits - 1)

    @property
    def smallest(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.largest


FORMATS = {f16: Format(10, 15, u16), f32: Format(23, 127, u32), f64: Format(52, 1023, u64)}


def rint(k: Any, a: Any) -> Any:
    """Nearest integral value, ties to even."""
    return k.cvt(a, a.type, "rni")


def floor(k: Any, a: Any) -> Any:
    """Largest integral value not above."""
    return k.cvt(a, a.type, "rmi")


def ceil(k: Any, a: Any) -> Any:
    """Smallest integral value not below."""
    return k.cvt(a, a.type, "rpi")


def trunc(k: Any, a: Any) -> Any:
    """Integral value nearest on the side of zero."""
    return k.cvt(a, a.type, "rzi")


def sign(k: Any, a: Any) -> Any:
    """-1, 0 or 1, and NaN for NaN."""
    zero_or_nan = k.where(a == 0, k.const(0.0, a.type), a)
    return k.where(a > 0, k.const(1.0, a.type), k.where(a < 0, k.const(-1.0, a.type), zero_or_nan))


def signbit(k: Any, a: Any) -> Any:
    """Whether the sign bit is set."""
    return k.bitcast(a, SIGNED[a.type.bits]) < 0


def copysign(k: Any, magnitude: Any, sign: Any) -> Any:
    """`magnitude` with the sign of the second operand."""
    if magnitude.type is not f16:
        return k.emit("copysign", sign, magnitude)  # PTX has the operands the other way round
    bits = (k.bitcast(magnitude, u16) & 0x7FFF) | (k.bitcast(sign, u16) & 0x8000)
    return k.bitcast(bits, f16)


def isnan(k: Any, a: Any) -> Any:
    """Whether it is NaN."""
    return k.isnan(a)


def isinf(k: Any, a: Any) -> Any:
    """Whether it is an infinity."""
    return k.abs(a) == _INFINITY


def isfinite(k: Any, a: Any) -> Any:
    """Whether it is neither an infinity nor NaN."""
    return k.abs(a) < _INFINITY


def heaviside(k: Any, a: Any, at_zero: Any) -> Any:
    """0 below zero, 1 above, `at_zero` at zero, NaN for NaN."""
    step = k.where(a < 0, k.const(0.0, a.type), k.where(a > 0, k.const(1.0, a.type), at_zero))
    return k.where(k.isnan(a), a, step)


# NumPy's float16 left zeros their sign before 2.5.
_HALF_KEEPS_ZEROS = np.lib.NumpyVersion(np.__version__) < "2.5.0"


def nextafter(k: Any, a: Any, b: Any) -> Any:
    """The next float after `a` on the way to `b`."""
    form = FORMATS[a.type]
    bits, toward = k.bitcast(a, form.bits), k.bitcast(b, form.bits)
    away = (a > 0) ^ (b < a)  # from zero, where neither is NaN and they differ
    stepped = k.where(away, bits + 1, bits - 1)
    stepped = k.where(a == 0, (toward & form.sign) | 1, stepped)
    stepped = k.bitcast(stepped, a.type)
    stepped = k.where(a == b, a if a.type is f16 and _HALF_KEEPS_ZEROS else b, stepped)
    return k.where(k.emit("isnan", a, b), a + b, stepped)


def spacing(k: Any, a: Any) -> Any:
    """Distance to the neighbour farther from zero, with the sign of `a`; NaN for infinities."""
    if a.type is f16:
        return _spacing_f16(k, a)
    form = FORMATS[a.type]
    neighbour = k.bitcast(k.bitcast(a, form.bits) + 1, a.type)
    smallest = k.const(float(np.finfo(a.type.dtype).smallest_subnormal), a.type)
    return k.where(k.isnan(a), a, k.where(a == 0, smallest, neighbour - a))


def _spacing_f16(k: Any, a: Any) -> Any:
    """NumPy's own for f16: never negative, and that of the upper neighbour where `a` is minus a power of two."""
    bits = k.cast(k.bitcast(a, u16), u32)
    exponent = bits & 0x7C00
    is_boundary = ((bits & 0x83FF) == 0x8000) & (exponent != 0)
    exponent_below = k.where(is_boundary, exponent - 0x400, exponent)
    normal = exponent_below > 0x2800
    shift = k.where(exponent_below > 0x400, (exponent_below >> 10) - 1, 0)
    result = k.where(normal, exponent_below - 0x2800, k.shl(k.const(1, u32), shift))
    result = k.where(bits == 0x7BFF, 0x7C00, k.where(exponent == 0x7C00, 0x7E00, result))
    return k.bitcast(k.cast(result, u16), f16)


def power_of_two(k: Any, exponent: Any, type: Any) -> Any:
    """2 to an integer power that is that of a normal number, as a float of `type`."""
    form = FORMATS[type]
    word = k.cast(exponent, SIGNED[type.bits]) + form.largest
    return k.bitcast(k.bitcast(word, form.bits) << form.digits, type)


@widened
def ldexp(k: Any, a: Any, exponent: Any) -> Any:
    """``a * 2**exponent``, rounded once."""
    form = FORMATS[a.type]
    limit = 2 * (form.largest + form.digits) + 100
    exponent = k.cast(k.max(k.min(exponent, limit), -limit), i32)
    # Down by less than the range, so that the last step, which rounds, starts from a normal number.
    down = form.smallest + form.digits + 1
    for _ in range(2):
        is_large, is_small = exponent > form.largest, exponent < form.smallest
        a = k.where(is_large, a * 2.0**form.largest, k.where(is_small, a * 2.0**down, a))
        exponent = exponent - k.where(is_large, k.const(form.largest, i32), k.where(is_small, k.const(down, i32), 0))
    return a * power_of_two(k, k.max(k.min(exponent, form.largest), form.smallest), a.type)


def _normal(k: Any, a: Any) -> tuple[Any, Any]:
    """Bits of `a` scaled to a normal number (zeros, infinities and NaN stay), and by how many powers of two."""
    form = FORMATS[a.type]
    is_small = k.abs(a) < 2.0**form.smallest
    steps = form.digits + 1
    scaled = k.where(is_small, a * 2.0**steps, a)
    return k.bitcast(scaled, form.bits), k.where(is_small, k.const(steps, i32), 0)


def _is_ordinary(k: Any, a: Any) -> Any:
    """Whether it is finite and not zero."""
    magnitude = k.abs(a)
    return (magnitude < _INFINITY) & (magnitude > 0)


@widened
def frexp_mantissa(k: Any, a: Any) -> Any:
    """`a` over a power of two, from 0.5 to below 1; zeros, infinities and NaN stay."""
    form = FORMATS[a.type]
    bits, _ = _normal(k, a)
    exponent = ((1 << (form.bits.bits - 1 - form.digits)) - 1) << form.digits
    all_ones = (1 << form.bits.bits) - 1
    mantissa = (bits & (all_ones ^ exponent)) | ((form.largest - 1) << form.digits)
    return k.where(_is_ordinary(k, a), k.bitcast(mantissa, a.type), a)


@widened
def frexp_exponent(k: Any, a: Any) -> Any:
    """The power of two of `frexp_mantissa`, i32; 0 for zeros, infinities and NaN."""
    form = FORMATS[a.type]
    bits, steps = _normal(k, a)
    field = k.cast((bits >> form.digits) & ((1 << (form.bits.bits - 1 - form.digits)) - 1), i32)
    return k.where(_is_ordinary(k, a), field - (form.largest - 1) - steps, 0)


@widened
def modf_fraction(k: Any, a: Any) -> Any:
    """What `trunc` takes off, with the sign of `a`."""
    fraction = k.where(k.abs(a) == _INFINITY, k.const(0.0, a.type), a - trunc(k, a))
    return k.emit("copysign", a, fraction)
