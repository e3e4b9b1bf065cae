"""The lower half of C + A A^T, row by row."""

SIZES = {"tiny": (6, 4), "small": (70, 60), "medium": (240, 200), "large": (700, 500)}


def make(rng, n, k):
    return rng.random((n, n)), rng.random((n, k))


def run(C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= 0.5
        for k in range(A.shape[1]):
            C[i, : i + 1] += 1.5 * A[i, k] * A[: i + 1, k]
    return C
