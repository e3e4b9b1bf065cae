"""PageRank of a web whose pages are linked by chance, popular ones more: power iteration on the matrix of links.

python examples/pagerank.py --size 2000
python -m oxinp examples/pagerank.py --size 16384
"""

import argparse
import time

import numpy as np
from progress import progress

DAMPING = 0.85
ROWS_AT_ONCE = 512


def web(size, seed=1):
    """Return the links, (size, size): entry [i, j] is one over the links of page j where it links to page i, else 0."""
    random = np.random.default_rng(seed)
    popularity = 10.0 / (1.0 + np.arange(size)) ** 0.5
    popularity *= 10.0 / popularity.sum()  # ten links per page, more or less
    links = np.empty((size, size))
    for start in progress(-(-size // ROWS_AT_ONCE), "links"):
        rows = slice(start * ROWS_AT_ONCE, (start + 1) * ROWS_AT_ONCE)
        links[rows] = random.random(links[rows].shape) < popularity[rows, np.newaxis]
    outgoing = links.sum(axis=0)
    links /= np.where(outgoing > 0, outgoing, 1.0)
    return links


def rank_pages(links, steps, tolerance=1e-12):
    """Return the ranks, which sum to 1, and the number of steps until they changed by less than `tolerance` in all.

    Pages without links hand their rank to all pages alike.
    """
    size = links.shape[0]
    dangling = links.sum(axis=0) == 0
    rank = np.full(size, 1 / size)
    step = 0
    change = 1.0
    while step < steps and change >= tolerance:
        lost = np.where(dangling, rank, 0.0).sum()
        new = DAMPING * (links @ rank + lost / size) + (1 - DAMPING) / size
        change = np.abs(new - rank).sum()
        rank = new
        step += 1
    return rank, step


def main():
    """Rank the pages and print the first ones."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=2000, help="number of pages (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="at most this many steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 1 or options.steps < 1:
        parser.error("at least one page and one step are needed")

    links = web(options.size, options.seed)
    began = time.perf_counter()
    rank, steps = rank_pages(links, options.steps)
    first, total = float(rank.max()), float(rank.sum())
    seconds = time.perf_counter() - began
    print(f"the first page is {int(rank.argmax())}, with a rank of {first:.9f}; all ranks sum to {total:.12f}")
    print(f"{options.size} pages, {steps} steps in {seconds:.3f} s")


if __name__ == "__main__":
    main()
