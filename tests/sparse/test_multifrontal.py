"""Tests of nested dissection and of factors by fronts; sizes at which these are for the device are lowered."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg as theirs

import oxinp
from oxinp._core.lazy.expr import Unsupported
from oxinp.sparse import linalg
from oxinp.sparse.linalg import _dissection, _elimination, _multifrontal
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


def dumbbell():
    """Two grids at the ends of a line, with a clique in the middle."""
    ends = scipy.sparse.block_diag([GRID, scipy.sparse.csr_array(np.ones((20, 20))), GRID], format="lil")
    ends[48, 49] = ends[68, 69] = 1
    return ends


def test_parts_that_coordinates_cut_badly_get_their_own(monkeypatch):
    """The leaves of a star, for example, lie all equally far from everywhere: they are fronts of their own."""
    monkeypatch.setattr(_dissection, "LEAF", 4)
    made, landmarks = [], _dissection._landmarks
    monkeypatch.setattr(_dissection, "_landmarks", lambda *args: made.append(args) or landmarks(*args))
    hub = scipy.sparse.csr_array((np.ones(50), (np.zeros(50, int), np.arange(50))), shape=(50, 50))
    pattern = pattern_of(hub)
    front_of, parents, _ = _dissection.dissect(pattern.indptr, pattern.indices)
    assert len(made) == 2
    assert (np.bincount(front_of) == 1).all()
    assert front_of[0] == 0
    assert (parents[1:] == 0).all()


def test_cuts_of_grids_are_short():
    """Lines across, of parts that are about square."""
    side = 200
    line = scipy.sparse.eye_array(side, k=1)
    unit = scipy.sparse.eye_array(side)
    pattern = pattern_of(scipy.sparse.csr_array(scipy.sparse.kron(line, unit) + scipy.sparse.kron(unit, line)))
    fronts = _dissection.dissect(pattern.indptr, pattern.indices)
    edges = _dissection.boundaries(fronts, pattern.indptr, pattern.indices)
    sizes = np.bincount(fronts.front_of)
    assert sizes[0] == sizes.max() == side
    assert _elimination.entries(fronts, edges)[0] < 165 * side**2


def test_groups_are_merged_where_that_is_cheaper():
    sizes, widths, counts = np.array([4, 8, 500]), np.array([8, 4, 900]), np.array([1000, 30, 3])
    assert _elimination._merged(sizes, widths, counts).tolist() == [0, 0, 1]
    sizes, widths, starts = np.array([3, 4, 62, 61]), np.array([0, 9, 33, 70]), np.array([0, 1, 4])
    group_of, *padded = _elimination._grouped(sizes, widths, starts)
    assert group_of.tolist() == [0, 1, 1, 1]
    assert [each.tolist() for each in padded] == [[4, 64, 64, 64], [0, 72, 72, 72]]


@pytest.mark.parametrize("kind", ["grid", "forest", "random", "star", "dumbbell"])
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
        "dumbbell": dumbbell,
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
        if kind == "grid":
            np.testing.assert_array_equal(np.flatnonzero(joined), keys)
        assert np.isin(np.flatnonzero(joined), keys).all()
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
    monkeypatch.setattr(_dissection, "MAX_LEVELS", 0)
    monkeypatch.setattr(_dissection, "MAX_VALUES", 0.1)
    monkeypatch.setattr(_dissection, "LEAF", 9)
    monkeypatch.setattr(_dissection._Search, "distances", lambda *_: np.arange(400, dtype=np.int32))
    with pytest.raises(Unsupported, match="parts that are long and thin"):
        _dissection.dissect(pattern.indptr, pattern.indices)
    monkeypatch.undo()
    with pytest.raises(Unsupported, match="cut in halves"):
        _dissection.dissect(pattern_of(GRID).indptr, pattern_of(GRID).indices, narrowest=60)
