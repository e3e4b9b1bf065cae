"""LU factorisation without pivots, element by element."""

import numpy as np

SIZES = {"tiny": (7,), "small": (60,), "medium": (220,), "large": (900,)}


def make(rng, n):
    return (rng.random((n, n)) + n * np.eye(n),)


def run(A):
    n = len(A)
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]
    return A
