"""A dense symmetric system by conjugate gradients, until the residual is small."""

import numpy as np

SIZES = {"tiny": (12,), "small": (1200,), "medium": (1500,), "large": (6000,)}
TOLERANCE = 1e-7


def make(rng, n):
    A = rng.random((n, n))
    return A + A.T + 2 * n * np.eye(n), rng.random(n)


def run(A, b):
    x = np.zeros_like(b)
    r = b - A @ x
    p, rho = r.copy(), r @ r
    for _ in range(200):
        q = A @ p
        alpha = rho / (p @ q)
        x += alpha * p
        r -= alpha * q
        rho, before = r @ r, rho
        if np.sqrt(rho) < 1e-12:
            break
        p = r + rho / before * p
    return x
