"""Accesses of emulated memory as ranges: which of them may touch the same bytes from different lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oxinp._ptx.truths import any_of

Array = npt.NDArray[Any]

GAP = 256
"""Bytes between ranges that are noted apart."""
_MAX_COMPARED = 1 << 16  # bytes over which two ranges are compared element by element


@dataclass(slots=True, eq=False)
class Range:
    """One noted access: offsets of `lanes`, `nbytes` each; `key` names the lane-to-byte map if it is affine."""

    low: int
    high: int
    is_write: bool
    key: tuple[int, int] | None
    offsets: Array
    nbytes: int
    lanes: Array
    time: int
    _numbers: Array | None = None
    _touched: tuple[int, Array] | None = None

    @property
    def numbers(self) -> Array:
        """Numbers of the elements, which all have one size."""
        if self._numbers is None:
            self._numbers = self.offsets >> self.nbytes.bit_length() - 1
        return self._numbers

    @property
    def touched(self) -> tuple[int, Array]:
        """The least of the elements' numbers, and which ones from there on are among them."""
        if self._touched is None:
            numbers = self.numbers
            first = int(np.minimum.reduce(numbers))
            touched = np.zeros(int(np.maximum.reduce(numbers)) - first + 1, np.bool_)
            touched[numbers - first] = True
            self._touched = first, touched
        return self._touched

    def let_go(self) -> None:
        """Let go of what was found out to compare it with others."""
        self._touched = None

    def meets(self, other: Range) -> bool:
        """Whether different lanes may touch the same bytes in the two accesses."""
        if self.low >= other.high or other.low >= self.high or (self.key is not None and self.key == other.key):
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
        first, touched = self.touched
        places = (other.numbers - first).view(np.uint64)
        return any_of(touched[places[places < len(touched)]])


class Ranges:
    """Noted accesses of one kind, in groups of neighbours."""

    def __init__(self) -> None:
        self._groups: list[list[Any]] = []  # low, high, ranges

    def add(self, new: Range) -> None:
        """Note an access."""
        new.let_go()
        for group in self._groups:
            if new.low <= group[1] + GAP and group[0] <= new.high + GAP:
                group[0], group[1] = min(group[0], new.low), max(group[1], new.high)
                group[2].append(new)
                return
        self._groups.append([new.low, new.high, [new]])

    def meeting(self, new: Range, floor: int) -> list[Range]:
        """Remove and return the accesses not older than `floor` that may conflict with `new`."""
        met: list[Range] = []
        for group in self._groups:
            if new.low < group[1] and group[0] < new.high:
                found = [old for old in group[2] if old.time >= floor and new.meets(old)]
                if found:
                    met += found
                    taken = set(map(id, found))
                    group[2] = [old for old in group[2] if id(old) not in taken]
        return met

    def forget(self, floor: int) -> None:
        """Forget accesses older than `floor`."""
        for group in self._groups:
            group[2] = [old for old in group[2] if old.time >= floor]
        self._groups = [group for group in self._groups if group[2]]

    def take(self) -> list[Range]:
        """Remove and return all accesses."""
        ranges = [old for group in self._groups for old in group[2]]
        self._groups.clear()
        return ranges
