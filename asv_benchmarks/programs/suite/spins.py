"""The Ising model on a chequerboard, with given random numbers."""

import numpy as np

SIZES = {"tiny": (2, 10), "small": (20, 128), "medium": (60, 512), "large": (60, 2048)}


def make(rng, steps, n):
    return 2 * rng.integers(0, 2, (n, n)) - 1, rng.random((steps, n, n), np.float32)


def run(spins, chance):
    n = len(spins)
    parity = np.add.outer(np.arange(n), np.arange(n)) % 2
    magnetisation = np.empty(len(chance))
    for step in range(len(chance)):
        for colour in (0, 1):
            near = np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
            flips = (parity == colour) & (chance[step] < np.exp(-0.88 * spins * near))
            spins[flips] *= -1
        magnetisation[step] = spins.mean()
    return spins, magnetisation
