"""Matrices of ten kinds as in collections of sparse matrices, made by generators; SciPy's, small."""

import numpy as np
import scipy.sparse as sp

DIM = 300


def _laplacian(n, dimensions):
    line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    result = line
    for _ in range(dimensions - 1):
        result = sp.kron(sp.eye_array(n), result) + sp.kron(line, sp.eye_array(result.shape[0]))
    return result


def _power_law(n, rng):
    lengths = np.minimum(n, (2 / rng.random(n) ** 0.9).astype(int))
    rows = np.repeat(np.arange(n), lengths)
    columns = (n * rng.random(rows.size) ** 3).astype(int)
    return sp.coo_array((rng.random(rows.size), (rows, columns)), shape=(n, n))


def _dense_row(n, rng):
    made = sp.random_array((n, n), density=0.01, rng=rng, format="lil")
    made[n // 3] = rng.random(n)
    return made


def kinds(n=DIM):
    """Return matrices in CSR by their kind, in canonical format."""
    rng = np.random.default_rng(0)
    long_rows = sp.random_array((n, 9 * n), density=0.05, rng=rng)
    empty = sp.random_array((n, n), density=0.02, rng=rng, format="lil")
    empty[: n // 2] = 0
    made = {
        "laplacian-2d": _laplacian(int(n**0.5), 2),
        "laplacian-3d": _laplacian(round(n ** (1 / 3)), 3),
        "random": sp.random_array((n, n), density=0.03, rng=rng),
        "power-law": _power_law(n, rng),
        "banded": sp.diags_array([rng.random(n) for _ in range(9)], offsets=range(-4, 5), shape=(n, n)),
        "block": sp.kron(sp.random_array((n // 8, n // 8), density=0.1, rng=rng), np.ones((8, 8))),
        "long-rows": long_rows,
        "empty-rows": empty,
        "dense-row": _dense_row(n, rng),
        "rectangular": sp.random_array((n // 2, 2 * n), density=0.02, rng=rng),
    }
    return {name: _canonical(matrix) for name, matrix in made.items()}


def _canonical(matrix):
    matrix = sp.csr_array(matrix)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.data = np.round(matrix.data * 64) + 1  # whole numbers: every order of summation gives the same sums
    return matrix


KINDS = kinds()
