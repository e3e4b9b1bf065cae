"""Updates at indices in order: ``array[index] = combine(array[index], values)``, of equal indices one after the other.

Data layout: an array along one axis of any stride, an index and a value per update. Algorithm: `keys` resolves
indices; keys and values are sorted, which keeps the order of equal keys; `segments` combines the values of each key
in order, from shared memory, and `joined` the parts of keys whose values lie in several tiles. Who owns what: a block
of `segments` a tile of `TILE` sorted values, a thread the keys that begin at its places; a thread of `joined` the
key that begins in its tile and goes on in the next one. A key that lies in one tile is combined as NumPy does, one
value after the other, others in parts of a tile each: the order depends on the data alone, so that the same input gives
the same bits. Bytes per update: index, key twice and value, both again in every pass of the sort, then the element.
Where there are about as many updates as elements, `windows` takes fewer passes; many sums are found by `sums`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.index import regions, sums, windows
from oxinp._kernels.index.loops import BLOCK, UNROLL, is_clear, report, resolve
from oxinp._kernels.plan import Argument, Fill, Launch, Plan, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._kernels.sort.plan import sort_pairs
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.value import Value

ITEMS = 4
TILE = BLOCK * ITEMS
MAX_ELEMENTS_EACH = 4  # per update, up to which regions of the array are gone through whole
SORTED_NBYTES = (4, 8)  # of values that are sorted with their keys; of others the places are

Combine = Callable[[Any, Any, Any], Any]


class KeysSpec(Frozen):
    """The kernel that resolves indices.

    Attributes
    ----------
    index_type, key : Type
    """

    index_type: Type
    key: Type


class OrderedSpec(Frozen):
    """A kernel of `segments` or of `joined`.

    Attributes
    ----------
    type, key : Type
        Of elements and of sorted keys.
    combine : callable
        ``combine(k, x, y)``.
    place : Type or None
        Of the values' places, where these are sorted instead.
    is_scalar : bool
        There is one value for all, by value, as bits.
    joins : bool
        It is that of `joined`.
    """

    type: Type
    key: Type
    combine: Combine
    place: Type | None
    is_scalar: bool
    joins: bool


def update(
    count: int,
    extent: int,
    stride: int,
    type_: Type,
    index_type: Type,
    combine: Combine,
    device: Device,
    *,
    is_scalar: bool,
    is_sum: bool = False,
) -> Plan:
    """Return the plan of updates in order.

    The output is the array; the inputs are index, values in C order and the address for a report.

    Parameters
    ----------
    count : int
        Of updates.
    extent, stride : int
        Of what is indexed.
    type_, index_type : Type
    combine : callable
        Associative, but for rounding.
    device : Device
    is_scalar : bool
        The second input is a number, given as the bits of an element.
    is_sum : bool
        `combine` adds: the order does not matter if sums are exact, see `sums`.
    """
    shift = sums.shift_of(count, extent, type_, device) if is_sum else None
    if shift is not None:
        return sums.add(count, extent, stride, shift, type_, index_type, is_scalar=is_scalar)
    if regions.has_regions(count, extent) and count * MAX_ELEMENTS_EACH >= extent:
        return windows.update(count, extent, stride, type_, index_type, combine, device, is_scalar=is_scalar)
    key = u32 if extent < 1 << u32.bits else u64
    is_sorted = type_.nbytes in SORTED_NBYTES and not is_scalar
    value = carrier(type_) if is_sorted else None
    pairs = sort_pairs(count, key, value, device)
    place = None if is_sorted else (u32 if count <= 1 << u32.bits else u64)
    num_tiles = -(-count // TILE)
    scratch = Scratch()
    flag, keys = scratch.take(u32.nbytes), scratch.take(count * key.nbytes)
    kept = scratch.take(count * key.nbytes)
    beside = scratch.take(count * (value or place or u32).nbytes)
    partial = [scratch.take(num_tiles * type_.nbytes) for _ in range(2)]
    out, index, values, status = Argument("out0"), Argument("in0"), Argument("in1"), Argument("in2")
    grid = (-(-count // (BLOCK * UNROLL)), 1, 1)
    made = [OrderedSpec(type_, key, combine, place, is_scalar, joins) for joins in (False, True)]
    given = (beside,) if is_sorted else (values,) if is_scalar else (beside, values)
    steps: list[Step] = [
        Fill(flag, u32.nbytes, 0),
        Launch(make(KeysSpec(index_type, key)), grid, (flag, keys, index, status), (count, extent)),
        *pairs.on(out0=kept, out1=beside, in0=keys, in1=values, scratch=scratch.take(pairs.scratch_nbytes)),
        Launch(
            make(made[0]),
            (num_tiles, 1, 1),
            (out, flag, kept, *partial, *given),
            (count, stride),
            Work(nbytes=count * (key.nbytes + type_.nbytes)),
        ),
        Launch(make(made[1]), (-(-num_tiles // BLOCK), 1, 1), (out, flag, kept, *partial), (count, stride)),
    ]
    return scratch.plan(steps)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: KeysSpec | OrderedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    if isinstance(spec, KeysSpec):
        return _keys(spec)
    return _joined(spec) if spec.joins else _segments(spec)


def _keys(spec: KeysSpec) -> Kernel:
    k = Builder("index_keys", block=BLOCK)
    flag, keys = k.pointer("flag", u32), k.pointer("keys", spec.key, "w")
    index, status = k.pointer("index", spec.index_type, "r"), k.scalar("status", u64)
    count, extent = k.scalar("count", i64), k.scalar("extent", i64)
    first = k.cast(k.ctaid, i64) * (BLOCK * UNROLL) + k.cast(k.tid, i64)
    numbers = [first + BLOCK * i if i else first for i in range(UNROLL)]
    raw = [index[k.min(number, count - 1)] for number in numbers]
    for number, value in zip(numbers, raw, strict=True):
        at, is_beyond = resolve(k, value, extent, i64.bits)
        with k.when(is_beyond):
            flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
            report(k, status, value)
        with k.when(number < count):
            keys[number] = k.cast(k.where(is_beyond, k.const(0, i64), at), spec.key)
    return k.build()


def _segments(spec: OrderedSpec) -> Kernel:
    k = Builder("index_segments", block=BLOCK)
    out, flag, keys = k.pointer("out", spec.type), k.pointer("flag", u32, "r"), k.pointer("keys", spec.key, "r")
    heads, tails = k.pointer("heads", spec.type, "w"), k.pointer("tails", spec.type, "w")
    places = None if spec.place is None or spec.is_scalar else k.pointer("places", spec.place, "r")
    single = k.bitcast(k.scalar("value", carrier(spec.type)), spec.type) if spec.is_scalar else None
    values: Any = None if spec.is_scalar else k.pointer("values", spec.type, "r")
    count, stride = k.scalar("count", i64), k.scalar("stride", i64)
    own_keys = k.shared(spec.key, TILE)
    own_values: Any = None if values is None else k.shared(spec.type, TILE)
    begin = k.cast(k.ctaid, i64) * TILE
    size = k.cast(k.min(count - begin, TILE), u32)
    before = keys[k.max(begin, 1) - 1]
    behind = keys[k.min(begin + TILE, count - 1)]
    with k.when(is_clear(k, flag)):
        for place in [k.tid + i * BLOCK for i in range(ITEMS)]:
            with k.when(place < size):
                here = begin + k.cast(place, i64)
                own_keys[place] = keys[here]
                if own_values is not None:
                    own_values[place] = values[here if places is None else k.cast(places[here], i64)]
        k.barrier()
        for place in [k.tid + i * BLOCK for i in range(ITEMS)]:
            with k.when(place < size):
                key = own_keys[place]
                is_first = (place == 0) | (own_keys[k.max(place, 1) - 1] != key)
                with k.when(is_first):
                    comes = (place == 0) & (begin > 0) & (before == key)
                    total = k.var(single if single is not None else own_values[place])
                    with k.when(~comes):
                        total.set(spec.combine(k, out[_offset(k, key, stride)], total.get()))
                    at = k.var(place + 1)
                    with k.loop():
                        k.break_if((at >= size) | (own_keys[k.min(at, size - 1)] != key))
                        value = single if single is not None else own_values[at.get()]
                        total.set(spec.combine(k, total.get(), value))
                        at.set(at + 1)
                    goes = (at == size) & (begin + TILE < count) & (behind == key)
                    with k.when(comes):
                        heads[k.ctaid] = total.get()
                    with k.when(~comes & goes):
                        tails[k.ctaid] = total.get()
                    with k.when(~comes & ~goes):
                        out[_offset(k, key, stride)] = total.get()
    return k.build()


def _offset(k: Builder, key: Value, stride: Value) -> Value:
    return k.cast(key, i64) * stride


def _joined(spec: OrderedSpec) -> Kernel:
    k = Builder("index_joined", block=BLOCK)
    out, flag, keys = k.pointer("out", spec.type, "w"), k.pointer("flag", u32, "r"), k.pointer("keys", spec.key, "r")
    heads, tails = k.pointer("heads", spec.type, "r"), k.pointer("tails", spec.type, "r")
    count, stride = k.scalar("count", i64), k.scalar("stride", i64)
    tile = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    begin, end = tile * TILE, (tile + 1) * TILE
    with k.when((end < count) & is_clear(k, flag)):
        key = keys[end - 1]
        begins = (keys[begin] != key) | (begin == 0) | (keys[k.max(begin, 1) - 1] != key)
        with k.when(begins & (keys[end] == key)):
            total, at = k.var(tails[tile]), k.var(tile + 1)
            with k.loop():
                total.set(spec.combine(k, total.get(), heads[at.get()]))
                following = (at + 1) * TILE
                k.break_if((following >= count) | (keys[k.min(following, count - 1)] != key))
                at.set(at + 1)
            out[_offset(k, key, stride)] = total.get()
    return k.build()


__all__ = ["KeysSpec", "OrderedSpec", "make", "update"]
