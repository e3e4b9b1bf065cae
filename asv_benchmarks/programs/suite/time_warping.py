"""Dynamic time warping of two series, by antidiagonals that lie in a skewed array."""

import numpy as np

SIZES = {"tiny": (9, 7), "small": (600, 500), "medium": (4000, 3000), "large": (20_000, 20_000)}


def make(rng, n, m):
    return np.cumsum(rng.standard_normal(n)), np.cumsum(rng.standard_normal(m))


def run(x, y):
    n, m = len(x), len(y)
    before, last = np.full(n + 1, np.inf), np.full(n + 1, np.inf)
    before[0] = 0.0
    for d in range(2, n + m + 1):
        low, high = max(1, d - m), min(n, d - 1)
        now = np.full(n + 1, np.inf)
        step = np.abs(x[low - 1 : high] - y[d - high - 1 : d - low][::-1])
        least = np.minimum(last[low - 1 : high], last[low : high + 1])
        now[low : high + 1] = step + np.minimum(least, before[low - 1 : high])
        before, last = last, now
    return last[n]
