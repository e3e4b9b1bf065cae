"""Accesses of emulated memory as ranges: which of them may touch the same bytes from different lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.emulator.numbers import SHIFTS, greatest, least, number
from oxinp._ptx.truths import all_of, any_of

Array = npt.NDArray[Any]

GAP = 256
"""Bytes between ranges that are noted apart."""
_MAX_COMPARED = 1 << 16  # bytes over which two ranges are compared element by element


class Range:
    """One noted access.

    Attributes
    ----------
    low, high : int
        First byte, and the one behind the last.
    is_write : bool
    key : tuple of int or None
        Names the map from lanes to bytes if it is affine.
    offsets : int64 array
        Of the elements that `lanes` touch; of length 1 where all of them touch one.
    nbytes : int
        Of each element.
    lanes : int64 array
    time : int
        When it happened last.
    """

    __slots__ = ("_numbers", "_touched", "high", "is_write", "key", "lanes", "low", "nbytes", "offsets", "time")

    def __init__(
        self,
        low: int,
        high: int,
        is_write: bool,
        key: tuple[int, int] | None,
        offsets: Array,
        nbytes: int,
        lanes: Array,
        time: int,
    ) -> None:
        self.low, self.high = low, high
        self.is_write = is_write
        self.key = key
        self.offsets, self.nbytes = offsets, nbytes
        self.lanes = lanes
        self.time = time
        self._numbers: Array | None = None
        self._touched: tuple[int, Array] | None = None

    @property
    def numbers(self) -> Array:
        """Numbers of the elements, which all have one size."""
        if self._numbers is None:
            self._numbers = self.offsets >> SHIFTS[self.nbytes]
        return self._numbers

    @property
    def touched(self) -> tuple[int, Array]:
        """The number below the least of the elements', and which ones from there to above the greatest are touched."""
        if self._touched is None:
            numbers = self.numbers
            below = least(numbers) - 1
            touched = np.zeros(greatest(numbers) - below + 2, np.bool_)
            touched[numbers - number(below)] = True
            self._touched = below, touched
        return self._touched

    def let_go(self) -> None:
        """Let go of what was found out to compare it with others."""
        self._touched = None

    @property
    def place(self) -> tuple[Any, ...]:
        """What accesses of the same elements by the same lanes have in common, and few others."""
        return self.low, self.high, self.key or (self.nbytes, len(self.offsets), len(self.lanes))

    def repeats(self, other: Range) -> bool:
        """Whether the same lanes touch the same elements as in another access of the same `place`."""
        return self.key is not None or (
            self.nbytes == other.nbytes
            and all_of(self.offsets == other.offsets)
            and (self.lanes is other.lanes or all_of(self.lanes == other.lanes))
        )

    def _has_map_of(self, other: Range) -> bool:
        """Whether each byte is known to be of one lane in both accesses, one of which is a write."""
        if self.key is not None or other.key is not None:
            return self.key == other.key
        return len(self.offsets) == len(self.lanes) and self.place == other.place and self.repeats(other)

    def meets(self, other: Range) -> bool:
        """Whether different lanes may touch the same bytes in the two accesses, one of which is a write."""
        if self.low >= other.high or other.low >= self.high or self._has_map_of(other):
            return False
        if (
            self.nbytes != other.nbytes
            or self.high - self.low > _MAX_COMPARED
            or other.high - other.low > _MAX_COMPARED
        ):
            return True
        if self.key is not None and other.key is not None:  # there is nothing between elements that follow each other
            return bool(self.offsets[0] <= other.offsets[-1] and other.offsets[0] <= self.offsets[-1])
        # Elements of one size may lie between each other.
        below, touched = self.touched
        return any_of(touched.take(other.numbers - number(below), mode="clip"))


class Ranges:
    """Noted accesses of one kind, in groups of neighbours; of accesses that repeat each other the last one."""

    def __init__(self) -> None:
        self._groups: list[list[Any]] = []  # low, high, ranges by their places

    def add(self, new: Range) -> int:
        """Note an access; how many offsets more are held."""
        new.let_go()
        place = new.place
        for group in self._groups:
            if new.low <= group[1] + GAP and group[0] <= new.high + GAP:
                ranges = group[2]
                old = ranges.get(place)
                if old is not None and new.repeats(old):
                    old.time = new.time
                    return 0
                group[0], group[1] = min(group[0], new.low), max(group[1], new.high)
                ranges[place if old is None else (place, id(new))] = new
                return len(new.offsets)
        self._groups.append([new.low, new.high, {place: new}])
        return len(new.offsets)

    def meeting(self, new: Range, floor: int) -> list[Range]:
        """Remove and return the accesses not older than `floor` that may conflict with `new`."""
        met: list[Range] = []
        for group in self._groups:
            if new.low < group[1] and group[0] < new.high:
                found = [item for item in group[2].items() if item[1].time >= floor and new.meets(item[1])]
                for place, old in found:
                    del group[2][place]
                    met.append(old)
        return met

    def forget(self, floor: int) -> None:
        """Forget accesses older than `floor`."""
        for group in self._groups:
            group[2] = {place: old for place, old in group[2].items() if old.time >= floor}
        self._groups = [group for group in self._groups if group[2]]

    def take(self) -> list[Range]:
        """Remove and return all accesses."""
        ranges = [old for group in self._groups for old in group[2].values()]
        self._groups.clear()
        return ranges
