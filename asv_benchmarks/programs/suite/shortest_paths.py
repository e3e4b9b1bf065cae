"""Shortest paths between all pairs (Floyd and Warshall)."""

import numpy as np

SIZES = {"tiny": (8,), "small": (150,), "medium": (500,), "large": (2000,)}


def make(rng, n):
    distances = rng.integers(1, 1000, (n, n))
    distances[rng.random((n, n)) < 0.8] = 10_000
    return (distances,)


def run(path):
    for k in range(len(path)):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))
    return path
