"""Rows of sparse matrices, and operators on two of them, kernel by kernel."""

import numpy as np
import pytest

from oxinp._kernels.plan import Plan, inputs, outputs
from oxinp._kernels.sparse import merge, rows, transpose, union
from oxinp._ptx.types import f64, from_dtype, i32, i64
from tests.comparator import assert_same
from tests.kernels.machine import TINY_DEVICE, Session, machine
from tests.kernels.sparse.test_products import parts
from tests.sparse.matrices import KINDS


@pytest.fixture
def session():
    session = Session(machine())
    yield session
    session.close()


@pytest.mark.parametrize("kind", ["laplacian-2d", "long-rows", "empty-rows"])
def test_row_numbers(session, kind):
    matrix = KINDS[kind]
    output = np.zeros(matrix.nnz, np.int32)
    session.run(rows.row_numbers(matrix.shape[0], matrix.nnz, i32), [output], [session.pointer(parts(matrix)[0])])
    assert_same(output, np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr)))


@pytest.mark.parametrize(
    ("shape", "index", "dtype"),
    [((2000, 300), "i4", "f8"), ((90, 70000), "i8", "f4"), ((2000, 3), "i4", "c8"), ((1, 1), "i8", "i4")],
    ids=str,
)
def test_transpose(session, shape, index, dtype):
    """With columns in no order, rows and columns without elements, and two tiles or more."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 7, shape[0]) * (rng.random(shape[0]) < 0.5)
    lengths[0] = 200 if shape[0] > 1 else 1
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    columns = (shape[1] * rng.random(indptr[-1]) ** 2).astype(index)
    data = rng.integers(-99, 99, columns.size).astype(dtype)
    made = [np.zeros(n, index) for n in (shape[1] + 1, columns.size)] + [np.zeros(columns.size, dtype)]
    plan = transpose.plan(*shape, columns.size, *map(from_dtype, (np.dtype(index), np.dtype(dtype))), TINY_DEVICE)
    session.run(plan, made, [session.pointer(x) for x in (indptr, columns, data)])
    order = np.argsort(columns, kind="stable")
    starts = np.searchsorted(columns[order], np.arange(shape[1] + 1)).astype(index)
    rows_of = np.repeat(np.arange(shape[0], dtype=index), lengths)
    assert_same(made, [starts, rows_of[order], data[order]])


@pytest.mark.parametrize("dtype", ["?", "f4", "c16"])
def test_pick(session, dtype):
    matrix = KINDS["power-law"].astype(dtype)
    which = np.concatenate([[5, 5, 299, 0, 17], np.arange(299, -1, -1)])
    expected = matrix[which]
    indices, data = np.zeros(expected.nnz, np.int64), np.zeros(expected.nnz, dtype)
    tiles = np.zeros(merge.num_tiles_of(which.size, expected.nnz) + 1, np.int64)
    arguments = (*outputs(3), *inputs(5))
    plan = Plan(rows.pick(which.size, expected.nnz, i64, from_dtype(np.dtype(dtype)), arguments))
    given = (expected.indptr.astype(np.int64), which, *parts(matrix, np.int64))
    session.run(plan, [indices, data, tiles], [session.pointer(x) for x in given])
    assert_same([indices, data], [expected.indices.astype(np.int64), expected.data])


@pytest.mark.parametrize("num_outside", [0, 3])
def test_lengths_of_what_is_picked(session, num_outside):
    """Numbers from the end, and some out of bounds, which pick nothing."""
    indptr = parts(KINDS["power-law"], np.int32)[0]
    which = np.random.default_rng(0).integers(-300, 300, 700)
    which[: num_outside * 200 : 200] = [300, -301, 1 << 40][:num_outside]
    is_inside = (which >= -300) & (which < 300)
    numbers = np.where(is_inside, which % 300, 0)
    lengths = np.where(is_inside, np.diff(indptr)[numbers], 0).astype(np.int32)
    made = [np.full(700, -1), np.full(700, -1, np.int32), np.zeros(2, np.int64)]
    plan = Plan((rows.pick_lengths(700, 300, i32, (*outputs(3), *inputs(2))),))
    session.run(plan, made, [session.pointer(x) for x in (which, indptr)])
    assert_same(made, [numbers, lengths, np.array([lengths.sum(), num_outside])])


def test_runs_are_added_in_their_order(session):
    rng = np.random.default_rng(0)
    elements, starts = rng.normal(size=5000), np.r_[0, np.sort(rng.choice(np.arange(1, 5000), 700, replace=False))]
    output = np.zeros(starts.size)
    session.run(rows.runs(starts.size, elements.size, f64), [output], [session.pointer(x) for x in (elements, starts)])
    expected = [np.cumsum(run)[-1] for run in np.split(elements, starts[1:])]
    assert_same(output, np.array(expected))


@pytest.mark.parametrize("offset", [0, 3, -40])
def test_diagonal(session, offset):
    matrix = KINDS["rectangular"]
    expected = matrix.diagonal(offset)
    output = np.zeros_like(expected)
    plan = rows.diagonal(expected.size, max(0, -offset), offset, i32, f64)
    session.run(plan, [output], [session.pointer(x) for x in parts(matrix)])
    assert_same(output, expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["rectangular", "dense-row"])
def test_dense(session, kind, order):
    matrix = KINDS[kind]
    output = np.full(matrix.shape if order == "C" else matrix.shape[::-1], np.nan)
    strides = (matrix.shape[1], 1) if order == "C" else (1, matrix.shape[0])
    plan = rows.dense(matrix.shape, strides, matrix.nnz, i32, f64)
    session.run(plan, [output], [session.pointer(x) for x in parts(matrix)])
    assert_same(output if order == "C" else output.T.copy(), matrix.toarray())


@pytest.mark.parametrize("name", list(union.OPERATORS))
@pytest.mark.parametrize("pair", [("laplacian-2d", 0), ("power-law", 1), ("dense-row", 3)], ids=str)
def test_union(session, name, pair):
    kind, shift = pair
    a = KINDS[kind]
    b = a[np.roll(np.arange(a.shape[0]), shift)]
    index_parts = [parts(a), parts(b)]
    counts = np.zeros(a.shape[0], np.int32)
    total = a.nnz + b.nnz
    given = [x for matrix in index_parts for x in matrix[:2]]
    session.run(union.count(a.shape[0], total, i32), [counts], [session.pointer(x) for x in given])
    pattern = a.sign() + b.sign()
    assert_same(counts, np.diff(pattern.indptr).astype(np.int32))
    is_comparison = name in union.COMPARISONS
    indices, data = np.zeros(pattern.nnz, np.int32), np.zeros(pattern.nnz, bool if is_comparison else float)
    spec = union.UnionSpec(i32, f64, f64, f64, name, 1)
    given = [pattern.indptr.astype(np.int32), *index_parts[0], *index_parts[1]]
    session.run(union.write(a.shape[0], total, spec), [indices, data], [session.pointer(x) for x in given])
    pattern.sort_indices()
    row = np.repeat(np.arange(a.shape[0]), np.diff(pattern.indptr))
    assert_same(indices, pattern.indices.astype(np.int32))
    assert_same(data, getattr(np, name)(a.toarray(), b.toarray())[row, indices])
