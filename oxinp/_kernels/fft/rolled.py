"""Transforms of a larger prime in a thread's registers as a loop over pairs of results, with factors from a table.

The sums and differences of mirrored elements are in registers, in the order of the powers of a generator, in which
results take consecutive factors of one sequence. A loop computes a few pairs of results at a time: the same products as
a codelet's (see `codelets`), which has an instruction for each, in a third of the code or less.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.fft.codelets import TERMS, add, chained, subtract
from oxinp._kernels.fft.roots import powers, table
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.fft.codelets import Number
    from oxinp._ptx import Builder
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

# Pairs of results that may be computed at a time: of rows that threads have whole, and of stages.
PAIRS, PAIRS_OF_STAGES = (2, 3), (4, 5, 6)


class Rolled:
    """The loop while its kernel is built.

    Parameters
    ----------
    k : Builder
    prime : int
    type : Type
        c64 or c128.
    apart : int
        Distance of results from each other, by which they are stored.
    is_alone : bool
        Whether the transform has no other stage.
    """

    def __init__(self, k: Builder, prime: int, type: Type, apart: int, *, is_alone: bool) -> None:
        self.k, self.half, self.end = k, prime // 2, prime * apart
        self.pairs = min(PAIRS if is_alone else PAIRS_OF_STAGES, key=lambda pairs: (-self.half % pairs, -pairs))
        self.rounds = -(-self.half // self.pairs)
        order = powers(prime)
        exponents = np.resize(order, self.rounds * self.pairs + self.half)
        self.order = [int(power) for power in order[: self.half]]
        self.roots = k.table(table(prime, exponents, type.dtype))
        self.places = k.table(apart * np.resize(order, self.rounds * self.pairs).astype(np.uint32))

    def compute(self, x: list[Number], store: Callable[[Value, Number], None]) -> None:
        """Call `store` with how far results lie behind the first, u32, and their values."""
        self._each_pair(x[0], *self._folded(x), store, partial(self._store_pair, store))

    def compute_two_real(self, x: list[Number], store: Callable[[Value, Number], None]) -> None:
        """Likewise with results of the real and of the imaginary parts; see `codelets.two_real`."""

        def pair(place: Value, even: Number, odd: Number) -> None:
            k = self.k
            is_far = place > self.end // 2
            near = k.where(is_far, self.end - place, place)
            one, other = (k.where(is_far, -part, part) for part in odd)
            store(near, (even[0], one))
            store(self.end - near, (even[1], other))

        self._each_pair(x[0], *self._folded(x), store, pair)

    def compute_two_halves(self, x: list[Number], store: Callable[[Value, Number], None]) -> None:
        """Likewise the sequences whose transforms are given; see `codelets.two_halves`."""
        p, sums, differences = len(x), [], []
        for j in self.order:
            y, z = (x[j], x[p - j]) if j <= p // 2 else (x[p - j], x[j])
            sums.append((y[0] + y[0], -(z[0] + z[0])))
            parts = z[1] + z[1], y[1] + y[1]
            differences.append((-parts[0], -parts[1]) if j <= p // 2 else parts)
        self._each_pair(x[0], sums, differences, store, partial(self._store_pair, store))

    def _folded(self, x: list[Number]) -> tuple[list[Number], list[Number]]:
        """Sums and differences of mirrored numbers, in the order of a generator's powers."""
        pairs = [(x[j], x[len(x) - j]) for j in self.order]
        return [add(*each) for each in pairs], [subtract(*each) for each in pairs]

    def _store_pair(self, store: Callable[[Value, Number], None], place: Value, even: Number, odd: Number) -> None:
        """Store a result and its mirror image."""
        (re, im), (odd_re, odd_im) = even, odd
        store(place, (re - odd_im, im + odd_re))
        store(self.end - place, (re + odd_im, im - odd_re))

    def _each_pair(
        self,
        first: Number,
        sums: list[Number],
        differences: list[Number],
        store: Callable[[Value, Number], None],
        pair: Callable[[Value, Number, Number], None],
    ) -> None:
        """Call `store` with result 0; `pair` with places, and what results and mirror images share, and differ by."""
        k, zero, whole = self.k, self.k.const(0, u32), first
        for each in sums:
            whole = add(whole, each)
        store(zero, whole)
        with k.range(zero, self.rounds * self.pairs, self.pairs) as start:
            made = self._summed(self.roots.at(start), first, sums, differences)
            for i, (even, odd) in enumerate(made):
                pair(self.places.at(start).load(i, 1, "nc")[0], even, odd)

    def _summed(
        self, roots: Pointer, first: Number, sums: list[Number], differences: list[Number]
    ) -> list[tuple[Number, Number]]:
        """What pairs of results have in common, and in which they differ, times 1j."""
        k, size = self.k, -(-self.half // -(-self.half // TERMS))
        made: list[tuple[Number, Number]] = []
        for begin in range(0, self.half, size):
            terms = slice(begin, min(begin + size, self.half))
            count = terms.stop - begin
            read = [roots.load(begin + i, 1, "nc")[0].parts for i in range(count + self.pairs - 1)]
            parts = []
            for i in range(self.pairs):
                cosines, sines = zip(*read[i : i + count], strict=True)
                even = chained(k, sums[terms], cosines, None if begin else first)
                parts.append((even, chained(k, differences[terms], sines)))
            made = [(add(a, c), add(b, d)) for (a, b), (c, d) in zip(made, parts, strict=True)] if begin else parts
        return made


__all__ = ["Rolled"]
