"""A pressure equation by successive over-relaxation, red and black points in turn, until it changes little."""

import numpy as np

SIZES = {"tiny": (8, 3), "small": (64, 60), "medium": (256, 100), "large": (2048, 100)}


def make(rng, n, limit):
    return limit, rng.standard_normal((n, n))


def run(limit, divergence):
    n = len(divergence)
    p = np.zeros((n + 2, n + 2))
    i, j = np.indices((n, n))
    is_red = (i + j) % 2 == 0
    omega = 2.0 / (1.0 + np.sin(np.pi / n))
    residuals = []
    for step in range(limit):
        for colour in (is_red, ~is_red):
            inner = p[1:-1, 1:-1]
            change = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - divergence) - inner
            inner += np.where(colour, omega * change, 0.0)
        p[0], p[-1], p[:, 0], p[:, -1] = p[1], p[-2], p[:, 1], p[:, -2]
        if step % 10 == 9:
            residuals.append(np.sqrt(np.mean(change**2)))
            if residuals[-1] < 1e-8:
                break
    return p - p.mean(), np.array(residuals)


TOLERANCE = 1e-7
