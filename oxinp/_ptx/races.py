"""Race detection of the emulator: who touched which byte since the last synchronisation.

Every synchronisation advances a clock. A byte's tag is (time, lane) of its last write, and of its last read. An
access conflicts with the tag of another lane unless a synchronisation that covers both came in between: a barrier of
their block, a warp synchronisation of their warp, or, between blocks, any fence or acquire (which orders more than
the hardware would promise: such races go unseen, and nothing correct is reported).

Most launches touch disjoint ranges, or the same element from the same lane. So accesses are first only noted as
ranges; tags are written once two ranges meet in a way that needs a closer look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LANE_BITS = 32
_LANE_MASK = (1 << _LANE_BITS) - 1
# Lane fields that stand for several lanes: of one block (the block's number in the low bits), or of several.
_MANY = 1 << 31
_MANY_BLOCKS = _LANE_MASK
_MAX_RANGES = 48


class Conflict(NamedTuple):
    """Two unordered accesses of one byte by different lanes, at least one of them a write."""

    offset: int
    lane: int
    other: int | None
    kind: str


class Epochs:
    """When each block, each warp and the whole grid last synchronised.

    Parameters
    ----------
    start : int
        Time of the launch, above every earlier one.
    num_blocks, lanes_per_block : int
    """

    def __init__(self, start: int, num_blocks: int, lanes_per_block: int) -> None:
        self.now = start
        self.grid = start
        self.lanes_per_block = lanes_per_block
        self.block = np.full(num_blocks, start, np.int64)
        self.warp = np.full(num_blocks * lanes_per_block // 32, start, np.int64)

    def synchronize_blocks(self, blocks: Array | slice) -> None:
        """Order everything before against everything after within blocks."""
        self.now += 1
        self.block[blocks] = self.now

    def synchronize_warps(self, warps: Array) -> None:
        """Order everything before against everything after within warps."""
        self.now += 1
        self.warp[warps] = self.now

    def synchronize_grid(self) -> None:
        """Order everything before against everything after."""
        self.now += 1
        self.grid = self.now

    def unordered(self, tags: Array, lanes: Array) -> Array:
        """Which tags (n, bytes) are of other lanes than `lanes` (n, 1) with no synchronisation in between."""
        times, others = tags >> _LANE_BITS, tags & _LANE_MASK
        blocks = lanes // self.lanes_per_block
        several = others >= _MANY
        other_blocks = np.where(several, others & ~_MANY, others // self.lanes_per_block)
        same_block = (other_blocks == blocks) & (others != _MANY_BLOCKS)
        same_warp = ~several & (others // 32 == lanes // 32)
        since = np.where(same_block, np.maximum(self.block[blocks], self.grid), self.grid)
        since = np.where(same_warp, np.maximum(since, self.warp[lanes // 32]), since)
        unordered: Array = (others != lanes) & (times >= since)
        return unordered


@dataclass(slots=True, eq=False)
class _Range:
    """One noted access: offsets of `lanes`, `nbytes` each; `key` names the lane-to-byte map if it is affine."""

    low: int
    high: int
    is_write: bool
    key: tuple[int, int] | None
    offsets: Array
    nbytes: int
    lanes: Array
    time: int


class Tracker:
    """Race state of one memory space.

    Parameters
    ----------
    capacity : int
        Bytes of the space.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._ranges: list[_Range] = []
        self._is_tagging = False
        # calloc: pages that are never tagged cost nothing
        self._writer = np.zeros(0, np.int64)
        self._reader = np.zeros(0, np.int64)

    def begin_launch(self) -> None:
        """Forget the noted ranges; tags of earlier launches are too old to matter."""
        self._ranges.clear()
        self._is_tagging = False

    def grow(self, capacity: int) -> None:
        """Follow the space to a larger capacity."""
        self.capacity = capacity

    def note(
        self, epochs: Epochs, offsets: Array, nbytes: int, lanes: Array, *, is_write: bool, is_contiguous: bool
    ) -> Conflict | None:
        """Record an access by distinct lanes, `offsets[i]` by `lanes[i]`; the first conflict it has, if any."""
        if self._is_tagging:
            return self._tag(epochs, offsets, nbytes, lanes, epochs.now, is_write=is_write)
        num = len(offsets)
        if is_contiguous:
            low, high = int(offsets[0]), int(offsets[-1]) + nbytes
            affine = int(lanes[-1]) - int(lanes[0]) == num - 1
            key = (low - nbytes * int(lanes[0]), nbytes) if affine else None
        else:
            low, high, key = int(offsets.min()), int(offsets.max()) + nbytes, None
        new = _Range(low, high, is_write, key, offsets, nbytes, lanes, epochs.now)
        scattered_write = is_write and not is_contiguous and num > 1
        if scattered_write or len(self._ranges) >= _MAX_RANGES or any(self._meets(new, old) for old in self._ranges):
            return self._start_tagging(epochs, new)
        self._ranges.append(new)
        return None

    @staticmethod
    def _meets(new: _Range, old: _Range) -> bool:
        if new.low >= old.high or old.low >= new.high or not (new.is_write or old.is_write):
            return False
        return new.key is None or new.key != old.key

    def _start_tagging(self, epochs: Epochs, new: _Range) -> Conflict | None:
        if len(self._writer) < self.capacity:
            self._writer = np.zeros(self.capacity, np.int64)
            self._reader = np.zeros(self.capacity, np.int64)
        self._is_tagging = True
        for noted in (*self._ranges, new):
            conflict = self._tag(
                epochs,
                noted.offsets,
                noted.nbytes,
                noted.lanes,
                noted.time,
                is_write=noted.is_write,
                is_checked=noted is new,
            )
            if conflict is not None:
                return conflict
        self._ranges.clear()
        return None

    def _tag(
        self,
        epochs: Epochs,
        offsets: Array,
        nbytes: int,
        lanes: Array,
        time: int,
        *,
        is_write: bool,
        is_checked: bool = True,
    ) -> Conflict | None:
        rows = offsets // nbytes
        writer = self._writer[: self.capacity].reshape(-1, nbytes)
        reader = self._reader[: self.capacity].reshape(-1, nbytes)
        column = lanes[:, None]
        tag = (time << _LANE_BITS) | column
        if is_checked:
            kinds = (("write after write", writer), ("write after read", reader))
            for kind, tags in kinds if is_write else (("read after write", writer),):
                conflict = self._check(epochs, tags[rows], column, offsets, kind)
                if conflict is not None:
                    return conflict
        if not is_write:
            self._tag_reads(epochs, reader, rows, column, tag)
            return None
        writer[rows] = tag
        return self._check(epochs, writer[rows], column, offsets, "write after write") if is_checked else None

    @staticmethod
    def _check(epochs: Epochs, tags: Array, column: Array, offsets: Array, kind: str) -> Conflict | None:
        if int(tags.max()) < epochs.grid << _LANE_BITS:  # all ordered by a fence, or of earlier launches
            return None
        bad = epochs.unordered(tags, column)
        if not bad.any():
            return None
        lane, byte = np.unravel_index(int(bad.argmax()), bad.shape)
        other = int(tags[lane, byte]) & _LANE_MASK
        return Conflict(int(offsets[lane]) + int(byte), int(column[lane, 0]), None if other >= _MANY else other, kind)

    @staticmethod
    def _tag_reads(epochs: Epochs, reader: Array, rows: Array, column: Array, tag: Array) -> None:
        """Note readers; a byte that several lanes read since their last synchronisation is tagged so."""
        lanes_per_block = epochs.lanes_per_block
        blocks = column // lanes_per_block
        old = reader[rows]
        kept = epochs.unordered(old, column)
        others = old & _LANE_MASK
        old_blocks = np.where(others >= _MANY, others & ~_MANY, others // lanes_per_block)
        time = tag & ~_LANE_MASK
        same_block = (old_blocks == blocks) & (others != _MANY_BLOCKS)
        shared = time | np.where(same_block, _MANY | blocks, _MANY_BLOCKS)
        reader[rows] = np.where(kept, shared, tag)
        # lanes of this very instruction that read the same byte
        new = reader[rows]
        winner = new & _LANE_MASK
        lost = (winner != column) & (winner != _MANY_BLOCKS) & (winner != (_MANY | blocks))
        if lost.any():
            winner_blocks = np.where(winner >= _MANY, winner & ~_MANY, winner // lanes_per_block)
            for several, lane_field in ((winner_blocks == blocks, _MANY | blocks), (winner_blocks != blocks, None)):
                lanes_lost, bytes_lost = np.nonzero(lost & several)
                field = _MANY_BLOCKS if lane_field is None else lane_field[lanes_lost, 0]
                reader[rows[lanes_lost], bytes_lost] = time[lanes_lost, 0] | field
