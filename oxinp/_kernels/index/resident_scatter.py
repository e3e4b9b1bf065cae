"""Writes by index into a vector in one launch, whose blocks wait for each other; of equal indices the last one counts.

Data layout: a vector of any stride, an index and a value per write, values of any stride. Who owns what: a thread has
`items` indices, one of every so many that the grid has threads, and keeps them from the first step to the last.
Algorithm: blocks set claims to zero while indices are loaded and checked; all enter their claims, see `claims`, and
remember where these lie; those whose claims are the last ones store their values. Between the steps all blocks wait for
each other: there are at most as many as multiprocessors. Where an index is out of bounds nothing is written, and it is
reported. Bytes per write: index, value, two claims; the element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.index.claims import Claims, ClaimSpec
from oxinp._kernels.index.loops import report, resolve
from oxinp._kernels.plan import FLAGS, Argument, Launch, Plan, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import carrier
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._kernels.choice import Processors
    from oxinp._kernels.index.claims import ClaimRoom
    from oxinp._ptx.memory import Pointer

BLOCK = 1024
MAX_ITEMS_NBYTES = 64  # of a thread's values
MAX_ITEMS = 4
CLEARED_NBYTES = 16  # that a thread sets to zero at once
ARRIVED, BEYOND = 0, 1
"""Words of the flags: how often blocks have come to a barrier, and whether an index is out of bounds."""


class ResidentScatterSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type, index_type : Type
        Of elements, as bits, and of their indices.
    claim : ClaimSpec
    is_checked : bool
        Indices may be negative or out of bounds.
    items : int
        Indices of a thread.
    """

    type: Type
    index_type: Type
    claim: ClaimSpec
    is_checked: bool
    items: int


def items_of(count: int, nbytes: int, device: Processors) -> int | None:
    """Return how many writes a thread has, of elements of so many bytes; None where it cannot have enough."""
    items = 1
    while items * BLOCK * device.num_sms < count:
        items *= 2
    return items if items <= min(MAX_ITEMS, MAX_ITEMS_NBYTES // nbytes) else None


def scatter(
    count: int, extent: int, stride: int, step: int, type_: Type, index_type: Type, items: int,
    room: ClaimRoom, *, is_checked: bool,
) -> Plan:  # fmt: skip
    """Return the plan of ``array[index] = values``.

    The output is the array; the inputs are index, values and, where indices are checked, the address for a report.

    Parameters
    ----------
    count, extent : int
        Of writes, of the array.
    stride, step : int
        Of the array and of values.
    type_, index_type : Type
    items : int
        See `items_of`.
    room : ClaimRoom
    is_checked : bool
        Indices may be negative or out of bounds.
    """
    scratch = Scratch()
    spec = ResidentScatterSpec(carrier(type_), index_type, room.spec, is_checked, items)
    claims = scratch.take(room.nbytes)
    inputs = (Argument("in0"), Argument("in1"), *((Argument("in2"),) if is_checked else ()))
    work = Work(nbytes=count * (index_type.nbytes + 2 * type_.nbytes))
    grid = (-(-count // (BLOCK * items)), 1, 1)
    constants = (*room.constants, -(-room.nbytes // CLEARED_NBYTES), count, extent, stride, step)
    launch = Launch(make(spec), grid, (Argument("out0"), FLAGS, claims, *inputs), constants, work)
    return scratch.plan([launch])


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: ResidentScatterSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("scatter_resident", block=BLOCK, min_blocks=1)
    out, flags = k.pointer("out", spec.type, "w"), k.pointer("flags", u32)
    claims = Claims(k, spec.claim, "rw")
    index = k.pointer("index", spec.index_type, "r")
    values = k.pointer("values", spec.type, "r")
    status = k.scalar("status", u64) if spec.is_checked else None
    claims.declare()
    num_cleared = k.scalar("num_cleared", i64)
    count, extent, stride, step = (k.scalar(name, i64) for name in ("count", "extent", "stride", "step"))
    first = k.cast(k.ctaid, i64) * BLOCK + k.cast(k.tid, i64)
    threads = k.cast(k.nctaid, i64) * BLOCK
    numbers = [first + threads * i if i else first for i in range(spec.items)]
    raw = [index[k.min(number, count - 1)] for number in numbers]
    words, width = claims.pointer.view(u32), CLEARED_NBYTES // u32.nbytes
    with k.range(first, num_cleared, threads) as unit:
        words.store(unit * width, [k.const(0, u32)] * width)
    places = []
    for each in raw:
        at, is_beyond = resolve(k, each, extent, i64.bits)
        if status is not None:
            with k.when(is_beyond):
                flags.store(BEYOND, [k.const(1, u32)], order="relaxed.gpu")
                report(k, status, each)
            at = k.where(is_beyond, k.const(0, i64), at)
        places.append(at)
    there = [number < count for number in numbers]
    barrier = GridBarrier(k, flags)
    barrier.wait()
    entries = claims.enter_all(places, numbers, there)
    given = [values[k.min(each, count - 1) * step] for each in numbers]
    barrier.wait()
    is_wanted = flags.load(BEYOND, order="relaxed.gpu")[0] == 0
    last = claims.are_last(entries, numbers)
    for at, value, is_there, is_last in zip(places, given, there, last, strict=True):
        with k.when(is_there & is_last & is_wanted):
            out[at * stride] = value
    barrier.leave(BEYOND)
    return k.build()


class GridBarrier:
    """A barrier of all blocks of a grid, which are all resident.

    Parameters
    ----------
    k : Builder
    flags : Pointer
        Words of zeros, which `leave` makes zeros again; word `ARRIVED` counts blocks.
    """

    def __init__(self, k: Builder, flags: Pointer) -> None:
        self.k, self.flags, self.times = k, flags, 0

    def wait(self) -> None:
        """Wait for all blocks, and see what they have written."""
        k = self.k
        self.times += 1
        k.barrier()
        with k.when(k.tid == 0):
            k.fence("gpu")
            self.flags.atomic("add", ARRIVED, 1)
            with k.loop():
                k.break_if(self.flags.load(ARRIVED, order="acquire.gpu")[0] >= k.nctaid * self.times)
            k.fence("gpu")
        k.barrier()

    def leave(self, *others: int) -> None:
        """Have the last block that comes here make the flags zeros, those of some numbers, too."""
        k = self.k
        k.barrier()
        with k.when(k.tid == 0):
            before = self.flags.atomic("add", ARRIVED, 1)
            with k.when(before == k.nctaid * (self.times + 1) - 1):
                for number in (ARRIVED, *others):
                    self.flags.store(number, [k.const(0, u32)], order="relaxed.gpu")


__all__ = ["GridBarrier", "ResidentScatterSpec", "items_of", "make", "scatter"]
