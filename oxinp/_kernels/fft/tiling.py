"""How many transforms a block takes, how many blocks share them, and how their exchanges are padded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.fft.radices import (
    MAX_HELD,
    MAX_THREADS,
    NUM_REGISTERS,
    cut,
    largest_prime,
    registers,
    tight_registers,
)
from oxinp._kernels.fft.spec import BANK_WIDTH, SUMMED, WARP, TransformSpec, conflicts

if TYPE_CHECKING:
    from oxinp._kernels.choice import Limits

SEGMENT = 128  # bytes of neighbouring columns that a block takes, where a transform's elements lie apart
MIN_SEGMENT = 32
BLOCK = 256  # threads at which transforms share a block
CLUSTERS = (2, 4, 8)  # blocks that may share transforms
CLUSTER_SEGMENT = 64  # bytes of neighbouring columns that they take, where a block would not have `MIN_SEGMENT`
MOST_IN_PASSES = 1  # blocks that share a pass of a longer transform: one more pass was faster
# Bytes of a convolution above which most of its roots of unity are products of those that tables have: a block's reads
# of roots take longer than their products.
LARGE_TABLE = 1 << 15
RESIDENT = 3  # blocks that a multiprocessor should hold
PARTITIONS, MAX_WARPS, MAX_BLOCKS = 4, 64, 32  # of a multiprocessor
ALLOCATED = 8  # registers of a thread, at a time
SHARED_BESIDE = 1024  # bytes that a block takes beside its own
BUSY = 1024  # threads of a multiprocessor up to which more blocks are worth fewer registers
# Registers beside those of numbers: of roots of unity that are computed, of convolutions, and of what else is done
# with elements.
BESIDE_TWIDDLE, BESIDE_CHIRP, BESIDE_STAGED, BESIDE = 8, 16, 24, 16
FEWEST_LARGE = 17  # primes from which on a codelet holds its inputs until all results are there


@lru_cache(1 << 12)
def with_padding(spec: TransformSpec, room: int) -> TransformSpec:
    """Return a Spec with the padding of shared memory, of so many bytes, that has the fewest bank conflicts."""
    if len(spec.radices) == 1:
        return spec if spec.real in ("", SUMMED) else spec.replace(padding=BANK_WIDTH // spec.type.nbytes)
    lanes = BANK_WIDTH // spec.type.nbytes
    candidates = [spec.replace(padding=padding) for padding in (0, lanes, lanes // 2, 2 * lanes, 4 * lanes)]
    fitting = [each for each in candidates if each.shared_elements * spec.type.nbytes <= room]
    return min(fitting, key=lambda each: (conflicts(each), each.shared_elements))


def columns_of(length: int, nbytes: int, extent: int, room: int, *, is_mixed: bool, is_convolved: bool = False) -> int:
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
    is_convolved : bool
        As of `cut`.
    """
    found = cut(length, nbytes, is_convolved=is_convolved)
    if found is None:
        return 0
    most = MAX_THREADS // found.threads
    if len(found.radices) > 1:
        most = min(most, room // (length * nbytes * 9 // 8))
    wanted = max(SEGMENT // nbytes, BLOCK // 2 // found.threads) if is_mixed else max(1, BLOCK // found.threads)
    if not is_mixed and len(found.radices) > 1 and found.held > MAX_HELD[nbytes]:  # few blocks have so many registers
        wanted = max(1, NUM_REGISTERS // (RESIDENT * found.threads * registers(found.held, nbytes)))
    most = min(most, wanted, 1 << (extent - 1).bit_length())
    return 1 << (most.bit_length() - 1) if most else 0


def tile_of(
    length: int, nbytes: int, extent: int, room: int, most: int, *, is_mixed: bool, is_convolved: bool = False
) -> tuple[int, int]:
    """Return how many transforms a tile has, a power of two, and how many blocks share it; 0 where not one fits.

    Parameters
    ----------
    length, nbytes, extent, room, is_mixed, is_convolved
        As of `columns_of`.
    most : int
        Blocks of a cluster, at most; 1 where kernels or the device have none.
    """
    alone = columns_of(length, nbytes, extent, room, is_mixed=is_mixed, is_convolved=is_convolved)
    found = cut(length, nbytes)
    least, wanted = (
        min(segment // nbytes, 1 << (extent - 1).bit_length()) for segment in (MIN_SEGMENT, CLUSTER_SEGMENT)
    )
    if not is_mixed or alone >= least or most == 1 or found is None or len(found.radices) == 1:
        return alone, 1
    for cluster in CLUSTERS:
        is_even = found.radices[0] % cluster == 0 and length // found.radices[0] % cluster == 0
        is_fitting = length * nbytes * 9 // 8 * wanted * RESIDENT <= room * cluster
        if cluster <= most and is_even and is_fitting and -(-found.threads // cluster) * wanted <= MAX_THREADS:
            return wanted, cluster
    return alone, 1


def num_registers(spec: TransformSpec, held: int, *, is_tight: bool) -> int:
    """Return how many registers a thread needs that holds so many numbers; so that a few bytes spill if it is tight."""
    nbytes = spec.type.nbytes
    has_large = any(radix >= FEWEST_LARGE and largest_prime(radix) == radix for radix in spec.radices)
    is_wide = not is_tight or has_large or spec.real == SUMMED
    needed = (registers if is_wide else tight_registers)(held, nbytes)
    needed += BESIDE_CHIRP * nbytes // 8 if spec.is_convolved else 0
    needed += BESIDE_TWIDDLE if spec.twiddle else 0
    needed += BESIDE_STAGED if spec.is_staged else 0
    return needed + (BESIDE if spec.prologue or spec.epilogue else 0)


def resident(spec: TransformSpec, held: int, room: int) -> int:
    """Return how many blocks a multiprocessor holds whose threads have enough registers, at least 1.

    Parameters
    ----------
    spec : TransformSpec
    held : int
        Numbers of a thread.
    room : int
        Bytes of shared memory, as of `columns_of`.
    """
    nbytes, warps = spec.shared_elements * spec.type.nbytes, -(-spec.threads * spec.columns // WARP)
    most = min(MAX_BLOCKS, MAX_WARPS // warps, (room + SHARED_BESIDE) // (nbytes + SHARED_BESIDE))

    def fitting(needed: int) -> int:
        for blocks in range(most, 1, -1):
            of_warp = NUM_REGISTERS // PARTITIONS // -(-warps * blocks // PARTITIONS)
            if of_warp // WARP // ALLOCATED * ALLOCATED >= needed:
                return blocks
        return 1

    tight, wide = (fitting(num_registers(spec, held, is_tight=is_tight)) for is_tight in (True, False))
    return max(wide, min(tight, -(-BUSY // (warps * WARP))))


def cluster_limit(device: Limits) -> int:
    """Blocks of a cluster, at most; 1 where a device has none."""
    return max(CLUSTERS) if device.cc >= (9, 0) else 1


__all__ = ["MIN_SEGMENT", "RESIDENT", "SEGMENT", "cluster_limit", "columns_of", "resident", "tile_of", "with_padding"]
