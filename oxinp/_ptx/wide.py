"""Products of 128 bits: carries between 32-bit limbs go through the condition code, which no Python variable is.

ptxas 13.0 makes six ``IMAD.WIDE.U32``, four ``IMAD`` and four additions of it; the same from wide products and 64-bit
sums takes 25 instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx.isa import Op
from oxinp._ptx.types import u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

# Destinations 0, 1; the limbs of b are 4 to 7. The second column of limbs is summed apart, so that pairs stay aligned.
_TEXT = """{{
\t.reg .u32 a0, a1, a2, a3, c0, c1, c2, c3, o0, o1, o2;
\tmov.b64 {{a0, a1}}, {2};
\tmov.b64 {{a2, a3}}, {3};
\tmov.b64 {{c0, c1}}, {8};
\tmov.b64 {{c2, c3}}, {9};
\tmul.lo.u32 o0, a0, {5};
\tmul.hi.u32 o1, a0, {5};
\tmad.lo.cc.u32 o0, a1, {4}, o0;
\tmadc.hi.cc.u32 o1, a1, {4}, o1;
\taddc.u32 o2, 0, 0;
\tmad.lo.cc.u32 c0, a0, {4}, c0;
\tmadc.hi.cc.u32 c1, a0, {4}, c1;
\tmadc.lo.cc.u32 c2, a1, {5}, c2;
\tmadc.hi.u32 c3, a1, {5}, c3;
\tmad.lo.cc.u32 c2, a0, {6}, c2;
\tmadc.hi.u32 c3, a0, {6}, c3;
\tmad.lo.cc.u32 c2, a2, {4}, c2;
\tmadc.hi.u32 c3, a2, {4}, c3;
\tadd.cc.u32 c1, c1, o0;
\taddc.cc.u32 c2, c2, o1;
\taddc.u32 c3, c3, o2;
\tmad.lo.u32 c3, a0, {7}, c3;
\tmad.lo.u32 c3, a1, {6}, c3;
\tmad.lo.u32 c3, a2, {5}, c3;
\tmad.lo.u32 c3, a3, {4}, c3;
\tmov.b64 {0}, {{c0, c1}};
\tmov.b64 {1}, {{c2, c3}};
\t}}"""


def _reference(low: Any, high: Any, b0: Any, b1: Any, b2: Any, b3: Any, plus_low: Any, plus_high: Any) -> Any:
    a, mask = (low, high), np.uint64(0xFFFFFFFF)
    limbs = [word >> np.uint64(shift) & mask for word in a for shift in (0, 32)]
    sums = [word >> np.uint64(shift) & mask for word in (plus_low, plus_high) for shift in (0, 32)]
    for j, b in enumerate((b0, b1, b2, b3)):
        carry = np.zeros_like(low)
        for i in range(4 - j):
            total = limbs[i] * b.astype(np.uint64) + sums[i + j] + carry
            sums[i + j], carry = total & mask, total >> np.uint64(32)
    return sums[0] | sums[1] << np.uint64(32), sums[2] | sums[3] << np.uint64(32)


_MULTIPLY_ADD = Op("multiply_add_128", _TEXT, (u64, u64), (u64, u64, u32, u32, u32, u32, u64, u64), _reference)


def multiply_add_128(
    k: Builder, a: tuple[Value, Value], limbs: tuple[Any, Any, Any, Any], plus: tuple[Value, Value]
) -> tuple[Value, Value]:
    """``a b + plus`` modulo 2**128; numbers are two words of u64, `b` four limbs of u32, low ones first."""
    low, high = k.emit_op(_MULTIPLY_ADD, *a, *limbs, *plus)
    return low, high


__all__ = ["multiply_add_128"]
