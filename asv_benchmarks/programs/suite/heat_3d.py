"""The heat equation in three dimensions."""

SIZES = {"tiny": (2, 6), "small": (25, 25), "medium": (40, 70), "large": (100, 160)}


def make(rng, steps, n):
    return steps, rng.random((n, n, n)), rng.random((n, n, n))


def spread(B, A):
    inner = A[1:-1, 1:-1, 1:-1]
    B[1:-1, 1:-1, 1:-1] = (
        0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * inner + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * inner + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * inner + A[1:-1, 1:-1, :-2])
        + inner
    )


def run(steps, A, B):
    for _ in range(steps):
        spread(B, A)
        spread(A, B)
    return A
