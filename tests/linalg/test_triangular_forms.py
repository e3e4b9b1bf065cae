"""Complex Schur forms, functions of matrices, real forms of complex pairs, conditions of exponentials: as SciPy's."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(21)
A = RANDOM.standard_normal((9, 9))
Z = A + 1j * RANDOM.standard_normal((9, 9))
ROTATIONS = scipy.linalg.block_diag(*[np.array([[0.0, -1.0], [1.0, 0.0]])] * 3) * np.array([1.0, 1, 2, 2, 3, 3])
TRIANGULAR = np.triu(A)
SYMMETRIC = A + A.T

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")
linalg = oxinp.scipy.linalg


def close(ours, theirs, scale=1e4):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.allclose(ours, theirs, rtol=0, atol=scale * np.finfo(ours.dtype).eps * np.abs(theirs).max(initial=0))


@pytest.mark.parametrize(
    "a",
    [
        A,
        A.astype("f4"),
        *(pytest.param(a, marks=slow) for a in (Z, ROTATIONS, TRIANGULAR, SYMMETRIC, A[:1, :1])),
    ],
)
def test_complex_schur_forms_are_scipys(a, stats):
    t, z = scipy.linalg.schur(a)
    ours = linalg.rsf2csf(oxinp.asarray(t), oxinp.asarray(z))
    assert not stats().fallbacks
    for x, y in zip(ours, scipy.linalg.rsf2csf(t, z), strict=True):
        close(x, y)
    made, vectors = map(np.asarray, ours)
    assert not np.tril(made, -1).any()
    assert (
        np.abs(vectors @ made @ vectors.conj().T - a).max() <= 30 * len(a) * np.finfo(made.dtype).eps * np.abs(a).max()
    )


def test_complex_schur_forms_of_stacks(stats):
    t, z = (np.stack(part) for part in zip(*(scipy.linalg.schur(x) for x in (A, A @ A)), strict=True))
    ours = linalg.rsf2csf(oxinp.asarray(t), oxinp.asarray(z))
    assert not stats().fallbacks
    for x, y in zip(ours, scipy.linalg.rsf2csf(t, z), strict=True):
        close(x, y)


def test_forms_that_are_not_triangular_are_scipys(stats):
    h = np.triu(A, -1)
    ours, theirs = linalg.rsf2csf(oxinp.asarray(h), oxinp.eye(9)), scipy.linalg.rsf2csf(h, np.eye(9))
    for x, y in zip(ours, theirs, strict=True):
        close(x, y)
    assert stats().fallbacks["scipy.linalg.rsf2csf"] == 1
    for t, z in ((np.ones((2, 3)), np.eye(3)), (np.eye(2), np.eye(3)), (np.full((2, 2), np.nan), np.eye(2))):
        with pytest.raises(ValueError) as theirs:
            scipy.linalg.rsf2csf(t, z)
        with pytest.raises(ValueError) as found:
            linalg.rsf2csf(oxinp.asarray(t), oxinp.asarray(z))
        assert str(found.value) == str(theirs.value)


FUNCTIONS = {"exp": np.exp, "square": lambda x: x * x, "roots": lambda x: np.sqrt(x + 0j), "real": lambda x: x.real}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "a",
    [A, *(pytest.param(a, marks=slow) for a in (Z, A.astype("f4"), (A * 5).astype("i8"), TRIANGULAR, SYMMETRIC))],
)
def test_functions_of_matrices_are_scipys(a, name, stats, capsys):
    found, error = linalg.funm(oxinp.asarray(a), FUNCTIONS[name], disp=False)
    assert set(stats().fallbacks) <= {"scipy.linalg.funm: QR iterations"}
    expected, estimate = scipy.linalg.funm(a, FUNCTIONS[name], disp=False)
    close(found, expected, 1e6)
    assert np.isclose(float(error), float(estimate), rtol=1e-2)
    assert capsys.readouterr().out == ""


@slow
def test_functions_of_many_diagonals():
    """Sums of more terms than lanes have at once; of far eigenvalues, so that no digit is lost."""
    a = np.diag(np.arange(1.0, 171.0)) + np.triu(RANDOM.standard_normal((170, 170)), 1) / 20
    found = np.asarray(linalg.funm(oxinp.asarray(a), lambda x: x * x))
    close(found, a @ a, 1e4)


def test_functions_that_may_be_inaccurate_say_so(capsys):
    a = np.eye(4) + np.triu(np.ones((4, 4)), 1)
    ours, theirs = linalg.funm(oxinp.asarray(a), np.exp), scipy.linalg.funm(a, np.exp)
    first, second = capsys.readouterr().out.splitlines()
    assert first.partition("=")[0] == second.partition("=")[0] == "funm result may be inaccurate, approximate err "
    assert np.asarray(ours).shape == theirs.shape


def test_functions_of_stacks(stats):
    stack = np.stack([A, Z.real @ A]).reshape(2, 1, 9, 9)
    found = linalg.funm(oxinp.asarray(stack), np.exp)
    assert set(stats().fallbacks) <= {"scipy.linalg.funm: QR iterations"}
    close(found, scipy.linalg.funm(stack, np.exp), 1e6)


@pytest.mark.parametrize("a", [np.ones((2, 3)), np.full((2, 2), np.inf)])
def test_functions_of_what_scipy_refuses(a):
    with pytest.raises(ValueError) as theirs:
        scipy.linalg.funm(a, np.exp)
    with pytest.raises(ValueError) as found:
        linalg.funm(oxinp.asarray(a), np.exp)
    assert str(found.value) == str(theirs.value)


@pytest.mark.parametrize("a", [A, *(pytest.param(a, marks=slow) for a in (A.astype("f4"), Z, SYMMETRIC, ROTATIONS))])
def test_real_forms_of_pairs_are_scipys(a, stats):
    w, v = np.linalg.eig(a)
    if a is Z:  # pairs that are none, which SciPy takes to be
        w = np.concatenate([w[:8], [2.0]])
    ours = linalg.cdf2rdf(oxinp.asarray(w), oxinp.asarray(v))
    assert not stats().fallbacks
    for x, y in zip(ours, scipy.linalg.cdf2rdf(w, v), strict=True):
        close(x, y, 8)


def test_real_forms_of_stacks_and_far_pairs(stats):
    w = np.array([[1 + 1j, 2, 1 - 1j, 3], [5, 1 + 2j, 1 - 2j, 4]])
    v = (A + 1j * A.T)[:8, :4].reshape(2, 4, 4)
    ours = linalg.cdf2rdf(oxinp.asarray(w), oxinp.asarray(v))
    assert not stats().fallbacks
    for x, y in zip(ours, scipy.linalg.cdf2rdf(w, v), strict=True):
        close(x, y, 8)


@pytest.mark.parametrize(("w", "v"), [([1 + 1j, 2], np.eye(2)), ([1.0, 2], np.eye(3)), ([1.0, 2], np.ones(2))])
def test_real_forms_that_scipy_refuses(w, v):
    with pytest.raises(ValueError) as theirs:
        scipy.linalg.cdf2rdf(w, v)
    with pytest.raises(ValueError) as found:
        linalg.cdf2rdf(oxinp.asarray(w), oxinp.asarray(v))
    assert str(found.value) == str(theirs.value)


@pytest.mark.parametrize(
    "a",
    [
        A[:4, :4],
        *(
            pytest.param(a, marks=slow)
            for a in (Z[:3, :3], A[:5, :5] * 9, (A[:3, :3] * 4).astype("i8"), np.zeros((3, 3)))
        ),
    ],
)
def test_conditions_of_exponentials_are_scipys(a, stats):
    ours = linalg.expm_cond(oxinp.asarray(a))
    assert not stats().fallbacks
    assert np.isclose(float(ours), scipy.linalg.expm_cond(a), rtol=1e-9)


def test_conditions_of_exponentials_in_parts(monkeypatch):
    monkeypatch.setattr("oxinp.scipy.linalg._functions.MAX_NBYTES", 1000)
    assert np.isclose(float(linalg.expm_cond(oxinp.asarray(A[:3, :3]))), scipy.linalg.expm_cond(A[:3, :3]), rtol=1e-9)


def test_conditions_of_small_matrices_stay_on_the_host(config, stats):
    config.offload_threshold = 1 << 16
    assert np.isclose(float(linalg.expm_cond(oxinp.asarray(A[:3, :3]))), scipy.linalg.expm_cond(A[:3, :3]))
    assert not stats().launches
    assert not stats().fallbacks
    with pytest.raises(ValueError, match="expected a square matrix"):
        linalg.expm_cond(oxinp.ones((2, 3)))
