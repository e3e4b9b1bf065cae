"""The elements that a mask chooses, one after the other, or their numbers; the mask is a value of a chain.

Data layout: the chain over one loop, a part of `REGION` elements per warp; a word per 32 elements says which of them
are chosen, an i64 per part how many are in it and before it; the array, in C order. Who owns what: a warp a part, lane
`i` the `i`-th word of it. Algorithm: `words` computes the chain, and counts; the counts are scanned; the host is told
the last sum, and `select` writes the chosen elements of a part next to each other. Others are not read. Bytes per
element: what the chain reads, two bits twice, and of chosen elements themselves twice.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from oxinp._kernels.elementwise.access import classify, index_bits
from oxinp._kernels.elementwise.chain import BoundChain, Chain
from oxinp._kernels.elementwise.planner import Planner
from oxinp._kernels.nest import Nest
from oxinp._kernels.plan import Argument, Launch, Plan, Read, Scratch, Step, Work
from oxinp._kernels.plan import inputs as inputs_of
from oxinp._kernels.problem import MAX_KERNELS, Operand, ReduceOp, touched_nbytes
from oxinp._kernels.reduce.operators import add
from oxinp._kernels.scan import plan as scan
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32
from oxinp._ptx.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.problem import Instr

BLOCK = 256
NUM_WARPS = BLOCK // WARP
REGION = WARP * WARP  # elements of a warp: one word per lane
NBYTES_IN_FLIGHT = 64  # of the chain's loads per thread
MAX_UNROLL = 16
UNROLL = 4  # of chosen elements
MAX_SCANNED = 256  # plans of sums that are kept
SUM = ReduceOp("sum", i64, 0, add)


class MaskWordsSpec(Frozen):
    """The kernel that computes the mask.

    Attributes
    ----------
    chain : Chain
        Over one loop, without outputs.
    value : int
        Number of the value that is the mask.
    """

    chain: Chain
    value: int

    @property
    def unroll(self) -> int:
        """Elements that a thread loads before it uses the first."""
        nbytes = sum(spec.type.nbytes for spec in self.chain.inputs if spec.has_pointer)
        return max(1, min(MAX_UNROLL, 1 << max(0, (NBYTES_IN_FLIGHT // max(nbytes, 1)).bit_length() - 1)))


class SelectSpec(Frozen):
    """The kernel that writes what is chosen.

    Attributes
    ----------
    type : Type or None
        Of elements; None for their numbers, i64.
    """

    type: Type | None


class Chosen(NamedTuple):
    """What is known of a mask.

    Attributes
    ----------
    steps : tuple of Step
        That compute it, and read how many elements it chooses.
    words : Argument
        u32 per 32 elements.
    counts : Argument
        i64 per region: chosen elements in it and before it.
    """

    steps: tuple[Step, ...]
    words: Argument
    counts: Argument


class Mask(Planner):
    """The mask that is one value of a chain, planned for any size and layouts.

    Parameters
    ----------
    inputs : sequence of (Type, bool)
        Of every input, and whether it is an array.
    instrs : sequence of Instr
    value : int
        Number of the value that is the mask, pred.
    """

    __slots__ = ("taken", "value")

    def __init__(self, inputs: Sequence[tuple[Type, bool]], instrs: Sequence[Instr], value: int) -> None:
        super().__init__(inputs, instrs)
        self.value = value
        self.taken = inputs_of(len(self.inputs))

    def plan(self, size: int, arrays: Sequence[Operand], device: Device) -> tuple[Chosen, int]:
        """Return the steps for input arrays of one dimension, of at least one element, and the bytes of workspace."""
        found = self._planned(size, arrays, device, self.kernel)
        assert found is not None
        return found

    def plan_again(self, size: int, arrays: Sequence[Operand], device: Device) -> tuple[Chosen, int] | None:
        """Return what `plan` does if its kernel has been made for another size, so that it takes arithmetic alone."""
        return self._planned(size, arrays, device, self.known_kernel)

    def _planned(
        self,
        size: int,
        arrays: Sequence[Operand],
        device: Device,
        kernel_of: Callable[[Any, MaskWordsSpec], Kernel | None],
    ) -> tuple[Chosen, int] | None:
        strides = [x.strides for x in arrays] + [(1,)] * self.wants_index
        nest = Nest((size,), tuple(strides), (0,) * len(strides))
        chain = self.chain(classify(arrays, nest), 1, index_bits(nest))
        spec = self.spec(MaskWordsSpec, chain, self.value)
        kernel = kernel_of(sys.modules[__name__], spec)
        if kernel is None:
            return None
        regions = -(-size // REGION)
        counts, after, nbytes = _counted(regions, device)
        work = Work(0, touched_nbytes((size,), arrays))
        grid, constants = (-(-regions // NUM_WARPS), 1, 1), (*chain.constants(nest), size)
        this = Launch(kernel, grid, (after.words, counts, *self.taken), constants, work)
        return Chosen((this, *after.steps), after.words, after.counts), nbytes


def chosen(
    steps: tuple[Step, ...], words: Argument, counts: Argument, regions: int, device: Device, scratch: Scratch
) -> Chosen:
    """Return what is known of a mask when steps have left its words, and how many are chosen in each region."""
    sums = scratch.take(regions * i64.nbytes)
    scanned = _scanned(regions, device)
    scan_steps = scanned.on(out0=sums, in0=counts, scratch=scratch.take(scanned.scratch_nbytes))
    return Chosen((*steps, *scan_steps, Read(sums.at((regions - 1) * i64.nbytes))), words, sums)


_COUNTED: dict[Any, tuple[Argument, Chosen, int]] = {}


def _counted(regions: int, device: Device) -> tuple[Argument, Chosen, int]:
    """Return where a mask's kernel leaves its counts, what follows that, and the bytes of workspace.

    Masks of as many regions share these.
    """
    key = regions, device.num_sms, device.cc
    found = _COUNTED.get(key)
    if found is None:
        if len(_COUNTED) >= MAX_SCANNED:
            _COUNTED.clear()
        scratch = Scratch()
        words, counts = scratch.take(regions * WARP * u32.nbytes), scratch.take(regions * i64.nbytes)
        after = chosen((), words, counts, regions, device, scratch)
        found = _COUNTED[key] = counts, after, scratch.nbytes
    return found


@cache
def _scan() -> scan.Scan:
    """Return what plans the sums of counts, which keeps its kernels."""
    return scan.Scan([(i64, True)], [], 0, SUM)


_SCANNED: dict[Any, Plan] = {}


def _scanned(regions: int, device: Device) -> Plan:
    """Return the plan of the sums of so many counts, which several masks of a size share."""
    key = regions, device.num_sms, device.cc
    plan = _SCANNED.get(key)
    if plan is None:
        if len(_SCANNED) >= MAX_SCANNED:
            _SCANNED.clear()
        line = Operand(i64, (1,))
        plan = _SCANNED[key] = _scan().plan((regions,), 0, [line], line, device)
    return plan


def select(size: int, type_: Type | None, chosen: Chosen, array: Argument | None) -> Plan:
    """Return the plan that writes what is chosen of `array`, or the numbers of chosen elements, i64.

    Parameters
    ----------
    size : int
        Of the mask.
    type_ : Type or None
        Of the array's elements.
    chosen : Chosen
    array : Argument or None
    """
    regions = -(-size // REGION)
    arguments = (Argument("out0"), chosen.words, chosen.counts, *(() if array is None else (array,)))
    return Plan((Launch(make(SelectSpec(type_)), (-(-regions // NUM_WARPS), 1, 1), arguments, (regions,)),))


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: MaskWordsSpec | SelectSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _words(spec) if isinstance(spec, MaskWordsSpec) else _select(spec)


def _words(spec: MaskWordsSpec) -> Kernel:
    k = Builder("mask_words", block=BLOCK)
    words, counts = k.pointer("words", u32, "w"), k.pointer("counts", i64, "w")
    bound, type_ = BoundChain(k, spec.chain), spec.chain.index_type
    size = k.scalar("size", type_)
    region = k.cast(k.ctaid, type_) * NUM_WARPS + k.cast(k.warp, type_)
    first = region * REGION + k.cast(k.lane, type_)
    with k.when(region * REGION < size):
        own = k.const(0, u32)
        for start in range(0, WARP, spec.unroll):
            numbers = [first + WARP * i for i in range(start, start + spec.unroll)]
            places = [bound.origin().moved(0, k.min(number, size - 1)) for number in numbers]
            loaded = [place.load() for place in places]
            for i, (number, place, values) in enumerate(zip(numbers, places, loaded, strict=True), start):
                word = k.ballot(place.evaluate(values)[0][spec.value] & (number < size))
                own = k.where(k.lane == i, word, own)
        words[k.cast(region, i64) * WARP + k.cast(k.lane, i64)] = own
        total = k.popc(own)
        for distance in (16, 8, 4, 2, 1):
            total = total + k.shfl_bfly(total, distance)
        with k.when(k.lane == 0):
            counts[region] = k.cast(total, i64)
    return k.build()


def _select(spec: SelectSpec) -> Kernel:
    k = Builder("select", block=BLOCK)
    out = k.pointer("out", spec.type or i64, "w")
    words, counts = k.pointer("words", u32, "r"), k.pointer("counts", i64, "r")
    array = k.pointer("array", spec.type, "r") if spec.type is not None else None
    regions = k.scalar("regions", i64)
    region = k.cast(k.ctaid, i64) * NUM_WARPS + k.cast(k.warp, i64)
    with k.when(region < regions):
        mine = words[region * WARP + k.cast(k.lane, i64)]
        with k.when(k.any(mine != 0)):
            before = k.where(region == 0, k.const(0, i64), counts[k.max(region, 1) - 1])
            target, taken = out.at(before), k.const(0, u32)
            first, behind = region * REGION, k.shl(k.const(1, u32), k.lane)
            source = None if array is None else array.at(first)
            for start in range(0, WARP, UNROLL):
                rounds = range(start, start + UNROLL)
                found = [k.shfl_idx(mine, i) for i in rounds]
                chosen = [(word & behind) != 0 for word in found]
                places = [k.lane + WARP * i for i in rounds]
                if source is None:
                    values = [first + k.cast(place, i64) for place in places]
                else:  # lanes with nothing to read all read the same, so that no load waits for a branch
                    values = [
                        source[k.where(is_chosen, place, k.const(0, u32))]
                        for is_chosen, place in zip(chosen, places, strict=True)
                    ]
                for word, is_chosen, value in zip(found, chosen, values, strict=True):
                    with k.when(is_chosen):
                        target[taken + k.popc(word & (behind - 1))] = value
                    taken = taken + k.popc(word)
    return k.build()


__all__ = ["Chosen", "Mask", "MaskWordsSpec", "SelectSpec", "chosen", "make", "select"]
