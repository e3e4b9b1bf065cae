"""Incomplete factorisations: L U, or L L^T, is the matrix wherever that has elements."""

import numpy as np
import pytest
import scipy.sparse as sp

from oxinp._kernels.sparse import incomplete, trsv
from oxinp._ptx.types import from_dtype, i32, i64
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine
from tests.kernels.sparse.test_products import parts
from tests.sparse.matrices import KINDS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def levels(matrix):
    """One more than the highest level of the rows that a row of the lower triangle names."""
    found = np.zeros(matrix.shape[0], np.int32)
    for row in range(matrix.shape[0]):
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        found[row] = 1 + found[columns[columns < row]].max(initial=-1)
    return found


def factored(session, matrix, index, *, is_symmetric):
    """The factorisation in place of the elements of a matrix in canonical format."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    diagonal = np.flatnonzero(matrix.indices == rows).astype(index.dtype)
    output = np.full(matrix.nnz, np.nan, matrix.dtype)
    spec = incomplete.IncompleteSpec(index, from_dtype(matrix.dtype), is_symmetric)
    order = np.argsort(levels(matrix), kind="stable").astype(index.dtype)
    found = np.full(matrix.shape[0], -1, np.int32)
    given = [session.pointer(x) for x in parts(matrix, index.dtype)[:2]]
    session.run(trsv.levels(matrix.shape[0], trsv.LevelSpec(index, True)), [found], given)
    assert_same(found, levels(matrix))
    given = [session.pointer(x) for x in (*parts(matrix, index.dtype), diagonal, order)]
    session.run(incomplete.plan(matrix.shape[0], matrix.nnz, spec, int(found.max()) + 1), [output], given)
    return sp.csr_array((output, matrix.indices, matrix.indptr), shape=matrix.shape)


def difference(product, matrix):
    """The largest difference where the matrix has elements."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return abs(product.toarray()[rows, matrix.indices] - matrix.data).max()


def dominant(matrix, dtype=float):
    """A matrix with a diagonal that dominates its rows."""
    matrix = sp.csr_array(matrix + sp.diags_array(abs(matrix).sum(1) + 1.0)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        matrix.data = matrix.data * np.exp(1j * np.arange(matrix.nnz)).astype(dtype)
    matrix.sort_indices()
    return matrix


@pytest.mark.parametrize(
    ("kind", "dtype", "index"), [("laplacian-3d", "f8", i32), ("dense-row", "f8", i64), ("random", "c16", i32)], ids=str
)
def test_ilu0(session, kind, dtype, index):
    matrix = dominant(KINDS[kind], dtype)
    made = factored(session, matrix, index, is_symmetric=False)
    lower = sp.tril(made, -1) + sp.eye_array(matrix.shape[0])
    assert difference(lower @ sp.triu(made), matrix) < 1e-13 * abs(matrix).max()


@pytest.mark.parametrize(("kind", "dtype", "index"), [("laplacian-3d", "f8", i32), ("power-law", "f4", i64)], ids=str)
def test_ic0(session, kind, dtype, index):
    matrix = dominant(KINDS[kind] + KINDS[kind].T, dtype)
    lower = sp.csr_array(sp.tril(matrix))
    lower.sort_indices()
    made = factored(session, lower, index, is_symmetric=True)
    assert difference(made @ made.T, lower) < (1e-13 if dtype == "f8" else 1e-5) * abs(matrix).max()
