"""The Mandelbrot set, keeping the indices of points that have not escaped."""

import numpy as np

SIZES = {"tiny": (9, 8), "small": (100, 160), "medium": (150, 300), "large": (200, 1500)}


def make(rng, steps, n):
    return steps, np.linspace(-2, 0.5, n) + 0.01 * rng.random(), np.linspace(-1.25, 1.25, n)


def run(steps, x, y):
    xi, yi = np.mgrid[: len(x), : len(y)]
    c = (x[xi] + y[yi] * 1j).ravel()
    xi, yi = xi.ravel(), yi.ravel()
    escaped = np.zeros((len(x), len(y)), np.int64)
    z = np.zeros_like(c)
    for n in range(steps):
        if not len(z):
            break
        z = z * z + c
        is_out = np.abs(z) > 2.0
        escaped[xi[is_out], yi[is_out]] = n + 1
        xi, yi, z, c = xi[~is_out], yi[~is_out], z[~is_out], c[~is_out]
    return escaped
