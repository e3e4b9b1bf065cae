"""Partitions of long rows: what is less than the element of a rank, then its equals, then what is greater.

Data layout: rows of elements, one after the other, cut into tiles of ``BLOCK * ITEMS``, which blocks take in order; the
key of a row's rank, found by `select`. Who owns what: a block a tile, a warp consecutive elements of it, 32 at a time.
Algorithm: lanes vote on which side their elements are, warps add up; one warp walks back, 32 tiles at a time, over the
counts that the tiles before have published until one says what all before it come to, and publishes its own. Lesser
elements go to the front and keep their order, greater ones to the end, in reverse; so it need not be known how many
equals there are. Bytes per element: the element, once per digit, then twice, or itself and its place.

A published word has its state in the two highest bits and two counts of 31, so that words are seen whole without
fences. Descriptors and tickets are zeros before the launch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._kernels.sort.select import key_of, search
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

BLOCK = 256
ITEMS = 8
TILE = BLOCK * ITEMS
MAX_LENGTH = (1 << 31) - 1

COUNT_BITS = 31
COUNT_MASK = (1 << COUNT_BITS) - 1
SUM, TOTAL = 1 << 62, 2 << 62  # states: counts of a tile, of it and all before


class PartitionSpec(Frozen):
    """The kernel that moves elements.

    Attributes
    ----------
    type : Type
        Of elements, real.
    gives_places : bool
        The result are places in rows, i64.
    """

    type: Type
    gives_places: bool


def partition(num_rows: int, length: int, rank: int, type_: Type, device: Device) -> Plan:
    """Return the plan that partitions every row by the element of a rank; the input is the array.

    Parameters
    ----------
    num_rows, length : int
        At least 1 each, at most `select.MAX_ROWS` and `MAX_LENGTH`.
    rank : int
        From 0 to ``length - 1``.
    type_ : Type
        Real.
    device : Device
    """
    return _plan(num_rows, length, rank, type_, device, gives_places=False)


def argpartition(num_rows: int, length: int, rank: int, type_: Type, device: Device) -> Plan:
    """Return the plan that finds where the elements of partitioned rows are, i64; see `partition`."""
    return _plan(num_rows, length, rank, type_, device, gives_places=True)


def _plan(num_rows: int, length: int, rank: int, type_: Type, device: Device, *, gives_places: bool) -> Plan:
    scratch = Scratch()
    found = search(num_rows, length, (rank,), type_, device, scratch)
    tiles_per_row = -(-length // TILE)
    num_tiles = num_rows * tiles_per_row
    descriptors = scratch.take((num_tiles + 1) * u64.nbytes)
    spec = PartitionSpec(type_, gives_places)
    work = Work(nbytes=num_rows * length * (type_.nbytes + (i64 if gives_places else type_).nbytes))
    arguments = (Argument("out0"), Argument("in0"), found.state, descriptors)
    steps = [
        *found.steps,
        Fill(descriptors, (num_tiles + 1) * u64.nbytes, 0),
        Launch(make(spec), (num_tiles, 1, 1), arguments, (length, tiles_per_row, rank), work),
    ]
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: PartitionSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Partition(spec).build()


class _Partition:
    """The kernel while it is built; the first descriptor is the ticket."""

    def __init__(self, spec: PartitionSpec) -> None:
        self.spec = spec
        is_wide = spec.gives_places or spec.type.nbytes == u64.nbytes
        self.k = k = Builder("partition", block=BLOCK, min_blocks=2 if is_wide else 3)
        bits = carrier(spec.type)
        self.out = k.pointer("out", i64 if spec.gives_places else bits, "w")
        self.elements, self.state = k.pointer("elements", bits, "r"), k.pointer("state", u64, "r")
        self.descriptors = k.pointer("descriptors", u64)
        self.length, self.tiles_per_row = k.scalar("length", u32), k.scalar("tiles_per_row", u32)
        self.rank = k.scalar("rank", u32)
        self.totals = k.shared(u32, (2, BLOCK // WARP))
        self.shared, self.ticket = k.shared(u64, 1), k.shared(u32, 1)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        with k.when(k.tid == 0):
            self.ticket[0] = self.descriptors.view(u32).atomic("add", 0, 1)
        k.barrier()
        tile = self.ticket[0]
        row = tile / self.tiles_per_row
        tile_in_row = tile - row * self.tiles_per_row
        begin = tile_in_row * TILE
        origin = k.cast(row, i64) * k.cast(self.length, i64)
        pivot, num_equal = self.state[row * 2], self.state[row * 2 + 1]
        num_less = self.rank - k.cast(num_equal, u32)

        lane = begin + k.warp * (WARP * ITEMS) + k.lane
        places = [lane + i * WARP if i else lane for i in range(ITEMS)]
        source, result = self.elements.at(origin), self.out.at(origin)
        elements = [source[k.min(place, self.length - 1)] for place in places]
        keys = [key_of(k, element, spec.type) for element in elements]
        wanted = k.cast(pivot, keys[0].type)
        exist = [place < self.length for place in places]
        less = [k.ballot(there & (key < wanted)) for key, there in zip(keys, exist, strict=True)]
        greater = [k.ballot(there & (key > wanted)) for key, there in zip(keys, exist, strict=True)]
        of_less, of_greater = self.count(0, less), self.count(1, greater)
        k.barrier()
        with k.when(k.warp == 0):
            totals = [self.sum_of(which, None) for which in range(2)]
            found = self.look_back(tile, tile_in_row, self.packed(*totals))
            with k.when(k.lane == 0):
                self.shared[0] = found
        k.barrier()
        counts = self.shared[0]
        num_less_before = self.less_in(counts) + self.sum_of(0, k.warp)
        num_greater_before = self.greater_in(counts) + self.sum_of(1, k.warp)
        lower = (k.const(1, u32) << k.lane) - 1
        for i, place in enumerate(places):
            number_less = num_less_before + of_less[i] + k.popc(less[i] & lower)
            number_greater = num_greater_before + of_greater[i] + k.popc(greater[i] & lower)
            to = num_less + (place - number_less - number_greater)
            to = k.where(keys[i] > wanted, self.length - 1 - number_greater, to)
            to = k.where(keys[i] < wanted, number_less, to)
            with k.when(exist[i]):
                result[k.cast(to, i64)] = k.cast(place, i64) if spec.gives_places else elements[i]
        return k.build()

    def count(self, which: int, votes: list[Value]) -> list[Value]:
        """Leave a warp's sum of votes; return how many are before each."""
        k, total = self.k, self.k.const(0, u32)
        before = []
        for vote in votes:
            before.append(total)
            total = total + k.popc(vote)
        with k.when(k.lane == 0):
            self.totals[which, k.warp] = total
        return before

    def sum_of(self, which: int, end: Value | None) -> Value:
        """The sum of what the warps before one have left; of all without one."""
        k, total = self.k, self.k.const(0, u32)
        for w in range(BLOCK // WARP):
            found = self.totals[which, w]
            total = total + (found if end is None else k.where(end > w, found, k.const(0, u32)))
        return total

    def packed(self, less: Value, greater: Value) -> Value:
        """Two counts as one word."""
        k = self.k
        return k.cast(less, u64) | k.shl(k.cast(greater, u64), COUNT_BITS)

    def less_in(self, word: Value) -> Value:
        """The first count of a word."""
        return self.k.cast(word & COUNT_MASK, u32)

    def greater_in(self, word: Value) -> Value:
        """The second count of a word."""
        return self.k.cast(self.k.shr(word, COUNT_BITS) & COUNT_MASK, u32)

    def look_back(self, tile: Value, tile_in_row: Value, own: Value) -> Value:
        """Publish a tile's counts, find those of all tiles of the row before it, and publish their sum: by a warp."""
        k = self.k
        descriptors = self.descriptors.at(1)
        before = k.var(0, u64)
        with k.when(tile_in_row != 0):
            with k.when(k.lane == 0):
                descriptors.store(tile, [own | SUM], order="relaxed.gpu")
            first = tile - tile_in_row
            at = k.var(tile - 1)
            with k.loop():
                place = k.max(at.get(), first + k.lane) - k.lane
                (word,) = descriptors.load(place, 1, order="relaxed.gpu")
                num_ready = self.trailing_zeros(~k.ballot(word >= SUM))
                nearest = self.trailing_zeros(k.ballot(word >= TOTAL))
                is_done = nearest < num_ready
                taken = k.min(nearest + 1, num_ready)
                part, distance = k.where(k.lane < taken, word & (SUM - 1), k.const(0, u64)), WARP // 2
                while distance:
                    part = part + k.shfl_bfly(part, distance)
                    distance //= 2
                before.set(before + part)
                at.set(at - taken)
                k.break_if(is_done)
        with k.when(k.lane == 0):
            descriptors.store(tile, [(before + own) | TOTAL], order="relaxed.gpu")
        return before.get()

    def trailing_zeros(self, mask: Value) -> Value:
        """How many lanes go before the first one of a mask."""
        count: Value = self.k.popc(~mask & (mask - 1))
        return count


__all__ = ["MAX_LENGTH", "PartitionSpec", "argpartition", "make", "partition"]
