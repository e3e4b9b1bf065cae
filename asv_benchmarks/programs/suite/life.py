"""Conway's game of life on bytes, neighbours counted by slices."""

import numpy as np

SIZES = {"tiny": (4, 12), "small": (60, 200), "medium": (100, 800), "large": (200, 4000)}


def make(rng, steps, n):
    return steps, (rng.random((n, n)) < 0.3).astype(np.uint8)


def run(steps, alive):
    for _ in range(steps):
        count = np.zeros_like(alive)
        count[1:-1, 1:-1] = (
            alive[:-2, :-2] + alive[:-2, 1:-1] + alive[:-2, 2:] + alive[1:-1, :-2]
            + alive[1:-1, 2:] + alive[2:, :-2] + alive[2:, 1:-1] + alive[2:, 2:]
        )  # fmt: skip
        born = (count == 3) & (alive == 0)
        stays = ((count == 2) | (count == 3)) & (alive == 1)
        alive[...] = 0
        alive[born | stays] = 1
    return alive
