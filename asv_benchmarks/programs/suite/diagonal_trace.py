"""A sum over the diagonal, element by element, added to the whole."""

import numpy as np

SIZES = {"tiny": (9,), "small": (2000,), "medium": (4000,), "large": (14_000,)}


def make(rng, n):
    return (rng.random((n, n)),)


def run(a):
    trace = 0.0
    for i in range(len(a)):
        trace += np.tanh(a[i, i])
    return a + trace
