"""wgmma of M-major f32 tiles: register fragments of the left operand, and the epilogue of M-major results.

wgmma reads f32 (as tf32) from shared memory in K-major tiles only, but takes its left operand from registers as well.
`Fragments` loads the fragments of a warpgroup from M-major tiles. To avoid bank conflicts the 64 rows of M are assigned
to the warps in the permuted order of `_Place`; the rows of the accumulator have the same order. `TransposedResultTile`
stores such accumulators to results of which M is the contiguous axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.memory import Pointer
from oxinp._ptx.tile import ATOM_NBYTES, WARPGROUP, OperandTile
from oxinp._ptx.tma import SWIZZLE_NBYTES, TensorMap, commit_stores, publish_shared, wait_stores
from oxinp._ptx.types import f32
from oxinp._ptx.value import Value, Var

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.wgmma import Accumulator, Totals

LINE = SWIZZLE_NBYTES // f32.nbytes  # elements of M in a line of a box
STEP = 8  # of K that one wgmma takes


class _Place:
    """The accumulator rows of a thread: in box `box` of 32 rows, for i in 0, 1, element `element` of a chunk.

    Thread t: w = t / 32, r = t % 32 / 4: box w / 2, chunk 2 (w % 2) + i + 4 (r / 4), element r % 4.
    """

    def __init__(self, thread: Value) -> None:
        warp, row = thread >> 5, (thread >> 2) & 7
        self.quarter = thread & 3
        self.box, self.element = warp >> 1, row & 3
        self.chunks = [(warp & 1) * 2 + i + (row >> 2) * 4 for i in range(2)]

    def offset(self, i: int, line: Value) -> Value:
        """Byte offset of the thread's element of a line from the beginning of its box; an atom has 8 lines."""
        return line * SWIZZLE_NBYTES + ((self.chunks[i] ^ (line & 7)) << 4) + self.element * f32.nbytes


class Fragments:
    """Fragments of the left operand of wgmma in the registers of a warpgroup.

    Parameters
    ----------
    k : Builder
    tile : OperandTile
        M-major, of f32.
    first : Value
        Element of M where the warpgroup's 64 rows begin.
    thread : Value
        This thread's number in the warpgroup.
    num_parts : int
        Equal slices of a tile along K, of which one is in registers at a time.
    """

    def __init__(self, k: Builder, tile: OperandTile, first: Value, thread: Value, num_parts: int = 1) -> None:
        self.builder, self._tile = k, tile
        depth = tile.depth
        self._num_steps = depth // STEP // num_parts
        place = _Place(thread)
        start = (first / LINE + place.box) * (depth * SWIZZLE_NBYTES)
        self._offsets = [start + place.offset(i, place.quarter + 4 * half) for half in range(2) for i in range(2)]
        self._registers: list[Var] = [k.var(0, f32) for _ in range(self._num_steps * len(self._offsets))]

    def load(self, stage: Value, part: int = 0) -> None:
        """Load a slice of the tile in stage `stage`; no multiplication may still read the previous fragments."""
        base = self._tile.address(stage)
        start = part * self._num_steps
        places = [Pointer(self.builder, base + offset, f32, "shared", "r") for offset in self._offsets]
        for number, register in enumerate(self._registers):
            step, place = divmod(number, len(places))
            register.set(places[place].offset_bytes((start + step) * ATOM_NBYTES).load()[0])

    def steps(self) -> list[list[Var]]:
        """Registers of each step of K."""
        count = len(self._offsets)
        return [self._registers[i : i + count] for i in range(0, len(self._registers), count)]


class TransposedResultTile:
    """The epilogue of accumulators in the row order of `Fragments` to an M-major matrix of f32; see `ResultTile`.

    Each warpgroup has two buffers of two boxes: 32 of N by 32 of M.
    """

    NUM_BUFFERS = 2
    LINES = 32  # of N
    BOX_NBYTES = LINES * SWIZZLE_NBYTES

    def __init__(self, k: Builder, num_warpgroups: int, warpgroup: Value, thread: Value) -> None:
        self.builder, self._thread, self._barrier = k, thread, warpgroup + 1
        buffers = self.NUM_BUFFERS * 2
        memory = k.dynamic_shared(f32, (num_warpgroups * buffers, self.LINES * LINE), ATOM_NBYTES)
        self._start: Value = memory.address() + warpgroup * (buffers * self.BOX_NBYTES)
        place = _Place(thread)
        start = self._start + place.box * self.BOX_NBYTES
        # Sums (i, j, c) are of column 8 j + 2 (t % 4) + c.
        self._places = {
            (i, c): Pointer(k, start + place.offset(i, place.quarter * 2 + c), f32, "shared")
            for i in range(2)
            for c in range(2)
        }

    @classmethod
    def box(cls) -> tuple[int, int]:
        """The box of one TMA store, as `MapSpec.box`."""
        return cls.LINES, LINE

    def store(
        self,
        tensor_map: TensorMap,
        accumulator: Accumulator | Totals,
        row: Value,
        column: Value,
        outer: tuple[Value, ...] = (),
        epilogue: None = None,
    ) -> None:
        """Store 64 rows of an accumulator to the result from (`row`, `column`) on."""
        del epilogue  # M-major results have no epilogue
        k, per_box = self.builder, self.LINES // 8
        pairs = accumulator.pairs()
        num_boxes = pairs[-1][1] // per_box + 1
        is_first = self._thread == 0
        for number in range(num_boxes):
            offset = number % self.NUM_BUFFERS * 2 * self.BOX_NBYTES
            with k.when(is_first):
                wait_stores(k, self.NUM_BUFFERS - 1)
            k.barrier(self._barrier, WARPGROUP)
            for i, j, *values in pairs:
                if j // per_box == number:
                    for c, value in enumerate(values):
                        self._places[i, c].offset_bytes(offset + j % per_box * ATOM_NBYTES).store(0, [value])
            publish_shared(k)
            k.barrier(self._barrier, WARPGROUP)
            with k.when(is_first):
                for half in range(2):
                    position = (*outer, column + number * self.LINES, row + half * LINE)
                    tensor_map.store(position, self._start + (offset + half * self.BOX_NBYTES))
                commit_stores(k)

    def close(self) -> None:
        """Wait at the end of the kernel until the TMA stores have read shared memory."""
        with self.builder.when(self._thread == 0):
            wait_stores(self.builder)


__all__ = ["Fragments", "TransposedResultTile"]
