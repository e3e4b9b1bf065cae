"""Two passes of many transforms in one launch, so that the workspace between them stays in the L2 cache.

Data layout: a slab is one transform in the workspace, which has some slabs, a ring, each used again and again. Who owns
what: a block has a tile of the first pass, or one of the second, as if the passes were launched slab by slab, the
second pass of a slab as many slabs behind the first as keep all multiprocessors busy. Algorithm: a tile of the second
pass waits until all tiles of the slab's first pass are stored, and one of the first until the place in the ring has
been read; both are counted, with release behind a barrier that all accesses are before, and loaded with acquire before
a barrier that they are behind. Blocks wait for blocks of lower numbers only, which begin first, so that some block can
always go on. Bytes per element: read and written once, the workspace in the cache.

Source: D. Merrill and M. Garland, Single-pass parallel prefix scan with decoupled look-back, NVIDIA 2016 (blocks that
wait for those of lower numbers).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.block import Block
from oxinp._kernels.fft.radices import MAX_THREADS
from oxinp._kernels.fft.spec import SCALAR, TransformSpec
from oxinp._kernels.fft.tile import Host
from oxinp._kernels.plan import FLAGS, Launch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import Kernel, retraceable
from oxinp._ptx.types import i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.fft.batch import Batch, Fitted, Loop
    from oxinp._kernels.fft.tile import End
    from oxinp._ptx.value import Value

AHEAD = 1.25  # times as many tiles as are computed at once, by which the passes of a slab lie apart
MAX_RING = 0  # bytes of the cache that the ring may take
MIN_MOVED = 32 << 20  # bytes of all transforms from which on they do not stay in the cache anyway
NUM_PASSES = 2
COUNTED, READY, DONE = 0, 1, 2  # words of the flags: of all, then of each slab of the ring, by the pass


class SlabsSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    passes : tuple of TransformSpec
        Without clusters, of as many threads each.
    num_loops : int
        Of slabs, at least 1.
    """

    passes: tuple[TransformSpec, TransformSpec]
    num_loops: int


@lru_cache(MAX_KERNELS)
@retraceable
def make(spec: SlabsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Slabs(spec).build()


class _Slabs:
    """The kernel while it is built; parameters are as `launch` says."""

    def __init__(self, spec: SlabsSpec) -> None:
        first, second = spec.passes
        self.spec = spec
        self.k = k = Builder(
            f"fft_{first.length}_and_{second.length}{'_fused' if first.prologue or second.epilogue else ''}",
            block=first.threads * first.columns,
            min_blocks=min(each.min_blocks for each in spec.passes),
        )
        elements = max(each.shared_elements for each in spec.passes)
        smem = k.dynamic_shared(first.type, elements) if elements else None
        self.tiles = [Block(each, Host(k, f"pass{i}_", smem)) for i, each in enumerate(spec.passes)]
        self.flags = k.pointer("flags", u32, "rw")
        for tile in self.tiles:
            tile.declare()
        self.per_group = Divisor(k, "tiles", i32)
        self.per_pass = [k.scalar(f"tiles{i}", i32) for i in range(NUM_PASSES)]
        self.ring = Divisor(k, "ring", i32)
        self.num_slabs, self.behind = k.scalar("num_slabs", i32), k.scalar("behind", i32)
        self.slab_step = k.scalar("slab_step", i64)
        self.loops = Splitter(k, "slab", spec.num_loops, i32)
        ends = (self.tiles[0].source, self.tiles[1].target, self.tiles[1].beside)
        self.steps = [(end, self._steps(end)) for end in ends]

    def _steps(self, end: End) -> list[list[Value]]:
        """Steps of an end's arrays along the loops of slabs."""
        return [
            [] if kind == SCALAR else [self.k.scalar(f"{name}_slab{i}", i64) for i in range(self.spec.num_loops)]
            for name, kind in zip(end.names, end.kinds, strict=True)
        ]

    def build(self) -> Kernel:
        """Build the kernel."""
        k = self.k
        group, number = self.per_group.divide(k.cast(k.ctaid, i32))
        is_first = number < self.per_pass[0]
        with k.when(is_first & (group < self.num_slabs)):
            self._pass(0, group, number)
        slab = group - self.behind
        with k.when((number >= self.per_pass[0]) & (slab >= 0)):
            self._pass(1, slab, number - self.per_pass[0])
        return k.build()

    def _pass(self, number: int, slab: Value, tile: Value) -> None:
        """A tile of a pass, when what it needs is there."""
        k, own = self.k, self.tiles[number]
        turn, place = self.ring.divide(slab)
        ready, done = (self.flags.at((place * NUM_PASSES) + which) for which in (READY, DONE))
        flag, count = (done, turn * self.per_pass[1]) if number == 0 else (ready, (turn + 1) * self.per_pass[0])
        with k.when(k.tid == 0), k.loop():
            k.break_if(flag.load(0, order="acquire.gpu")[0] >= k.bitcast(count, u32))
        k.barrier()
        indices = [k.cast(index, i64) for index in self.loops.split(slab)]
        (own.source if number else own.target).move([k.cast(place, i64)], [[self.slab_step]])
        for end, steps in self.steps:
            if end in ((own.target, own.beside) if number else (own.source,)):
                end.move(indices, steps)
        own.compute(own.begin(tile))
        k.barrier()
        with k.when(k.tid == 0):
            (ready if number == 0 else done).atomic("add", 0, 1, order="release.gpu")
            if number:
                self._count()

    def _count(self) -> None:
        """Leave zeros behind the last tile."""
        k = self.k
        last = self.num_slabs * self.per_pass[1] - 1
        with k.when(self.flags.atomic("add", COUNTED, 1, order="acq_rel.gpu") == k.bitcast(last, u32)):
            zero = k.const(0, u32)
            self.flags[COUNTED] = zero
            with k.range(k.const(0, i32), self.ring.value * NUM_PASSES, 1) as i:
                self.flags[i + READY] = zero


def ring_of(passes: Sequence[Fitted], num_sms: int) -> tuple[int, int]:
    """Return how many slabs the second pass is behind the first, and how many the ring has.

    Parameters
    ----------
    passes : sequence of Fitted
        Of one slab.
    num_sms : int
    """
    at_once = num_sms * min(each.spec.min_blocks for each in passes)
    behind = max(1, math.ceil(AHEAD * at_once / sum(each.grid[0] for each in passes)))
    return behind, 2 * behind + 1


def fit(passes: Sequence[Batch], device: Device) -> tuple[Fitted, ...] | None:
    """Return the passes with as many threads each; None where they have no common number."""
    fitted = [each.fit(device) for each in passes]
    specs = [each.spec for each in fitted]
    if any(each.cluster > 1 or each.real or each.is_staged for each in specs):
        return None
    block = max(each.threads * each.columns for each in specs)
    made = []
    for batch, spec in zip(passes, specs, strict=True):
        threads, columns = spec.threads, spec.columns
        while 2 * threads * columns <= block:
            columns *= 2
        threads = block // columns
        if threads * columns != block or block > MAX_THREADS or (len(spec.radices) == 1 and threads > 1):
            return None
        made.append(batch.replace(shape=(threads, columns)).fit(device))
        if made[-1].spec.shared_elements * spec.type.nbytes > device.max_shared_nbytes:
            return None
    return tuple(made)


def launch(passes: Sequence[Fitted], loops: Sequence[Loop], slab_step: int, num_sms: int) -> Launch:
    """Return the launch of both passes.

    Parameters
    ----------
    passes : sequence of Fitted
        Of a slab, of as many threads each.
    loops : sequence of Loop
        Of slabs: elements from one to the next in the source of the first pass and in the target of the second.
    slab_step : int
        Elements of a slab of the ring.
    num_sms : int
    """
    first, second = passes
    behind, ring = ring_of(passes, num_sms)
    num_slabs = math.prod(loop.extent for loop in loops)
    per_pass = [each.grid[0] for each in passes]
    constants: list[float] = [
        *first.constants,
        *second.constants,
        *Divisor.constants(sum(per_pass), 32),
        *per_pass,
        *Divisor.constants(ring, 32),
        num_slabs,
        behind,
        slab_step,
        *Splitter.constants([loop.extent for loop in loops], 32),
    ]
    steps: list[Sequence[int]] = []
    if first.spec.prologue is None:
        steps.append([loop.source for loop in loops])
    steps += zip(*[loop.reads for loop in loops], strict=True) if first.spec.prologue else []
    steps.append([loop.target for loop in loops])
    steps += zip(*[loop.writes for loop in loops], strict=True) if second.spec.epilogue else []
    constants += [step for each in steps for step in each]
    arguments = (*first.arguments, *second.arguments, FLAGS)
    kernel = make(SlabsSpec((first.spec, second.spec), len(loops)))
    work = Work(nbytes=num_slabs * (first.nbytes + second.nbytes) // 2)
    grid = ((num_slabs + behind) * sum(per_pass), 1, 1)
    return Launch(kernel, grid, arguments, tuple(constants), work)  # type: ignore[arg-type]


__all__ = ["SlabsSpec", "fit", "launch", "make", "ring_of"]
