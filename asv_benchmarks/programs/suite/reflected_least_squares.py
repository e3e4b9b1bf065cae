"""Least squares by reflections of a tall matrix and its right-hand sides, then substitution."""

import numpy as np

SIZES = {"tiny": (9, 5, 2), "small": (200, 80, 3), "medium": (900, 350, 8), "large": (3000, 1000, 16)}


def make(rng, m, n, k):
    return rng.standard_normal((m, n)), rng.standard_normal((m, k))


def run(A, b):
    n = A.shape[1]
    for k in range(n):
        v = A[k:, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        v *= np.sqrt(2) / np.linalg.norm(v)
        A[k:, k:] -= np.outer(v, v @ A[k:, k:])
        b[k:] -= np.outer(v, v @ b[k:])
    x = np.zeros((n, b.shape[1]))
    for k in range(n - 1, -1, -1):
        x[k] = (b[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k]
    return x, np.sqrt((b[n:] ** 2).sum(axis=0))


TOLERANCE = 1e-8
