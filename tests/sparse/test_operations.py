"""Sparse arrays on the device against SciPy's, on ten kinds of matrices: values, formats, and what fell back."""

import importlib
import operator

import numpy as np
import pytest
import scipy.sparse

import oxinp
from oxinp import sparse
from oxinp.sparse import _compressed, _products, _rows
from tests.comparator import assert_same
from tests.sparse.matrices import kinds

KINDS = kinds(80)
pytestmark = pytest.mark.usefixtures("on_device")


def ours(matrix):
    """Return a matrix of SciPy's as ours, of arrays on the device."""
    made = getattr(sparse, type(matrix).__name__)
    if matrix.format == "coo":
        return made((oxinp.array(matrix.data), tuple(map(oxinp.array, matrix.coords))), shape=matrix.shape)
    arrays = [oxinp.array(part) for part in (matrix.data, matrix.indices, matrix.indptr)]
    return made(tuple(arrays), shape=matrix.shape)


def fallen(stats):
    """Return what has fallen back, but for arrays that a test has compared."""
    return {name: count for name, count in stats().fallbacks.items() if name != "__array__"}


def check(result, expected, stats, *, fallbacks=False):
    """Compare values, dtype, format, number of elements."""
    if not fallbacks:
        assert not fallen(stats)
    if scipy.sparse.issparse(expected):
        assert (result.format, result.dtype, result.shape) == (expected.format, expected.dtype, expected.shape)
        assert result.nnz == expected.nnz
        made = result.get()
        made.has_canonical_format = False
        made.sum_duplicates()
        assert made.nnz == expected.nnz
        assert_same(made.toarray(), expected.toarray())
    else:
        assert_same(result, expected)


def other(matrix):
    """Return another matrix of the same shape, with some of its elements."""
    made = matrix[np.roll(np.arange(matrix.shape[0]), 1)]
    return scipy.sparse.csr_array((made + matrix.multiply(matrix > 20)).tocsr())


PRODUCTS = {
    "matvec": "a @ x",
    "transposed": "a.T @ (a @ x)",
    "row vector": "(a @ x) @ a",
    "matmat": "a @ x.reshape(-1, 1)",
    "product": "a @ b.T",
    "product of columns": "a.tocsc() @ b.tocsc().T",
    "sum": "a + b",
    "difference": "a - b",
    "difference of columns": "a.tocsc() - b",
    "to columns": "a.tocsc()",
    "there and back": "a.tocsc().tocoo().tocsr()",
}
# All names on these kinds, the first ones on all.
USUAL, FEW = ("power-law", "dense-row"), ("matvec", "product")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=() if kind in USUAL or name in FEW else pytest.mark.slow)
        for kind in KINDS
        for name in PRODUCTS
    ],
)
def test_kinds(kind, name, stats):
    matrix = KINDS[kind]
    second = other(matrix)
    if "product" in name:  # the emulator is slow on many products
        matrix, second = matrix[-12:], second[-12:]
    x = np.arange(matrix.shape[1]) % 5 - 1.0
    result = eval(PRODUCTS[name], {"a": ours(matrix), "b": ours(second), "x": oxinp.array(x)})  # noqa: S307 - our own
    check(result, eval(PRODUCTS[name], {"a": matrix, "b": second, "x": x}), stats)  # noqa: S307


UNARY = {
    "sin": lambda a: a.sin(),
    "abs": lambda a: abs(-a),
    "scaled": lambda a: 2 * a * 0.5,
    "divided": lambda a: a / 4,
    "power": lambda a: a.power(2),
    "squared difference": lambda a: (a - a) @ a.T,
    "compared": lambda a: a != a.sqrt(),
    "less": lambda a: a < a.multiply(a),
    "less than a number": lambda a: (-a) < -3,
    "at least a number": lambda a: a >= 5,
    "equal to a number": lambda a: a == 5,
    "not zero": lambda a: a != 0,
    "raised": lambda a: a**2,
    "maximum": lambda a: a.maximum(a.tanh()),
    "minimum": lambda a: a.minimum(a * 0.5),
    "astype": lambda a: a.astype(np.float32),
    "conj": lambda a: a.conj(),
    "dense": lambda a: a.toarray(),
    "dense in columns": lambda a: a.tocsc().toarray(order="F"),
    "diagonal": lambda a: a.diagonal(2),
    "rows": lambda a: a[7:60],
    "columns": lambda a: a.tocsc()[:, 7:60],
    "some rows": lambda a: a[np.array([3, 3, -1, 0])],
    "masked rows": lambda a: a[np.arange(a.shape[0]) % 3 == 0],
    "sums": lambda a: (a.sum(), a.sum(axis=0), a.sum(axis=1)),
    "trace": lambda a: a.trace(),
    "count": lambda a: a.count_nonzero(),
    "copy": lambda a: a.copy(),
    "mean": lambda a: (a.mean(), a.mean(axis=0), a.mean(axis=-1)),
    "extrema": lambda a: (a.max(), (-a).max(), a.min(), a.max(explicit=True)),
    "columns of rows": lambda a: a[:, 7:60],
    "rows of columns": lambda a: a.tocsc()[5:30],
    "rows by steps": lambda a: a[60:7:-3],
    "some columns": lambda a: a[:, np.array([3, -1, 3, 0])],
    "masked columns": lambda a: a[:, np.arange(a.shape[1]) % 3 == 0],
    "a part": lambda a: a[7:60, 3:40],
    "a part of columns": lambda a: a.tocsc()[np.array([9, 2, 9]), 3:40:2],
    "tril": lambda a: scipy.sparse.tril(a) if scipy.sparse.issparse(a) else sparse.tril(a),
}


@pytest.mark.parametrize("name", UNARY)
def test_methods(name, stats):
    matrix = KINDS["power-law"]
    result, expected = UNARY[name](ours(matrix)), UNARY[name](matrix)
    if isinstance(expected, scipy.sparse.sparray) and expected.dtype.kind == "f" and name in ("sin", "maximum"):
        assert not fallen(stats)
        assert np.allclose(result.get().toarray(), expected.toarray(), rtol=1e-15)
    elif name == "mean":  # of all elements SciPy adds rows first
        np.testing.assert_allclose(result[0], expected[0], rtol=1e-13)
        for ours_, theirs in zip(result[1:], expected[1:], strict=True):
            np.testing.assert_array_equal(np.asarray(ours_), theirs)
        assert not fallen(stats)
    elif name == "squared difference":  # a matrix without elements is SciPy's work
        check(result, expected, stats, fallbacks=True)
    else:
        check(result, expected, stats)


@pytest.mark.parametrize("format_", ["csr", "csc"])
def test_duplicates_are_added_in_their_order(format_, stats):
    rng = np.random.default_rng(0)  # rows are so short that SciPy's sort is stable, too
    shape = (400, 3) if format_ == "csr" else (3, 400)
    row, column = (rng.integers(0, extent, 2000) for extent in shape)
    data = rng.normal(size=2000)
    expected = scipy.sparse.coo_array((data, (row, column)), shape=shape).asformat(format_)
    made = sparse.coo_array((oxinp.array(data), (oxinp.array(row), oxinp.array(column))), shape=shape)
    result = made.asformat(format_)
    assert result.has_canonical_format
    assert result.indices.dtype == result.indptr.dtype == expected.indices.dtype
    assert_same(result.indptr, expected.indptr)
    assert_same(result.indices, expected.indices)
    assert_same(result.data, expected.data)
    made.sum_duplicates()
    assert made.nnz == expected.nnz
    assert not fallen(stats)


def test_compressed_arrays_out_of_order(stats):
    """Duplicates and unsorted indices, which SciPy takes as they are."""
    indptr, indices = np.array([0, 3, 3, 6]), np.array([2, 0, 2, 1, 1, 0])
    data = np.array([1.0, 2, 4, 8, -8, 16])
    expected = scipy.sparse.csr_array((data, indices, indptr), shape=(3, 3))
    made = ours(expected)
    assert not made.has_canonical_format
    assert not made.has_sorted_indices
    assert_same(made @ oxinp.arange(3.0), expected @ np.arange(3.0))
    assert_same((made + made).toarray(), (expected + expected).toarray())
    assert_same((made @ made).toarray(), (expected @ expected).toarray())
    made.sort_indices()
    assert made.has_sorted_indices
    assert made.nnz == 6
    made.sum_duplicates()
    assert made.nnz == 4
    made.eliminate_zeros()
    assert made.nnz == 3
    assert not fallen(stats)


@pytest.mark.parametrize("kind", ["laplacian-2d", "power-law"])
def test_products_are_known_to_be_canonical(kind, stats):
    """What a product says of its indices is what a look at them finds, until somebody writes to them."""
    matrix = KINDS[kind]
    made = ours(matrix) @ ours(matrix)
    expected = matrix @ matrix
    (_, known), (rows, _) = made._known["shape"], sparse._compressed.major_rows(made)
    assert known == sparse._rows.survey(*rows[:2], rows.num_columns)
    assert known.longest == np.diff(expected.indptr).max()
    check(made @ ours(matrix), expected @ matrix, stats)
    made.indices[0] = matrix.shape[1]
    with pytest.raises(ValueError, match="indices must be"):
        made @ oxinp.ones(matrix.shape[1])


@pytest.mark.parametrize(
    ("dtype", "spread", "is_dense"), [("f8", 1, True), ("f8", 1, False), ("f8", 400, False), ("c16", 1 << 25, False)]
)
def test_products_with_rows_too_long_to_be_sorted_by_a_block(dtype, spread, is_dense, stats, monkeypatch):
    """Two rows of more than 8192 products between short ones, in dense rows, or with keys of 32 or of 64 bits."""
    launched = []
    family = importlib.import_module("oxinp._kernels.sparse.spgemm_dense")
    monkeypatch.setattr(family, "launch", lambda *given, launch=family.launch: launched.append(given) or launch(*given))
    monkeypatch.setattr(family, "MIN_AT_ONCE", 160 if is_dense else 161)
    rng = np.random.default_rng((6, is_dense))  # plans are kept by what the matrices look like
    a = scipy.sparse.random_array((9, 130), density=0.1, rng=rng, format="lil")
    a[3], a[7], a[8] = rng.normal(size=130), rng.normal(size=130), 0
    a = scipy.sparse.csr_array(a).astype(dtype)
    b = scipy.sparse.csr_array(rng.normal(size=(130, 80)).astype(dtype))
    expected = a @ b
    wide = scipy.sparse.csr_array((b.data, b.indices.astype(np.int64) * spread, b.indptr), shape=(130, 80 * spread))
    made = (ours(a) @ ours(wide)).get()
    assert not fallen(stats)
    assert_same(made.indptr, expected.indptr.astype(made.indptr.dtype))
    expected.sort_indices()
    assert_same(made.indices, (expected.indices.astype(np.int64) * spread).astype(made.indices.dtype))
    assert_same(made.data, expected.data)
    assert bool(launched) == is_dense


def test_products_of_some_rows_at_a_time(monkeypatch, stats):
    """Where there is no room for all products; parts may have no elements, or none of the result."""
    monkeypatch.setattr(sparse._products, "MAX_PRODUCTS", 400)
    matrix = KINDS["power-law"][:, :40][:40].copy()
    matrix.data[matrix.indptr[20] :] = 0
    matrix.eliminate_zeros()
    check(ours(matrix) @ ours(matrix), matrix @ matrix, stats)


@pytest.mark.parametrize(
    ("dtype", "index"), [("f4", np.int64), ("c8", np.int32), ("c16", np.int64), ("i4", np.int32), ("i8", np.int64)]
)
def test_dtypes(dtype, index, stats):
    matrix = KINDS["banded"].astype(dtype)
    made = sparse.csr_array(
        tuple(oxinp.array(part) for part in (matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index))),
        shape=matrix.shape,
    )
    x = np.arange(matrix.shape[1]).astype(dtype)
    check(made @ oxinp.array(x), matrix @ x, stats)
    check(made + made, matrix + matrix, stats)
    check(made[:20] @ made, matrix[:20] @ matrix, stats)


@pytest.mark.parametrize("shape", [(80, 80), (80,), (1, 80), (80, 1)], ids=str)
def test_multiplied_by_dense(shape, stats):
    matrix, dense = KINDS["random"], np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    check(ours(matrix).multiply(oxinp.array(dense)), matrix.multiply(dense), stats)


def test_elements_and_single_rows():
    matrix = KINDS["power-law"]
    made = ours(matrix)
    row, column = (int(index[9]) for index in matrix.nonzero())
    assert made[row, column] == matrix[row, column]
    assert made.tocsc()[row - 80, column] == matrix[row, column]
    assert_same(made[row].toarray(), matrix[row].toarray())
    assert made[row].shape == matrix[row].shape
    assert_same(made[-1, 3:50].toarray(), matrix[-1, 3:50].toarray())


BAD = {
    "column": lambda m, a: m.csr_array((a([1.0, 2]), a([0, 5]), a([0, 1, 2])), shape=(2, 2)) @ a([1.0, 2]),
    "negative": lambda m, a: m.csr_array((a([1.0, 2]), a([0, -1]), a([0, 1, 2])), shape=(2, 2)) @ a([1.0, 2]),
    "pointers": lambda m, a: m.csr_array((a([1.0, 2]), a([0, 1]), a([0, 2, 1])), shape=(2, 2)) @ a([1.0, 2]),
    "row of COO": lambda m, a: m.coo_array((a([1.0, 2]), (a([0, 7]), a([0, 1]))), shape=(2, 2)).tocsr(),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_indices_reach_no_kernel(name):
    with pytest.raises(ValueError, match=r"indices must be|indptr|exceeds|index pointer"):
        BAD[name](sparse, oxinp.array)


@pytest.mark.parametrize(
    "code",
    ["A @ x[:3]", "x[:3] @ A", "A @ A[:3]", "A + A[:3]", "A < A[:3]", "A[400]", "A[[1, 400]]", "A[[-81, 1]]", "A + 1"],
)
def test_errors_are_scipys(code):
    matrix = KINDS["random"]
    with pytest.raises((ValueError, IndexError, NotImplementedError)) as theirs:
        eval(code, {"A": matrix, "x": np.ones(80)})  # noqa: S307 - our own code
    with pytest.raises(theirs.type) as found:
        eval(code, {"A": ours(matrix), "x": oxinp.ones(80)})  # noqa: S307
    if theirs.type is IndexError:
        assert str(found.value) == str(theirs.value)


def test_transposes_are_converted_once(stats):
    matrix = KINDS["random"]
    made, x = ours(matrix), oxinp.ones(80)
    counts = []
    for _ in range(3):
        before = stats().launches
        assert_same(made.T @ x, matrix.T @ np.ones(80))
        counts.append(stats().launches - before)
    assert counts[0] > counts[1] == counts[2] == 1


def write_some(matrix):
    matrix.data[np.array([1, 5])] = 7


def test_what_is_kept_follows_writes(stats):
    """Conversions are kept with a matrix, and made again once a part of it is written to."""
    matrix = KINDS["random"].copy()
    made, x = ours(matrix), np.arange(80.0)
    for change in (lambda m: operator.setitem(m.data, slice(3, 9), 5), lambda m: operator.imul(m.data, 2), write_some):
        assert_same(made.T @ oxinp.array(x), matrix.T @ x)
        change(made)
        change(matrix)
        assert_same(made.T @ oxinp.array(x), matrix.T @ x)
    assert not fallen(stats)


@pytest.fixture
def narrowed(monkeypatch):
    """Whether indices were made narrow, call by call, of matrices however small."""
    found, narrow = [], _rows.narrow

    def followed(rows, longest):
        made = narrow(rows, longest)
        found.append(made.indices.dtype == np.int16)
        return made

    monkeypatch.setattr(_rows, "MIN_NARROW", 1)
    monkeypatch.setattr(_rows, "narrow", followed)
    return found


@pytest.mark.parametrize("format_", ["csr", "csc"])
@pytest.mark.parametrize("kind", ["banded", "laplacian-3d"])
def test_products_narrow_indices(narrowed, kind, format_, stats):
    """From the third on, of the matrix and of its transpose each."""
    matrix, x = KINDS[kind].asformat(format_), np.arange(80.0)[: KINDS[kind].shape[1]]
    made = ours(matrix)
    for _ in range(4):
        assert_same(made @ oxinp.array(x), matrix @ x)
        assert_same(made.T @ oxinp.array(x), matrix.T @ x)
    assert narrowed == [True] * 2
    assert not fallen(stats)


def test_narrow_indices_follow_writes(narrowed):
    """To the indices of a matrix, to its elements, and to where its rows begin."""
    matrix = scipy.sparse.csr_array(KINDS["banded"].copy())
    made, x = ours(matrix), np.arange(80.0)
    for change in (
        lambda m: operator.setitem(m.indices, slice(0, 2), [5, 3]),
        lambda m: operator.setitem(m.data, slice(3, 9), 5),
        lambda m: operator.setitem(m.indptr, 1, 1),
    ):
        for _ in range(4):
            assert_same(made @ oxinp.array(x), matrix @ x)
        change(made)
        change(matrix)
    assert_same(made @ oxinp.array(x), matrix @ x)
    assert narrowed == [True] * 3


def test_products_without_memory_for_narrow_indices(monkeypatch):
    def exhaust(*_):
        raise MemoryError

    monkeypatch.setattr(_rows, "narrow", exhaust)
    matrix, x = KINDS["laplacian-2d"], np.ones(KINDS["laplacian-2d"].shape[1])
    made = ours(matrix)
    for _ in range(4):
        assert_same(made @ oxinp.array(x), matrix @ x)
    assert _compressed.narrow_rows(made)[0].indices.dtype == matrix.indices.dtype


@pytest.mark.parametrize(
    "matrix",
    [
        scipy.sparse.csr_array((np.ones(3), [0, 32767, 32768], [0, 1, 3]), shape=(2, 40000)),
        scipy.sparse.csr_array(np.vstack([np.ones((1, 600)), np.eye(600)])),
    ],
    ids=["too far away", "dealt out by elements"],
)
def test_indices_that_stay_wide(narrowed, matrix):
    made, x = ours(matrix), np.arange(float(matrix.shape[1]))
    for _ in range(4):
        assert_same(made @ oxinp.array(x), matrix @ x)
    assert narrowed == [False]


@pytest.mark.parametrize("k", [0, 3, -9])
def test_diagonals_of_coordinates(k, stats):
    matrix = scipy.sparse.coo_array(KINDS["banded"])
    made = ours(matrix)
    for values in (2.5, np.arange(60.0)):
        matrix.setdiag(values, k)
        made.setdiag(oxinp.array(values) if isinstance(values, np.ndarray) else values, k)
        check(made, matrix, stats)


def test_fallbacks_are_counted_and_written_back(stats):
    matrix = KINDS["random"].copy()
    made = ours(matrix)
    row, column = (int(index[0]) for index in matrix.nonzero())
    made[row, column] = matrix[row, column] = 9
    for each in (made, matrix):
        each.setdiag(2.0)
    check(made, matrix, stats, fallbacks=True)
    assert stats().fallbacks["scipy.sparse.csr_array.setdiag"] == 1


@pytest.mark.parametrize(("dtype", "depth"), [("f8", 5), ("c8", 70)])
def test_sampled_products(dtype, depth, stats):
    rng = np.random.default_rng(8)
    matrix = KINDS["empty-rows"].astype(dtype)
    x, y = rng.normal(size=(matrix.shape[0], depth)).astype(dtype), rng.normal(size=(depth, matrix.shape[1]))
    found = sparse.sddmm(ours(matrix).tocsc(), oxinp.array(x), oxinp.array(y.astype(dtype))).get()
    expected = scipy.sparse.csr_array(matrix.multiply(x @ y))
    tolerance = (1e-14 if dtype == "f8" else 1e-5) * abs(expected).max()
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=0, atol=tolerance)
    assert_same(found.indices, matrix.indices)
    with pytest.raises(ValueError, match="shapes"):
        sparse.sddmm(ours(matrix), oxinp.array(x), oxinp.array(x))
    assert not fallen(stats)


@pytest.mark.parametrize("format_", ["coo", "csr"])
def test_products_of_vectors_and_single_rows(format_):
    numbers = np.arange(1.0, 6.0, dtype="f4")
    make, twin = (getattr(module, f"{format_}_array") for module in (sparse, scipy.sparse))
    for given, beside in ((numbers, numbers), (numbers, numbers[:, None]), (numbers[None], numbers)):
        result, expected = make(oxinp.asarray(given)) @ oxinp.asarray(beside), twin(given) @ beside
        assert (np.shape(result), type(expected) is np.ndarray) == (np.shape(expected), type(result) is oxinp.ndarray)
        np.testing.assert_array_equal(np.asarray(result), expected)
    result, expected = oxinp.asarray(numbers) @ make(oxinp.asarray(numbers)), numbers @ twin(numbers)
    np.testing.assert_array_equal(np.asarray(result), expected)


def test_uneven_rows_and_their_transpose(stats):
    """Elements are dealt out evenly, and a matrix and its transpose, which share what is known of them, differ."""
    matrix = scipy.sparse.csr_array(scipy.sparse.random_array((600, 700), density=0.004, rng=3))
    matrix = scipy.sparse.vstack([matrix[:300], np.ones((1, 700)), matrix[300:]], format="csr")
    a, x, y = ours(matrix), np.arange(700) % 7 - 3.0, np.arange(601) % 5 - 2.0
    for _ in range(2):
        for found, expected in ((a @ oxinp.array(x), matrix @ x), (a.T @ oxinp.array(y), matrix.T @ y)):
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-12)
    assert_same(np.asarray(oxinp.array(y) @ a), np.asarray(a.T @ oxinp.array(y)))
    assert not fallen(stats)


@pytest.mark.parametrize("code", ["A[rows]", "A + B", "A.multiply(B)", "A @ B"])
def test_indices_grow_with_the_elements(code, monkeypatch, stats):
    """Results of more elements than int32 can count have indices of int64; here that is taken to be 400."""
    monkeypatch.setattr(_rows, "MAX_INT32", 400)
    monkeypatch.setattr(_products, "MAX_INT32", 400)
    monkeypatch.setattr(_products, "MAX_PRODUCTS", 600)
    matrix, second = KINDS["power-law"], other(KINDS["power-law"])
    rows = np.arange(160) % 80
    result = eval(code, {"A": ours(matrix), "B": ours(second), "rows": oxinp.array(rows)})  # noqa: S307 - our own code
    expected = eval(code, {"A": matrix, "B": second, "rows": rows})  # noqa: S307
    assert result.indices.dtype == result.indptr.dtype == np.int64
    assert_same(result.toarray(), expected.toarray())
    assert not fallen(stats)
