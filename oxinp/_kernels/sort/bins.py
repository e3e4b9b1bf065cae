"""Numbers of bins between equidistant edges, an element each: what sums of weights are made by (`numpy.histogram`).

Data layout: elements, edges as `count` takes them, a number of 32 bits per element: that of its bin, or how many there
are where it is in none. Who owns what: a thread an element every grid's worth of them. Algorithm: that of `count`.
Bytes per element: the element and its number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.plan import Argument, Launch, Plan, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.count import estimated
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i32, i64, u32

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

BLOCK = 256
UNROLL = 4
BLOCKS_PER_SM = 8
MAX_BINS = (1 << 31) - 1


class BinsSpec(Frozen):
    """The kernel of a type.

    Attributes
    ----------
    type : Type
        Of elements.
    edge : Type
        f32 or f64: of edges, which elements are compared with as such.
    """

    type: Type
    edge: Type


def bins(size: int, num_bins: int, spec: BinsSpec, device: Device) -> Plan:
    """Return the plan that finds the bins, i32, of the elements of input 0 between the edges of input 1.

    Parameters
    ----------
    size : int
    num_bins : int
        At most `MAX_BINS`.
    spec : BinsSpec
    device : Device
    """
    blocks = min(-(-size // (BLOCK * UNROLL)), BLOCKS_PER_SM * device.num_sms)
    arguments = (Argument("out0"), Argument("in0"), Argument("in1"))
    work = Work(nbytes=size * (spec.type.nbytes + i32.nbytes))
    return Plan((Launch(make(spec), (blocks, 1, 1), arguments, (size, num_bins), work),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: BinsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("bins", block=BLOCK)
    out, elements = k.pointer("out", i32, "w"), k.pointer("elements", spec.type, "r")
    edges = k.pointer("edges", spec.edge, "r")
    size, num_bins = k.scalar("size", i64), k.scalar("num_bins", u32)
    first, last = edges[0], edges[num_bins]
    scale = k.cast(num_bins, spec.edge) / (last - first)
    step = BLOCK * UNROLL
    with k.range(k.cast(k.ctaid, i64) * step + k.cast(k.tid, i64), size, k.cast(k.nctaid, i64) * step) as begin:
        places = [begin + i * BLOCK for i in range(UNROLL)]
        loaded = [k.cast(elements[k.min(place, size - 1)], spec.edge) for place in places]
        for place, x in zip(places, loaded, strict=True):
            found = k.var(num_bins)
            with k.when((x >= first) & (x <= last)):
                found.set(estimated(k, edges, first, scale, num_bins, x))
            with k.when(place < size):
                out[place] = k.cast(found.get(), i32)
    return k.build()


__all__ = ["BinsSpec", "bins", "make"]
