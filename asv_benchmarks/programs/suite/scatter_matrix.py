"""A weighted scatter matrix, a row of its lower half at a time."""

import numpy as np

SIZES = {"tiny": (9, 6), "small": (400, 300), "medium": (1600, 1100), "large": (4000, 3000)}


def make(rng, n, m):
    return rng.random((n, m)), rng.random(n)


def run(data, weights):
    m = data.shape[1]
    weights /= weights.sum()
    data -= weights @ data
    scatter = np.zeros((m, m))
    for j in range(m):
        scatter[j, : j + 1] = (data[:, j] * weights) @ data[:, : j + 1]
    return scatter + np.tril(scatter, -1).T
