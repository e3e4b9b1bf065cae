"""Elements by index: what `numpy.take` and `numpy.take_along_axis` read.

Data layout: `take` reads an array of any strides, seen as loops outside the index, the index and loops inside, and
writes in C order; a unit is `vector` innermost elements, and units are numbered in the order of the result.
`take_along` has an index for each element of the result, of any strides along the same loops; its blocks go down the
columns of a strip before they begin the next one, so that what they read lies in caches. An epilogue makes results of
elements before they are stored; its arrays lie as the result does, or are one element. Who owns what: a block copies
`BLOCK * UNROLL` consecutive units, a thread every `BLOCK`-th of them, all loaded before the first is stored. An index
that is out of bounds is taken for 0 and reported. Bytes per element of the result: index, element twice.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.gemm.epilogue import BoundEpilogue, Epilogue, EpilogueSpec, bind
from oxinp._kernels.index import grouped_take
from oxinp._kernels.index.loops import BLOCK, UNROLL, BoundLoops, Loop, LoopsSpec, loops_of, report, resolve
from oxinp._kernels.nest import MAX_INDEX_32
from oxinp._kernels.plan import Again, Launch, Plan, Work, inputs, outputs
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._ptx.value import Value

MAX_NBYTES = 16  # that a thread loads or stores at once
ALONG_WIDTH = 2  # neighbouring results of a thread that has indices along the innermost axis


class TakeSpec(Frozen):
    """One kernel of `take`.

    Attributes
    ----------
    type, index_type : Type
        Of elements, as bits, and of their indices.
    loops : LoopsSpec
    is_checked : bool
        Indices may be negative or out of bounds.
    is_along : bool
        Every element has an index of its own.
    finish : tuple of (EpilogueSpec, Type) or None
        What is made of elements, and the type of that; elements then have their own type.
    """

    type: Type
    index_type: Type
    loops: LoopsSpec
    is_checked: bool
    is_along: bool = False
    finish: tuple[EpilogueSpec, Type] | None = None


class Finish(NamedTuple):
    """What is made of elements by index.

    Attributes
    ----------
    epilogue : Epilogue
        Its arrays have one stride each, 1 or 0, along the elements of the result.
    type : Type
        Of the result.
    """

    epilogue: Epilogue
    type: Type

    @property
    def spec(self) -> tuple[EpilogueSpec, Type]:
        """What a kernel's code depends on."""
        return bind(self.epilogue, [x.strides for x in self.epilogue.arrays])[0], self.type

    def widest(self, type_: Type) -> int:
        """Bytes of the widest elements, given the type of those by index."""
        return max([x.type.nbytes for x in self.epilogue.arrays] + [type_.nbytes, self.type.nbytes])

    @property
    def alignments(self) -> tuple[int, ...]:
        """Of the arrays that are read along the result."""
        return tuple([x.alignment for x in self.epilogue.arrays if any(x.strides)])


def take(
    outer: Sequence[Loop],
    index: Loop,
    inner: Sequence[Loop],
    extent: int,
    type_: Type,
    index_type: Type,
    alignment: int,
    *,
    is_checked: bool,
    finish: Finish | None = None,
    may_group: bool = True,
) -> Plan:
    """Return the plan of ``result[o, j, i] = array[o, index[j], i]``; the inputs are array and index.

    Parameters
    ----------
    outer, inner : sequence of Loop
        Loops of the array outside of what is indexed and inside.
    index : Loop
        How many indices, and the stride of what is indexed.
    extent : int
        Of what is indexed.
    type_, index_type : Type
    alignment : int
        Of the array, in bytes.
    is_checked : bool
        Whether indices may be negative or out of bounds; the third input is then the address for a report.
    finish : Finish, optional
        What is made of elements; its inputs follow.
    may_group : bool
        Whether many indices of a vector may be grouped first, see `grouped_take`, which takes workspace.
    """
    if may_group and is_checked and finish is None and all(loop[0] == 1 for loop in (*outer, *inner)):
        shift = grouped_take.shift_of(index[0], extent, type_.nbytes)
        if shift is not None:
            return grouped_take.take(index[0], extent, index[1], shift, type_, index_type)
    widest = type_.nbytes if finish is None else finish.widest(type_)
    alignments = (alignment, *(() if finish is None else finish.alignments))
    loops = loops_of(outer, index, inner, extent, widest, alignments)
    own = carrier(type_) if finish is None else type_
    spec = TakeSpec(own, index_type, loops.spec, is_checked, finish=None if finish is None else finish.spec)
    constants = (*loops.constants, extent) if is_checked else loops.constants
    work = Work(nbytes=2 * loops.num_units * loops.spec.vector * type_.nbytes + index[0] * index_type.nbytes)
    num_inputs = (3 if is_checked else 2) + (0 if finish is None else len(finish.epilogue.inputs))
    arguments = (*outputs(1), *inputs(num_inputs))
    return Plan((Launch(make(spec), loops.grid, arguments, constants, work),))


def take_again(kernel: Kernel, count: int, stride: int, extent: int, nbytes: int, *, is_checked: bool) -> Again | None:
    """Return how the kernel of `take` runs on a vector for other sizes, by arithmetic alone; None where another does.

    Parameters
    ----------
    kernel : Kernel
        Of a plan of `take` whose numbers have 32 bits.
    count : int
        Of indices.
    stride, extent : int
        Of the vector.
    nbytes : int
        Of an element.
    is_checked : bool
        See `take`.
    """
    if max(count, extent, abs(stride) * max(count, extent)) >= MAX_INDEX_32:
        return None
    if is_checked and grouped_take.shift_of(count, extent, nbytes) is not None:
        return None
    grid = (-(-count // (BLOCK * UNROLL)), 1, 1)
    return kernel, grid, (count, stride, extent) if is_checked else (count, stride)


def take_along(
    outer: Sequence[Loop], index: Loop, inner: Sequence[Loop], extent: int, type_: Type, index_type: Type,
    finish: Finish | None = None, *, index_alignment: int = 1,
) -> Plan:  # fmt: skip
    """Return the plan of ``result[o, j, i] = array[o, index[o, j, i], i]``.

    The inputs are array, index and the address for a report.

    Parameters
    ----------
    outer, inner : sequence of Loop
        Strides of the array, then of the index.
    index : Loop
        Indices along the axis, the stride of what is indexed, and that of the index.
    extent : int
        Of what is indexed.
    type_, index_type : Type
    finish : Finish, optional
        See `take`.
    index_alignment : int, optional
        In bytes.
    """
    width = 1 if finish is not None else _width_of(outer, index, inner, type_, index_type, index_alignment)
    loops = loops_of(outer, index, inner, extent, type_.nbytes, (1, 1), width)
    own, made = (carrier(type_), None) if finish is None else (type_, finish.spec)
    spec = TakeSpec(own, index_type, loops.spec, is_checked=True, is_along=True, finish=made)
    work = Work(nbytes=loops.num_units * width * (2 * type_.nbytes + index_type.nbytes))
    strips, remainder = divmod(math.prod([loop[0] for loop in inner]), BLOCK * loops.spec.unroll)
    turned = (index[0], strips) if strips and not remainder else (1, 1)
    constants = (*loops.constants, extent, *turned)
    arguments = (*outputs(1), *inputs(3 + (0 if finish is None else len(finish.epilogue.inputs))))
    return Plan((Launch(make(spec), loops.grid, arguments, constants, work),))


def _width_of(
    outer: Sequence[Loop], index: Loop, inner: Sequence[Loop], type_: Type, index_type: Type, alignment: int
) -> int:
    """Return how many neighbouring results of `take_along` a thread has, whose indices are loaded together."""
    if index[2] != 1 or any(loop[0] != 1 for loop in inner):
        return 1
    width = min(ALONG_WIDTH, MAX_NBYTES // type_.nbytes)
    while width > 1:
        together = min(width, MAX_NBYTES // index_type.nbytes)
        is_even = not any(loop[2] % together for loop in outer if loop[0] > 1)
        if is_even and not index[0] % width and not alignment % (together * index_type.nbytes):
            break
        width //= 2
    return max(1, width)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: TakeSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("take_along" if spec.is_along else "take", block=BLOCK)
    result = spec.type if spec.finish is None else spec.finish[1]
    out, array = k.pointer("out", result, "w"), k.pointer("array", spec.type, "r")
    index = k.pointer("index", spec.index_type, "r")
    status = k.scalar("status", u64) if spec.is_checked else None
    epilogue = None if spec.finish is None else BoundEpilogue(k, spec.finish[0])
    loops = BoundLoops(k, spec.loops, 1 + spec.is_along)
    extent = k.scalar("extent", i64) if status is not None else None
    numbers, valid, places = loops.units(_turned(k) if spec.is_along else None)
    width = spec.loops.width
    first_indices = [loops.offset(1, place) if spec.is_along else loops.index_of(place) for place in places]
    raw = [value for first in first_indices for value in _loaded(index, first, width)]
    each_place = [place for place in places for _ in range(width)]
    if status is None or extent is None:
        found = [k.cast(value, spec.loops.type) for value in raw]
    else:
        resolved = [resolve(k, value, extent, spec.loops.bits) for value in raw]
        for value, (_, is_beyond) in zip(raw, resolved, strict=True):
            with k.when(is_beyond):
                report(k, status, value)
        found = [k.where(is_beyond, k.const(0, at.type), at) for at, is_beyond in resolved]
    vector = spec.loops.vector
    units: list[Sequence[Value]]
    units = [array.load(loops.offset(0, place, at), vector) for place, at in zip(each_place, found, strict=True)]
    if width > 1:
        units = [[value for unit in units[i : i + width] for value in unit] for i in range(0, len(units), width)]
    for number, unit, is_valid in zip(numbers, units, valid, strict=True):
        with k.when(is_valid):
            first = number * (vector * width)
            made = unit if epilogue is None else epilogue.apply(unit, epilogue.at((first,)).load(vector), result)
            out.store(first, made)
    return k.build()


def _loaded(index: Any, first: Value, width: int) -> list[Value]:
    """Neighbouring indices."""
    together = min(width, MAX_NBYTES // index.type.nbytes)
    if together == 1:
        return [index[first + i if i else first] for i in range(width)]
    return [value for i in range(0, width, together) for value in index.load(first + i if i else first, together)]


def _turned(k: Builder) -> Value:
    """The number of a block where those of the same columns follow each other, whose elements caches hold meanwhile."""
    rows, strips = k.scalar("rows", u32), k.scalar("strips", u32)
    block = k.cast(k.ctaid, u32)
    matrix = block / (rows * strips)
    rest = block - matrix * (rows * strips)
    strip = rest / rows
    number: Value = matrix * (rows * strips) + (rest - strip * rows) * strips + strip
    return number


__all__ = ["Finish", "TakeSpec", "make", "take", "take_again", "take_along"]
