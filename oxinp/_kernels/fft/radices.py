"""Factors of a length into the radices of a kernel's stages, and how many threads share the work."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.fft.codelets import MAX_PRIME, RADICES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_THREADS = 1024
# Numbers that a thread may hold, by bytes of one: half of its registers, or a little more.
MAX_HELD = {8: 24, 16: 18}
MAX_HELD_ODD = {8: 27, 16: 18}  # of odd lengths that a block could not transform otherwise
MAX_RADIX = {8: 61, 16: 23}
# Composite radices beyond 16, where there are several: of convolutions, whose tables take the most time. Transforms are
# slower by them, of single precision with radices to 24 and to 32, on an H200.
CONVOLVED: dict[int, tuple[int, ...]] = {8: (18, 20, 21, 22, 24), 16: ()}
# The same of transforms so long that a multiprocessor has one block, and hides no stage of it behind another's.
LARGE: dict[int, tuple[int, ...]] = {8: (25,), 16: ()}
MIN_LARGE = {8: 12800, 16: 6400}
MAX_ALONE = 32  # up to which a composite radix would be the only one
STAGE_COST = 1.5  # of a stage, in visits of an element
IDLE_COST = 0.5  # of a number that a thread could hold and does not
LARGE_BLOCK, LARGE_COST = 512, 1.0  # threads beyond which few blocks fit, and what twice as many cost
HELD, HELD_SHORT = 16, 8  # at which the memory is kept busy, and where threads of a transform read side by side
# The same where rows begin within lines of memory: the shorter the pieces that a stage reads and stores, the more of
# them are parts of sectors.
HELD_RAGGED = 8
SHORT = 64
WHOLE_WARPS = 512  # length from which counts of threads are multiples of a warp's
NUM_REGISTERS = 1 << 16
# Registers that kernels get by with, by bytes of a number: without any, per number of a thread, and up to how many.
TIGHT = {8: (16, 2, 32), 16: (24, 4, 18)}
MAX_EVEN_PRIME, MAX_SMALL_PRIME = 13, 7  # of lengths that may be chosen, and that are looked at first
MAX_CANDIDATES = 16


class Cut(NamedTuple):
    """How a transform is computed in a block."""

    radices: tuple[int, ...]
    threads: int
    held: int  # numbers of a thread, at most
    cost: float  # per element, in visits of an element


def registers(held: int, nbytes: int) -> int:
    """Return how many registers a thread needs that holds numbers of some bytes, so that nothing spills."""
    fixed, each = {8: (24, 2.5), 16: (48, 5.0)}[nbytes]
    if held > MAX_HELD[nbytes] and largest_prime(held) == held:  # its inputs live until all results are there
        each *= 4 / 3
    return int(fixed + each * held)


def tight_registers(held: int, nbytes: int) -> int:
    """Return how many registers a thread gets by with, so that a few bytes spill."""
    fixed, each, most = TIGHT[nbytes]
    return fixed + each * min(held, most)


def largest_prime(n: int) -> int:
    """Return the largest prime factor of n >= 1."""
    largest, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            largest, n = p, n // p
        p += 1
    return max(largest, n)


def is_smooth(n: int) -> bool:
    """Whether codelets exist for all factors."""
    return largest_prime(n) <= MAX_PRIME


def _factorizations(n: int, radices: tuple[int, ...], most: int = MAX_PRIME) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write n as a product of `radices`, which increase, in a falling order."""
    if n == 1:
        yield ()
        return
    for radix in radices[:0:-1]:
        if radix <= most and n % radix == 0:
            for rest in _factorizations(n // radix, radices, radix):
                yield (radix, *rest)


@lru_cache(1 << 14)
def cut(length: int, nbytes: int, *, is_convolved: bool = False, is_ragged: bool = False) -> Cut | None:
    """Return how a block computes transforms of a length; None where there are no codelets or too few registers.

    Parameters
    ----------
    length : int
    nbytes : int
        Of a number.
    is_convolved : bool
        Whether the transform is there and back, in Bluestein's convolution.
    is_ragged : bool
        Whether rows are read from memory, and stored there, that begin within its lines.
    """
    if not is_smooth(length):
        return None
    composite = CONVOLVED[nbytes] if is_convolved else LARGE[nbytes] if length >= MIN_LARGE[nbytes] else ()
    factorizations = _shortest(length, composite)
    wanted = HELD_SHORT if length <= SHORT else HELD_RAGGED if is_ragged else HELD
    best = _cheapest(length, nbytes, factorizations, MAX_HELD[nbytes], registers, wanted)
    if best is None and length % 2 and not is_convolved:  # as passes, most of its segments would be half sectors
        best = _cheapest(length, nbytes, factorizations, MAX_HELD_ODD[nbytes], tight_registers, wanted)
    return best


def _cheapest(
    length: int,
    nbytes: int,
    factorizations: list[tuple[int, ...]],
    most: int,
    needed: Callable[[int, int], int],
    wanted: int,
) -> Cut | None:
    """The cheapest way whose threads hold `wanted` numbers, at most `most`, and have as many registers as `needed`."""
    best, least = None, math.inf
    for radices in factorizations:
        for threads in _thread_counts(length, radices, most):
            held = [-(-(length // radix) // threads) * radix for radix in radices]
            num_registers = -(-threads // 32) * 32 * needed(max(held), nbytes)
            is_wide = max(radices) > MAX_RADIX[nbytes] or max(held) > max(most, *radices)
            if is_wide or num_registers > NUM_REGISTERS:
                continue
            visits = sum(held) * threads / length
            idle = IDLE_COST * abs(math.log2(max(held) / wanted))
            idle += LARGE_COST * max(0.0, math.log2(threads / LARGE_BLOCK))
            cost = visits + STAGE_COST * len(radices) + idle
            if cost < least:
                best, least = Cut(radices, threads, max(held), cost), cost
    return best


@lru_cache(1 << 12)
def convolution_length(length: int, nbytes: int, most: int) -> int:
    """Return the length, at most `most`, of the cyclic convolution by which Bluestein transforms; 0 for none.

    Parameters
    ----------
    length : int
        Of the transform.
    nbytes : int
        Of a number.
    most : int
        That a block can hold.
    """
    least = 2 * length - 1
    lengths = [
        m for m in range(least, min(most, least + max(least // 4, 16)) + 1) if largest_prime(m) <= MAX_EVEN_PRIME
    ]
    # Those of small factors first, of which there are enough where lengths are long.
    lengths = sorted(lengths, key=lambda m: (largest_prime(m) > MAX_SMALL_PRIME, m))[:MAX_CANDIDATES]
    found = [(each.cost * m, m) for m in lengths if (each := cut(m, nbytes, is_convolved=True)) is not None]
    return min(found)[1] if found else 0


def _shortest(length: int, composite: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Factorizations of at most one stage more than the fewest; of many, those of the most even factors."""
    radices = RADICES if length <= MAX_ALONE else tuple(sorted((*RADICES, *composite)))
    every = [each or (1,) for each in _factorizations(length, radices)]
    fewest = min(map(len, every))
    return sorted((each for each in every if len(each) <= fewest + 1), key=lambda r: (len(r), max(r) - min(r)))[:24]


def _thread_counts(length: int, radices: tuple[int, ...], most: int) -> list[int]:
    """Counts worth trying: those at which some stage has no idle threads."""
    counts = set()
    for radix in radices:
        butterflies = length // radix
        for rounds in range(1, max(1, most // radix) + 1):
            counts.add(-(-butterflies // rounds))
    if length >= WHOLE_WARPS:
        counts |= {-(-count // 32) * 32 for count in counts}
    return sorted(count for count in counts if count <= MAX_THREADS)


__all__ = [
    "MAX_THREADS",
    "NUM_REGISTERS",
    "Cut",
    "convolution_length",
    "cut",
    "is_smooth",
    "largest_prime",
    "registers",
    "tight_registers",
]
