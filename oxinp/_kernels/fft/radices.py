"""Factors of a length into the radices of a kernel's stages, and how many threads share the work."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oxinp._kernels.fft.codelets import MAX_PRIME, RADICES

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_THREADS = 1024
LINE, SECTOR = 128, 32  # bytes of memory
# Numbers that a thread may hold, by bytes of one: half of its registers, or a little more.
MAX_HELD = {8: 24, 16: 18}
MAX_HELD_ODD = {8: 49, 16: 18}  # of odd lengths that a block could not transform otherwise
MAX_RADIX = {8: 61, 16: 23}
# Composite radices beyond 16, where there are several: of convolutions, whose tables take the most time. Transforms are
# slower by them, of single precision with radices to 24 and to 32, on an H200.
CONVOLVED: dict[int, tuple[int, ...]] = {8: (18, 20, 21, 22, 24), 16: ()}
# The same of long rows that begin within lines, whose radices would be small: of 3125, 6561 and 15625 elements they are
# 7, 9 and 21 % faster by these, of 625 and 729 slower by 3 and 7.
LARGE: dict[int, tuple[int, ...]] = {8: (25, 27), 16: ()}
MIN_LARGE = 3000
MAX_WHOLE = {8: 20480, 16: 0}  # even length up to which few registers are better than two passes
# And of those that leave room for no second block: 16807 elements take 0.122 ms by 49, 49, 7, by fives of 7 0.131.
LARGEST: dict[int, tuple[int, ...]] = {8: (49,), 16: ()}
MIN_LARGEST = 16000
MAX_ALONE = 32  # up to which a composite radix would be the only one
STAGE_COST = 1.5  # of a stage, in visits of an element
IDLE_COST = 0.5  # of half as many numbers of a thread as an `Aim` has
LARGE_COST = 1.0  # of twice as many threads as an `Aim` has
SHORT, LINED_NBYTES = 64, 1024
WHOLE_WARPS = 512  # length from which counts of threads are multiples of a warp's
NUM_REGISTERS = 1 << 16
# Registers that kernels get by with, by bytes of a number: without any, per number of a thread, and up to how many.
TIGHT = {8: (16, 2, 32), 16: (24, 4, 18)}
MAX_EVEN_PRIME, MAX_SMALL_PRIME = 13, 7  # of lengths that may be chosen, and that are looked at first
MAX_CANDIDATES = 16
MAX_SMALL_RADIX = 16  # of those that are no larger primes


class Aim(NamedTuple):
    """What suits the memory.

    Attributes
    ----------
    held : int
        Numbers of a thread.
    threads : int
        Of a transform, beyond which few blocks fit.
    over : float
        Cost of twice as many numbers.
    rough : float
        Cost of rounds of threads that begin within sectors.
    """

    held: int
    threads: int
    over: float = IDLE_COST
    rough: float = 0.0


USUAL = Aim(16, 512)
BESIDE = Aim(8, 512)  # where threads of a transform read side by side
# Where rows begin within lines: the shorter the pieces that a stage reads and stores, the more of them are parts of
# sectors; 1029 threads in 6 blocks were faster than in 3.
RAGGED = Aim(8, 256)
# Where they begin with lines: of 640 and 2000 elements, 43 and 134 threads take 0.082 and 0.091 ms, 80 and 200 threads
# 0.075 and 0.086, and 100 threads with 20 numbers of 2000 0.108.
LINED = Aim(16, 512, 1.5, 0.45)


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


@lru_cache(1 << 12)
def _factorizations(n: int, radices: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The ways to write n as a product of `radices`, which increase, in a falling order."""
    if n == 1:
        return ((),)
    return tuple(
        (radix, *rest)
        for i, radix in enumerate(radices[:0:-1])
        if n % radix == 0
        for rest in _factorizations(n // radix, radices[: len(radices) - i])
    )


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
    is_large = is_ragged and length >= MIN_LARGE
    composite = CONVOLVED[nbytes] if is_convolved else LARGE[nbytes] if is_large else ()
    composite += LARGEST[nbytes] if is_large and length >= MIN_LARGEST else ()
    factorizations = _shortest(length, composite)
    is_lined = length * nbytes % LINE == 0 and length * nbytes > LINED_NBYTES and not is_convolved
    aim = BESIDE if length <= SHORT else RAGGED if is_ragged else LINED if is_lined else USUAL
    best = _cheapest(length, nbytes, factorizations, MAX_HELD[nbytes], registers, aim)
    # As passes, most segments of odd lengths would be half sectors.
    if best is None and not is_convolved and (length % 2 or length <= MAX_WHOLE[nbytes]):
        most = (MAX_HELD_ODD if length % 2 else MAX_HELD)[nbytes]
        best = _cheapest(length, nbytes, factorizations, most, tight_registers, aim)
    return best


def _cheapest(
    length: int,
    nbytes: int,
    factorizations: list[tuple[int, ...]],
    most: int,
    needed: Callable[[int, int], int],
    aim: Aim,
) -> Cut | None:
    """The cheapest way whose threads hold at most so many numbers, and `needed` registers for them."""
    best, least = None, math.inf
    for radices in factorizations:
        if (1 + STAGE_COST) * len(radices) >= least:  # what they cost at least
            continue
        for threads in _thread_counts(length, radices, most):
            held = [-(-(length // radix) // threads) * radix for radix in radices]
            num_registers = -(-threads // 32) * 32 * needed(max(held), nbytes)
            is_wide = max(radices) > MAX_RADIX[nbytes] or max(held) > max(most, *radices)
            if is_wide or num_registers > NUM_REGISTERS:
                continue
            visits = sum(held) * threads / length
            beyond = math.log2(max(held) / aim.held)
            idle = aim.over * beyond if beyond > 0 else -IDLE_COST * beyond
            idle += LARGE_COST * max(0.0, math.log2(threads / aim.threads))
            cost = visits + STAGE_COST * len(radices) + idle + (aim.rough if threads * nbytes % SECTOR else 0.0)
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
    last = min(most, least + max(least // 4, 16))
    # Those of small factors first, of which there are enough where lengths are long.
    few, many = (_smooth_numbers(least, last, prime) for prime in (MAX_SMALL_PRIME, MAX_EVEN_PRIME))
    lengths = [*few, *(m for m in many if m not in few)][:MAX_CANDIDATES]
    least_cost, best = math.inf, 0
    for m in sorted(lengths):
        if (1 + STAGE_COST) * _fewest_stages(m, nbytes) * m > least_cost:  # what it costs at least
            continue
        each = cut(m, nbytes, is_convolved=True)
        if each is not None and each.cost * m < least_cost:
            least_cost, best = each.cost * m, m
    return best


def _fewest_stages(length: int, nbytes: int) -> int:
    """How many stages a convolution of small factors has at least."""
    stages, reached = 0, 1
    while reached < length:
        stages, reached = stages + 1, reached * max((MAX_SMALL_RADIX, *CONVOLVED[nbytes]))
    return stages


def _smooth_numbers(least: int, last: int, most: int) -> list[int]:
    """The numbers from `least` to `last` without prime factors above `most`."""
    found = [1]
    for prime in range(2, most + 1):
        if largest_prime(prime) == prime:
            for n in found:  # which grows
                if n * prime <= last:
                    found.append(n * prime)  # noqa: PERF401 - the list itself is gone through
    return sorted(n for n in found if n >= least)


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


def even_at(radices: tuple[int, ...], is_first: bool, is_last: bool) -> tuple[int, ...]:
    """Return the radices in an order in which the first is even, the last, or both."""
    odd = [radix for radix in radices if radix % 2]
    even = [radix for radix in radices if radix % 2 == 0]
    if len(even) > 1:  # the first one is what blocks of a cluster share
        return (*even[:-1], *odd, even[-1])
    assert not (is_first and is_last), "see `plan.rotates`"
    return (*even, *odd) if is_first else (*odd, *even)


__all__ = [
    "MAX_THREADS",
    "NUM_REGISTERS",
    "Cut",
    "convolution_length",
    "cut",
    "even_at",
    "is_smooth",
    "largest_prime",
    "registers",
    "tight_registers",
]
