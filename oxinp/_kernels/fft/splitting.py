"""The lengths of a transform's passes: factors that fit a block with wide segments, as few and as even as can be."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.fft import tiling
from oxinp._kernels.fft.radices import cut, is_smooth
from oxinp._kernels.fft.tiling import (
    CLUSTER_SEGMENT,
    MIN_SEGMENT,
    RESIDENT,
    SEGMENT,
    cluster_limit,
    columns_of,
    tile_of,
)

if TYPE_CHECKING:
    from oxinp._kernels.choice import Device


@lru_cache(1 << 12)
def _split(
    length: int, nbytes: int, is_apart: bool, room: int, most: int = 1, most_in_passes: int = 1
) -> tuple[int, ...] | None:
    segment = MIN_SEGMENT // nbytes
    if columns_of(length, nbytes, 1 << 20, room, is_mixed=False) and (
        not is_apart or _tile(length, nbytes, room, most)[0] >= segment
    ):
        return (length,)
    for count in (2, 3, 4):
        found = _even_split(length, nbytes, count, room, most_in_passes)
        if found is not None:
            return found
    return None


def split(length: int, nbytes: int, is_apart: bool, device: Device, *, is_shared: bool = False) -> tuple[int, ...]:
    """Return the lengths of the passes of a transform, the product of which is its length.

    Parameters
    ----------
    length, nbytes : int
    is_apart : bool
        Whether neighbouring transforms lie closer than a transform's elements.
    device : Device
    is_shared : bool
        Whether that is so in source and target, so that a cluster may share the transforms if one pass is enough.
    """
    most = cluster_limit(device)
    in_passes = min(most, tiling.MOST_IN_PASSES)
    found = _split(length, nbytes, is_apart, device.max_shared_nbytes, most if is_shared else 1, in_passes)
    assert found is not None, f"length {length} has no codelets"
    return found


def has_passes(length: int, nbytes: int, device: Device) -> bool:
    """Whether a length is a product of those that blocks transform."""
    return is_smooth(length) and _split(length, nbytes, False, device.max_shared_nbytes) is not None


def fits_block(length: int, nbytes: int, is_apart: bool, device: Device) -> bool:
    """Whether single blocks transform a length, which `has_passes`; see `split`."""
    return _split(length, nbytes, is_apart, device.max_shared_nbytes) == (length,)


def _even_split(length: int, nbytes: int, count: int, room: int, most: int) -> tuple[int, ...] | None:
    """The factors, the largest first, of which each fits a tile with wide segments, as even as can be."""
    wanted = SEGMENT // nbytes
    cuts = {n: found for n in _divisors(length) if (found := cut(n, nbytes)) is not None}
    tiles = {n: _tile(n, nbytes, room, most) for n in cuts}
    fitting = {n for n, (columns, _) in tiles.items() if columns * 4 >= wanted}
    ways = [each for each in _products(length, count, length) if fitting.issuperset(each)]
    if not ways:
        return None

    def cost(each: tuple[int, ...]) -> tuple[float, float]:
        short = sum(max(0.0, math.log2(CLUSTER_SEGMENT / nbytes / tiles[n][0])) for n in each)
        large = sum(max(0.0, math.log2(n * SEGMENT * RESIDENT / (room * tiles[n][1]))) for n in each)
        stages = sum(len(cuts[n].radices) for n in each)
        return short * 2 + large * 2 + stages, max(each) / min(each)

    return min(ways, key=cost)


def _tile(length: int, nbytes: int, room: int, most: int) -> tuple[int, int]:
    """Columns and blocks of a tile of neighbouring transforms."""
    return tile_of(length, nbytes, 1 << 20, room, most, is_mixed=True)


def _products(length: int, count: int, most: int) -> list[tuple[int, ...]]:
    """Ways to write a length as `count` factors above 1 that do not increase."""
    if count == 1:
        return [(length,)] if 1 < length <= most else []
    return [
        (n, *rest)
        for n in _divisors(length)
        if 1 < n <= most and n**count >= length
        for rest in _products(length // n, count - 1, n)
    ]


@lru_cache(1 << 10)
def _divisors(n: int) -> tuple[int, ...]:
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*low, *(n // d for d in low)}))


__all__ = ["fits_block", "has_passes", "split"]
