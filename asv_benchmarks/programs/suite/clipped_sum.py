"""Integers, clipped and combined."""

import numpy as np

SIZES = {"tiny": (9, 11), "small": (1000, 1000), "medium": (4000, 4000), "large": (12_000, 12_000)}


def make(rng, m, n):
    return rng.integers(0, 1000, (m, n)), rng.integers(0, 1000, (m, n))


def run(x, y):
    return np.clip(x, 2, 10) * 4 + y * 3 + 9
