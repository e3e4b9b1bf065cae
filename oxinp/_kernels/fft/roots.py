"""Roots of unity: exactly rounded ones at planning, and ones that a kernel computes.

At planning, the angle is reduced to an eighth of a turn in integers and the functions are those of `longdouble`; where
that is no wider than double, the error is 1 ulp. In a kernel the angle is reduced exactly as well, to a quarter of a
turn around 0, where the Taylor series of both functions end before rounding is seen.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._ptx.types import f64, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

_TURN = 2 * np.arctan2(np.longdouble(0), np.longdouble(-1))
_ROUNDER = 1.5 * 2.0**52  # added to a double, leaves it rounded to an integer, which the low word holds


def roots_of_unity(numerators: np.ndarray[Any, Any], denominator: int) -> np.ndarray[Any, Any]:
    """Return ``exp(-2j * pi * numerators / denominator)`` as `clongdouble`."""
    eighths, rest = np.divmod(8 * (np.asarray(numerators, np.int64) % denominator), denominator)
    is_mirrored = eighths % 2 == 1
    angle = np.where(is_mirrored, denominator - rest, rest).astype(np.longdouble) * (_TURN / 8 / denominator)
    cos, sin = np.cos(angle), np.sin(angle)
    cos, sin = np.where(is_mirrored, sin, cos), np.where(is_mirrored, cos, sin)
    quarter = eighths // 2
    real = np.choose(quarter, [cos, -sin, -cos, sin])
    imag = np.choose(quarter, [sin, cos, -sin, -cos])
    return real - np.clongdouble(1j) * imag


@lru_cache(1 << 12)
def root_of_unity(numerator: int, denominator: int) -> tuple[float, float]:
    """Return real and imaginary part of ``exp(-2j * pi * numerator / denominator)``."""
    root = roots_of_unity(np.array([numerator]), denominator)[0]
    return float(root.real), float(root.imag)


class Circle:
    """Roots of unity of a run-time order, in a kernel.

    Parameters
    ----------
    k : Builder
    name : str
        Of the parameters.
    type : Type
        f64 where roots are wanted within 1 ulp of doubles; f32, for roots that are doubles of 35 valid bits.
    """

    def __init__(self, k: Builder, name: str, type: Type) -> None:
        self.k = k
        self.is_wide = type is f64
        self.order = k.scalar(f"{name}_order", f64)
        self.inverse = k.scalar(f"{name}_inverse", f64)
        num_terms = 8 if self.is_wide else 6
        quarter = _TURN / 4
        # sin(quarter * t) / t and cos(quarter * t), in powers of t * t
        self._sines = [k.const(self._term(quarter, 2 * i + 1), f64) for i in range(num_terms + 1)]
        self._cosines = [k.const(self._term(quarter, 2 * i), f64) for i in range(num_terms + 1)]
        # What the leading coefficient lacks.
        self._missing = k.const(float(_TURN / 4 - np.longdouble(self._term(quarter, 1))), f64)
        self._rounder, self._quarters = k.const(_ROUNDER, f64), self.inverse * 4.0

    @staticmethod
    def constants(order: int) -> tuple[float, ...]:
        """Values of its parameters."""
        return float(order), 1.0 / order

    @staticmethod
    def _term(base: Any, degree: int) -> float:
        return float((-1) ** (degree // 2) * base**degree / math.factorial(degree))

    def root(self, numerator: Value) -> tuple[Value, Value]:
        """Real and imaginary part of ``exp(-2j * pi * numerator / order)``, f64; `numerator` is u32."""
        k = self.k
        whole = k.cast(numerator, f64)
        rounded = k.fma(whole, self._quarters, self._rounder)
        nearest = rounded - self._rounder
        rest = k.fma(-nearest, self.order, whole * 4.0)  # exact
        t = rest * self.inverse
        square = t * t
        sine, cosine = (self._horner(terms[1:], square) for terms in (self._sines, self._cosines))
        if self.is_wide:
            # The angle's own error, and what the leading coefficient lacks.
            error = k.fma(-t, self.order, rest) * self.inverse
            leading = self._sines[0]
            low, off = k.fma(square, sine, self._missing), error * leading
            sin = k.fma(t, leading, k.fma(t, low, off))
            cos = k.fma(square, cosine, -off * sin) + 1.0
        else:
            sin = t * k.fma(square, sine, self._sines[0])
            cos = k.fma(square, cosine, self._cosines[0])
        quadrant = k.unpack(k.bitcast(rounded, u64))[0] & 3
        is_odd = (quadrant & 1) != 0
        real, imag = k.where(is_odd, sin, cos), k.where(is_odd, cos, sin)
        # The quarters: (cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos); the imaginary part is minus the sine.
        real = self._negated(real, (quadrant + 1) & 2)
        return real, self._negated(imag, (quadrant & 2) ^ 2)

    def _horner(self, terms: list[Value], x: Value) -> Value:
        total = terms[-1]
        for term in reversed(terms[:-1]):
            total = self.k.fma(total, x, term)
        return total

    def _negated(self, value: Value, is_negated: Value) -> Value:
        """`value` with its sign turned where `is_negated` is 2, not where it is 0."""
        k = self.k
        low, high = k.unpack(k.bitcast(value, u64))
        return k.bitcast(k.pack(low, high ^ (is_negated << 30)), f64)


def table(denominator: int, numerators: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return roots of unity, rounded once to a complex dtype."""
    return roots_of_unity(numerators, denominator).astype(dtype)


@lru_cache(1 << 8)
def powers(prime: int) -> np.ndarray[Any, Any]:
    """The powers of the least number that has all those below a prime."""
    for base in range(2, prime):
        powers = [1]
        while (following := powers[-1] * base % prime) != 1:
            powers.append(following)
        if len(powers) == prime - 1:
            return np.array(powers)
    raise AssertionError(f"{prime} is no prime")


__all__ = ["Circle", "powers", "root_of_unity", "roots_of_unity", "table"]
