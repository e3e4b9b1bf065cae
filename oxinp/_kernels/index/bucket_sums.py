"""What kernels of sums by bucket share: the part of a bucket that is a block's, its updates, words that are added to.

Data layout: updates grouped by bucket, see `buckets`; sums in shared memory, in words of 32 bits, whose carries go to
the next one. Who owns what: a block a bucket, or of one with more than `piece` updates the part from a range of tiles;
a warp takes 32 tiles at a time, numbers their updates as one, and its lanes take neighbouring ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index import buckets
from oxinp._kernels.index.loops import is_clear
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.types import Type, f32, f64, i32, i64, u16, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

WHOLE, CUT = "whole", "cut"
BLOCK = 512
NUM_WARPS = BLOCK // WARP
HAS_PARTS = 2
"""The word after the extremes of values, which is not 0 where a bucket is cut."""
AT_ONCE = 8  # updates that a lane loads before it adds the first, of f64 fewer


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
    def at_once(self) -> int:
        """Updates that a lane loads before it adds the first."""
        return AT_ONCE * 3 // 4 if self.type is f64 else AT_ONCE

    @property
    def num_words(self) -> int:
        """Words of 32 bits of a sum."""
        return words_of(self.type)

    @property
    def is_float(self) -> bool:
        """Whether sums are in fixed point."""
        return self.type.is_float


def words_of(type_: Type) -> int:
    """Return the words of 32 bits that a sum takes; of floats the last one holds a code instead, now and then."""
    return {f32: 3, f64: 4}.get(type_, type_.nbytes // u32.nbytes)


def scan_warp(k: Builder, value: Value) -> Value:
    """The inclusive sums over the lanes of a warp."""
    distance = 1
    while distance < WARP:
        value = value + k.where(k.lane >= distance, k.shfl_up(value, distance), k.const(0, u32))
        distance *= 2
    return value


def joined_words(k: Builder, words: list[Value], others: list[Value]) -> list[Value]:
    """The sum of two numbers in words, the lowest first."""
    carry: Value | None = None
    total = []
    for word, other in zip(words, others, strict=True):
        found = word + other
        is_over = found < other
        if carry is not None:
            found = found + k.cast(carry, u32)
            is_over = is_over | (carry & (found == 0))
        total.append(found)
        carry = is_over
    return total


class Runs:
    """Updates of a bucket, which are a run in each tile.

    Parameters
    ----------
    k : Builder
    starts : Pointer
        See `buckets`.
    num_tiles : Value
    tile : int
        Updates of a tile.
    at_once : int
        Updates that a lane has at a time.
    """

    def __init__(self, k: Builder, starts: Any, num_tiles: Value, tile: int, at_once: int) -> None:
        self.k, self.starts, self.num_tiles, self.tile, self.at_once = k, starts, num_tiles, tile, at_once

    def go_through(
        self, bucket: Value, first: Value, last: Value, use: Callable[[list[Value], list[Value]], None],
        use_in_order: Callable[[Value], None] | None = None,
    ) -> None:  # fmt: skip
        """Have the updates of a bucket in a range of tiles used by whichever lane: their places, and which there are.

        Lanes of a warp have a tile each, `NUM_WARPS` apart, and number the updates of all of them as one. Where all
        that a warp has at a time are of one tile, as updates in order are, ``use_in_order(place)`` uses those of a
        lane, which are neighbours then, from a place on.
        """
        k = self.k
        row = k.cast(bucket, i64) * k.cast(self.num_tiles, i64)
        begins = self.starts.at(row)
        ends = begins.at(k.cast(self.num_tiles, i64))
        with k.range(first + k.warp, last, BLOCK) as from_:
            number = from_ + k.lane * NUM_WARPS
            tile = k.min(number, last - 1)
            begin, end = k.cast(begins[tile], u32), k.cast(ends[tile], u32)
            through = scan_warp(k, k.where(number < last, end - begin, k.const(0, u32)))
            total = k.shfl_idx(through, WARP - 1)
            # Where the update of number 0 would be, if all were in the lane's tile.
            origin = tile * self.tile + end - through

            def use_windows(at: Value) -> None:
                windows = [at + i * WARP if i else at for i in range(self.at_once)]
                numbers = [window + k.lane for window in windows]
                there = [
                    k.shfl_idx(origin, self.tile_of(window, through)) + k.min(each, total - 1)
                    for window, each in zip(windows, numbers, strict=True)
                ]
                use(there, [each < total for each in numbers])

            with k.range(k.const(0, u32), total, WARP * self.at_once) as at:
                if use_in_order is None:
                    use_windows(at)
                else:
                    owner = k.popc(k.ballot(through <= at))
                    with k.when(owner == k.popc(k.ballot(through < at + WARP * self.at_once))):
                        use_in_order(k.shfl_idx(origin, owner) + at + k.lane * self.at_once)
                    with k.otherwise():
                        use_windows(at)

    def tile_of(self, window: Value, through: Value) -> Value:
        """Return which lane's tile has the update that is the lane's in a window of 32.

        Parameters
        ----------
        window : Value
            The number of its first update.
        through : Value
            Updates of the lane's tile and of those of all lanes before.
        """
        k = self.k
        ends = k.cast(through, i32) - k.cast(window, i32)
        is_inside = (ends > 0) & (ends < WARP)
        bits = k.redux("or", k.where(is_inside, k.const(1, u32) << k.cast(k.where(is_inside, ends, 0), u32), 0))
        before = k.popc(k.ballot(ends <= 0))
        found = k.var(before + k.popc(bits & ((k.const(2, u32) << k.lane) - 1)))
        with k.when(k.popc(bits) != k.popc(k.ballot(is_inside))):  # tiles without updates end where others do
            found.set(0)
            for step in (16, 8, 4, 2, 1):
                passed = k.shfl_idx(through, found + (step - 1)) <= window + k.lane
                found.set(k.where(passed, found + step, found.get()))
        return k.min(found.get(), WARP - 1)


class BucketSums:
    """A kernel while it is built: which updates are a block's, and words that are added to."""

    def __init__(self, spec: SumsSpec) -> None:
        self.spec = spec
        self.k = k = Builder(f"sum_by_bucket_{spec.part}", block=BLOCK, min_blocks=2)
        self.out, self.flag = k.pointer("out", spec.type), k.pointer("flag", u32, "r")
        self.keys, self.starts = k.pointer("keys", u16, "r"), k.pointer("starts", u16, "r")
        self.totals = k.pointer("totals", u32, "r")
        if spec.is_float:
            self.extremes = k.pointer("extremes", u32)
            self.kept_codes, self.kept = k.pointer("codes", u32), k.pointer("sums", u64)
            self.joined = k.pointer("joined", u32)
        self.single = k.bitcast(k.scalar("value", carrier(spec.type)), spec.type) if spec.is_scalar else None
        self.values: Any = None if spec.is_scalar else k.pointer("values", spec.type, "r")
        self.extent, self.stride = k.scalar("extent", i64), k.scalar("stride", i64)
        self.shift, self.number = k.scalar("shift", u32), k.scalar("num_buckets", u32)
        self.num_tiles, self.piece = (k.scalar(name, u32) for name in ("num_tiles", "piece"))
        if spec.is_float:
            self.point, self.limit = k.scalar("point", i32), k.scalar("limit", u32)
        self.words = [k.dynamic_shared(u32, spec.room) for _ in range(spec.num_words)]
        self.more = k.dynamic_shared(u32, buckets.MANY)

    def build(self) -> Kernel:
        """Go through the part of a bucket that is this block's; joining parts is as a rule nobody's."""
        k = self.k
        if self.spec.part == WHOLE:
            self.find_part()
        else:
            with k.when(self.extremes[HAS_PARTS] != 0):
                self.find_part()
        return k.build()

    def find_part(self) -> None:
        """Find out which part of which bucket is this block's, and do what is to be done with it."""
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
                through = before + scan_warp(k, own)
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

    def before(self, block: Value) -> Value:
        """Return how many parts beside first ones the buckets before one have."""
        k = self.k
        total = k.var(0, u32)
        with k.range(k.lane, block, WARP) as at:
            total.set(total + self.more[at])
        k.warp_sync()
        return k.redux("add", total.get())

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

    def go_through(
        self, bucket: Value, part: Value, parts: Value, take: Callable[[Value, Any], None],
        take_in_order: Callable[[Value], None] | None = None,
    ) -> None:  # fmt: skip
        """Have each update of a part taken, by whichever lane: its element in the bucket, and its value."""
        k = self.k
        first, last = self.num_tiles * part / parts, self.num_tiles * (part + 1) / parts

        def use(there: list[Value], are_updates: list[Value]) -> None:
            keys = [self.keys[place] for place in there]
            values = [self.single if self.values is None else self.values[place] for place in there]
            for is_update, key, value in zip(are_updates, keys, values, strict=True):
                with k.when(is_update):
                    take(k.cast(key, u32), value)

        runs = Runs(k, self.starts, self.num_tiles, self.spec.tile, self.spec.at_once)
        runs.go_through(bucket, first, last, use, take_in_order)

    def add_up(self, bucket: Value, part: Value, parts: Value, words_of_value: Callable[[Any], list[Value]]) -> None:
        """Add each update of a part, whose value is some words; a lane joins neighbours that go to one element."""
        k = self.k

        def take_in_order(first: Value) -> None:
            own = range(self.spec.at_once)
            keys = [k.cast(self.keys[first + i if i else first], u32) for i in own]
            values = [self.single if self.values is None else self.values[first + i if i else first] for i in own]
            sums = [k.var(word) for word in words_of_value(values[0])]
            for before, key, value in zip(keys, keys[1:], values[1:], strict=False):
                words = words_of_value(value)
                with k.when(key != before):
                    self.add(before, [each.get() for each in sums])
                joined = joined_words(k, [each.get() for each in sums], words)
                for each, word, total in zip(sums, words, joined, strict=True):
                    each.set(k.where(key != before, word, total))
            self.add(keys[-1], [each.get() for each in sums])

        def take(element: Value, value: Any) -> None:
            self.add(element, words_of_value(value))

        self.go_through(bucket, part, parts, take, take_in_order)

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


__all__ = ["BLOCK", "CUT", "HAS_PARTS", "WHOLE", "BucketSums", "Runs", "SumsSpec", "words_of"]
