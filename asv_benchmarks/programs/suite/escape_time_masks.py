"""The Mandelbrot set, writing through masks."""

import numpy as np

SIZES = {"tiny": (9, 8), "small": (60, 100), "medium": (150, 300), "large": (200, 1500)}


def make(rng, steps, n):
    return steps, np.linspace(-2, 0.5, n) + 0.01 * rng.random(), np.linspace(-1.25, 1.25, n)


def run(steps, x, y):
    c = x + y[:, None] * 1j
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for n in range(steps):
        inside = np.abs(z) < 2.0
        count[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    count[count == steps - 1] = 0
    return count
