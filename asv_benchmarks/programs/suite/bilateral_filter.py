"""A bilateral filter by shifted images."""

import numpy as np

SIZES = {"tiny": (12, 1), "small": (200, 3), "medium": (400, 3), "large": (1500, 4)}


def make(rng, n, reach):
    return reach, rng.random((n, n), np.float32)


TOLERANCE = 1e-4


def run(reach, image):
    padded = np.pad(image, reach, mode="edge")
    n, m = image.shape
    total, weight = np.zeros_like(image), np.zeros_like(image)
    for i in range(2 * reach + 1):
        for j in range(2 * reach + 1):
            shifted = padded[i : i + n, j : j + m]
            near = np.exp(-((i - reach) ** 2 + (j - reach) ** 2) / (2.0 * reach**2)).astype(np.float32)
            w = near * np.exp(-((shifted - image) ** 2) / np.float32(0.02))
            total += w * shifted
            weight += w
    return total / weight
