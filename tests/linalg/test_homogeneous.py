"""Eigenvalues as pairs alpha and beta: those of a matrix, of pencils, infinite ones, stacks."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

RANDOM = np.random.default_rng(11)
A, B = RANDOM.standard_normal((2, 2, 5, 5))
SINGULAR = np.diag([1.0, 2, 0, 3, 0]) @ B[0]
pytestmark = pytest.mark.usefixtures("on_device")


def pairs(function, a, b=None, **options):
    given = [oxinp.asarray(x) for x in (a, b) if x is not None]
    found = getattr(oxinp.scipy.linalg, function)(*given, homogeneous_eigvals=True, **options)
    return found if isinstance(found, tuple) else (found,)


def by_angle(w):
    """Pairs of norm one, in an order of the points that they are of the sphere."""
    alpha, beta = w / np.hypot(*np.abs(w))
    point = np.stack([2 * alpha * beta.conj(), (np.abs(alpha) ** 2 - np.abs(beta) ** 2) + 0j])
    return point[:, np.lexsort((np.round(point[0].imag, 6), np.round(point[0].real, 6), np.round(point[1].real, 6)))]


@pytest.mark.parametrize(
    ("dtype", "b"), [("d", SINGULAR), *(pytest.param(x, B[0], marks=pytest.mark.slow) for x in "Df")]
)
def test_pairs_solve_the_equation(dtype, b, stats):
    a = A[0].astype(dtype) * (1 + 0.5j if dtype == "D" else 1)
    b = b.astype(dtype)
    w, v = map(oxinp.asnumpy, pairs("eig", a, b))
    assert all(":" in name for name in stats().fallbacks)
    expected = scipy.linalg.eigvals(a, b, homogeneous_eigvals=True)
    assert (w.dtype, w.shape) == (expected.dtype, expected.shape)
    alpha, beta = w
    assert (beta.imag == 0).all()
    assert (beta.real >= 0).all()
    unit = np.finfo(dtype).eps
    scale = np.abs(alpha) * np.linalg.norm(b, 2) + np.abs(beta) * np.linalg.norm(a, 2)
    assert (np.linalg.norm(a @ v * beta - b @ v * alpha, axis=0) <= 100 * unit * scale).all()
    assert np.allclose(by_angle(w), by_angle(expected), atol=1e5 * unit)
    assert np.array_equal(oxinp.asnumpy(pairs("eigvals", a, b)[0]), w)


def test_sizes_are_those_of_diagonal_pencils(stats):
    (w,) = pairs("eigvals", np.diag([3.0, 8, -7]), 2 * np.eye(3))
    assert all(":" in name for name in stats().fallbacks)
    w = oxinp.asnumpy(w)
    order = np.argsort(w[0].real)
    assert np.allclose(w[:, order], [[-7, 3, 8], [2, 2, 2]])


def test_pairs_of_one_matrix_and_of_stacks(stats):
    (w,) = pairs("eigvals", A[0])
    assert all(":" in name for name in stats().fallbacks)
    w = oxinp.asnumpy(w)
    expected = scipy.linalg.eigvals(A[0], homogeneous_eigvals=True)
    assert (w.dtype, w.shape) == (expected.dtype, expected.shape)
    assert (w[1] == 1).all()
    (w,) = pairs("eigvals", A, B[0])
    assert oxinp.asnumpy(w).shape == scipy.linalg.eigvals(A, B[0], homogeneous_eigvals=True).shape
