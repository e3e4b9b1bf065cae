"""Transforms of larger primes in a block, as cyclic convolutions of the prime less one.

The nonzero numbers below a prime p are the powers of one of them, g: ``X[g**-q] - x[0]`` is the cyclic convolution of
``x[g**n]`` with the roots of unity ``exp(-2j * pi * g**-m / p)``. Data layout and copies: as in `staged`; between these
shared memory has the elements of the convolution, and element 0 is in registers. Algorithm: elements are read in the
order of the powers, the stages of `block` forwards, times the transform of the roots, the stages backwards; results are
left in the order of the inverse powers. Element 0 is added to the sum of all others, which makes result 0, and to the
product of frequency 0, which adds it to every other result. Bytes per element: read and written once.

Source: C. M. Rader, Discrete Fourier transforms when the number of data samples is prime, Proc. IEEE 56, 1968.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.fft.codelets import add
from oxinp._kernels.fft.roots import roots_of_unity
from oxinp._kernels.fft.staged import Staged

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.spec import TransformSpec
    from oxinp._kernels.fft.tile import Thread, Values
    from oxinp._ptx.value import Value

MIN_PRIME = 101  # below, sums err less, and pocketfft does


class Rader(Staged):
    """The kernel while it is built."""

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        powers = _powers(spec.row)
        inverse = np.roll(powers[::-1], 1)
        self.given, self.made = (self.k.table(each.astype(np.uint32)) for each in (powers, inverse))
        roots = np.fft.fft(roots_of_unity(inverse, spec.row)) / spec.length
        self.filter = self.k.table(roots.astype(spec.type.dtype))

    def compute(self, thread: Thread) -> None:
        """Transform the tile that has begun."""
        k, spec = self.k, self.spec
        self.copy(self.fill)
        k.barrier()
        (first,) = self.numbers([thread.column * spec.row])
        radix = spec.radices[0]
        values: Values = [
            self.numbers(self._ordered(thread, self.given, number, radix))
            for number, _ in self.butterflies(thread, radix)
        ]
        k.barrier()  # the stages' layout is another one
        thread, values = self.stages(thread, values, is_last=False)
        whole = add(first, values[0][0])
        values = self._with_first(thread, self.filtered(thread, values), first)
        self.radices = spec.radices[::-1]
        if self.radices != spec.radices:
            self.tables = self.twiddles()
        thread, values = self.stages(thread, values, is_last=True)
        k.barrier()
        radix = self.radices[-1]
        for (number, is_valid), elements in zip(self.butterflies(thread, radix), values, strict=True):
            addresses = self._ordered(thread, self.made, number, radix)
            with nullcontext() if is_valid is None else k.when(is_valid):
                for address, (real, imag) in zip(addresses, elements, strict=True):
                    self.smem[address] = k.compound(spec.type, real * self.scales[0], -imag * self.scales[1])
        with k.when(thread.first == 0):
            self.smem[thread.column * spec.row] = k.compound(
                spec.type, whole[0] * self.scales[0], whole[1] * self.scales[1]
            )
        k.barrier()
        self.copy(self.drain)

    def _ordered(self, thread: Thread, order: Any, number: Value, radix: int) -> list[Value]:
        """Where in a row the elements of a butterfly lie, by a table."""
        own, apart = order.at(number), self.spec.length // radix
        numbers = [own.load(j * apart, 1, "nc")[0] for j in range(radix)]
        return [thread.column * self.spec.row + each for each in numbers]

    def _with_first(self, thread: Thread, products: Values, first: Number) -> Values:
        """The conjugate products with element 0 added to that of frequency 0, which is a first thread's first."""
        k = self.k
        (real, imag), *others = products[0]
        is_first = thread.first == 0
        none = k.const(0, self.part)
        added = real + k.where(is_first, first[0], none), imag - k.where(is_first, first[1], none)
        return [[added, *others], *products[1:]]


def _powers(prime: int) -> np.ndarray[Any, Any]:
    """The powers of the least number that has all those below a prime."""
    for base in range(2, prime):
        powers = [1]
        while (following := powers[-1] * base % prime) != 1:
            powers.append(following)
        if len(powers) == prime - 1:
            return np.array(powers)
    raise AssertionError(f"{prime} is no prime")


__all__ = ["MIN_PRIME", "Rader"]
