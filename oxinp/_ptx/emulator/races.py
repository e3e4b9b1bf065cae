"""Race detection of the emulator: who touched which byte since the last synchronisation.

Every synchronisation advances a clock. A byte's tag is (time, lane) of its last write, and of its last read. An
access conflicts with the tag of another lane unless a synchronisation that covers both came in between: a barrier of
their block, a warp synchronisation of their warp, or, between blocks, any fence or acquire (which orders more than
the hardware would promise: such races go unseen). Nothing correct is reported, but for one thing: what several lanes
have read since they synchronised counts as ordered by barriers alone.

Most accesses touch what nobody else touches before the next synchronisation, or the same element from the same lane.
So accesses are first only noted as ranges, and forgotten once a synchronisation has ordered them before everything to
come; tags are written where two ranges meet in a way that needs a closer look. A tag stands for a granule: as many
bytes as the smallest access that was tagged in the launch, to which all accesses are aligned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.numbers import greatest, least
from oxinp._ptx.emulator.ranges import GAP, Range, Ranges
from oxinp._ptx.truths import any_of

Array = npt.NDArray[Any]

_WARP, _WARP_BITS = 32, 5
_LANE_BITS = 32
_NEXT = 1 << _LANE_BITS  # from a time to the next one
_LANE_MASK = _NEXT - 1
# Lane fields that stand for several lanes: of one block (the block's number in the low bits), or of several.
_MANY = 1 << 31
_MANY_BLOCKS = _LANE_MASK
_MAX_NOTED = 1 << 22  # offsets held by noted ranges
_GRANULE = 16  # the widest access


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

    Attributes
    ----------
    grid, floor : int
        Accesses before `grid` are ordered against all later ones, those before `floor` against those of their block.
    """

    def __init__(self, start: int, num_blocks: int, lanes_per_block: int) -> None:
        self.now = start
        self.grid = self.floor = start
        self.lanes_per_block = lanes_per_block
        self.block = np.full(num_blocks, start, np.int64)
        self.warp = np.full(num_blocks * lanes_per_block // 32, start, np.int64)

    def synchronize_blocks(self, blocks: Array | slice) -> None:
        """Order everything before against everything after within blocks."""
        self.now += 1
        self.block[blocks] = self.now
        self.floor = max(self.grid, least(self.block))

    def synchronize_warps(self, warps: Array) -> None:
        """Order everything before against everything after within warps."""
        if self.lanes_per_block == _WARP:
            self.synchronize_blocks(warps)
            return
        self.now += 1
        self.warp[warps] = self.now

    def synchronize_grid(self) -> None:
        """Order everything before against everything after."""
        self.now += 1
        self.grid = self.floor = self.now

    def unordered(self, tags: Array, lanes: Array, floor: int) -> Array:
        """Which tags (n, granules) are of other lanes than `lanes` (n, 1) with no synchronisation in between.

        What is before the time `floor` is known to be ordered.
        """
        others = tags & _LANE_MASK
        unordered: Array = (others != lanes) & (tags >= floor << _LANE_BITS)
        if any_of(unordered):  # the more frequent case: synchronisations of warps
            warps = lanes >> _WARP_BITS
            since = self.warp[warps] << _LANE_BITS
            unordered &= (others >> _WARP_BITS != warps) | (tags >= since)
        if any_of(unordered):
            where = unordered.nonzero()
            unordered[where] = self._is_since(tags[where], others[where], lanes[where[0], 0])
        return unordered

    def _is_since(self, tags: Array, others: Array, lanes: Array) -> Array:
        """Which tags are not older than the last synchronisation that covers both lanes."""
        blocks = lanes // self.lanes_per_block
        several = others >= _MANY
        other_blocks = np.where(several, others & ~_MANY, others // self.lanes_per_block)
        same_block = (other_blocks == blocks) & (others != _MANY_BLOCKS)
        same_warp = ~several & (others // 32 == lanes // 32)
        since = np.where(same_block, np.maximum(self.block[blocks], self.grid), self.grid)
        since = np.where(same_warp, np.maximum(since, self.warp[lanes // 32]), since)
        later: Array = (tags >> _LANE_BITS) >= since
        return later


class Tracker:
    """Race state of one memory space.

    Parameters
    ----------
    capacity : int
        Bytes of the space, a multiple of 16.
    is_shared : bool
        Whether each block has its own part: barriers then order all accesses that may meet.
    """

    def __init__(self, capacity: int, *, is_shared: bool = False) -> None:
        self.capacity = capacity
        self._is_shared = is_shared
        self._reads, self._writes = Ranges(), Ranges()
        # calloc: pages that are never tagged cost nothing
        self._writer = np.zeros(0, np.int64)
        self._reader = np.zeros(0, np.int64)
        self.begin_launch()

    def begin_launch(self) -> None:
        """Forget the noted ranges; tags of earlier launches are too old to matter."""
        self._reads.take()
        self._writes.take()
        self._num_noted = 0
        self._granule = _GRANULE
        self._forgotten = 0  # what was before this time
        self._floor = 0  # what is before this time is ordered against the present access
        self._extents: list[tuple[int, int, int]] = []  # where there are tags that matter, far apart, and the last time

    def grow(self, capacity: int) -> None:
        """Follow the space to a larger capacity."""
        self.capacity = capacity

    def note(
        self,
        epochs: Epochs,
        offsets: Array,
        nbytes: int,
        lanes: Array,
        bounds: tuple[int, int],
        *,
        is_write: bool,
        is_contiguous: bool,
    ) -> Conflict | None:
        """Record an access by distinct lanes; the first conflict it has, if any.

        Parameters
        ----------
        epochs : Epochs
        offsets : int64 array
            Of the element that each lane touches; of length 1 where all of them read one.
        nbytes : int
            A power of two up to 16.
        lanes : int64 array
            Ascending.
        bounds : tuple of int
            First byte, and the one behind the last; of shared memory as if there were one block.
        is_write : bool
        is_contiguous : bool
            Whether the elements follow each other.
        """
        floor = epochs.floor if self._is_shared else epochs.grid
        if floor > self._forgotten:
            self._forget(floor)
        if self._is_shared and floor < epochs.now and len(epochs.block) > 1:  # blocks of this access only
            first, last = lanes.item(0) // epochs.lanes_per_block, lanes.item(-1) // epochs.lanes_per_block
            floor = max(epochs.grid, least(epochs.block[first : last + 1]))
        self._floor = floor
        low, high = bounds
        key = None
        if is_contiguous:
            start = lanes.item(0)
            if lanes.item(-1) - start == len(lanes) - 1:
                key = (low - nbytes * start, nbytes)
        new = Range(low, high, is_write, key, offsets, nbytes, lanes, epochs.now)
        met = self._writes.meeting(new, floor)
        if is_write:
            met = self._reads.meeting(new, floor) + met
        is_near = self._extents and any(s < high and low < e and time >= floor for s, e, time in self._extents)
        if not met and not is_near and (not is_write or is_contiguous or _are_distinct(offsets, nbytes)):
            self._num_noted += (self._writes if is_write else self._reads).add(new)
            if self._num_noted > _MAX_NOTED:
                self._tag_noted(epochs)
            return None
        for old in met:
            self._tag(epochs, old, is_checked=False)
        return self._tag(epochs, new)

    def _forget(self, floor: int) -> None:
        """Forget accesses that a synchronisation has ordered before every later one."""
        self._forgotten = floor
        self._reads.forget(floor)
        self._writes.forget(floor)
        self._extents = [extent for extent in self._extents if extent[2] >= floor]

    def _tag_noted(self, epochs: Epochs) -> None:
        """Write tags for all noted ranges, once these hold too much memory."""
        self._num_noted = 0
        for old in (*self._reads.take(), *self._writes.take()):
            self._tag(epochs, old, is_checked=False)

    def _tags(self, nbytes: int, low: int, high: int, time: int) -> tuple[Array, Array]:
        """Tags of writers and readers, one row per element of an access, refined to its granule."""
        granule = min(self._granule, nbytes)
        num = self.capacity // granule
        if granule < self._granule or len(self._writer) < num:
            self._writer, self._reader = (self._refined(tags, granule) for tags in (self._writer, self._reader))
            self._granule = granule
        low, high = low // _GRANULE * _GRANULE, -(-high // _GRANULE) * _GRANULE
        near = [extent for extent in self._extents if extent[0] <= high + GAP and low <= extent[1] + GAP]
        if near != [(low, high, time)]:
            starts, ends, times = zip((low, high, time), *near, strict=True)
            self._extents = [extent for extent in self._extents if extent not in near]
            self._extents.append((min(starts), max(ends), max(times)))
        width = nbytes // granule
        return self._writer[:num].reshape(-1, width), self._reader[:num].reshape(-1, width)

    def _refined(self, tags: Array, granule: int) -> Array:
        """Return `tags` with the live ones refined to a finer granule, in an array for the whole capacity."""
        num, coarse = self.capacity // granule, self._granule
        # extents in shared memory are those inside a block
        extents = [(0, self.capacity)] if self._is_shared else [(start, end) for start, end, _ in self._extents]
        kept = [(start, tags[start // coarse : end // coarse].copy()) for start, end in extents]
        if len(tags) < num:
            tags = np.zeros(num, np.int64)
        for start, end in extents:
            tags[start // coarse : end // coarse] = 0
        for start, some in kept:
            fine = np.repeat(some, coarse // granule)
            tags[start // granule : start // granule + len(fine)] = fine
        return tags

    def _tag(self, epochs: Epochs, access: Range, *, is_checked: bool = True) -> Conflict | None:
        writer, reader = self._tags(access.nbytes, access.low, access.high, access.time)
        lanes = access.lanes
        offsets = access.offsets if len(access.offsets) == len(lanes) else access.offsets.repeat(len(lanes))
        rows = access.numbers if len(access.numbers) == len(lanes) else access.numbers.repeat(len(lanes))
        column = lanes[:, None]
        tag = (access.time << _LANE_BITS) | column
        if is_checked:
            kinds = (("write after write", writer), ("write after read", reader))
            for kind, tags in kinds if access.is_write else (("read after write", writer),):
                conflict = self._check(epochs, _of(tags, rows), column, offsets, kind)
                if conflict is not None:
                    return conflict
        if not access.is_write:
            if len(access.offsets) == 1 < len(lanes):
                self._tag_common_read(epochs, reader[int(rows[0])], column, access.time << _LANE_BITS)
            else:
                self._tag_reads(epochs, reader, rows, column, tag)
            return None
        _put(writer, rows, tag if is_checked else np.maximum(_of(writer, rows), tag))
        if not is_checked or access.key is not None or _are_distinct(offsets, access.nbytes):
            return None
        return self._check(epochs, _of(writer, rows), column, offsets, "write after write")

    def _check(self, epochs: Epochs, tags: Array, column: Array, offsets: Array, kind: str) -> Conflict | None:
        if int(np.maximum.reduce(tags, axis=None)) < self._floor << _LANE_BITS:  # all ordered, or of earlier launches
            return None
        bad = epochs.unordered(tags, column, self._floor)
        if not any_of(bad):
            return None
        lane, place = np.unravel_index(int(bad.argmax()), bad.shape)
        other = int(tags[lane, place]) & _LANE_MASK
        offset = int(offsets[lane]) + int(place) * self._granule
        return Conflict(offset, int(column[lane, 0]), None if other >= _MANY else other, kind)

    def _tag_common_read(self, epochs: Epochs, tags: Array, column: Array, time: int) -> None:
        """Note that several lanes read one element, whose granules have these tags."""
        blocks = column[:, 0][[0, -1]] // epochs.lanes_per_block
        if blocks[0] != blocks[1]:
            tags[:] = time | _MANY_BLOCKS
            return
        several = _MANY | int(blocks[0])
        fields = np.full(len(tags), several, np.int64)
        if int(np.maximum.reduce(tags)) >= self._forgotten << _LANE_BITS:
            spread = np.broadcast_to(tags, (len(column), len(tags)))
            kept = epochs.unordered(spread, column, epochs.grid).any(axis=0)
            others = tags & _LANE_MASK
            same_block = (others == several) | ((others < _MANY) & (others // epochs.lanes_per_block == blocks[0]))
            fields[kept & ~same_block] = _MANY_BLOCKS
            is_later = tags >= time + _NEXT
            tags[:] = np.where(is_later, self._with_earlier(epochs, tags, time | fields), time | fields)
        else:
            tags[:] = time | fields

    @staticmethod
    def _tag_reads(epochs: Epochs, reader: Array, rows: Array, column: Array, tag: Array) -> None:
        """Note readers; a granule that several lanes read since their last synchronisation is tagged so."""
        lanes_per_block = epochs.lanes_per_block
        blocks = column // lanes_per_block
        time = tag & ~_LANE_MASK
        old = _of(reader, rows)
        is_later = old >= time + _NEXT
        kept = epochs.unordered(old, column, epochs.grid)
        if any_of(kept):
            others = old & _LANE_MASK
            old_blocks = np.where(others >= _MANY, others & ~_MANY, others // lanes_per_block)
            same_block = (old_blocks == blocks) & (others != _MANY_BLOCKS)
            shared = time | np.where(same_block, _MANY | blocks, _MANY_BLOCKS)
            _put(reader, rows, np.where(kept, shared, tag))
        else:
            _put(reader, rows, tag)
        # lanes of this very instruction that read the same granule
        winner = _of(reader, rows) & _LANE_MASK
        lost = winner != column
        if any_of(lost):
            lost &= (winner != _MANY_BLOCKS) & (winner != (_MANY | blocks))
        if any_of(lost):
            winner_blocks = np.where(winner >= _MANY, winner & ~_MANY, winner // lanes_per_block)
            for several, lane_field in ((winner_blocks == blocks, _MANY | blocks), (winner_blocks != blocks, None)):
                lanes_lost, places = np.nonzero(lost & several)
                field = _MANY_BLOCKS if lane_field is None else lane_field[lanes_lost, 0]
                reader[rows[lanes_lost], places] = time[lanes_lost, 0] | field
        if any_of(is_later):
            where, places = is_later.nonzero()
            merged = Tracker._with_earlier(epochs, old[where, places], tag[where, 0])
            ordered = merged.argsort()  # of lanes that read one granule, what several lanes have read comes last
            reader[rows[where[ordered]], places[ordered]] = merged[ordered]

    @staticmethod
    def _with_earlier(epochs: Epochs, tags: Array, earlier: Array) -> Array:
        """Tags of readers once earlier reads of the same granules are noted, too, of several if nothing came between.

        Reads are tagged where others need a closer look, so not in the order in which they happened.
        """
        lanes, others = tags & _LANE_MASK, earlier & _LANE_MASK
        is_one = lanes < _MANY
        blocks, other_blocks = (
            np.where(each >= _MANY, each & ~_MANY, each // epochs.lanes_per_block) for each in (lanes, others)
        )
        is_other = (blocks != other_blocks) | (lanes == _MANY_BLOCKS) | (others == _MANY_BLOCKS)
        is_unordered = is_other & (earlier >= epochs.grid << _LANE_BITS)
        if any_of(is_one):
            column = lanes[is_one][:, None]
            is_unordered[is_one] = epochs.unordered(earlier[is_one][:, None], column, epochs.grid)[:, 0]
        several = np.where(is_other, _MANY_BLOCKS, _MANY | blocks)
        return np.where(is_unordered, (tags & ~_LANE_MASK) | several, tags)


def _of(tags: Array, rows: Array) -> Array:
    """``tags[rows]``; of one column in a third of the time."""
    return tags[:, 0][rows][:, None] if tags.shape[1] == 1 else tags.take(rows, axis=0)


def _put(tags: Array, rows: Array, values: Array) -> None:
    """``tags[rows] = values``, column by column, which takes a tenth of the time."""
    if tags.shape[1] == 1:
        tags[:, 0][rows] = values[:, 0]
        return
    for column, of_lanes in zip(tags.T, np.broadcast_to(values, (len(rows), tags.shape[1])).T, strict=True):
        column[rows] = of_lanes


def _are_distinct(offsets: Array, nbytes: int) -> bool:
    """Whether all elements are distinct."""
    if len(offsets) < 2:
        return True
    steps = offsets[1:] - offsets[:-1]
    if least(steps) > 0 or greatest(steps) < 0:
        return True
    ordered = np.sort(offsets)
    return least(ordered[1:] - ordered[:-1]) >= nbytes
