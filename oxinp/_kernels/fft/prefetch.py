"""What a later tile reads, fetched into the L2 cache while this one is computed: the memory has work meanwhile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from oxinp._kernels.fft.spec import ROWS
from oxinp._ptx.async_copy import BULK_ALIGN, bulk_prefetch
from oxinp._ptx.types import i32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.fft.sides import Loop, Side
    from oxinp._kernels.fft.spec import TransformSpec
    from oxinp._kernels.fft.tile import Tile

MAX_PIECE = 2048  # bytes of a row that are asked for at once
MIN_PIECE = 64


def piece_of(spec: TransformSpec) -> int:
    """Elements that are fetched at once: of all columns, or of a row."""
    if spec.loads == ROWS:
        return math.gcd(spec.length, MAX_PIECE // spec.source.nbytes)
    return spec.columns


def is_fetched(spec: TransformSpec, source: Side, loops: Sequence[Loop]) -> bool:
    """Whether a tile's pieces are in one piece each, and begin at multiples of what is asked for.

    Parameters
    ----------
    spec : TransformSpec
    source : Side
    loops : sequence of Loop
        The column loop last.
    """
    steps = [source.step, *(loop.source for loop in loops)]
    step = steps.pop(0 if spec.loads == ROWS else -1)
    bits = source.alignment
    for count in (piece_of(spec), *steps):
        bits |= count * spec.source.nbytes
    return (
        step == 1
        and not bits % BULK_ALIGN
        and piece_of(spec) * spec.source.nbytes >= MIN_PIECE
        and len(spec.radices) > 1
        and spec.prologue is None
        and not (spec.real or spec.chirp or spec.is_staged or spec.is_padded or spec.is_half)
    )


def fetch_ahead(tile: Tile) -> None:
    """Ask for what the tile `ahead` further reads, a piece per thread at a time."""
    k, spec, source = tile.k, tile.spec, tile.source
    number = tile.number + tile.ahead
    piece = piece_of(spec)
    is_row = spec.loads == ROWS
    per_column = spec.length // piece if is_row else 1
    count = spec.columns * per_column if is_row else spec.share
    with k.when(number < tile.num_tiles):
        outer, place = tile.tiles.divide(number)
        loops = tile.outer.split(outer)
        (origin,), (steps,) = source.origins, source.steps
        start = place * spec.columns * steps[-2]
        for loop, step in zip(loops, steps, strict=False):
            start = start + loop * step
        threads = spec.threads * spec.columns
        for first in range(0, count, threads):
            own = k.cast(k.tid, i32) + first
            is_last = first + threads > count
            if is_row:
                column, element = own / per_column, own % per_column * piece
                is_there = k.cast(column, tile.index) + place * spec.columns < tile.num_columns
                at = start + k.cast(column, tile.index) * steps[-2] + k.cast(element, tile.index)
            else:
                butterflies = spec.share // spec.radices[0]
                element = own / butterflies * (spec.length // spec.radices[0]) + own % butterflies
                if spec.cluster > 1:
                    element = element + k.cast(tile.rank, i32) * butterflies
                is_there = (place + 1) * spec.columns <= tile.num_columns
                at = start + k.cast(element, tile.index) * steps[-1]
            with k.when(is_there & (own < count) if is_last else is_there):
                bulk_prefetch(k, origin.at(at), piece * spec.source.nbytes)


__all__ = ["fetch_ahead", "is_fetched"]
