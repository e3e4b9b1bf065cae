"""A network of three dense layers with softmax."""

import numpy as np

SIZES = {
    "tiny": (4, 9, 7, 5),
    "small": (128, 1000, 500, 200),
    "medium": (256, 2000, 1000, 400),
    "large": (1024, 8000, 6000, 1000),
}


def make(rng, num, wide, middle, classes):
    shapes = (wide, middle), (middle, middle), (middle, classes)
    return rng.random((num, wide)), *[rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]


def run(x, first, second, third):
    x = np.maximum(x @ first, 0)
    x = np.maximum(x @ second, 0)
    x = x @ third
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)
