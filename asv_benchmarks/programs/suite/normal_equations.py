"""A tall matrix and its transpose times a vector: (A x) A."""

SIZES = {"tiny": (9, 7), "small": (2000, 1800), "medium": (7000, 6000), "large": (18000, 15000)}


def make(rng, m, n):
    return rng.random((m, n)), rng.random(n) / n


def run(A, x):
    return A @ x @ A
