"""One pass of a radix sort of long rows: every key to its place by one digit, in one sweep over memory.

Data layout: rows of keys, cut into tiles of ``block * items``, which blocks take in order. Who owns what: a block a
tile, a warp consecutive keys of it, see `Ranks`; thread b also bin b. Algorithm ("onesweep": decoupled look-back): a
block counts its digits and publishes the counts, hands out places and puts the keys in order in shared memory; thread b
then walks back over the counts that the tiles before have published until one says what all before it come to,
publishes its own such sum, and the block stores its keys, those of a digit side by side. Which digits need a pass, and
where its keys come from and go to, is looked up in the row's routes. Bytes per key: key and value, read and written.

A published word has its state in the two highest bits, so that words are seen whole without fences. Descriptors are
zeros at the start of a pass; each pass clears those of the next one.

Source: Adinets and Merrill, Onesweep: a faster least significant digit radix sort for GPUs, arXiv 2206.01784.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.histogram import IS_FIRST, IS_LAST, IS_ODD, IS_SECOND_TARGET, counter
from oxinp._kernels.sort.keys import NUM_BINS, Digit, carrier, largest, num_digits
from oxinp._kernels.sort.rank import Counts, Ranks
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.memory import Pointer
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

AT_ONCE = 4  # tiles that a look-back asks for at a time


class OnesweepSpec(Frozen):
    """The kernel of one pass.

    Attributes
    ----------
    type : Type
        Of elements.
    value : Type or None
        Of what goes with each key between passes, None where nothing does.
    result : Type or None
        Of what goes with each key after the last one.
    is_iota : bool
        Values begin as the keys' places in their row; else they are read.
    keeps_keys : bool
        The last pass stores keys.
    bits : int
        Of places in a row, see `HistogramSpec`.
    block, items : int
        Threads, at least `NUM_BINS`, and keys of each.
    matching : str
        See `Ranks`.
    min_blocks : int
        Blocks per multiprocessor that registers have to allow.
    is_descending : bool
        The greatest elements come first, NaNs last.
    digits : int
        How many digits of keys are counted, the lowest ones; 0: all.
    """

    type: Type
    value: Type | None
    result: Type | None
    is_iota: bool
    keeps_keys: bool
    bits: int
    block: int
    items: int
    matching: str
    min_blocks: int
    is_descending: bool = False
    digits: int = 0

    @property
    def num_digits(self) -> int:
        """Passes of a row, each with its counts and its route."""
        return self.digits or num_digits(self.type)

    @property
    def tile(self) -> int:
        """Keys of a block."""
        return self.block * self.items


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: OnesweepSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Onesweep(spec).build()


class _Onesweep:
    """The kernel while it is built.

    Parameters are keys, the two targets of keys, values and the two targets of values where there are any, starts of
    bins, routes, tickets, the two sets of descriptors; length of rows, tiles per row, number of the digit.
    """

    def __init__(self, spec: OnesweepSpec) -> None:
        self.spec = spec
        self.k = k = Builder("sort_onesweep", block=spec.block, min_blocks=spec.min_blocks)
        bits, self.place = carrier(spec.type), counter(spec.bits)
        self.keys = k.pointer("keys", bits, "r")
        self.targets = [k.pointer(name, bits) for name in ("keys_even", "keys_odd")]
        if spec.value is not None:
            assert spec.result is not None
            self.values = None if spec.is_iota else k.pointer("values", spec.value, "r")
            self.result = k.pointer("result", spec.result)
            self.value_targets = [k.pointer(name, spec.value) for name in ("values_even", "values_odd")]
        self.starts = k.pointer("starts", self.place, "r")
        self.routes, self.tickets = k.pointer("routes", u32, "r"), k.pointer("tickets", u32)
        self.descriptors = [k.pointer(name, self.place) for name in ("even", "odd")]
        self.length = k.scalar("length", self.place)
        self.tiles_per_row, self.number = k.scalar("tiles_per_row", u32), k.scalar("digit", u32)
        self.ordered = k.dynamic_shared(bits, spec.tile)
        self.ordered_values = None if spec.value is None else k.dynamic_shared(spec.value, spec.tile)
        self.shifts = k.dynamic_shared(self.place, NUM_BINS)
        self.ticket = k.dynamic_shared(u32, 1)
        self.ranks = Ranks(k, spec.matching)
        self.digit = Digit(k, spec.type, self.number, spec.is_descending)
        # States of published words.
        self.sum = 1 << (spec.bits - 2)  # of the tile
        self.total = 2 << (spec.bits - 2)  # of the tile and all before it
        self.mask = self.sum - 1

    def build(self) -> Kernel:
        k = self.k
        self.ranks.clear()
        with k.when(k.tid == 0):
            self.ticket[0] = self.tickets.atomic("add", self.number, 1)
        k.barrier()
        tile = self.ticket[0]
        row = tile / self.tiles_per_row
        tile_in_row = tile - row * self.tiles_per_row
        route = self.routes[k.cast(row, i64) * self.spec.num_digits + k.cast(self.number, i64)]
        with k.when(route != 0):
            self.sweep(tile, row, tile_in_row, route)
        return k.build()

    def sweep(self, tile: Value, row: Value, tile_in_row: Value, route: Value) -> None:
        """Sort a tile."""
        k, spec = self.k, self.spec
        origin = k.cast(row, i64) * k.cast(self.length, i64)
        begin = k.cast(tile_in_row, self.place) * spec.tile
        count = k.cast(k.min(self.length - begin, spec.tile), u32)
        is_first, is_last, is_odd, is_second = (
            (route & bit) != 0 for bit in (IS_FIRST, IS_LAST, IS_ODD, IS_SECOND_TARGET)
        )
        even, odd = self.targets
        source = self.chosen(is_first, self.keys, self.chosen(is_second, even, odd))
        target = self.chosen(is_second, odd, even)
        lane = k.warp * (WARP * spec.items) + k.lane
        positions = [lane + i * WARP if i else lane for i in range(spec.items)]
        keys = self.load(source.at(origin + k.cast(begin, i64)), positions, count)
        values = self.load_values(origin, begin, positions, count, is_first, is_second)
        self.ranks.count(keys, self.digit)
        k.barrier()
        (bin_,) = self.ranks.scan()
        own, other = (self.chosen(is_odd, a, b) for a, b in (self.descriptors[::-1], self.descriptors))
        start = self.publish(bin_, own, other, tile, tile_in_row, row)
        k.barrier()
        for i, place in enumerate(self.ranks.places(keys, self.digit)):
            self.ordered[place] = keys[i]
            if self.ordered_values is not None:
                self.ordered_values[place] = values[i]
        self.look_back(bin_, own, tile, tile_in_row, start)
        k.barrier()
        self.store(target.at(origin), count, origin, is_last, is_second)

    def chosen(self, predicate: Value, a: Pointer, b: Pointer) -> Pointer:
        """One of two pointers."""
        k = self.k
        return Pointer(k, k.where(predicate, a.address(), b.address()), a.type, "global", "rw")

    def load(self, source: Pointer, positions: list[Value], count: Value) -> list[Value]:
        """The keys of a thread; where there are none, such that come last."""
        k = self.k
        last = largest(k, self.spec.type, self.spec.is_descending)
        keys = [k.var(last) for _ in positions]
        with k.when(count == self.spec.tile):
            for key, value in zip(keys, [source[position] for position in positions], strict=True):
                key.set(value)
        with k.otherwise():
            for key, position in zip(keys, positions, strict=True):
                with k.when(position < count):
                    key.set(source[position])
        return [key.get() for key in keys]

    def load_values(
        self, origin: Value, begin: Value, positions: list[Value], count: Value, is_first: Value, is_second: Value
    ) -> list[Value]:
        """What goes with the keys of a thread."""
        k, spec = self.k, self.spec
        if spec.value is None:
            return []
        values = [k.var(0, spec.value) for _ in positions]
        even, odd = self.value_targets
        source = self.chosen(is_second, even, odd)
        if self.values is not None:
            source = self.chosen(is_first, self.values, source)
        source = source.at(origin + k.cast(begin, i64))
        last = count - 1
        with k.when(~is_first if spec.is_iota else count != 0):
            for value, loaded in zip(values, [source[k.min(position, last)] for position in positions], strict=True):
                value.set(loaded)
        if spec.is_iota:
            with k.otherwise():
                for value, position in zip(values, positions, strict=True):
                    value.set(k.cast(begin + k.cast(position, self.place), spec.value))
        return [value.get() for value in values]

    def publish(self, bin_: Counts, own: Pointer, other: Pointer, tile: Value, tile_in_row: Value, row: Value) -> Value:
        """Say what a tile's bins have, the first tile of a row also what is before them; return that."""
        k = self.k
        start = k.var(0, self.place)
        at = tile * NUM_BINS + k.tid
        with k.when(k.tid < NUM_BINS):
            count = k.cast(bin_.size, self.place)
            other[at] = 0
            with k.when(tile_in_row == 0):
                first = k.cast(row, i64) * self.spec.num_digits + k.cast(self.number, i64)
                start.set(self.starts[first * NUM_BINS + k.cast(k.tid, i64)])
                own.store(at, [(start + count) | self.total], order="relaxed.gpu")
            with k.otherwise():
                own.store(at, [count | self.sum], order="relaxed.gpu")
        return start.get()

    def look_back(self, bin_: Counts, own: Pointer, tile: Value, tile_in_row: Value, start: Value) -> None:
        """Find how many keys go before those of each bin; leave how far these move on from where they are now."""
        k = self.k
        with k.when(k.tid < NUM_BINS):
            before = k.var(start)
            with k.when(tile_in_row != 0):
                first = tile - tile_in_row
                at = k.var(tile - 1)
                with k.loop():
                    words = [self.published(own, at, first, i) for i in range(AT_ONCE)]
                    found, taken = before.get(), k.const(0, u32)
                    goes_on, is_done = k.const(1, u32) != 0, k.const(1, u32) == 0
                    for word in words:
                        is_taken = goes_on & (word >= self.sum)
                        found = found + k.where(is_taken, word & self.mask, k.const(0, self.place))
                        taken = taken + k.cast(is_taken, u32)
                        is_done = is_done | (is_taken & (word >= self.total))
                        goes_on = is_taken & (word < self.total)
                    before.set(found)
                    at.set(at - taken)
                    k.break_if(is_done)
                whole = (before + k.cast(bin_.size, self.place)) | self.total
                own.store(tile * NUM_BINS + k.tid, [whole], order="relaxed.gpu")
            self.shifts[k.tid] = before - k.cast(bin_.start, self.place)

    def published(self, own: Pointer, at: Value, first: Value, distance: int) -> Value:
        """What the tile at some distance before `at` has published for the thread's bin; of the first one at most."""
        k = self.k
        tile = k.max(at, first + distance) - distance if distance else at
        return own.load(tile * NUM_BINS + k.tid, 1, order="relaxed.gpu")[0]

    def store(self, target: Pointer, count: Value, origin: Value, is_last: Value, is_second: Value) -> None:
        """Store what is in order in shared memory, consecutive threads consecutive keys."""
        k, spec = self.k, self.spec
        stores_keys = None if spec.keeps_keys else ~is_last
        ordered_values = self.ordered_values
        if ordered_values is not None:
            even, odd = self.value_targets
            between, result = self.chosen(is_second, odd, even).at(origin), self.result.at(origin)
        for i in range(spec.items):
            here = k.tid + i * spec.block
            with k.when(here < count):
                key = self.ordered[here]
                to = self.shifts[self.digit.of(key)] + k.cast(here, self.place)
                if stores_keys is None:
                    target[to] = key
                else:
                    with k.when(stores_keys):
                        target[to] = key
                if ordered_values is not None:
                    value = ordered_values[here]
                    with k.when(is_last):
                        result[to] = k.cast(value, result.type)
                    with k.otherwise():
                        between[to] = value


__all__ = ["OnesweepSpec", "make"]
