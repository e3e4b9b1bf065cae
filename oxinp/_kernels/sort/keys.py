"""Keys: NumPy's order of a dtype as an order of unsigned words, read a digit of 8 bits at a time.

Kernels move elements as their bits (`carrier`) and ask for digits when they need one: what is sorted is never changed,
so that equal elements of different bits (zeros of both signs, NaNs of any payload) keep theirs, and their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.types import Type, compound, f32, f64, i32, u8, u16, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

DIGIT_BITS = 8
NUM_BINS = 1 << DIGIT_BITS
DIGITS_PER_WORD = 4
ALL_ONES = 0xFFFFFFFF
SIGN = 0x80000000
HALF_INF, HALF_SIGN = 0x7C00, 0x8000

_CARRIERS = {1: u8, 2: u16, 4: u32, 8: u64, 16: compound(u64, u64)}


def carrier(type_: Type) -> Type:
    """Return the type that holds the bits of an element."""
    return _CARRIERS[type_.nbytes]


def num_digits(type_: Type) -> int:
    """Return how many digits order the elements of a type; complex numbers have one more, see `words`."""
    return type_.nbytes + type_.is_complex


def largest(k: Builder, type_: Type, is_descending: bool = False) -> Value:
    """Return bits whose digits are the greatest there are: nothing stands behind them."""
    if is_descending and type_.kind in "iup":
        return k.const(1 << (8 * type_.nbytes - 1) if type_.kind == "i" else 0, carrier(type_))
    if type_.is_complex:
        parts = [largest(k, part) for part in type_.parts]
        return k.pack(*parts) if type_.nbytes == u64.nbytes else k.compound(carrier(type_), *parts)
    bits = 8 * type_.nbytes
    return k.const((1 << bits) - 1 if type_.kind in "up" else (1 << (bits - 1)) - 1, carrier(type_))


def words(k: Builder, bits: Value, type_: Type, is_descending: bool = False) -> list[Value]:
    """Return the words of a key, the least significant first; unsigned order is NumPy's.

    Descending keys are inverted, but those of NaNs, which are the greatest in both orders.

    Floats: negative ones are inverted, the others get the sign bit; zeros are one key, NaNs are the greatest. Complex
    numbers are ordered by their real parts, then by the imaginary ones, but those with a NaN follow all others: first
    NaN as imaginary part, then as real part, then both. A last word says which.
    """
    if not type_.is_complex:
        return _real_words(k, bits, type_, is_descending)[0]
    real, imag = k.unpack(bits) if type_.nbytes == u64.nbytes else bits.parts
    high, is_high_nan = _real_words(k, real, type_.parts[0], is_descending)
    low, is_low_nan = _real_words(k, imag, type_.parts[1], is_descending)
    assert is_high_nan is not None
    assert is_low_nan is not None
    zero = k.const(0, u32)
    kind = k.where(is_high_nan, k.const(2, u32), zero) | k.where(is_low_nan, k.const(1, u32), zero)
    return [*low, *high, kind]


def _real_words(k: Builder, bits: Value, type_: Type, is_descending: bool) -> tuple[list[Value], Value | None]:
    """The words of a real key, and for floats whether it is NaN."""
    if type_.is_float:
        is_nan, keys = _half_words(k, bits) if type_.bits == u16.bits else _float_words(k, bits, type_)
        last = (1 << min(type_.bits, u32.bits)) - 1
        found = [key ^ last if is_descending else key for key in keys]
        return [k.where(is_nan, k.const(last, u32), key) for key in found], is_nan
    sign = 1 << (min(8 * type_.nbytes, u32.bits) - 1)
    flipped = (sign if type_.kind == "i" else 0) ^ (2 * sign - 1 if is_descending else 0)
    *low, high = k.unpack(bits) if type_.nbytes == u64.nbytes else [k.cast(bits, u32)]
    return [*(word ^ ALL_ONES if is_descending else word for word in low), high ^ flipped if flipped else high], None


def _float_words(k: Builder, bits: Value, type_: Type) -> tuple[Value, list[Value]]:
    """Whether a float is NaN, and the words of its key if it is none."""
    value = k.bitcast(bits, type_)
    is_nan = k.isnan(value)
    unsigned = k.bitcast(value + 0.0, bits.type)  # -0 + 0 is 0
    found = [unsigned] if type_ is f32 else list(k.unpack(unsigned))
    assert type_ in (f32, f64)
    inverted = k.bitcast(k.bitcast(found[-1], i32) >> 31, u32)
    *low, high = found
    return is_nan, [*(word ^ inverted for word in low), high ^ (inverted | SIGN)]


def _half_words(k: Builder, bits: Value) -> tuple[Value, list[Value]]:
    """Whether a float16 is NaN, and its key if it is none; see `_float_words`."""
    word = k.cast(bits, u32)
    magnitude = word & (HALF_SIGN - 1)
    is_nan = magnitude > HALF_INF
    word = k.where(magnitude == 0, magnitude, word)
    is_negative = (word & HALF_SIGN) != 0
    return is_nan, [word ^ k.where(is_negative, k.const(2 * HALF_SIGN - 1, u32), k.const(HALF_SIGN, u32))]


class Digit:
    """One digit of keys, by its run-time number, the least significant is 0.

    Parameters
    ----------
    k : Builder
    type_ : Type
        Of elements.
    number : Value
        u32, the same in all threads.
    is_descending : bool
        See `words`.
    """

    def __init__(self, k: Builder, type_: Type, number: Value, is_descending: bool) -> None:
        self._k, self._type, self._is_descending = k, type_, is_descending
        num_words = -(-num_digits(type_) // DIGITS_PER_WORD)
        word = number >> 2
        self._is_word = [word == i for i in range(1, num_words)]
        self._byte = (number & 3) | 0x4440  # of prmt: that byte, then zeros

    def of(self, bits: Value) -> Value:
        """Return the digit of an element, u32."""
        k = self._k
        found, *others = words(k, bits, self._type, self._is_descending)
        for is_word, other in zip(self._is_word, others, strict=True):
            found = k.where(is_word, other, found)
        digit: Value = k.prmt(found, 0, self._byte)
        return digit


def all_digits(k: Builder, bits: Value, type_: Type, is_descending: bool) -> list[Value]:
    """Return every digit of an element, u32 each, the least significant first."""
    found = words(k, bits, type_, is_descending)
    numbers = range(num_digits(type_))
    return [k.prmt(found[i // DIGITS_PER_WORD], 0, 0x4440 | i % DIGITS_PER_WORD) for i in numbers]


__all__ = ["ALL_ONES", "DIGIT_BITS", "NUM_BINS", "Digit", "all_digits", "carrier", "largest", "num_digits", "words"]
