"""Sums at indices, whatever the order: ``array[index] += values`` of integers, and of f32 and f64 in fixed point.

Data layout: an array of any stride, an index and a value per update, grouped by bucket, see `buckets`. Who owns what: a
block a bucket, or of one with more than `piece` updates the part from a range of tiles; warps take tiles in turns.
Algorithm: integers are added up in shared memory, in words of 32 bits whose carries go to the next one, and then to
the array. Of floats a block first finds the largest exponent of each element, then adds values as integers relative to
it: `point` bits of a value as large as the largest are in front of the point, and for f64 32 behind it. An element is
such a sum rounded once, with the element that was there among the addends: the order does not matter, the same input
gives the same bits, and a sum errs less than one in the order of the elements. Infinities, NaNs and zeros without a
positive one among them set flags instead. Parts of a bucket are joined in memory: `WHOLE` finds exponents, `CUT` adds,
`FINISH` rounds. Where an index is out of bounds nothing is written. Bytes per update: those of `buckets`, then 2 and
value once, of floats twice; per element twice itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index import buckets
from oxinp._kernels.index.loops import is_clear
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, f32, f64, i32, i64, u16, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

WHOLE, CUT, FINISH = "whole", "cut", "finish"
TYPES = (i32, u32, i64, u64, f32, f64)
BLOCK = 512
RUNS = 4  # tiles whose updates a warp loads before it adds the first, of f64 half as many
LOADS = 2  # of a lane, per tile, at once
MIN_PIECE = 1 << 16
MAX_POINT = 50
RESERVED_NBYTES = 8192  # of shared memory, for totals
MIN_COUNT = {"i": 1 << 21, "u": 1 << 21, "f": 1 << 17}  # updates from which grouping pays
ELEMENTS_EACH = {"i": 2, "u": 2, "f": 4}  # per update, up to which it does

# What floats have that are no finite numbers, in the lowest word of their sum.
POSITIVE, NEGATIVE, NAN = 1, 2, 4


class SumsSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
    room : int
        Elements that there is shared memory for.
    is_scalar : bool
        There is one value for all, by value, as bits.
    part : str
        One of the constants above; integers have `WHOLE` alone.
    tile : int
        Updates of a tile.
    """

    type: Type
    room: int
    is_scalar: bool
    part: str
    tile: int

    @property
    def runs(self) -> int:
        """Tiles whose updates a warp loads before it adds the first."""
        return RUNS // 2 if self.type is f64 else RUNS

    @property
    def num_words(self) -> int:
        """Words of 32 bits of a sum."""
        return words_of(self.type)


def words_of(type_: Type) -> int:
    """Return the words of 32 bits that a sum takes."""
    return {f32: 2, f64: 3}.get(type_, type_.nbytes // u32.nbytes)


def shift_of(count: int, extent: int, type_: Type, device: Device) -> int | None:
    """Return the elements of a bucket, as a power of two; None where sums are found in another way."""
    if type_ not in TYPES or not 0 < count < buckets.MAX_COUNT or extent >= 1 << 31:
        return None
    if count < MIN_COUNT[type_.kind] or extent > ELEMENTS_EACH[type_.kind] * count:
        return None
    nbytes = (words_of(type_) + type_.is_float) * u32.nbytes
    room = (device.max_shared_nbytes - RESERVED_NBYTES) // nbytes
    return buckets.shift_of(extent, room.bit_length() - 1)


def add(
    count: int, extent: int, stride: int, shift: int, type_: Type, index_type: Type, *, is_scalar: bool, piece: int = 0,
    items: int = buckets.ITEMS,
) -> Plan:  # fmt: skip
    """Return the plan of ``array[index] += values``.

    The output is the array; the inputs are index, values in C order and the address for a report.

    Parameters
    ----------
    count : int
        Of updates.
    extent, stride : int
        Of what is indexed.
    shift : int
        Elements of a bucket, see `shift_of`.
    type_, index_type : Type
    is_scalar : bool
        The second input is a number, given as the bits of an element.
    piece : int, optional
        Updates from which a bucket is cut.
    items : int
        Updates that a thread groups.
    """
    scratch = Scratch()
    value = None if is_scalar else carrier(type_)
    grouped = buckets.group(count, extent, shift, index_type, value, scratch, items)
    piece = piece or max(MIN_PIECE, 2 * -(-count // grouped.number))
    most, size = count // piece, 1 << shift  # parts beside the first ones of buckets, so many buckets are cut at most
    share = min(WARP, -(-grouped.num_tiles * WARP // BLOCK))
    share = -(-share // RUNS) * RUNS
    given = (Argument("in1"),) if is_scalar else (grouped.values,)
    shared = (Argument("out0"), grouped.flag, grouped.keys, grouped.starts, grouped.totals)
    fixed = (extent, stride, shift, grouped.number, grouped.num_tiles, piece, share)
    spec = SumsSpec(type_, size, is_scalar, WHOLE, grouped.tile)
    grid = (grouped.number + most, 1, 1)
    nbytes = u16.nbytes + (0 if is_scalar else type_.nbytes)
    work = Work(nbytes=count * nbytes + 2 * extent * type_.nbytes)
    if not type_.is_float:
        return scratch.plan([*grouped.steps, Launch(make(spec), grid, (*shared, *given), fixed, work)])
    point = min(MAX_POINT, 61 - (count + 1).bit_length())
    codes = scratch.take(max(1, most) * size * u32.nbytes)
    sums = scratch.take(max(1, most) * size * 2 * u64.nbytes)
    arguments = (*shared, codes, sums, *given)
    parts = (WHOLE, CUT, FINISH) if most else (WHOLE,)
    zeros = [Fill(codes, scratch.nbytes - codes.offset, 0)] if most else []
    launches = [Launch(make(spec.replace(part=part)), grid, arguments, (*fixed, point), work) for part in parts]
    return scratch.plan([*zeros, *grouped.steps, *launches])


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SumsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return (_Floats if spec.type.is_float else _Integers)(spec).build()


class _Sums:
    """A kernel while it is built: which updates are a block's, and words that are added to."""

    def __init__(self, spec: SumsSpec) -> None:
        self.spec = spec
        self.k = k = Builder(f"sum_by_bucket_{spec.part}", block=BLOCK, min_blocks=2)
        self.out, self.flag = k.pointer("out", spec.type), k.pointer("flag", u32, "r")
        self.keys, self.starts = k.pointer("keys", u16, "r"), k.pointer("starts", u16, "r")
        self.totals = k.pointer("totals", u32, "r")
        if spec.type.is_float:
            self.kept_codes, self.kept = k.pointer("codes", u32), k.pointer("sums", u64)
        self.single = k.bitcast(k.scalar("value", carrier(spec.type)), spec.type) if spec.is_scalar else None
        self.values: Any = None if spec.is_scalar else k.pointer("values", spec.type, "r")
        self.extent, self.stride = k.scalar("extent", i64), k.scalar("stride", i64)
        self.shift, self.number = k.scalar("shift", u32), k.scalar("num_buckets", u32)
        self.num_tiles, self.piece, self.share = (k.scalar(name, u32) for name in ("num_tiles", "piece", "share"))
        self.point = k.scalar("point", i32) if spec.type.is_float else None
        self.words = [k.dynamic_shared(u32, spec.room) for _ in range(spec.num_words)]
        self.more = k.dynamic_shared(u32, buckets.MANY)

    def build(self) -> Kernel:
        """Go through the part of a bucket that is this block's."""
        k = self.k
        with k.range(k.tid, self.number, BLOCK) as at:
            self.more[at] = (k.max(self.totals[at], 1) - 1) / self.piece
        k.barrier()
        block = k.cast(k.ctaid, u32)
        bucket, part, slot = k.var(block), k.var(0, u32), k.var(0, u32)
        is_more = block >= self.number
        mine = self.more[k.min(block, self.number - 1)]
        with k.when(is_more | (mine != 0)):
            # The part's number among all that are not the first ones; the first one of a bucket looks for the next.
            wanted = k.var(block - self.number)
            with k.when(~is_more):
                wanted.set(self.before(block))
            bucket.set(self.number)
            before = k.var(0, u32)
            with k.range(k.const(0, u32), self.number, WARP) as first:
                at = first + k.lane
                own = k.where(at < self.number, self.more[k.min(at, self.number - 1)], k.const(0, u32))
                through = before + self.scan_warp(own)
                has_it = (through > wanted) & (through - own <= wanted)
                holders = k.ballot(has_it)
                with k.when(holders != 0):
                    holder = k.clz(k.brev(holders))
                    bucket.set(first + holder)
                    slot.set(k.shfl_idx(through - own, holder))
                before.set(k.shfl_idx(through, WARP - 1))
            with k.when(is_more):
                part.set(wanted - slot + 1)
        with k.when((bucket < self.number) & is_clear(k, self.flag)):
            self.work(bucket.get(), part.get(), self.more[k.min(bucket.get(), self.number - 1)] + 1, slot.get())
        return k.build()

    def before(self, block: Value) -> Value:
        """Return how many parts beside first ones the buckets before one have."""
        k = self.k
        total = k.var(0, u32)
        with k.range(k.lane, block, WARP) as at:
            total.set(total + self.more[at])
        k.warp_sync()
        return k.redux("add", total.get())

    def scan_warp(self, value: Value) -> Value:
        """The inclusive sums over the lanes of a warp."""
        k, distance = self.k, 1
        while distance < WARP:
            value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, u32))
            distance *= 2
        return value

    def work(self, bucket: Value, part: Value, parts: Value, slot: Value) -> None:
        """Do what a block does with a part of a bucket."""
        raise NotImplementedError

    def elements(self, bucket: Value) -> tuple[Any, Value]:
        """The elements of a bucket, and how many they are."""
        k = self.k
        origin = k.shl(k.cast(bucket, i64), self.shift)
        size = k.min(self.extent - origin, k.shl(k.const(1, i64), self.shift))
        return self.out.at(origin * self.stride), k.cast(size, u32)

    # -- updates

    def go_through(self, bucket: Value, part: Value, parts: Value, take: Callable[[Value, Any], None]) -> None:
        """Have each update of a part taken, by whichever lane: its element in the bucket, and its value."""
        k, spec, share = self.k, self.spec, self.share
        first, last = self.num_tiles * part / parts, self.num_tiles * (part + 1) / parts
        row = k.cast(bucket, i64) * k.cast(self.num_tiles, i64)
        begins = self.starts.at(row)
        ends = begins.at(k.cast(self.num_tiles, i64))
        with k.range(first + k.warp * share, last, share * (BLOCK // WARP)) as from_:
            tile = k.min(from_ + k.lane, last - 1)
            is_mine = (k.lane < share) & (from_ + k.lane < last)
            begin, end = k.cast(begins[tile], u32), k.cast(ends[tile], u32)
            length = k.where(is_mine, end - begin, k.const(0, u32))
            place = tile * spec.tile + begin
            with k.range(k.const(0, u32), share, spec.runs) as run:
                runs = [
                    (k.shfl_idx(place, run + i if i else run), k.shfl_idx(length, run + i if i else run))
                    for i in range(spec.runs)
                ]
                self.take_some([(at, k.lane + i * WARP, size) for at, size in runs for i in range(LOADS)], take)
                for at, size in runs:
                    with k.when(size > LOADS * WARP):
                        num_loads = spec.runs * LOADS
                        with k.range(k.const(LOADS * WARP, u32), size, num_loads * WARP) as onward:
                            lanes = [onward + k.lane + i * WARP for i in range(num_loads)]
                            self.take_some([(at, lane, size) for lane in lanes], take)

    def take_some(self, places: list[tuple[Value, Value, Value]], take: Callable[[Value, Any], None]) -> None:
        """Have some updates taken, each given as the begin of its run, its number there, and the run's length."""
        k = self.k
        there = [at + k.where(number < size, number, k.const(0, u32)) for at, number, size in places]
        keys = [self.keys[place] for place in there]
        values = [self.single if self.values is None else self.values[place] for place in there]
        for (_, number, size), key, value in zip(places, keys, values, strict=True):
            with k.when(number < size):
                take(k.cast(key, u32), value)

    def add(self, element: Value, parts: list[Value]) -> None:
        """Add words, the lowest first, to those of an element; most are zeros but for the lowest."""
        lowest, *others = parts
        old = self.words[0].atomic("add", element, lowest, order="relaxed.cta")
        if others:
            self.carry(element, others, old + lowest < old, 1)

    def carry(self, element: Value, parts: list[Value], carries: Value, number: int) -> None:
        """Add words and a carry to those of an element from a word on."""
        k = self.k
        first, *others = parts
        given = first + k.cast(carries, u32)
        goes_on = carries & (given == 0)
        if not others:
            with k.when(given != 0):
                self.words[number].atomic("add", element, given, order="relaxed.cta")
            return
        old = self.words[number].atomic("add", element, given, order="relaxed.cta")
        self.carry(element, others, goes_on | (old + given < old), number + 1)


class _Integers(_Sums):
    """The kernel of integers."""

    def work(self, bucket: Value, part: Value, parts: Value, slot: Value) -> None:
        del slot
        k, type_ = self.k, self.spec.type
        own, size = self.elements(bucket)
        with k.range(k.tid, size, BLOCK) as element:
            for word in self.words:
                word[element] = 0
        k.barrier()
        unsigned = u32 if type_.nbytes == u32.nbytes else u64

        def take(element: Value, value: Any) -> None:
            bits = k.bitcast(value, unsigned)
            self.add(element, [bits] if unsigned is u32 else list(k.unpack(bits)))

        self.go_through(bucket, part, parts, take)
        k.barrier()
        sums = own.view(unsigned)
        with k.range(k.tid, size, BLOCK) as element:
            parts_of = [word[element] for word in self.words]
            total = parts_of[0] if unsigned is u32 else k.pack(*parts_of)
            with k.when(total != 0):
                sums.atomic("add", k.cast(element, i64) * self.stride, total)


class _Floats(_Sums):
    """A kernel of floats.

    A code says what an element has got: 0 nothing, 1 zeros that are negative, 2 zeros, else the exponent as stored, at
    least 1, and 2; the largest is of infinities and NaNs.
    """

    def __init__(self, spec: SumsSpec) -> None:
        super().__init__(spec)
        self.codes = self.k.dynamic_shared(u32, spec.room)
        is_single = spec.type is f32
        self.bits, self.mantissa, self.bias = (u32, 23, 127) if is_single else (u64, 52, 1023)
        self.special = 2 * self.bias + 1 + 2

    def work(self, bucket: Value, part: Value, parts: Value, slot: Value) -> None:
        k, spec = self.k, self.spec
        own, size = self.elements(bucket)
        is_cut = parts > 1
        first = slot * spec.room
        codes, sums = self.kept_codes.at(first), self.kept.at(first * 2)
        if spec.part == WHOLE:
            self.find_codes(bucket, part, parts, size)
            with k.when(is_cut), k.range(k.tid, size, BLOCK) as element:
                code = self.codes[element]
                with k.when(code != 0):
                    codes.atomic("max", element, code)
            with k.otherwise():
                self.sum_up(bucket, part, parts, own, size)
                with k.range(k.tid, size, BLOCK) as element:
                    code = self.codes[element]
                    with k.when(code != 0):
                        own[k.cast(element, i64) * self.stride] = self.rounded(
                            code, [word[element] for word in self.words]
                        )
        elif spec.part == CUT:
            with k.when(is_cut):
                with k.range(k.tid, size, BLOCK) as element:
                    self.codes[element] = codes[element]
                k.barrier()
                self.sum_up(bucket, part, parts, own, size)
                with k.range(k.tid, size, BLOCK) as element:
                    code = self.codes[element]
                    with k.when(code == self.special):
                        sums.atomic("or", element * 2, k.cast(self.words[0][element], u64))
                    with k.when((code != 0) & (code != self.special)):
                        lowest, *others = [word[element] for word in self.words]
                        high = k.pack(*others) if len(others) > 1 else k.pack(lowest, others[0])
                        sums.atomic("add", element * 2 + 1, high)
                        if len(others) > 1:
                            sums.atomic("add", element * 2, k.cast(lowest, u64))
        else:
            with k.when(is_cut & (part == 0)), k.range(k.tid, size, BLOCK) as element:
                found = codes[element]
                with k.when(found != 0):
                    at = k.cast(element, i64) * self.stride
                    code = k.max(found, self.code(own[at]))
                    low, high = sums[element * 2], sums[element * 2 + 1]
                    is_special = code == self.special
                    if spec.num_words == 2:
                        words = list(k.unpack(k.where(is_special, low, high)))
                    else:
                        lowest, over = k.unpack(low)
                        words = [lowest, *k.unpack(high + k.cast(over, u64))]
                    own[at] = self.rounded(code, words)

    def find_codes(self, bucket: Value, part: Value, parts: Value, size: Value) -> None:
        """Find the codes of updates alone."""
        k = self.k
        with k.range(k.tid, size, BLOCK) as element:
            self.codes[element] = 0
        k.barrier()

        def take(element: Value, value: Any) -> None:
            self.codes.atomic("max", element, self.code(value), order="relaxed.cta")

        self.go_through(bucket, part, parts, take)
        k.barrier()

    def sum_up(self, bucket: Value, part: Value, parts: Value, own: Any, size: Value) -> None:
        """Add up what elements get; the first part of a bucket also what is there."""
        k = self.k
        with k.range(k.tid, size, BLOCK) as element:
            code = self.codes[element]
            for word in self.words:
                word[element] = 0
            with k.when(code != 0):
                there = own[k.cast(element, i64) * self.stride]
                code = k.max(code, self.code(there))
                self.codes[element] = code
                with k.when(part == 0):
                    self.take(element, there)
        k.barrier()
        self.go_through(bucket, part, parts, self.take)
        k.barrier()

    def code(self, x: Value) -> Value:
        """The code of a value."""
        k = self.k
        bits = k.bitcast(x, self.bits)
        magnitude = bits & ((1 << (self.bits.bits - 1)) - 1)
        exponent = k.max(k.cast(k.shr(magnitude, self.mantissa), u32), 1)
        zero = k.where(bits == 0, k.const(2, u32), k.const(1, u32))
        return k.where(magnitude == 0, zero, exponent + 2)

    def take(self, element: Value, x: Value) -> None:
        """Add a value to the sum of an element."""
        k = self.k
        code = self.codes[element]
        with k.when(code == self.special):
            self.words[0].atomic("or", element, self.flags(x), order="relaxed.cta")
        with k.otherwise():
            self.add(element, self.fixed(x, code))

    def flags(self, x: Value) -> Value:
        """The flags of a value."""
        k = self.k
        is_infinite = k.abs(x) == k.const(float("inf"), x.type)
        infinite = k.where(x > 0, k.const(POSITIVE, u32), k.const(NEGATIVE, u32))
        return k.where(k.isnan(x), k.const(NAN, u32), k.where(is_infinite, infinite, k.const(0, u32)))

    def power(self, exponent: Value) -> Value:
        """A power of two, f64; the exponent is i32 and that of a normal number."""
        k = self.k
        return k.bitcast(k.shl(k.cast(exponent + 1023, u64), 52), f64)

    def fixed(self, x: Value, code: Value) -> list[Value]:
        """A value relative to a code, in words, negative ones as complements."""
        k = self.k
        assert self.point is not None
        exponent = self.point + (self.bias + 2) - k.cast(code, i32)  # of what values are multiplied by
        if self.spec.num_words == 2:
            scaled = k.cast(x, f64) * self.power(exponent)
            return list(k.unpack(k.bitcast(k.cvt(scaled, i64, "rni"), u64)))
        half = exponent >> 1
        scaled = x * self.power(half) * self.power(exponent - half)
        whole = k.cvt(scaled, i64, "rzi")
        rest = k.cvt((scaled - k.cvt(whole, f64)) * k.const(2.0**32, f64), i64, "rni")
        lowest, _ = k.unpack(k.bitcast(rest, u64))
        return [lowest, *k.unpack(k.bitcast(whole + (rest >> 32), u64))]

    def rounded(self, code: Value, words: list[Value]) -> Value:
        """The value that a sum rounds to."""
        k, type_ = self.k, self.spec.type
        assert self.point is not None
        exponent = k.cast(code, i32) - (self.bias + 2) - self.point
        if self.spec.num_words == 2:
            total = k.cvt(k.bitcast(k.pack(*words), i64), f32)
            finite = k.cvt(k.cvt(total, f64) * self.power(exponent), f32)
        else:
            finite = self.rounded_double(exponent, words)
        negative = k.const(-0.0, type_)
        finite = k.where(code == 1, negative, k.where(code == 2, k.const(0.0, type_), finite))
        flags = words[0]
        infinity = k.const(float("inf"), type_)
        is_nan = (flags >= NAN) | (flags == POSITIVE + NEGATIVE)
        special = k.where(flags == POSITIVE, infinity, -infinity)
        special = k.where(is_nan, k.const(float("nan"), type_), special)
        return k.where(code == self.special, special, finite)

    def rounded_double(self, exponent: Value, words: list[Value]) -> Value:
        """The f64 that 96 bits round to, the lowest 32 behind the point."""
        k = self.k
        low, high = words[0], k.pack(words[1], words[2])
        is_negative = k.bitcast(high, i64) < 0
        # The complement's carry goes from the low word to the high one where the low one is zero.
        low = k.where(is_negative, k.const(0, u32) - low, low)
        high = k.where(is_negative, (high ^ ((1 << 64) - 1)) + k.cast(low == 0, u64), high)
        shift = k.clz(high)
        below = k.shl(k.cast(low, u64), 32)
        leading = k.shl(high, shift) | k.where(shift == 0, k.const(0, u64), k.shr(below, 64 - shift))
        sticky = k.shl(below, shift) != 0
        leading = leading | k.cast(sticky, u64)
        is_small = high == 0
        leading = k.where(is_small, below, leading)
        shift = k.where(is_small, k.const(64, u32), shift)
        total = k.cvt(leading, f64)
        total = k.where(is_negative, -total, total)
        exponent = exponent - k.cast(shift, i32)
        half = exponent >> 1
        return total * self.power(half) * self.power(exponent - half)


__all__ = ["CUT", "FINISH", "TYPES", "WHOLE", "SumsSpec", "add", "make", "shift_of", "words_of"]
