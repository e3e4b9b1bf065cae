"""Every format, operation and graph function that is promised, as SciPy has it, small, on the device."""

import io

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

import oxinp
from oxinp import sparse
from tests.comparator import assert_same
from tests.sparse.test_operations import fallen, ours
from tests.thinned import thinned

pytestmark = [
    pytest.mark.usefixtures("on_device"),
    pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning"),
]
RNG = np.random.default_rng(4)
DENSE = np.where(RNG.random((9, 8)) < 0.4, RNG.integers(-4, 5, (9, 8)), 0).astype(float)
SQUARE = DENSE[:8].copy()
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


def plain(value):
    """Return a result as NumPy's arrays, and numbers."""
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if hasattr(value, "toarray"):
        return plain(value.toarray())
    return np.asarray(value.get() if hasattr(value, "get") else value)


def compare(code, names, **tolerance):
    """Evaluate code with our modules and with SciPy's, and compare the results; return ours."""
    results = []
    for xp, package in ((oxinp, sparse), (np, scipy.sparse)):
        scope = {name: make(xp, package) for name, make in names.items()}
        results.append(eval(code, {"S": package, "L": package.linalg, "G": package.csgraph, "X": xp, **scope}))  # noqa: S307
    found, expected = map(plain, results)
    for one, other in zip(*((x if isinstance(x, list) else [x]) for x in (found, expected)), strict=True):
        if tolerance:
            np.testing.assert_allclose(one, other, **tolerance)
        else:
            assert_same(one, other)
    return results[0]


# -- arrays and matrices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("format_", "kind"), thinned(FORMATS, ["array", "matrix"]))
def test_constructions(format_, kind):
    """Of what is dense, of a shape, of objects in each format, ours and SciPy's, in another dtype, copied or not."""
    make = getattr(sparse, f"{format_}_{kind}")
    theirs = getattr(scipy.sparse, f"{format_}_{kind}")
    assert_same(make(oxinp.array(DENSE)).toarray(), DENSE)
    assert_same(make((3, 4)).toarray(), theirs((3, 4)).toarray())
    assert make((3, 4), dtype=np.float32).dtype == np.float32
    for other in FORMATS:
        given = scipy.sparse.coo_array(DENSE).asformat(other)
        for value in (given, sparse.coo_array(oxinp.array(DENSE)).asformat(other)):
            made = make(value)
            assert (made.format, made.dtype, made.shape) == (format_, given.dtype, given.shape)
            assert_same(made.toarray(), DENSE)
    assert_same(make(theirs(DENSE), dtype=np.complex64).toarray(), DENSE.astype(np.complex64))


@pytest.mark.parametrize("source", FORMATS)
def test_conversions(source):
    """From each format to each."""
    made, theirs = (package.csr_array(DENSE).asformat(source) for package in (sparse, scipy.sparse))
    for target in FORMATS:
        found, expected = made.asformat(target), theirs.asformat(target)
        assert type(found).__name__ == type(expected).__name__
        assert found.dtype == expected.dtype
        assert_same(found.toarray(), DENSE)


@pytest.mark.parametrize(("dtype", "index"), thinned("?bBhHiIlLfdFD", [np.int32, np.int64]))
def test_dtypes_and_indices(dtype, index):
    """Triples of every dtype, with duplicates, to rows and columns and back; products; sums."""
    row, column = (np.array(each, index) for each in ([0, 2, 0, 1, 2], [1, 0, 1, 3, 2]))
    data = np.array([1, 1, 0, 1, 1]).astype(dtype)
    made, expected = (
        package.coo_array((xp.array(data), (xp.array(row), xp.array(column))), shape=(3, 4))
        for package, xp in ((sparse, oxinp), (scipy.sparse, np))
    )
    for code in ("a.tocsr()", "a.tocsc()", "a.tocsr().tocsc().tocoo()", "a.tocsr().T", "a.tocsr() @ a.tocsr().T"):
        found, wanted = (eval(code, {"a": a}) for a in (made, expected))  # noqa: S307 - our own code
        assert (found.dtype, found.format) == (wanted.dtype, wanted.format)
        assert_same(found.toarray(), wanted.toarray())
    assert_same(made.tocsr().sum(axis=0), expected.tocsr().sum(axis=0))


def test_attributes_alias():
    """Writes to `data`, `indices`, `row`, `col` and `offsets` are seen, and what is put in their place is."""
    csr = sparse.csr_array((oxinp.array([1.0, 2, 3]), oxinp.array([0, 2, 1]), oxinp.array([0, 2, 3])), shape=(2, 3))
    csr.data[0] = 7
    csr.indices[1] = 1
    assert_same(csr @ oxinp.ones(3), np.array([9.0, 3.0]))
    csr.indptr = oxinp.array([0, 1, 3])
    assert_same(csr.toarray(), np.array([[7.0, 0, 0], [0, 5, 0]]))
    coo = csr.tocoo()
    coo.data[1] = 4
    coo.row[1] = 0
    coo.col[2] = 2
    assert_same(coo.toarray(), np.array([[7.0, 4, 0], [0, 0, 3]]))
    dia = sparse.dia_array((oxinp.array([[1.0, 2, 3]]), oxinp.array([0])), shape=(3, 3))
    dia.offsets[0] = 1
    assert_same(dia.toarray(), np.array([[0.0, 2, 0], [0, 0, 3], [0, 0, 0]]))


# -- operations --------------------------------------------------------------------------------------------------------

OPERATIONS = """
a @ v
w @ a
a.T @ w
a @ d.T
d.T @ a
a @ b.T
a.T @ b
a + b
a - b
a * 2.5
a / 2.0
a.multiply(b)
a.multiply(d)
a.maximum(b)
a.minimum(b)
a.maximum(0)
abs(a)
-a
a**2
a.power(3)
a.multiply(a).sqrt()
a.sin()
a.tanh()
a.expm1()
a.floor()
a.sign()
a == b
a != b
a < b
a > b
a <= b
a >= b
a > 1
a != 0
a.sum()
a.sum(axis=0)
a.sum(axis=1)
a.mean()
a.mean(axis=1)
a.max()
a.max(axis=0)
a.min(axis=1)
a.argmax()
a.argmin(axis=0)
a.nanmax()
a.trace()
a.diagonal()
a.diagonal(-2)
a.nonzero()
a.count_nonzero()
a.transpose()
a.reshape(8, 9)
a[3]
a[-1, 2]
a[2:7]
a[:, 1:5]
a[::2, ::-1]
a[[0, 5, 5]]
a[:, [3, 0]]
a[[0, 5], [1, 2]]
a[d.sum(axis=1) > 0]
a[a > 1]
S.kron(a, b)
S.kronsum(q, q)
S.hstack([a, b, a])
S.vstack([a, b])
S.block_array([[a, None], [None, b]])
S.bmat([[a, b]])
S.block_diag([a, b])
S.tril(a)
S.triu(a, 1)
S.eye_array(4, 5, k=1)
S.identity(3)
S.diags_array([v, v[1:]], offsets=[0, 1], shape=(8, 8))
S.spdiags(d[:2], [0, 2], 8, 8)
S.find(a)
S.linalg.norm(a)
S.linalg.norm(a, 1)
S.linalg.norm(a, axis=0)
S.permute_dims(a.tocoo(), (1, 0))
S.swapaxes(a.tocoo(), 0, 1)
S.expand_dims(a.tocoo(), axis=0)
q**2
S.linalg.matrix_power(q, 3)
""".strip().splitlines()

NAMES = {
    "a": lambda xp, package: package.csr_array(xp.array(DENSE)),
    "b": lambda xp, package: package.csr_array(xp.array(np.roll(DENSE, 1, 0))),
    "q": lambda xp, package: package.csr_array(xp.array(SQUARE)),
    "d": lambda xp, _: xp.array(DENSE),
    "v": lambda xp, _: xp.arange(8.0) - 3,
    "w": lambda xp, _: xp.arange(9.0) - 3,
}


# Which differ from one that stays in the function of one kernel alone.
LATER = {
    *("a - b", "a / 2.0", "a.minimum(b)", "-a", "a.tanh()", "a.expm1()", "a.floor()", "a.sign()", "a != b"),
    *("a > b", "a <= b", "a >= b", "a != 0"),
}


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=pytest.mark.slow if code in LATER else ()) for code in OPERATIONS]
)
def test_operations(code):
    names = dict(NAMES)
    if any(name in code for name in ("swapaxes", "expand_dims")) and not hasattr(scipy.sparse, "swapaxes"):
        pytest.skip("a newer function of SciPy's")
    compare(code, names, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("format_", ["csr", "csc", "coo"])
def test_functions_that_keep_zeros(format_, stats):
    names = (
        "arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh sqrt tan tanh trunc"
    )
    theirs = scipy.sparse.csr_array(abs(DENSE) * 0.2).asformat(format_)
    made = sparse.csr_array(oxinp.array(abs(DENSE) * 0.2)).asformat(format_)
    for name in names.split():
        found, expected = (getattr(a, name)() for a in (made, theirs))
        assert found.format == expected.format
        np.testing.assert_allclose(np.asarray(found.toarray()), expected.toarray(), rtol=1e-14)
    assert not {key for key in fallen(stats) if key.rpartition(".")[2] in names.split()}


WRITES = [
    "a[2, 3] = 5",
    "a[1] = v",
    "a[2:5, 1:3] = 7",
    "a[:, 2] = w.reshape(9, 1)",
    "a[[0, 3], [1, 1]] = 4",
    "a[d > 2] = -1",
    "a.setdiag(3)",
    "a.setdiag(v[:5], 2)",
]


@pytest.mark.parametrize(("statement", "format_"), thinned(WRITES, ["csr", "csc", "lil", "dok"]))
def test_writes(statement, format_):
    results = []
    for xp, package in ((oxinp, sparse), (np, scipy.sparse)):
        scope = {name: make(xp, package) for name, make in NAMES.items()}
        scope["a"] = scope["a"].asformat(format_)
        exec(statement, scope)  # noqa: S102 - our own code
        results.append(scope["a"].toarray())
    assert_same(*results)


def test_files_and_random_arrays():
    a = sparse.csr_array(oxinp.array(DENSE))
    for given, load in ((a, scipy.sparse.load_npz), (a.get(), sparse.load_npz)):
        file = io.BytesIO()
        (sparse if given is a else scipy.sparse).save_npz(file, given)
        file.seek(0)
        assert_same(load(file).toarray(), DENSE)
    found, expected = (
        package.random_array((20, 30), density=0.1, rng=np.random.default_rng(1)) for package in (sparse, scipy.sparse)
    )
    assert_same(found.toarray(), expected.toarray())


def test_sampled_products():
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 3)), rng.random((3, 8))
    made = sparse.sddmm(sparse.csr_array(oxinp.array(DENSE)), oxinp.array(x), oxinp.array(y))
    np.testing.assert_allclose(np.asarray(made.toarray()), DENSE * (x @ y), rtol=1e-13)


# -- graphs ------------------------------------------------------------------------------------------------------------

GRAPH = np.where(np.random.default_rng(8).random((12, 12)) < 0.25, np.arange(144.0).reshape(12, 12) % 37 + 1, 0)
np.fill_diagonal(GRAPH, 0)
GRAPHS = {
    "connected_components": "G.connected_components(g, directed=False)",
    "laplacian": "G.laplacian(g, normed=True)",
    "shortest_path": "G.shortest_path(g, indices=[0, 3])",
    "floyd_warshall": "G.floyd_warshall(g)",
    "dijkstra": "G.dijkstra(g, indices=2, return_predecessors=True)",
    "bellman_ford": "G.bellman_ford(g, indices=2)",
    "johnson": "G.johnson(g)",
    "yen": "G.yen(g, 0, 5, 3)",
    "breadth_first_order": "G.breadth_first_order(g, 1)",
    "depth_first_order": "G.depth_first_order(g, 1)",
    "breadth_first_tree": "G.breadth_first_tree(g, 1)",
    "depth_first_tree": "G.depth_first_tree(g, 1)",
    "minimum_spanning_tree": "G.minimum_spanning_tree(g)",
    "reverse_cuthill_mckee": "G.reverse_cuthill_mckee(g)",
    "maximum_flow": "G.maximum_flow(g.astype('i4'), 0, 5).flow_value",
    "maximum_bipartite_matching": "G.maximum_bipartite_matching(g)",
    "min_weight_full_bipartite_matching": "G.min_weight_full_bipartite_matching(g + S.eye_array(12, format='csr'))",
    "structural_rank": "G.structural_rank(g)",
    "construct_dist_matrix": "G.construct_dist_matrix(g, p)",
    "reconstruct_path": "G.reconstruct_path(g, p[0])",
    "csgraph_masked_from_dense": "G.csgraph_masked_from_dense(d).filled(0)",
    "csgraph_from_dense": "G.csgraph_from_dense(d)",
    "csgraph_from_masked": "G.csgraph_from_masked(m)",
    "csgraph_to_dense": "G.csgraph_to_dense(g)",
    "csgraph_to_masked": "G.csgraph_to_masked(g).filled(0)",
}
ON_DEVICE = {
    *("connected_components", "laplacian", "shortest_path", "dijkstra", "bellman_ford"),
    *("breadth_first_order", "breadth_first_tree", "minimum_spanning_tree"),
}
GRAPH_NAMES = {
    "g": lambda xp, package: package.csr_array(xp.array(GRAPH)),
    "d": lambda xp, _: xp.array(GRAPH),
    "p": lambda xp, _: xp.array(scipy.sparse.csgraph.shortest_path(GRAPH, return_predecessors=True)[1]),
    "m": lambda xp, _: xp.ma.masked_values(GRAPH, 0) if hasattr(xp, "ma") else np.ma.masked_values(GRAPH, 0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name, stats):
    """What has no kernels is SciPy's work, and counted."""
    compare(GRAPHS[name], GRAPH_NAMES, rtol=1e-13)
    counted = {key.rpartition(".")[2] for key in fallen(stats) if "csgraph" in key}
    assert counted == (set() if name in ON_DEVICE else {name})


def test_every_name_of_graphs_is_tried():
    named = {name for name in scipy.sparse.csgraph.__all__ if name != "NegativeCycleError"}
    assert {name for name in GRAPHS if not hasattr(scipy.sparse.csgraph, name)} == set()
    assert named - set(GRAPHS) == set()


def test_negative_cycles_are_scipys_error():
    graph = ours(scipy.sparse.csr_array(np.array([[0.0, -2, 0], [0, 0, 1], [-3, 0, 0]])))
    with pytest.raises(scipy.sparse.csgraph.NegativeCycleError):
        sparse.csgraph.bellman_ford(graph, indices=0)


# -- the same bits every time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "a @ x",
        "a.T @ x",
        "(a @ a.T).data",
        "(a + a.T).data",
        "S.linalg.cg(a @ a.T + 9 * S.eye_array(60, format='csr'), x)[0]",
        "S.linalg.gmres(a + 9 * S.eye_array(60, format='csr'), x, restart=6, maxiter=1)[0]",
        "S.csgraph.dijkstra(abs(a), indices=0)",
    ],
)
def test_results_have_the_same_bits_every_time(code):
    matrix = scipy.sparse.random_array((60, 60), density=0.1, rng=2, format="csr")
    x = np.random.default_rng(3).normal(size=60)
    results = [
        np.asarray(eval(code, {"S": sparse, "a": ours(matrix), "x": oxinp.array(x)}))  # noqa: S307 - our own code
        for _ in range(3)
    ]
    assert all(result.tobytes() == results[0].tobytes() for result in results)
