"""A sparse matrix times a vector, row by row (CSR)."""

import numpy as np

SIZES = {"tiny": (9, 3), "small": (2000, 10), "medium": (20_000, 12), "large": (200_000, 20)}


def make(rng, n, per_row):
    starts = np.arange(0, n * per_row + 1, per_row)
    return starts, rng.integers(0, n, n * per_row), rng.random(n * per_row), rng.random(n)


def run(starts, columns, values, x):
    y = np.empty(len(starts) - 1)
    for i in range(len(y)):
        row = slice(starts[i], starts[i + 1])
        y[i] = values[row] @ x[columns[row]]
    return y
