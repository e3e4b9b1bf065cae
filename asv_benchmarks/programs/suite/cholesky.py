"""Cholesky factorisation, element by element."""

import numpy as np

SIZES = {"tiny": (7,), "small": (80,), "medium": (260,), "large": (1000,)}


def make(rng, n):
    B = rng.random((n, n))
    return (B @ B.T + n * np.eye(n),)


def run(A):
    n = len(A)
    for i in range(n):
        for j in range(i):
            A[i, j] = (A[i, j] - np.dot(A[i, :j], A[j, :j])) / A[j, j]
        A[i, i] = np.sqrt(A[i, i] - np.dot(A[i, :i], A[i, :i]))
    return np.tril(A)
