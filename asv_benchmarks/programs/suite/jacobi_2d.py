"""Jacobi iteration in two dimensions."""

SIZES = {"tiny": (3, 9), "small": (50, 150), "medium": (150, 400), "large": (300, 2000)}


def make(rng, steps, n):
    return steps, rng.random((n, n)), rng.random((n, n))


def run(steps, A, B):
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])
    return A
