"""Passes of many transforms in one launch, so that the workspace between them stays in the L2 cache.

Data layout: a slab is one transform in the workspace, which has some slabs, a ring, each used again and again. Who owns
what: a block has a tile of one pass, as if the passes were launched slab by slab, each pass of a slab as many slabs
behind the one before as keep all multiprocessors busy. Algorithm: a tile waits until all tiles of the slab's pass
before are stored, and one of the first pass until the place in the ring has been read; both are counted, with release
behind a barrier that all accesses are before, and loaded with acquire before a barrier that they are behind. Blocks
wait for blocks of lower numbers only, which begin first, so that some block can always go on. Bytes per element: read
and written once, the workspace in the cache.

Source: D. Merrill and M. Garland, Single-pass parallel prefix scan with decoupled look-back, NVIDIA 2016 (blocks that
wait for those of lower numbers).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from oxinp._kernels.elementwise.chain import Divisor, Splitter
from oxinp._kernels.fft.block import Block
from oxinp._kernels.fft.radices import MAX_THREADS, NUM_REGISTERS
from oxinp._kernels.fft.spec import COLUMNS, SCALAR, WARP, TransformSpec
from oxinp._kernels.fft.tile import Host
from oxinp._kernels.fft.tiling import MIN_SEGMENT, num_registers
from oxinp._kernels.fft.traced import traced
from oxinp._kernels.plan import FLAGS, NUM_FLAGS, Launch, Work
from oxinp._kernels.problem import MAX_KERNELS
from oxinp._ptx import Builder
from oxinp._ptx.frozen import Frozen
from oxinp._ptx.kernel import Kernel, retraceable
from oxinp._ptx.types import i32, i64, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Device
    from oxinp._kernels.fft.batch import Batch, Fitted
    from oxinp._kernels.fft.sides import Loop
    from oxinp._kernels.fft.tile import End
    from oxinp._kernels.plan import Scratch
    from oxinp._ptx.value import Value

AHEAD = 1.5  # times as many tiles as are computed at once, by which the passes of a slab lie apart
MAX_RING = 28 << 20  # bytes of the cache that the ring may take
MOST_IDLE = 1.5  # times as many threads as a pass wants, at most, so that all have as many
MIN_MOVED = 32 << 20  # bytes of all transforms from which on they do not stay in the cache anyway
READ_ONCE = WRITTEN_ONCE = "cs"  # cache operators of what is read first and written last, which need not stay
COUNTED, FIRST = 0, 1  # words of the flags: tiles of the last pass; per slab of the ring, tiles of each pass


class SlabsSpec(Frozen):
    """One kernel of the family.

    Attributes
    ----------
    passes : tuple of TransformSpec
        Without clusters, of as many threads each; the first of them reads from the source, the last writes the target.
    num_loops : int
        Of slabs, at least 1.
    """

    passes: tuple[TransformSpec, ...]
    num_loops: int


@lru_cache(MAX_KERNELS)
@retraceable
@traced
def make(spec: SlabsSpec) -> Kernel:
    """Build the kernel of a Spec."""
    return _Slabs(spec).build()


class _Slabs:
    """The kernel while it is built; parameters are as `launch` says."""

    def __init__(self, spec: SlabsSpec) -> None:
        first, last = spec.passes[0], spec.passes[-1]
        self.spec = spec
        lengths = "_".join(str(each.length) for each in spec.passes)
        self.k = k = Builder(
            f"fft_slabs_{lengths}{'_fused' if first.prologue or last.epilogue else ''}",
            block=first.threads * first.columns,
            min_blocks=min(each.min_blocks for each in spec.passes),
        )
        elements = max(each.shared_elements for each in spec.passes)
        smem = k.dynamic_shared(first.type, elements) if elements else None
        num_between = len(spec.passes) - 1
        caches = zip((READ_ONCE, *[""] * num_between), (*[""] * num_between, WRITTEN_ONCE), strict=True)
        self.tiles = [
            Block(each, Host(k, f"pass{i}_", smem, partial(self._loaded, i), partial(self._exchanged, i), *own))
            for i, (each, own) in enumerate(zip(spec.passes, caches, strict=True))
        ]
        self.flags = k.pointer("flags", u32, "rw")
        for tile in self.tiles:
            tile.declare()
        self.per_group = Divisor(k, "tiles", i32)
        self.per_pass = [k.scalar(f"tiles{i}", i32) for i in range(len(spec.passes))]
        self.ring = Divisor(k, "ring", i32)
        self.num_slabs, self.behind = k.scalar("num_slabs", i32), k.scalar("behind", i32)
        self.slab_step = k.scalar("slab_step", i64)
        self.loops = Splitter(k, "slab", spec.num_loops, i32)
        ends = (self.tiles[0].source,), (self.tiles[-1].target, self.tiles[-1].beside)
        self.steps = [[self._steps(end) for end in each] for each in ends]

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
        begin = k.const(0, i32)
        for i, count in enumerate(self.per_pass):
            slab = group - self.behind * i if i else group
            with k.when((number >= begin) & (number < begin + count) & (slab >= 0) & (slab < self.num_slabs)):
                self._pass(i, slab, number - begin)
            begin = begin + count
        return k.build()

    def _pass(self, number: int, slab: Value, tile: Value) -> None:
        """A tile of a pass, when what it needs is there."""
        k, own, num_passes = self.k, self.tiles[number], len(self.tiles)
        turn, place = self.ring.divide(slab)
        counts = self.flags.at(place * num_passes + FIRST)
        self.needed = (turn + 1 if number else turn) * self.per_pass[number - 1]
        self.counts = counts
        if number:
            self._wait(number - 1)
            k.barrier()
        indices = [k.cast(index, i64) for index in self.loops.split(slab)]
        within = [k.cast(place, i64)], [[self.slab_step]]
        for ends, steps, is_outside in (
            ((own.source,), self.steps[0], number == 0),
            ((own.target, own.beside), self.steps[1], number == num_passes - 1),
        ):
            if not is_outside:
                ends[0].move(*within)
                continue
            for end, own_steps in zip(ends, steps, strict=True):
                end.move(indices, own_steps)
        own.compute(own.begin(tile))
        if number < num_passes - 1:
            k.barrier()
            with k.when(k.tid == 0):
                counts.atomic("add", number, 1, order="release.gpu")

    def _wait(self, number: int) -> None:
        """Wait for as many tiles of a pass as are needed; for all threads behind a barrier."""
        k = self.k
        with k.when(k.tid == 0), k.loop():
            found = self.counts.load(number, order="acquire.gpu")[0]
            k.break_if(found >= k.bitcast(self.needed, u32))

    def _loaded(self, number: int) -> None:
        """Wait for the place in the ring, before the first pass stores."""
        if number == 0:
            self._wait(len(self.tiles) - 1)

    def _exchanged(self, number: int) -> None:
        """Count tiles of the last pass as soon as they have read from the ring."""
        k = self.k
        if number == len(self.tiles) - 1:
            with k.when(k.tid == 0):
                self.counts.atomic("add", number, 1, order="release.gpu")
                self._count()

    def _count(self) -> None:
        """Leave zeros behind the last tile."""
        k = self.k
        last = self.num_slabs * self.per_pass[-1] - 1
        with k.when(self.flags.atomic("add", COUNTED, 1, order="acq_rel.gpu") == k.bitcast(last, u32)):
            zero = k.const(0, u32)
            self.flags[COUNTED] = zero
            with k.range(k.const(0, i32), self.ring.value * len(self.tiles), 1) as i:
                self.flags[i + FIRST] = zero


def launch(
    passes: Sequence[Batch], loops: Sequence[Loop], slab: int, device: Device, scratch: Scratch, kept: int = 0
) -> Launch | None:
    """Return the launch of all passes; None where the cache would not have what is between them, or has it anyway.

    Parameters
    ----------
    passes : sequence of Batch
        Of one slab, which is the last array of the workspace.
    loops : sequence of Loop
        Of slabs: elements from one to the next in the source of the first pass and in the target of the last.
    slab : int
        Elements of a slab.
    device : Device
    scratch : Scratch
        The workspace, of which the ring takes more.
    kept : int
        Elements from a slab to the next where an array has all of them, in place of the ring; 0 for a ring.
    """
    num_slabs, nbytes = math.prod(loop.extent for loop in loops), slab * passes[0].type.nbytes
    if num_slabs * nbytes < MIN_MOVED:
        return None
    fitted = _fit([each.replace(slabs=num_slabs) for each in passes], device)
    if fitted is None:
        return None
    per_pass = [each.grid[0] for each in fitted]
    at_once = device.num_sms * min(each.spec.min_blocks for each in fitted)
    least, wanted = (max(1, round(times * at_once / sum(per_pass))) for times in (1.0, AHEAD))
    behind = min(wanted, (min(MAX_RING // nbytes, num_slabs - 1) - 1) // len(passes))
    ring = len(passes) * behind + 1
    if behind < least:
        return None
    if kept:
        ring = num_slabs
    else:
        scratch.take((ring - 1) * nbytes)
    if FIRST + ring * len(passes) > NUM_FLAGS:
        return None
    first, last = fitted[0], fitted[-1]
    constants: list[float] = [
        *[x for each in fitted for x in each.constants],
        *Divisor.constants(sum(per_pass), 32),
        *per_pass,
        *Divisor.constants(ring, 32),
        num_slabs,
        behind,
        kept or slab,
        *Splitter.constants([loop.extent for loop in loops], 32),
    ]
    columns = [[loop.source for loop in loops]] if first.spec.prologue is None else []
    columns += map(list, zip(*[loop.reads for loop in loops], strict=True))
    columns.append([loop.target for loop in loops])
    columns += map(list, zip(*[loop.writes for loop in loops], strict=True))
    constants += [step for column in columns for step in column]
    return Launch(
        make(SlabsSpec(tuple(each.spec for each in fitted), len(loops))),
        ((num_slabs + behind * (len(passes) - 1)) * sum(per_pass), 1, 1),
        (*[x for each in fitted for x in each.arguments], FLAGS),
        tuple(constants),  # type: ignore[arg-type]
        Work(nbytes=num_slabs * (first.nbytes + last.nbytes) // 2),
    )


def _fit(passes: Sequence[Batch], device: Device) -> list[Fitted] | None:
    """The passes with as many threads each; None where there is no such number."""
    fitted = [each.fit(device) for each in passes]
    specs = [each.spec for each in fitted]
    if any(each.is_staged for each in specs):
        return None
    several = [each for each in specs if len(each.radices) > 1] or specs  # others may have any number
    most = max(each.threads * each.columns for each in several)
    extents = [each.column_extent for each in passes]
    # Blocks of more columns than there are would be idle in part, and blocks that wait leave a multiprocessor idle that
    # has no other one.
    narrow = [x.threads * x.columns for x, n in zip(specs, extents, strict=True) if x in several and x.columns >= n]
    usual = (most // 2, most) if most > MAX_THREADS // 2 else (most,)
    for least in (*sorted(narrow)[:1], *usual):
        shapes = _shapes(specs, extents, least, device)
        made = [batch.replace(shape=shape).fit(device) for batch, shape in zip(passes, shapes, strict=False)]
        block = -(-math.prod(shapes[0]) // WARP) * WARP if shapes else 0
        if made and all(num_registers(x.spec, x.held, is_tight=True) * block <= NUM_REGISTERS for x in made):
            return made
    return None


def _shapes(
    specs: Sequence[TransformSpec], extents: Sequence[int], least: int, device: Device
) -> list[tuple[int, int]]:
    """Threads of a transform and columns of each pass, for blocks of `least` threads or some more; [] for none."""
    best: list[tuple[int, int]] = []
    fewest = math.inf
    for block in (least, *range(-(-least // WARP) * WARP, int(least * MOST_IDLE), WARP)):
        found = [_shape(each, n, block, device) for each, n in zip(specs, extents, strict=True)]
        shapes = [shape for shape in found if shape is not None]
        idle = sum(threads / spec.threads for (threads, _), spec in zip(shapes, specs, strict=False))
        if len(shapes) == len(specs) and idle < fewest:
            best, fewest = shapes, idle
    return best


def _shape(spec: TransformSpec, extent: int, block: int, device: Device) -> tuple[int, int] | None:
    """Threads of a transform, and columns, of a pass in so many threads; None where too many would be idle.

    Parameters
    ----------
    spec : TransformSpec
    extent : int
        Columns that there are.
    block : int
        Threads.
    device : Device
    """
    if len(spec.radices) == 1:
        return 1, block
    nbytes, sector = spec.type.nbytes, MIN_SEGMENT if COLUMNS in (spec.loads, spec.stores) else 1
    for columns in range(min(block // spec.threads, max(extent, spec.columns)), 0, -1):
        is_fitting = block % columns == 0 and columns * spec.share * nbytes * 9 // 8 <= device.max_shared_nbytes
        if is_fitting and (columns * nbytes) % sector == 0 and columns * nbytes >= 2 * sector:
            return (block // columns, columns) if block <= MOST_IDLE * spec.threads * columns else None
    return None


__all__ = ["SlabsSpec", "launch", "make"]
