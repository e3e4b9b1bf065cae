"""Statistical tests of 32-bit words, as a program: of streams of our own, which nobody else has tested.

``python -m tests.random.battery [--words N] [--seed S] [--processes P]`` takes N words (10**8 unless given) of
`Philox4x32`, drawn where the array library draws them, in parts, which P processes test (1 unless given), and prints
the p-value of every test, joined over parts by Fisher's method. Ends with status 1 if one is below 10**-6 or above
``1 - 10**-6``.
"""

import argparse
import collections
import math
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy import fft, stats

import oxinp

PART = 1 << 22
LEAST = 1e-6
RANK_SIZE = 32
# Of matrices of 32 x 32 random bits: ranks 32, 31, 30 and less.
RANKS = (0.2887880952, 0.5775761902, 0.1283502644, 0.0052854502)


def chi_square(counts, expected):
    """The p-value of counts."""
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


def of_bytes(words):
    """Bytes are equally likely."""
    pairs = np.bincount(words.view(np.uint16), minlength=1 << 16).reshape(256, 256)
    return chi_square(pairs.sum(0) + pairs.sum(1), np.full(256, words.nbytes / 256))


def of_bits(words):
    """Each of the 32 bits is as often set as not."""
    ones = np.array([np.count_nonzero(words >> np.uint32(bit) & np.uint32(1)) for bit in range(32)])
    return stats.chi2.sf(((ones - words.size / 2) ** 2 / (words.size / 4)).sum(), 32)


def uniformity(words):
    """Kolmogorov and Smirnov: words are uniform numbers."""
    x = np.sort(words) / 2.0**32
    n = x.size
    above = (np.arange(1, n + 1) / n - x).max()
    below = (x - np.arange(n) / n).max()
    return stats.kstwobign.sf(max(above, below) * n**0.5)


def _serial(shift):
    def serial(words):
        """Pairs of eight bits that follow each other are equally likely."""
        pairs = words >> np.uint32(shift) & np.uint32(0xFF)
        joined = pairs[0::2].astype(np.int64) << 8 | pairs[1::2]
        return chi_square(np.bincount(joined, minlength=1 << 16), np.full(1 << 16, joined.size / (1 << 16)))

    return serial


def _gaps(shift):
    def gaps(words):
        """Gaps between words whose top bits, or others, are zeros are geometric."""
        hits = np.flatnonzero((words >> np.uint32(shift) & np.uint32(15)) == 0)
        lengths = np.minimum(np.diff(hits) - 1, 63)
        chances = (15 / 16) ** np.arange(64) / 16
        chances[63] = (15 / 16) ** 63
        return chi_square(np.bincount(lengths, minlength=64), chances * lengths.size)

    return gaps


def of_runs(words):
    """Runs that rise, each followed by a word that is left out (Knuth), have their lengths' chances."""
    descents = np.flatnonzero(words[1:] < words[:-1])
    # Of descents that follow each other every other one ends a run: the word after a run begins none.
    number = np.arange(descents.size)
    is_first = np.diff(descents, prepend=-2) > 1
    taken = descents[(number - np.maximum.accumulate(np.where(is_first, number, 0))) % 2 == 0]
    lengths = np.diff(taken, prepend=-2) - 1
    counts = np.bincount(np.minimum(lengths, 7), minlength=8)[1:]
    factorials = np.cumprod(np.arange(1, 9, dtype=float))
    chances = 1 / factorials[:7] - 1 / factorials[1:]
    chances[6] = 1 / factorials[6]
    return chi_square(counts, chances * counts.sum())


def of_ranks(words):
    """Matrices of 32 x 32 bits have their ranks' chances."""
    rows = words[: words.size // RANK_SIZE // 16 * RANK_SIZE].reshape(-1, RANK_SIZE).copy()
    rank = np.zeros(len(rows), int)
    every = np.arange(len(rows))
    used = np.zeros(rows.shape, bool)
    for bit in range(32):
        has = (rows >> np.uint32(bit) & np.uint32(1)).astype(bool)
        usable = has & ~used
        pivot, found = usable.argmax(1), usable.any(1)
        chosen = rows[every, pivot]
        used[every[found], pivot[found]] = True
        has[every, pivot] = False
        rows ^= np.where(has & found[:, None], chosen[:, None], np.uint32(0))
        rank += found
    counts = np.bincount(np.minimum(RANK_SIZE - rank, 3), minlength=4)
    return chi_square(counts, np.array(RANKS) * len(rows))


def of_weights(words):
    """Numbers of bits that are set, of words that follow each other, are binomial and not correlated."""
    weights = np.bitwise_count(words).astype(float) - 16
    correlation = (weights[1:] * weights[:-1]).sum() / (8 * (weights.size - 1) ** 0.5)
    return 2 * stats.norm.sf(abs(correlation))


def of_spectrum(words):
    """The powers of the spectrum of words are exponential: no period stands out.

    One of 64 is looked at, for all of them together have the sum that squares of uniform numbers have.
    """
    x = words[: 1 << 20] / 2.0**32 - 0.5
    power = np.abs(fft.rfft(x)[1:-1:64]) ** 2 / (x.size / 12)
    return stats.kstwobign.sf(stats.kstest(power, "expon").statistic * power.size**0.5)


def of_birthdays(words):
    """Spacings of birthdays (Marsaglia): how many occur twice is Poisson.

    Two of the gaps of m birthdays in n days are equal with probability m / 2n, three with m (m - 1) / 3n^2, which are
    two repetitions and not three.
    """
    days = np.sort(words[: words.size // 512 * 512].reshape(-1, 512) >> np.uint32(8), axis=1)
    spacings = np.sort(np.diff(days, axis=1), axis=1)
    total = int((np.diff(spacings, axis=1) == 0).sum())
    pairs, triples = math.comb(511, 2) * 512 / 2**25, math.comb(511, 3) * 512 * 511 / (3 * 2**48)
    mean = (pairs - triples) * len(days)
    return 2 * min(stats.poisson.cdf(total, mean), stats.poisson.sf(total - 1, mean), 0.5)


TESTS = {
    "bytes": of_bytes,
    "bits": of_bits,
    "uniformity": uniformity,
    "serial, high": _serial(24),
    "serial, low": _serial(0),
    "gaps, high": _gaps(28),
    "gaps, low": _gaps(0),
    "runs": of_runs,
    "ranks": of_ranks,
    "weights": of_weights,
    "spectrum": of_spectrum,
    "birthdays": of_birthdays,
}


def logarithms(words):
    """Return the logarithms of the p-values of all tests."""
    return [np.log(max(float(test(words)), 1e-300)) for test in TESTS.values()]


def joined(parts):
    """Return p-values by names of tests, from their logarithms in every part."""
    return {
        name: float(stats.chi2.sf(-2 * sum(each), 2 * len(each)))
        for name, each in zip(TESTS, zip(*parts, strict=True), strict=True)
    }


def p_values(parts):
    """Return the p-values of all tests, by their names, of words in parts."""
    return joined(map(logarithms, parts))


def p_values_of_processes(parts, processes):
    """Return the same; other processes test the parts, which are drawn meanwhile."""
    found, waiting = [], collections.deque()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        list(pool.map(abs, range(processes)))  # all begin before the first part is drawn, and CUDA with it
        for part in parts:
            waiting.append(pool.submit(logarithms, part))
            if len(waiting) > 2 * processes:
                found.append(waiting.popleft().result())
        found += [each.result() for each in waiting]
    return joined(found)


def drawn(seed, num_words, part=PART):
    """Yield words of our own stream, a part after the other."""
    rng = oxinp.random.Generator(oxinp.random.Philox4x32(seed))
    for start in range(0, num_words, part):
        yield np.asarray(rng.integers(0, 1 << 32, min(part, num_words - start), np.uint32))


def main(arguments):
    """Test and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=10**8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    parts = drawn(options.seed, options.words)
    found = p_values(parts) if options.processes == 1 else p_values_of_processes(parts, options.processes)
    for name, p in found.items():
        sys.stdout.write(f"{name:14s} {p:.6g}\n")
    return 0 if all(LEAST < p < 1 - LEAST for p in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
