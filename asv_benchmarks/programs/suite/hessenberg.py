"""Reduction to upper Hessenberg form by reflections."""

import numpy as np

SIZES = {"tiny": (7,), "small": (100,), "medium": (450,), "large": (1500,)}


def make(rng, n):
    return (rng.standard_normal((n, n)),)


def run(A):
    n = len(A)
    for k in range(n - 2):
        v = A[k + 1 :, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        v /= np.linalg.norm(v)
        A[k + 1 :, k:] -= 2.0 * np.outer(v, v @ A[k + 1 :, k:])
        A[:, k + 1 :] -= 2.0 * np.outer(A[:, k + 1 :] @ v, v)
    return np.triu(A, -1)


TOLERANCE = 1e-8
