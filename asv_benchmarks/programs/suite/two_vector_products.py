"""A matrix from the left and from the right: r A, and A p."""

SIZES = {"tiny": (9, 7), "small": (2000, 1800), "medium": (7000, 6000), "large": (18000, 15000)}


def make(rng, m, n):
    return rng.random((m, n)), rng.random(n), rng.random(m)


def run(A, p, r):
    return r @ A, A @ p
