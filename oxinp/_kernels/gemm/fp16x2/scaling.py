"""Scales of f32 rows and columns for f16: powers of two, derived from the bits of the largest magnitude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import f32, i32, u32

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

TOP = 14  # exponent of the largest magnitude after scaling: f16 ends below 2**16


def scaling_exponent(k: Builder, bits: Value) -> Value:
    """Return the exponent, i32, that scales a magnitude (its bits, i32) to [2**14, 2**15); 0 for zero."""
    exponent = k.shr(bits, 23)
    normal = (127 + TOP) - exponent
    subnormal = k.cast(k.clz(k.bitcast(bits, u32)), i32) + (149 - 31 + TOP)
    return k.where(bits == 0, 0, k.where(exponent == 0, subnormal, normal))


def unscaling_exponent(k: Builder, bits: Value) -> Value:
    """Return the exponent of the inverse scale."""
    return 0 - scaling_exponent(k, bits)


def scaled(k: Builder, value: Value, exponent: Value) -> Value:
    """Return ``value * 2**exponent`` for exponents of -252 to 254, rounded at most once if it does not underflow."""
    half = k.shr(exponent, 1)
    for part in (half, exponent - half):
        value = value * k.bitcast(k.shl(part + 127, 23), f32)
    return value


__all__ = ["scaled", "scaling_exponent", "unscaling_exponent"]
