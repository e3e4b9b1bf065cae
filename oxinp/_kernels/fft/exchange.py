"""The stages of a transform in a block: butterflies in registers, and exchanges through shared memory between them."""

from __future__ import annotations

import math
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from oxinp._kernels.fft.codelets import multiply, transform
from oxinp._kernels.fft.prefetch import fetch_ahead
from oxinp._kernels.fft.rolled import Rolled
from oxinp._kernels.fft.roots import table
from oxinp._kernels.fft.spec import ROWS, WARP, TransformSpec
from oxinp._kernels.fft.tile import Tile, divided
from oxinp._ptx.cluster_store import ClusterStores
from oxinp._ptx.types import c128

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from oxinp._kernels.fft.codelets import Number
    from oxinp._kernels.fft.tile import Host, Thread, Values
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value


class Exchange(Tile):
    """A tile with its stages."""

    def __init__(self, spec: TransformSpec, host: Host | None = None) -> None:
        super().__init__(spec, host)
        if host is not None and host.smem is not None:
            self.smem = host.smem
        elif spec.shared_elements:
            self.smem = self.k.dynamic_shared(spec.type, spec.shared_elements)
        if spec.num_factors:
            self.factors = self.k.dynamic_shared(c128, spec.num_factors)
        self.is_exchanged, self.is_loaded, self.is_fetching = False, False, spec.is_fetching
        self.order, self.root_cache = spec.loads, "nc"
        if spec.cluster > 1:
            self.stores = ClusterStores(self.k)
            with self.k.when(self.k.tid == 0):
                self.stores.expect(0, spec.share * spec.columns * spec.type.nbytes)
            self.k.emit("cluster_arrive_relaxed", types=())
        self.radices = spec.radices
        self.tables = self.twiddles()
        self.loops_of: dict[tuple[int, int], Rolled] = {}  # by radices, and how far apart results lie

    def twiddles(self) -> list[Pointer]:
        """Per stage but the first, root j * k of the elements behind the first, j outermost; see `rows_of`."""
        dtype = self.spec.type.dtype
        return [self.k.table(table(order, numerators, dtype)) for order, numerators in self.exponents()]

    def exponents(self) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
        """Yield the orders of roots and their exponents, per stage but the first."""
        before = 1
        for radix, following in pairwise(self.radices):
            before *= radix
            yield before * following, np.multiply.outer(self.rows_of(following), np.arange(before)).ravel()

    def turn_back(self) -> None:
        """Let stages come in reverse, for a transform that begins where another one ends."""
        self.radices = self.spec.radices[::-1]
        if self.radices != self.spec.radices:
            self.tables = self.twiddles()
        self.root_cache = ""  # the roots of the way there would be kept in registers, and numbers spilled

    def rows_of(self, radix: int) -> list[int]:
        """The j of the roots that a table has: all, or those below a number, and its multiples."""
        if not self.spec.is_factored:
            return list(range(1, radix))
        low = math.isqrt(radix)
        return [*range(1, low), *range(low, radix, low)]

    def _roots(self, own: Pointer, radix: int, apart: int) -> Iterator[Number]:
        """Yield the roots that the elements of a butterfly behind the first are multiplied by; `apart` rows lie."""
        k, rows, low = self.k, self.rows_of(radix), math.isqrt(radix)
        read: dict[int, Number] = {}
        for j in range(1, radix):
            if j in rows:
                real, imag = own.load(rows.index(j) * apart, 1, self.root_cache)[0].parts
                read[j] = real, imag
            yield read[j] if j in read else multiply(k, read[j - j % low], read[j % low])

    def stages(self, thread: Thread, values: Values, order: str) -> tuple[Thread, Values]:
        """All stages; threads change to an order at the last exchange."""
        spec, before = self.spec, 1
        for stage in range(len(self.radices)):
            if stage == 1 and self.is_fetching:
                fetch_ahead(self)
                self.is_fetching = False  # of a convolution, the other way
            if stage == 1 and spec.cluster > 1:
                before = spec.kept
                self.deal(thread, values)
            elif stage:
                before *= self.radices[stage - 1]
                self.leave(thread, stage, before, values)
            if stage:
                if stage == len(self.radices) - 1 and order != self.order:
                    self.order = order
                    thread = self.threads(order)
                values = self._fetch(thread, stage, before)
            if not self.is_rolled(stage):
                values = [self.transformed(each) for each in values]
        return thread, values

    @property
    def rolls_last(self) -> bool:
        """Whether a loop may store what the last stage gives."""
        return False

    def is_rolled(self, stage: int) -> bool:
        """Whether butterflies of a stage are loops, in which their results are left or stored."""
        is_last = stage == len(self.radices) - 1
        return self.radices[stage] in self.spec.rolled and (self.rolls_last or not is_last)

    def rolled(self, radix: int, apart: int, elements: list[Number], store: Callable[[Value, Number], None]) -> None:
        """Call a function with the places, u32, and values of a butterfly's results, `apart` each, in a loop."""
        if (radix, apart) not in self.loops_of:
            self.loops_of[radix, apart] = Rolled(self.k, radix, self.spec.type, apart, is_alone=len(self.radices) == 1)
        self.computed_by(self.loops_of[radix, apart])(elements, store)

    def computed_by(self, loop: Rolled) -> Callable[[list[Number], Callable[[Value, Number], None]], None]:
        """What of a loop computes what `transformed` does."""
        return loop.compute

    def transformed(self, values: list[Number]) -> list[Number]:
        """What a butterfly makes of numbers."""
        return transform(self.k, values)

    def _addresses(self, place: Value, offsets: Iterable[int], multiple: int, reach: int = 1) -> list[Pointer]:
        """Where in shared memory elements lie, `offsets` behind one at less than `reach` beyond a `multiple`."""
        padding = self.spec.padding if self.spec.pitch == self.spec.share else 0
        found: list[Pointer] = []
        bases: dict[int, Pointer] = {}
        for offset in offsets:
            # Elements a multiple of the padding apart, and those within one piece, are as far apart whatever the place.
            rest = offset % padding if padding else 0
            beside = 0 if padding and multiple % padding == 0 and rest + reach <= padding else rest
            if beside not in bases:
                bases[beside] = self.smem.at(self._padded(place, beside) if padding else place)
            found.append(bases[beside].at(offset - beside + ((offset - beside) // padding if padding else 0)))
        return found

    def _padded(self, place: Value, offset: int) -> Value:
        """The place of an element in shared memory by that without padding, `offset` further."""
        moved, padding = place + offset if offset else place, self.spec.padding
        return moved + divided(self.k, moved, padding)[0] if padding else moved

    def _place(self, thread: Thread, element: Value) -> tuple[Value, int, int]:
        """An element's place before padding, how far apart neighbours are, a divisor of what columns add."""
        spec = self.spec
        if spec.is_mixed:
            return element * spec.columns + thread.column, spec.columns, 1
        if spec.columns == 1:
            return element, 1, 0
        return element + thread.column * spec.pitch, 1, spec.pitch

    def flat_place(self, number: Value, offset: int) -> Value:
        """Where an element lies by its number in a tile of transforms one after the other, `offset` further."""
        return number + offset if self.spec.row == self.spec.length + 1 else self._padded(number, offset)

    def place_of(self, thread: Thread, element: Value) -> Value:
        """Where in shared memory an element lies."""
        place = self._place(thread, element)[0]
        return self._padded(place, 0) if self.spec.pitch == self.spec.share else place

    def leave(self, thread: Thread, stage: int, before: int, values: Values) -> None:
        """Write what stage `stage - 1` gives; `before` is the length of transforms that it has finished."""
        k, spec = self.k, self.spec
        radix = self.radices[stage - 1]
        done = before // radix
        is_first, self.is_exchanged = not self.is_exchanged, True
        if not is_first:
            self.wait()
        for (own, is_valid), elements in zip(self.butterflies(thread, radix), values, strict=True):
            within = divided(k, own, done)[1] if done > 1 else None
            first = own * radix if within is None else (own - within) * radix + within
            place, apart, _ = self._place(thread, first)
            with nullcontext() if is_valid is None else k.when(is_valid):
                if self.is_rolled(stage - 1):
                    self.leave_rolled(radix, place, done * apart, elements)
                    continue
                multiple, reach = 1, 1
                if done == 1 and spec.is_mixed:
                    multiple, reach = radix * spec.columns, spec.columns
                elif done == 1 and spec.pitch % radix == 0:
                    multiple = radix
                addresses = self._addresses(place, range(0, radix * done * apart, done * apart), multiple, reach)
                for address, number in zip(addresses, elements, strict=True):
                    address[0] = k.compound(spec.type, *number)
        self.wait()
        if is_first and self.host is not None:
            self.host.exchanged()

    def leave_rolled(
        self, radix: int, place: Value, apart: int, elements: list[Number], scales: Sequence[Value] = ()
    ) -> None:
        """Write what a butterfly gives, times scales of both parts, by a loop; results lie `apart` from each other."""
        k, spec, first = self.k, self.spec, self.smem.at(place)
        is_padded = spec.padding > 0 and spec.pitch == spec.share

        def store(moved: Value, result: Number) -> None:
            scaled = [part * scale for part, scale in zip(result, scales, strict=True)] if scales else result
            address = self.smem.at(self._padded(place + moved, 0)) if is_padded else first.at(moved)
            address[0] = k.compound(spec.type, *scaled)

        self.rolled(radix, apart, elements, store)

    def elements_of(self, thread: Thread, radix: int) -> Iterator[tuple[list[Pointer], Value | None]]:
        """Yield where in shared memory what a thread's butterflies of a stage take lies, and whether each is one."""
        apart = self.spec.share // radix
        for number, is_valid in self.butterflies(thread, radix):
            place, neighbour, _ = self._place(thread, number)
            yield self._addresses(place, range(0, radix * apart * neighbour, apart * neighbour), 1), is_valid

    def deal(self, thread: Thread, values: Values) -> None:
        """Write what the first stage gives to the blocks of the cluster, which each go on with some results of all.

        Result j of butterfly b is element ``j + b * radix`` of the transform; of those numbers j, consecutive ones
        belong to a block, and lie there in this order.
        """
        k, spec = self.k, self.spec
        radix, kept = spec.radices[0], spec.kept
        self.is_exchanged = True
        k.emit("cluster_wait", types=())  # every block has begun
        blocks = [self.stores.block(0, self.smem, rank) for rank in range(spec.cluster)]
        for (number, is_valid), elements in zip(self.butterflies(thread, radix), values, strict=True):
            place, apart, _ = self._place(thread, self.first_number(number) * kept)
            places = [self._padded(place, j * apart) for j in range(kept)]  # no block of a cluster is staged
            with nullcontext() if is_valid is None else k.when(is_valid):
                for j, value in enumerate(elements):
                    self.stores.store_pair(blocks[j // kept], places[j % kept], k.compound(spec.type, *value))
        self.stores.wait(0)

    def wait(self) -> None:
        """Until everyone who shares memory with a thread is here."""
        spec = self.spec
        # Threads beyond a stage's butterflies read the last one's elements: what several lanes have read, the
        # emulator's race detection takes to be ordered by barriers alone.
        is_even = all(spec.share // radix % spec.threads == 0 for radix in spec.radices)
        are_rows = not (spec.is_mixed or spec.num_factors) and spec.loads == spec.stores == ROWS
        if self.host is None and are_rows and WARP % spec.threads == 0 and is_even:
            if not self.is_loaded:
                # Threads without a column have read the last one's elements, which their owners write in place.
                with self.k.when(self.first_column + spec.columns > self.num_columns):
                    self.k.barrier()
            self.k.warp_sync()
        else:
            self.k.barrier()
        self.is_loaded = True

    def _fetch(self, thread: Thread, stage: int, before: int) -> Values:
        """What a thread's butterflies of a stage take, times roots of unity."""
        k, spec = self.k, self.spec
        radix = self.radices[stage]
        fetched = []
        butterflies = zip(self.butterflies(thread, radix), self.elements_of(thread, radix), strict=True)
        for (number, _), (addresses, _) in butterflies:
            loaded = [address[0] for address in addresses]
            within = self.later_number(divided(k, number, before)[1] if stage < len(self.radices) - 1 else number)
            rest: list[Number] = [value.parts for value in loaded[1:]]  # type: ignore[misc]
            fetched.append([loaded[0].parts, *self.times_roots(rest, stage, within, before * spec.cluster)])
        return fetched  # type: ignore[return-value]

    def times_roots(self, values: list[Number], stage: int, within: Value, apart: int) -> list[Number]:
        """The elements of a butterfly behind the first times their roots of unity, whose rows lie `apart`."""
        factors = list(self._roots(self.tables[stage - 1].at(within), self.radices[stage], apart))
        return [multiply(self.k, value, factor) for value, factor in zip(values, factors, strict=True)]


__all__ = ["Exchange"]
