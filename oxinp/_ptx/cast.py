"""Casts as NumPy on x86-64 does them.

PTX conversions saturate and turn NaN into 0; NumPy's give what the x86 instruction gives: the lowest integer for NaN
and for everything out of range, then the low bits for types narrower than the conversion. Conversions between
integers, to floats and between floats agree. NumPy's own scalar and vector loops differ for floats to u32 outside
-2**31 to 2**32; this is the vector loop's result.
"""

from __future__ import annotations

from oxinp._ptx import complex as complex_
from oxinp._ptx.types import Compound, Type, bf16, f16, f32, i32, i64, pred, u16, u32, u64
from oxinp._ptx.value import Language, Value

_SIGNED_OF = {u32: i32, u64: i64}


def cast(k: Language, value: Value, to: Type) -> Value:
    """`value` converted to type `to` with NumPy's result for every input."""
    source = value.type
    if source is to:
        return value
    if isinstance(source, Compound) or isinstance(to, Compound):
        return complex_.cast(k, value, to)
    if source is pred:
        return _from_pred(k, value, to)
    if to is pred:
        return _to_pred(k, value)
    if source is bf16:
        wide = k.emit("shl", k.emit("cvt", k.bitcast(value, u16), types=(u32, u16)), 16)
        return cast(k, k.bitcast(wide, f32), to)
    if to is bf16:
        return k.emit("cvt", cast(k, value, f32), types=(bf16, f32))
    if source.is_float and to.is_integer:
        return _float_to_integer(k, cast(k, value, f32) if source is f16 else value, to)
    return k.emit("cvt", value, types=(to, source))


def _from_pred(k: Language, value: Value, to: Type) -> Value:
    if to in (f16, bf16):
        return cast(k, _from_pred(k, value, f32), to)
    return k.where(value, k.const(1, to), k.const(0, to))


def _to_pred(k: Language, value: Value) -> Value:
    if value.type in (f16, bf16):
        value = cast(k, value, f32)
    return k.compare("ne", value, 0)


def _float_to_integer(k: Language, value: Value, to: Type) -> Value:
    if to in _SIGNED_OF:
        # x86 has no unsigned conversion: from half the range on compilers convert the rest and flip the top bit
        signed, half = _SIGNED_OF[to], 2.0 ** (to.bits - 1)
        is_big = value >= half
        low = _checked(k, k.where(is_big, value - half, value), signed)
        return k.bitcast(low, to) ^ k.where(is_big, k.const(1 << (to.bits - 1), to), k.const(0, to))
    if to is i64:
        return _checked(k, value, i64)
    word = _checked(k, value, i32)
    return word if to is i32 else cast(k, word, to)


def _checked(k: Language, value: Value, to: Type) -> Value:
    """Truncate; the lowest integer where the value is NaN or too large (too small saturates to it by itself)."""
    lowest = -(1 << (to.bits - 1))
    converted = k.emit("cvt_rzi", value, types=(to, value.type))
    return k.where(value < 2.0 ** (to.bits - 1), converted, k.const(lowest, to))
