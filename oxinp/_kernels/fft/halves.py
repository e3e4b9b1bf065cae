"""What transforms of real sequences share: complex stages in a block, and a step over pairs of mirrored elements.

Real sequences are transformed as complex ones, whose transform Z and its mirror image give the first halves of the
results; the way back begins with that step. `real` has sequences of even lengths, `twins` two of odd ones. Who owns
what: in that step a thread owns each `threads`-th pair (k, n - k) of Z's n elements; everything else is as in `block`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.fft.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._kernels.fft.tile import Thread, Values
    from oxinp._ptx import Kernel
    from oxinp._ptx.value import Value


# Pairs of a thread that are computed at once: of those that shared memory has, and of those that are read first.
SPLIT_AT_ONCE, MERGED_AT_ONCE = 5, 32


class Halves(Exchange):
    """A kernel between real sequences and the first halves of their transforms."""

    @property
    def num_pairs(self) -> int:
        """Pairs of a transform."""
        return self.spec.length // 2 + 1

    def pairs(self, first: Value, rounds: int) -> list[tuple[Value, Value]]:
        """Numbers k of so many pairs, the last in place of those beyond it, and whether each is one."""
        count = self.num_pairs
        numbers = [first + i * self.spec.threads if i else first for i in range(rounds)]
        return [(self.k.min(number, count - 1), number < count) for number in numbers]

    def all_pairs(self, thread: Thread) -> list[tuple[Value, Value]]:
        """The same of all pairs of a thread."""
        return self.pairs(thread.first, -(-self.num_pairs // self.spec.threads))

    def each_pair(self, thread: Thread, most: int) -> Iterator[tuple[Value, Value]]:
        """Yield the same, at most so many at once, in a loop where there are more; nobody waits for others in it."""
        threads = self.spec.threads
        rounds = -(-self.num_pairs // threads)
        if rounds <= most:
            yield from self.all_pairs(thread)
            return
        usual = -(-(self.num_pairs - 1) // threads)  # where the middle is one pair more, which only one thread has
        at_once = min(range(most, 1, -1), key=lambda count: -(-usual // count) * count)
        with self.k.range(thread.first + 0, self.num_pairs, at_once * threads) as first:
            yield from self.pairs(first, at_once)

    def first_values(self, thread: Thread) -> Values:
        """What a thread's butterflies of the first stage take, from shared memory."""
        radix, values = self.spec.radices[0], []
        for number, _ in self.butterflies(thread, radix):
            places = [self.place_of(thread, number + j * (self.spec.length // radix)) for j in range(radix)]
            values.append([(value[0], value[1]) for value in (self.smem[place].parts for place in places)])
        return values


class Splitting(Halves):
    """From real sequences to the first halves of their transforms."""

    @property
    def rolls_last(self) -> bool:
        """See `Exchange`: results are left in shared memory."""
        return True

    def build(self) -> Kernel:
        spec = self.spec
        thread = self.begin()
        thread, values = self.stages(thread, self._load(thread), spec.loads)
        self.leave(thread, len(self.radices), spec.length, values)
        if spec.stores != spec.loads:
            thread = self.threads(spec.stores)
        self._store_halves(thread)
        return self.k.build()

    def _load(self, thread: Thread) -> Values:
        """Return the elements of the complex sequence that the first stage takes."""
        raise NotImplementedError

    def split_pairs(self, thread: Thread) -> Iterator[tuple[Value, Value]]:
        """Yield numbers of a thread's pairs, and whether each is one."""
        return self.each_pair(thread, SPLIT_AT_ONCE)

    def _store_halves(self, thread: Thread) -> None:
        """Store the results that Z, in shared memory, and its mirror image give."""
        raise NotImplementedError


class Merging(Halves):
    """From the first halves of transforms to the real sequences."""

    def build(self) -> Kernel:
        spec = self.spec
        thread = self.begin()
        self._leave_pairs(thread)
        self.wait()
        self.is_exchanged = True
        thread, values = self.stages(thread, self.first_values(thread), spec.stores)
        self._store(thread, values)
        return self.k.build()

    def merged_pairs(self, thread: Thread) -> Iterator[tuple[Value, Value]]:
        """Yield numbers of a thread's pairs, and whether each is one."""
        return self.each_pair(thread, MERGED_AT_ONCE)

    def _leave_pairs(self, thread: Thread) -> None:
        """Leave the conjugates of Z, which is transformed forwards, in shared memory."""
        raise NotImplementedError

    def _store(self, thread: Thread, values: Values) -> None:
        """Store what the last stage gives, as real sequences."""
        raise NotImplementedError


__all__ = ["Halves", "Merging", "Splitting"]
