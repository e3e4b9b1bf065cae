"""Writes by index into arrays that no cache holds, sorted first; of equal indices the last one counts.

Data layout: an array of any stride, an index per write, a value each or one for all. Algorithm: writes are sorted by
region, see `regions`; then a region's are compared in shared memory, by the place of the last one that names an
element, and its elements are written side by side. Who owns what: a block of `latest` a region. It looks at the last
writes first, so that most of the others need no atomic. Where an index is out of bounds nothing is written. Bytes per
write: those of the sort, then key and value; the element.
"""

from __future__ import annotations

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
from oxinp._ptx.types import Type, i32, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

MOST = 11  # of a region's elements, as a power of two: 8 KB of places
AT_ONCE = 4  # keys that a thread loads before it looks at the first
SORTED_NBYTES = (4, 8)  # of values that are sorted with their keys; of others the places are


class LatestSpec(Frozen):
    """The kernel that writes regions.

    Attributes
    ----------
    type : Type
        Of elements, as bits.
    shift : int
        Elements of a region, as a power of two.
    has_places : bool
        What goes with keys are the places of values.
    is_scalar : bool
        There is one value for all, by value.
    """

    type: Type
    shift: int
    has_places: bool
    is_scalar: bool


def latest(
    count: int, extent: int, stride: int, type_: Type, index_type: Type, device: Device, *, is_scalar: bool,
    most: int = MOST,
) -> Plan:  # fmt: skip
    """Return the plan of ``array[index] = values``.

    The output is the array; the inputs are index, values in C order and the address for a report.

    Parameters
    ----------
    count : int
        Of writes.
    extent, stride : int
        Of the array.
    type_, index_type : Type
    device : Device
    is_scalar : bool
        The second input is a number, given as the bits of an element.
    most : int
        Of a region's elements, as a power of two.
    """
    type_, scratch = carrier(type_), Scratch()
    regions = regions_of(extent, most)
    has_places = not is_scalar and type_.nbytes not in SORTED_NBYTES
    value = None if is_scalar or has_places else type_
    ordered = sort_by_region(count, extent, regions, index_type, value, device, scratch, has_places=has_places)
    spec = LatestSpec(type_, regions.shift, has_places, is_scalar)
    values = Argument("in1")
    given = (values,) if is_scalar else (ordered.beside, values) if has_places else (ordered.beside,)
    work = Work(nbytes=count * (u32.nbytes + 2 * type_.nbytes))
    arguments = (Argument("out0"), ordered.flag, ordered.keys, *given)
    launch = Launch(make(spec), (regions.number, 1, 1), arguments, (count, stride), work)
    return scratch.plan([*ordered.steps, launch])


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: LatestSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("scatter_latest", block=BLOCK)
    out, flag, pointer = k.pointer("out", spec.type, "w"), k.pointer("flag", u32, "r"), k.pointer("keys", u32, "r")
    places = k.pointer("places", u32, "r") if spec.has_places else None
    values: Any = k.scalar("value", spec.type) if spec.is_scalar else k.pointer("values", spec.type, "r")
    count, stride = k.scalar("count", u32), k.scalar("stride", i64)
    keys = Keys(k, pointer, count, spec.shift)
    size = 1 << spec.shift
    claims, bounds = k.shared(u32, size), k.shared(u32, 2)
    with k.range(k.tid, size, BLOCK) as slot:
        claims[slot] = 0
    with k.when(k.warp < 2):
        found = keys.begin(k.cast(k.ctaid, u32) + k.warp)
        with k.when(k.lane == 0):
            bounds[k.warp] = found
    k.barrier()
    begin, end = bounds[0], bounds[1]
    with k.when((begin < end) & is_clear(k, flag)):
        own = pointer.at(k.cast(begin, i64))
        at = k.var(k.cast(end - begin, i32) - 1 - k.cast(k.tid, i32))
        with k.loop():
            k.break_if(at < 0)
            here = [k.max(at - i * BLOCK, 0) if i else at.get() for i in range(AT_ONCE)]
            for place, key in zip(here, [own[place] for place in here], strict=True):
                element, claim = keys.element(key), k.cast(place, u32) + 1
                with k.when(claims[element] < claim):
                    claims.atomic("max", element, claim, order="relaxed.cta")
            at.set(at - AT_ONCE * BLOCK)
        k.barrier()
        first = k.shl(k.cast(k.ctaid, i64), spec.shift)
        with k.range(k.tid, size, BLOCK) as element:
            claim = claims[element]
            with k.when(claim != 0):
                last = k.cast(begin + claim - 1, i64)
                if spec.is_scalar:
                    value = values
                else:
                    value = values[last] if places is None else values[k.cast(places[last], i64)]
                out[(first + k.cast(element, i64)) * stride] = value
    return k.build()


__all__ = ["LatestSpec", "latest", "make"]
