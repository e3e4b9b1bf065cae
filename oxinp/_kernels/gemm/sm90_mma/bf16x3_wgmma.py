"""bf16x3 by wgmma (see `bf16x3`): two warpgroups compute a tile of C of 64 rows, 64 columns each.

The warps split the fragments of A into terms in registers, and B into terms in shared memory, where wgmma reads them:
those of the next k-block while the wgmmas of this one are in flight. The large products are added to totals after every
k-block; the small ones, 2**-8 of those, stay in one accumulator along K.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from oxinp._kernels.gemm.sm90_mma.bf16x3 import SMALL_TERMS, Bf16x3Operand, Pair, note_least, split
from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupSums
from oxinp._kernels.gemm.sm90_mma.spec import (
    BOX_LINES,
    DEPTH_F32,
    MMA_K,
    NUM_BUFFERS,
    NUM_TERMS,
    VECTOR,
    WGMMA_TILE_N,
    WGMMA_WARP_M,
    WGMMA_WARP_N,
)
from oxinp._kernels.gemm.sm90_mma.warps import CHUNK_SHIFT, FMA_BOX_NBYTES
from oxinp._ptx.mbarrier import Buffer, Consumer, Producer
from oxinp._ptx.memory import Pointer
from oxinp._ptx.synchronize import follow
from oxinp._ptx.tile import ATOM_NBYTES, OperandTile
from oxinp._ptx.tma import SWIZZLE_NBYTES, publish_shared
from oxinp._ptx.types import bf16, f32, u32
from oxinp._ptx.wgmma import Queue, Totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.gemm.sm90_mma.bf16x3_fixup import FixupChains
    from oxinp._kernels.gemm.sm90_mma.spec import MmaSpec
    from oxinp._kernels.gemm.sm90_wgmma.scheduler import TileScheduler
    from oxinp._ptx import Builder
    from oxinp._ptx.mbarrier import Pipeline
    from oxinp._ptx.tile import OperandView
    from oxinp._ptx.tma import TensorMap
    from oxinp._ptx.value import Value, Var
    from oxinp._ptx.wgmma import Accumulator

EIGHT = 8
SWAPPED, LOW_SIGN = 0x1032, 0x8000  # prmt selector that swaps the halves of a word; the sign bit of its lower half
Fragments = list[list[list["Var"]]]  # per step of a k-block and term, four words


def multiply(
    k: Builder,
    spec: MmaSpec,
    tiles: TileScheduler,
    pipeline: Pipeline,
    operands: tuple[tuple[TensorMap, OperandTile], tuple[TensorMap, OperandTile]],
    chains: FixupChains,
    result: tuple[Callable[[Value | None], Pointer], Value, Value],
) -> None:
    """Compute this block's tiles; all threads call it. `result` is C of a slice, and its extents."""
    (a_map, a), (b_map, b) = operands
    matrix_of, m, n = result
    producer, consumer = Producer(pipeline), Consumer(pipeline, k.lane)
    own = WgmmaSums(k, spec, (a, b), k.shfl_idx(k.warp, 0), chains)
    follow(k)
    with tiles.each_sliced() as (number, row, column):
        chains.select_matrix(number)
        of_a, of_b = tiles.matrices(number)

        def copy(step: Value, row: Value = row, column: Value = column, of_a: Any = of_a, of_b: Any = of_b) -> None:
            slot = producer.acquire()
            a.load(a_map, slot, row, step * a.depth, outer=of_a)
            b.load(b_map, slot, column, step * b.depth, outer=of_b)

        own.multiply(consumer, copy, *tiles.depth_range(number))
        own.store(matrix_of(number), row + own.place[0], column + own.place[1], m, n)


class TransposedBf16x3Operand(Bf16x3Operand):
    """A lane's loads of 16 rows of tiles of A that run along M: of every eight rows, lane l has row l / 4."""

    def __init__(self, k: Builder, tile: OperandTile, first: Value) -> None:
        super().__init__(k, tile, first, WGMMA_WARP_M)
        row, quarter = k.lane >> 2, k.lane & 3
        chunk = ((first & (BOX_LINES - 1)) >> 2) + (row >> 2)
        self.place = (
            tile.address(k.const(0, u32))
            + first / BOX_LINES * FMA_BOX_NBYTES
            + 2 * quarter * SWIZZLE_NBYTES
            + ((chunk ^ 2 * quarter) << CHUNK_SHIFT)
            + (row & 3) * f32.nbytes
        )

    def load(self, buffer: Buffer, step: Value | int) -> list[list[Pair]]:
        """Return, of both eights, the two pairs of a lane in 16 of K."""
        place = self.place + buffer.at(self.tile.nbytes) + step * (MMA_K * SWIZZLE_NBYTES)
        eights = []
        for start in (place, place ^ (2 << CHUNK_SHIFT)):
            pointers = [self.pointer(start), self.pointer((start ^ (1 << CHUNK_SHIFT)) + SWIZZLE_NBYTES)]
            halves = [[x.offset_bytes(half * ATOM_NBYTES).load()[0] for x in pointers] for half in range(2)]
            eights.append([self.pair(tuple(pair)) for pair in halves])
        return eights

    def line(self, eight: int, index: Value) -> Value:
        """Return the index along M of the `index`-th of eight lines."""
        return index + eight * EIGHT


class SplitB:
    """The terms of tiles of B, in shared memory as wgmma reads them.

    Where B runs along N, there is a tile per term. Where it runs along K, the first two terms of a line lie side by
    side in one tile, and the third one in another tile, of which half is not used.

    A warp splits 8 rows of one box of a tile, and 8 others; a lane the neighbours from 8 (l % 4) on. Of complex numbers
    along N, a row becomes two: the row, and i times the row; there are no others.
    """

    def __init__(self, k: Builder, tile: OperandTile, warp: Value, *, is_complex: bool = False) -> None:
        self.builder, self.tile = k, tile
        self.is_k_major = tile.major == "k"
        depth, self.num_tiles = (2 * tile.depth, 2) if self.is_k_major else (DEPTH_F32, NUM_TERMS)
        self.parts = OperandTile(k, bf16, WGMMA_TILE_N, depth, tile.major, NUM_BUFFERS * self.num_tiles)
        row, group = k.lane >> 2, k.lane & 3
        self.is_complex = is_complex
        # So that neither reads nor writes of a quarter of a warp meet in a bank.
        order = ((row >> 1) & 1) | ((row >> 2) << 2) if is_complex else row >> 1
        row = order ^ ((row & 1) * (3 if is_complex else 5))
        chunk, eight = group, row * SWIZZLE_NBYTES
        if self.is_k_major:
            to = of = warp * ATOM_NBYTES
            self.others = EIGHT * ATOM_NBYTES
        else:
            # Two boxes of f32 become one of bf16.
            box, upper = warp & 3, (warp >> 2) * ATOM_NBYTES
            of, to = box * (tile.depth * SWIZZLE_NBYTES) + upper, (box >> 1) * FMA_BOX_NBYTES + upper
            chunk = (box & 1) * 4 + group
            self.others = 2 * ATOM_NBYTES
        self.source = tile.address(k.const(0, u32)) + of + eight + ((2 * group ^ row) << CHUNK_SHIFT)
        if is_complex:  # a row becomes two
            to, eight, row = to + upper, 2 * eight, (2 * row) & 7
        self.target = self.parts.address(k.const(0, u32)) + to + eight + ((chunk ^ row) << CHUNK_SHIFT)
        self.least: Var = k.var(k.const(0xFFFFFFFF, u32))

    def write(self, stage: Value, buffer: Value) -> None:
        """Split the tile in a buffer of the ring into terms, in one of the buffers for these."""
        k = self.builder
        source = self.source + stage * self.tile.nbytes
        targets = self._targets(self.target + buffer * (self.num_tiles * self.parts.nbytes))
        loaded = []
        offsets = (0,) if self.is_complex else (0, self.others)
        for offset in offsets:
            halves = [
                Pointer(k, place, f32, "shared", "r").offset_bytes(offset)
                for place in (source, source ^ (1 << CHUNK_SHIFT))
            ]
            loaded.append([x for half in halves for x in half.load(0, VECTOR)])
        for offset, values in zip(offsets, loaded, strict=True):
            note_least(k, self.least, values)
            words = [split(k, *values[i : i + 2]) for i in range(0, EIGHT, 2)]
            for target, part in zip(targets, zip(*words, strict=True), strict=True):
                target.offset_bytes(offset).store(0, list(part))
                if self.is_complex:
                    transposed = [k.emit("prmt", word, word, SWAPPED, types=()) ^ LOW_SIGN for word in part]
                    beside = Pointer(k, target.base ^ (1 << CHUNK_SHIFT), u32, "shared", "w")
                    beside.offset_bytes(target.offset + SWIZZLE_NBYTES).store(0, transposed)

    def _targets(self, first: Value) -> list[Pointer]:
        """Pointers to where the lane writes the terms of its first elements."""
        k, nbytes = self.builder, self.parts.nbytes
        places = [first, first ^ (4 << CHUNK_SHIFT)] if self.is_k_major else [first]
        first_of_tile = Pointer(k, first, u32, "shared", "w")
        beside = [Pointer(k, place, u32, "shared", "w") for place in places]
        return beside + [first_of_tile.offset_bytes(i * nbytes) for i in range(1, self.num_tiles)]

    def view(self, buffer: Value, number: int, first: Value) -> tuple[OperandView, int]:
        """Return a term as an operand of wgmma, from a column on, and the step along K at which it begins."""
        tile, start = (number // 2, number % 2 * (DEPTH_F32 // MMA_K)) if self.is_k_major else (number, 0)
        return self.parts.rows(buffer * self.num_tiles + tile, first), start


class WgmmaSums(FixupSums):
    """A warp's share of the sums of its warpgroup."""

    def __init__(
        self, k: Builder, spec: MmaSpec, tiles: tuple[OperandTile, OperandTile], warp: Value, chains: FixupChains
    ) -> None:
        place = ((warp & 3) * WGMMA_WARP_M, (warp >> 2) * WGMMA_WARP_N)
        super().__init__(k, spec, place, k.tid, chains)
        a, b = tiles
        self.left = (
            Bf16x3Operand(k, a, place[0], WGMMA_WARP_M) if a.major == "k" else TransposedBf16x3Operand(k, a, place[0])
        )
        self.right = SplitB(k, b, warp, is_complex=spec.is_complex)
        queue = Queue(k)
        self.queue, self.large, self.small = queue, queue.accumulator(WGMMA_WARP_N), queue.accumulator(WGMMA_WARP_N)
        self.totals = Totals(self.large)
        self.steps = range(DEPTH_F32 // MMA_K)
        self.fragments: Fragments = [
            [[k.var(k.const(0, u32)) for _ in range(4)] for _ in range(NUM_TERMS)] for _ in self.steps
        ]

    def multiply(self, consumer: Consumer, copy: Callable[[Value], None], begin: Value, end: Value) -> None:
        """Run the mainloop over k-blocks `begin` to `end`.

        One thread calls `copy`, which has to start the TMA loads of a k-block into the ring.
        """
        k, num_stages = self.builder, self.spec.num_stages
        with k.when(k.tid == 0), k.range(begin, k.min(end, begin + num_stages)) as step:
            copy(step)
        k.warp_sync()
        for least in (self.left.least, self.right.least):
            least.set(k.const(0xFFFFFFFF, u32))
        buffer = k.var(k.const(NUM_BUFFERS - 1, u32))
        with k.range(begin, end) as step:
            # The first iteration multiplies garbage, which is cleared below: with one copy of these instructions the
            # kernel compiles in half the time. Fragments must not be written before the wait, and only where the wait
            # follows the wgmma in straight-line code does ptxas leave their registers alone.
            self._start(buffer.get())
            buffer.set(k.where(buffer == NUM_BUFFERS - 1, k.const(0, u32), buffer + 1))
            words = self._prepare(consumer, buffer.get())
            # All warps have released the k-block before this one, before the barrier in `_prepare`.
            following = step + (num_stages - 1)
            with k.when((k.tid == 0) & (step > begin) & (following < end)):
                copy(following)
            k.warp_sync()
            consumer.release()
            self.queue.wait()
            self.totals.add()
            with k.when(step == begin):
                self.totals.reset()
                self.small.reset()
            for variables, values in zip(chain(*self.fragments), chain(*words), strict=True):
                for variable, value in zip(variables, values, strict=True):
                    variable.set(value)
        self._start(buffer.get())
        self.queue.wait()
        self.totals.add()

    def _prepare(self, consumer: Consumer, buffer: Value) -> list[list[tuple[Value, ...]]]:
        """Split the next k-block into terms, and wait until all warps have done so; returns the terms of A."""
        stage = consumer.acquire()
        words = self._split(stage)
        self.right.write(stage, buffer)
        publish_shared(self.builder)
        self.builder.barrier(1, self.num_threads)
        return words

    def _split(self, stage: Value) -> list[list[tuple[Value, ...]]]:
        """The terms of A's fragments, as in `fragments`."""
        k = self.builder
        words = []
        for step in self.steps:
            upper, lower = self.left.load(Buffer(stage), step)
            pairs = [split(k, *pair) for both in zip(upper, lower, strict=True) for pair in both]
            words.append(list(zip(*pairs, strict=True)))
        return words

    def _start(self, buffer: Value) -> None:
        """Issue the wgmmas of a k-block."""
        parts = [self.right.view(buffer, j, self.place[1]) for j in range(NUM_TERMS)]
        self.large.reset()
        with self.queue.group():
            for i, j in SMALL_TERMS:
                self._add(self.small, i, parts[j])
            self._add(self.large, 0, parts[0])

    def _add(self, sums: Accumulator, number: int, part: tuple[OperandView, int]) -> None:
        """Issue the wgmmas of a term of A and one of B."""
        view, start = part
        sums.multiply_fragments([step[number] for step in self.fragments], view, bf16, start)

    def write(self) -> list[Value]:
        """Write the sums to shared memory; returns the least magnitudes of A and of B that the thread has seen."""
        k = self.builder
        column = self.place[1] + 2 * (k.lane & 3)
        rows = [
            self.shared.at((self.place[0] + self.left.line(i, k.lane >> 2)) * self.pitch + column) for i in range(2)
        ]
        for (i, j, *large), (_, _, *small) in zip(self.totals.pairs(), self.small.pairs(), strict=True):
            rows[i].at(EIGHT * j).store(0, [x + y for x, y in zip(large, small, strict=True)])
        return [self.left.least.get(), self.right.least.get()]


__all__ = ["SplitB", "TransposedBf16x3Operand", "WgmmaSums", "multiply"]
