"""Implicit vertical transport of a weather model: a tridiagonal system per column, solved level by level."""

import numpy as np

SIZES = {"tiny": (4, 5, 4), "small": (60, 60, 40), "medium": (128, 128, 100), "large": (256, 256, 200)}


def make(rng, nx, ny, nz):
    return rng.random((nx, ny, nz)), rng.random((nx, ny, nz + 1)) - 0.5


def run(u, wind):
    nz = u.shape[2]
    c, d = np.empty_like(u), np.empty_like(u)
    for k in range(nz):
        below = -0.25 * wind[:, :, k] if k else np.zeros_like(wind[:, :, 0])
        above = 0.25 * wind[:, :, k + 1] if k < nz - 1 else np.zeros_like(wind[:, :, 0])
        right = 3.0 * u[:, :, k]
        if k:
            right -= below * (u[:, :, k - 1] - u[:, :, k])
            divided = 1.0 / (3.0 - below - above - c[:, :, k - 1] * below)
            d[:, :, k] = (right - d[:, :, k - 1] * below) * divided
        else:
            divided = 1.0 / (3.0 - above)
            d[:, :, k] = right * divided
        c[:, :, k] = above * divided
    for k in range(nz - 2, -1, -1):
        d[:, :, k] -= c[:, :, k] * d[:, :, k + 1]
    return d
