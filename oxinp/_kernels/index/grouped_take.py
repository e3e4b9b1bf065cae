"""Elements by many indices of a vector that no cache holds: ``result[j] = array[index[j]]``, grouped by region first.

A random read from memory costs as much as 8 or more that are side by side. Data layout: indices are grouped by bucket,
tile by tile, see `buckets`: a word of 32 bits has the element in its bucket and, below, the place in the tile. Who owns
what: a block of `GROUP` and of `RETURN` a tile; one of `READ` a bucket's runs in a range of tiles, so that blocks that
run at the same time read a few buckets, which the L2 cache holds. Algorithm: `GROUP` makes the words, `READ` puts an
element in the place of each, `RETURN` brings the elements of a tile into order in shared memory. Where the indices of
a tile name neighbouring elements, or few buckets, `GROUP` reads these at once, and the others have nothing to do. An
index that is out of bounds is taken for 0 and reported. Bytes per index: its own, three words and elements; the array.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.index.bucket_sums import BLOCK as READ_BLOCK
from oxinp._kernels.index.bucket_sums import Runs
from oxinp._kernels.index.buckets import BLOCK, FEW, MANY, Grouping
from oxinp._kernels.plan import Argument, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u16, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

GROUP, READ, RETURN = "group", "read", "return"
ITEMS = 16  # of a thread
PLACE_BITS = 13  # of a place in a tile
MAX_SHIFT = 32 - PLACE_BITS
NBYTES = (4, 8)  # of elements
MIN_COUNT = 1 << 22
MIN_ARRAY_NBYTES = 1 << 27
ELEMENTS_EACH = 4  # per index, up to which it pays
MIN_BUCKETS = 32  # that indices of a tile name, above which they are grouped
NEAR_BITS = 3  # elements that are read together, as a power of two
AT_ONCE = 8
TILES_EACH = 64  # of a block of `READ`: with more, blocks that run at a time read more than the L2 cache holds


class GroupedTakeSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    part : str
        One of the constants above.
    type, index_type : Type
        Of elements, as bits, and of indices.
    room : int
        Buckets that there are counters for.
    items : int
        Of a thread that groups.
    """

    part: str
    type: Type
    index_type: Type
    room: int
    items: int

    @property
    def tile(self) -> int:
        """Indices of a tile."""
        return BLOCK * self.items


def shift_of(count: int, extent: int, nbytes: int) -> int | None:
    """Return the elements of a bucket, as a power of two; None where indices are not grouped."""
    is_large = extent * nbytes >= MIN_ARRAY_NBYTES and count >= MIN_COUNT and extent <= ELEMENTS_EACH * count
    if not is_large or nbytes not in NBYTES or count >= 1 << 31:
        return None
    for room in (FEW, MANY):
        shift = (extent - 1).bit_length() - (room - 1).bit_length()
        if shift <= MAX_SHIFT:
            return max(0, shift)
    return None


def take(
    count: int, extent: int, stride: int, shift: int, type_: Type, index_type: Type, *, items: int = ITEMS,
    tiles_each: int = 0,
) -> Plan:  # fmt: skip
    """Return the plan of ``result[j] = array[index[j]]``; the inputs are array, index and the address for a report.

    Parameters
    ----------
    count : int
        Of indices.
    extent, stride : int
        Of the array.
    shift : int
        See `shift_of`.
    type_, index_type : Type
    items : int, optional
        Indices that a thread groups; a tile has at most ``2 ** PLACE_BITS``.
    tiles_each : int, optional
        Of a block of `READ`.
    """
    scratch, own = Scratch(), carrier(type_)
    number = -(-extent // (1 << shift))
    spec = GroupedTakeSpec(GROUP, own, index_type, FEW if number <= FEW else MANY, items)
    num_tiles = -(-count // spec.tile)
    words = scratch.take((num_tiles * spec.tile + 1) * u32.nbytes)  # whoever reads an empty run reads what follows
    found = scratch.take((num_tiles * spec.tile + 1) * own.nbytes)
    starts = scratch.take((number + 1) * num_tiles * u16.nbytes)
    out, array, index, status = Argument("out0"), Argument("in0"), Argument("in1"), Argument("in2")
    parts = -(-num_tiles // (tiles_each or TILES_EACH))
    steps = [
        Launch(
            make(spec), (num_tiles, 1, 1), (words, starts, out, array, index, status),
            (count, extent, stride, shift, number), Work(nbytes=count * (index_type.nbytes + u32.nbytes)),
        ),
        Launch(
            make(spec.replace(part=READ)), (number * parts, 1, 1), (words, found, starts, array),
            (stride, shift, num_tiles, parts), Work(nbytes=count * (u32.nbytes + own.nbytes) + extent * own.nbytes),
        ),
        Launch(
            make(spec.replace(part=RETURN)), (num_tiles, 1, 1), (words, found, starts, out),
            (number,), Work(nbytes=count * (u32.nbytes + 2 * own.nbytes)),
        ),
    ]  # fmt: skip
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: GroupedTakeSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return {GROUP: lambda: _Group(spec).build(), READ: lambda: _read(spec), RETURN: lambda: _return(spec)}[spec.part]()


class _Group(Grouping):
    """The kernel that groups indices, while it is built."""

    def __init__(self, spec: GroupedTakeSpec) -> None:
        self.spec = spec
        self.k = k = Builder("take_group", block=BLOCK, min_blocks=2)
        self.words, self.starts = k.pointer("words", u32, "w"), k.pointer("starts", u16, "w")
        self.out, self.array = k.pointer("out", spec.type, "w"), k.pointer("array", spec.type, "r")
        self.index, self.status = k.pointer("index", spec.index_type, "r"), k.scalar("status", u64)
        self.count, self.extent = k.scalar("count", i64), k.scalar("extent", i64)
        self.stride = k.scalar("stride", i64)
        self.shift, self.number = k.scalar("shift", u32), k.scalar("num_buckets", u32)
        self.own_words = k.dynamic_shared(u32, spec.tile)
        self.counters = k.dynamic_shared(u32, spec.room + 1)  # the last one is of what is behind the end
        self.warp_totals, self.seen = k.shared(u32, WARP), k.shared(u32, 2)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        with k.range(k.tid, spec.room + 1, BLOCK) as counter:
            self.counters[counter] = 0
        with k.when(k.tid < 2):
            self.seen[k.tid] = 0
        k.barrier()
        begin = k.cast(k.ctaid, i64) * spec.tile
        size = k.cast(k.min(self.count - begin, spec.tile), u32)
        places = self.places(self.loaded(self.index.at(begin), range(spec.items), size), size)
        ranks = self.ranks(places)
        self.look(places)
        k.barrier()
        self.count_buckets()
        k.barrier()
        num_near, num_buckets = self.seen[0], self.seen[1]
        with k.when((num_near * 2 > spec.tile) | (num_buckets <= MIN_BUCKETS)):
            self.read(places, begin, size)
        with k.otherwise():
            self.sum_up(size)
            k.barrier()
            mask = k.shl(k.const(1, u32), self.shift) - 1
            for i, place in enumerate(places):
                rank = ranks[i // 2] >> 16 if i % 2 else ranks[i // 2] & 0xFFFF
                at = self.counters[k.shr(place, self.shift)] + rank
                self.own_words[at] = (place & mask) << PLACE_BITS | (k.tid + i * BLOCK)
            k.barrier()
            goal = self.words.at(begin)
            for i in range(spec.items // 4):
                word = (k.tid + i * BLOCK) * 4
                goal.store(word, self.own_words.load(word, 4))
        return k.build()

    def look(self, places: list[Value]) -> None:
        """Count the indices that name an element next to that of the lane after it."""
        k = self.k
        total = k.const(0, u32)
        for place in places:
            is_near = k.shr(place, k.const(NEAR_BITS, u32)) == k.shr(k.shfl_down(place, 1), k.const(NEAR_BITS, u32))
            total = total + k.popc(k.ballot(is_near & (k.lane < WARP - 1)))
        with k.when(k.lane == 0):
            self.seen.atomic("add", 0, total, order="relaxed.cta")

    def count_buckets(self) -> None:
        """Count the buckets that indices of the tile name."""
        k = self.k
        number = k.const(0, u32)
        for first in range(0, self.spec.room, BLOCK):
            at = k.tid + first
            has_any = (at < self.spec.room) & (self.counters[k.min(at, self.spec.room - 1)] != 0)
            number = number + k.popc(k.ballot(has_any))
        with k.when(k.lane == 0):
            self.seen.atomic("add", 1, number, order="relaxed.cta")

    def read(self, places: list[Value], begin: Value, size: Value) -> None:
        """Read the elements at once, and leave nothing to do."""
        k = self.k
        tiles = k.cast(k.nctaid, i64)
        mine = self.starts.at(k.cast(k.ctaid, i64))
        with k.range(k.tid, self.number + 1, BLOCK) as bucket:
            mine[k.cast(bucket, i64) * tiles] = k.const(0, u16)
        last = k.cast(self.extent, u32) - 1
        values = [self.array[k.cast(k.min(place, last), i64) * self.stride] for place in places]
        own = self.out.at(begin)
        for i, value in enumerate(values):
            with k.when(k.tid + i * BLOCK < size):
                own[k.tid + i * BLOCK] = value


def _read(spec: GroupedTakeSpec) -> Kernel:
    k = Builder("take_read", block=READ_BLOCK, min_blocks=3 if spec.type.nbytes == u32.nbytes else 2)
    words, found = k.pointer("words", u32, "r"), k.pointer("found", spec.type, "w")
    starts, array = k.pointer("starts", u16, "r"), k.pointer("array", spec.type, "r")
    stride, shift = k.scalar("stride", i64), k.scalar("shift", u32)
    num_tiles, parts = k.scalar("num_tiles", u32), k.scalar("parts", u32)
    block = k.cast(k.ctaid, u32)
    bucket = block / parts
    part = block - bucket * parts
    own = array.at(k.shl(k.cast(bucket, i64), shift) * stride)
    # The product fits: there are at most 2^18 tiles of up to 2^31 indices, and 2^12 parts.
    first, last = num_tiles * part / parts, num_tiles * (part + 1) / parts

    def use(there: list[Value], are_indices: list[Value]) -> None:
        given = [words[place] for place in there]
        values = [own[k.cast(word >> PLACE_BITS, i64) * stride] for word in given]
        for place, is_index, value in zip(there, are_indices, values, strict=True):
            with k.when(is_index):
                found[place] = value

    Runs(k, starts, num_tiles, spec.tile, AT_ONCE).go_through(bucket, first, last, use)
    return k.build()


def _return(spec: GroupedTakeSpec) -> Kernel:
    k = Builder("take_return", block=BLOCK)
    words, found = k.pointer("words", u32, "r"), k.pointer("found", spec.type, "r")
    starts, out = k.pointer("starts", u16, "r"), k.pointer("out", spec.type, "w")
    number = k.scalar("num_buckets", u32)
    own = k.dynamic_shared(spec.type, spec.tile)
    begin = k.cast(k.ctaid, i64) * spec.tile
    ends = starts.at(k.cast(number, i64) * k.cast(k.nctaid, i64))
    size = k.cast(ends[k.cast(k.ctaid, i64)], u32)  # nothing where elements have been read at once
    width, places = 16 // spec.type.nbytes, (1 << PLACE_BITS) - 1
    words, found, goal = words.at(begin), found.at(begin), out.at(begin)
    with k.when(size == spec.tile):
        firsts = [(k.tid + i * BLOCK) * width for i in range(spec.items // width)]
        loaded = [(words.load(first, width), found.load(first, width)) for first in firsts]
        for given, values in loaded:
            for word, value in zip(given, values, strict=True):
                own[word & places] = value
        k.barrier()
        for first in firsts:
            goal.store(first, own.load(first, width))
    with k.otherwise(), k.range(k.tid, size, BLOCK) as at:
        goal[words[at] & places] = found[at]
    return k.build()


__all__ = ["GroupedTakeSpec", "make", "shift_of", "take"]
