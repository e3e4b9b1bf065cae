"""Jacobi iteration in one dimension, two sliced statements a step."""

SIZES = {"tiny": (4, 20), "small": (800, 3200), "medium": (1500, 60_000), "large": (1000, 2_000_000)}


def make(rng, steps, n):
    return steps, rng.random(n), rng.random(n)


def run(steps, A, B):
    for _ in range(steps):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
    return A
