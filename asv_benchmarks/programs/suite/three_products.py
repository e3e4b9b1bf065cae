"""A chain of three products: (A B) (C D)."""

SIZES = {"tiny": (6,), "small": (300,), "medium": (800,), "large": (2500,)}


def make(rng, n):
    return tuple(rng.random((n, n)) / n for _ in range(4))


def run(A, B, C, D):
    return A @ B @ (C @ D)
