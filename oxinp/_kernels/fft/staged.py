"""Transforms of short rows in a block: a tile of rows is copied to shared memory, transformed there, and copied out.

Data layout: a tile is `columns` rows, one after the other in shared memory as in global memory, so that neighbouring
threads read and write neighbouring elements however short the rows are. Who owns what: as in `block`, threads in the
order, and rows at the distance, that have the fewest bank conflicts; where a single stage is enough, a thread has a
row. Algorithm: that of `block` between two copies. Bytes per element: read and written once.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from oxinp._kernels.fft.block import Block
from oxinp._kernels.fft.codelets import results
from oxinp._kernels.fft.tile import Thread, divided
from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import End, Place, Values
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

AT_ONCE = 8  # loads of a thread on their way to shared memory


class Staged(Block):
    """The kernel while it is built."""

    def compute(self, thread: Thread) -> None:
        """Transform the tile that has begun."""
        k, spec = self.k, self.spec
        self.copy(self.fill, self.fill_part)
        k.barrier()
        self.is_exchanged = True
        values = [self.numbers(addresses) for addresses, _ in self.elements_of(thread, spec.radices[0])]
        finished: list[Iterator[tuple[int, Number]]] = []
        if len(spec.radices) > 1:
            thread, values = self.stages(thread, values, spec.stores)
            finished = [iter(enumerate(each)) for each in values]
        elif not self.is_rolled(0):
            finished = [results(k, each) for each in values]
        if any(is_valid is not None for _, is_valid in self.butterflies(thread, spec.radices[-1])):
            self.wait()  # threads without a butterfly have read one's elements
        # Results lie where their butterfly's elements were.
        if self.is_rolled(len(spec.radices) - 1):
            self._roll(thread, values)
            finished = []
        for (addresses, is_valid), each in zip(self.elements_of(thread, spec.radices[-1]), finished, strict=False):
            with nullcontext() if is_valid is None else k.when(is_valid):
                for j, (real, imag) in each:
                    addresses[j][0] = k.compound(spec.type, real * self.scales[0], imag * self.scales[1])
        k.barrier()
        self.copy(self.drain, self.drain_part)

    def _roll(self, thread: Thread, values: Values) -> None:
        """Leave the results of the last stage's butterflies by loops over them."""
        radix = self.radices[-1]
        for (number, is_valid), each in zip(self.butterflies(thread, radix), values, strict=True):
            place, neighbour, _ = self._place(thread, number)
            with nullcontext() if is_valid is None else self.k.when(is_valid):
                self.leave_rolled(radix, place, self.spec.share // radix * neighbour, each, self.scales)

    def numbers(self, addresses: Iterable[Pointer]) -> list[Number]:
        """The numbers at addresses of shared memory."""
        return [(value[0], value[1]) for value in (address[0].parts for address in addresses)]

    def copy(self, whole: Callable[[], None], part: Callable[[Value], None]) -> None:
        """Copy a tile one way: a whole one, or what is left at the end, a number of elements."""
        k, spec = self.k, self.spec
        if not spec.is_dense or spec.columns == 1:
            whole()
            return
        left = (self.num_columns - self.first_column) * spec.row
        is_whole = left >= spec.row * spec.columns
        with k.when(is_whole):
            whole()
        with k.when(~is_whole):
            part(left)

    def _copied(self, end: End) -> Iterator[tuple[Place, Value, Value | None, Value | None]]:
        """Yield places of a thread's elements in global and in shared memory, and whether each is in tile and array.

        What is not there has a place that is; None for yes.
        """
        k, spec = self.k, self.spec
        num_threads, size = spec.threads * spec.columns, spec.row * spec.columns
        origin = self.start(end, Thread(k.const(0, u32), k.tid))
        first = self.place(end, origin, k.cast(k.tid, self.index))
        for start in range(0, size, num_threads):
            number, is_one = k.tid + start, None
            if start + num_threads > size:
                is_one, number = number < size, k.min(number, size - 1)
            address, is_there = self.flat_place(*((k.tid, start) if is_one is None else (number, 0))), is_one
            if not spec.is_dense:
                owner = Thread(*divided(k, number, spec.row))
                place = self.place(end, self.start(end, owner), k.cast(owner.first, self.index))
                is_there = self.is_column(owner) if is_one is None else is_one & self.is_column(owner)
            elif is_one is not None:
                place = self.place(end, origin, k.cast(number, self.index))
            else:
                place = first.moved(start)
            yield place, address, is_one, is_there

    def fill(self) -> None:
        """Copy a tile into shared memory."""
        k, spec = self.k, self.spec
        copied = list(self._copied(self.source))
        for start in range(0, len(copied), AT_ONCE):
            loaded = []
            for place, address, is_one, _ in copied[start : start + AT_ONCE]:
                value = self.element(place, None, self.source_sign, is_reused=False)
                loaded.append((address, k.compound(spec.type, *value), is_one))
            for address, number, is_one in loaded:
                with nullcontext() if is_one is None else k.when(is_one):
                    self.smem[address] = number

    def fill_part(self, left: Value) -> None:
        """Copy the elements that are left into shared memory, the last one in place of those beyond it."""
        k, spec = self.k, self.spec
        num_threads, size = spec.threads * spec.columns, spec.row * spec.columns
        origin = self.start(self.source, Thread(k.const(0, u32), k.tid))
        at_once = min(AT_ONCE, -(-size // num_threads))
        with k.range(k.tid + 0, size, at_once * num_threads) as start:
            loaded = []
            for number in [start + i * num_threads if i else start for i in range(at_once)]:
                place = self.place(self.source, origin, k.min(k.cast(number, self.index), left - 1))
                value = self.element(place, None, self.source_sign, is_reused=False)
                loaded.append((number, k.compound(spec.type, *value)))
            for number, element in loaded:
                with k.when(number < size):
                    self.smem[self.flat_place(number, 0)] = element

    def drain_part(self, left: Value) -> None:
        """Copy the elements that are left out of shared memory."""
        k, spec = self.k, self.spec
        origins = [self.start(end, Thread(k.const(0, u32), k.tid)) for end in (self.target, self.beside)]
        with k.range(k.tid + 0, k.cast(left, u32), spec.threads * spec.columns) as number:
            index = k.cast(number, self.index)
            places = self.place(self.target, origins[0], index), self.place(self.beside, origins[1], index)
            result = self.smem[self.flat_place(number, 0)]
            self.write(*places, result if spec.target.is_complex else result.parts[0])

    def drain(self) -> None:
        """Copy a tile out of shared memory."""
        copied = zip(self._copied(self.target), self._copied(self.beside), strict=True)
        for (place, address, _, is_there), (beside, *_) in copied:
            result = self.smem[address]
            with nullcontext() if is_there is None else self.k.when(is_there):
                self.write(place, beside, result if self.spec.target.is_complex else result.parts[0])


__all__ = ["Staged"]
