"""MT19937 on the host: its words, and polynomials that lead far ahead.

The words x of the generator, before they are tempered, follow a linear recurrence over GF(2), whose characteristic
polynomial has 135 terms: with ``p = t**n`` modulo that polynomial, ``x[n + j]`` is the sum of the ``x[i + j]`` for
which p has the term ``t**i``. Polynomials are integers of Python, bit i of which is the coefficient of ``t**i``.

Source: M. Matsumoto, T. Nishimura, "Mersenne Twister" (1998), appendix A; H. Haramoto et al., "Efficient Jump Ahead for
F2-Linear Random Number Generators" (2008); NumPy's src/mt19937.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

N, M = 624, 397  # words of a state, and the distance of the recurrence
FREE = N - M  # words that do not depend on each other
UPPER, LOWER, MATRIX = 0x80000000, 0x7FFFFFFF, 0x9908B0DF
DEGREE = 19937
COEFFICIENT_WORDS = -(-DEGREE // 32)
_MASK = (1 << DEGREE) - 1

Words = np.ndarray[Any, np.dtype[np.uint32]]


def following(window: Words, count: int) -> Words:
    """Return `count` words, of which the first ones are given."""
    words = np.empty(max(count, N), np.uint32)
    words[:N] = window
    for at in range(N, count, FREE):
        size = min(FREE, count - at)
        words[at : at + size] = words[at - FREE : at - FREE + size] ^ _twisted(words[at - N : at - N + size + 1])
    return words[:count]


def _twisted(words: Words) -> Words:
    """What pairs of words that follow each other add to a later one."""
    joined = (words[:-1] & np.uint32(UPPER)) | (words[1:] & np.uint32(LOWER))
    return (joined >> np.uint32(1)) ^ np.where(joined & np.uint32(1), np.uint32(MATRIX), np.uint32(0))


def preceding(window: Words, count: int) -> Words:
    """Return the `count` words before a window of 624, these last, as the recurrence has them.

    A word is made of the upper bit of one sum and the lower bits of the sum before it; the top bit of the matrix says
    which bit was shifted out.
    """
    words = np.concatenate([np.zeros(count + 1, np.uint32), window])
    joined = np.zeros(count + 2, np.uint32)
    for at in range(count, -1, -1):
        change = int(words[at + N] ^ words[at + M])
        is_odd = change >> 31
        joined[at] = ((change ^ MATRIX * is_odd) << 1 | is_odd) & 0xFFFFFFFF
        words[at] = int(joined[at]) & UPPER
        words[at + 1] = (int(words[at + 1]) & UPPER) | (int(joined[at]) & LOWER)
    return words[1 : count + 1]


def window_at(key: Words, position: int) -> Words:
    """Return the 624 words from a position of NumPy's key on, which is 1 to 624."""
    return following(key, N + position)[position:]


def key_at(window: Words, start: int, position: int, taken: int) -> tuple[Words, int]:
    """Return NumPy's key and position after `taken` words.

    Parameters
    ----------
    window : ndarray
        624 words, of which the first is number `start`, counted from where the draw began.
    start, position, taken : int
        `position` is NumPy's where the draw began; word ``taken - 1`` is in the window.
    """
    block = (position + taken - 1) // N
    first = block * N - position  # of NumPy's key, counted likewise
    if first < start:
        before = preceding(window, start - first)
        key = np.concatenate([before, window])[:N]
    else:
        key = following(window, N + first - start)[first - start :]
    return key, position + taken - block * N


# -- polynomials


def _sparse_product(a: int, b: int) -> int:
    """A product of which `b` has few terms."""
    result = 0
    while b:
        bit = b & -b
        result ^= a << (bit.bit_length() - 1)
        b ^= bit
    return result


@lru_cache(1)
def characteristic() -> tuple[int, ...]:
    """Return the exponents of the characteristic polynomial, below the highest."""
    first, second = 1 << N | 1 << M, 1 << (N - 1) | 1 << (M - 1)
    powers = [1]
    for _ in range(31):
        powers.append(_sparse_product(powers[-1], second))
    found = _sparse_product(first, powers[31]) ^ (MATRIX >> 31 & 1)
    for bit in range(31):
        if MATRIX >> bit & 1:
            found ^= _sparse_product(first, powers[30 - bit])
    return tuple(i for i in range(DEGREE) if found >> i & 1)


def reduced(polynomial: int) -> int:
    """Return a polynomial modulo the characteristic one."""
    while above := polynomial >> DEGREE:
        polynomial &= _MASK
        for exponent in characteristic():
            polynomial ^= above << exponent
    return polynomial


def squared(polynomial: int) -> int:
    """Return the square: coefficients move to even places."""
    nbytes = -(-polynomial.bit_length() // 8)
    bits = np.unpackbits(np.frombuffer(polynomial.to_bytes(nbytes, "little"), np.uint8), bitorder="little")
    spread = np.zeros((len(bits), 2), np.uint8)
    spread[:, 0] = bits
    return reduced(int.from_bytes(np.packbits(spread, bitorder="little").tobytes(), "little"))


def product(a: int, b: int) -> int:
    """Return a product: a multiple of `a` for every byte of `b`."""
    multiples = [0]
    for byte in range(1, 256):
        half = multiples[byte >> 1] << 1
        multiples.append(half ^ a if byte & 1 else half)
    result = 0
    for byte in reversed(b.to_bytes(-(-b.bit_length() // 8), "little")):
        result = result << 8 ^ multiples[byte]
    return reduced(result)


@lru_cache(256)
def power(odd: int, exponent: int) -> int:
    """Return ``t**(odd * 2**exponent)``, for `odd` 1 to 21."""
    if exponent:
        return squared(power(odd, exponent - 1))
    return 1 << odd


@lru_cache(256)
def multiple(odd: int, exponent: int, times: int) -> int:
    """Return ``t**(times * odd * 2**exponent)``."""
    low = times & -times
    if times == low:
        return power(odd, exponent + low.bit_length() - 1)
    return product(multiple(odd, exponent, low), multiple(odd, exponent, times - low))


def coefficients(polynomial: int) -> Words:
    """Return the coefficients as words."""
    return np.frombuffer(polynomial.to_bytes(4 * COEFFICIENT_WORDS, "little"), "<u4").astype(np.uint32)


__all__ = [
    "COEFFICIENT_WORDS",
    "DEGREE",
    "FREE",
    "LOWER",
    "MATRIX",
    "UPPER",
    "M",
    "N",
    "characteristic",
    "coefficients",
    "following",
    "key_at",
    "multiple",
    "power",
    "preceding",
    "product",
    "window_at",
]
