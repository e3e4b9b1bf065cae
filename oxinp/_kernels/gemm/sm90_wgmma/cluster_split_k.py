"""Split-K over a cluster: its two blocks compute half of K each of one tile, and add up their sums by shared memory."""

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
    """Sums after the reduction over the cluster."""

    def __init__(self, pairs: list[Pair]) -> None:
        self._pairs = pairs

    def pairs(self) -> list[Pair]:
        """Return the thread's sums as `Accumulator.pairs` does."""
        return self._pairs


class ClusterReduction:
    """The reduction of a tile over the two blocks of a cluster.

    In each block, one consumer warpgroup adds up and stores its rows; the other one sends its sums to the same
    warpgroup of the other block. To be made in all threads of the block, before the `Pipeline`.
    """

    def __init__(self, k: Builder, tiles: TileScheduler, type: Type) -> None:
        self._builder, self._rank = k, tiles.rank
        self._exchange = Exchange(k, type, tiles.width // 8)

    def join(self, warpgroup: Value, thread: Value) -> None:
        """Set this thread's consumer warpgroup, from 0, and its number there; once, in the threads of consumers."""
        self._stores = warpgroup == self._rank
        self._exchange.join(warpgroup, thread, self._rank ^ 1)

    def store(self, sums: Accumulator | Totals, store: Callable[[ReducedSums], None]) -> None:
        """Call `store` with the sums of both blocks, in the warpgroup that stores these rows."""
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


__all__ = ["ClusterReduction", "ReducedSums"]
