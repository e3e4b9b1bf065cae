"""The nearest neighbours of points, one point at a time, and what they vote for."""

import numpy as np

SIZES = {"tiny": (5, 20, 3), "small": (100, 2000, 8), "medium": (300, 20_000, 16), "large": (1000, 200_000, 32)}
NEIGHBOURS, NUM_CLASSES = 7, 4


def make(rng, num_queries, n, dimensions):
    return rng.random((num_queries, dimensions)), rng.random((n, dimensions)), rng.integers(0, NUM_CLASSES, n)


def run(queries, points, labels):
    votes = np.zeros((len(queries), NUM_CLASSES), np.int64)
    farthest = np.empty(len(queries))
    for i in range(len(queries)):
        difference = points - queries[i]
        squared = np.sum(difference * difference, axis=1)
        chosen = np.argsort(squared, kind="stable")[:NEIGHBOURS]
        farthest[i] = squared[chosen[-1]]
        votes[i] = np.bincount(labels[chosen], minlength=NUM_CLASSES)
    return votes, votes.argmax(axis=1), np.sqrt(farthest)
