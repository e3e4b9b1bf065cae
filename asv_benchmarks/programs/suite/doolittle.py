"""LU factorisation by Doolittle's formulas: a row of U, then a column of L."""

import numpy as np

SIZES = {"tiny": (7,), "small": (150,), "medium": (600,), "large": (2000,)}


def make(rng, n):
    return (rng.random((n, n)) + n * np.eye(n),)


def run(A):
    n = len(A)
    L, U = np.eye(n), np.zeros((n, n))
    for k in range(n):
        U[k, k:] = A[k, k:] - L[k, :k] @ U[:k, k:]
        L[k + 1 :, k] = (A[k + 1 :, k] - L[k + 1 :, :k] @ U[:k, k]) / U[k, k]
    return L, U
