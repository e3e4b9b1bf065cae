"""Page ranks by powers of a dense link matrix."""

import numpy as np

SIZES = {"tiny": (5, 12), "small": (60, 1000), "medium": (60, 2500), "large": (60, 10_000)}


def make(rng, steps, n):
    links = (rng.random((n, n)) < 0.05).astype(float)
    return steps, links


def run(steps, links):
    n = len(links)
    total = links.sum(axis=0)
    total[total == 0] = 1
    M = links / total
    rank = np.full(n, 1 / n)
    for _ in range(steps):
        new = 0.85 * (M @ rank) + 0.15 / n
        new /= new.sum()
        if np.abs(new - rank).sum() < 1e-14:
            break
        rank = new
    return rank
