"""QR factorisation by Householder reflections of the trailing matrix."""

import numpy as np

SIZES = {"tiny": (7, 5), "small": (150, 100), "medium": (600, 400), "large": (2500, 1200)}


def make(rng, m, n):
    return (rng.standard_normal((m, n)),)


def run(A):
    n = A.shape[1]
    for k in range(n):
        v = A[k:, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        v /= np.linalg.norm(v)
        A[k:, k:] -= 2 * np.outer(v, v @ A[k:, k:])
    return np.triu(A[:n])


TOLERANCE = 1e-8
