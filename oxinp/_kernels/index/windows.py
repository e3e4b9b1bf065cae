"""Updates at indices in order where elements have several each: ``array[index] = combine(array[index], values)``.

Data layout: an array of any stride, an index and a value per update. Algorithm: updates are sorted by region, see
`regions`; then a warp has the elements of a region in shared memory and combines them with its values in order, 32 at
a time: lanes of the same element take turns. A region of more than `piece` updates is cut where their numbers are
multiples of that: the first part is combined with the elements, the others each by itself, and `join` combines these in
order. So an element whose region is not cut is combined as NumPy does, one value after the other; others depend on the
data alone, so that the same input gives the same bits. Who owns what: a warp of `windows` a region or a part of one, a
block of `join` a region that was cut. Where an index is out of bounds nothing is written. Bytes per update: those of
the sort, then key and value; per element twice itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index.loops import BLOCK, is_clear
from oxinp._kernels.index.regions import Keys, regions_of, sort_by_region
from oxinp._kernels.plan import Argument, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u8, u32
from oxinp._ptx.warp import FULL, WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

MOST = 8  # of a region's elements, as a power of two: one for each thread of `join`
AT_ONCE = 4  # rounds of 32 updates that a warp loads before it combines the first
MIN_PIECE, NUM_PIECES = 4096, 2048
SORTED_NBYTES = (4, 8)  # of values that are sorted with their keys; of others the places are

Combine = Callable[[Any, Any, Any], Any]


class WindowsSpec(Frozen):
    """A kernel of `windows` or of `join`.

    Attributes
    ----------
    type : Type
        Of elements.
    combine : callable
        ``combine(k, x, y)``.
    shift : int
        Elements of a region, as a power of two.
    has_places : bool
        What goes with keys are the places of values.
    is_scalar : bool
        There is one value for all, by value, as bits.
    joins : bool
        It is that of `join`.
    """

    type: Type
    combine: Combine
    shift: int
    has_places: bool
    is_scalar: bool
    joins: bool


def update(
    count: int, extent: int, stride: int, type_: Type, index_type: Type, combine: Combine, device: Device,
    *, is_scalar: bool, piece: int = 0,
) -> Plan:  # fmt: skip
    """Return the plan of updates in order; see `ordered.update`.

    Parameters
    ----------
    count, extent, stride : int
    type_, index_type : Type
    combine : callable
    device : Device
    is_scalar : bool
    piece : int, optional
        Updates from which a region is cut, a multiple of 32.
    """
    scratch = Scratch()
    regions = regions_of(extent, MOST)
    has_places = not is_scalar and type_.nbytes not in SORTED_NBYTES
    value = None if is_scalar or has_places else carrier(type_)
    ordered = sort_by_region(count, extent, regions, index_type, value, device, scratch, has_places=has_places)
    piece = piece or max(MIN_PIECE, -(-count // (NUM_PIECES * WARP)) * WARP)
    num_pieces, size = -(-count // piece), 1 << regions.shift
    parts, flags = scratch.take(num_pieces * size * type_.nbytes), scratch.take(num_pieces * size)
    windows, join = (
        make(WindowsSpec(type_, combine, regions.shift, has_places, is_scalar, joins)) for joins in (False, True)
    )
    values = Argument("in1")
    given = (values,) if is_scalar else (ordered.beside, values) if has_places else (ordered.beside,)
    shared = (Argument("out0"), ordered.flag, ordered.keys, parts, flags)
    num_warps = regions.number + num_pieces - 1  # nothing was cut where the first piece begins
    work = Work(nbytes=count * (u32.nbytes + type_.nbytes) + 2 * extent * type_.nbytes)
    constants = (count, extent, stride, piece)
    grid = (-(-num_warps * WARP // BLOCK), 1, 1)
    steps = [*ordered.steps, Launch(windows, grid, (*shared, *given), (*constants, regions.number), work)]
    if num_pieces > 1:
        steps.append(Launch(join, (num_pieces - 1, 1, 1), shared, constants))
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: WindowsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _join(spec) if spec.joins else _Windows(spec).build()


class _Windows:
    """The kernel while it is built."""

    def __init__(self, spec: WindowsSpec) -> None:
        self.spec = spec
        self.k = k = Builder("update_windows", block=BLOCK)
        self.out, self.flag = k.pointer("out", spec.type), k.pointer("flag", u32, "r")
        self.sorted = k.pointer("keys", u32, "r")
        self.parts, self.flags = k.pointer("parts", spec.type, "w"), k.pointer("flags", u8, "w")
        self.places = k.pointer("places", u32, "r") if spec.has_places else None
        self.single = k.bitcast(k.scalar("value", carrier(spec.type)), spec.type) if spec.is_scalar else None
        self.values: Any = None if spec.is_scalar else k.pointer("values", spec.type, "r")
        self.count, self.extent, self.stride = k.scalar("count", u32), k.scalar("extent", i64), k.scalar("stride", i64)
        self.piece, self.num_regions = k.scalar("piece", u32), k.scalar("num_regions", u32)
        self.keys = Keys(k, self.sorted, self.count, spec.shift)
        size, num_warps = 1 << spec.shift, BLOCK // WARP
        self.window = k.dynamic_shared(spec.type, num_warps * size).at(k.warp * size)
        self.is_set = k.dynamic_shared(u8, num_warps * size).at(k.warp * size)

    def build(self) -> Kernel:
        k = self.k
        number = k.cast(k.ctaid, u32) * (BLOCK // WARP) + k.warp
        is_part = number >= self.num_regions
        cut = k.where(is_part, number - self.num_regions + 1, k.const(0, u32))
        at = cut * self.piece
        region = k.var(number)
        exists = ~is_part
        with k.when(is_part & (at < self.count)):
            region.set(self.keys.region(self.sorted[at]))
        with k.when((exists | (at < self.count)) & is_clear(k, self.flag)):
            begin, end = self.keys.begin(region.get()), self.keys.begin(region + 1)
            is_cut = end - begin > self.piece
            first = k.where(is_part, at, begin)
            last = k.where(is_cut, k.min((first / self.piece + 1) * self.piece, end), end)
            with k.when((first < last) & (exists | (is_cut & (begin < at)))):
                self.go_through(region.get(), first, last, is_part, cut)
        return k.build()

    def go_through(self, region: Value, first: Value, last: Value, is_part: Value, cut: Value) -> None:
        """Combine the updates from `first` to `last`, all of one region."""
        k, spec = self.k, self.spec
        origin = k.shl(k.cast(region, i64), spec.shift)
        size = k.cast(k.min(self.extent - origin, 1 << spec.shift), u32)
        own = self.out.at(origin * self.stride)
        (stand_in,) = self.loaded([k.cast(first, i64)])
        with k.range(k.lane, size, WARP) as element:
            with k.when(is_part):  # what is there may be written meanwhile
                self.window[element] = stand_in
            with k.otherwise():
                self.window[element] = own[k.cast(element, i64) * self.stride]
            self.is_set[element] = k.cast(~is_part, u8)
        k.warp_sync()
        at = k.var(first + k.lane)
        with k.loop():
            k.break_if(at - k.lane >= last)
            numbers = [at + i * WARP if i else at.get() for i in range(AT_ONCE)]
            there = [k.cast(k.min(number, last - 1), i64) for number in numbers]
            keys = [self.sorted[place] for place in there]
            for number, key, value in zip(numbers, keys, self.loaded(there), strict=True):
                self.combine(self.keys.element(key), value, number < last)
            at.set(at + AT_ONCE * WARP)
        with k.when(is_part):
            part = k.cast(cut, i64) << spec.shift
            with k.range(k.lane, size, WARP) as element:
                self.parts[part + k.cast(element, i64)] = self.window[element]
                self.flags[part + k.cast(element, i64)] = self.is_set[element]
        with k.otherwise(), k.range(k.lane, size, WARP) as element:
            own[k.cast(element, i64) * self.stride] = self.window[element]

    def loaded(self, there: list[Value]) -> list[Any]:
        """The values of updates."""
        if self.single is not None:
            return [self.single] * len(there)
        places = there if self.places is None else [self.k.cast(self.places[place], i64) for place in there]
        return [self.values[place] for place in places]

    def combine(self, element: Value, value: Any, exists: Value) -> None:
        """Combine 32 updates, one per lane, those of the same element one after the other."""
        k, spec = self.k, self.spec
        alone = k.lane + (1 << spec.shift)
        mates = k.match_any(k.where(exists, element, alone), FULL)
        before = k.popc(mates & ((k.const(1, u32) << k.lane) - 1))
        turn = k.var(0, u32)
        with k.loop():
            # What lanes whose turn it is not find there, they do not use.
            (held,) = self.window.load(element, order="relaxed.cta")
            (is_set,) = self.is_set.load(element, order="relaxed.cta")
            with k.when(exists & (before == turn)):
                self.window[element] = k.where(is_set != 0, spec.combine(k, held, value), value)
                self.is_set[element] = k.const(1, u8)
            k.warp_sync()
            k.break_if(~k.any(before > turn))
            turn.set(turn + 1)


def _join(spec: WindowsSpec) -> Kernel:
    k = Builder("update_join", block=BLOCK)
    out, flag, pointer = k.pointer("out", spec.type), k.pointer("flag", u32, "r"), k.pointer("keys", u32, "r")
    parts, flags = k.pointer("parts", spec.type, "r"), k.pointer("flags", u8, "r")
    count, extent, stride = k.scalar("count", u32), k.scalar("extent", i64), k.scalar("stride", i64)
    piece = k.scalar("piece", u32)
    keys = Keys(k, pointer, count, spec.shift)
    cut = k.cast(k.ctaid, u32) + 1
    at = cut * piece
    region = keys.region(pointer[at])
    begin, end = keys.begin(region), keys.begin(region + 1)
    is_first = (end - begin > piece) & (begin < at) & (begin + piece >= at)
    element = k.shl(k.cast(region, i64), spec.shift) + k.cast(k.tid, i64)
    has_one = (k.tid < 1 << spec.shift) & (element < extent)
    with k.when(is_first & has_one & is_clear(k, flag)):
        total = k.var(out[element * stride])
        with k.range(cut, (end - 1) / piece + 1) as number:
            part = (k.cast(number, i64) << spec.shift) + k.cast(k.tid, i64)
            with k.when(flags[part] != 0):
                total.set(spec.combine(k, total.get(), parts[part]))
        out[element * stride] = total.get()
    return k.build()


__all__ = ["WindowsSpec", "make", "update"]
