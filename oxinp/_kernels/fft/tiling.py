"""How many transforms a block takes, how many blocks share them, and how their exchanges are padded."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

from oxinp._kernels.fft.radices import (
    MAX_HELD,
    MAX_THREADS,
    NUM_REGISTERS,
    TIGHT,
    USUAL,
    cut,
    largest_prime,
    registers,
    tight_registers,
)
from oxinp._kernels.fft.spec import BANK_WIDTH, COLUMNS, RADER, ROWS, SUMMED, WARP, TransformSpec, conflicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxinp._kernels.choice import Limits
    from oxinp._kernels.fft.radices import Cut

SEGMENT = 128  # bytes of neighbouring columns that a block takes, where a transform's elements lie apart
MIN_SEGMENT = 32
BLOCK = 256  # threads at which transforms share a block
UNUSUAL = 0.02  # of a block's time that one of half or twice as many threads is slower
CLUSTER_SEGMENT = 64  # bytes of neighbouring columns from which on a pass runs at the memory's rate
# Bytes of neighbouring columns, and blocks that share them where one would not have `MIN_SEGMENT`: the first that fit.
CLUSTERS = ((128, 16), *((CLUSTER_SEGMENT, blocks) for blocks in (2, 4, 8)))
PORTABLE = 8  # blocks of a cluster that every device with clusters has
MOST_IN_PASSES = 1  # blocks that share a pass of a longer transform: one more pass was faster
# Bytes of a convolution above which most of its roots of unity are products of those that tables have: a block's reads
# of roots take longer than their products. The same of Bluestein's, by the bytes of a number.
LARGE_TABLE = 1 << 15
LARGE_CHIRP = {8: 1 << 13, 16: 1 << 15}
RESIDENT = 3  # blocks that a multiprocessor should hold
PARTITIONS, MAX_WARPS, MAX_BLOCKS = 4, 64, 32  # of a multiprocessor
ALLOCATED = 8  # registers of a thread, at a time
SHARED_BESIDE = 1024  # bytes that a block takes beside its own
MOST_TAKEN = 0.5  # of a multiprocessor by a block of far-apart columns, so that two take turns
BUSY = 1024  # threads of a multiprocessor up to which more blocks are worth fewer registers
# Registers beside those of numbers: of roots of unity that are computed, of convolutions, and of what else is done
# with elements; of a chain between transforms if threads have one butterfly at a time, and if they have several.
BESIDE_BETWEEN, BESIDE_ROUNDS = 8, 24
BESIDE_PAIRS = 8  # of sums of doubles with their errors, between two real transforms
BESIDE_TWIDDLE, BESIDE_CHIRP, BESIDE_STAGED, BESIDE_SMALL, BESIDE = 8, 4, 24, 40, 16
BESIDE_ROLLED = 16  # of factors that a loop reads
BESIDE_NARROW = 8  # of sums of fewer transforms than a warp has lanes, which read roots at several places
FEWEST_LARGE = 17  # primes from which on a codelet holds its inputs until all results are there


@lru_cache(1 << 12)
def with_padding(spec: TransformSpec, room: int) -> TransformSpec:
    """Return a Spec with the padding of shared memory, of so many bytes, that has the fewest bank conflicts."""
    if len(spec.radices) == 1 and not spec.is_staged:
        return spec if spec.real in ("", SUMMED) else spec.replace(padding=BANK_WIDTH // spec.type.nbytes)
    lanes = BANK_WIDTH // spec.type.nbytes
    paddings: tuple[int, ...] = (0, lanes, lanes // 2, 2 * lanes, 4 * lanes)
    if spec.is_mixed and len(spec.radices) == 2 and not spec.is_convolved:  # rows of first results are in one piece
        paddings += (spec.radices[0] * spec.columns,)
    candidates = [spec.replace(padding=padding) for padding in paddings]
    if spec.is_staged:  # threads may take what they like
        even = () if spec.share % 2 else (spec.share,)
        paddings = even if spec.real == RADER else (*paddings, *even)
        candidates = [
            spec.replace(loads=order, stores=order, padding=padding)
            for order, padding in itertools.product((ROWS, COLUMNS), paddings)
        ]
    fitting = [each for each in candidates if each.shared_nbytes <= room]
    assert fitting, f"{spec.columns} transforms of {spec.length} elements, for which {room} bytes are too few"
    return min(fitting, key=lambda each: (conflicts(each), each.shared_elements))


def columns_of(
    length: int,
    nbytes: int,
    extent: int,
    room: int,
    *,
    is_mixed: bool,
    is_convolved: bool = False,
    is_staged: bool = False,
    is_ragged: bool = False,
) -> int:
    """Return how many transforms a block takes; 0 where not one fits.

    Parameters
    ----------
    length, nbytes : int
        Of the transform, and of a number.
    extent : int
        Of the column loop.
    room : int
        Bytes of shared memory.
    is_mixed : bool
        Whether neighbouring threads take neighbouring transforms, of which there is a power of two.
    is_convolved, is_ragged : bool
        As of `cut`.
    is_staged : bool
        As of `TransformSpec`; likewise where enough rows fit.
    """
    found = cut(length, nbytes, is_convolved=is_convolved, is_ragged=is_ragged)
    if found is None:
        return 0
    most = min(MAX_THREADS // found.threads, room // (length * nbytes * 9 // 8))
    most = min(most, 1 << (extent - 1).bit_length())
    if is_mixed or not most:
        most = min(most, max(SEGMENT // nbytes, BLOCK // 2 // found.threads))
        columns, least = 1 << (most.bit_length() - 1) if most else 0, CLUSTER_SEGMENT // nbytes
        # Two blocks that take turns in reading and writing, where columns still begin with a sector of the memory.
        while columns > least and length % least == 0 and columns * _share(found, length * nbytes, room) > MOST_TAKEN:
            columns //= 2
        return columns
    most = min(most, max(1, BLOCK * 9 // 8 // found.threads))
    if len(found.radices) > 1 and found.held > MAX_HELD[nbytes]:  # few blocks have so many registers
        most = min(most, max(1, NUM_REGISTERS // (RESIDENT * found.threads * registers(found.held, nbytes))))
    candidates: Sequence[int] = range(-(-most // 3), most + 1)
    if is_staged and most >= BANK_WIDTH // nbytes:  # lanes next to each other may have rows that are
        candidates = [1 << i for i in range(most.bit_length())]
    return max(candidates, key=lambda columns: _fullness(columns * found.threads))


def _share(found: Cut, nbytes: int, room: int) -> float:
    """The part of a multiprocessor that a transform of several stages takes."""
    return max(found.threads / MAX_THREADS, nbytes / room) if len(found.radices) > 1 else 0.0


def _fullness(threads: int) -> float:
    """How much of a block's warps are threads, less a little for blocks of other sizes than wanted."""
    return threads / (-(-threads // WARP) * WARP) - UNUSUAL * abs(math.log2(threads / BLOCK))


def tile_of(
    length: int,
    nbytes: int,
    extent: int,
    room: int,
    most: int,
    *,
    is_mixed: bool,
    is_convolved: bool = False,
    is_staged: bool = False,
    is_ragged: bool = False,
) -> tuple[int, int]:
    """Return how many transforms a tile has, and how many blocks share it; 0 where not one fits.

    Parameters
    ----------
    length, nbytes, extent, room, is_mixed, is_convolved, is_staged, is_ragged
        As of `columns_of`.
    most : int
        Blocks of a cluster, at most; 1 where kernels or the device have none.
    """
    alone = columns_of(
        length,
        nbytes,
        extent,
        room,
        is_mixed=is_mixed,
        is_convolved=is_convolved,
        is_staged=is_staged,
        is_ragged=is_ragged,
    )
    found = cut(length, nbytes)
    reach = 1 << (extent - 1).bit_length()
    if not is_mixed or alone >= min(MIN_SEGMENT // nbytes, reach) or most == 1:
        return alone, 1
    assert found is not None, f"no pass of length {length}"
    for segment, cluster in CLUSTERS:
        wanted = min(segment // nbytes, reach)
        is_even = found.radices[0] % cluster == 0 and length // found.radices[0] % cluster == 0
        is_fitting = length * nbytes * 9 // 8 * wanted * RESIDENT <= room * cluster
        is_fitting &= cluster <= PORTABLE or reach >= segment // nbytes
        if cluster <= most and is_even and is_fitting:
            return wanted, cluster
    return alone, 1


def is_large(length: int, nbytes: int, *, is_chirp: bool = False) -> bool:
    """Whether roots of unity of a convolution of some length are too many for the L1 cache."""
    return length * nbytes > (LARGE_CHIRP[nbytes] if is_chirp else LARGE_TABLE)


def num_registers(spec: TransformSpec, held: int, *, is_tight: bool) -> int:
    """Return how many registers a thread needs that holds so many numbers; so that a few bytes spill if it is tight."""
    nbytes = spec.type.nbytes
    has_large = any(radix >= FEWEST_LARGE and largest_prime(radix) == radix for radix in spec.radices)
    if spec.is_staged and len(spec.radices) == 1:  # results leave when they are there
        fixed, each, _ = TIGHT[nbytes]
        needed = fixed + each * held + 2 + BESIDE_ROLLED * bool(spec.rolled)
    else:
        is_wide = not is_tight or has_large or spec.real == SUMMED
        needed = (registers if is_wide else tight_registers)(held, nbytes)
    needed += BESIDE_CHIRP * nbytes // 8 if spec.chirp else 0
    needed += BESIDE_ROUNDS if spec.real == RADER and held > USUAL.held else 0
    needed += BESIDE_TWIDDLE if spec.twiddle else 0
    needed += BESIDE_NARROW if spec.real == SUMMED and spec.columns < WARP else 0
    if spec.is_staged:
        is_small = spec.threads * spec.columns < 2 * WARP
        needed += BESIDE_STAGED if not spec.is_dense else BESIDE_SMALL if is_small else 0
    if spec.between:
        needed += BESIDE_BETWEEN if held <= max(spec.radices) else BESIDE_ROUNDS
        needed += BESIDE_PAIRS if spec.real and nbytes == 16 else 0
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
    nbytes, warps = spec.shared_nbytes, -(-spec.threads * spec.columns // WARP)
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
    if device.cc < (9, 0):
        return 1
    return 2 * PORTABLE if device.cc < (12, 0) else PORTABLE


__all__ = [
    "MIN_SEGMENT",
    "RESIDENT",
    "SEGMENT",
    "cluster_limit",
    "columns_of",
    "is_large",
    "num_registers",
    "resident",
    "tile_of",
    "with_padding",
]
