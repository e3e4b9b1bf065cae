"""Distances along great circles (haversines)."""

import numpy as np

SIZES = {"tiny": (50,), "small": (100_000,), "medium": (1_000_000,), "large": (20_000_000,)}


def make(rng, n):
    return tuple(rng.random(n) for _ in range(4))


def run(latitude, longitude, other_latitude, other_longitude):
    a = (
        np.sin((other_latitude - latitude) / 2) ** 2
        + np.cos(latitude) * np.cos(other_latitude) * np.sin((other_longitude - longitude) / 2) ** 2
    )
    return 2 * np.arctan2(np.sqrt(a), np.sqrt(1 - a))
