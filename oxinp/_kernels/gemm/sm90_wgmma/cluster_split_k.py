"""Halves of K in the kernels for Hopper: the two blocks of a cluster have one each, and add up their sums of a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._ptx.exchange import UNIT, Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxinp._kernels.gemm.sm90_wgmma.scheduler import TileScheduler
    from oxinp._ptx import Builder
    from oxinp._ptx.tile import Pair
    from oxinp._ptx.types import Type
    from oxinp._ptx.value import Value
    from oxinp._ptx.wgmma import Accumulator, Totals


class ReducedSums:
    """Sums that were added up."""

    def __init__(self, pairs: list[Pair]) -> None:
        self._pairs = pairs

    def pairs(self) -> list[Pair]:
        """Return the thread's sums as `Accumulator.pairs` does."""
        return self._pairs


class ClusterSplitK:
    """The two blocks of a cluster that work on a tile: of each, one warpgroup adds up and stores its rows.

    The other one hands its sums to the same warpgroup of the other block. Made in all threads of the block, before the
    `Pipeline`.
    """

    def __init__(self, k: Builder, tiles: TileScheduler, type: Type) -> None:
        self._builder, self._rank = k, tiles.rank
        self._exchange = Exchange(k, type, tiles.width // 8)

    def join(self, warpgroup: Value, thread: Value) -> None:
        """Say which warpgroup, counted from 0, and which thread of it this is; once, in the threads with sums."""
        self._stores = warpgroup == self._rank
        self._exchange.join(warpgroup, thread, self._rank ^ 1)

    def store(self, sums: Accumulator | Totals, store: Callable[[ReducedSums], None]) -> None:
        """Hand the sums of both blocks to `store`, in the warpgroup that has these rows."""
        k, pairs = self._builder, sums.pairs()
        with k.when(self._stores):
            received = [value for unit in self._exchange.receive() for value in unit]
            store(
                ReducedSums(
                    [
                        (i, j, x + received[2 * number], y + received[2 * number + 1])
                        for number, (i, j, x, y) in enumerate(pairs)
                    ]
                )
            )
            self._exchange.release()
        with k.otherwise():
            values = [value for _, _, *pair in pairs for value in pair]
            self._exchange.send([values[i : i + UNIT] for i in range(0, len(values), UNIT)])


__all__ = ["ClusterSplitK", "ReducedSums"]
