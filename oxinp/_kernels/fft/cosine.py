"""Discrete cosine and sine transforms of types II and III, of even lengths, in a block.

Even elements, then odd ones backwards, are a real sequence; the cosine transform of type II is read off the first half
of its Fourier transform, each element of which, turned by a quarter of its own angle, gives two results. Type III is
that backwards. Sine transforms are cosine transforms with the signs of odd elements turned, and frequencies in reverse.
Data layout, owners and bytes are those of `real`.

Source: J. Makhoul, A fast cosine transform in one and two dimensions, IEEE Trans. ASSP 28, 1980.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.real import Merge, Real, Split
from oxinp._kernels.fft.roots import table
from oxinp._kernels.fft.spec import SECOND_SINE, THIRD_SINE, TransformSpec

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import Place
    from oxinp._ptx.value import Value


class _Cosine(Real):
    """What both types share."""

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        self.whole = 2 * self.half
        self.is_sine = spec.real in (SECOND_SINE, THIRD_SINE)
        self.quarters = self.k.table(table(4 * self.whole, np.arange(self.half + 1), spec.type.dtype))

    def quarter(self, number: Value) -> Number:
        """A quarter of an element's angle, as a root of unity."""
        real, imag = self.quarters.load(number, 1, "nc")[0].parts
        return real, imag

    def spread(self, number: Value) -> tuple[Value, Value]:
        """Where an element of the real sequence is among all, and whether it is an odd one."""
        is_odd = number >= self.half
        return self.k.where(is_odd, 2 * self.whole - 1 - number * 2, number * 2), is_odd

    def frequency(self, number: Value) -> Value:
        """Where a frequency is among all."""
        return self.k.cast(self.whole - 1 - number if self.is_sine else number, self.index)

    def turned(self, value: Value, is_odd: Value) -> Value:
        """An element of the real sequence, or minus it."""
        return self.k.where(is_odd, -value, value) if self.is_sine else value


class Second(_Cosine, Split):
    """Type II."""

    def read_pair(self, base: Place, number: Value) -> tuple[Value, Value]:
        """See `Split`."""
        one, other = (self._element(base, each) for each in (number, number + 1))
        return one, other

    def _element(self, base: Place, number: Value) -> Value:
        found, is_odd = self.spread(number)
        k = self.k
        moved = k.cast(found, self.index)
        value = self.read(base.moved(moved), moved < self.num_valid if self.spec.is_padded else None)
        return self.turned(k.cast(value, self.part), is_odd)

    def store_result(self, base: Place, beside: Place, number: Value, value: Number) -> None:
        """Store the two frequencies that an element gives."""
        k = self.k
        real, imag = multiply(k, value, self.quarter(number))
        own = k.where(number == 0, real * self.first_scale, real) * self.scales[0]
        first = self.frequency(number)
        self.write(base.moved(first), beside.moved(first), own)
        with k.when((number != 0) & (number != self.half)):
            second = self.frequency(self.whole - number)
            self.write(base.moved(second), beside.moved(second), imag * -self.scales[0])


class Third(_Cosine, Merge):
    """Type III."""

    def read_result(self, base: Place, number: Value) -> Number:
        """An element of the transform that is inverted, of two frequencies; the ends are real."""
        k = self.k
        is_first, is_last = number == 0, number == self.half
        real = self._frequency_at(base, number)
        real = k.where(is_first, real * self.first_scale, real)
        imag = self._frequency_at(base, k.where(is_first, number, self.whole - number))
        imag = k.where(is_first, k.const(0, self.part), imag)
        cos, minus_sin = self.quarter(number)
        result = multiply(k, (real, -imag), (cos, -minus_sin))
        is_end = is_first | is_last
        return result[0], k.where(is_end, k.const(0, self.part), result[1])

    def _frequency_at(self, base: Place, number: Value) -> Value:
        k = self.k
        moved = self.frequency(number)
        value = self.read(base.moved(moved), moved < self.num_valid if self.spec.is_padded else None)
        return k.cast(value, self.part)

    def store_real(self, base: Place, beside: Place, number: Value, value: Value) -> None:
        """See `Merge`."""
        found, is_odd = self.spread(number)
        moved = self.k.cast(found, self.index)
        self.write(base.moved(moved), beside.moved(moved), self.turned(value, is_odd))


__all__ = ["Second", "Third"]
