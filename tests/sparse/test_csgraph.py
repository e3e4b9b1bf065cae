"""Graphs on the device against SciPy: labels, orders and distances are the same, to the bit."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csgraph as theirs

from oxinp.sparse import _rows, csgraph
from tests.comparator import assert_same
from tests.sparse.matrices import kinds
from tests.sparse.test_operations import fallen, ours

pytestmark = pytest.mark.usefixtures("on_device")
KINDS = {name: matrix for name, matrix in kinds(120).items() if matrix.shape[0] == matrix.shape[1]}
KINDS["forest"] = scipy.sparse.random_array((150, 150), density=0.004, rng=3, format="csr")
USUAL = ("forest", "path", "power-law", "laplacian-2d")
KINDS["path"] = scipy.sparse.csr_array((np.ones(49), (np.arange(49), np.arange(1, 50))), shape=(50, 50))

EVERY_KIND = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in USUAL else pytest.mark.slow) for kind in KINDS]
)


@EVERY_KIND
def test_connected_components(kind, stats):
    matrix = KINDS[kind]
    for directed in (False, True):
        found, expected = (m.connected_components(a, directed) for m, a in ((csgraph, ours(matrix)), (theirs, matrix)))
        assert found[0] == expected[0]
        assert_same(found[1], expected[1])
    assert not fallen(stats)


@EVERY_KIND
def test_breadth_first_order(kind, stats):
    matrix = KINDS[kind]
    found, expected = (m.breadth_first_order(a, 7) for m, a in ((csgraph, ours(matrix)), (theirs, matrix)))
    assert_same(found, expected)
    assert not fallen(stats)


@EVERY_KIND
@pytest.mark.parametrize("name", ["dijkstra", "bellman_ford", "shortest_path"])
def test_distances(kind, name, stats):
    matrix = abs(KINDS[kind]) * 0.37
    options = {"dijkstra": {}, "bellman_ford": {"unweighted": True}, "shortest_path": {"directed": False}}[name]
    for indices in (3, [0, 40]):
        found = getattr(csgraph, name)(ours(matrix), indices=indices, **options)
        assert_same(found, getattr(theirs, name)(matrix, indices=indices, **options))
    assert not fallen(stats)


def test_laplacian(stats):
    matrix = KINDS["random"]
    assert_same(csgraph.laplacian(ours(matrix)).toarray(), theirs.laplacian(matrix).toarray())
    assert not fallen(stats)


def distinct(kind):
    """A matrix of a kind with weights that are all different."""
    matrix = KINDS[kind].copy()
    matrix.data = np.random.default_rng(1).permutation(matrix.nnz) + 1.5
    return matrix


@EVERY_KIND
def test_strong_components(kind, stats):
    """The components are SciPy's; they are numbered by their first vertices."""
    matrix = KINDS[kind]
    count, labels = csgraph.connected_components(ours(matrix), connection="strong")
    expected, its_labels = theirs.connected_components(matrix, connection="strong")
    assert count == expected == len({*zip(np.asarray(labels).tolist(), its_labels.tolist(), strict=True)})
    _, first = np.unique(np.asarray(labels), return_index=True)
    assert (np.diff(first) > 0).all()
    assert not fallen(stats)


def test_long_paths_are_left_to_scipy(monkeypatch, stats):
    monkeypatch.setattr(csgraph._components, "MAX_ROUNDS", 10)
    found = csgraph.connected_components(ours(KINDS["path"]), connection="strong")
    assert_same(found[1], theirs.connected_components(KINDS["path"], connection="strong")[1])
    assert list(fallen(stats)) == ["scipy.sparse.csgraph.connected_components"]


@EVERY_KIND
def test_spanning_trees(kind, stats):
    matrix = distinct(kind)
    found, expected = (m.minimum_spanning_tree(a) for m, a in ((csgraph, ours(matrix)), (theirs, matrix)))
    assert type(found).__name__ == type(expected).__name__
    assert_same(found.toarray(), expected.toarray())
    assert not fallen(stats)


def test_spanning_trees_of_equal_weights(stats):
    matrix = KINDS["laplacian-2d"].astype(np.int32)
    matrix.data[::3] = 0  # edges that are there, and in no tree that SciPy returns
    found, expected = (m.minimum_spanning_tree(a) for m, a in ((csgraph, ours(matrix)), (theirs, matrix)))
    assert found.sum() == expected.sum()
    assert found.dtype == expected.dtype
    assert not fallen(stats)


@EVERY_KIND
def test_predecessors(kind, stats):
    matrix = distinct(kind)
    for options in ({"indices": [3, 40]}, {"indices": 5, "directed": False}):
        found = csgraph.dijkstra(ours(matrix), return_predecessors=True, **options)
        assert_same(found, theirs.dijkstra(matrix, return_predecessors=True, **options))
    assert not fallen(stats)


@pytest.mark.parametrize("kind", ["random", "forest"])
def test_breadth_first_trees(kind, stats):
    of_integers = scipy.sparse.csr_matrix(KINDS[kind]).astype(np.int32).tocsc()
    for matrix in (KINDS[kind], of_integers, KINDS[kind].tocoo()):
        found, expected = (m.breadth_first_tree(a, 7) for m, a in ((csgraph, ours(matrix)), (theirs, matrix)))
        assert (type(found).__name__, found.dtype, found.nnz) == (type(expected).__name__, expected.dtype, expected.nnz)
        assert_same(found.toarray(), expected.toarray())
    assert not fallen(stats)


def test_what_scipy_does(stats):
    matrix = KINDS["random"]
    tree = csgraph.depth_first_tree(ours(matrix), 3)
    assert_same(tree.toarray(), theirs.depth_first_tree(matrix, 3).toarray())
    empty = matrix.copy()
    empty.data[:] = 0  # predecessors along edges without a length depend on the order of a heap
    found = csgraph.dijkstra(ours(empty), indices=3, return_predecessors=True)
    assert_same(found, theirs.dijkstra(empty, indices=3, return_predecessors=True))
    assert set(fallen(stats)) == {f"scipy.sparse.csgraph.{name}" for name in ("depth_first_tree", "dijkstra")}
    with pytest.raises(ValueError, match="shape"):
        csgraph.connected_components(ours(matrix[:50]))


def greedy(matrix, order):
    """Return colors that vertices take one after the other, in an order."""
    pattern = scipy.sparse.csr_array(abs(matrix) + abs(matrix.T))
    colors = np.full(matrix.shape[0], -1, np.int32)
    for vertex in order:
        around = pattern.indices[pattern.indptr[vertex] : pattern.indptr[vertex + 1]]
        taken = set(colors[around[around != vertex]].tolist())
        colors[vertex] = next(color for color in range(len(taken) + 1) if color not in taken)
    return colors


@pytest.mark.parametrize("kind", ["laplacian-2d", "power-law", "forest", "clique"])
def test_coloring(kind, stats):
    """Colors are those of the greedy method in the order of priorities; a clique has more than one look sees."""
    matrix = KINDS[kind] if kind != "clique" else scipy.sparse.csr_array(np.triu(np.ones((70, 70))))
    priorities = np.asarray(_rows.scrambled(matrix.shape[0]))
    assert_same(csgraph.greedy_coloring(ours(matrix)), greedy(matrix, np.argsort(priorities)[::-1]))
    assert not fallen(stats)


def test_what_cannot_be_colored():
    assert_same(csgraph.greedy_coloring(scipy.sparse.csr_array((3, 3))), np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="as many rows"):
        csgraph.greedy_coloring(scipy.sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(TypeError, match="sparse"):
        csgraph.greedy_coloring(np.eye(3))
