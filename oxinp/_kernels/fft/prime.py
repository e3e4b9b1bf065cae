"""Transforms of lengths that are larger primes, as sums: every result is all elements times roots of unity.

Data layout: a block has `columns` transforms, in shared memory one after the other, their sums and differences element
by element, each of all transforms side by side. Who owns what: on the way from and to global memory neighbouring
threads have neighbouring elements, whatever direction these lie in; in between, the threads of a transform own mirrored
pairs of results, a few each. Algorithm: the sums and differences of mirrored elements, ``((p-1)/2)**2`` multiply-adds
per part; that is as accurate as it gets, and up to some hundred elements no slower than memory. Pairs are in the order
of the powers of a generator g: pair b are the elements ``g**b`` and ``-g**b``, and result pair a takes it times the
root of exponent ``g**(a + b)``, so that a thread with consecutive pairs of results reads one new root per pair of
elements. Bytes per element: read and written once.

Source: C. M. Rader, Discrete Fourier transforms when the number of data samples is prime, Proc. IEEE 56, 1968 (the
symmetries, and the order).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oxinp._kernels.fft.codelets import add, chained, multiply, subtract
from oxinp._kernels.fft.radices import Cut
from oxinp._kernels.fft.roots import powers, table
from oxinp._kernels.fft.spec import BY_COLUMN, ROWS, WARP, TransformSpec
from oxinp._kernels.fft.tile import Thread, Tile
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import End, Place
    from oxinp._ptx import Kernel
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

AT_ONCE = {8: 16, 16: 8}  # loads of a thread on their way to shared memory, by bytes of a number
OWNED = {8: 8, 16: 4}  # pairs of results of a thread, by bytes of a number
TERMS = 8  # that are summed up before the sum is added to the total: long chains of sums err more
# Of factors: below the first, registers hold them; beyond the second, pocketfft convolves, too, and errs more.
MIN_SUMMED, MAX_SUMMED = 29, 199
HELD = {8: 28, 16: 18}  # numbers of a thread


def cut_of_sums(prime: int, nbytes: int) -> Cut:
    """Return how many threads share a transform, and what they hold."""
    half, most = prime // 2, OWNED[nbytes]
    # Products of a thread per pair of elements, and what it does beside.
    owned = min(range(most // 2 + 1, most + 1), key=lambda count: (-(-half // count) * (4 * count + 8), -count))
    return Cut((prime,), -(-half // owned), HELD[nbytes], 0.0)


def shared_nbytes(prime: int, columns: int, nbytes: int) -> int:
    """Return how many bytes of shared memory a block takes: elements, and their sums and differences."""
    return 2 * prime * columns * nbytes


def most_columns(prime: int, nbytes: int, room: int) -> int:
    """Return how many transforms a block takes at most, of a warp's."""
    columns = WARP
    while shared_nbytes(prime, columns, nbytes) > room:
        columns //= 2
    return columns


class _Element(NamedTuple):
    """An element of a thread on the way from or to global memory: column, number, place, and whether it is one."""

    column: Value
    number: Value
    address: Value
    is_one: Value


class _Sums(NamedTuple):
    """What a thread has summed up.

    Attributes
    ----------
    even, odd : list of Number
        Of its pairs of results: the parts that the two have in common, and in which they differ.
    whole : Number
        Result 0.
    roots : list of Number
        Those that the pairs but the last take next.
    """

    even: list[Number]
    odd: list[Number]
    whole: Number
    roots: list[Number]

    @property
    def numbers(self) -> list[Number]:
        """All of them."""
        return [*self.even, *self.odd, self.whole, *self.roots]

    @classmethod
    def of(cls, numbers: list[Number], count: int) -> _Sums:
        """Those that `numbers` were, of so many pairs."""
        return cls(numbers[:count], numbers[count : 2 * count], numbers[2 * count], numbers[2 * count + 1 :])


class Summed(Tile):
    """The kernel while it is built."""

    def __init__(self, spec: TransformSpec) -> None:
        super().__init__(spec)
        self.prime, self.half = spec.length, spec.length // 2
        self.smem = self.k.dynamic_shared(spec.type, spec.shared_elements)
        self.folded = self.prime * spec.columns  # behind the elements, in whose place results come
        self.owned = -(-self.half // spec.threads)  # pairs of results of a thread
        self.at_once = AT_ONCE[spec.type.nbytes]
        exponents = powers(self.prime)
        self.order = self.k.table(exponents[: self.half].astype(np.uint32))
        exponents = np.resize(exponents, spec.threads * self.owned + self.half)
        self.roots = self.k.table(table(self.prime, exponents, spec.type.dtype))

    def build(self) -> Kernel:
        """Build the kernel."""
        k = self.k
        self.begin()
        tile = Thread(k.const(0, u32), k.const(0, u32))
        self.starts = {end: self.start(end, tile) for end in (self.source, self.target, self.beside)}
        self.left = (self.num_columns - self.first_column) * self.prime  # elements of the tile that there are
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

    def _elements(self, order: str, start: Value) -> list[_Element]:
        """A thread's elements on the way from or to global memory."""
        k, spec = self.k, self.spec
        size = self.prime * spec.columns
        found = []
        for i in range(self.at_once):
            place = start + i * spec.threads * spec.columns if i else start
            is_one, place = place < size, k.min(place, size - 1)
            if order == ROWS:
                found.append(_Element(place / self.prime, place % self.prime, place, is_one))
            else:
                column, number = place % spec.columns, place / spec.columns
                found.append(_Element(column, number, column * self.prime + number, is_one))
        return found

    def _starts(self) -> Any:
        """A loop over the elements of a thread: what they are is not kept in registers from one way to the other."""
        size, apart = self.prime * self.spec.columns, self.at_once * self.spec.threads * self.spec.columns
        return self.k.range(self.k.tid + 0, size, apart)

    def _at(self, end: End, element: _Element) -> Place:
        """An element in global memory, or another one in place of one that is not there."""
        k = self.k
        if self.spec.is_dense:
            return self.place(end, self.starts[end], k.min(k.cast(element.address, self.index), self.left - 1))
        owner = Thread(element.column, element.number)
        return self.place(end, self.start(end, owner), k.cast(element.number, self.index))

    def _is_there(self, element: _Element) -> Value:
        """Whether an element's column is one."""
        if self.spec.is_dense:
            return self.k.cast(element.address, self.index) < self.left
        return self.is_column(Thread(element.column, element.number))

    def _position(self, element: _Element, steps: list[Value]) -> Value:
        """The number of an element in a sequence that is padded or cropped."""
        origin = self.origin(Thread(element.column, element.number), steps)
        return origin + self.k.cast(element.number, self.index) * steps[-1]

    def _load(self) -> None:
        k, spec = self.k, self.spec
        with self._starts() as start:
            loaded = []
            for element in self._elements(spec.loads, start):
                place, is_valid, sign = self._at(self.source, element), None, self.source_sign
                if spec.is_padded or spec.is_half:
                    where = self._position(element, self.source_positions)
                    if spec.is_half:
                        place, where, sign = self.halved(place, where)
                    is_valid = where < self.num_valid
                number = self.element(place, is_valid, sign, is_reused=False)
                loaded.append((element, k.compound(spec.type, *number)))
            for element, value in loaded:
                with k.when(element.is_one):
                    self.smem[element.address] = value

    def _store(self) -> None:
        k, spec = self.k, self.spec
        with self._starts() as start:
            for element in self._elements(spec.stores, start):
                real, imag = self._number(element.address)
                if spec.twiddle:
                    real, imag = multiply(k, (real, imag), self._twiddle(element))
                is_stored = element.is_one & self._is_there(element)
                if spec.is_cropped:
                    is_stored &= self._position(element, self.target_positions) < self.num_stored
                scaled: Value = real * self.scales[0]
                if spec.target.is_complex:
                    scaled = k.compound(spec.type, scaled, imag * self.scales[1])
                with k.when(is_stored):
                    self.write(self._at(self.target, element), self._at(self.beside, element), scaled)

    def _twiddle(self, element: _Element) -> Number:
        """The root that a result is multiplied by."""
        k, turn = self.k, self.loops[-1]
        if self.spec.twiddle == BY_COLUMN:
            turn = self.first_column + k.cast(element.column, self.index)
        cos, minus_sin = self.circle.root(element.number * k.cast(turn, u32))
        return k.cast(cos, self.part), k.cast(minus_sin, self.part)

    # -- shared memory

    def _number(self, address: Value) -> Number:
        real, imag = self.smem[address].parts
        return real, imag

    def _fold(self, column: Value, number: Value) -> None:
        """Leave sums of mirrored elements, then differences, then the first element."""
        k, spec = self.k, self.spec
        row, folded = column * self.prime, column + self.folded
        for i in range(self.owned):
            pair = number + i * spec.threads if i else number
            with k.when(pair < self.half):
                element = self.order.load(pair, 1, "nc")[0]
                one, other = self._number(row + element), self._number(row + self.prime - element)
                self.smem[pair * spec.columns + folded] = k.compound(spec.type, *add(one, other))
                self.smem[(pair + self.half) * spec.columns + folded] = k.compound(spec.type, *subtract(one, other))
        with k.when(number == 0):
            self.smem[folded + 2 * self.half * spec.columns] = k.compound(spec.type, *self._number(row))

    def _sum_up(self, column: Value, number: Value) -> None:
        """Leave the results of a thread's pairs."""
        k, spec, count = self.k, self.spec, self.owned
        row, folded, zero = column * self.prime, column + self.folded, k.const(0, self.part)
        first = self._number(folded + 2 * self.half * spec.columns)
        start = number * count
        roots = self.roots.at(start)
        read: list[Number] = [roots.load(i, 1, "nc")[0].parts for i in range(count - 1)]  # type: ignore[misc]
        sums = _Sums([first] * count, [(zero, zero)] * count, first, read)
        looped = self.half // TERMS * TERMS
        held = [(k.var(re), k.var(im)) for re, im in sums.numbers]
        with k.range(k.const(0, u32), looped, TERMS) as term:
            current = _Sums.of([(re.get(), im.get()) for re, im in held], count)
            current = self._with_terms(current, roots.at(term), term * spec.columns + folded, TERMS)
            for variables, parts in zip(held, current.numbers, strict=True):
                for variable, part in zip(variables, parts, strict=True):
                    variable.set(part)
        sums = _Sums.of([(re.get(), im.get()) for re, im in held], count)
        if rest := self.half - looped:
            sums = self._with_terms(sums, roots.at(looped), folded + looped * spec.columns, rest)
        for i, ((re, im), (odd_re, odd_im)) in enumerate(zip(sums.even, sums.odd, strict=True)):
            pair = start + i if i else start
            with k.when(pair < self.half):
                element = self.order.load(pair, 1, "nc")[0]
                self.smem[row + element] = k.compound(spec.type, re - odd_im, im + odd_re)
                self.smem[row + self.prime - element] = k.compound(spec.type, re + odd_im, im - odd_re)
        with k.when(number == 0):
            self.smem[row] = k.compound(spec.type, *sums.whole)

    def _with_terms(self, sums: _Sums, roots: Pointer, place: Value, size: int) -> _Sums:
        """The sums with so many more terms, from a place in shared memory on."""
        k, count, read = self.k, self.owned, list(sums.roots)
        even: list[Number | None] = [None] * count
        odd: list[Number | None] = [None] * count
        whole: Number | None = None
        for b in range(size):
            total = self._number(place + b * self.spec.columns)
            difference = self._number(place + (self.half + b) * self.spec.columns)
            read.append(roots.load(b + count - 1, 1, "nc")[0].parts)  # type: ignore[arg-type]
            own = read[b:]
            even = [chained(k, [total], [cos], done) for (cos, _), done in zip(own, even, strict=True)]
            odd = [chained(k, [difference], [minus_sin], done) for (_, minus_sin), done in zip(own, odd, strict=True)]
            whole = total if whole is None else add(whole, total)
        assert whole is not None
        return _Sums(
            [add(done, part) for done, part in zip(sums.even, even, strict=True) if part],
            [add(done, part) for done, part in zip(sums.odd, odd, strict=True) if part],
            add(sums.whole, whole),
            read[size:],
        )


__all__ = ["MAX_SUMMED", "MIN_SUMMED", "Summed", "cut_of_sums", "most_columns"]
