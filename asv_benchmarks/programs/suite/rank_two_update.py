"""Two rank-one updates of a matrix, then products with vectors."""

import numpy as np

SIZES = {"tiny": (9,), "small": (1000,), "medium": (3500,), "large": (12000,)}


def make(rng, n):
    return rng.random((n, n)), *[rng.random(n) / n for _ in range(6)]


def run(A, u1, v1, u2, v2, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x = 1.2 * y @ A + z
    return 1.5 * A @ x
