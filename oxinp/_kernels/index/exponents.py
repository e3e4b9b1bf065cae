"""Codes of floats: numbers that say how large the parts of a float are, as kernels compare them.

0 stands for nothing, 1 for a zero that is negative, 2 for another one, `special` for infinities and NaNs, anything else
for a finite number, by its exponent as stored, at least 1, and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import Type, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

NEGATIVE_ZERO, ZERO, SMALLEST = 1, 2, 3
OFFSET = 2
"""Of a code above the exponent as stored."""
MANTISSA = {u32: 23, u64: 52}
BIAS = {u32: 127, u64: 1023}
"""By the type of a float's bits."""


def special(bits: Type) -> int:
    """Return the code of infinities and NaNs."""
    return 2 * BIAS[bits] + 1 + OFFSET


def code_of(k: Builder, bits: Value) -> Value:
    """Return the code of a float, given its bits."""
    type_ = bits.type
    magnitude = bits & ((1 << (type_.bits - 1)) - 1)
    exponent = k.max(k.cast(k.shr(magnitude, MANTISSA[type_]), u32), 1)
    zero = k.where(bits == 0, k.const(ZERO, u32), k.const(NEGATIVE_ZERO, u32))
    return k.where(magnitude == 0, zero, exponent + OFFSET)


__all__ = ["BIAS", "MANTISSA", "NEGATIVE_ZERO", "OFFSET", "SMALLEST", "ZERO", "code_of", "special"]
