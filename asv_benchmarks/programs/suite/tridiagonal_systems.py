"""Tridiagonal systems of equations, as many as an array has columns, by the Thomas algorithm row by row."""

import numpy as np

SIZES = {"tiny": (6, 5), "small": (400, 100), "medium": (2000, 1000), "large": (4000, 20_000)}


def make(rng, n, m):
    return rng.random((n, m)), 4.0 + rng.random((n, m)), rng.random((n, m)), rng.random((n, m))


def run(lower, diagonal, upper, right):
    n = len(right)
    c, x = np.empty_like(right), np.empty_like(right)
    c[0] = upper[0] / diagonal[0]
    x[0] = right[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / pivot
        x[i] = (right[i] - lower[i] * x[i - 1]) / pivot
    for i in range(n - 2, -1, -1):
        x[i] -= c[i] * x[i + 1]
    return x
