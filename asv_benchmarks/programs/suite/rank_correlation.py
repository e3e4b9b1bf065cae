"""Correlations of ranks (Spearman), a column after the other."""

import numpy as np

SIZES = {"tiny": (9, 6), "small": (400, 200), "medium": (2000, 800), "large": (5000, 2500)}


def make(rng, n, m):
    return (rng.random((n, m)),)


def run(data):
    n, m = data.shape
    ranks = np.empty_like(data)
    for j in range(m):
        ranks[np.argsort(data[:, j]), j] = np.arange(n)
    ranks -= (n - 1) / 2
    ranks /= np.sqrt((ranks * ranks).sum(axis=0))
    correlations = np.eye(m)
    for j in range(m - 1):
        correlations[j, j + 1 :] = ranks[:, j] @ ranks[:, j + 1 :]
        correlations[j + 1 :, j] = correlations[j, j + 1 :]
    return correlations
