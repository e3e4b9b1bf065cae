"""The edit distance of two strings, by antidiagonals."""

import numpy as np

SIZES = {"tiny": (12,), "small": (1500,), "medium": (8000,), "large": (30_000,)}


def make(rng, n):
    return rng.integers(0, 4, n).astype(np.uint8), rng.integers(0, 4, n).astype(np.uint8)


def run(a, b):
    n, m = len(a), len(b)
    turned = b[::-1]
    before, last = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    last[:2] = 1
    for d in range(2, n + m + 1):
        low, high = max(1, d - m), min(n, d - 1)
        now = np.empty_like(last)
        if d <= m:
            now[0] = d
        if d <= n:
            now[d] = d
        differs = a[low - 1 : high] != turned[m - d + low : m - d + high + 1]
        now[low : high + 1] = np.minimum(
            np.minimum(last[low - 1 : high], last[low : high + 1]) + 1, before[low - 1 : high] + differs
        )
        before, last = last, now
    return last[n]
