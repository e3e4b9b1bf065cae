"""Arnoldi's iteration: an orthonormal basis of a Krylov space, by rows, and the matrix in it."""

import numpy as np

SIZES = {"tiny": (8, 5), "small": (200, 40), "medium": (900, 180), "large": (3000, 400)}


def make(rng, n, m):
    return rng.random((n, n)) / n, rng.random(n), m


def run(A, start, m):
    V, H = np.zeros((m + 1, len(start))), np.zeros((m + 1, m))
    V[0] = start / np.linalg.norm(start)
    for k in range(m):
        w = A @ V[k]
        for j in range(k + 1):
            H[j, k] = np.dot(V[j], w)
            w -= H[j, k] * V[j]
        H[k + 1, k] = np.linalg.norm(w)
        V[k + 1] = w / H[k + 1, k]
    return (abs(V @ V.T - np.eye(m + 1)) < 1e-6).all(), H[:2, :2]


TOLERANCE = 1e-7
