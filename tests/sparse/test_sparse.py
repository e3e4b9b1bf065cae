"""Sparse arrays as SciPy's users know them: classes, aliases, operators, functions, pickles."""

import inspect
import pickle
from contextlib import nullcontext as nothing

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import oxinp
from oxinp import _runtime, sparse
from oxinp._core.host.sharing import share
from oxinp.sparse import _executed
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("offload_threshold")
DENSE = np.array([[4.0, 0, 1, 0], [0, 3, 0, 0], [1, 0, 2, 5], [0, 0, 0, 6]])


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format_", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
def test_classes_have_what_scipys_have(format_, kind):
    name = f"{format_}_{kind}"
    ours, theirs = getattr(sparse, name), getattr(scipy.sparse, name)
    made, expected = ours(DENSE), theirs(DENSE)
    assert {x for x in dir(theirs) if not x.startswith("_")} <= set(dir(ours)) | set(dir(made))
    assert isinstance(made, ours)
    assert isinstance(expected, ours)
    assert isinstance(made, sparse.sparray if kind == "array" else sparse.spmatrix)
    assert repr(made) == repr(expected)
    assert (made.shape, made.dtype, made.format, made.nnz) == (expected.shape, expected.dtype, format_, expected.nnz)
    assert type(made.get()) is theirs
    assert_same(made.get().toarray(), DENSE)
    assert sparse.issparse(made)
    assert sparse.isspmatrix(made) == (kind == "matrix")
    assert ours[np.float64, tuple[int]].__origin__ is ours


@pytest.mark.parametrize("name", ["csr_array", "csc_array", "coo_array", "bsr_array", "dia_array", "lil_array"])
def test_they_are_made_of_our_arrays(name):
    made = getattr(sparse, name)(oxinp.array(DENSE))
    assert_same(made.toarray(), DENSE)
    parts = sparse.csr_array((oxinp.array([1.0, 2.0]), (oxinp.array([0, 1]), oxinp.array([1, 3]))), shape=(2, 4))
    assert_same(parts.toarray(), np.array([[0, 1.0, 0, 0], [0, 0, 0, 2]]))


def test_views_and_formats():
    a, expected = sparse.csr_array(DENSE), scipy.sparse.csr_array(DENSE)
    assert_same(a.T.toarray(), DENSE.T)
    assert a.T.format == "csc"
    a.T.data[:] = expected.data[:] = 2
    assert_same(a.toarray(), expected.toarray())
    for format_ in ("csc", "coo", "bsr", "dia", "lil", "dok"):
        assert_same(a.asformat(format_).tocsr().toarray(), expected.toarray())
        assert_same(a.asformat(format_).real.imag.toarray(), np.zeros((4, 4)))
    with pytest.raises(ValueError, match="Format no is unknown"):
        a.asformat("no")


def test_parts_are_our_arrays_and_alias():
    data, indices = oxinp.array([1.0, 2.0]), oxinp.array([0, 1], oxinp.int32)
    made = sparse.csr_array((data, indices, oxinp.array([0, 1, 2], oxinp.int32)))
    assert type(made.data) is oxinp.ndarray
    data[:] = 7
    assert_same(made.toarray(), np.diag([7.0, 7.0]))
    assert_same(made @ oxinp.arange(2.0), np.array([0.0, 7]))
    made.indices[0] = 1
    assert_same(made.toarray(), np.array([[0, 7.0], [0, 7]]))
    made.data[1:] = 3
    assert_same(made @ oxinp.arange(2.0), np.array([7.0, 3]))
    made.indices[0] = 2
    with pytest.raises(ValueError, match="indices must be < 2") if oxinp.config.offload_threshold == 0 else nothing():
        made @ oxinp.arange(2.0)


@pytest.mark.parametrize("code", ["A @ x", "x @ A", "A @ X", "X @ A", "A * x", "x * A", "A.dot(x)", "A.multiply(X)"])
@pytest.mark.parametrize("name", ["csr_array", "csc_array", "coo_array"])
def test_products_with_our_arrays(code, name):
    results = []
    for xp in (oxinp, np):
        names = {"A": getattr(sparse, name)(DENSE), "x": xp.arange(4.0), "X": xp.arange(16.0).reshape(4, 4)}
        given = eval(code, names)  # noqa: S307 - our own code
        results.append(given.toarray() if sparse.issparse(given) else given)
    assert_same(*results)


@pytest.mark.parametrize("code", ["X + A", "A + X", "X - A", "A - X", "X < A", "A >= X", "X != A"])
def test_operators_with_dense_arrays(code):
    ours = eval(code, {"A": sparse.csr_array(DENSE), "X": oxinp.ones((4, 4))})  # noqa: S307 - our own code
    assert type(ours) is oxinp.ndarray
    assert_same(ours, eval(code, {"A": scipy.sparse.csr_array(DENSE), "X": np.ones((4, 4))}))  # noqa: S307


@pytest.mark.parametrize("operator", ["/", "//"])
def test_other_operators_are_refused(operator):
    names = {"A": sparse.csr_array(DENSE), "X": oxinp.ones((4, 4))}
    with pytest.raises(TypeError, match=r"not supported|unsupported operand"):
        eval(f"X {operator} A", names)  # noqa: S307 - our own code


def test_functions_give_our_arrays():
    a = sparse.csr_array(DENSE)
    b = oxinp.arange(1.0, 5.0)
    solved = sparse.linalg.spsolve(a.tocsc(), b)
    assert type(solved) is oxinp.ndarray
    assert_same(solved, scipy.sparse.linalg.spsolve(a.tocsc().get(), np.arange(1.0, 5.0)))
    rows, columns, values = sparse.find(a)
    assert type(values) is oxinp.ndarray
    assert_same([rows, columns, values], [np.array(part) for part in scipy.sparse.find(a.get())])
    distances, before = sparse.csgraph.shortest_path(oxinp.array(DENSE), return_predecessors=True)
    expected = scipy.sparse.csgraph.shortest_path(DENSE, return_predecessors=True)
    assert_same((distances, before), expected)
    assert type(before) is oxinp.ndarray


def test_functions_give_our_sparse_arrays():
    for made in (
        sparse.eye_array(3),
        sparse.kron(sparse.coo_array(DENSE), sparse.coo_array(DENSE)),
        sparse.tril(sparse.coo_array(oxinp.eye(3))),
    ):
        assert type(made) is getattr(sparse, type(made).__name__)
    diagonals = sparse.diags_array(oxinp.arange(3.0))
    assert_same(diagonals.toarray(), np.diag(np.arange(3.0)))
    assert_same(pickle.loads(pickle.dumps(diagonals)).toarray(), np.diag(np.arange(3.0)))  # noqa: S301 - our own bytes


def test_solvers_call_back_with_our_arrays():
    seen = []
    b = oxinp.arange(1.0, 5.0)
    spd = DENSE @ DENSE.T
    operator = sparse.linalg.LinearOperator((4, 4), matvec=lambda x: (seen.append(type(x)), spd @ x)[1])
    found, status = sparse.linalg.cg(operator, b, rtol=1e-12)
    assert status == 0
    assert type(found) is oxinp.ndarray
    assert set(seen) == {oxinp.ndarray}
    assert np.allclose(spd @ np.asarray(found), np.arange(1.0, 5.0))


def test_what_others_write_is_seen(config):
    config.offload_threshold = 0
    matrix = sparse.coo_array((np.arange(1.0, 6.0), (np.arange(5), np.arange(5))), shape=(5, 5))
    x = oxinp.ones(5)
    assert_same(matrix @ x, np.arange(1.0, 6.0))
    buffer = share(matrix.data)
    oxinp.cuda.synchronize()
    _runtime.current().upload(buffer.ptr + matrix.data._layout.offset, np.arange(10.0, 15.0).view("u1"))
    assert_same(matrix @ x, np.arange(10.0, 15.0))


def test_a_module_that_is_not_executed_to_its_end_is_tried_again(monkeypatch):
    name = "scipy.sparse.csgraph._laplacian"
    monkeypatch.delitem(_executed._executed, name, raising=False)
    source = inspect.getsource
    monkeypatch.setattr(_executed.inspect, "getsource", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _executed.executed(name)
    monkeypatch.setattr(_executed.inspect, "getsource", source)
    assert callable(_executed.executed(name).laplacian)


def test_axes_are_permuted_in_a_copy():
    """SciPy's function may change the shape of what it is given."""
    dense = np.where(np.arange(24) % 5, 0.0, np.arange(24) - 7).reshape(2, 3, 4)
    given = sparse.coo_array(oxinp.array(dense))
    for axes in (None, (1, -1, 0), (0, 1, 2)):
        expected = scipy.sparse.permute_dims(scipy.sparse.coo_array(dense), axes, copy=True)
        assert_same(sparse.permute_dims(given, axes).toarray(), expected.toarray())
    assert given.shape == (2, 3, 4)
    with pytest.raises(ValueError, match="duplicate value in axis"):
        sparse.permute_dims(given, (0, 0, 1))


@pytest.mark.skipif(not hasattr(scipy.sparse.linalg, "spbandwidth"), reason="SciPy before 1.15")
@pytest.mark.filterwarnings("ignore:.*needs sparse:scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("format_", ["csr", "csc", "coo", "dia", "lil", "dok", "bsr"])
def test_where_elements_are(format_):
    for dense in (DENSE, np.tril(DENSE), np.triu(DENSE, 1), np.diag(np.arange(4.0))):
        made, theirs = sparse.csr_array(oxinp.array(dense)).asformat(format_), scipy.sparse.csr_array(dense)
        assert sparse.linalg.spbandwidth(made) == scipy.sparse.linalg.spbandwidth(theirs.asformat(format_))
        expected = scipy.sparse.linalg.is_sptriangular(theirs.asformat(format_))
        assert tuple(map(bool, sparse.linalg.is_sptriangular(made))) == tuple(map(bool, expected))
    with pytest.raises(ValueError, match="zero-size array"):
        sparse.linalg.spbandwidth(sparse.csr_array((4, 4)))


@pytest.mark.parametrize(
    "code",
    [
        "S.coo_array(X)",
        "S.coo_array(X) + S.coo_array(X)",
        "S.coo_array(X) - 2 * S.coo_array(X)",
        "S.permute_dims(S.coo_array(X), (1, 0, 2))",
        "S.coo_array(X).reshape(4, 6)",
        "S.coo_array(X).sum(axis=1)",
        "abs(S.coo_array(X))[1]",
        "S.coo_array((X[0, 0], (I, I, I)), shape=(4, 4, 4))",
    ],
)
def test_coordinates_of_more_dimensions(code, config):
    config.offload_threshold = 0
    dense = np.where(np.arange(24) % 5, 0.0, np.arange(24) - 7).reshape(2, 3, 4)
    found, expected = (
        eval(code, {"S": s, "X": xp.array(dense), "I": xp.arange(4)})  # noqa: S307 - our own code
        for s, xp in ((sparse, oxinp), (scipy.sparse, np))
    )
    found, expected = (each.toarray() if hasattr(each, "toarray") else each for each in (found, expected))
    assert_same(found, expected)
