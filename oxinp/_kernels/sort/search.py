"""Places in a sorted vector: a binary search per value.

Data layout: the sorted elements, the values, a result per value. Who owns what: a block every grid's worth of values, a
thread `UNROLL` of them, searched side by side. Algorithm: halves of the same lengths for all values, so that no lane
waits for another one; order is that of `words`. Bytes per value: the value and its place; elements are read from the
caches, about log2(n) each. Many real values are searched in a tree instead, see `search_tree`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oxinp._kernels.plan import Argument, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort import search_tree
from oxinp._kernels.sort.keys import carrier, words
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

BLOCK = 256
UNROLL = 2


class SearchSpec(Frozen):
    """The kernel of a type.

    Attributes
    ----------
    type : Type
        Of elements and values.
    is_right : bool
        Behind elements that are equal to the value, not before them.
    """

    type: Type
    is_right: bool


def search(size: int, count: int, type_: Type, device: Device, *, is_right: bool) -> Plan:
    """Return the plan that finds the places, i64, of `count` values, input 1, among `size` sorted elements, input 0.

    Parameters
    ----------
    size, count : int
        At least 1 each.
    type_ : Type
    device : Device
    is_right : bool
    """
    tree = search_tree.spec_of(size, count, type_, device, is_right=is_right)
    if tree is not None:
        return search_tree.search(size, count, tree, device)
    arguments = (Argument("out0"), Argument("in0"), Argument("in1"))
    work = Work(nbytes=size * type_.nbytes + count * (type_.nbytes + i64.nbytes))
    grid = (-(-count // (BLOCK * UNROLL)), 1, 1)
    return Plan((Launch(make(SearchSpec(type_, is_right)), grid, arguments, (size, count), work),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SearchSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("sort_search", block=BLOCK)
    bits = carrier(spec.type)
    out = k.pointer("out", i64, "w")
    elements, values = k.pointer("elements", bits, "r"), k.pointer("values", bits, "r")
    size, count = (k.scalar(name, i64) for name in ("size", "count"))
    first = k.cast(k.ctaid, i64) * (BLOCK * UNROLL) + k.cast(k.tid, i64)
    numbers = [first + BLOCK * i if i else first for i in range(UNROLL)]
    wanted = [_key(k, values[k.min(number, count - 1)], spec.type) for number in numbers]
    for number, place in zip(numbers, _search(k, elements, size, wanted, spec), strict=True):
        with k.when(number < count):
            out[number] = place
    return k.build()


def _search(k: Builder, elements: Pointer, size: Value, wanted: list[Any], spec: SearchSpec) -> list[Value]:
    """Return the places of keys."""
    ends = [k.var(k.const(0, i64)) for _ in wanted]
    left = k.var(size)
    with k.loop():
        k.break_if(left <= 0)
        half = k.shr(left + 1, 1)
        places = [end + (half - 1) for end in ends]
        found = [elements[k.min(place, size - 1)] for place in places]
        for end, place, value, key in zip(ends, places, found, wanted, strict=True):
            is_behind = (place < size) & _goes_behind(_key(k, value, spec.type), key, spec)
            end.set(k.where(is_behind, end + half, end))
        left.set(left - half)
    return [end.get() for end in ends]


def _key(k: Builder, bits: Value, type_: Type) -> tuple[Value, ...]:
    """Words of an element, u32 or u64, the most significant first."""
    parts = words(k, bits, type_)
    pairs = [k.pack(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
    return (*parts[len(pairs) * 2 :], *pairs[::-1])


def _goes_behind(element: tuple[Value, ...], wanted: tuple[Value, ...], spec: SearchSpec) -> Value:
    """Whether a value has its place behind an element: this is less, or not greater."""
    a, b = element, wanted
    result = a[-1] <= b[-1] if spec.is_right else a[-1] < b[-1]
    for x, y in zip(a[-2::-1], b[-2::-1], strict=True):
        result = (x < y) | ((x == y) & result)
    return result


__all__ = ["SearchSpec", "make", "search"]
