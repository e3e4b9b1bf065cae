"""Scans of few long rows in one pass, by decoupled look-back in a fixed order.

Data layout: the scanned loop is the innermost, divided into tiles of ``BLOCK * items`` elements, of which blocks take
the next by an atomic ticket. Who owns what: a block scans a tile, a thread `items` consecutive elements of it.
Algorithm: neighbouring threads load neighbouring elements to shared memory; each thread combines its own ones, the
block scans these totals and publishes the total of the tile; the first warp computes the total of the tiles before it
(look-back), from which threads scan their elements. Bytes per element: inputs and result once.

The look-back has a fixed order: the last of `FAN` tiles also publishes their total, the last of `FAN` such groups also
that of the groups, and so on. So the total of the tiles before one is, per level, that of at most ``FAN - 1`` entries,
which a warp combines in a tree: the order does not depend on which block is first, and the same input gives the same
bits. A tile waits for no other look-back than that of the last tile of a group, which needs the totals of the group
only. Sums of other tiles than the last of a group wait for all levels at once; lanes first add up what they see.

A published accumulator consists of words of 32 bits, each stored together with a mark as one word of 64 bits, so that
no fence is needed. Descriptors and tickets are zeros before the launch, or marks, see `oxinp._kernels.plan`: the number
of the launch is then above the ticket, and the block that takes the last one raises it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.elementwise.chain import UNIT, Chain, Divisor, Position, Splitter, Spot, locate
from oxinp._kernels.plan import mark_of
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.scan.kernel import CHAINED, ScanKernel, ScanSpec
from oxinp._kernels.scan.totals import FAN, Group, num_words, words_of
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.async_copy import AsyncCopies
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, pred, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.value import Value

BLOCK = 256
NUM_WARPS = BLOCK // WARP
SUM_BLOCKS = 6  # of sums of floats alone, per multiprocessor: as many as shared memory holds
COPIES = True
COPIED_NBYTES = 16  # of a unit
LEVELS_AT_ONCE, FEWER_AT_ONCE = 3, 2  # that a lane waits for, as registers hold; fewer with others behind
MAX_AHEAD_BITS = 64  # of accumulators that registers hold for all levels at once


class ScanChainedSpec(ScanSpec):
    """One kernel of the family; its loops are the kept ones, then the scanned one.

    Attributes
    ----------
    vector : int
        Elements that are loaded and stored together.
    items : int
        Elements per thread; odd, so that shared memory has no bank conflicts.
    levels : int
        Of totals: rows have at most ``FAN ** levels`` tiles.
    is_marked : bool
        Tickets and descriptors are marks.
    """

    vector: int
    items: int
    levels: int
    is_marked: bool

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return BLOCK * self.items

    @property
    def is_copied(self) -> bool:
        """Whether elements go to shared memory as they are, past registers."""
        if not COPIES or self.chain.instrs:
            return False
        (only,) = self.chain.inputs
        return only.kind == UNIT and only.type is not pred and self.vector * only.type.nbytes == COPIED_NBYTES

    @property
    def value_type(self) -> Type:
        """Type of what is scanned."""
        return value_type(self.chain, self.value)

    @property
    def is_joined(self) -> bool:
        """Whether lanes add up totals of all levels: of real sums, which may be added in any order."""
        return self.op.name == "sum" and not self.value_type.is_complex

    @property
    def min_blocks(self) -> int:
        """How many blocks the registers of a multiprocessor have to hold."""
        bits, is_alone = self.op.acc.bits, self.op.name == "sum" and not self.chain.instrs
        if bits <= 128 and is_alone and not self.value_type.is_integer:
            return SUM_BLOCKS
        return 5 if bits <= 64 else 3 if bits <= 128 else 2


def value_type(chain: Chain, number: int) -> Type:
    """Return the type of a value of a chain by its number."""
    num_inputs = len(chain.inputs) - chain.wants_index
    return chain.inputs[number].type if number < num_inputs else chain.instrs[number - num_inputs].type


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ScanChainedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    assert spec.part == CHAINED
    return ScanChained(spec).build()


class Tile(NamedTuple):
    """A tile: its row, its number in that, its first element, how many it has, the operand there, the row's result."""

    row: Value
    number: Value
    first: Value
    size: Value
    origin: Position
    target: Spot


class ScanChained(ScanKernel):
    """The kernel while it is built; before its own parameters come tickets and the descriptors of all levels."""

    name = "scan_chained"

    def __init__(self, spec: ScanChainedSpec) -> None:
        self.spec = spec
        self.k = k = Builder(self.name, block=BLOCK, min_blocks=spec.min_blocks)
        self.ticket = k.pointer("ticket", u64 if spec.is_marked else u32)
        self.descriptors = [k.pointer(f"level_{i}", u64) for i in range(spec.levels)]
        super().__init__(k, spec)
        self.scanned = spec.chain.ndim - 1
        self.length = k.scalar("length", self.type)
        self.tiles = Divisor(k, "tiles_per_row", self.type)
        self.entries = [k.scalar(f"entries_{i}", u32) for i in range(spec.levels)]  # of each level, per row
        self.kept = Splitter(k, "kept", self.scanned, self.type)
        self.elements = k.dynamic_shared(spec.value_type, spec.tile)
        result = spec.target.type
        is_in_place = result.nbytes == spec.value_type.nbytes
        self.results = self.elements.view(result) if is_in_place else k.dynamic_shared(result, spec.tile)
        self.warp_totals = k.dynamic_shared(spec.op.acc, NUM_WARPS)
        self.before = k.dynamic_shared(spec.op.acc, 1)
        self.number = k.dynamic_shared(u32, 1 + spec.is_marked)

    def build(self) -> Kernel:
        k = self.k
        tile = self.tile(self.take_ticket())
        self.start(tile)
        self.finish(tile)
        k.barrier()
        within, total = self.scan_threads()
        with k.when(k.warp == 0):
            before = self.look_back(total, k.cast(tile.row, u32), k.cast(tile.number, u32))
            with k.when(k.lane == 0):
                self.before[0] = before
        k.barrier()
        self.scan_elements(within)
        k.barrier()
        self.store(tile)
        return k.build()

    def take_ticket(self) -> Value:
        """Return the number of a block in the order in which blocks begin."""
        k = self.k
        with k.when(k.tid == 0):
            taken = self.ticket.atomic("add", 0, 1)
            if self.spec.is_marked:
                taken, launch = k.unpack(taken)
                self.number[1] = mark_of(launch)
                with k.when(taken + 1 == k.nctaid):  # all have theirs
                    self.ticket.atomic("add", 0, k.pack(k.const(0, u32), k.const(1, u32)) - k.cast(k.nctaid, u64))
            self.number[0] = taken
        k.barrier()
        return self.number[0]

    @property
    def mark(self) -> Value:
        """What published words of this launch are marked with."""
        return self.number[1] if self.spec.is_marked else self.k.const(1, u32)

    def tile(self, ticket: Value) -> Tile:
        """Return the tile of a number."""
        k, spec = self.k, self.spec
        row, number = self.tiles.divide(k.cast(ticket, self.type))
        kept = self.kept.split(row)
        first = number * spec.tile
        count = k.cast(k.min(self.length - first, spec.tile), u32)
        origin = locate(self.bound.origin(), range(self.scanned), kept).moved(self.scanned, first)
        target = self._target.spot()
        for loop, index in enumerate(kept):
            target = target.moved(loop, index)
        return Tile(row, number, first, count, origin, target)

    # -- elements

    def start(self, tile: Tile) -> None:
        """Start loading the elements of a tile to shared memory; those behind the end of the row are arbitrary."""
        origin, count = tile.origin, tile.size
        k, vector = self.k, self.spec.vector
        num_units = count / vector if vector > 1 else count
        whole = -(-self.spec.tile // (vector * BLOCK))
        last = k.max(num_units, 1) - 1
        with k.when(num_units != 0):
            units = [k.tid + i * BLOCK if i else k.tid for i in range(whole)]
            places = [origin.moved(self.scanned, k.cast(k.min(unit, last), self.type) * vector) for unit in units]
            if self.spec.is_copied:
                copies = AsyncCopies(k)
                for unit, place in zip(units, places, strict=True):
                    with k.when(unit * vector < self.spec.tile):
                        copies.start(self.elements.at(unit * vector), place.inputs[0].place, COPIED_NBYTES)
                copies.commit()
            else:
                loaded = [place.load(vector) for place in places]
                for unit, place, values in zip(units, places, loaded, strict=True):
                    with k.when(unit * vector < self.spec.tile):
                        self.elements.store(unit * vector, self.evaluated(place, values, vector))
        if vector > 1:
            with k.otherwise():  # a row that ends with less than one unit
                for i in range(self.spec.items):
                    place = origin.moved(self.scanned, k.const(0, self.type))
                    self.elements[k.tid + i * BLOCK] = self.evaluated(place, place.load(1), 1)[0]

    def finish(self, tile: Tile) -> None:
        """Wait for what has been started, and load the elements behind the last unit."""
        k, vector, origin = self.k, self.spec.vector, tile.origin
        if self.spec.is_copied:
            AsyncCopies(k).wait()
        if vector == 1:
            return
        k.barrier()
        rest = (tile.size / vector) * vector + k.tid
        with k.when(rest < tile.size):
            place = origin.moved(self.scanned, k.cast(rest, self.type))
            self.elements[rest] = self.evaluated(place, place.load(1), 1)[0]

    def evaluated(self, place: Position, loaded: list[Sequence[Value]], width: int) -> list[Value]:
        """The values that are scanned."""
        return [each[self.spec.value] for each in place.evaluate(loaded, width)]

    def store(self, tile: Tile) -> None:
        """Store the results of a tile."""
        k, vector, count = self.k, self.spec.vector, tile.size
        target = tile.target.moved(self.scanned, tile.first)
        for i in range(-(-self.spec.tile // (vector * BLOCK))):
            first = (k.tid + i * BLOCK) * vector
            with k.when(first + vector <= count):
                values = self.results.load(first, vector)
                target.moved(self.scanned, k.cast(first, self.type)).store(values)
        if vector > 1:
            rest = (count / vector) * vector + k.tid
            with k.when(rest < count):
                target.moved(self.scanned, k.cast(rest, self.type)).store([self.results[rest]])

    def accumulators(self) -> list[Value]:
        """The elements of a thread, lifted; read from shared memory as they are used."""
        k, op = self.k, self.spec.op
        own = self.elements.at(k.tid * self.spec.items)
        values = [own[i] for i in range(self.spec.items)]
        return [k.cast(value, op.acc) if op.lift is None else op.lift(k, value) for value in values]

    # -- the scan

    def scan_threads(self) -> tuple[Value, Value]:
        """Return the total of what is before a thread's elements in the tile, and the total of the tile."""
        k = self.k
        own, *others = self.accumulators()
        for value in others:
            own = self.combine(own, value)
        through = self.scan_warp(own, WARP)
        exclusive = k.where(k.lane == 0, self.identity, k.shfl_up(through, 1))
        with k.when(k.lane == WARP - 1):
            self.warp_totals[k.warp] = through
        k.barrier()
        totals = self.scan_warp(self.warp_totals[k.lane & (NUM_WARPS - 1)], NUM_WARPS)
        earlier = k.shfl_idx(totals, k.max(k.warp, 1) - 1)
        within = self.combine(k.where(k.warp == 0, self.identity, earlier), exclusive)
        return within, k.shfl_idx(totals, NUM_WARPS - 1)

    def scan_elements(self, within: Value) -> None:
        """Scan a thread's elements, given the total of those before it in the tile."""
        k = self.k
        running = self.combine(self.before[0], within)
        results = self.results.at(k.tid * self.spec.items)
        for i, value in enumerate(self.accumulators()):
            running = self.combine(running, value)
            results[i] = self.result(running)

    def scan_warp(self, value: Value, width: int) -> Value:
        """Return the inclusive scan over the first lanes of a warp."""
        k, distance = self.k, 1
        while distance < width:
            joined = self.combine(k.shfl_up(value, distance), value)
            value = k.where(k.lane >= distance, joined, value)
            distance *= 2
        return value

    def look_back(self, total: Value, row: Value, tile: Value) -> Value:
        """Publish the total of a tile, by a warp; return the total of the tiles before it in its row."""
        k = self.k
        with k.when(k.lane == 0):
            self.publish(0, row * self.entries[0] + tile, total)
        if not self.spec.is_joined or not 1 < len(self.entries) <= LEVELS_AT_ONCE:
            return self.by_levels(total, row, tile)
        found = k.var(self.identity)
        with k.when((tile & (FAN - 1)) == FAN - 1):
            found.set(self.by_levels(total, row, tile))
        with k.otherwise():
            found.set(self.by_lanes(row, tile))
        return found.get()

    def by_lanes(self, row: Value, tile: Value) -> Value:
        """The sum of the tiles before one: lanes add up what they see of all levels, then the warp adds up lanes."""
        k, levels = self.k, list(range(len(self.entries)))
        value: Value | None = None
        at_once = FEWER_AT_ONCE if len(levels) > LEVELS_AT_ONCE else LEVELS_AT_ONCE
        while levels:  # the highest first, which have been there for the longest time
            first = (len(levels) - 1) // at_once * at_once
            groups = [Group(self, level, row, tile) for level in levels[first:]]
            del levels[first:]
            with k.loop():
                for group in groups:
                    group.look()
                is_ready = groups[0].is_ready
                for group in groups[1:]:
                    is_ready = is_ready & group.is_ready
                k.break_if(is_ready)
            k.warp_sync()
            for group in reversed(groups):
                value = group.value if value is None else self.combine(value, group.value)
        assert value is not None
        return self.joined(value)

    def by_levels(self, total: Value, row: Value, tile: Value) -> Value:
        """The total of the tiles before one, level by level; the last tile of a group publishes the group's."""
        k, levels = self.k, range(len(self.entries))
        before: Value | None = None
        closes: Value | None = None
        is_ahead = self.spec.op.acc.bits <= MAX_AHEAD_BITS
        groups = {level: Group(self, level, row, tile) for level in levels if is_ahead or not level}
        for group in groups.values():  # all loads are under way before the first is waited for
            group.look()
        for level in levels:
            group = groups[level] if level in groups else Group(self, level, row, tile)
            if closes is not None:
                with k.when(closes & (k.lane == 0)):
                    self.publish(level, group.own, total)
            found = group.joined()
            total = self.combine(found, total)
            is_last = group.count == FAN - 1
            closes = is_last if closes is None else closes & is_last
            before = found if before is None else self.combine(found, before)
        assert before is not None
        return before

    def joined(self, value: Value) -> Value:
        """Combine the values of a warp's lanes; every lane gets the result."""
        k, distance = self.k, 1
        while distance < FAN:  # neighbours first: lane 0 has all of them at the end
            value = self.combine(value, k.shfl_down(value, distance))
            distance *= 2
        return k.shfl_idx(value, 0)

    def publish(self, level: int, entry: Value, value: Value) -> None:
        """Store an accumulator for other blocks."""
        k, place = self.k, self.descriptors[level].at(entry * num_words(value.type))
        for i, word in enumerate(words_of(k, value)):
            place.store(i, [k.pack(word, self.mark)], order="relaxed.gpu")


__all__ = ["BLOCK", "NUM_WARPS", "ScanChained", "ScanChainedSpec", "Tile", "make", "value_type"]
