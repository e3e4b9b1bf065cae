"""QR factorisation by classical Gram-Schmidt, twice for each column."""

import numpy as np

SIZES = {"tiny": (8, 5), "small": (200, 100), "medium": (1500, 600), "large": (4000, 2000)}


def make(rng, m, n):
    return (rng.random((m, n)) + np.eye(m, n),)


def run(A):
    m, n = A.shape
    Q, R = np.zeros((m, n)), np.zeros((n, n))
    for k in range(n):
        v = A[:, k].copy()
        for _ in range(2):
            h = Q[:, :k].T @ v
            v -= Q[:, :k] @ h
            R[:k, k] += h
        R[k, k] = np.linalg.norm(v)
        Q[:, k] = v / R[k, k]
    return Q, R


TOLERANCE = 1e-7
