"""Operand and result tiles in shared memory in the 128-byte swizzle that TMA writes and wgmma reads.

Everything is made of atoms of 8 rows of 128 bytes, 1024-byte aligned, in which the 16-byte chunk c of row r lies at
c ^ (r & 7) (the 128-byte swizzle). A row runs along K in a K-major tile, along M or N in an MN-major one, which wgmma
reads of 16-bit types only; those of 32 bits come to it through registers (`fragments`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from oxinp._ptx.memory import Pointer
from oxinp._ptx.tma import SWIZZLE_NBYTES, TensorMap, commit_stores, publish_shared, wait_stores
from oxinp._ptx.types import Type, u32
from oxinp._ptx.value import Value

if TYPE_CHECKING:
    from oxinp._ptx.builder import Builder
    from oxinp._ptx.mbarrier import Slot

WARPGROUP = 128  # threads
Pair = tuple[int, int, Value, Value]  # (i, j) and two sums of an accumulator, see `wgmma.Accumulator`
ATOM_ROWS = 8
ATOM_NBYTES = ATOM_ROWS * SWIZZLE_NBYTES
STEP_NBYTES = 32  # of K that one wgmma consumes, whatever the type
ADDRESS_SPACE_NBYTES = 1 << 18  # what the address field of a descriptor can reach

# Descriptor fields, in units of 16 bytes; bits 62-63 are the swizzle mode, 1 being 128 bytes.
_LEADING_SHIFT = 16
_SWIZZLE_128 = 1 << (62 - 32)


class OperandTile:
    """Tiles of `extent` x `depth` elements, one per pipeline stage (`extent` of M or N, `depth` of K).

    Parameters
    ----------
    k : Builder
    type : Type
    extent, depth : int
    major : str
        ``"k"``: rows of the tile run along K. ``"mn"``: they run along M or N.
    num_stages : int
        Stages of the pipeline.
    num_parts : int
        Equal slices that the blocks of a cluster load: along `extent`, or along `depth` where boxes do not divide.

    Attributes
    ----------
    box : tuple of int
        The box of one TMA load, as `MapSpec.box` of the array; (extent, depth) if K-major, (depth, extent) otherwise.
    depth : int
    nbytes : int
        Bytes of one tile.
    """

    def __init__(
        self, k: Builder, type: Type, extent: int, depth: int, major: str, num_stages: int, num_parts: int = 1
    ) -> None:
        self.builder = k
        self.type = type
        self.major = major
        self.depth = depth
        self.nbytes = extent * depth * type.nbytes
        self.box = operand_box(type, extent, depth, major, num_parts)
        along, deep = self.box if major == "k" else self.box[::-1]
        box_nbytes = along * depth * type.nbytes
        self._boxes = [(start // along * box_nbytes, start) for start in range(0, extent, along)]
        self._num_parts = num_parts
        self._depth_per_part = 0 if deep == depth else deep
        self._memory = k.dynamic_shared(type, (num_stages, extent * depth), align=ATOM_NBYTES)
        self._start: Value = self._memory.address()
        if major == "k":
            # Next 8 rows: the next atom. The leading distance has no meaning, K being one atom wide.
            leading, stride, self._step, self._atom = 16, ATOM_NBYTES, STEP_NBYTES, SWIZZLE_NBYTES
        else:
            # Next 64 of M or N: the next box. Next 8 of K: the next atom; a step of wgmma takes 16 of K, two atoms.
            leading, stride, self._step, self._atom = box_nbytes, ATOM_NBYTES, 2 * ATOM_NBYTES, box_nbytes // along
        low = k.emit("shr", self._start & (ADDRESS_SPACE_NBYTES - 1), 4, types=(u32,))
        self._low: Value = low | (leading >> 4 << _LEADING_SHIFT)
        self._high = k.const(_SWIZZLE_128 | stride >> 4, u32)

    def load(
        self,
        tensor_map: TensorMap,
        slot: Slot,
        extent_start: Value,
        depth_start: Value,
        part: Any = 0,
        multicast: int = 0,
        outer: tuple[Value, ...] = (),
    ) -> None:
        """Issue the TMA loads that fill the slot's tile, or this block's slice of it; one thread calls it.

        Parameters
        ----------
        tensor_map : TensorMap
        slot : Slot
        extent_start, depth_start : Value
            Element of the array where the tile begins, u32.
        part : int or Value
            Which part.
        multicast : int
            See `TensorMap.load`.
        outer : tuple of Value
            Element along the axes before those two, of which a tile has one.
        """
        tile, boxes = self._start + slot.stage * self.nbytes, self._boxes
        if self._depth_per_part:
            tile = tile + part * (self._depth_per_part * SWIZZLE_NBYTES)
            depth_start = depth_start + part * self._depth_per_part
        elif self._num_parts > 1:
            tile = tile + part * (self.nbytes // self._num_parts)
            extent = len(boxes) * (self.box[0] if self.major == "k" else self.box[1])
            extent_start = extent_start + part * (extent // self._num_parts)
            boxes = boxes[: len(boxes) // self._num_parts]
        for offset, start in boxes:
            along = extent_start + start if start else extent_start
            line, place = (along, depth_start) if self.major == "k" else (depth_start, along)
            if self.type.is_complex:
                place = place * len(self.type.parts)
            tensor_map.load(tile + offset if offset else tile, (*outer, line, place), slot, multicast)

    def address(self, stage: Value) -> Value:
        """Shared address of the tile in stage `stage`."""
        return self._start + stage * self.nbytes

    def rows(self, stage: Value, first: Any = 0) -> OperandView:
        """The tile in stage `stage` from element `first` (a multiple of 64) of M or N on, as a wgmma operand."""
        k = self.builder
        low = self._low + stage * (self.nbytes >> 4)
        if isinstance(first, Value) or first:
            low = low + first * (self._atom >> 4)
        return OperandView(k, low, self._high, self._step >> 4, self.major == "mn")


def operand_box(type: Type, extent: int, depth: int, major: str, num_parts: int) -> tuple[int, int]:
    """The box of the TMA loads that fill a tile; see `OperandTile`.

    Raises
    ------
    ValueError
        No such tile.
    """
    if major not in ("k", "mn"):
        raise ValueError(f"a tile is 'k' or 'mn' major, not {major!r}")
    row = SWIZZLE_NBYTES // type.nbytes
    if major == "k":
        if depth != row:
            raise ValueError(f"a K-major tile of {type} is {row} deep, not {depth}")
        box = (min(extent // num_parts, 256), depth)
        along = box[0]
    else:
        if type.bits < 16:
            raise ValueError(f"wgmma reads {type} tiles K-major only")
        unit = max(STEP_NBYTES // type.nbytes, ATOM_ROWS)
        if depth % unit:
            raise ValueError(f"an MN-major tile of {type} is a multiple of {unit} deep, not {depth}")
        box = (depth, row)
        along = row
        if extent % (num_parts * along) and depth % (num_parts * ATOM_ROWS) == 0:
            box, num_parts = (depth // num_parts, row), 1
    if extent % (num_parts * along) or along % ATOM_ROWS:
        raise ValueError(f"{extent} does not divide into {num_parts} parts of boxes of {along}")
    return box


class OperandView:
    """A tile as an operand of wgmma."""

    def __init__(self, k: Builder, low: Value, high: Value, step: int, is_transposed: bool) -> None:
        self.builder = k
        self.is_transposed = is_transposed
        self._low = low
        self._high = high
        self._step = step

    def descriptor(self, step: int) -> Value:
        """The 64-bit descriptor of K step number `step`."""
        low = self._low + step * self._step if step else self._low
        result: Value = self.builder.emit("pack", low, self._high, types=())
        return result


class PairEpilogue(Protocol):
    """An epilogue: applied to the pairs of an accumulator before they are converted."""

    def __call__(self, pairs: list[Pair], /) -> list[Pair]:
        """Apply the epilogue to pairs."""


class Sums(Protocol):
    """The sums of a warpgroup: an accumulator of wgmma, or totals of several; see `wgmma.Accumulator`."""

    def pairs(self) -> list[Pair]:
        """Return the thread's sums: (i, j, first, second)."""
        ...


class ResultTile:
    """The epilogue of an accumulator to a row-major matrix: swizzled boxes in shared memory, written by TMA stores.

    Each warpgroup has two boxes of 64 rows of 128 bytes: while one is copied out, the other is written. The pairs of
    an accumulator fall on different banks.

    Parameters
    ----------
    k : Builder
    type : Type
        Element type of the result.
    num_warpgroups : int
    warpgroup, thread : Value
        This thread's warpgroup, counted from 0, and its number in it.
    num_lines : int
        Of a box.
    """

    ROWS = 64
    NUM_BUFFERS = 2

    def __init__(
        self, k: Builder, type: Type, num_warpgroups: int, warpgroup: Value, thread: Value, num_lines: int = ROWS
    ) -> None:
        self.builder = k
        self.type = type
        self._thread = thread
        self._barrier = warpgroup + 1
        self._columns = SWIZZLE_NBYTES // type.nbytes
        self._per_box = self._columns // 8  # eights of columns of C
        self._num_lines, self._box_nbytes = num_lines, num_lines * SWIZZLE_NBYTES
        memory = k.dynamic_shared(type, (num_warpgroups * self.NUM_BUFFERS, num_lines * self._columns), ATOM_NBYTES)
        self._start: Value = memory.address() + warpgroup * (self.NUM_BUFFERS * self._box_nbytes)
        # Thread t has elements 2 (t % 4) and the next of 8 columns, in rows 16 (t / 32) + t % 32 / 4 and 8 below.
        row_in_atom = (thread >> 2) & 7
        atom = (thread >> 5) * 2
        lane = ((thread & 3) * (2 * type.nbytes)) ^ (row_in_atom << 4)
        row = self._start + atom * ATOM_NBYTES + row_in_atom * SWIZZLE_NBYTES
        eight = 8 * type.nbytes
        self._places = [
            Pointer(k, row + (lane ^ (j * eight) if j else lane), type, "shared") for j in range(self._columns // 8)
        ]

    @classmethod
    def box(cls, type: Type) -> tuple[int, int]:
        """The box of one TMA store, as `MapSpec.box`."""
        return cls.ROWS, SWIZZLE_NBYTES // type.nbytes

    def store(
        self,
        tensor_map: TensorMap,
        accumulator: Sums,
        row: Value,
        column: Value,
        outer: tuple[Value, ...] = (),
        epilogue: PairEpilogue | None = None,
    ) -> None:
        """Apply the epilogue to 64 rows of an accumulator, convert them, and store them from (`row`, `column`) on.

        `outer` is the element along the axes before those two; `epilogue` is given the pairs box by box.
        """
        k, per_box = self.builder, self._per_box
        pairs = accumulator.pairs()
        boxes = [[pair for pair in pairs if pair[1] // per_box == box] for box in range(pairs[-1][1] // per_box + 1)]
        is_first = self._thread == 0
        for number, box in enumerate(boxes):
            buffer = number % self.NUM_BUFFERS
            # An odd number of boxes ends in buffer 0, where the next call begins.
            is_repeated = number == 0 and len(boxes) % self.NUM_BUFFERS == 1
            with k.when(is_first):
                wait_stores(k, 0 if is_repeated else self.NUM_BUFFERS - 1)
            k.barrier(self._barrier, WARPGROUP)
            for i, j, *values in box if epilogue is None else epilogue(box):
                self._put(buffer, i, j % per_box, values)
            publish_shared(k)
            k.barrier(self._barrier, WARPGROUP)
            with k.when(is_first):
                start = column + number * (per_box * 8) if number else column
                tensor_map.store((*outer, *self._corner(row, start)), self._start + buffer * self._box_nbytes)
                commit_stores(k)

    def _put(self, buffer: int, i: int, j: int, values: list[Value]) -> None:
        """Convert a pair, and write it to a box in shared memory."""
        place = self._places[j].offset_bytes(buffer * self._box_nbytes + i * ATOM_NBYTES)
        place.store(0, [self.builder.cast(value, self.type) for value in values])

    def _corner(self, row: Value, column: Value) -> tuple[Value, Value]:
        """Coordinates of the box that begins with an element of C, innermost axis last."""
        return row, column

    def close(self) -> None:
        """Wait at the end of the kernel until the TMA stores have read shared memory."""
        with self.builder.when(self._thread == 0):
            wait_stores(self.builder)


class ColumnsTile(ResultTile):
    """The epilogue of accumulators of 2-byte elements to a column-major matrix; parameters as of `ResultTile`.

    Boxes are 64 rows of M, 128 bytes, by as many columns, or fewer where tiles have fewer.
    """

    def __init__(
        self, k: Builder, type: Type, width: int, num_warpgroups: int, warpgroup: Value, thread: Value
    ) -> None:
        super().__init__(k, type, num_warpgroups, warpgroup, thread, self.columns_box(type, width)[0])
        self._per_box = self._num_lines // 8
        # Thread t has rows 16 (t / 32) + t % 32 / 4 and 8 below, of columns 2 (t % 4) and the next of 8.
        row, line = (thread >> 2) & 7, (thread & 3) * 2
        chunk = (thread >> 5) * 2
        self._spots = {
            (i, c): Pointer(
                k,
                self._start + (line + c) * SWIZZLE_NBYTES + (((chunk + i) ^ (line + c)) << 4) + row * type.nbytes,
                type,
                "shared",
            )
            for i in range(2)
            for c in range(2)
        }

    @classmethod
    def columns_box(cls, type: Type, width: int) -> tuple[int, int]:
        """The box of one TMA store of tiles of `width` columns, as `MapSpec.box`."""
        return math.gcd(width, cls.ROWS), SWIZZLE_NBYTES // type.nbytes

    def _put(self, buffer: int, i: int, j: int, values: list[Value]) -> None:
        offset = buffer * self._box_nbytes + j * ATOM_NBYTES
        for c, value in enumerate(values):
            self._spots[i, c].offset_bytes(offset).store(0, [self.builder.cast(value, self.type)])

    def _corner(self, row: Value, column: Value) -> tuple[Value, Value]:
        return column, row


__all__ = ["ATOM_NBYTES", "ColumnsTile", "OperandTile", "OperandView", "PairEpilogue", "ResultTile", "operand_box"]
