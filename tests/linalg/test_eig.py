"""Eigenvalues of general matrices, Schur and Hessenberg forms: LAPACK's values, signs and phases; what is counted."""

import numpy as np
import pytest
import scipy.linalg.cython_lapack

import oxinp
from oxinp._kernels.lapack import multishift
from oxinp.linalg import _eig, _multishift, _qr_iterations

RANDOM = np.random.default_rng(11)
REAL = RANDOM.standard_normal((6, 6))
COMPLEX = REAL + 1j * RANDOM.standard_normal((6, 6))
SYMMETRIC = REAL + REAL.T
TRIANGULAR = np.triu(REAL)
GRADED = np.diag(np.logspace(0, -150, 6)) @ REAL
ISOLATED = np.block([[np.triu(REAL[:3, :3]), REAL[:3]], [np.zeros((6, 3)), REAL]])[::-1, ::-1]
ROTATIONS = scipy.linalg.block_diag(*[np.array([[0.0, -1.0], [1.0, 0.0]])] * 3) * np.array([1.0, 1, 2, 2, 3, 3])
KINDS = {
    "real": REAL,
    "complex": COMPLEX,
    "single": REAL.astype("f4"),
    "integers": (REAL * 9).astype("i4"),
    "real values": SYMMETRIC,
    "triangular": TRIANGULAR,
    "graded": GRADED,
    "isolated": ISOLATED,
    "rotations": ROTATIONS,
    "huge": REAL * 1e200,
    "tiny": COMPLEX * 1e-200,
    "zero": np.zeros((4, 4)),
}

MORE = ("integers", "triangular", "tiny", "single", "rotations", "zero", "real values")
slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")


def close(ours, theirs, scale=1e4):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.allclose(ours, theirs, rtol=0, atol=scale * np.finfo(ours.dtype).eps * np.abs(theirs).max(initial=0))


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=slow if kind in MORE else ()) for kind in KINDS])
def test_eigenvalues_and_vectors_are_numpys(kind):
    a = KINDS[kind]
    (w, v), (expected, vectors) = oxinp.linalg.eig(oxinp.asarray(a)), np.linalg.eig(a)
    if kind == "graded":  # the least are what rounding makes them, or pairs
        close(np.asarray(w).astype("D"), expected.astype("D"))
    else:
        close(w, expected)
        close(v, vectors)
    w, v = np.asarray(w), np.asarray(v)
    residual = np.linalg.norm(a @ v - v * w, 1) / max(np.linalg.norm(a, 1), np.finfo("f8").tiny)
    assert residual <= 30 * len(a) * np.finfo(v.dtype).eps
    assert np.allclose(np.linalg.norm(v, axis=0), 1)


@pytest.mark.parametrize("kind", ["complex", pytest.param("isolated", marks=slow)])
def test_eigenvalues_alone(kind):
    a = KINDS[kind]
    close(oxinp.linalg.eigvals(oxinp.asarray(a)), np.linalg.eigvals(a))
    close(oxinp.scipy.linalg.eigvals(oxinp.asarray(a)), scipy.linalg.eigvals(a))


@pytest.mark.parametrize("kind", ["real values", pytest.param("single", marks=slow)])
def test_scipys(kind):
    a = KINDS[kind]
    for ours, theirs in zip(oxinp.scipy.linalg.eig(oxinp.asarray(a)), scipy.linalg.eig(a), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("isolated", "real"),
        pytest.param("real", "complex", marks=slow),
        pytest.param("real", "real", marks=slow),
    ],
)
def test_schur(kind, output):
    a = KINDS[kind]
    t, z = map(np.asarray, oxinp.scipy.linalg.schur(oxinp.asarray(a), output))
    expected, _ = scipy.linalg.schur(a, output)
    assert t.dtype == expected.dtype
    epsilon = 30 * len(a) * np.finfo(t.dtype).eps
    assert np.linalg.norm(a - z @ t @ z.conj().T, 1) <= epsilon * np.linalg.norm(a, 1)
    assert np.linalg.norm(z.conj().T @ z - np.eye(len(a)), 1) <= epsilon
    assert not np.tril(t, -2 if output == "real" else -1).any()
    close(np.abs(np.diagonal(t)), np.abs(np.diagonal(expected)))


@pytest.mark.parametrize("kind", ["complex", pytest.param("single", marks=slow)])
def test_hessenberg(kind, stats):
    a = KINDS[kind]
    h, q = oxinp.scipy.linalg.hessenberg(oxinp.asarray(a), calc_q=True)
    assert not stats().fallbacks
    for ours, theirs in zip((h, q), scipy.linalg.hessenberg(a, calc_q=True), strict=True):
        close(ours, theirs)
    close(oxinp.scipy.linalg.hessenberg(oxinp.asarray(a)), scipy.linalg.hessenberg(a))


@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=slow), pytest.param("c16", marks=slow)])
def test_hessenberg_of_a_matrix_of_low_rank(dtype):
    """Its form is not unique: reflections act on rounding errors, which are not LAPACK's."""
    a = np.resize([-1, 2], (5, 5)).astype(dtype)
    h, q = map(np.asarray, oxinp.scipy.linalg.hessenberg(oxinp.asarray(a), calc_q=True))
    epsilon = 30 * len(a) * np.finfo(dtype).eps
    assert np.linalg.norm(q @ h @ q.conj().T - a, 1) <= epsilon * np.linalg.norm(a, 1)
    assert np.linalg.norm(q.conj().T @ q - np.eye(len(a)), 1) <= epsilon
    assert not np.tril(h, -2).any()
    assert np.array_equal(q[0], np.eye(len(a))[0])
    assert np.array_equal(h, np.asarray(oxinp.scipy.linalg.hessenberg(oxinp.asarray(a))))


@pytest.fixture
def small_sweeps(monkeypatch):
    """Let matrices of eighteen rows take the way of large ones; the blocks that shifts are chased through."""
    monkeypatch.setattr(_multishift, "ORDER", 18)
    monkeypatch.setattr(multishift, "CHAINS", ((2, 10),))
    taken = []
    sweep = _multishift._Iterations.sweep
    monkeypatch.setattr(_multishift._Iterations, "sweep", lambda *given: taken.append(given[1:3]) or sweep(*given))
    return taken


def is_among(values, expected, tolerance):
    """Whether every value is next to an expected one, and the other way round."""
    distance = np.abs(np.asarray(values)[:, None] - expected)
    return max(distance.min(axis=0).max(), distance.min(axis=1).max()) <= tolerance


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c16", marks=slow), pytest.param("f4", marks=slow)])
def test_sweeps_on_the_device(small_sweeps, dtype):
    a = RANDOM.standard_normal((18, 18)).astype(dtype)
    h = scipy.linalg.hessenberg(a + 1j * a.T if dtype == "c16" else a)
    values, t, z = _multishift.iterate(oxinp.asarray(h), (0, 17), has_vectors=True)
    assert small_sweeps
    t, z = np.asarray(t), np.asarray(z)
    epsilon = 30 * len(a) * np.finfo(dtype).eps
    assert np.linalg.norm(h - z @ t @ z.conj().T, 1) <= epsilon * np.linalg.norm(h, 1)
    assert np.linalg.norm(z.conj().T @ z - np.eye(len(h)), 1) <= epsilon
    assert not np.tril(t, -2 if dtype != "c16" else -1).any()
    below = np.diagonal(t, -1)
    assert not (below[1:] * below[:-1]).any()
    assert is_among(values, np.linalg.eigvals(h), 1e3 * epsilon)
    assert is_among(values, np.linalg.eigvals(t), 1e3 * epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["isolated", "defective", "zero"])
def test_eigenvalues_by_sweeps(small_sweeps, kind, stats):
    rest = RANDOM.standard_normal((18, 18))
    a = {
        "isolated": scipy.linalg.block_diag(np.triu(RANDOM.standard_normal((3, 3))), rest),
        "defective": np.eye(22, k=1) + np.eye(22, k=-21),
        "zero": np.zeros((22, 22)),
    }[kind]
    found = oxinp.linalg.eig(oxinp.asarray(a))
    assert stats().fallbacks == {"linalg.eig: QR iterations": 1}
    w, v = map(np.asarray, found)
    assert bool(small_sweeps) == (kind != "zero")
    assert is_among(w, np.linalg.eigvals(a), 1e-10)
    assert np.linalg.norm(a @ v - v * w, 1) <= 30 * len(a) * np.finfo("f8").eps * np.linalg.norm(a, 1)
    assert is_among(oxinp.linalg.eigvals(oxinp.asarray(a)), w, 1e-10)


def test_pairs_of_shifts():
    one, other = 1 + 2j, 3 - 1j
    values = np.array([5, other.conjugate(), other, -4, one, one.conjugate(), 0.5])
    pairs = _multishift.paired(values, 6)
    assert {frozenset(pair) for pair in pairs.tolist()} == {
        frozenset(x) for x in ((0.5, -4), (one, one.conjugate()), (other, other.conjugate()))
    }
    assert np.array_equal(_multishift.paired(values[4:5], 6), [[one, one]])
    assert np.array_equal(_multishift.paired(values[:0], 6), [[0, 0]])


def test_what_is_on_the_host_is_counted(stats, config):
    oxinp.evaluate(*oxinp.linalg.eig(oxinp.asarray(REAL)))
    assert stats().fallbacks == {"linalg.eig: QR iterations": 1}
    assert stats().launches
    config.fallback = "error"
    with pytest.raises(oxinp.FallbackError, match="QR iterations"):
        oxinp.linalg.eig(oxinp.asarray(REAL))


def test_stacks_are_numpys(stats):
    a = np.stack([REAL, REAL.T])
    ours = oxinp.linalg.eigvals(oxinp.asarray(a))
    assert stats().fallbacks == {"linalg.eigvals: QR iterations": 2}
    close(ours, np.linalg.eigvals(a))


def test_what_is_refused():
    for bad in (np.nan, np.inf):
        a = REAL.copy()
        a[2, 3] = bad
        with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
            oxinp.linalg.eig(oxinp.asarray(a))
        with pytest.raises(ValueError, match="infs or NaNs"):
            oxinp.scipy.linalg.schur(oxinp.asarray(a))
    for shape in ((3,), (3, 4)):
        with pytest.raises(np.linalg.LinAlgError) as ours:
            oxinp.linalg.eigvals(oxinp.ones(shape))
        with pytest.raises(np.linalg.LinAlgError) as theirs:
            np.linalg.eigvals(np.ones(shape))
        assert str(ours.value) == str(theirs.value)


def test_no_convergence_is_told(monkeypatch):
    monkeypatch.setattr(_qr_iterations, "_call", lambda *_: 3)
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        oxinp.linalg.eig(oxinp.asarray(REAL))


def test_a_scipy_without_the_routines_computes_itself(monkeypatch, stats):
    monkeypatch.setattr(scipy.linalg.cython_lapack, "__pyx_capi__", {})
    _qr_iterations._routine.cache_clear()
    close(oxinp.linalg.eigvals(oxinp.asarray(REAL)), np.linalg.eigvals(REAL))
    assert "linalg.eigvals" in stats().fallbacks
    _qr_iterations._routine.cache_clear()


@pytest.mark.parametrize("is_scaled", [True, False])
def test_balancing_is_undone(is_scaled):
    a = ISOLATED * np.logspace(0, 20, len(ISOLATED))[:, None]
    made = _eig.balanced(oxinp.asarray(a), is_scaled=is_scaled)
    similarity = np.asarray(made.vectors(oxinp.eye(len(a))))
    assert np.allclose(a @ similarity, similarity @ np.asarray(made.a) * made.factor, rtol=1e-15, atol=0)
    assert (np.count_nonzero(np.asarray(made.scale) != 1) > 0) == is_scaled
    assert made.active != (0, len(a) - 1)


@pytest.mark.parametrize("kind", ["real", "complex", "rotations", "graded", "triangular", "isolated", "zero"])
def test_balanced_matrices_stay_where_they_are(kind, stats):
    a = KINDS[kind]
    (gebal,) = scipy.linalg.get_lapack_funcs(("gebal",), (a,))
    for is_scaled in (True, False):
        given = oxinp.asarray(a) * 1
        oxinp.evaluate(given)
        before = stats().d2h_bytes
        made = _eig.balanced(given, is_scaled=is_scaled)
        is_left = np.array_equal(gebal(a, permute=True, scale=is_scaled)[0], a)
        assert is_left or made.scale is not None
        if kind in ("real", "complex"):
            assert made.scale is None
            assert stats().d2h_bytes - before < a.nbytes
        assert np.array_equal(np.asarray(made.a) * made.factor, gebal(a, permute=True, scale=is_scaled)[0])


def test_windows_alone_go_to_the_host(small_sweeps, stats):
    h = np.triu(RANDOM.standard_normal((40, 40)), -1)
    state = _multishift._Iterations(oxinp.asarray(h) * 1, has_vectors=True)
    before = stats().d2h_bytes
    window = state.fetch(10, 15)
    assert stats().d2h_bytes - before == window.nbytes
    assert window.flags.f_contiguous
    assert np.array_equal(window, h[10:16, 10:16])
    assert not small_sweeps
