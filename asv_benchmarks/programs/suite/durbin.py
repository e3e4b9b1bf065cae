"""The Yule-Walker equations by Durbin's recursion, over growing slices."""

import numpy as np

SIZES = {"tiny": (10,), "small": (1000,), "medium": (6000,), "large": (20000,)}


def make(rng, n):
    return (0.5 ** np.arange(1, n + 1) * (1 + 0.1 * rng.random(n)),)


def run(r):
    y = np.empty_like(r)
    alpha, beta = -r[0], 1.0
    y[0] = -r[0]
    for k in range(1, len(r)):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y
