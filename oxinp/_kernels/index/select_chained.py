"""The elements that a mask chooses, or their numbers, in one pass: by blocks that read each other's counts.

Data layout: the chain over one loop, a tile of ``NUM_WARPS * REGION`` elements per block, of which blocks take the next
by an atomic ticket; the array, in C order; the output, which has room for all elements. Who owns what: a warp `REGION`
elements of a tile, lane `i` the word that says which of the `i`-th 32 of them are chosen. Algorithm: a block computes
the words of its tile, and publishes how many elements they choose; the first warp adds up the counts of the tiles
before it, see `oxinp._kernels.scan.chained`; then warps write chosen elements next to each other, and the block of the
last tile the number of all. Bytes per element: what the chain reads, and of chosen elements themselves twice.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import BoundChain, Chain
from oxinp._kernels.index.select import NUM_WARPS, REGION, add_lanes, words_of, write_chosen
from oxinp._kernels.plan import ALIGNMENT, MARKS, MARKS_NBYTES, Argument
from oxinp._kernels.problem import MAX_KERNELS, ReduceOp
from oxinp._kernels.reduce.operators import add
from oxinp._kernels.scan.chained import BLOCK, ScanChained
from oxinp._kernels.scan.totals import FAN
from oxinp._ptx import Builder, Kernel
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import retraceable
from oxinp._ptx.types import Type, i64, u32, u64

if TYPE_CHECKING:
    from oxinp._ptx.value import Value

TILE = NUM_WARPS * REGION
MAX_LEVELS = 3  # of counts, which registers hold at once
MIN_BLOCKS = 6  # per multiprocessor
COUNT = ReduceOp("sum", u32, 0, add)


class SelectChainedSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    chain : Chain
        Over one loop, without outputs.
    value : int
        Number of the value that is the mask.
    type : Type or None
        Of elements; None for their numbers, i64.
    levels : int
        Of counts: there are at most ``FAN ** levels`` tiles.
    """

    chain: Chain
    value: int
    type: Type | None
    levels: int

    op = COUNT
    is_marked = True
    is_joined = True


def entries_of(size: int) -> list[int] | None:
    """Return the entries of each level that blocks leave for each other; None where they have no room for them."""
    entries = [-(-size // TILE)]
    while entries[-1] > FAN:
        entries.append(-(-entries[-1] // FAN))
    has_room = len(entries) <= MAX_LEVELS and _places(entries)[-1] <= MARKS_NBYTES
    return entries if has_room else None


def _places(entries: list[int]) -> list[int]:
    """Return where the ticket and the entries of each level begin among marks, and where they end."""
    sizes = [u64.nbytes, *[count * u64.nbytes for count in entries]]
    return list(accumulate([-(-nbytes // ALIGNMENT) * ALIGNMENT for nbytes in sizes], initial=0))


def marks_of(entries: list[int]) -> list[Argument]:
    """Return the places of the ticket and of the entries of each level."""
    return [MARKS.at(offset) for offset in _places(entries)[:-1]]


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SelectChainedSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _SelectChained(spec).build()


class _SelectChained(ScanChained):
    """The kernel while it is built; of a scan it has the tickets and the look-back."""

    def __init__(self, spec: SelectChainedSpec) -> None:
        k = self.k = self._k = Builder("select_chained", block=BLOCK, min_blocks=MIN_BLOCKS)
        self.spec = self._spec = spec  # type: ignore[assignment]
        self.ticket = k.pointer("ticket", u64)
        self.descriptors = [k.pointer(f"level_{i}", u64) for i in range(spec.levels)]
        self.out, self.count = k.pointer("out", spec.type or i64, "w"), k.pointer("count", i64, "w")
        self.array = k.pointer("array", spec.type, "r") if spec.type is not None else None
        self.bound, self.type = BoundChain(k, spec.chain), spec.chain.index_type
        self.size = k.scalar("size", self.type)
        self.entries = [k.scalar(f"entries_{i}", u32) for i in range(spec.levels)]
        self.identity = k.const(0, u32)
        self.warp_totals = k.dynamic_shared(u32, NUM_WARPS)
        self.before = k.dynamic_shared(u32, 1)
        self.number = k.dynamic_shared(u32, 2)

    def build(self) -> Kernel:
        k, spec = self.k, self.spec
        tile = self.take_ticket()
        k.warp_sync()
        region = k.cast(tile, self.type) * NUM_WARPS + k.cast(k.warp, self.type)
        own = words_of(k, self.bound, spec.value, region, self.size)
        total = add_lanes(k, k.popc(own))
        with k.when(k.lane == 0):
            self.warp_totals[k.warp] = total
        k.barrier()
        totals = [self.warp_totals[i] for i in range(NUM_WARPS)]
        through = list(accumulate(totals, lambda a, b: a + b))
        with k.when(k.warp == 0):
            before = self.look_back(through[-1], k.const(0, u32), tile)
            with k.when(k.lane == 0):
                self.before[0] = before
                with k.when(tile == k.nctaid - 1):
                    self.count[0] = k.cast(before + through[-1], i64)
        k.barrier()
        earlier: Value = k.const(0, u32)
        for i, each in enumerate(through[:-1]):
            earlier = k.where(k.warp > i, each, earlier)
        target = self.out.at(k.cast(self.before[0] + earlier, i64))
        first = k.cast(region, i64) * REGION
        with k.when(k.any(own != 0)):
            write_chosen(k, target, self.array, first, own)
        return k.build()


__all__ = ["COUNT", "SelectChainedSpec", "entries_of", "make", "marks_of"]
