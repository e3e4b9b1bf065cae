"""A layer of convolution, a window at a time."""

import numpy as np

SIZES = {
    "tiny": (2, 5, 5, 2, 3, 2),
    "small": (4, 20, 20, 4, 3, 8),
    "medium": (8, 48, 48, 8, 5, 16),
    "large": (8, 128, 128, 16, 7, 32),
}


def make(rng, num, height, width, channels, side, filters):
    return rng.random((num, height, width, channels)), rng.random((side, side, channels, filters)), rng.random(filters)


def run(images, weights, bias):
    side, _, _, filters = weights.shape
    num, height, width, _ = images.shape
    out = np.empty((num, height - side + 1, width - side + 1, filters))
    for i in range(height - side + 1):
        for j in range(width - side + 1):
            out[:, i, j, :] = np.sum(
                images[:, i : i + side, j : j + side, :, np.newaxis] * weights[np.newaxis], axis=(1, 2, 3)
            )
    return out + bias
