"""Eigenvalues of a symmetric matrix by Jacobi's rotations of rows and columns, cyclically."""

import math

import numpy as np

SIZES = {"tiny": (5, 2), "small": (30, 2), "medium": (100, 2), "large": (300, 2)}


def make(rng, n, sweeps):
    a = rng.random((n, n))
    return a + a.T, sweeps


def run(A, sweeps):
    n = len(A)
    V = np.eye(n)
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if A[p, q] == 0.0:
                    continue
                theta = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
                t = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
                c = 1.0 / math.sqrt(t * t + 1.0)
                s = t * c
                for M in (A, A.T, V.T):
                    row = c * M[p] - s * M[q]
                    M[q] = s * M[p] + c * M[q]
                    M[p] = row
    return np.diagonal(A).copy(), V


TOLERANCE = 1e-7
