"""The rows that a later tile reads, fetched into the L2 cache meanwhile: the memory has work while blocks compute.

Where a multiprocessor has one block or two, nothing is read while these compute. Tiles of columns take longer that way:
their pieces are short, and their blocks wait for the memory anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.fft.spec import MERGE, RADER, ROWS, SPLIT, SUMMED
from oxinp._ptx.async_copy import BULK_ALIGN, bulk_prefetch
from oxinp._ptx.types import c64, i32, u32

if TYPE_CHECKING:
    from oxinp._kernels.fft.sides import Loop, Side
    from oxinp._kernels.fft.spec import TransformSpec
    from oxinp._kernels.fft.tile import Tile

PIECE = 2048  # bytes that are asked for at once


def _row(spec: TransformSpec) -> int:
    """Elements that a tile reads of a row."""
    return {SPLIT: 2 * spec.length, MERGE: spec.length + 1}.get(spec.real, spec.chirp or spec.row)


def is_fetched(spec: TransformSpec, source: Side, column: Loop) -> bool:
    """Whether what a tile reads is one piece of memory, which is read once, by blocks that compute for long."""
    if spec.prologue or spec.between or spec.is_padded or spec.is_half or spec.cluster > 1:
        return False
    if spec.real in (RADER, SUMMED):
        return spec.is_dense and spec.type is c64  # of doubles threads have no register left
    is_whole = spec.loads == ROWS and source.step == 1 and column.source == _row(spec)
    return is_whole and not spec.is_staged and spec.real in ("", SPLIT, MERGE) and len(spec.radices) > 1


def fetch_ahead(tile: Tile) -> None:
    """Ask for what the tile `ahead` further reads, a piece per thread."""
    k, spec = tile.k, tile.spec
    number = tile.number + tile.ahead
    nbytes = _row(spec) * spec.source.nbytes
    with k.when(number < tile.num_tiles):
        outer, place = tile.tiles.divide(number)
        (origin,), (steps,) = tile.source.origins, tile.source.steps
        first = place * spec.columns
        start = first * steps[-2]
        for loop, step in zip(tile.outer.split(outer), steps, strict=False):
            start = start + loop * step
        address = origin.at(start).address()
        aligned = (address + (BULK_ALIGN - 1)) / BULK_ALIGN * BULK_ALIGN
        count = k.cast(k.min(tile.num_columns - first, spec.columns), u32)
        whole = (count * nbytes - k.cast(aligned - address, u32)) / BULK_ALIGN * BULK_ALIGN
        for begin in range(0, spec.columns * nbytes, spec.threads * spec.columns * PIECE):
            offset = k.tid * PIECE + begin
            with k.when(k.cast(offset, i32) < k.cast(whole, i32)):
                bulk_prefetch(k, aligned + k.cast(offset, aligned.type), k.min(whole - offset, PIECE))


__all__ = ["fetch_ahead", "is_fetched"]
