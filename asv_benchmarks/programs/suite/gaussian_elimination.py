"""A linear system by elimination with partial pivoting, then substitution by rows."""

import numpy as np

SIZES = {"tiny": (7,), "small": (200,), "medium": (600,), "large": (2000,)}


def make(rng, n):
    return rng.standard_normal((n, n)) + np.sqrt(n) * np.eye(n), rng.random(n)


def run(A, b):
    n = len(A)
    for k in range(n - 1):
        pivot = k + np.argmax(np.abs(A[k:, k]))
        if pivot != k:
            A[[k, pivot]] = A[[pivot, k]]
            b[[k, pivot]] = b[[pivot, k]]
        factors = A[k + 1 :, k] / A[k, k]
        A[k + 1 :, k:] -= np.outer(factors, A[k, k:])
        b[k + 1 :] -= factors * b[k]
    x = np.zeros(n)
    for k in range(n - 1, -1, -1):
        x[k] = (b[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k]
    return x


TOLERANCE = 1e-7
