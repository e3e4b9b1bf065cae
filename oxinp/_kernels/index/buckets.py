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

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.index.exponents import SMALLEST, code_of, special
from oxinp._kernels.index.loops import report, resolve
from oxinp._kernels.plan import Argument, Fill, Launch, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u16, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK = 512
ITEMS, FEWER_ITEMS = 16, 12  # of a thread; as many as registers hold
TILE = BLOCK * ITEMS
VALUES_NBYTES = 64  # of a thread, loaded before the first is stored
WORD_NBYTES = 16  # of a tile, that a thread copies at a time
FEW, MANY = 256, 512  # buckets that kernels have counters for, at most one per thread
EXTREMES_NBYTES = 3 * u32.nbytes
STATUS = Argument("in2")
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
    wraps : bool
        Negative indices count from the end; else they are out of bounds.
    """

    index_type: Type
    value: Type | None
    room: int
    items: int
    has_extremes: bool = False
    wraps: bool = True

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
    items = FEWER_ITEMS if has_extremes and number > FEW else ITEMS
    return BucketsSpec(index_type, value, FEW if number <= FEW else MANY, items, has_extremes)


def group(
    count: int, extent: int, shift: int, index_type: Type, value: Type | None, scratch: Scratch, items: int = 0,
    *, has_extremes: bool = False, zeros: Argument | None = None, wraps: bool = True, status: Argument = STATUS,
) -> Buckets:  # fmt: skip
    """Return updates grouped by bucket; the inputs are index, values, and as a rule the address for a report.

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
    zeros : Argument, optional
        What was taken of `scratch` last and is to be zeros, too.
    wraps : bool
        See `BucketsSpec`.
    status : Argument
        The address for a report.
    """
    number = -(-extent // (1 << shift))
    spec = spec_of(number, index_type, value, has_extremes=has_extremes)
    spec = spec.replace(items=items or spec.items, wraps=wraps)
    num_tiles, tile = -(-count // spec.tile), spec.tile
    totals = scratch.take(number * u32.nbytes)
    flag, extremes = scratch.take(u32.nbytes), scratch.take(EXTREMES_NBYTES)
    first = totals if zeros is None else zeros
    fill = Fill(first, extremes.offset + EXTREMES_NBYTES - first.offset, 0)
    keys = scratch.take((num_tiles * tile + 1) * u16.nbytes)  # whoever reads a run that is empty reads what follows
    values = scratch.take(0 if value is None else (num_tiles * tile + 1) * value.nbytes)
    starts = scratch.take((number + 1) * num_tiles * u16.nbytes)
    given = () if value is None else (values, Argument("in1"))
    nbytes = index_type.nbytes + u16.nbytes + (0 if value is None else 2 * value.nbytes)
    launch = Launch(
        make(spec),
        (num_tiles, 1, 1),
        (flag, keys, starts, totals, *((extremes,) if has_extremes else ()), Argument("in0"), status, *given),
        (count, extent, shift, number),
        Work(nbytes=count * nbytes),
    )
    return Buckets([fill, launch], shift, number, num_tiles, tile, flag, keys, values, starts, totals, extremes)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BucketsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Buckets(spec).build()


class Grouping:
    """What kernels that group by bucket share, while they are built: elements, their ranks, sums over counters."""

    k: Builder
    spec: Any
    wraps = True  # negative indices do
    starts: Any
    flag: Any = None
    totals: Any = None
    status: Value
    counters: Any
    warp_totals: Any
    count: Value
    extent: Value
    shift: Value
    number: Value

    def loaded(self, source: Any, numbers: range, size: Value) -> list[Any]:
        """Some of a thread's elements of a tile; those behind the end are the last one."""
        k = self.k
        found = [k.var(0, source.type) for _ in numbers]
        with k.when(size == self.spec.tile):  # each at a constant distance
            own = source.at(k.tid)
            for variable, value in zip(found, [own[i * BLOCK] for i in numbers], strict=True):
                variable.set(value)
        with k.otherwise():
            for variable, i in zip(found, numbers, strict=True):
                variable.set(source[k.min(k.tid + i * BLOCK, size - 1)])
        return [variable.get() for variable in found]

    def places(self, raw: list[Value], size: Value) -> list[Value]:
        """The elements of updates, the one behind the last bucket where there is none; reports one out of bounds."""
        k = self.k
        behind = k.shl(self.number, self.shift)
        places: list[Value] = []
        wrong, is_wrong = raw[0], None
        for i, each in enumerate(raw):
            at, is_beyond = resolve(k, each, self.extent, i64.bits, wraps=self.wraps)
            wrong = k.where(is_beyond, each, wrong)
            is_wrong = is_beyond if is_wrong is None else is_wrong | is_beyond
            place = k.where(is_beyond, k.const(0, u32), k.cast(at, u32))
            places.append(k.where(k.tid + i * BLOCK < size, place, behind))
        assert is_wrong is not None
        with k.when(is_wrong):
            if self.flag is not None:
                self.flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
            report(k, self.status, wrong)
        return places

    def ranks(self, places: list[Value]) -> list[Value]:
        """The numbers of updates in their buckets, two in a word, which registers are short of."""
        k = self.k
        found = [k.var(0, u32) for _ in places]
        are_one = k.const(1, u32) != 0
        for place in places:
            bucket = k.shr(place, self.shift)
            are_one = are_one & (bucket == k.shfl_idx(bucket, 0))
        with k.when(k.all(are_one)):  # updates in order: one lane counts for all, which would wait for each other
            with k.when(k.lane == 0):
                for number, place in zip(found, places, strict=True):
                    number.set(self.counters.atomic("add", k.shr(place, self.shift), WARP, order="relaxed.cta"))
            for number in found:
                number.set(k.shfl_idx(number.get(), 0) + k.lane)
        with k.otherwise():
            for number, place in zip(found, places, strict=True):
                number.set(self.counters.atomic("add", k.shr(place, self.shift), 1, order="relaxed.cta"))
        ranks = [number.get() for number in found] + [k.const(0, u32)] * (len(found) % 2)
        return [low | high << 16 for low, high in zip(ranks[::2], ranks[1::2], strict=True)]

    def sum_up(self, size: Value) -> None:
        """Replace counters by their sums before each, and tell everybody."""
        k, spec = self.k, self.spec
        has_one = k.tid < spec.room
        count = k.where(has_one, self.counters[k.min(k.tid, spec.room - 1)], k.const(0, u32))
        through = self.scan_warp(count)
        with k.when(k.lane == WARP - 1):
            self.warp_totals[k.warp] = through
        k.barrier()
        num_warps = BLOCK // WARP
        warps = self.scan_warp(k.where(k.lane < num_warps, self.warp_totals[k.min(k.lane, num_warps - 1)], 0))
        before = k.shfl_idx(warps, k.max(k.warp, 1) - 1)
        start = k.where(k.warp == 0, k.const(0, u32), before) + through - count
        tiles = k.cast(k.nctaid, i64)
        mine = self.starts.at(k.cast(k.ctaid, i64))
        with k.when(has_one):
            self.counters[k.tid] = start
        with k.when(has_one & (k.tid < self.number)):
            mine[k.cast(k.tid, i64) * tiles] = k.cast(start, u16)
            if self.totals is not None:
                with k.when(count != 0):
                    self.totals.atomic("add", k.tid, count)
        with k.when(k.tid == 0):
            self.counters[k.const(spec.room, u32)] = size
            mine[k.cast(self.number, i64) * tiles] = k.cast(size, u16)

    def scan_warp(self, value: Value) -> Value:
        """The inclusive sums over the lanes of a warp."""
        k, distance = self.k, 1
        while distance < WARP:
            value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, u32))
            distance *= 2
        return value


class _Buckets(Grouping):
    """The kernel while it is built."""

    def __init__(self, spec: BucketsSpec) -> None:
        self.spec, self.wraps = spec, spec.wraps
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
        ranks = self.ranks(places)
        k.barrier()
        self.sum_up(size)
        k.barrier()
        mask = k.shl(k.const(1, u32), self.shift) - 1
        at_once = VALUES_NBYTES // (u32 if spec.value is None else spec.value).nbytes
        for first in range(0, spec.items, at_once):
            here = range(first, min(first + at_once, spec.items))
            loaded = [None] * len(here) if self.values is None else self.loaded(self.values.at(begin), here, size)
            for i, value in zip(here, loaded, strict=True):
                rank = ranks[i // 2] >> 16 if i % 2 else ranks[i // 2] & 0xFFFF
                at = self.counters[k.shr(places[i], self.shift)] + rank
                self.own_keys[at] = k.cast(places[i] & mask, u16)
                if value is not None:
                    self.own_values[at] = value
        k.barrier()
        self.copy(self.own_keys, self.keys.at(begin))
        if self.own_values is not None:
            extremes = self.copy(self.own_values, self.grouped.at(begin))
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
            copied = words.load(k.min(word, num_words - 1) * width, width)
            with k.when(word < num_words):
                goal.store(word * width, copied)
            if spec.has_extremes and source is self.own_values:
                extremes = self.wider(extremes, copied)
        return extremes

    def wider(self, extremes: list[Value], words: tuple[Value, ...]) -> list[Value]:
        """The extremes with values among them, given in words."""
        k, (highest, deepest) = self.k, extremes
        values = list(words)
        if self.spec.value is u64:
            values = [k.pack(low, high) for low, high in zip(words[::2], words[1::2], strict=True)]
        for value in values:
            code, most = code_of(k, value), special(value.type)
            highest = k.max(highest, code)
            deepest = k.max(deepest, k.where((code >= SMALLEST) & (code != most), most - code, k.const(0, u32)))
        return [highest, deepest]

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


__all__ = ["Buckets", "BucketsSpec", "Grouping", "group", "make", "shift_of", "spec_of"]
