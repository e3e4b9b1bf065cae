"""Poisson's equation by relaxation of lines: all even ones at once, then all odd ones."""

import numpy as np

SIZES = {"tiny": (2, 9), "small": (5, 101), "medium": (5, 501), "large": (5, 3001)}


def make(rng, sweeps, n):
    return sweeps, rng.random((n, n)), np.zeros((n, n))


def run(sweeps, source, u):
    n = len(u)
    share = np.empty(n)
    share[1] = 0.25
    for j in range(2, n - 1):
        share[j] = 1.0 / (4.0 - share[j - 1])
    for _ in range(sweeps):
        for first in (1, 2):
            right = source[first:-1:2] + u[first - 1 : -2 : 2] + u[first + 1 :: 2]
            right[:, 1] *= share[1]
            for j in range(2, n - 1):
                right[:, j] = (right[:, j] + right[:, j - 1]) * share[j]
            line = u[first:-1:2]
            line[:, n - 2] = right[:, n - 2]
            for j in range(n - 3, 0, -1):
                line[:, j] = right[:, j] + share[j] * line[:, j + 1]
    return u, np.abs(u).max()
