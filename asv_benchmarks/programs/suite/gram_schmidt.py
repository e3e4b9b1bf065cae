"""QR factorisation by modified Gram-Schmidt, column by column."""

import numpy as np

SIZES = {"tiny": (8, 5), "small": (120, 60), "medium": (500, 250), "large": (2000, 600)}


def make(rng, m, n):
    return (rng.random((m, n)) + np.eye(m, n),)


def run(A):
    n = A.shape[1]
    Q, R = np.zeros_like(A), np.zeros((n, n))
    for k in range(n):
        R[k, k] = np.sqrt(np.dot(A[:, k], A[:, k]))
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, n):
            R[k, j] = np.dot(Q[:, k], A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


TOLERANCE = 1e-7
