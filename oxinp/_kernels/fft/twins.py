"""Real transforms of odd lengths at half the work, in a block: two real sequences are one complex one.

The first is its real parts, the second its imaginary parts; of the transform Z and its mirror image follow the elements
k of both results, and the other way round. The twin of a sequence lies a constant distance from it. Who owns what: in
the step between Z and the results a thread owns each `threads`-th pair (k, n - k); everything else is as in `block`.
Bytes per element: the real and the halved side once.

Source: J. W. Cooley, P. A. W. Lewis and P. D. Welch, The fast Fourier transform algorithm, 1970.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from oxinp._kernels.fft.codelets import add, is_prime, two_halves, two_real
from oxinp._kernels.fft.halves import Halves, Merging, Splitting
from oxinp._kernels.fft.roots import roots_of_unity
from oxinp._kernels.fft.tile import Place
from oxinp._ptx.types import c64

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.rolled import Rolled
    from oxinp._kernels.fft.spec import TransformSpec
    from oxinp._kernels.fft.tile import Thread, Values
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

# Length up to which roots of unity are two floats each: the step over pairs makes up for what a real transform of that
# length saves, and pocketfft would err as little.
MAX_WIDE = 600


class Twins(Halves):
    """What both directions share.

    Of prime lengths that one butterfly transforms, what it gives or takes are the elements of both results, not those
    of Z and of its mirror image, so that nothing is added to be taken apart again.
    """

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        self.is_apart = len(spec.radices) == 1 and is_prime(spec.length)
        self.lows: list[Pointer] = []
        if spec.type is c64 and spec.length <= MAX_WIDE:
            for order, numerators in self.exponents():
                roots = roots_of_unity(numerators, order)
                self.lows.append(self.k.table((roots - roots.astype(c64.dtype)).astype(c64.dtype)))

    def times_roots(self, values: list[Number], stage: int, within: Value, apart: int) -> list[Number]:
        """See `Exchange`; of short sequences by roots with what their rounding leaves out."""
        if not self.lows:
            return super().times_roots(values, stage, within, apart)
        lows = [self.lows[stage - 1].at(within).load(j * apart, 1, "nc")[0].parts for j in range(len(values))]
        factors = self._roots(self.tables[stage - 1].at(within), self.radices[stage], apart)
        return [
            multiply_by_wide(self.k, value, factor, low)  # type: ignore[arg-type]
            for value, factor, low in zip(values, factors, lows, strict=True)
        ]

    def mirrored(self, number: Value) -> Value:
        """Where the mirror image of an element of Z is."""
        return self.k.where(number == 0, self.k.const(0, number.type), self.spec.length - number)

    def twin(self, place: Place, side: int) -> Place:
        """The same element of the other sequence, at the source (0) or the target (1)."""
        return Place(place.end, [place.pointer.at(self.twins[side])])


def multiply_by_wide(k: Builder, a: Number, w: Number, low: Number) -> Number:
    """Product of a number and the sum of two."""
    real = k.fma(a[0], low[0], -(a[1] * low[1]))
    imag = k.fma(a[0], low[1], a[1] * low[0])
    return k.fma(a[0], w[0], k.fma(-a[1], w[1], real)), k.fma(a[0], w[1], k.fma(a[1], w[0], imag))


class TwinSplit(Twins, Splitting):
    """Two real sources, the first halves of their transforms."""

    def transformed(self, values: list[Number]) -> list[Number]:
        """See `Exchange`."""
        return two_real(self.k, values) if self.is_apart else super().transformed(values)

    def computed_by(self, loop: Rolled) -> Callable[[list[Number], Callable[[Value, Number], None]], None]:
        """See `Exchange`."""
        return loop.compute_two_real if self.is_apart else super().computed_by(loop)

    def _load(self, thread: Thread) -> Values:
        k, length = self.k, self.spec.length
        radix = self.radices[0]
        base = self.first(self.source, thread)
        loaded: Values = []
        for number, _ in self.butterflies(thread, radix):
            elements = []
            for j in range(radix):
                place = base.moved(k.cast(number + j * (length // radix), self.index))
                pair = self.read(place), self.read(self.twin(place, 0))
                elements.append((k.cast(pair[0], self.part), k.cast(pair[1], self.part)))
            loaded.append(elements)
        return loaded

    def _store_halves(self, thread: Thread) -> None:
        k = self.k
        base, beside = (self.first(end, thread) for end in (self.target, self.beside))
        is_column = self.is_column(thread)
        for number, is_pair in self.split_pairs(thread):
            one, other = (
                (value[0], value[1])
                for value in (self.smem[self.place_of(thread, at)].parts for at in (number, self.mirrored(number)))
            )
            moved = k.cast(number, self.index)
            place = base.moved(moved)
            with k.when(is_pair & is_column):
                first, second = self._results(number, one, other)
                self._write(place, beside, first)
                self._write(self.twin(place, 1), beside, second)

    def _results(self, number: Value, one: Number, other: Number) -> tuple[Number, Number]:
        """Twice the elements of both transforms that an element of Z and its mirror image give."""
        if not self.is_apart:
            return (one[0] + other[0], one[1] - other[1]), (one[1] + other[1], other[0] - one[0])
        k, is_first, zero = self.k, number == 0, self.k.const(0, self.part)
        first, second = (one[0], k.where(is_first, zero, one[1])), (k.where(is_first, one[1], other[0]), other[1])
        second = second[0], k.where(is_first, zero, second[1])
        return add(first, first), add(second, second)

    def _write(self, place: Place, beside: Place, value: Number) -> None:
        """Store an element of a transform, twice which this is."""
        scaled = self.k.compound(self.spec.type, value[0] * self.scales[0], value[1] * self.scales[1])
        self.write(place, beside, scaled)


class TwinMerge(Twins, Merging):
    """The first halves of two transforms, the real sequences that they are of."""

    @property
    def rolls_last(self) -> bool:
        """See `Exchange`."""
        return True

    def transformed(self, values: list[Number]) -> list[Number]:
        """See `Exchange`."""
        return two_halves(self.k, values) if self.is_apart else super().transformed(values)

    def computed_by(self, loop: Rolled) -> Callable[[list[Number], Callable[[Value, Number], None]], None]:
        """See `Exchange`."""
        return loop.compute_two_halves if self.is_apart else super().computed_by(loop)

    def _leave_pairs(self, thread: Thread) -> None:
        k, spec = self.k, self.spec
        base = self.first(self.source, thread)
        for number, is_pair in self.merged_pairs(thread):
            place = base.moved(k.cast(number, self.index))
            one, other = self._result(place, number), self._result(self.twin(place, 0), number)
            if self.is_apart:
                is_first = number == 0
                own, mirrored = (one[0], k.where(is_first, -other[0], one[1])), other
            else:
                own = one[0] - other[1], -(one[1] + other[0])
                mirrored = one[0] + other[1], one[1] - other[0]
            with k.when(is_pair):
                self.smem[self.place_of(thread, number)] = k.compound(spec.type, *own)
            with k.when(is_pair & (number != 0)):
                self.smem[self.place_of(thread, self.mirrored(number))] = k.compound(spec.type, *mirrored)

    def _result(self, place: Place, number: Value) -> Number:
        """An element of a transform that is inverted; the first is real, what else it has does not count."""
        k = self.k
        real, imag = self.element(place, None, -self.source_sign, is_reused=False)
        return real, k.where(number == 0, k.const(0, self.part), imag)

    def _store(self, thread: Thread, values: Values) -> None:
        k, length = self.k, self.spec.length
        radix = self.radices[-1]
        base, beside = (self.first(end, thread) for end in (self.target, self.beside))
        is_column = self.is_column(thread)
        for (number, is_butterfly), elements in zip(self.butterflies(thread, radix), values, strict=True):
            store = partial(self._store_twins, base, beside, number)
            with k.when(is_column if is_butterfly is None else is_column & is_butterfly):
                if self.is_rolled(len(self.radices) - 1):
                    self.rolled(radix, length // radix, elements, store)
                    continue
                for j, each in enumerate(elements):
                    store(j * (length // radix), each)

    def _store_twins(self, base: Place, beside: Place, number: Value, apart: Value | int, value: Number) -> None:
        """Store an element of both sequences, so far behind one of a number."""
        place = base.moved(self.k.cast(number + apart, self.index))
        self.write(place, beside, value[0] * self.scales[0])
        self.write(self.twin(place, 1), beside, value[1] * -self.scales[0])


__all__ = ["TwinMerge", "TwinSplit", "Twins"]
