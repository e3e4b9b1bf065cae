"""Which transforms have the L2 cache fetch the row that a later block reads: the memory has work while blocks compute.

So it is where a multiprocessor has one block or two: c64 rows of 16384 take 0.321 ms in place of 0.354, those of 15000
a tenth less. With more blocks, of doubles, columns, real sequences and Bluestein's convolutions it took as long or up
to a tenth longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxinp._kernels.fft.spec import RADER, ROWS
from oxinp._kernels.prefetch import fetch
from oxinp._ptx.types import c64, u32

if TYPE_CHECKING:
    from oxinp._kernels.fft.sides import Side
    from oxinp._kernels.fft.spec import TransformSpec
    from oxinp._kernels.fft.tile import Tile

MAX_BLOCKS = 2  # of a multiprocessor


def is_fetched(spec: TransformSpec, source: Side) -> bool:
    """Whether a block reads a long row, of which few are in work."""
    if spec.prologue or spec.between or spec.is_padded or spec.type is not c64:
        return False
    is_row = (spec.loads == ROWS or spec.real == RADER) and source.step == 1 and spec.source is c64
    is_long = spec.columns == 1 and spec.min_blocks <= MAX_BLOCKS and len(spec.radices) > 1
    return is_row and is_long and (spec.real == RADER or not (spec.real or spec.chirp or spec.is_staged))


def fetch_ahead(tile: Tile) -> None:
    """Ask for what the block `ahead` further reads."""
    k, spec = tile.k, tile.spec
    number = tile.number + tile.ahead
    with k.when(number < tile.num_tiles):
        outer, column = tile.tiles.divide(number)
        (origin,), (steps,) = tile.source.origins, tile.source.steps
        start = column * steps[-2]
        for loop, step in zip(tile.outer.split(outer), steps, strict=False):
            start = start + loop * step
        fetch(k, origin.at(start), k.const(spec.row, u32), spec.row)


__all__ = ["fetch_ahead", "is_fetched"]
