"""Walks from given steps: running sums, extremes, and first passages."""

import numpy as np

SIZES = {"tiny": (4, 80), "small": (300, 4000), "medium": (1000, 8000), "large": (5000, 30_000)}


def make(rng, walks, steps):
    return (rng.integers(0, 2, (walks, steps), np.int8),)


def run(coins):
    walks = np.cumsum(2 * coins.astype(np.int32) - 1, axis=1)
    reached = np.abs(walks) >= 50
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), -1)
    return walks.max(axis=1), walks.min(axis=1), first, np.sort(walks[:, -1])
