"""Transforms of a larger prime in a thread's registers as a loop over pairs of results, with factors from a table.

The sums and differences of mirrored elements are in registers, in the order of the powers of a generator, in which
results take consecutive factors of one sequence. A loop computes a few pairs of results at a time: the same products as
a codelet's (see `codelets`), which has one instruction for each, in a fiftieth of the code.
"""

from __future__ import annotations

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
PAIRS, PAIRS_OF_STAGES = (2, 3), (2, 3)


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
        self.order = order[: self.half]
        self.roots = k.table(table(prime, exponents, type.dtype))
        self.places = k.table(apart * np.resize(order, self.rounds * self.pairs).astype(np.uint32))

    def compute(self, x: list[Number], store: Callable[[Value, Number], None]) -> None:
        """Call `store` with how far results lie behind the first, u32, and their values."""
        k, p = self.k, len(x)
        pairs = [(x[j], x[p - j]) for j in map(int, self.order)]
        sums, differences = [add(*pair) for pair in pairs], [subtract(*pair) for pair in pairs]
        whole = x[0]
        for each in sums:
            whole = add(whole, each)
        store(k.const(0, u32), whole)
        with k.range(k.const(0, u32), self.rounds * self.pairs, self.pairs) as start:
            made = self._summed(self.roots.at(start), x[0], sums, differences)
            for i, ((re, im), (odd_re, odd_im)) in enumerate(made):
                place = self.places.at(start).load(i, 1, "nc")[0]
                store(place, (re - odd_im, im + odd_re))
                store(self.end - place, (re + odd_im, im - odd_re))

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
