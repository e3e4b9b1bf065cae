"""Transforms of lengths that are larger primes, as sums: every result is all elements times roots of unity.

Data layout: a block has `columns` transforms, in shared memory element by element, each element of all transforms side
by side. Who owns what: on the way from and to global memory neighbouring threads have neighbouring elements, whatever
direction these lie in; in between, the threads of a transform own mirrored pairs of results, a few each. Algorithm: the
sums and differences of mirrored elements, ``((p-1)/2)**2`` multiply-adds per part, roots of unity from a table; that is
as accurate as it gets, and up to some hundred elements no slower than memory. Bytes per element: read and written once.

Source: C. M. Rader, Discrete Fourier transforms when the number of data samples is prime, Proc. IEEE 56, 1968 (the
symmetries).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.fft.codelets import add, multiply, subtract
from oxinp._kernels.fft.roots import table
from oxinp._kernels.fft.spec import BY_COLUMN, ROWS, WARP, TransformSpec
from oxinp._kernels.fft.tile import Thread, Tile
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import End, Place
    from oxinp._ptx import Kernel
    from oxinp._ptx.value import Value

AT_ONCE = 4  # loads of a thread on their way to shared memory
OWNED = {8: 8, 16: 4}  # pairs of results of a thread, by bytes of a number
TERMS = 8  # that are summed up before the sum is added to the total: long chains of sums err more
# Of factors: below the first, registers hold them; beyond the second, pocketfft convolves, too, and errs more.
MIN_SUMMED, MAX_SUMMED = 29, 199
FEWEST_COLUMNS = 8  # of a block: segments of those are long enough


def threads_of(prime: int, nbytes: int) -> int:
    """Return how many threads share a transform: the first result is a pair of its own."""
    return -(-(prime // 2 + 1) // OWNED[nbytes])


def shared_nbytes(prime: int, columns: int, nbytes: int) -> int:
    """Return how many bytes of shared memory a block takes: elements and results of all columns, and of one more."""
    return 2 * prime * (columns + 1) * nbytes


def most_columns(prime: int, nbytes: int, room: int) -> int:
    """Return how many transforms a block takes at most, of a warp's; 0 where it has no room for enough."""
    columns = WARP
    while columns >= FEWEST_COLUMNS and shared_nbytes(prime, columns, nbytes) > room:
        columns //= 2
    return columns if columns >= FEWEST_COLUMNS else 0


class Summed(Tile):
    """The kernel while it is built."""

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        self.prime, self.half = spec.length, spec.length // 2
        self.pitch = spec.columns + 1
        self.smem = self.k.dynamic_shared(spec.type, spec.shared_elements)
        self.results = self.prime * self.pitch
        numerators = np.multiply.outer(np.arange(self.half + 1), np.arange(1, self.half + 1)).ravel()
        self.roots = self.k.table(table(self.prime, numerators, spec.type.dtype))

    def build(self) -> Kernel:
        """Build the kernel."""
        k = self.k
        self.begin()
        self._load()
        k.barrier()
        column, number = k.tid % self.spec.columns, k.tid / self.spec.columns
        self._fold(column, number)
        k.barrier()
        self._sum_up(column, number)
        k.barrier()
        self._store()
        return k.build()

    # -- global memory

    def _elements(self, order: str, start: Value) -> list[tuple[Value, Value, Value]]:
        """Columns and elements of a thread on the way from or to global memory, and whether each is one."""
        k, spec = self.k, self.spec
        size = self.prime * spec.columns
        found = []
        for i in range(AT_ONCE):
            place = start + i * spec.threads * spec.columns if i else start
            is_one, place = place < size, k.min(place, size - 1)
            if order == ROWS:
                found.append((place / self.prime, place % self.prime, is_one))
            else:
                found.append((place % spec.columns, place / spec.columns, is_one))
        return found

    def _starts(self) -> Any:
        """A loop over the elements of a thread: what they are is not kept in registers from one way to the other."""
        size, apart = self.prime * self.spec.columns, AT_ONCE * self.spec.threads * self.spec.columns
        return self.k.range(self.k.tid + 0, size, apart)

    def _at(self, end: End, column: Value, element: Value) -> Place:
        owner = Thread(column, element)
        return self.place(end, self.start(end, owner), self.k.cast(element, self.index))

    def _load(self) -> None:
        k, spec = self.k, self.spec
        with self._starts() as start:
            loaded = []
            for column, element, is_one in self._elements(spec.loads, start):
                is_valid = None
                if spec.is_padded:
                    where = self.origin(Thread(column, element), self.source_positions)
                    is_valid = where + k.cast(element, self.index) * self.source_positions[-1] < self.num_valid
                place = self._at(self.source, column, element)
                number = self.element(place, is_valid, self.source_sign, is_reused=False)
                loaded.append((element * self.pitch + column, k.compound(spec.type, *number), is_one))
            for address, value, is_one in loaded:
                with k.when(is_one):
                    self.smem[address] = value

    def _store(self) -> None:
        k, spec = self.k, self.spec
        with self._starts() as start:
            for column, element, is_one in self._elements(spec.stores, start):
                owner = Thread(column, element)
                real, imag = self._number(element * self.pitch + column + self.results)
                if spec.twiddle:
                    real, imag = multiply(k, (real, imag), self._twiddle(column, element))
                is_stored = is_one & self.is_column(owner)
                if spec.is_cropped:
                    where = self.origin(owner, self.target_positions)
                    is_stored &= where + k.cast(element, self.index) * self.target_positions[-1] < self.num_stored
                scaled: Value = real * self.scales[0]
                if spec.target.is_complex:
                    scaled = k.compound(spec.type, scaled, imag * self.scales[1])
                with k.when(is_stored):
                    self.write(self._at(self.target, column, element), self._at(self.beside, column, element), scaled)

    def _twiddle(self, column: Value, element: Value) -> Number:
        """The root that a result is multiplied by."""
        k = self.k
        turn = self.first_column + k.cast(column, self.index) if self.spec.twiddle == BY_COLUMN else self.loops[-1]
        cos, minus_sin = self.circle.root(element * k.cast(turn, u32))
        return k.cast(cos, self.part), k.cast(minus_sin, self.part)

    # -- shared memory

    def _number(self, address: Value) -> Number:
        real, imag = self.smem[address].parts
        return real, imag

    def _fold(self, column: Value, number: Value) -> None:
        """Leave sums of mirrored elements in place of the first, differences in place of the second."""
        k, spec = self.k, self.spec
        for i in range(-(-self.half // spec.threads)):
            pair = number + (1 + i * spec.threads)
            with k.when(pair <= self.half):
                places = [each * self.pitch + column for each in (pair, self.prime - pair)]
                one, other = (self._number(place) for place in places)
                self.smem[places[0]] = k.compound(spec.type, *add(one, other))
                self.smem[places[1]] = k.compound(spec.type, *subtract(one, other))

    def _sum_up(self, column: Value, number: Value) -> None:
        """Leave the results of a thread's pairs."""
        k, spec = self.k, self.spec
        first = self._number(column + 0)
        owned = [number + i * spec.threads if i else number for i in range(OWNED[spec.type.nbytes])]
        rows = [self.roots.at(k.min(m, self.half) * self.half) for m in owned]
        even: list[Number] = [first] * len(owned)
        odd: list[Number] = []
        for start in range(1, self.half + 1, TERMS):
            parts: list[tuple[Number | None, Number | None]] = [(None, None)] * len(rows)
            for j in range(start, min(start + TERMS, self.half + 1)):
                total = self._number(column + j * self.pitch)
                difference = self._number(column + (self.prime - j) * self.pitch)
                roots = [row.load(j - 1, 1, "nc")[0].parts for row in rows]
                parts = [
                    (self._product(total, cos, done[0]), self._product(difference, minus_sin, done[1]))
                    for (cos, minus_sin), done in zip(roots, parts, strict=True)
                ]
            straight, turned = [part for part, _ in parts if part], [part for _, part in parts if part]
            even = [add(done, part) for done, part in zip(even, straight, strict=True)]
            odd = [add(done, part) for done, part in zip(odd, turned, strict=True)] if odd else turned
        for m, (re, im), (odd_re, odd_im) in zip(owned, even, odd, strict=True):
            address = m * self.pitch + column + self.results
            with k.when(m <= self.half):
                self.smem[address] = k.compound(spec.type, re - odd_im, im + odd_re)
            with k.when((m <= self.half) & (m != 0)):
                mirrored = (self.prime - m) * self.pitch + column + self.results
                self.smem[mirrored] = k.compound(spec.type, re + odd_im, im - odd_re)

    def _product(self, number: Number, factor: Value, done: Number | None) -> Number:
        """A number times a real factor, plus what there is."""
        k = self.k
        if done is None:
            return number[0] * factor, number[1] * factor
        return k.fma(number[0], factor, done[0]), k.fma(number[1], factor, done[1])


__all__ = ["MAX_SUMMED", "MIN_SUMMED", "Summed", "most_columns", "threads_of"]
