"""Real transforms of even lengths at half the work, in a block.

A real sequence of n elements is a complex one of n / 2, even elements its real parts; of its transform Z and the mirror
image follow elements k and n / 2 - k of the result, and the other way round. Who owns what: in the step between Z and
the result a thread owns each `threads`-th pair (k, n / 2 - k); everything else is as in `block`. Bytes per element: the
real and the halved side once.

Source: J. W. Cooley, P. A. W. Lewis and P. D. Welch, The fast Fourier transform algorithm, 1970.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.fft.block import SPLIT, Block, BlockSpec
from oxinp._kernels.fft.codelets import multiply
from oxinp._kernels.fft.roots import table
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Kernel
from oxinp._ptx.kernel import retraceable

if TYPE_CHECKING:
    from oxinp._kernels.fft.block import Thread, Values
    from oxinp._kernels.fft.codelets import Number
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BlockSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return (_Split if spec.real == SPLIT else _Merge)(spec).build()


class _Real(Block):
    """What both directions share; the length of the stages is half that of the transform."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__(spec)
        self.half = spec.length
        numerators = np.arange(self.half // 2 + 1)
        self.pair_roots = self.k.table(table(2 * self.half, numerators, spec.type.dtype))

    def pairs(self, thread: Thread) -> list[tuple[Value, Value]]:
        """Numbers k of a thread's pairs, the last in place of those beyond it, and whether each is one."""
        count = self.half // 2 + 1
        rounds = -(-count // self.spec.threads)
        numbers = [thread.first + i * self.spec.threads if i else thread.first for i in range(rounds)]
        return [(self.k.min(number, count - 1), number < count) for number in numbers]

    def pair_root(self, number: Value) -> Number:
        """exp(-2j * pi * number / n)."""
        real, imag = self.pair_roots.load(number, 1, "nc")[0].parts
        return real, imag

    def at(self, pointer: Pointer, steps: list[Value], place: Value, *, is_unit: bool) -> Pointer:
        """The pointer moved by elements of a transform."""
        moved = self.k.cast(place, self.index)
        return pointer.at(moved if is_unit else moved * steps[-1])


class _Split(_Real):
    """A real source, the first half of its transform."""

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        thread = self.begin()
        thread, values = self.stages(thread, self._load_pairs(thread), is_last=False)
        self.leave(thread, len(self.radices), self.half, values)
        if spec.stores != spec.loads:
            thread = self.threads(spec.stores)
        self._store_pairs(thread)
        return k.build()

    def _load_pairs(self, thread: Thread) -> Values:
        k, spec = self.k, self.spec
        radix = spec.radices[0]
        origin = self.origin(thread, self.steps[0])
        base = self.source.at(origin)
        loaded: Values = []
        zero = k.const(0, self.part)
        for number, _ in self.butterflies(thread, radix):
            elements = []
            for j in range(radix):
                place = (number + j * (self.half // radix)) * 2
                first = self.at(base, self.steps[0], place, is_unit=spec.is_unit_source)
                if not spec.is_padded:
                    second = first.at(1 if spec.is_unit_source else self.steps[0][-1])
                    pair = first.load(0, 2) if spec.is_paired else (first.load()[0], second.load()[0])
                    elements.append((k.cast(pair[0], self.part), k.cast(pair[1], self.part)))
                    continue
                parts = []
                for i in range(2):
                    variable = k.var(zero)
                    with k.when(k.cast(place + i, self.index) < self.num_valid):
                        pointer = first.at(i if spec.is_unit_source else self.steps[0][-1] * i)
                        variable.set(k.cast(pointer.load()[0], self.part))
                    parts.append(variable.get())
                elements.append((parts[0], parts[1]))
            loaded.append(elements)
        return loaded

    def _store_pairs(self, thread: Thread) -> None:
        k, spec = self.k, self.spec
        steps = self.steps[1]
        base = self.target.at(self.origin(thread, steps))
        is_column = self.first_column + k.cast(thread.column, self.index) < self.num_columns
        for number, is_pair in self.pairs(thread):
            mirrored = self.half - number
            one = self.smem[self.place_of(thread, number)].parts
            other = self.smem[self.place_of(thread, k.where(number == 0, k.const(0, number.type), mirrored))].parts
            turned = multiply(k, (one[1] + other[1], other[0] - one[0]), self.pair_root(number))
            even = one[0] + other[0], one[1] - other[1]
            results = (
                (number, even[0] + turned[0], even[1] + turned[1], is_pair & is_column),
                (mirrored, even[0] - turned[0], turned[1] - even[1], is_pair & is_column & (number != mirrored)),
            )
            for place, real, imag, is_stored in results:
                with k.when(is_stored):
                    pointer = self.at(base, steps, place, is_unit=spec.is_unit_target)
                    pointer.store(0, (k.compound(spec.type, real * self.scales[0], imag * self.scales[1]),))


class _Merge(_Real):
    """The first half of a transform, the real sequence that it is of."""

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        thread = self.begin()
        self._leave_pairs(thread)
        self.wait()
        self.is_exchanged = True
        radix = spec.radices[0]
        apart = self.half // radix
        values = []
        for number, _ in self.butterflies(thread, radix):
            places = [self.place_of(thread, number + j * apart) for j in range(radix)]
            values.append([(value[0], value[1]) for value in (self.smem[place].parts for place in places)])
        thread, values = self.stages(thread, values, is_last=len(spec.radices) > 1)
        self._store_pairs(thread, values)
        return k.build()

    def _leave_pairs(self, thread: Thread) -> None:
        """Leave the conjugates of what is transformed forwards."""
        k, spec = self.k, self.spec
        base = self.source.at(self.origin(thread, self.steps[0]))
        for number, is_pair in self.pairs(thread):
            mirrored = self.half - number
            is_first = number == 0
            ends = []
            for place in (number, mirrored):
                pointer = self.at(base, self.steps[0], place, is_unit=spec.is_unit_source)
                real, imag = self.element(
                    pointer,
                    k.cast(place, self.index) < self.num_valid if spec.is_padded else None,
                    -self.source_sign,
                    is_reused=False,
                )
                ends.append((real, k.where(is_first, k.const(0, self.part), imag)))
            one, other = ends
            cos, minus_sin = self.pair_root(number)
            even = one[0] + other[0], one[1] - other[1]
            odd = multiply(k, (one[0] - other[0], one[1] + other[1]), (cos, -minus_sin))
            with k.when(is_pair):
                self.smem[self.place_of(thread, number)] = k.compound(spec.type, even[0] - odd[1], -(even[1] + odd[0]))
            with k.when(is_pair & (number != mirrored) & (number != 0)):
                value = k.compound(spec.type, even[0] + odd[1], even[1] - odd[0])
                self.smem[self.place_of(thread, mirrored)] = value

    def _store_pairs(self, thread: Thread, values: Values) -> None:
        k, spec = self.k, self.spec
        radix = self.radices[-1]
        steps = self.steps[1]
        base = self.target.at(self.origin(thread, steps))
        is_column = self.first_column + k.cast(thread.column, self.index) < self.num_columns
        for (number, is_butterfly), elements in zip(self.butterflies(thread, radix), values, strict=True):
            with k.when(is_column if is_butterfly is None else is_column & is_butterfly):
                for j, (real, imag) in enumerate(elements):
                    place = (number + j * (self.half // radix)) * 2
                    pointer = self.at(base, steps, place, is_unit=spec.is_unit_target)
                    pair = real * self.scales[0], imag * -self.scales[0]
                    if spec.is_paired:
                        pointer.store(0, pair)
                        continue
                    pointer.store(0, pair[:1])
                    pointer.at(1 if spec.is_unit_target else steps[-1]).store(0, pair[1:])


__all__ = ["make"]
