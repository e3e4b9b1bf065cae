"""Elements by index: what `numpy.take` reads, and the elements of an array that a mask chooses.

Data layout: everything in C order. `take` sees the array as (outer, extent, inner), the result as (outer, count,
inner); a unit is `vector` inner elements, and the units of the result are numbered in order. `select` sees one
dimension; the cumulative sum of the mask says where a chosen element goes. Who owns what: a block copies `BLOCK *
UNROLL` consecutive units or elements, a thread every `BLOCK`-th of them, all loaded before the first is stored. Bytes
per element of the result: index, element twice; per element of the mask: itself, the sum and the element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Splitter
from oxinp._kernels.elementwise.plan import MAX_INDEX_32
from oxinp._kernels.plan import Launch, Plan, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import i32, i64, pred

if TYPE_CHECKING:
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value

BLOCK = 256
UNROLL = 4
MAX_VECTOR_NBYTES = 16


class TakeSpec(Frozen):
    """One kernel of `take`.

    Attributes
    ----------
    type, index_type : Type
        Of elements, and of their indices.
    vector : int
        Elements per unit.
    bits : int
        32 where every distance in elements fits, else 64.
    """

    type: Type
    index_type: Type
    vector: int
    bits: int


class SelectSpec(Frozen):
    """One kernel of `select`.

    Attributes
    ----------
    type : Type or None
        Of elements; None for their numbers, i64.
    position_type : Type
        Of the cumulative sum.
    """

    type: Type | None
    position_type: Type


def take(outer: int, extent: int, inner: int, count: int, type_: Type, index_type: Type, alignment: int) -> Plan:
    """Return the plan of ``result[o, j, i] = array[o, index[j], i]``; the inputs are array and index.

    Parameters
    ----------
    outer, extent, inner : int
        Shape of the array.
    count : int
        Of indices, each from ``-extent`` to ``extent - 1``, which is not checked.
    type_, index_type : Type
    alignment : int
        Of array and result.
    """
    vector = max(1, MAX_VECTOR_NBYTES // type_.nbytes)
    while inner % vector or alignment % (vector * type_.nbytes):
        vector //= 2
    num_units = outer * count * inner // vector
    bits = 32 if outer * inner * max(extent, count) < MAX_INDEX_32 else 64
    spec = TakeSpec(type_, index_type, vector, bits)
    constants = (num_units, extent, inner, count, *Splitter.constants((outer, count, inner // vector), bits))
    grid = (-(-num_units // (BLOCK * UNROLL)), 1, 1)
    return Plan((Launch(make(spec), grid, (*outputs(1), *inputs(2)), constants),))


def select(size: int, type_: Type | None, position_type: Type) -> Plan:
    """Return the plan that compacts the elements with a true mask, or their numbers.

    Parameters
    ----------
    size : int
    type_ : Type or None
        Of elements; the inputs are mask, positions and then, where there is one, the array.
    position_type : Type
        Of the mask's inclusive cumulative sum.
    """
    grid, arguments = (-(-size // (BLOCK * UNROLL)), 1, 1), (*outputs(1), *inputs(2 if type_ is None else 3))
    return Plan((Launch(make(SelectSpec(type_, position_type)), grid, arguments, (size,)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TakeSpec | SelectSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _take(spec) if isinstance(spec, TakeSpec) else _select(spec)


def _numbers(k: Builder, type_: Type, size: Value) -> tuple[list[Value], list[Value]]:
    """The numbers of a thread's elements, clamped to the last one for loads, and which of them exist."""
    first = k.cast(k.ctaid, type_) * (BLOCK * UNROLL) + k.cast(k.tid, type_)
    numbers = [first + BLOCK * i if i else first for i in range(UNROLL)]
    return [k.min(number, size - 1) for number in numbers], [number < size for number in numbers]


def _take(spec: TakeSpec) -> Kernel:
    k = Builder("take", block=BLOCK)
    type_ = i32 if spec.bits == 32 else i64
    out, array, index = (
        k.pointer("out", spec.type, "w"),
        k.pointer("array", spec.type, "r"),
        k.pointer("index", spec.index_type, "r"),
    )
    num_units, extent, inner, count = (k.scalar(name, type_) for name in ("num_units", "extent", "inner", "count"))
    splitter = Splitter(k, "units", 3, type_)
    numbers, valid = _numbers(k, type_, num_units)
    places = [splitter.split(number) for number in numbers]
    found = [k.cast(index[j], type_) for _, j, _ in places]
    found = [k.where(value < 0, value + extent, value) for value in found]
    units = [
        array.load((o * extent + at) * inner + i * spec.vector, spec.vector)
        for (o, _, i), at in zip(places, found, strict=True)
    ]
    for (o, j, i), unit, is_valid in zip(places, units, valid, strict=True):
        with k.when(is_valid):
            out.store((o * count + j) * inner + i * spec.vector, unit)
    return k.build()


def _select(spec: SelectSpec) -> Kernel:
    k = Builder("select", block=BLOCK)
    out = k.pointer("out", spec.type or i64, "w")
    mask, positions = k.pointer("mask", pred, "r"), k.pointer("positions", spec.position_type, "r")
    array = k.pointer("array", spec.type, "r") if spec.type is not None else None
    size = k.scalar("size", i64)
    numbers, valid = _numbers(k, i64, size)
    loaded = [(mask[number], positions[number]) for number in numbers]
    for number, (is_chosen, position), is_valid in zip(numbers, loaded, valid, strict=True):
        with k.when(is_chosen & is_valid):
            out[position - 1] = number if array is None else array[number]
    return k.build()


__all__ = ["SelectSpec", "TakeSpec", "make", "select", "take"]
