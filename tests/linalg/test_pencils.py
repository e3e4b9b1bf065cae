"""Generalised eigenvalues, and left vectors: SciPy's values, residuals no larger than LAPACK's, what is left to it."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(17)
A, B = RANDOM.standard_normal((2, 8, 8))
COMPLEX = A + 1j * RANDOM.standard_normal((8, 8))
DEFINITE = B @ B.T + np.eye(8)
SINGULAR = np.where(np.arange(8) < 2, 0.0, B)
ILL = B @ np.diag(np.logspace(0, -9, 8)) @ A
KINDS = {
    "real": (A, B),
    "complex": (COMPLEX, B),
    "real values": (A + A.T, DEFINITE),
    "singular": (A, SINGULAR),
    "both singular": (np.where(np.arange(8) == 5, 0.0, A), SINGULAR),
    "ill-conditioned": (A, ILL),
    "single": (A.astype("f4"), B.astype("f4")),
    "integers": ((A * 9).astype("i8"), (B * 9).astype("i4")),
    "huge and tiny": (A * 1e200, B * 1e-100),
    "identity": (COMPLEX, np.eye(8)),
}
QUICK = ("real", "complex", "singular")

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")
linalg = oxinp.scipy.linalg
COUNTED = {"scipy.linalg.eig: QR iterations"}


def matched(found, expected, scale=1.0):
    """The largest distance of eigenvalues to those that are next, as points of a sphere; each once."""
    left, worst = list(expected), 0.0
    for w in found:
        sizes = [chordal(w, x, scale) for x in left]
        best = int(np.argmin(sizes))
        worst = max(worst, sizes[best])
        left.pop(best)
    return worst


def chordal(x, y, scale):
    if np.isinf(x) or np.isinf(y):
        return 0.0 if np.isinf(x) and np.isinf(y) else 1 / np.hypot(1, scale * abs(y if np.isinf(x) else x))
    x, y = x * scale, y * scale
    return abs(x - y) / np.hypot(1, abs(x)) / np.hypot(1, abs(y))


def ratio(a, b, w, v):
    """Residuals over norms and the rounding unit; of infinite eigenvalues B v alone."""
    size_a, size_b = np.linalg.norm(a, 1), np.linalg.norm(b, 1)
    a, b = a / size_a, b / size_b
    is_infinite = np.isinf(w)
    w = np.where(is_infinite, 0, w) * (size_b / size_a)
    size = np.hypot(1, np.abs(w))
    alpha, beta = np.where(is_infinite, 1, w / size), np.where(is_infinite, 0, 1 / size)
    left = np.linalg.norm((a @ v) * beta - (b @ v) * alpha, axis=0)
    return left.max() / np.finfo(v.dtype).eps


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in QUICK else slow) for kind in KINDS])
def test_generalised_eigenvalues_and_vectors(kind, stats):
    a, b = KINDS[kind]
    w, left, right = linalg.eig(oxinp.asarray(a), oxinp.asarray(b), left=True)
    assert set(stats().fallbacks) == COUNTED
    w, left, right = map(np.asarray, (w, left, right))
    expected = scipy.linalg.eig(a, b, left=True)
    assert [x.dtype for x in (w, left, right)] == [x.dtype for x in expected]
    scale = np.linalg.norm(b, 1) / np.linalg.norm(a, 1)
    assert matched(w, expected[0], scale) <= 1e7 * np.finfo(w.dtype).eps
    assert ratio(a, b, w, right) <= 8
    assert ratio(a.conj().T, b.conj().T, w.conj(), left) <= 8
    for v in (left, right):
        assert np.allclose(np.linalg.norm(v, axis=0), 1)
    if kind == "real":  # conjugates are so to the bit, real vectors real
        first, second = np.flatnonzero(w.imag > 0), np.flatnonzero(w.imag < 0)
        assert np.array_equal(w[first], w[second].conj())
        assert np.array_equal(right[:, first], right[:, second].conj())
        assert not right[:, w.imag == 0].imag.any()


def test_infinite_eigenvalues_are_told(stats):
    w = np.asarray(linalg.eigvals(oxinp.asarray(A), oxinp.asarray(SINGULAR)))
    assert np.count_nonzero(np.isinf(w)) == 2
    assert set(stats().fallbacks) <= {*COUNTED, "__array__"}


def test_corrections_leave_no_more_than_lapack(monkeypatch):
    """Without them the inverse of a matrix of condition 1e5 leaves far more."""
    n = 12
    a, b = np.random.default_rng(3).standard_normal((2, n, n))
    b = b @ np.diag(np.logspace(0, -5, n))
    w, v = map(np.asarray, linalg.eig(oxinp.asarray(a), oxinp.asarray(b)))
    assert ratio(a, b, w, v) <= 4
    expected, vectors = scipy.linalg.eig(a, b)
    assert ratio(a, b, w, v) <= 3 * ratio(a, b, expected, vectors)
    monkeypatch.setattr("oxinp.linalg._pencils.MAX_CORRECTIONS", 0)
    monkeypatch.setattr("oxinp.linalg._pencils.ALLOWED", np.inf)
    w, v = map(np.asarray, linalg.eig(oxinp.asarray(a), oxinp.asarray(b)))
    assert ratio(a, b, w, v) > 8


def test_pencils_that_are_singular_are_lapacks(stats):
    a, b = np.where(np.arange(8) < 2, 0.0, A), SINGULAR
    with np.errstate(all="ignore"):
        linalg.eig(oxinp.asarray(a), oxinp.asarray(b))
    assert stats().fallbacks["scipy.linalg.eig"] == 1


@pytest.mark.parametrize("a", [A, pytest.param(COMPLEX, marks=slow), pytest.param(A + A.T, marks=slow)])
def test_left_vectors_of_one_matrix(a, stats):
    w, left, right = linalg.eig(oxinp.asarray(a), left=True)
    assert set(stats().fallbacks) == COUNTED
    expected = scipy.linalg.eig(a, left=True)
    w, left, right = map(np.asarray, (w, left, right))
    assert [x.dtype for x in (w, left, right)] == [x.dtype for x in expected]
    assert np.allclose(w, expected[0])
    assert ratio(a.conj().T, np.eye(8), w.conj(), left) <= 8
    for x, y in ((left, expected[1]), (right, expected[2])):
        assert np.allclose(np.abs((x.conj() * y).sum(axis=0)), 1)  # but for phases


def test_homogeneous_eigenvalues(stats):
    ours = linalg.eigvals(oxinp.asarray(A), homogeneous_eigvals=True)
    assert set(stats().fallbacks) == COUNTED
    assert np.allclose(np.asarray(ours), scipy.linalg.eigvals(A, homogeneous_eigvals=True))
    alpha, beta = np.asarray(linalg.eigvals(oxinp.asarray(A), oxinp.asarray(B), homogeneous_eigvals=True))
    assert matched(alpha / beta, scipy.linalg.eigvals(A, B)) < 1e-9


def test_stacks_of_pencils(stats):
    a = np.stack([A, A.T, A + A.T]).reshape(3, 1, 8, 8)
    w, v = linalg.eig(oxinp.asarray(a), oxinp.asarray(B))
    assert set(stats().fallbacks) == COUNTED
    expected, vectors = scipy.linalg.eig(a, B)
    assert (w.shape, v.shape) == (expected.shape, vectors.shape)
    for i in range(3):
        assert matched(np.asarray(w)[i, 0], expected[i, 0]) < 1e-9


@pytest.mark.parametrize(("a", "b"), [(A, B[:3, :3]), (A, B[:3]), (A * np.inf, B), (A, B * np.nan), (A[0], B)])
def test_pencils_that_scipy_refuses(a, b):
    with pytest.raises(ValueError) as theirs, np.errstate(invalid="ignore"):
        scipy.linalg.eig(a, b)
    with pytest.raises(ValueError) as found, np.errstate(invalid="ignore"):
        linalg.eig(oxinp.asarray(a), oxinp.asarray(b))
    assert str(found.value) == str(theirs.value)
