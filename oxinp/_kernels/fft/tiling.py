"""How many transforms a block takes, how many blocks share them, and how their exchanges are padded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.fft.radices import MAX_THREADS, cut
from oxinp._kernels.fft.spec import BANK_WIDTH, SUMMED, TransformSpec, conflicts

if TYPE_CHECKING:
    from oxinp._kernels.choice import Limits

SEGMENT = 128  # bytes of neighbouring columns that a block takes, where a transform's elements lie apart
MIN_SEGMENT = 32
BLOCK = 256  # threads at which transforms share a block
CLUSTERS = (2, 4, 8)  # blocks that may share transforms
CLUSTER_SEGMENT = 64  # bytes of neighbouring columns below which they do, and which they take then
RESIDENT = 3  # blocks that a multiprocessor should hold
RESIDENT_ROWS = 2  # likewise, of transforms along neighbouring elements: as many are not shared


@lru_cache(1 << 12)
def with_padding(spec: TransformSpec) -> TransformSpec:
    """Return a Spec with the padding of shared memory that has the fewest bank conflicts."""
    if len(spec.radices) == 1:
        return spec if spec.real in ("", SUMMED) else spec.replace(padding=BANK_WIDTH // spec.type.nbytes)
    lanes = BANK_WIDTH // spec.type.nbytes
    candidates = [spec.replace(padding=padding) for padding in (0, lanes, lanes // 2, 2 * lanes)]
    return min(candidates, key=lambda each: (conflicts(each), each.shared_elements))


def columns_of(length: int, nbytes: int, extent: int, room: int, *, is_mixed: bool) -> int:
    """Return how many transforms a block takes, a power of two; 0 where not one fits.

    Parameters
    ----------
    length, nbytes : int
        Of the transform, and of a number.
    extent : int
        Of the column loop.
    room : int
        Bytes of shared memory.
    is_mixed : bool
        Whether neighbouring threads take neighbouring transforms.
    """
    found = cut(length, nbytes)
    if found is None:
        return 0
    most = MAX_THREADS // found.threads
    if len(found.radices) > 1:
        most = min(most, room // (length * nbytes * 9 // 8))
    wanted = max(SEGMENT // nbytes, BLOCK // 2 // found.threads) if is_mixed else max(1, BLOCK // found.threads)
    most = min(most, wanted, 1 << (extent - 1).bit_length())
    return 1 << (most.bit_length() - 1) if most else 0


def tile_of(length: int, nbytes: int, extent: int, room: int, most: int, *, is_mixed: bool) -> tuple[int, int]:
    """Return how many transforms a tile has, a power of two, and how many blocks share it; 0 where not one fits.

    Parameters
    ----------
    length, nbytes, extent, room, is_mixed
        As of `columns_of`.
    most : int
        Blocks of a cluster, at most; 1 where kernels or the device have none.
    """
    alone = columns_of(length, nbytes, extent, room, is_mixed=is_mixed)
    found = cut(length, nbytes)
    wanted = min(CLUSTER_SEGMENT // nbytes if is_mixed else 1, 1 << (extent - 1).bit_length())
    padded = length * nbytes * 9 // 8
    is_enough = alone >= wanted and (is_mixed or padded * RESIDENT_ROWS <= room)
    if is_enough or most == 1 or found is None or len(found.radices) == 1:
        return alone, 1
    for cluster in CLUSTERS:
        is_even = found.radices[0] % cluster == 0 and length // found.radices[0] % cluster == 0
        is_fitting = padded * wanted * RESIDENT <= room * cluster
        if cluster <= most and is_even and is_fitting and -(-found.threads // cluster) * wanted <= MAX_THREADS:
            return wanted, cluster
    return alone, 1


def cluster_limit(device: Limits) -> int:
    """Blocks of a cluster, at most; 1 where a device has none."""
    return max(CLUSTERS) if device.cc >= (9, 0) else 1


__all__ = ["MIN_SEGMENT", "RESIDENT", "SEGMENT", "cluster_limit", "columns_of", "tile_of", "with_padding"]
