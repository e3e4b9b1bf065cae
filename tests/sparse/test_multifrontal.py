"""Tests of nested dissection and of factors by fronts; sizes at which these are for the device are lowered."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg as theirs

import oxinp
from oxinp._core.lazy.expr import Unsupported
from oxinp.sparse import linalg
from oxinp.sparse.linalg import _dissection, _multifrontal
from tests.sparse.test_operations import fallen, ours

pytestmark = pytest.mark.usefixtures("on_device")

LINE = scipy.sparse.diags_array([-np.ones(6), 2 * np.ones(7), -np.ones(6)], offsets=[-1, 0, 1])
GRID = scipy.sparse.csc_array(
    scipy.sparse.kron(LINE, scipy.sparse.eye_array(7)) + scipy.sparse.kron(scipy.sparse.eye_array(7), LINE)
)


@pytest.fixture
def fronts_are_for_all(monkeypatch):
    for name in ("MIN_ROWS", "MIN_WORK", "NARROWEST"):
        monkeypatch.setattr(_multifrontal, name, 2)
    monkeypatch.setattr(_dissection, "LEAF", 20)


def pattern_of(matrix):
    """Return a symmetric pattern without its diagonal."""
    pattern = scipy.sparse.csr_array(matrix + matrix.T)
    pattern.setdiag(0)
    pattern.eliminate_zeros()
    return pattern


@pytest.mark.parametrize("kind", ["grid", "forest", "random", "star"])
def test_fronts_are_joined_to_those_above_alone(kind, monkeypatch):
    monkeypatch.setattr(_dissection, "LEAF", 4)
    n = 300
    matrix = {
        "grid": lambda: (
            scipy.sparse.kron(LINE, scipy.sparse.eye_array(40))
            + scipy.sparse.kron(scipy.sparse.eye_array(7), scipy.sparse.eye_array(40, k=1))
        ),
        "forest": lambda: scipy.linalg.block_diag(*[np.ones((k, k)) for k in (1, 2, 9, 30)]),
        "random": lambda: scipy.sparse.random_array((n, n), density=2 / n, rng=1),
        "star": lambda: scipy.sparse.csr_array((np.ones(n), (np.zeros(n, int), np.arange(n))), shape=(n, n)),
    }[kind]()
    pattern = pattern_of(scipy.sparse.csr_array(matrix))
    front_of, parents, starts = fronts = _dissection.dissect(pattern.indptr, pattern.indices)
    assert (np.bincount(front_of, minlength=parents.size) > 0).all()
    assert (parents < np.repeat(starts[:-1], np.diff(starts))).all()
    ancestors = np.eye(parents.size, dtype=bool)
    for front, parent in enumerate(parents):
        if parent >= 0:
            ancestors[front] |= ancestors[parent]
    rows, columns = front_of[np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))], front_of[pattern.indices]
    assert (ancestors[rows, columns] | ancestors[columns, rows]).all()
    # What elimination fills in, front by front, is what boundaries say.
    edges = _dissection.boundaries(fronts, pattern.indptr, pattern.indices)
    filled = pattern.toarray() != 0
    for front in range(parents.size)[::-1]:
        own = front_of == front
        joined = filled[own].any(0) & (front_of < front) & ~own
        joined &= ancestors[front][front_of]
        keys = edges.keys[edges.starts[front] : edges.starts[front + 1]] % pattern.shape[0]
        np.testing.assert_array_equal(np.flatnonzero(joined), keys)
        filled[np.ix_(joined, joined)] = True


@pytest.mark.usefixtures("fronts_are_for_all")
@pytest.mark.parametrize("kind", ["rows", "definite"])
def test_factors_by_fronts(kind, stats, monkeypatch):
    if kind == "rows":  # which dominate, not columns; unsymmetric
        scale = np.linspace(1, 9, 49)
        matrix = scipy.sparse.csc_array(
            scipy.sparse.diags_array(scale) @ (GRID + 0.5 * scipy.sparse.triu(GRID, 1) * 0.1)
        )
        matrix.setdiag(matrix.diagonal() * 1.2)
    else:
        phases = scipy.sparse.diags_array(np.exp(1j * np.arange(49)))
        matrix = phases @ (GRID @ GRID) @ phases.conj()
        matrix = scipy.sparse.csc_array((matrix + matrix.conj().T) / 2)
    given = ours(matrix)
    factors, expected = linalg.splu(given), theirs.splu(matrix)
    assert factors.shape == (49, 49)
    rng = np.random.default_rng(3)
    for trans, columns in (("N", 2), ("T", 1), ("H", 1)):
        right = rng.normal(size=(49, columns)) * (1 if kind == "rows" else 1j)
        right = right if columns > 1 else right[:, 0]
        found = factors.solve(oxinp.array(right), trans)
        np.testing.assert_allclose(np.asarray(found), expected.solve(right, trans), rtol=1e-9, atol=1e-11)
    assert not {name for name in fallen(stats) if "sparse" in name}
    monkeypatch.setattr(_multifrontal, "dissect", None)  # the pattern is known
    given.data[...] = given.data * 2
    right = rng.normal(size=49)
    solved = linalg.spsolve(given, oxinp.array(right))
    np.testing.assert_allclose(np.asarray(solved) * 2, expected.solve(right.astype(matrix.dtype)), rtol=1e-9)
    found = factors.solve(oxinp.array(right))  # of the matrix as it was
    np.testing.assert_allclose(np.asarray(found), expected.solve(right.astype(matrix.dtype)), rtol=1e-9)
    assert not {name for name in fallen(stats) if "sparse" in name}
    assert factors.nnz == expected.nnz  # SciPy's factors, counted
    assert fallen(stats)["scipy.sparse.linalg.splu"] == 1
    for right, error in ((np.ones(5), ValueError), (np.ones(49, complex), TypeError)):
        if kind == "rows" or error is ValueError:
            with pytest.raises(error):
                factors.solve(oxinp.array(right))


@pytest.mark.usefixtures("fronts_are_for_all")
@pytest.mark.parametrize("kind", ["indefinite", "unsymmetric", "long", "little"])
def test_other_matrices_are_scipys(kind, stats, monkeypatch):
    matrix = {
        "indefinite": lambda: GRID - 3 * scipy.sparse.eye_array(49),
        "unsymmetric": lambda: GRID + scipy.sparse.random_array((49, 49), density=0.1, rng=1),
        "long": lambda: scipy.sparse.diags_array([-np.ones(48), 2 * np.ones(49), -np.ones(48)], offsets=[-1, 0, 1]),
        "little": lambda: GRID,
    }[kind]()
    monkeypatch.setattr(_multifrontal, "MIN_WORK", 1e9 if kind == "little" else 0)
    matrix = scipy.sparse.csc_array(matrix)
    found = linalg.spsolve(ours(matrix), oxinp.ones(49))
    np.testing.assert_allclose(np.asarray(found), theirs.spsolve(matrix, np.ones(49)), rtol=1e-9)
    assert fallen(stats)["scipy.sparse.linalg.spsolve"] == 1


@pytest.mark.usefixtures("fronts_are_for_all")
def test_singular_matrices():
    neumann = scipy.sparse.csc_array(GRID - scipy.sparse.diags_array(np.asarray(GRID.sum(0))))
    singular = neumann.copy()
    singular.resize(50, 50)  # one more row and column, of zeros
    with pytest.raises(RuntimeError, match="exactly singular"):
        linalg.splu(ours(singular))


def test_thin_graphs_are_refused(monkeypatch):
    monkeypatch.setattr(_dissection, "MAX_LEVELS", 50)
    pattern = pattern_of(scipy.sparse.csr_array(scipy.sparse.eye_array(400, k=1)))
    with pytest.raises(Unsupported, match="long and thin"):
        _dissection.dissect(pattern.indptr, pattern.indices)
    with pytest.raises(Unsupported, match="cut in halves"):
        _dissection.dissect(pattern_of(GRID).indptr, pattern_of(GRID).indices, narrowest=60)
