"""Products with sparse matrices, kernel by kernel, on ten kinds of matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from oxinp._kernels.plan import Plan, Scratch, inputs, outputs
from oxinp._kernels.sparse import merge, spgemm, spgemm_merge, spgemm_rows, spmm, spmv
from oxinp._kernels.sparse.types import ProductTypes
from oxinp._ptx.types import f64, from_dtype, i32, i64
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


@pytest.mark.parametrize("kernel", ["rows-8", "rows-32", "stream"])
@pytest.mark.parametrize(("kind", "index"), [("laplacian-2d", i32), ("long-rows", i64), ("empty-rows", i32)])
def test_matvec_with_narrow_indices(session, kind, index, kernel):
    """Those of 16 bits are columns less the first row of the 256 that a row is among."""
    matrix = KINDS[kind]
    x = np.random.default_rng(1).integers(-9, 9, matrix.shape[1]).astype(float)
    num_rows, types = matrix.shape[0], types_of("f8", "f8", index=index)
    if kernel == "stream":
        plan = spmv.stream(num_rows, matrix.nnz, types, is_narrow=True)
    else:
        plan = spmv.rows(num_rows, matrix.nnz, types, int(kernel.partition("-")[2]), is_narrow=True)
    indptr, indices, data = parts(matrix, index.dtype)
    rows = np.repeat(np.arange(num_rows), np.diff(indptr))
    assert rows.max() >= 256  # of several blocks
    narrow = (indices - rows // 256 * 256).astype(np.int16)
    assert_same(run_matvec(session, plan, (indptr, narrow, data), x, num_rows, float), matrix @ x)


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


@pytest.mark.parametrize("tiles", [9, 150])
def test_sums_of_a_row_that_many_tiles_share(session, tiles):
    """The fixup adds them in the order of tiles, for one row and for rows that end in between."""
    matrix = sp.csr_array(np.r_["0,2", np.ones((1, tiles * merge.TILE)), np.arange(tiles * merge.TILE)[None] % 7])
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


def with_products(bin_, rng, *, num_rows=None):
    """Return matrices whose product has rows of as many products as a bin takes at most, of few, and of none."""
    teams = max(1, spgemm_rows.MIN_BLOCK // bin_.lanes)
    num_rows = num_rows or teams + 3
    inner = 3 * bin_.lanes + 5
    a = sp.random_array((num_rows, inner), density=0.1, rng=rng, format="lil")
    b = sp.random_array((inner, 90), density=min(0.6, bin_.items / 45), rng=rng, format="csr")
    lengths = np.diff(b.indptr)
    for row in range(num_rows):
        allowed = 0 if row == 1 else bin_.most if row % 3 == 0 else bin_.most // 3
        order = rng.permutation(inner)
        a[row] = 0
        a[row, np.sort(order[np.cumsum(lengths[order]) <= allowed])] = rng.normal()
    a = sp.csr_array(a)
    a.data = rng.normal(size=a.nnz)
    assert 0.9 * bin_.most <= (abs(a).sign() @ lengths).max() <= bin_.most
    return a, b


def run_bin(session, bin_, a, b, spread=1, index=np.int32):
    """Multiply by the kernel of one bin, rows last to first; compare what is in the staging area.

    Columns of B are `spread` times as far right.
    """
    expected = a @ b
    expected.sort_indices()
    expected.indices *= spread
    b_parts = parts(b, index)
    b_parts[1] *= spread
    dtype, num_rows = expected.dtype, a.shape[0]
    lengths = np.diff(expected.indptr)
    rows = np.flatnonzero(a.indptr[1:] > a.indptr[:-1])[::-1].astype(index)
    begins = expected.indptr[:-1] + 3 * np.arange(num_rows)
    counts = np.zeros(num_rows, index)
    room = expected.nnz + 3 * num_rows
    indices, data = np.full(room, -1, index), np.full(room, -1, dtype)
    types = types_of(a.dtype, b.dtype, index=from_dtype(np.dtype(index)))
    num_columns = b.shape[1] * spread
    spec = spgemm_rows.spec_of(bin_, types, num_columns)
    arguments = (*outputs(3), *inputs(8))
    plan = Plan((spgemm_rows.launch(rows.size, spec, num_columns, arguments),))
    given = (begins.astype(np.int64), *parts(a, index), *b_parts, rows)
    session.run(plan, [counts, indices, data], [session.pointer(x) for x in given])
    assert_same(counts, lengths.astype(index))
    places = np.arange(expected.nnz) + 3 * np.repeat(np.arange(num_rows), lengths)
    assert_same(indices[places], expected.indices.astype(index))
    assert_same(data[places], expected.data)
    assert (np.delete(data, places) == -1).all()
    return spec


@pytest.mark.parametrize("number", range(len(spgemm_rows.BINS)))
def test_rows_of_products(session, number):
    """Sums have SciPy's bits: they are in the order of the inner index."""
    bin_ = spgemm_rows.BINS[number]
    a, b = with_products(bin_, np.random.default_rng(number), num_rows=2 if bin_.lanes > 128 else None)
    spec = run_bin(session, bin_, a, b)
    assert spec.is_packed == (bin_.lanes <= 32)


@pytest.mark.parametrize(
    ("bin_", "dtypes", "index"),
    [
        (spgemm_rows.Bin(8, 2), ("f4", "f8"), np.int64),
        (spgemm_rows.Bin(16, 4), ("c8", "c8"), np.int32),
        (spgemm_rows.Bin(32, 8), ("i8", "i8"), np.int64),
        (spgemm_rows.Bin(128, 4), ("f8", "c16"), np.int32),
    ],
    ids=str,
)
def test_rows_of_products_with_many_columns(session, bin_, dtypes, index):
    """Columns so far right that they do not share a word with the numbers of products, and take all digits."""
    a, b = with_products(bin_, np.random.default_rng(7))
    a, b = (abs(8 * a) + a.sign() ** 2).astype(dtypes[0]), (8 * b + b.sign()).astype(dtypes[1])
    spec = run_bin(session, bin_, a, b, 0x1555555, index)
    assert not spec.is_packed


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
    indptr, indices, data = np.zeros(num_rows + 1, np.int32), np.zeros(expected.nnz, np.int32), np.zeros(expected.nnz)
    monkeypatch.setattr(spgemm_merge, "STAGED", (staged,) if staged else ())
    plan = spgemm_merge.multiply(num_rows, min(expected.nnz, staged * num_rows // 2), types, longest)
    given = (np.cumsum(counts, dtype=np.int32), *a_parts, *b_parts)
    session.run(plan, [indptr, indices, data], [session.pointer(x) for x in given])
    assert_same(indptr, expected.indptr.astype(np.int32))
    assert_same(indices, expected.indices.astype(np.int32))
    assert_same(data, expected.data)
    if longest > 1 and staged:
        assert (expected.indptr[128] > staged * 128) & (np.diff(expected.indptr)[256:].sum() < staged * 128)


def test_census_and_move(session):
    """Rows are listed by bins, the longest first, with places for what they may have; results come together."""
    a, b = KINDS["power-law"], KINDS["random"][:, :40]
    num_rows, num_columns, limits = a.shape[0], b.shape[1], (4, 8, 32)
    lengths = np.diff(b.indptr)[a.indices]
    through = np.cumsum(lengths)
    found = np.zeros(a.nnz, np.int32)
    session.run(
        Plan((spgemm.lengths(a.nnz, i32, (*outputs(1), *inputs(2))),)),
        [found],
        [session.pointer(x) for x in (parts(a)[1], parts(b)[0])],
    )
    assert_same(found, lengths.astype(np.int32))
    products = abs(a).sign().astype(int) @ np.diff(b.indptr)
    census = spgemm.Census(len(limits))
    words, places = np.zeros(census.num_words, np.int64), np.full(num_rows, -1)
    given = (parts(a)[0], through)
    plan = Plan((spgemm.count(num_rows, num_columns, i32, limits, (*outputs(2), *inputs(2))),))
    session.run(plan, [places, words], [session.pointer(x) for x in given])
    is_long = products > limits[-1]
    assert_same(places, np.where(is_long, 0, np.minimum(products, num_columns)))
    counted = np.histogram(products, (1, 5, 9, 33, 1 << 40))[0]
    assert counted.all()
    placed = np.cumsum(places)
    listed, begins = np.full(num_rows, -1, np.int32), np.full(num_rows, -1)
    plan = Plan((spgemm.list_rows(num_rows, num_columns, i32, limits, (*outputs(3), *inputs(3))),))
    session.run(plan, [listed, begins, words], [session.pointer(x) for x in (*given, placed)])
    long_products = products[is_long].sum()
    assert words[: census.num_read].tolist() == [*counted, long_products, products.max(), placed[-1], products.sum()]
    ends = np.cumsum(counted[::-1])
    for kind, (first, last) in enumerate(zip(ends - counted[::-1], ends, strict=True)):
        low, high = ((0, *limits)[3 - kind], (*limits, 1 << 40)[3 - kind])
        assert_same(np.sort(listed[first:last]), np.flatnonzero((products > low) & (products <= high)).astype(np.int32))
    is_staged = (products > 0) & ~is_long
    assert_same(begins[is_staged], (placed - places)[is_staged])
    order = np.argsort(begins[is_long])
    assert_same(begins[is_long][order], np.cumsum(products[is_long][order]) - products[is_long][order])


def test_moved_together(session):
    """Rows that begin anywhere, some of no elements, one of several tiles."""
    rng = np.random.default_rng(3)
    lengths = np.where(rng.random(700) < 0.5, 0, rng.integers(0, 9, 700))
    lengths[[99, 400]] = 2 * spgemm.TILE + 7, 0
    begins = (np.cumsum(lengths + 5) - lengths)[::-1].copy()
    begins = np.where(lengths[::-1] == lengths, begins, np.cumsum(lengths + 5) - lengths)
    through = np.cumsum(lengths).astype(np.int32)
    total = int(through[-1])
    staged = (
        rng.integers(0, 1 << 30, begins.max() + lengths.max() + 9).astype(np.int32),
        rng.normal(size=begins.max() + lengths.max() + 9),
    )
    scratch = Scratch()
    tiles = scratch.take(4 * (spgemm.num_tiles(total) + 1))
    through_, *given = inputs(4)
    plan = scratch.plan(spgemm.move(700, total, i32, f64, tiles, through_, (*outputs(3), *given)))
    indptr, indices, data = np.zeros(701, np.int32), np.zeros(total, np.int32), np.zeros(total)
    session.run(plan, [indptr, indices, data], [session.pointer(x) for x in (through, begins, *staged)])
    assert_same(indptr, np.append(0, through).astype(np.int32))
    places = np.arange(total) + np.repeat(begins - (through - lengths), lengths)
    assert_same(indices, staged[0][places])
    assert_same(data, staged[1][places])


@pytest.mark.parametrize("num_rows", [1, 700])
def test_totals(session, num_rows):
    """Elements, and the most of a row, by blocks that have several rows each, and one that has one."""
    counts = np.random.default_rng(4).integers(0, 99, num_rows).astype(np.int32)
    words = np.zeros(2, np.int64)
    plan = Plan((spgemm.totals(num_rows, i32, (*outputs(1), *inputs(1))),))
    session.run(plan, [words], [session.pointer(counts)])
    assert words.tolist() == [counts.sum(), counts.max()]
