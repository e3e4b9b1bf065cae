"""The covariance matrix, column by column."""

import numpy as np

SIZES = {"tiny": (9, 6), "small": (500, 400), "medium": (1400, 1200), "large": (3600, 3000)}


def make(rng, n, m):
    return (rng.random((n, m)),)


def run(data):
    n, m = data.shape
    data -= data.mean(axis=0)
    cov = np.zeros((m, m))
    for i in range(m):
        cov[i:m, i] = data[:, i] @ data[:, i:m] / (n - 1.0)
        cov[i, i:m] = cov[i:m, i]
    return cov
