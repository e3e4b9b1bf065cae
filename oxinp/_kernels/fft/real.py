"""Real transforms of even lengths at half the work, in a block.

A real sequence of n elements is a complex one of n / 2, even elements its real parts; of its transform Z and the mirror
image follow elements k and n / 2 - k of the result, and the other way round. Who owns what: in the step between Z and
the result a thread owns each `threads`-th pair (k, n / 2 - k); everything else is as in `block`. Bytes per element: the
real and the halved side once.

Source: J. W. Cooley, P. A. W. Lewis and P. D. Welch, The fast Fourier transform algorithm, 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.fft.compensated import butterfly, two_sum
from oxinp._kernels.fft.halves import Halves, Merging, Splitting
from oxinp._kernels.fft.roots import table
from oxinp._kernels.fft.spec import TransformSpec

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import Place, Thread, Values
    from oxinp._ptx import Kernel
    from oxinp._ptx.value import Value


class Real(Halves):
    """What both directions share; the length of the stages is half that of the transform."""

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        self.half = spec.length
        numerators = np.arange(self.half // 2 + 1)
        self.pair_roots = self.k.table(table(2 * self.half, numerators, spec.type.dtype))

    def pair_root(self, number: Value) -> Number:
        """exp(-2j * pi * number / n)."""
        real, imag = self.pair_roots.load(number, 1, "nc")[0].parts
        return real, imag


class Split(Real, Splitting):
    """A real source, the first half of its transform."""

    def _load(self, thread: Thread) -> Values:
        k = self.k
        radix = self.radices[0]
        base = self.first(self.source, thread)
        loaded: Values = []
        for number, _ in self.butterflies(thread, radix):
            elements = []
            for j in range(radix):
                pair = self.read_pair(base, (number + j * (self.half // radix)) * 2)
                elements.append((k.cast(pair[0], self.part), k.cast(pair[1], self.part)))
            loaded.append(elements)
        return loaded

    def read_pair(self, base: Place, number: Value) -> tuple[Value, Value]:
        """Two elements next to each other, 0 beyond the last valid one."""
        spec, place = self.spec, self.k.cast(number, self.index)
        first = base.moved(place)
        if spec.is_paired and not spec.is_padded:
            one, other = first.pointer.load(0, 2)
            return one, other
        is_valid = [place < self.num_valid, place + 1 < self.num_valid] if spec.is_padded else [None, None]
        return self.read(first, is_valid[0]), self.read(first.moved(1), is_valid[1])

    def results_of(self, thread: Thread, number: Value) -> tuple[Number, Number]:
        """Elements k and n / 2 - k of the result, twice."""
        k = self.k
        one = self.smem[self.place_of(thread, number)].parts
        mirrored = k.where(number == 0, k.const(0, number.type), self.half - number)
        other = self.smem[self.place_of(thread, mirrored)].parts
        even = two_sum(one[0], other[0]), two_sum(one[1], -other[1])
        odd = two_sum(one[1], other[1]), two_sum(other[0], -one[0])
        return butterfly(k, even, odd, self.pair_root(number))

    def _store_halves(self, thread: Thread) -> None:
        k = self.k
        base, beside = (self.first(end, thread) for end in (self.target, self.beside))
        is_column = self.is_column(thread)
        for number, is_pair in self.split_pairs(thread):
            mirrored = self.half - number
            first, second = self.results_of(thread, number)
            with k.when(is_pair & is_column):
                self.store_result(base, beside, number, first)
            with k.when(is_pair & is_column & (number != mirrored)):
                self.store_result(base, beside, mirrored, second)

    def store_result(self, base: Place, beside: Place, number: Value, value: Number) -> None:
        """Store an element of the transform, twice which this is."""
        k = self.k
        moved = k.cast(number, self.index)
        scaled = k.compound(self.spec.type, value[0] * self.scales[0], value[1] * self.scales[1])
        self.write(base.moved(moved), beside.moved(moved), scaled)


class Merge(Real, Merging):
    """The first half of a transform, the real sequence that it is of."""

    def _leave_pairs(self, thread: Thread) -> None:
        base = self.first(self.source, thread)
        for number, is_pair in self.merged_pairs(thread):
            one, other = self.read_result(base, number), self.read_result(base, self.half - number)
            self.leave_pair(thread, number, is_pair, one, other)

    def leave_pair(self, thread: Thread, number: Value, is_pair: Value, one: Number, other: Number) -> None:
        """Leave what elements k and n / 2 - k of a transform give."""
        k, spec, mirrored = self.k, self.spec, self.half - number
        cos, minus_sin = self.pair_root(number)
        even = two_sum(one[0], other[0]), two_sum(one[1], -other[1])
        # What is odd, times 1j.
        odd = two_sum(-one[1], -other[1]), two_sum(one[0], -other[0])
        first, second = butterfly(k, even, odd, (cos, -minus_sin))
        with k.when(is_pair):
            self.smem[self.place_of(thread, number)] = k.compound(spec.type, first[0], -first[1])
        with k.when(is_pair & (number != mirrored) & (number != 0)):
            self.smem[self.place_of(thread, mirrored)] = k.compound(spec.type, second[0], -second[1])

    def read_result(self, base: Place, number: Value) -> Number:
        """An element of the transform that is inverted; the ends are real, what else they have does not count."""
        k = self.k
        moved = k.cast(number, self.index)
        is_valid = moved < self.num_valid if self.spec.is_padded else None
        real, imag = self.element(base.moved(moved), is_valid, -self.source_sign, is_reused=False)
        return self.at_ends(number, real, imag)

    def at_ends(self, number: Value, real: Value, imag: Value) -> Number:
        """A number, without its imaginary part where there is none."""
        k = self.k
        is_end = (number == 0) | (number == self.half)
        return real, k.where(is_end, k.const(0, self.part), imag)

    def _store(self, thread: Thread, values: Values) -> None:
        k, spec = self.k, self.spec
        radix = self.radices[-1]
        base, beside = (self.first(end, thread) for end in (self.target, self.beside))
        is_column = self.is_column(thread)
        for (number, is_butterfly), elements in zip(self.butterflies(thread, radix), values, strict=True):
            with k.when(is_column if is_butterfly is None else is_column & is_butterfly):
                for j, (real, imag) in enumerate(elements):
                    place = (number + j * (self.half // radix)) * 2
                    pair = real * self.scales[0], imag * -self.scales[0]
                    if spec.is_paired:
                        base.moved(k.cast(place, self.index)).pointer.store(0, pair)
                        continue
                    self.store_real(base, beside, place, pair[0])
                    self.store_real(base, beside, place + 1, pair[1])

    def store_real(self, base: Place, beside: Place, number: Value, value: Value) -> None:
        """Store an element of the sequence."""
        moved = self.k.cast(number, self.index)
        self.write(base.moved(moved), beside.moved(moved), value)


class Filtering(Split, Merge):
    """A real source, a chain of its transform, and the real sequence that has this for its transform."""

    def build(self) -> Kernel:
        spec = self.spec
        thread = self.begin()
        thread, values = self.stages(thread, self._load(thread), spec.loads)
        self.leave(thread, len(self.radices), spec.length, values)
        if spec.between_order != spec.loads:
            thread = self.threads(spec.between_order)
        self._change_pairs(thread)
        self.wait()
        self.order, self.root_cache = spec.between_order, ""
        thread, values = self.stages(thread, self.first_values(thread), spec.stores)
        if self.order != spec.stores:
            thread = self.threads(spec.stores)
        self._store(thread, values)
        return self.k.build()

    def _change_pairs(self, thread: Thread) -> None:
        """Leave what the chain makes of each pair in its place."""
        start, (real_scale, imag_scale, _) = self.start(self.between, thread), self.between_scales
        pairs = self.all_pairs(thread)
        for number, is_pair in pairs:
            made = []
            for own, value in zip((number, self.half - number), self.results_of(thread, number), strict=True):
                place = self.place(self.between, start, self.k.cast(own, self.index))
                changed = self.between_value((value[0] * real_scale, value[1] * imag_scale), place)
                parts = changed.parts if changed.type.is_complex else (changed, self.k.const(0, changed.type))
                made.append(self.at_ends(own, *[self.k.cast(part, self.part) for part in parts]))
            if number is pairs[-1][0]:
                self.k.barrier()  # threads without a pair have read the last one's elements
            self.leave_pair(thread, number, is_pair, made[0], made[1])


__all__ = ["Filtering", "Merge", "Real", "Split"]
