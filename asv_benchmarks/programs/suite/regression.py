"""Logistic regression by gradient descent."""

import numpy as np

SIZES = {"tiny": (3, 30, 4), "small": (60, 2000, 20), "medium": (100, 40_000, 50), "large": (200, 400_000, 100)}


def make(rng, steps, n, dims):
    X = rng.standard_normal((n, dims))
    return steps, X, (X @ rng.standard_normal(dims) + 0.5 * rng.standard_normal(n) > 0).astype(float)


def run(steps, X, y):
    w = np.zeros(X.shape[1])
    losses = []
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(X @ w)))
        losses.append(-np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12)))
        w -= 0.5 * (X.T @ (p - y)) / len(y)
    return w, np.array(losses)
