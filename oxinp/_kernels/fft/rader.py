"""Transforms of larger primes in a block, as cyclic convolutions of the prime less one.

The nonzero numbers below a prime p are the powers of one of them, g: ``X[g**-q] - x[0]`` is the cyclic convolution of
``x[g**n]`` with the roots of unity ``exp(-2j * pi * g**-m / p)``. Data layout and copies: as in `staged`; element 0
stays where it is, those of the convolution lie behind it. Algorithm: elements are read in the order of the powers, the
stages of `block` forwards, times the transform of the roots, the stages backwards; results are left in the order of the
inverse powers. Element 0 is added to the sum of all others, which makes result 0, and to the product of frequency 0,
which adds it to every other result. Bytes per element: read and written once.

Source: C. M. Rader, Discrete Fourier transforms when the number of data samples is prime, Proc. IEEE 56, 1968.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.fft.codelets import add
from oxinp._kernels.fft.roots import powers, roots_of_unity
from oxinp._kernels.fft.staged import Staged

if TYPE_CHECKING:
    from oxinp._kernels.fft.spec import TransformSpec
    from oxinp._kernels.fft.tile import Thread, Values
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

MIN_PRIME = 113  # below, pocketfft sums up, which errs less


class Rader(Staged):
    """The kernel while it is built."""

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        exponents = powers(spec.row)
        inverse = np.roll(exponents[::-1], 1)
        self.given, self.made = (self.k.table(each.astype(np.uint32)) for each in (exponents, inverse))
        roots = np.fft.fft(roots_of_unity(inverse, spec.row)) / spec.length
        self.filter = self.k.table(roots.astype(spec.type.dtype))

    def compute(self, thread: Thread) -> None:
        """Transform the tile that has begun."""
        k, spec = self.k, self.spec
        self.copy(self.fill, self.fill_part)
        k.barrier()
        self.is_exchanged = True
        radix = spec.radices[0]
        values: Values = [
            self.numbers(self._ordered(thread, self.given, number, radix))
            for number, _ in self.butterflies(thread, radix)
        ]
        thread, values = self.stages(thread, values, spec.loads)
        values = self._with_first(thread, self.filtered(thread, values), values)
        self.turn_back()
        thread, values = self.stages(thread, values, spec.stores)
        self.wait()
        radix = self.radices[-1]
        for (number, is_valid), elements in zip(self.butterflies(thread, radix), values, strict=True):
            addresses = self._ordered(thread, self.made, number, radix)
            with nullcontext() if is_valid is None else k.when(is_valid):
                for address, (real, imag) in zip(addresses, elements, strict=True):
                    address[0] = k.compound(spec.type, real * self.scales[0], -imag * self.scales[1])
        k.barrier()
        self.copy(self.drain, self.drain_part)

    def _place(self, thread: Thread, element: Value) -> tuple[Value, int, int]:
        place, apart, multiple = super()._place(thread, element)
        return place + 1, apart, multiple

    def _ordered(self, thread: Thread, order: Any, number: Value, radix: int) -> list[Pointer]:
        """Where in a row the elements of a butterfly lie, by a table."""
        own, apart = order.at(number), self.spec.length // radix
        numbers = [own.load(j * apart, 1, "nc")[0] for j in range(radix)]
        return [self.smem.at(super(Rader, self)._place(thread, each)[0]) for each in numbers]

    def _with_first(self, thread: Thread, products: Values, sums: Values) -> Values:
        """The conjugate products with element 0 added to that of frequency 0, and result 0 left in its place."""
        k, spec = self.k, self.spec
        added = []
        for (number, is_valid), elements, before in zip(
            self.butterflies(thread, self.radices[-1]), products, sums, strict=True
        ):
            variables = [k.var(part) for part in elements[0]]
            is_first = number == 0
            with k.when(is_first if is_valid is None else is_first & is_valid):
                address = self.smem.at(super()._place(thread, number)[0])
                (first,) = self.numbers([address])
                real, imag = add(first, before[0])
                address[0] = k.compound(spec.type, real * self.scales[0], imag * self.scales[1])
                variables[0].set(variables[0].get() + first[0])
                variables[1].set(variables[1].get() - first[1])
            added.append([(variables[0].get(), variables[1].get()), *elements[1:]])
        return added


__all__ = ["MIN_PRIME", "Rader"]
