"""Averages over rings: radii of all pixels, then weighted histograms."""

import numpy as np

SIZES = {"tiny": (300, 7), "small": (300_000, 300), "medium": (1_000_000, 1000), "large": (20_000_000, 1000)}


def make(rng, n, bins):
    return rng.random(n), rng.random(n), bins


def run(data, radius, bins):
    top = radius.max()
    count = np.histogram(radius, bins)[0]
    totals = np.histogram(radius, bins, weights=data)[0]
    return totals / count, top
