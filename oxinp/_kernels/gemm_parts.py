"""Halves of K in the kernels for Hopper: the two blocks of a cluster have one each, and add up their sums of a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.exchange import UNIT, Exchange

if TYPE_CHECKING:
    from oxinp._kernels.gemm_tiles import Tiles
    from oxinp._ptx import Builder
    from oxinp._ptx.tile import Pair
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals


class Joined:
    """Columns of sums that were added up."""

    def __init__(self, units: list[list[Value]]) -> None:
        self._units = units

    def pairs(self) -> list[Pair]:
        """Return the thread's sums as `Accumulator.pairs` does."""
        return [(i, j, unit[2 * i], unit[2 * i + 1]) for j, unit in enumerate(self._units) for i in range(2)]


class Halves:
    """The two blocks of a cluster that work on a tile: each adds up and stores one half of its columns.

    Made in all threads of the block, before the `Pipeline`.
    """

    def __init__(self, k: Builder, tiles: Tiles, type: Type, num_warpgroups: int) -> None:
        self._builder, self._rank, self._width = k, tiles.rank, tiles.width
        self._exchange = Exchange(k, type, self._width // 16, num_warpgroups)

    def join(self, warpgroup: Value, thread: Value) -> None:
        """Say which warpgroup, counted from 0, and which thread of it this is; once, in the threads with sums."""
        self._exchange.join(warpgroup, thread, self._rank ^ 1)

    def joined(self, sums: Accumulator | Totals, column: Value) -> tuple[Joined, Value]:
        """The sums of both of this block's columns of a tile that begins at `column`, and where those begin."""
        k, is_first = self._builder, self._rank == 0
        values = [value for _, _, *pair in sums.pairs() for value in pair]
        units = [values[i : i + UNIT] for i in range(0, len(values), UNIT)]
        halves = list(zip(units[: len(units) // 2], units[len(units) // 2 :], strict=True))

        def of(is_left: Value) -> list[list[Value]]:
            return [[k.where(is_left, x, y) for x, y in zip(*pair, strict=True)] for pair in halves]

        received = self._exchange.swap(of(~is_first))
        totals = [[x + y for x, y in zip(*pair, strict=True)] for pair in zip(of(is_first), received, strict=True)]
        return Joined(totals), column + self._rank * (self._width // 2)


__all__ = ["Halves", "Joined"]
