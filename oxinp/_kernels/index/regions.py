"""Updates sorted by the region of the array that they go to: neighbouring elements that a block or a warp has room for.

Data layout: an index per update; afterwards a word per update, in which the number of the region is below that of the
element in it, and what goes with it. Who owns what: a block of `keys` a share of the indices. Algorithm: `keys`
resolves indices, reports those that are out of bounds, and counts the digits of regions; as many passes of a radix sort
follow as regions have digits, so that updates of one region keep their order. Bytes per update: index and word once,
word and what goes with it twice in every pass.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.index.loops import BLOCK, UNROLL, report, resolve
from oxinp._kernels.plan import Argument, Fill, Launch, Scratch, Step, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._kernels.sort.keys import DIGIT_BITS, NUM_BINS
from oxinp._kernels.sort.plan import MAX_LENGTH_32, sort_counted
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device
    from oxinp._ptx.memory import Pointer
    from oxinp._ptx.value import Value

COPIES = 8  # of counters, which lanes take in turns
BLOCKS_PER_SM = 6


class RegionKeysSpec(Frozen):
    """The kernel that makes and counts keys.

    Attributes
    ----------
    index_type : Type
    digits : int
        Of numbers of regions.
    """

    index_type: Type
    digits: int


class Regions(NamedTuple):
    """How an array is cut into regions.

    Attributes
    ----------
    shift : int
        Elements of a region, as a power of two.
    digits : int
        Of numbers of regions, 8 bits each.
    number : int
        Of regions.
    """

    shift: int
    digits: int
    number: int


def regions_of(extent: int, most: int) -> Regions:
    """Return the fewest regions of up to ``1 << most`` elements whose numbers fit beside those of elements."""
    bits = max(1, (extent - 1).bit_length())
    digits = max(1, -(-(bits - most) // DIGIT_BITS))
    shift = min(most, u32.bits - DIGIT_BITS * digits)
    return Regions(shift, digits, -(-extent // (1 << shift)))


def has_regions(count: int, extent: int) -> bool:
    """Whether places and numbers of updates fit into words."""
    return 0 < count < MAX_LENGTH_32 and extent <= 1 << u32.bits


class Sorted(NamedTuple):
    """Updates sorted by region.

    Attributes
    ----------
    steps : list of Step
    flag : Argument
        Of a word that is not 0 where an index is out of bounds.
    keys : Argument
        Sorted, u32.
    beside : Argument
        What goes with them.
    """

    steps: list[Step]
    flag: Argument
    keys: Argument
    beside: Argument


def sort_by_region(
    count: int, extent: int, regions: Regions, index_type: Type, value: Type | None, device: Device, scratch: Scratch,
    *, has_places: bool,
) -> Sorted:  # fmt: skip
    """Return updates sorted by region; the inputs are index, what goes with it, and the address for a report.

    Parameters
    ----------
    count, extent : int
        Updates, elements.
    regions : Regions
    index_type : Type
    value : Type or None
        Of what goes with an index, of 4 or 8 bytes.
    device : Device
    scratch : Scratch
    has_places : bool
        The numbers of updates go with them, u32.
    """
    flag, given, keys = scratch.take(u32.nbytes), scratch.take(count * u32.nbytes), scratch.take(count * u32.nbytes)
    beside = scratch.take(count * (u32.nbytes if has_places else 0 if value is None else value.nbytes))
    kernel = make(RegionKeysSpec(index_type, regions.digits))
    blocks = min(-(-count // (BLOCK * UNROLL)), BLOCKS_PER_SM * device.num_sms)
    index, values, status = Argument("in0"), Argument("in1"), Argument("in2")
    work = Work(nbytes=count * (index_type.nbytes + u32.nbytes))

    def launch(counts: Argument) -> Launch:
        arguments = (Argument("flag"), Argument("keys"), counts, Argument("index"), Argument("status"))
        return Launch(kernel, (blocks, 1, 1), arguments, (count, extent, regions.shift), work)

    plan = sort_counted(count, value, regions.digits, device, launch, is_iota=has_places)
    places = {"in0": given, "keys": given, "in1": values, "out0": keys, "out1": beside, "index": index, "flag": flag}
    steps = plan.on(**places, status=status, scratch=scratch.take(plan.scratch_nbytes))
    return Sorted([Fill(flag, u32.nbytes, 0), *steps], flag, keys, beside)


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: RegionKeysSpec) -> Kernel:
    """Build the kernel of a Spec."""
    k = Builder("region_keys", block=BLOCK)
    flag, keys, counts = k.pointer("flag", u32), k.pointer("keys", u32, "w"), k.pointer("counts", u32)
    index, status = k.pointer("index", spec.index_type, "r"), k.scalar("status", u64)
    count, extent, shift = k.scalar("count", i64), k.scalar("extent", i64), k.scalar("shift", u32)
    total = spec.digits * NUM_BINS * COPIES
    bins = k.dynamic_shared(u32, total)
    for i in range(0, total, BLOCK):
        bins[k.tid + i] = 0
    k.barrier()
    own, step = bins.at(k.lane & (COPIES - 1)), BLOCK * UNROLL
    with k.range(k.cast(k.ctaid, i64) * step + k.cast(k.tid, i64), count, k.cast(k.nctaid, i64) * step) as first:
        numbers = [first + i * BLOCK if i else first for i in range(UNROLL)]
        raw = [index[k.min(number, count - 1)] for number in numbers]
        for number, value in zip(numbers, raw, strict=True):
            at, is_beyond = resolve(k, value, extent, i64.bits)
            with k.when(is_beyond):
                flag.store(0, [k.const(1, u32)], order="relaxed.gpu")
                report(k, status, value)
            with k.when(number < count):
                place = k.cast(k.where(is_beyond, k.const(0, i64), at), u32)
                region = k.shr(place, shift)
                keys[number] = region | k.shl(place, u32.bits - shift)
                for digit in range(spec.digits):
                    found = k.shr(region, digit * DIGIT_BITS) & (NUM_BINS - 1) if digit else region & (NUM_BINS - 1)
                    own.atomic("add", (found + digit * NUM_BINS) * COPIES, 1, order="relaxed.cta")
    k.barrier()
    for digit in range(spec.digits):
        first_bin = (k.tid + digit * NUM_BINS) * COPIES
        found = bins[first_bin]
        for i in range(1, COPIES):
            found = found + bins[first_bin + i]
        with k.when(found != 0):
            counts.atomic("add", k.tid + digit * NUM_BINS, found)
    return k.build()


class Keys:
    """Sorted keys in a kernel.

    Parameters
    ----------
    k : Builder
    pointer : Pointer
    count : Value
        u32.
    shift : int
        Elements of a region, as a power of two.
    """

    def __init__(self, k: Builder, pointer: Pointer, count: Value, shift: int) -> None:
        self._k, self._pointer, self._count, self._shift = k, pointer, count, shift

    def region(self, key: Value) -> Value:
        """Return the number of a key's region."""
        return key & ((1 << (u32.bits - self._shift)) - 1)

    def element(self, key: Value) -> Value:
        """Return the number of a key's element in its region."""
        return self._k.shr(key, u32.bits - self._shift)

    def begin(self, region: Value) -> Value:
        """Return how many keys are of regions before one, found by all lanes of a warp: a search by 32 at a time."""
        k = self._k
        first, left = k.var(0, u32), k.var(self._count)
        with k.loop():
            k.break_if(left == 0)
            share = k.shr(left + (WARP - 1), 5)
            last = k.min((k.lane + 1) * share, left.get()) - 1
            is_before = self.region(self._pointer[first + last]) < region
            passed = k.min(k.popc(k.ballot(is_before)) * share, left.get())
            rest = left - passed
            first.set(first + passed)
            left.set(k.max(k.min(rest, share), 1) - 1)
        return first.get()


__all__ = ["Keys", "RegionKeysSpec", "Regions", "Sorted", "has_regions", "make", "regions_of", "sort_by_region"]
