"""Forward discrete Fourier transforms of 1 to 61 numbers in registers.

Prime lengths take the sums and differences of mirrored inputs, ``((p-1)/2)**2`` multiply-adds per part; composite ones
are split, without twiddle factors where the factors are coprime (Good-Thomas). Numbers are pairs of values, real and
imaginary part.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.fft.roots import root_of_unity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

    Number = tuple[Value, Value]

_ROOT = np.sqrt(np.longdouble(0.5))
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
RADICES = (*range(1, 17), *_PRIMES[6:])
MAX_PRIME = _PRIMES[-1]
MAX_CONTRACTED = 5  # primes whose sine terms are added to the cosine terms one by one
TERMS = 8  # that are summed up before the sum is added to the total: long chains of sums err more
MAX_CHAIN = 4  # terms that are summed up at once where there are no more; up to `TERMS` are halved


def add(a: Number, b: Number) -> Number:
    """Sum of two numbers."""
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Number, b: Number) -> Number:
    """Difference of two numbers."""
    return a[0] - b[0], a[1] - b[1]


def multiply(k: Builder, a: Number, w: Number) -> Number:
    """Product of two numbers, each part rounded twice."""
    return k.fma(a[0], w[0], -(a[1] * w[1])), k.fma(a[0], w[1], a[1] * w[0])


def rotate(k: Builder, a: Number, numerator: int, denominator: int) -> Number:
    """``a * exp(-2j * pi * numerator / denominator)``; eighths of a turn cost two multiplications or none."""
    numerator %= denominator
    eighths, rest = divmod(8 * numerator, denominator)
    re, im = a
    if rest == 0 and eighths % 2 == 0:
        return [(re, im), (im, -re), (-re, -im), (-im, re)][eighths // 2]
    if rest == 0:
        total, difference = _summed_over_root(k, re, im), _summed_over_root(k, im, -re)
        return [(total, difference), (difference, -total), (-total, -difference), (-difference, total)][eighths // 2]
    cos, sin = root_of_unity(numerator, denominator)
    # exp(-2j pi m / n) = cos + 1j * sin, where `sin` is the negative sine
    return k.fma(re, cos, -(im * sin)), k.fma(im, cos, re * sin)


def _summed_over_root(k: Builder, a: Value, b: Value) -> Value:
    """The sum of two values times the root of 1/2, which is not rounded."""
    high = float(a.type.dtype.type(math.sqrt(0.5)))
    total: Value = k.fma(a, high, k.fma(b, high, (a + b) * float(_ROOT - high)))
    return total


def transform(k: Builder, values: list[Number]) -> list[Number]:
    """The forward transform, in natural order."""
    n = len(values)
    if n == 1:
        return values
    if n == 2:
        return [add(*values), subtract(*values)]
    if n == 4:
        return _four(k, values)
    first = _first_factor(n)
    if first == n:
        found = dict(_prime(k, values))
        return [found[j] for j in range(n)]
    second = n // first
    return (_coprime if math.gcd(first, second) == 1 else _twiddled)(k, values, first, second)


def results(k: Builder, values: list[Number]) -> Iterator[tuple[int, Number]]:
    """Yield the forward transform with numbers, each when it is there: of primes one pair after the other."""
    n = len(values)
    return _prime(k, values) if n > 2 and _first_factor(n) == n else iter(enumerate(transform(k, values)))


def _first_factor(n: int) -> int:
    """Length of the inner transforms of a composite length; `n` itself if it is prime."""
    preferred = {8: 2, 16: 4, 32: 4}.get(n)
    if preferred is not None:
        return preferred
    return next((p**e for p in _PRIMES for e in (_power_of(n, p),) if e and p**e != n), 0) or (
        next((p for p in _PRIMES if n % p == 0), n)
    )


def _power_of(n: int, prime: int) -> int:
    exponent = 0
    while n % prime == 0:
        n //= prime
        exponent += 1
    return exponent


def _four(k: Builder, x: list[Number]) -> list[Number]:
    del k
    even, odd = add(x[0], x[2]), add(x[1], x[3])
    difference, turned = subtract(x[0], x[2]), subtract(x[1], x[3])
    return [
        add(even, odd),
        (difference[0] + turned[1], difference[1] - turned[0]),
        subtract(even, odd),
        (difference[0] - turned[1], difference[1] + turned[0]),
    ]


def is_prime(n: int) -> bool:
    """Whether a length that is no power of two has a codelet of sums of its own; see `twins`."""
    return n > MAX_CONTRACTED and _first_factor(n) == n


def two_real(k: Builder, x: list[Number]) -> list[Number]:
    """Transforms of the real and of the imaginary parts, of prime length: results m of the former, p - m the latter.

    Result 0 is the sum, whose parts are results 0 of both.
    """
    sums, differences = _folded(x)
    made = [_total(x[0], sums)] * len(x)
    for m, even, odd in _even_and_odd(k, x[0], sums, differences):
        made[m], made[-m] = (even[0], -odd[0]), (even[1], -odd[1])
    return made


def two_halves(k: Builder, x: list[Number]) -> list[Number]:
    """The conjugate of the inverse of `two_real`, but for factors: of ``conj(y + 1j * z)``, real sequences y and z."""
    p = len(x)
    pairs = [(x[j], x[p - j]) for j in range(1, p // 2 + 1)]
    sums = [(y[0] + y[0], -(z[0] + z[0])) for y, z in pairs]
    differences = [(-(z[1] + z[1]), -(y[1] + y[1])) for y, z in pairs]
    found = dict(_separate(k, x[0], sums, differences))
    return [found[m] for m in range(p)]


def _folded(x: list[Number]) -> tuple[list[Number], list[Number]]:
    """Sums and differences of mirrored numbers."""
    pairs = [(x[j], x[-j]) for j in range(1, len(x) // 2 + 1)]
    return [add(*pair) for pair in pairs], [subtract(*pair) for pair in pairs]


def _total(first: Number, sums: list[Number]) -> Number:
    return reduce(add, sums, first)


def _even_and_odd(
    k: Builder, first: Number, sums: list[Number], differences: list[Number]
) -> Iterator[tuple[int, Number, Number]]:
    """Yield numbers m of results and what results m and p - m have in common, and what they differ by, times 1j."""
    half = len(sums)
    p = 2 * half + 1
    for m in range(1, half + 1):
        roots = [root_of_unity(j * m % p, p) for j in range(1, half + 1)]
        cosines, sines = [cos for cos, _ in roots], [-minus_sin for _, minus_sin in roots]
        yield m, _summed(k, sums, cosines, first), _summed(k, differences, sines)


def _prime(k: Builder, x: list[Number]) -> Iterator[tuple[int, Number]]:
    sums, differences = _folded(x)
    return (_contracted if len(x) <= MAX_CONTRACTED else _separate)(k, x[0], sums, differences)


def _separate(k: Builder, first: Number, sums: list[Number], differences: list[Number]) -> Iterator[tuple[int, Number]]:
    """Yield results with numbers, each the sum or the difference of two sums."""
    p = 2 * len(sums) + 1
    yield 0, _total(first, sums)
    for m, (re, im), (turned_re, turned_im) in _even_and_odd(k, first, sums, differences):
        yield m, (re + turned_im, im - turned_re)
        yield p - m, (re - turned_im, im + turned_re)


def _contracted(
    k: Builder, first: Number, sums: list[Number], differences: list[Number]
) -> Iterator[tuple[int, Number]]:
    """The same in as many instructions, with products that are not rounded."""
    half = len(sums)
    p = 2 * half + 1
    yield 0, _total(first, sums)
    for m in range(1, half + 1):
        roots = [root_of_unity(j * m % p, p) for j in range(1, half + 1)]
        even = _summed(k, sums, [cos for cos, _ in roots], first)
        sines = [-minus_sin for _, minus_sin in roots]
        yield m, _turned(k, even, differences, sines, 1)
        yield p - m, _turned(k, even, differences, sines, -1)


def _summed(k: Builder, numbers: list[Number], factors: list[float], first: Number | None = None) -> Number:
    """The sum of numbers times real factors, and of `first`."""
    count = max(-(-len(numbers) // TERMS), 2 if len(numbers) > MAX_CHAIN else 1)
    size = -(-len(numbers) // count)
    starts = range(0, len(numbers), size)
    return reduce(add, [chained(k, numbers[i : i + size], factors[i : i + size], None if i else first) for i in starts])


def chained(
    k: Builder, numbers: Sequence[Number], factors: Sequence[float | Value], first: Number | None = None
) -> Number:
    """The sum of `first` and of numbers times real factors, one after the other."""
    total = first
    for (re, im), factor in zip(numbers, factors, strict=True):
        total = (k.fma(re, factor, total[0]), k.fma(im, factor, total[1])) if total else (re * factor, im * factor)
    assert total is not None
    return total


def _turned(k: Builder, x: Number, differences: list[Number], sines: list[float], sign: int) -> Number:
    """``x - sign * 1j * sum(sines * differences)``, by multiply-adds."""
    re, im = x
    for sine, difference in zip(sines, differences, strict=True):
        re, im = k.fma(difference[1], sign * sine, re), k.fma(difference[0], -sign * sine, im)
    return re, im


def _twiddled(k: Builder, x: list[Number], a: int, b: int) -> list[Number]:
    """Cooley and Tukey's step: `b` transforms of length `a`, rotations, `a` transforms of length `b`."""
    inner = [transform(k, [x[i * b + j] for i in range(a)]) for j in range(b)]
    results: list[Number] = [x[0]] * (a * b)
    for i in range(a):
        rotated = [rotate(k, inner[j][i], i * j, a * b) for j in range(b)]
        for j, value in enumerate(transform(k, rotated)):
            results[i + a * j] = value
    return results


def _coprime(k: Builder, x: list[Number], a: int, b: int) -> list[Number]:
    """Good and Thomas's step: the same without rotations."""
    n = a * b
    inner = [transform(k, [x[(i * b + j * a) % n] for i in range(a)]) for j in range(b)]
    results: list[Number] = [x[0]] * n
    for i in range(a):
        outer = transform(k, [inner[j][i] for j in range(b)])
        for j, value in enumerate(outer):
            results[next(m for m in range(i, n, a) if m % b == j)] = value
    return results


__all__ = [
    "MAX_PRIME",
    "RADICES",
    "add",
    "chained",
    "is_prime",
    "multiply",
    "results",
    "rotate",
    "subtract",
    "transform",
    "two_halves",
    "two_real",
]
