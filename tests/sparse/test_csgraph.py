"""Graphs on the device against SciPy: labels, orders and distances are the same, to the bit."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csgraph as theirs

from oxinp.sparse import csgraph
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


def test_what_scipy_does(stats):
    matrix = KINDS["random"]
    found, expected = (
        m.connected_components(a, connection="strong") for m, a in ((csgraph, ours(matrix)), (theirs, matrix))
    )
    assert found[0] == expected[0]
    assert_same(found[1], expected[1])
    tree = csgraph.minimum_spanning_tree(ours(matrix))
    assert_same(tree.toarray(), theirs.minimum_spanning_tree(matrix).toarray())
    assert set(fallen(stats)) >= {
        f"scipy.sparse.csgraph.{name}" for name in ("connected_components", "minimum_spanning_tree")
    }
    with pytest.raises(ValueError, match="shape"):
        csgraph.connected_components(ours(matrix[:50]))
