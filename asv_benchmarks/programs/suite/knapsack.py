"""The knapsack problem: the best value of every weight, an item after the other, and which items are taken."""

import numpy as np

SIZES = {"tiny": (5, 30), "small": (300, 2000), "medium": (3000, 12_000), "large": (6000, 60_000)}


def make(rng, n, capacity):
    return rng.integers(1, capacity // 4, n), rng.integers(1, 1000, n), capacity


def run(weights, values, capacity):
    best = np.zeros(capacity + 1, np.int64)
    counts = np.zeros(len(weights), np.int64)
    for i in range(len(weights)):
        w = int(weights[i])
        candidate = best[:-w] + values[i]
        is_better = candidate > best[w:]
        counts[i] = np.count_nonzero(is_better)
        best[w:] = np.where(is_better, candidate, best[w:])
    return best[-1], counts
