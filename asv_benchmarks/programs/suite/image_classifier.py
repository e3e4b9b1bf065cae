"""A small network on images: convolutions and pooling by windows, then dense layers."""

import numpy as np

SIZES = {"tiny": (1, 16), "small": (4, 20), "medium": (16, 40), "large": (64, 100)}


def make(rng, num, side):
    left = ((side - 4) // 2 - 4) // 2
    shapes = (5, 5, 1, 6), (5, 5, 6, 16), (left * left * 16, 120), (120, 84), (84, 10)
    return rng.random((num, side, side, 1)), *[rng.random(shape) - 0.5 for shape in shapes]


def convolved(x, weights):
    side = weights.shape[0]
    height, width = x.shape[1] - side + 1, x.shape[2] - side + 1
    out = np.empty((len(x), height, width, weights.shape[3]))
    for i in range(height):
        for j in range(width):
            out[:, i, j, :] = np.sum(x[:, i : i + side, j : j + side, :, np.newaxis] * weights, axis=(1, 2, 3))
    return np.maximum(out, 0)


def pooled(x):
    height, width = x.shape[1] // 2, x.shape[2] // 2
    out = np.empty((len(x), height, width, x.shape[3]))
    for i in range(height):
        for j in range(width):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def run(x, first, second, *dense):
    x = pooled(convolved(pooled(convolved(x, first)), second))
    x = np.reshape(x, (len(x), -1))
    for weights in dense[:-1]:
        x = np.maximum(x @ weights, 0)
    return x @ dense[-1]
