"""Integrals over a circle of a polynomial matrix's inverse, by many solves."""

import numpy as np

SIZES = {"tiny": (2, 5), "small": (8, 60), "medium": (16, 150), "large": (32, 500)}
TOLERANCE = 1e-7


def make(rng, points, n):
    def matrix():
        return rng.random((n, n)) + 1j * rng.random((n, n))

    return np.exp(2j * np.pi * (np.arange(points) + 0.5) / points), np.array([matrix() for _ in range(3)]), matrix()


def run(points, terms, Y):
    n = len(Y)
    P0, P1 = np.zeros((n, n), np.complex128), np.zeros((n, n), np.complex128)
    for z in points:
        T = sum(z**k * terms[k] for k in range(len(terms))) + 3 * n * np.eye(n)
        X = np.linalg.solve(T, Y)
        P0 += X
        P1 += z * X
    return P0, P1
