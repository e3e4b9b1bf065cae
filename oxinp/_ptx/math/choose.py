"""The lesser and the greater of two, as NumPy's loops choose."""

from __future__ import annotations

from typing import Any

from oxinp._ptx.types import f16


def _precedes(name: str, a: Any, b: Any) -> Any:
    """Whether `a` is taken over `b`: of equal ones (zeros differ in sign) the second, as x86 has it; in f16 the first.

    NumPy's f16 loops are plain C; its other float loops are the vector instruction of the machine.
    """
    or_equal = a.type is f16
    if name == "min":
        return a <= b if or_equal else a < b
    return a >= b if or_equal else a > b


def minimum(k: Any, a: Any, b: Any) -> Any:
    """The lesser; NaN if either is."""
    return k.where(_precedes("min", a, b) | k.isnan(a), a, b) if a.type.is_float else k.min(a, b)


def maximum(k: Any, a: Any, b: Any) -> Any:
    """The greater; NaN if either is."""
    return k.where(_precedes("max", a, b) | k.isnan(a), a, b) if a.type.is_float else k.max(a, b)


def fmin(k: Any, a: Any, b: Any) -> Any:
    """The lesser; the number if one is NaN."""
    if a.type.is_complex:
        return k.where((a <= b) | k.isnan(b), a, b)
    return k.where(_precedes("min", a, b) | k.isnan(b), a, b) if a.type.is_float else k.min(a, b)


def fmax(k: Any, a: Any, b: Any) -> Any:
    """The greater; the number if one is NaN."""
    if a.type.is_complex:
        return k.where((a >= b) | k.isnan(b), a, b)
    return k.where(_precedes("max", a, b) | k.isnan(b), a, b) if a.type.is_float else k.max(a, b)


def clip(k: Any, a: Any, low: Any, high: Any) -> Any:
    """`a` between limits; NaN if any is, of complex numbers if `a` is."""
    if a.type.is_complex:
        a = k.where(k.isnan(a) | _is_below(k, low, a), a, low)
        return k.where(k.isnan(a) | _is_below(k, a, high), a, high)
    return minimum(k, maximum(k, a, low), high)


def _is_below(k: Any, a: Any, b: Any) -> Any:
    """By real part, then by imaginary part, whatever is NaN."""
    is_level = k.compare("eq", a.real, b.real)
    return (is_level & (a.imag < b.imag)) | (~is_level & (a.real < b.real))


def clip_between_constants(k: Any, a: Any, low: Any, high: Any) -> Any:
    """As `clip`, but a value equal to a limit stays as it is: NumPy's loop for limits that are scalars."""
    if not a.type.is_float:
        return clip(k, a, low, high)
    a = k.where(a < low, low, a)
    a = k.where(a > high, high, a)
    is_nan = k.emit("isnan", low, high)
    return k.where(is_nan, low + high, a)
