"""A Gaussian kernel matrix of points, row by row from the diagonal, then centred."""

import numpy as np

SIZES = {"tiny": (9, 3), "small": (300, 12), "medium": (1500, 40), "large": (5000, 60)}


def make(rng, n, m):
    return (rng.random((n, m)),)


def run(points):
    n = len(points)
    kernel = np.ones((n, n))
    for i in range(n):
        difference = points[i:] - points[i]
        kernel[i, i:] = np.exp(-0.5 * (difference * difference).sum(axis=1))
        kernel[i:, i] = kernel[i, i:]
    means = kernel.mean(axis=0)
    return kernel - means - means[:, None] + means.mean()
