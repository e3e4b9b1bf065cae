"""Products with sparse matrices, kernel by kernel, on ten kinds of matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from oxinp._kernels.sparse import merge, spgemm, spgemm_merge, spmm, spmv
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import from_dtype, i32, i64
from tests.comparator import assert_same
from tests.kernels.machine import Session, machine
from tests.sparse.matrices import KINDS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


def parts(matrix, index=np.int32, dtype=None):
    return [matrix.indptr.astype(index), matrix.indices.astype(index), matrix.data.astype(dtype or matrix.dtype)]


def types_of(*dtypes, index=i32):
    types = [from_dtype(np.dtype(dtype)) for dtype in dtypes]
    return ProductTypes(index, *types, from_dtype(np.result_type(*dtypes)))


def run_matvec(session, plan, arrays, x, num_rows, dtype):
    output = np.full(num_rows, -1, dtype)
    session.run(plan, [output], [session.pointer(array) for array in (*arrays, x)])
    return output


@pytest.mark.parametrize("kernel", ["rows-1", "rows-8", "rows-32", "stream", "merge"])
@pytest.mark.parametrize("kind", KINDS)
def test_matvec(session, kind, kernel):
    matrix = KINDS[kind]
    x = np.random.default_rng(1).integers(-9, 9, matrix.shape[1]).astype(float)
    num_rows, types = matrix.shape[0], types_of("f8", "f8")
    if kernel == "merge":
        plan = merge.plan(num_rows, matrix.nnz, types)
    elif kernel == "stream":
        plan = spmv.stream(num_rows, matrix.nnz, types)
    else:
        plan = spmv.rows(num_rows, matrix.nnz, types, int(kernel.partition("-")[2]))
    assert_same(run_matvec(session, plan, parts(matrix), x, num_rows, float), matrix @ x)


@pytest.mark.parametrize(
    ("dtypes", "index"), [(("f4", "f4"), i64), (("f4", "c16"), i32), (("c8", "f8"), i64), (("i8", "i4"), i32)], ids=str
)
@pytest.mark.parametrize("kernel", [spmv.stream, merge.plan])
def test_matvec_in_other_types(session, dtypes, index, kernel):
    matrix = KINDS["power-law"]
    x = np.arange(matrix.shape[1]).astype(dtypes[1])
    plan = kernel(matrix.shape[0], matrix.nnz, types_of(*dtypes, index=index))
    result = run_matvec(
        session, plan, parts(matrix, index.dtype, dtypes[0]), x, matrix.shape[0], np.result_type(*dtypes)
    )
    assert_same(result, matrix.astype(dtypes[0]) @ x)


def test_sums_of_a_row_that_many_tiles_share(session):
    """The fixup adds them in the order of tiles, for one row and for rows that end in between."""
    matrix = sp.csr_array(np.r_["0,2", np.ones((1, 9 * merge.TILE)), np.arange(9 * merge.TILE)[None] % 7])
    x = np.ones(matrix.shape[1])
    plan = merge.plan(2, matrix.nnz, types_of("f8", "f8"))
    assert_same(run_matvec(session, plan, parts(matrix), x, 2, float), matrix @ x)


def test_stream_adds_in_scipys_order(session):
    matrix = KINDS["random"].copy()
    rng = np.random.default_rng(2)
    matrix.data = rng.normal(size=matrix.nnz)
    x = rng.normal(size=matrix.shape[1])
    plan = spmv.stream(matrix.shape[0], matrix.nnz, types_of("f8", "f8"))
    assert_same(run_matvec(session, plan, parts(matrix), x, matrix.shape[0], float), matrix @ x)


@pytest.mark.parametrize("num_columns", [1, 3, 32, 100])
@pytest.mark.parametrize("kind", ["laplacian-2d", "power-law", "empty-rows"])
def test_matmat(session, kind, num_columns):
    matrix = KINDS[kind]
    b = np.random.default_rng(3).normal(size=(matrix.shape[1], num_columns))
    output = np.full((matrix.shape[0], num_columns), np.nan)
    plan = spmm.plan(*output.shape, matrix.nnz, types_of("f8", "f8"), 16)
    session.run(plan, [output], [session.pointer(array) for array in (*parts(matrix), b)])
    assert_same(output, matrix @ b)


def run_product(session, number, a, b, rows=None):
    """Multiply by the kernels of one bin; `rows` are those that are listed."""
    each, types = spgemm.BINS[number], types_of("f8", "f8")
    expected = a @ b
    expected.sort_indices()
    listed = [] if rows is None else [rows]
    num_rows = a.shape[0] if rows is None else rows.size
    a_parts, b_parts = parts(a), parts(b)
    counts = np.zeros(a.shape[0], np.int32)
    spec = spgemm.SpgemmHashSpec(types, each.lanes, each.table, rows is not None, False)
    given = (*a_parts[:2], *b_parts[:2], *listed)
    session.run(spgemm.multiply(num_rows, spec), [counts], [session.pointer(x) for x in given])
    assert_same(counts, np.diff(expected.indptr).astype(np.int32))
    indices, data = np.zeros(expected.nnz, np.int32), np.zeros(expected.nnz)
    given = (expected.indptr.astype(np.int32), *a_parts, *b_parts, *listed)
    plan = spgemm.multiply(num_rows, spec.replace(is_numeric=True))
    session.run(plan, [indices, data], [session.pointer(x) for x in given])
    assert_same(indices, expected.indices.astype(np.int32))
    assert_same(data, expected.data)


@pytest.mark.parametrize(("number", "size", "density"), [(0, 90, 0.015), (1, 90, 0.04), (2, 60, 0.1), (3, 5, 0.9)])
def test_products_of_sparse_matrices(session, number, size, density):
    """Sums have SciPy's bits: they are in the order of the inner index."""
    rng = np.random.default_rng(4)
    a, b = (sp.random_array((size, size), density=density, rng=rng, format="csr") for _ in range(2))
    products = abs(a).sign() @ np.diff(b.indptr)
    assert products.max() <= spgemm.BINS[number].most
    run_product(session, number, a, b, np.flatnonzero(products >= 0)[::-1].copy() if number % 2 else None)


@pytest.mark.parametrize(("longest", "staged"), [(1, 16), (5, 16), (7, 32), (8, 0)])
def test_merged_products(session, monkeypatch, longest, staged):
    """Rows of no element up to the longest; blocks whose results fit in shared memory, and one whose do not."""
    rng = np.random.default_rng(5)
    num_rows, width = 300, 90
    lengths = rng.integers(0, longest + 1, num_rows)
    lengths[:128] = longest
    lengths[200:] = np.minimum(lengths[200:], 1)
    columns = [np.sort(rng.choice(num_rows, length, replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    a = sp.csr_array((rng.normal(size=indptr[-1]), np.concatenate(columns), indptr), shape=(num_rows, num_rows))
    b = sp.random_array((num_rows, width), density=0.07, rng=rng, format="csr")
    expected = a @ b
    expected.sort_indices()
    types, a_parts, b_parts = types_of("f8", "f8"), parts(a), parts(b)
    counts = np.zeros(num_rows, np.int32)
    given = (*a_parts[:2], *b_parts[:2])
    session.run(spgemm_merge.count(num_rows, types, longest), [counts], [session.pointer(x) for x in given])
    assert_same(counts, np.diff(expected.indptr).astype(np.int32))
    indices, data = np.zeros(expected.nnz, np.int32), np.zeros(expected.nnz)
    monkeypatch.setattr(spgemm_merge, "STAGED", (staged,) if staged else ())
    plan = spgemm_merge.multiply(num_rows, min(expected.nnz, staged * num_rows // 2), types, longest)
    given = (expected.indptr.astype(np.int32), *a_parts, *b_parts)
    session.run(plan, [indices, data], [session.pointer(x) for x in given])
    assert_same(indices, expected.indices.astype(np.int32))
    assert_same(data, expected.data)
    if longest > 1 and staged:
        assert (expected.indptr[128] > staged * 128) & (np.diff(expected.indptr)[256:].sum() < staged * 128)


def test_sizes_of_products(session):
    a, b = KINDS["power-law"], KINDS["random"]
    output = np.zeros(a.shape[0], np.int64)
    plan = spgemm.num_products(a.shape[0], a.nnz, i32)
    session.run(plan, [output], [session.pointer(x) for x in (*parts(a)[:2], parts(b)[0])])
    assert_same(output, (a.sign() @ np.diff(b.indptr)).astype(np.int64))
