"""The tile scheduler of persistent kernels on Hopper: tiles of C per block, their order, and their k-blocks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from oxinp._ptx.types import u32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

TILE_M = 128  # rows of C per tile
NUM_CONSUMERS = 2
ROWS = TILE_M // NUM_CONSUMERS  # of a tile that one consumer owns
DEPTH_NBYTES = 128  # of a k-block
STEPS = 4  # wgmmas along a k-block
SUPERTILE = 16  # tiles along M that concurrent blocks work on


class TileScheduler:
    """The tiles of C, `height` rows and `width` columns each, and this block's share of them.

    A slice is one matrix of a batch, or one range of K of it, with a partial product of its own.

    Attributes
    ----------
    num_slices : Value or None
        None where there is no batch.
    rank : Value
        This block's in its cluster.
    """

    def __init__(
        self,
        k: Builder,
        cluster: int,
        width: int,
        *,
        is_batched: bool = False,
        shared: str = "b",
        band: int = SUPERTILE,
        height: int = TILE_M,
    ) -> None:
        self.builder, self.cluster, self.width, self.band, self.height = k, cluster, width, band, height
        # Tiles of a cluster lie one above the other, else side by side; or it has one tile, each block half of K.
        self.are_stacked, self.are_halved = shared == "b", shared == "c"
        self.num_m, self.num_n, self.num_k = (k.scalar(name, u32) for name in ("num_m", "num_n", "num_k"))
        self.num_slices: Value | None = None
        if is_batched:
            self.num_slices, self.split_k, self.chunk, self.a_moves, self.b_moves = (
                k.scalar(name, u32) for name in ("num_slices", "num_chunks", "chunk", "a_moves", "b_moves")
            )
        self.rank = k.special("cluster_ctarank") if cluster > 1 else k.const(0, u32)

    @contextmanager
    def each(self) -> Iterator[tuple[Value, Value]]:
        """Run what is inside for this block's tiles, without a batch: (first row, first column)."""
        with self.each_sliced() as (_, row, column):
            yield row, column

    @contextmanager
    def each_sliced(self) -> Iterator[tuple[Value | None, Value, Value]]:
        """Run what is inside for this block's tiles: (slice, None without a batch; first row; first column)."""
        first, total, stride = self.share()
        with self.builder.range(first, total, stride) as tile:
            yield self.place(tile)

    def share(self) -> tuple[Value, Value, Value]:
        """Return the numbers of this block's tiles, as a range: first, end, step; a cluster's tiles count as one."""
        k, cluster = self.builder, self.cluster
        per_m, per_n = (1, 1) if self.are_halved else (cluster, 1) if self.are_stacked else (1, cluster)
        self._height = self.band // per_m
        self._num_m = self.num_m / per_m if per_m > 1 else self.num_m
        self._num_n = self.num_n / per_n if per_n > 1 else self.num_n
        first = k.ctaid / cluster if cluster > 1 else k.ctaid
        stride = k.nctaid / cluster if cluster > 1 else k.nctaid
        self._per_slice = self._num_m * self._num_n
        return first, self._per_slice if self.num_slices is None else self._per_slice * self.num_slices, stride

    def place(self, tile: Value) -> tuple[Value | None, Value, Value]:
        """Return slice, first row and first column of a tile of this block."""
        k, cluster, num_m, height = self.builder, self.cluster, self._num_m, self._height
        number = None if self.num_slices is None else tile / self._per_slice
        of_slice = tile if number is None else tile - number * self._per_slice
        per_band = self._num_n * height
        band = of_slice / per_band
        inside = of_slice - band * per_band
        rows = k.min(num_m - band * height, height)
        n = inside / rows
        m = band * height + inside - n * rows
        if self.are_halved:
            pass
        elif self.are_stacked:
            m = m * cluster + self.rank
        else:
            n = n * cluster + self.rank
        return number, m * self.height, n * self.width

    def depth_range(self, number: Value | None) -> tuple[Value, Value]:
        """Return the first k-block that this block computes of a slice, and the one behind its last."""
        k = self.builder
        first, end = k.const(0, u32), self.num_k
        if number is not None:
            first = number % self.split_k * self.chunk
            end = k.min(first + self.chunk, self.num_k)
        if not self.are_halved:
            return first, end
        middle = first + (end - first) / 2
        return k.where(self.rank == 0, first, middle), k.where(self.rank == 0, middle, end)

    def starts(self, number: Value | None, row: Value, column: Value) -> tuple[Value, Value]:
        """Return the lines of A and of B that belong to a row and a column of a slice."""
        del number
        return row, column

    def matrices(self, number: Value | None) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Return the outer TMA coordinates of A and of B of a slice: none without a batch."""
        if number is None:
            return (), ()
        matrix = number / self.split_k
        return (matrix * self.a_moves,), (matrix * self.b_moves,)


__all__ = ["DEPTH_NBYTES", "NUM_CONSUMERS", "ROWS", "STEPS", "SUPERTILE", "TILE_M", "TileScheduler"]
