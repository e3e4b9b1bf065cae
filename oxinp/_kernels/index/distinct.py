"""Distinct integers of a narrow range: which of its numbers are there, by a bit each.

Data layout: elements; a bit per number from the least one on, in words of 32 as `select` reads them, zeros before. Who
owns what: a block every grid's worth of elements, `ITEMS` of a thread loaded before the first is used. Algorithm:
`present` sets bits in shared memory, then those of all blocks in memory; `count_words` counts them by region; the
counts are scanned, and read; `select` writes the numbers of the bits. Bytes per element: the element, once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.index.select import BLOCK as COUNT_BLOCK
from oxinp._kernels.index.select import NUM_WARPS, REGION, Chosen, chosen
from oxinp._kernels.plan import Argument, Fill, Launch, Scratch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device

BLOCK = 1024
ITEMS = 8
MAX_SHARED_NBYTES = 128 * 1024


class DistinctSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    type : Type or None
        Of elements: integers; None in the kernel that counts bits by region.
    num_words : int
        Of bits, which the other one sets in shared memory.
    """

    type: Type | None
    num_words: int = 0


def most_numbers(device: Device) -> int:
    """Return the widest range of numbers."""
    return 8 << min(MAX_SHARED_NBYTES, device.max_shared_nbytes).bit_length() - 1


def distinct(size: int, most: int, type_: Type, device: Device, scratch: Scratch) -> Chosen:
    """Return the steps that find the numbers of `size` elements, input 0, counted from the least one, input 1, i64.

    Parameters
    ----------
    size : int
    most : int
        Numbers that there may be, at most `most_numbers`.
    type_ : Type
        Of elements.
    device : Device
    scratch : Scratch
    """
    regions = 1 << (-(-most // REGION) - 1).bit_length()
    words, counts = scratch.take(regions * WARP * u32.nbytes), scratch.take(regions * i64.nbytes)
    blocks = min(-(-size // (BLOCK * ITEMS)), device.num_sms)
    work = Work(nbytes=size * type_.nbytes)
    present = make(DistinctSpec(type_, regions * WARP))
    count = make(DistinctSpec(None))
    steps = (
        Fill(words, regions * WARP * u32.nbytes, 0),
        Launch(present, (blocks, 1, 1), (words, Argument("in0"), Argument("in1")), (size,), work),
        Launch(count, (-(-regions // NUM_WARPS), 1, 1), (words, counts), (regions,)),
    )
    return chosen(steps, words, counts, regions, device, scratch)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: DistinctSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _count() if spec.type is None else _present(spec.type, spec.num_words)


def _present(type_: Type, num_words: int) -> Kernel:
    k = Builder("present", block=BLOCK, min_blocks=1)
    words, elements = k.pointer("words", u32), k.pointer("elements", type_, "r")
    least, size = k.scalar("least", i64), k.scalar("size", i64)
    own = k.dynamic_shared(u32, num_words)
    with k.range(k.tid, num_words, BLOCK) as at_start:
        own[at_start] = 0
    k.barrier()
    share = BLOCK * ITEMS
    with k.range(k.cast(k.ctaid, i64) * share + k.cast(k.tid, i64), size, k.cast(k.nctaid, i64) * share) as first:
        numbers = [first + BLOCK * i if i else first for i in range(ITEMS)]
        for value in [elements[k.min(number, size - 1)] for number in numbers]:  # the last one again does no harm
            number = k.cast(k.cast(value, i64) - least, u32)
            bit, place = k.shl(k.const(1, u32), number & (WARP - 1)), number >> 5
            with k.when((own[place] & bit) == 0):
                own.atomic("or", place, bit, order="relaxed.cta")
    k.barrier()
    with k.range(k.tid, num_words, BLOCK) as at_end:
        found = own[at_end]
        with k.when(found != 0):
            words.atomic("or", at_end, found)
    return k.build()


def _count() -> Kernel:
    k = Builder("count_words", block=COUNT_BLOCK)
    words, counts = k.pointer("words", u32, "r"), k.pointer("counts", i64, "w")
    regions = k.scalar("regions", i64)
    region = k.cast(k.ctaid, i64) * NUM_WARPS + k.cast(k.warp, i64)
    with k.when(region < regions):
        total = k.popc(words[region * WARP + k.cast(k.lane, i64)])
        for distance in (16, 8, 4, 2, 1):
            total = total + k.shfl_bfly(total, distance)
        with k.when(k.lane == 0):
            counts[region] = k.cast(total, i64)
    return k.build()


__all__ = ["DistinctSpec", "distinct", "make", "most_numbers"]
