"""Exponentials of kinds of matrices, beside those of 40 digits: no less accurate than SciPy's."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

import oxinp

pytestmark = pytest.mark.usefixtures("on_device")
N = 6
RANDOM = np.random.default_rng(3)
NORMAL = RANDOM.standard_normal((N, N))
KINDS = {
    "normal": NORMAL,
    "large": 10 * NORMAL,
    "small": 1e-9 * NORMAL,
    "negative": -RANDOM.random((N, N)),
    "positive": 5 * RANDOM.random((N, N)),
    "triangular": np.triu(NORMAL, 1) * 10 - np.eye(N),
    "nilpotent": np.diag(np.full(N - 1, 100.0), 1),
    "Jordan": np.diag(np.full(N - 1, 30.0), 1) - np.eye(N),
    "powers that are small": np.kron(np.eye(N // 2), np.array([[1, 1e6], [0, -1]])),
    "Laplacian": -50 * (2 * np.eye(N) - np.eye(N, k=1) - np.eye(N, k=-1)),
    "skew": 3 * (NORMAL - NORMAL.T),
    "shifted": 3 * NORMAL - 20 * np.eye(N),
    "zero": np.zeros((N, N)),
}
GRADED = NORMAL * np.geomspace(1e-5, 1e5, N)[:, None] * np.geomspace(1e5, 1e-5, N)
FEW_UNITS = 10  # of rounding, per row, that no ratio is needed for


def exact(a):
    """The exponential, rounded to double precision."""
    with mpmath.workdps(60):
        return np.array(mpmath.expm(mpmath.matrix(a.tolist()), method="taylor").tolist(), dtype=np.float64)


def error(found, right):
    """The relative error by the 1-norm, in units of rounding."""
    return np.linalg.norm(found - right, 1) / (np.linalg.norm(right, 1) * np.finfo(np.float64).eps)


def exponential(a):
    """The exponential by oxinp."""
    with oxinp.config.override(fallback="error"):
        found = oxinp.scipy.linalg.expm(oxinp.asarray(a))
    return np.asarray(found)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_matrices(kind):
    a = KINDS[kind]
    right = exact(a)
    assert error(exponential(a), right) <= max(3 * error(scipy.linalg.expm(a), right), FEW_UNITS * N)


def test_squares_are_as_few_as_norms_of_high_powers_allow():
    """By norms of the second and third powers alone there are 17 squares, and an error of some 30,000 units."""
    assert error(exponential(GRADED), exact(GRADED)) <= 100 * N
