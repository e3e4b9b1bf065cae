"""Preconditioners on the device: what they are inverses of, and what they do to the steps of solvers."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as theirs
from numpy.linalg import LinAlgError

import oxinp
from oxinp.sparse import linalg
from oxinp.sparse._compressed import canonical_rows
from oxinp.sparse.linalg._multigrid import aggregate
from tests.sparse.test_operations import fallen, ours

pytestmark = pytest.mark.usefixtures("on_device")


def grid(side):
    """The 5-point Laplacian."""
    line = scipy.sparse.diags_array([-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1])
    unit = scipy.sparse.eye_array(side)
    return scipy.sparse.csr_array(scipy.sparse.kron(unit, line) + scipy.sparse.kron(line, unit))


GRID = grid(20)
SKEW = scipy.sparse.csr_array(GRID + scipy.sparse.diags_array(0.4 * np.ones(399), offsets=1, shape=(400, 400)))
PIECES = scipy.sparse.csr_array(scipy.sparse.kron(scipy.sparse.eye_array(30), grid(3)))
"""More rows than a block of threads has, in few levels, for which the emulator waits."""
LINKED = scipy.sparse.csr_array(PIECES + scipy.sparse.diags_array(0.4 * np.ones(135), offsets=135, shape=(270, 270)))
RIGHT = np.random.default_rng(0).normal(size=2000)


def check_gain(method, matrix, preconditioner, count):
    """A method converges within a number of steps with a preconditioner, and does not without."""
    right = oxinp.array(RIGHT[: matrix.shape[0]])
    options = {"rtol": 1e-8, "maxiter": count}
    assert getattr(linalg, method)(ours(matrix), right, **options)[1] == count
    found, status = getattr(linalg, method)(ours(matrix), right, M=preconditioner, **options)
    assert status == 0
    np.testing.assert_allclose(np.asarray(found), theirs.spsolve(matrix.tocsc(), np.asarray(right)), atol=1e-5)


def in_pattern(product, matrix):
    """Elements of a product at the places of a matrix' elements."""
    return product.multiply(matrix != 0).toarray()


def test_ilu0(stats):
    factors = linalg.ilu0(ours(LINKED))
    lower, upper = factors.L.get(), factors.U.get()
    np.testing.assert_allclose(in_pattern(lower @ upper, LINKED), LINKED.toarray(), atol=1e-13)
    inverse = np.linalg.inv((lower @ upper).toarray())
    np.testing.assert_allclose(np.asarray(factors @ oxinp.array(RIGHT[:270])), inverse @ RIGHT[:270], atol=1e-10)
    np.testing.assert_allclose(np.asarray(factors.H @ oxinp.array(RIGHT[:270])), inverse.T @ RIGHT[:270], atol=1e-10)
    several = np.random.default_rng(1).normal(size=(270, 3))
    np.testing.assert_allclose(np.asarray(factors @ oxinp.array(several)), inverse @ several, atol=1e-10)
    assert abs(np.linalg.eigvals(np.eye(270) - inverse @ LINKED)).max() < 0.95
    assert not {name for name in fallen(stats) if "sparse" in name}


@pytest.mark.slow
def test_bicgstab_with_ilu0():
    check_gain("bicgstab", SKEW, linalg.ilu0(ours(SKEW)), 18)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_ic0(dtype, stats):
    matrix = PIECES.astype(dtype)
    factors = linalg.ic0(ours(matrix).tocsc())
    lower = factors.L.get()
    assert factors.dtype == dtype
    tolerance = 1e-13 if dtype == "f8" else 1e-5
    np.testing.assert_allclose(in_pattern(lower @ lower.T, matrix), matrix.toarray(), atol=tolerance)
    np.testing.assert_allclose(factors.U.get().toarray(), lower.T.toarray())
    if dtype == "f8":
        check_gain("cg", grid(8), linalg.ic0(ours(grid(8))), 16)
    assert not {name for name in fallen(stats) if "sparse" in name}


@pytest.mark.parametrize(("side", "num_levels"), [(20, 2), pytest.param(44, 3, marks=pytest.mark.slow)])
def test_multigrid(side, num_levels, stats):
    """The number of steps does not grow with the size."""
    matrix = grid(side)
    cycle = linalg.smoothed_aggregation(ours(matrix), max_coarse=70)
    assert len(cycle.sizes) == num_levels
    check_gain("cg", matrix, cycle, 24)
    assert not {name for name in fallen(stats) if "sparse" in name}


def test_a_cycle_is_symmetric():
    cycle = linalg.smoothed_aggregation(ours(grid(7)), max_coarse=20, sweeps=2, theta=0.1)
    dense = np.asarray(cycle @ oxinp.eye(49))
    assert len(cycle.sizes) > 1
    np.testing.assert_allclose(dense, dense.T, atol=1e-12)
    assert np.linalg.eigvalsh(dense).min() > 0


def test_aggregates():
    """Every vertex is at most two edges from the root of its aggregate, and roots are at least three apart."""
    matrix = GRID
    labels, count = aggregate(canonical_rows(ours(matrix)))
    labels = np.asarray(labels)
    assert set(labels) == set(range(count))
    assert 400 / 25 < count < 400 / 4
    two = (matrix @ matrix).toarray() != 0
    for number in range(count):
        members = np.flatnonzero(labels == number)
        assert two[members][:, members].all(1).any()


def test_what_is_refused():
    with pytest.raises(ValueError, match="diagonal"):
        linalg.ilu0(scipy.sparse.csr_array(np.array([[1.0, 2], [3, 0]])))
    with pytest.raises(ValueError, match="square"):
        linalg.ic0(ours(GRID[:30]))
    with pytest.raises(TypeError, match="sparse"):
        linalg.ilu0(oxinp.eye(4))
    with pytest.raises(TypeError, match="real"):
        linalg.smoothed_aggregation(ours(GRID * 1j))
    with pytest.raises(LinAlgError, match="not positive"):
        linalg.ic0(ours(-GRID))
    with pytest.raises(LinAlgError, match="zero"):
        linalg.ilu0(scipy.sparse.csr_array(np.array([[1.0, 1], [1, 1]])))
