"""A Fourier transform of radix R by reshaped arrays (Stockham)."""

import numpy as np

SIZES = {"tiny": (2, 4), "small": (2, 14), "medium": (2, 17), "large": (4, 11)}


def make(rng, radix, levels):
    n = radix**levels
    return radix, levels, rng.random(n) + 1j * rng.random(n)


def run(radix, levels, x):
    n = radix**levels
    k = np.arange(radix)
    small = np.exp(-2j * np.pi * np.outer(k, k) / radix)
    y = x.copy()
    for level in range(levels):
        before, after = radix**level, radix ** (levels - level - 1)
        turns = np.exp(-2j * np.pi * np.outer(k, np.arange(before)) / (radix * before))
        blocks = y.reshape(radix, after, before) * turns[:, None, :]
        y = np.einsum("ij,jab->aib", small, blocks).reshape(n)
    return y
