"""Functions of matrices and matrix equations of every dtype: SciPy's dtypes, and as accurate as its results."""

import warnings

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(17)
A, B = RANDOM.standard_normal((2, 6, 6)) / 3
DEFINITE = A @ A.T + np.eye(6)
STABLE = A - 3 * np.eye(6)
INPUT, WEIGHTS = RANDOM.standard_normal((6, 2)), np.eye(2)
slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")

CALLS = {
    "logm": (DEFINITE,),
    "sqrtm": (DEFINITE,),
    "signm": (DEFINITE,),
    "expm": (A,),
    "cosm": (A,),
    "tanhm": (A,),
    "expm_frechet": (A, B),
    "expm_cond": (A,),
    "fractional_matrix_power": (DEFINITE, 0.3),
    "solve_sylvester": (STABLE, STABLE, B),
    "solve_continuous_lyapunov": (STABLE, DEFINITE),
    "solve_discrete_lyapunov": (A / 3, DEFINITE),
    "solve_continuous_are": (A, INPUT, DEFINITE, WEIGHTS),
    "solve_discrete_are": (A, INPUT, DEFINITE, WEIGHTS),
    "polar": (A,),
    "pinvh": (DEFINITE,),
}
QUICK = ("logm", "solve_sylvester", "solve_continuous_are", "fractional_matrix_power")


def called(module, name, given, asarray):
    with warnings.catch_warnings():
        if module is scipy.linalg:
            warnings.simplefilter("ignore")  # what it has computed in single precision, it says, is inaccurate
        found = getattr(module, name)(*(asarray(x) if isinstance(x, np.ndarray) else x for x in given))
    return found if isinstance(found, tuple | list) else (found,)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(name, x, marks=() if name in QUICK and x == "f" else slow) for name in CALLS for x in "fFdD"],
)
def test_dtypes_and_accuracy_are_scipys(name, dtype, stats):
    given = [x.astype(dtype) if isinstance(x, np.ndarray) else x for x in CALLS[name]]
    found = called(oxinp.scipy.linalg, name, given, oxinp.asarray)
    assert not stats().fallbacks
    expected = called(scipy.linalg, name, given, np.asarray)
    exact = called(scipy.linalg, name, [x.astype("D") if isinstance(x, np.ndarray) else x for x in given], np.asarray)
    for x, y, z in zip(found, expected, exact, strict=True):
        x = oxinp.asnumpy(x)  # noqa: PLW2901
        y = np.asarray(y)  # noqa: PLW2901
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        size = np.linalg.norm(np.atleast_2d(z))
        allowed = max(np.linalg.norm(np.atleast_2d(y - z)), 50 * float(np.finfo(x.dtype).eps) * size)
        assert np.linalg.norm(np.atleast_2d(x - z)) <= 3 * allowed


@pytest.mark.parametrize("t", [-1.7, 3, *(pytest.param(t, marks=slow) for t in (0.5, 2.25, -2.0))])
def test_powers_of_matrices(t, stats):
    found = oxinp.scipy.linalg.fractional_matrix_power(oxinp.asarray(DEFINITE), t)
    assert not stats().fallbacks
    assert np.allclose(oxinp.asnumpy(found), scipy.linalg.fractional_matrix_power(DEFINITE, t), rtol=1e-11)


def test_powers_of_integers_and_of_what_has_no_logarithm(stats):
    whole = np.rint(A * 9).astype("i8")
    found = oxinp.scipy.linalg.fractional_matrix_power(oxinp.asarray(whole), 3)
    assert not stats().fallbacks
    assert found.dtype == whole.dtype
    assert np.array_equal(oxinp.asnumpy(found), np.linalg.matrix_power(whole, 3))
    negative = -DEFINITE
    found = oxinp.asnumpy(oxinp.scipy.linalg.fractional_matrix_power(oxinp.asarray(negative), 0.5))
    assert np.allclose(found, scipy.linalg.fractional_matrix_power(negative, 0.5))


@pytest.mark.parametrize("scale", [pytest.param(1.0, marks=slow), 2.0**-70, pytest.param(2.0**60, marks=slow)])
def test_powers_of_matrices_that_are_far_from_the_identity(scale):
    """Squared, a root is the matrix again, but for a few units of eps, however large the logarithm is."""
    given = (np.clip(np.arange(0.0, 2559, 2).reshape(64, 20), -9, 9)[:9, :9] + 360 * np.eye(9)) * scale
    root = oxinp.asnumpy(oxinp.scipy.linalg.fractional_matrix_power(oxinp.asarray(given), 0.5))
    assert np.abs(root @ root - given).max() < 30 * np.finfo(float).eps * np.abs(given).max()
