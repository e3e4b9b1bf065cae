"""Diffusion of a weather model: a limited flux of the Laplacian, level by level along the last axis."""

import numpy as np

SIZES = {"tiny": (5, 6, 3), "small": (64, 64, 60), "medium": (160, 160, 80), "large": (300, 300, 160)}


def make(rng, nx, ny, nz):
    return rng.random((nx + 4, ny + 4, nz)), rng.random((nx, ny, nz))


def run(x, coefficient):
    laplacian = 4.0 * x[1:-1, 1:-1] - (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
    step = laplacian[1:, 1:-1] - laplacian[:-1, 1:-1]
    flux_x = np.where(step * (x[2:-1, 2:-2] - x[1:-2, 2:-2]) > 0, 0, step)
    step = laplacian[1:-1, 1:] - laplacian[1:-1, :-1]
    flux_y = np.where(step * (x[2:-2, 2:-1] - x[2:-2, 1:-2]) > 0, 0, step)
    return x[2:-2, 2:-2] - coefficient * (flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1])
