"""Correlations of one set of variables with another, a variable at a time, and its residuals' sizes."""

import numpy as np

SIZES = {"tiny": (9, 5, 6), "small": (400, 150, 200), "medium": (1500, 900, 1000), "large": (4000, 2000, 2500)}


def make(rng, n, p, q):
    return rng.random((n, p)), rng.random((n, q))


def run(x, y):
    n, p = x.shape
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    table, left = np.empty((p, y.shape[1])), np.empty(p)
    for i in range(p):
        table[i] = x[:, i] @ y / n
        left[i] = np.sqrt(1 - np.max(table[i] ** 2))
    return table, left
