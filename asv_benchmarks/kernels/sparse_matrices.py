"""Matrices of the kinds that collections of sparse matrices have, made by generators; SciPy's, large."""

import functools

import numpy as np
import scipy.sparse as sp

import oxinp
import oxinp.sparse


def laplacian(side, dimensions=2):
    """Return the 5- or 7-point Laplacian of a grid."""
    n = side**dimensions
    place = np.arange(n, dtype=np.int32)
    columns, values = [place], [np.full(n, 2.0 * dimensions)]
    for axis in range(dimensions):
        step = side**axis
        at = place // step % side
        columns[:0] = [np.where(at > 0, place - step, -1)]
        columns.append(np.where(at < side - 1, place + step, -1))
        values[:0] = [np.full(n, -1.0)]
        values.append(np.full(n, -1.0))
    table, values = np.stack(columns, 1), np.stack(values, 1)
    keep = table >= 0
    indptr = np.zeros(n + 1, np.int32)
    np.cumsum(keep.sum(1), out=indptr[1:])
    return sp.csr_matrix((values[keep], table[keep], indptr), shape=(n, n))


def from_lengths(lengths, width, rng, skew=1.0):
    """Return a matrix with rows of some lengths, before duplicates are added, and columns skewed towards the first."""
    rows = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    columns = np.minimum((width * rng.random(rows.size) ** skew).astype(np.int32), width - 1)
    made = oxinp.sparse.coo_matrix(
        (oxinp.array(rng.random(rows.size)), (oxinp.array(rows), oxinp.array(columns))), shape=(lengths.size, width)
    )
    return made.tocsr().get()


def power_law_lengths(n, mean, rng):
    return np.minimum(n // 4, (mean * 0.32 * rng.pareto(1.5, n) + mean * 0.36).astype(np.int64))


def power_law(n, mean, rng):
    return from_lengths(power_law_lengths(n, mean, rng), n, rng, 2.0)


def banded(n, width):
    offsets = np.arange(-(width // 2), width // 2 + 1)
    return sp.diags([np.full(n - abs(k), 1.0 / (1 + abs(k))) for k in offsets], offsets, format="csr")


def symmetric_web(n, mean, rng):
    """Return the symmetric matrix of a power-law graph, whose largest eigenvalues lie apart."""
    web = power_law(n, mean, rng)
    return sp.csr_matrix(web + web.T)


def _block(n, rng):
    blocks = from_lengths(np.full(n // 16, 3), n // 16, rng)
    return sp.csr_matrix(sp.kron(blocks, np.ones((8, 8))))


# THE TEN KINDS. Name -> what makes one with about `n` rows.
TEN_KINDS = {
    "laplacian 2-D": lambda n, rng: laplacian(int(n**0.5)),  # noqa: ARG005 - all take the same
    "laplacian 3-D": lambda n, rng: laplacian(round(n ** (1 / 3)), 3),  # noqa: ARG005
    "random": lambda n, rng: from_lengths(np.full(n, 16), n, rng),
    "power-law": lambda n, rng: power_law(n, 12, rng),
    "banded": lambda n, rng: banded(n, 15),  # noqa: ARG005
    "block": _block,
    "long rows": lambda n, rng: from_lengths(np.full(n // 64, 1024), n // 4, rng),
    "empty rows": lambda n, rng: from_lengths(np.where(np.arange(n) % 8, 0, 64), n, rng),
    "dense row": lambda n, rng: from_lengths(np.where(np.arange(n) == n // 3, n // 2, 8), n, rng),
    "rectangular": lambda n, rng: from_lengths(np.full(n // 4, 32), 2 * n, rng),
}


class Matrices:
    """The matrices of the cases, each made when it is first asked for.

    Parameters
    ----------
    scale : int
        Sizes are divided by it.
    """

    def __init__(self, scale):
        self.scale = scale
        self.rng = np.random.default_rng(0)

    @functools.cached_property
    def laplacian(self):
        """4M rows."""
        return laplacian(int((4 * 10**6 // self.scale) ** 0.5))

    @functools.cached_property
    def small_laplacian(self):
        """1M rows."""
        return laplacian(int((10**6 // self.scale) ** 0.5))

    @functools.cached_property
    def graph(self):
        """A power-law graph of 4M vertices and 60M edges."""
        return power_law(4 * 10**6 // self.scale, 15, self.rng)

    @functools.cached_property
    def web(self):
        """A power-law graph of 1M vertices."""
        return power_law(10**6 // self.scale, 6, self.rng)

    @functools.cached_property
    def dense_product(self):
        """2,000 rows of 200, whose square is dense: 40,000 products a row."""
        return from_lengths(np.full(2000, 200), 2000, self.rng)

    @functools.cached_property
    def symmetric(self):
        """A symmetric one of 250,000 vertices."""
        return symmetric_web(250_000 // self.scale, 10, self.rng)

    @functools.cached_property
    def shuffled(self):
        """The graph as triples in no order."""
        order = self.rng.permutation(self.graph.nnz)
        coo = self.graph.tocoo()
        return sp.coo_matrix((coo.data[order], (coo.row[order], coo.col[order])), shape=coo.shape)

    @functools.cached_property
    def prolongator(self):
        """What joins four rows of the Laplacian each."""
        n = self.laplacian.shape[0]
        coarse = np.arange(n, dtype=np.int32) // 4
        return sp.csr_matrix((np.ones(n), coarse, np.arange(n + 1, dtype=np.int32)))

    @functools.cache  # noqa: B019 - there is one object of this class
    def kind(self, name, n):
        """One of `TEN_KINDS`."""
        return TEN_KINDS[name](n // self.scale, self.rng)
