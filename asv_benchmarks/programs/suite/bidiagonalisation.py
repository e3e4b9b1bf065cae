"""Golub and Kahan's reduction to bidiagonal form by reflections from both sides."""

import numpy as np

SIZES = {"tiny": (7, 5), "small": (120, 80), "medium": (500, 350), "large": (2000, 1000)}


def make(rng, m, n):
    return (rng.standard_normal((m, n)),)


def reflector(x):
    v = x.copy()
    v[0] += np.copysign(np.linalg.norm(v), v[0])
    return v / np.linalg.norm(v)


def run(A):
    n = A.shape[1]
    for k in range(n):
        u = reflector(A[k:, k])
        A[k:, k:] -= np.outer(2 * u, u @ A[k:, k:])
        if k < n - 2:
            v = reflector(A[k, k + 1 :])
            A[k:, k + 1 :] -= np.outer(2 * (A[k:, k + 1 :] @ v), v)
    return np.diag(A), np.diag(A, 1)


TOLERANCE = 1e-8
