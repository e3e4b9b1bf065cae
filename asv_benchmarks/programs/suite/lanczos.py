"""Lanczos's iteration with full reorthogonalisation, and the largest eigenvalues."""

import numpy as np

SIZES = {"tiny": (12, 4), "small": (300, 30), "medium": (1400, 160), "large": (4000, 300)}


def make(rng, n, m):
    a = rng.random((n, n))
    return a + a.T, rng.random(n), m


def run(A, start, m):
    V = np.zeros((m, len(start)))
    alpha, beta = np.zeros(m), np.zeros(m)
    V[0] = start / np.sqrt(start @ start)
    for k in range(m):
        w = A @ V[k]
        alpha[k] = w @ V[k]
        w -= V[: k + 1].T @ (V[: k + 1] @ w)
        w -= V[: k + 1].T @ (V[: k + 1] @ w)
        if k + 1 < m:
            beta[k] = np.sqrt(w @ w)
            V[k + 1] = w / beta[k]
    T = np.diag(alpha) + np.diag(beta[: m - 1], 1) + np.diag(beta[: m - 1], -1)
    return np.linalg.eigvalsh(T)[-2:]


TOLERANCE = 1e-7
