"""The length of the longest common subsequence of two strings, by antidiagonals."""

import numpy as np

SIZES = {"tiny": (12, 9), "small": (1200, 1000), "medium": (7000, 6000), "large": (30_000, 25_000)}


def make(rng, n, m):
    return rng.integers(0, 4, n).astype(np.uint8), rng.integers(0, 4, m).astype(np.uint8)


def run(a, b):
    n, m = len(a), len(b)
    turned = b[::-1]
    before, last = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    for d in range(2, n + m + 1):
        low, high = max(1, d - m), min(n, d - 1)
        now = np.zeros(n + 1, np.int32)
        same = a[low - 1 : high] == turned[m - d + low : m - d + high + 1]
        longest = np.maximum(last[low - 1 : high], last[low : high + 1])
        now[low : high + 1] = np.where(same, before[low - 1 : high] + 1, longest)
        before, last = last, now
    return last[n]
