"""Many rows, each a matrix of one row, times the same matrix."""

import numpy as np

SIZES = {"tiny": (3, 4, 5), "small": (60, 70, 80), "medium": (140, 150, 220), "large": (300, 300, 400)}


def make(rng, r, q, p):
    return rng.random((r, q, p)), rng.random((p, p))


def run(A, C4):
    r, q, p = A.shape
    A[:] = np.reshape(np.reshape(A, (r, q, 1, p)) @ C4, (r, q, p))
    return A
