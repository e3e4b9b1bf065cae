"""Scaling f32 by powers of two, derived from the bits of the largest magnitude, so that halves hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import f32, i32, u32

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

TOP = 14  # exponent of the largest magnitude once it is scaled: halves end below 2**16


def scaling_exponent(k: Builder, bits: Value) -> Value:
    """Exponent, i32, of the power of two that brings a magnitude (its bits, i32) to [2**14, 2**15); 0 for zero."""
    exponent = k.shr(bits, 23)
    normal = (127 + TOP) - exponent
    subnormal = k.cast(k.clz(k.bitcast(bits, u32)), i32) + (149 - 31 + TOP)
    return k.where(bits == 0, 0, k.where(exponent == 0, subnormal, normal))


def unscaling_exponent(k: Builder, bits: Value) -> Value:
    """The exponent of the inverse."""
    return 0 - scaling_exponent(k, bits)


def scaled(k: Builder, value: Value, exponent: Value) -> Value:
    """``value * 2**exponent`` for exponents of -252 to 254, rounded at most once for what does not vanish."""
    half = k.shr(exponent, 1)
    for part in (half, exponent - half):
        value = value * k.bitcast(k.shl(part + 127, 23), f32)
    return value


__all__ = ["scaled", "scaling_exponent", "unscaling_exponent"]
