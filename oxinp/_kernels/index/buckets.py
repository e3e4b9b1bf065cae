"""Updates by index grouped by bucket, tile by tile: a bucket is a power of two of neighbouring elements of the array.

Data layout: an index and maybe a value per update. Afterwards every tile of updates holds, side by side, those of its
first bucket, of its second one, and so on: a word of 16 bits, the element in the bucket, and the value;
``starts[bucket, tile]`` is where a bucket begins in a tile, ``totals[bucket]`` how many updates it has in all tiles.
Within a bucket of a tile updates have no order. Who owns what: a block a tile. Algorithm: an atomic counter per
bucket, in shared memory, gives each update its number in the bucket; from sums over the counters follow places in
shared memory, from which the tile is written as it lies. Blocks do not wait for each other, and how updates spread over
buckets does not matter. Bytes per update: index and value once, 2 bytes and value once.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.index.grouping import BLOCK
from oxinp._kernels.index.merging import MergingGroups
from oxinp._kernels.plan import Argument, Fill, Launch, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u16, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

ITEMS, FEWER_ITEMS = 16, 12  # of a thread; as many as registers hold
TILE = BLOCK * ITEMS
MERGES = False  # updates by f32 values that come in order: a warp adds up runs of equal indices before it groups them
VALUES_NBYTES = 64  # of a thread, loaded before the first is stored
WORD_NBYTES = 16  # of a tile, that a thread copies at a time
FEW, MANY = 256, 512  # buckets that kernels have counters for, at most one per thread
EXTREMES_NBYTES = 3 * u32.nbytes
MAX_SHIFT = 16
MAX_COUNT = (1 << 31) - TILE


class BucketsSpec(Frozen):
    """The kernel that groups updates.

    Attributes
    ----------
    index_type : Type
    value : Type or None
        Of values, as bits of 4 or 8 bytes; None where there is one for all.
    room : int
        Counters.
    items : int
        Updates of a thread.
    has_extremes : bool
        Values are floats, whose largest and smallest codes are wanted, see `exponents`.
    is_merged : bool
        Runs of equal indices are added up first, see `merging`; values are f32.
    """

    index_type: Type
    value: Type | None
    room: int
    items: int
    has_extremes: bool = False
    is_merged: bool = False

    @property
    def tile(self) -> int:
        """Updates of a tile."""
        return BLOCK * self.items


class Buckets(NamedTuple):
    """Updates grouped by bucket.

    Attributes
    ----------
    steps : list of Step
    shift : int
        Elements of a bucket, as a power of two.
    number, num_tiles, tile : int
        Of buckets and tiles, and updates of a tile.
    flag : Argument
        Of a word that is not 0 where an index is out of bounds.
    keys, values, starts, totals : Argument
        Elements in buckets, u16; values; u16 ``(number + 1, num_tiles)``; u32 ``(number,)``.
    extremes : Argument
        If they are wanted, u32: the largest code of a value, and how far below `exponents.special` the smallest one is
        of a finite number but zero, 0 where there is none; in any case a word for whoever comes next, 0.
    is_merged : bool
        Values may be sums of several, and parts of such sums: multiples of what the smallest value is a multiple of.
    """

    steps: list[Step]
    shift: int
    number: int
    num_tiles: int
    tile: int
    flag: Argument
    keys: Argument
    values: Argument
    starts: Argument
    totals: Argument
    extremes: Argument
    is_merged: bool


def shift_of(extent: int, most: int) -> int | None:
    """Return the elements of a bucket, as a power of two up to `most`; None where there would be too many buckets."""
    bits = max(1, (extent - 1).bit_length())
    for room in (FEW, MANY):
        shift = max(0, bits - (room - 1).bit_length())
        if shift <= min(most, MAX_SHIFT):
            return shift
    return None


def spec_of(number: int, index_type: Type, value: Type | None, *, has_extremes: bool) -> BucketsSpec:
    """Return the Spec for a number of buckets."""
    is_merged = MERGES and has_extremes and value is u32
    items = FEWER_ITEMS if is_merged or (has_extremes and number > FEW) else ITEMS
    return BucketsSpec(index_type, value, FEW if number <= FEW else MANY, items, has_extremes, is_merged)


def group(
    count: int, extent: int, shift: int, index_type: Type, value: Type | None, scratch: Scratch, items: int = 0,
    *, has_extremes: bool = False,
) -> Buckets:  # fmt: skip
    """Return updates grouped by bucket; the inputs are index, values, and the address for a report.

    Parameters
    ----------
    count, extent : int
        Updates, elements.
    shift : int
        Elements of a bucket, as a power of two.
    index_type : Type
    value : Type or None
        Of values, as bits.
    scratch : Scratch
    items : int, optional
        Updates of a thread.
    has_extremes : bool
        See `BucketsSpec`.
    """
    number = -(-extent // (1 << shift))
    spec = spec_of(number, index_type, value, has_extremes=has_extremes)
    spec = spec.replace(items=items) if items else spec
    num_tiles, tile = -(-count // spec.tile), spec.tile
    totals = scratch.take(number * u32.nbytes)
    flag, extremes = scratch.take(u32.nbytes), scratch.take(EXTREMES_NBYTES)
    zeros = Fill(totals, extremes.offset + EXTREMES_NBYTES - totals.offset, 0)
    keys = scratch.take((num_tiles * tile + 1) * u16.nbytes)  # whoever reads a run that is empty reads what follows
    values = scratch.take(0 if value is None else (num_tiles * tile + 1) * value.nbytes)
    starts = scratch.take((number + 1) * num_tiles * u16.nbytes)
    given = () if value is None else (values, Argument("in1"))
    nbytes = index_type.nbytes + u16.nbytes + (0 if value is None else 2 * value.nbytes)
    launch = Launch(
        make(spec),
        (num_tiles, 1, 1),
        (flag, keys, starts, totals, *((extremes,) if has_extremes else ()), Argument("in0"), Argument("in2"), *given),
        (count, extent, shift, number),
        Work(nbytes=count * nbytes),
    )
    grouped = (flag, keys, values, starts, totals, extremes)
    return Buckets([zeros, launch], shift, number, num_tiles, tile, *grouped, is_merged=spec.is_merged)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BucketsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Buckets(spec).build()


class _Buckets(MergingGroups):
    """The kernel while it is built."""

    def __init__(self, spec: BucketsSpec) -> None:
        self.spec = spec
        self.k = k = Builder("group_by_bucket", block=BLOCK, min_blocks=2)
        self.flag, self.keys = k.pointer("flag", u32), k.pointer("keys", u16, "w")
        self.starts, self.totals = k.pointer("starts", u16, "w"), k.pointer("totals", u32)
        if spec.has_extremes:
            self.extremes = k.pointer("extremes", u32)
            self.own_extremes = k.shared(u32, 2)
        self.index, self.status = k.pointer("index", spec.index_type, "r"), k.scalar("status", u64)
        self.values: Any = None
        if spec.value is not None:
            self.grouped = k.pointer("grouped", spec.value, "w")
            self.values = k.pointer("values", spec.value, "r")
        self.count, self.extent = k.scalar("count", i64), k.scalar("extent", i64)
        self.shift, self.number = k.scalar("shift", u32), k.scalar("num_buckets", u32)
        self.own_keys = k.dynamic_shared(u16, spec.tile)
        self.own_values: Any = None if spec.value is None else k.dynamic_shared(spec.value, spec.tile)
        self.counters = k.dynamic_shared(u32, spec.room + 1)  # the last one is of what is behind the end
        self.warp_totals = k.shared(u32, WARP)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        with k.range(k.tid, spec.room + 1, BLOCK) as counter:
            self.counters[counter] = 0
        if spec.has_extremes:
            with k.when(k.tid < 2):
                self.own_extremes[k.tid] = 0
        k.barrier()
        begin = k.cast(k.ctaid, i64) * spec.tile
        size = k.cast(k.min(self.count - begin, spec.tile), u32)
        raw = self.loaded(self.index.at(begin), range(spec.items), size)
        places = self.places(raw, size)
        if spec.is_merged:
            self.extremes_here = [k.var(0, u32), k.var(0, u32)]
            self.merge(places, self.values.at(begin), size)
        ranks = self.ranks_of_merged(places) if spec.is_merged else self.ranks(places)
        k.barrier()
        self.sum_up()
        k.barrier()
        mask = k.shl(k.const(1, u32), self.shift) - 1
        at_once = VALUES_NBYTES // (u32 if spec.value is None else spec.value).nbytes
        for first in range(0, spec.items, at_once):
            here = range(first, min(first + at_once, spec.items))
            loaded = [None] * len(here) if self.values is None else self.values_of(self.values.at(begin), here, size)
            for i, value in zip(here, loaded, strict=True):
                rank = ranks[i // 2] >> 16 if i % 2 else ranks[i // 2] & 0xFFFF
                with k.when(self.has_update(i, places[i])) if spec.is_merged else nullcontext():
                    at = self.counters[k.shr(places[i], self.shift)] + rank
                    self.own_keys[at] = k.cast(places[i] & mask, u16)
                    if value is not None:
                        self.own_values[at] = value
        if spec.is_merged:
            self.end = self.counters[self.number]
            behind = self.end + k.tid
            with k.when((k.tid < WORD_NBYTES // u16.nbytes) & (behind < spec.tile)):  # the rest of what is copied
                self.own_keys[behind], self.own_values[behind] = 0, 0
        k.barrier()
        self.copy(self.own_keys, self.keys.at(begin))
        if self.own_values is not None:
            extremes = self.copy(self.own_values, self.grouped.at(begin))
            if spec.is_merged:
                extremes = [each.get() for each in self.extremes_here]
            if spec.has_extremes:
                self.tell_extremes(extremes)
        return k.build()

    def copy(self, source: Any, target: Any) -> list[Value]:
        """Write a tile as it lies in shared memory; return the extremes of what a thread has, if they are wanted."""
        k, spec = self.k, self.spec
        num_words = spec.tile * source.type.nbytes // WORD_NBYTES
        width = WORD_NBYTES // u32.nbytes
        words, goal = source.view(u32), target.view(u32)
        extremes = [k.const(0, u32), k.const(0, u32)]
        for i in range(-(-num_words // BLOCK)):
            word = k.tid + i * BLOCK if i else k.tid
            if spec.is_merged:
                with k.when((word < num_words) & (word * (WORD_NBYTES // source.type.nbytes) < self.end)):
                    goal.store(word * width, words.load(word * width, width))
                continue
            copied = words.load(k.min(word, num_words - 1) * width, width)
            with k.when(word < num_words):
                goal.store(word * width, copied)
            if spec.has_extremes and source is self.own_values:
                extremes = self.wider(extremes, copied)
        return extremes

    def tell_extremes(self, extremes: list[Value]) -> None:
        """Join the extremes of a block's values with those of others."""
        k = self.k
        found = [k.redux("max", extreme) for extreme in extremes]
        with k.when(k.lane == 0):
            for i, extreme in enumerate(found):
                self.own_extremes.atomic("max", i, extreme, order="relaxed.cta")
        k.barrier()
        with k.when(k.tid < len(found)):
            self.extremes.atomic("max", k.tid, self.own_extremes[k.tid])


__all__ = ["Buckets", "BucketsSpec", "group", "make", "shift_of", "spec_of"]
