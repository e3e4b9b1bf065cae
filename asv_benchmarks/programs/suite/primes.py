"""The sieve of Eratosthenes, by slices with steps."""

import numpy as np

SIZES = {"tiny": (200,), "small": (2_000_000,), "medium": (30_000_000,), "large": (300_000_000,)}


def make(rng, n):
    del rng
    return (n,)


def run(n):
    is_prime = np.ones(n, bool)
    is_prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if is_prime[i]:
            is_prime[i * i :: i] = False
    return np.flatnonzero(is_prime)
