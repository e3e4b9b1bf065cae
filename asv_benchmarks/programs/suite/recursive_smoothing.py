"""A recursive filter along the rows of an image, forwards and backwards, column by column."""

import numpy as np

SIZES = {"tiny": (5, 8), "small": (300, 400), "medium": (500, 600), "large": (3000, 3000)}


def make(rng, height, width):
    return (rng.random((height, width)),)


def run(image):
    forwards, backwards = np.zeros_like(image), np.zeros_like(image)
    forwards[:, 0] = image[:, 0]
    forwards[:, 1] = 0.3 * image[:, 1] + 0.6 * forwards[:, 0]
    for j in range(2, image.shape[1]):
        forwards[:, j] = 0.3 * image[:, j] + 0.9 * forwards[:, j - 1] - 0.2 * forwards[:, j - 2]
    for j in range(image.shape[1] - 3, -1, -1):
        backwards[:, j] = 0.3 * image[:, j + 1] + 0.9 * backwards[:, j + 1] - 0.2 * backwards[:, j + 2]
    return forwards + backwards
