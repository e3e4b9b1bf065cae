"""Sorts of rows of up to a few hundred elements: a bitonic network over the lanes and registers of a warp.

Data layout: rows of elements, one after the other. Who owns what: `lanes` lanes a row, each `items` elements that end
up side by side. Algorithm: elements become words in NumPy's order with their place in the row behind, so that no two
are equal and the network is as good as stable; each merge begins with the mirrored halves, so that all comparisons
point the same way; distances below `items` stay in a thread, others are shuffles. The result is read again at the
places that come out. Bytes per element: the element, read and written (read again from the first-level cache), or the
place, written.

Source: Batcher, Sorting networks and their applications, AFIPS 1968.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier, largest, words
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

BLOCK = 128
MAX_ITEMS = 8
MAX_LENGTH = WARP * MAX_ITEMS
PLACE_BITS = 16

Key = tuple["Value", ...]
"""Words of a key with its place, u32 or u64, the most significant first."""


class NetworkSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type
        Of elements.
    result : Type or None
        Of places, where these are wanted instead of elements.
    lanes, items : int
        Powers of two, at most those of a warp and `MAX_ITEMS`.
    is_descending : bool
        The greatest elements come first, NaNs last.
    """

    type: Type
    result: Type | None
    lanes: int
    items: int
    is_descending: bool = False


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: NetworkSpec) -> Kernel:
    """Build the kernel of a Spec; parameters are result, elements, number of rows, their length."""
    k = Builder("sort_network", block=BLOCK)
    bits = carrier(spec.type)
    out = k.pointer("out", bits if spec.result is None else spec.result, "w")
    elements = k.pointer("elements", bits, "r")
    num_rows, length = k.scalar("num_rows", i64), k.scalar("length", u32)
    lane = k.lane & (spec.lanes - 1)
    number = k.cast(k.ctaid, i64) * (BLOCK // spec.lanes) + k.cast(k.tid / spec.lanes, i64)
    # Lanes without a row sort the last one and store nothing: all lanes of a warp have to go the same way.
    origin = k.min(number, num_rows - 1) * k.cast(length, i64)
    source, target = elements.at(origin), out.at(origin)
    places = [lane + i * spec.lanes if i else lane for i in range(spec.items)]
    loaded = [source[k.min(place, length - 1)] for place in places]
    last = largest(k, spec.type, spec.is_descending)
    keys = [
        _key(k, k.where(place < length, value, last), place, spec) for place, value in zip(places, loaded, strict=True)
    ]
    sorted_places = [_place(k, key, spec.type) for key in sort_registers(k, keys, lane, spec.lanes, spec.items)]
    # Behind the last element nothing is read: what stands there is never stored.
    wanted = [k.min(place, length - 1) for place in sorted_places]
    results = [source[place] if spec.result is None else k.cast(place, spec.result) for place in wanted]
    has_row = number < num_rows
    for i, result in enumerate(results):
        here = lane * spec.items + i
        with k.when(has_row & (here < length)):
            target[here] = result
    return k.build()


def _key(k: Builder, bits: Value, place: Value, spec: NetworkSpec) -> Key:
    """The words of an element, two at a time, the place last."""
    parts = words(k, bits, spec.type, spec.is_descending)
    if len(parts) == 1 and spec.type.nbytes * 8 <= PLACE_BITS:
        return ((parts[0] << PLACE_BITS) | place,)
    parts = [place, *parts]
    pairs = [k.pack(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
    return (*parts[len(pairs) * 2 :], *pairs[::-1])


def _place(k: Builder, key: Key, type_: Type) -> Value:
    if key[-1].type is u64:
        place: Value = k.unpack(key[-1])[0]
        return place
    assert type_.nbytes * 8 <= PLACE_BITS
    return key[-1] & ((1 << PLACE_BITS) - 1)


def _less(a: Key, b: Key) -> Value:
    """Whether a key is less than another one."""
    result = a[-1] < b[-1]
    for x, y in zip(a[-2::-1], b[-2::-1], strict=True):
        result = (x < y) | ((x == y) & result)
    return result


def _chosen(k: Builder, predicate: Value, a: Key, b: Key) -> Key:
    return tuple(k.where(predicate, x, y) for x, y in zip(a, b, strict=True))


def sort_registers(k: Builder, keys: list[Key], lane: Value, lanes: int, items: int) -> list[Key]:
    """Sort the keys of a group of lanes; element i of a lane is number ``lane * items + i``."""
    size = 2
    while size <= lanes * items:
        keys = _step(k, keys, lane, size - 1, items)
        stride = size // 4
        while stride:
            keys = _step(k, keys, lane, stride, items)
            stride //= 2
        size *= 2
    return keys


def _step(k: Builder, keys: list[Key], lane: Value, distance: int, items: int) -> list[Key]:
    """Order each element and the one whose number is its own xor `distance`, the smaller one first."""
    within, across = distance % items, distance // items
    result = list(keys)
    if not across:
        for i in range(items):
            j = i ^ within
            if i < j:
                swaps = _less(keys[j], keys[i])
                result[i], result[j] = _chosen(k, swaps, keys[j], keys[i]), _chosen(k, swaps, keys[i], keys[j])
        return result
    is_upper = (lane & ((across + 1) // 2 if across & (across + 1) == 0 else across)) != 0
    move = partial(k.shfl_bfly, lane=across)
    for i in range(items):
        other = tuple(move(word) for word in keys[i ^ within])
        result[i] = _chosen(k, _less(other, keys[i]) ^ is_upper, other, keys[i])
    return result


__all__ = ["BLOCK", "MAX_ITEMS", "MAX_LENGTH", "NetworkSpec", "make", "sort_registers"]
