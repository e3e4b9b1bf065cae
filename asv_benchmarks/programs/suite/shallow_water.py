"""The shallow water equations on a periodic grid, by rolled arrays (Lax-Friedrichs)."""

import numpy as np

SIZES = {"tiny": (3, 12), "small": (30, 128), "medium": (80, 300), "large": (150, 1000)}


def make(rng, steps, n):
    x = np.linspace(0, 1, n, endpoint=False)
    h = 1 + 0.1 * np.exp(-100 * ((x[:, None] - 0.5) ** 2 + (x - 0.5) ** 2))
    return steps, h, 0.01 * rng.random((n, n)), np.zeros((n, n))


def average(q):
    return 0.25 * (np.roll(q, 1, 0) + np.roll(q, -1, 0) + np.roll(q, 1, 1) + np.roll(q, -1, 1))


def slope(q, axis):
    return 0.5 * (np.roll(q, -1, axis) - np.roll(q, 1, axis))


def run(steps, h, u, v):
    ratio = 0.1
    for _ in range(steps):
        pressure = 0.5 * h * h
        hu, hv = h * u, h * v
        after = average(h) - ratio * (slope(hu, 0) + slope(hv, 1))
        hu = average(hu) - ratio * (slope(hu * u + pressure, 0) + slope(hu * v, 1))
        hv = average(hv) - ratio * (slope(hv * u, 0) + slope(hv * v + pressure, 1))
        h, u, v = after, hu / after, hv / after
    return h, u, v
