"""The largest eigenvalue of a symmetric matrix and its vector, by powers."""

import numpy as np

SIZES = {"tiny": (8, 5), "small": (600, 80), "medium": (1500, 100), "large": (6000, 150)}


def make(rng, n, steps):
    A = rng.random((n, n))
    return (A + A.T) / 2, rng.random(n), steps


def run(A, x, steps):
    for _ in range(steps):
        x = A @ x
        x /= np.linalg.norm(x)
    return x, x @ (A @ x)
