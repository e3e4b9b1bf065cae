"""k-means clustering by Lloyd's algorithm, of points drawn around hidden centres.

python examples/kmeans.py --size 100000 --clusters 8
python -m oxinp examples/kmeans.py --size 10000000 --clusters 16
"""

import argparse
import time

import numpy as np
from picture import Axis, write_picture
from progress import progress


def blobs(size, clusters, dimensions, seed=1):
    """Return points (dimensions, size) around `clusters` hidden centres, and points to start from, one per cluster."""
    random = np.random.default_rng(seed)
    centres = random.uniform(-1.0, 1.0, (dimensions, clusters))
    points = centres[:, random.integers(0, clusters, size)] + 0.08 * random.standard_normal((dimensions, size))
    start = centres + 0.1 * random.standard_normal(centres.shape)
    return points, start


def squared_distances(points, centres):
    """Return the squared distance of every point to every centre, (size, clusters)."""
    square = np.zeros((points.shape[1], centres.shape[1]))
    for x, centre in zip(points, centres, strict=True):
        square += (x[:, np.newaxis] - centre) ** 2
    return square


def move_centres(points, labels, centres):
    """Move each centre, in place, to the mean of the points that it is nearest to; one without points stays."""
    for j in range(centres.shape[1]):
        own = labels == j
        count = own.sum()
        mean = np.where(own, points, 0.0).sum(axis=1) / np.maximum(count, 1)
        centres[:, j] = np.where(count > 0, mean, centres[:, j])


def cluster(points, centres, steps):
    """Return the label of each point and the centres after `steps` steps from the given ones."""
    centres = centres.copy()
    for _ in progress(steps, "k-means"):
        labels = squared_distances(points, centres).argmin(axis=1)
        move_centres(points, labels, centres)
    return labels, centres


def main():
    """Cluster the points; print how far from the centres they lie, and draw the first two coordinates."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=100_000, help="number of points (default: %(default)s)")
    parser.add_argument("--clusters", type=int, default=8, help="number of clusters (default: %(default)s)")
    parser.add_argument("--dimensions", type=int, default=3, help="coordinates of a point (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="steps of the algorithm (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--picture", default="kmeans.png", help="PNG to write, '' for none (default: %(default)s)")
    options = parser.parse_args()
    if min(options.size, options.clusters, options.dimensions - 1, options.steps) < 1:
        parser.error("at least one point, one cluster, two dimensions and one step are needed")

    points, start = blobs(options.size, options.clusters, options.dimensions, options.seed)
    began = time.perf_counter()
    labels, centres = cluster(points, start, options.steps)
    inertia = float(squared_distances(points, centres).min(axis=1).sum())
    seconds = time.perf_counter() - began
    counts = [int((labels == j).sum()) for j in range(options.clusters)]
    print(f"mean squared distance to the centre: {inertia / options.size:.9f}")
    print(f"points per cluster: {' '.join(map(str, counts))}")
    print(f"{options.size} points, {options.clusters} clusters, {options.steps} steps in {seconds:.3f} s")
    if options.picture:
        draw(options.picture, points, labels)


def draw(path, points, labels, size=512):
    """Draw the points in the colours of their clusters."""
    column, row = (np.asarray((size - 1) * (axis + 1.5) / 3).astype(np.int64).clip(0, size - 1) for axis in points[:2])
    picture = np.zeros((size, size))
    picture[row, column] = np.asarray(labels) + 2
    x, y = (Axis(f"{name} coordinate", -1.5, 1.5) for name in ("first", "second"))
    write_picture(path, picture[::-1], f"{len(labels)} points in their clusters", x, y, "cluster + 2; 0: no point")


if __name__ == "__main__":
    main()
