"""Lloyd's k-means: distances by a product, means by masks."""

import numpy as np

SIZES = {
    "tiny": (3, 60, 3, 4),
    "small": (15, 2000, 8, 10),
    "medium": (20, 40_000, 16, 20),
    "large": (20, 500_000, 32, 50),
}


def make(rng, steps, n, dims, k):
    centres = 10 * rng.random((k, dims))
    points = centres[rng.integers(0, k, n)] + rng.standard_normal((n, dims))
    return steps, points, points[:k].copy()


def run(steps, points, centres):
    squares = np.sum(points**2, axis=1)[:, None]
    for _ in range(steps):
        distances = squares - 2 * points @ centres.T + np.sum(centres**2, axis=1)
        nearest = np.argmin(distances, axis=1)
        for j in range(len(centres)):
            mine = points[nearest == j]
            if len(mine):
                centres[j] = mine.mean(axis=0)
    return centres, nearest
