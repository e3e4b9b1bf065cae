"""The heat equation by alternating directions: implicit, line by line."""

import numpy as np

SIZES = {"tiny": (1, 8), "small": (5, 100), "medium": (10, 200), "large": (20, 700)}


def make(rng, steps, n):
    return steps, rng.random((n, n))


def sweep(u, a, b, c, source):
    """Solve for all inner lines of `u` at once, along its second axis."""
    n = len(u)
    p, q = np.zeros((n, n)), np.zeros((n, n))
    u[1:-1, 0] = q[1:-1, 0] = 1.0
    for j in range(1, n - 1):
        p[1:-1, j] = -c / (a * p[1:-1, j - 1] + b)
        q[1:-1, j] = (source[1:-1, j] - a * q[1:-1, j - 1]) / (a * p[1:-1, j - 1] + b)
    u[1:-1, -1] = 1.0
    for j in range(n - 2, 0, -1):
        u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]


def run(steps, u):
    n = len(u)
    v = np.zeros((n, n))
    r = 2.0 * n * n / (steps * n)
    for _ in range(steps):
        source = np.zeros((n, n))
        source[1:-1, 1:-1] = 0.5 * r * (u.T[1:-1, :-2] + u.T[1:-1, 2:]) + (1 - r) * u.T[1:-1, 1:-1]
        sweep(v, -r / 2, 1 + r, -r / 2, source)
        source[1:-1, 1:-1] = 0.5 * r * (v.T[1:-1, :-2] + v.T[1:-1, 2:]) + (1 - r) * v.T[1:-1, 1:-1]
        sweep(u, -r / 2, 1 + r, -r / 2, source)
    return u
