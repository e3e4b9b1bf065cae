"""Foldings of a strand of RNA by dynamic programming, element by element."""

import numpy as np

SIZES = {"tiny": (8,), "small": (45,), "medium": (70,), "large": (160,)}


def make(rng, n):
    return (rng.integers(0, 4, n),)


def run(bases):
    n = len(bases)
    table = np.zeros((n, n), np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j], table[i, j - 1], table[i + 1, j])
            pairs = 1 if i < j - 1 and bases[i] + bases[j] == 3 else 0
            table[i, j] = max(table[i, j], table[i + 1, j - 1] + pairs)
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table
