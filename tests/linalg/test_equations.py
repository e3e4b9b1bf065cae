"""Equations of Sylvester, Lyapunov and Riccati: SciPy's solutions, residuals, and what is left to SciPy."""

import inspect

import numpy as np
import pytest
import scipy.linalg

import oxinp
from oxinp import scipy as ours
from oxinp.scipy.linalg import _equations
from tests.comparator import outcome

RANDOM = np.random.default_rng(4)
slow = pytest.mark.slow


def drawn(order, dtype="d", columns=None):
    a = RANDOM.standard_normal((order, columns or order))
    return a + 1j * RANDOM.standard_normal(a.shape) if dtype == "D" else a


def stable(order, dtype="d"):
    """A matrix whose eigenvalues have negative real parts, and is far from normal."""
    a = np.triu(drawn(order, dtype), 1) - np.diag(RANDOM.uniform(0.2, 30, order))
    basis = np.linalg.qr(drawn(order, dtype))[0]
    return basis @ a @ basis.conj().T


def contracting(order, dtype="d"):
    a = drawn(order, dtype)
    return a * (0.9 / np.abs(np.linalg.eigvals(a)).max())


def weight(order, dtype="d"):
    a = drawn(order, dtype)
    return a @ a.conj().T + np.eye(order)


def arguments(name, order, dtype):
    """Matrices of which the function knows by itself."""
    if name == "solve_sylvester":
        return -stable(order, dtype), -stable(order // 2, dtype), drawn(order, dtype, order // 2)
    if name.endswith("lyapunov"):
        return (contracting if "discrete" in name else stable)(order, dtype), drawn(order, dtype)
    a = contracting(order, dtype) * (1.2 if "discrete" in name else 3)
    return a, drawn(order, dtype, order // 2), weight(order, dtype), weight(order // 2, dtype)


def residual(name, given, x):
    """Over the norms of the terms, the order and the rounding unit."""
    a, *rest = given
    back = a.conj().T
    if name == "solve_sylvester":
        b, q = rest
        terms = [a @ x, x @ b, -q]
    elif name == "solve_continuous_lyapunov":
        terms = [a @ x, x @ back, -rest[0]]
    elif name == "solve_discrete_lyapunov":
        terms = [a @ x @ back, -x, rest[0]]
    else:
        b, q, r = rest
        inner = r if "continuous" in name else r + b.conj().T @ x @ b
        if "continuous" in name:
            terms = [back @ x, x @ a, -x @ b @ np.linalg.solve(inner, b.conj().T @ x), q]
        else:
            terms = [back @ x @ a, -x, -back @ x @ b @ np.linalg.solve(inner, b.conj().T @ x @ a), q]
    scale = sum(np.linalg.norm(term, 1) for term in terms)
    return np.linalg.norm(sum(terms), 1) / (scale * len(a) * np.finfo("f8").eps)


NAMES = (
    *("solve_sylvester", "solve_continuous_lyapunov", "solve_discrete_lyapunov"),
    *("solve_continuous_are", "solve_discrete_are"),
)


def solved(name, given):
    """What our function finds by itself, its parts where they are placed."""
    return inspect.unwrap(getattr(_equations, name))(*map(oxinp.asarray, given))


@pytest.mark.parametrize("dtype", ["d", pytest.param("D", marks=slow)])
@pytest.mark.parametrize("order", [8, pytest.param(60, marks=slow)])
@pytest.mark.parametrize("name", NAMES)
def test_residuals_are_at_most_lapacks(name, order, dtype, config):
    config.offload_threshold = float("inf")
    given = arguments(name, order, dtype)
    x, expected = np.asarray(solved(name, given)), getattr(scipy.linalg, name)(*given)
    assert x.dtype == expected.dtype
    assert residual(name, given, x) <= max(1, 3 * residual(name, given, expected))
    assert np.allclose(x, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", [x if "discrete" in x else pytest.param(x, marks=slow) for x in NAMES])
def test_the_device_solves(name, stats, config):
    config.offload_threshold = 0
    given = arguments(name, 6, "d")
    with config.override(fallback="error"):
        x = getattr(ours.linalg, name)(*map(oxinp.asarray, given))
    assert stats().launches
    assert np.allclose(np.asarray(x), getattr(scipy.linalg, name)(*given), rtol=1e-10, atol=1e-10)


def test_integers_and_mixed_dtypes(config):
    config.offload_threshold = float("inf")
    a, q = -np.diag([3, 5, 9]), np.arange(9).reshape(3, 3) + 1j
    x = np.asarray(solved("solve_continuous_lyapunov", (a, q)))
    assert np.allclose(x, scipy.linalg.solve_continuous_lyapunov(a, q))


BOTH_SIDES = np.diag([1.0, -2.0, 5.0]) + np.eye(3, k=1)


@pytest.mark.parametrize(
    ("name", "given"),
    [  # of which SciPy finds the solution, or says why there is none
        ("solve_sylvester", (BOTH_SIDES, BOTH_SIDES + 10 * np.eye(3), np.ones((3, 3)))),
        ("solve_sylvester", (BOTH_SIDES, -BOTH_SIDES, np.ones((3, 3)))),
        ("solve_sylvester", (BOTH_SIDES.astype("f4"), np.eye(3, dtype="f4"), np.ones((3, 3), "f4"))),
        ("solve_sylvester", (BOTH_SIDES, np.eye(2), np.ones((3, 3)))),
        ("solve_continuous_lyapunov", (BOTH_SIDES, np.ones((2, 2)))),
        ("solve_continuous_lyapunov", (BOTH_SIDES * np.nan, np.eye(3))),
        ("solve_discrete_lyapunov", (BOTH_SIDES * 3, np.eye(3))),
        ("solve_discrete_lyapunov", (BOTH_SIDES, np.eye(3), "neither")),
        ("solve_continuous_are", (BOTH_SIDES, np.ones((3, 1)), BOTH_SIDES, np.eye(1))),
        ("solve_continuous_are", (BOTH_SIDES, np.ones((3, 1)), np.eye(3), np.zeros((1, 1)))),
        ("solve_continuous_are", (BOTH_SIDES, np.zeros((3, 1)), np.eye(3), np.eye(1))),
        ("solve_discrete_are", (BOTH_SIDES, np.ones((3, 1)), np.eye(3), np.zeros((1, 1)))),
        ("solve_discrete_are", (BOTH_SIDES, np.ones((3, 1)), np.eye(3), np.eye(1), np.eye(3) * 2)),
    ],
)
def test_what_is_left_to_scipy(name, given, config, monkeypatch):
    config.offload_threshold = float("inf")
    monkeypatch.setattr("oxinp._api.crossovers.belongs_on_host", lambda *_: False)

    def body(of):
        package, xp = of
        return getattr(package, name)(*[xp.asarray(x) if isinstance(x, np.ndarray) else x for x in given])

    found, expected = outcome(body, (ours.linalg, oxinp)), outcome(body, (scipy.linalg, np))
    if isinstance(expected, Exception):
        assert (type(found), str(found)) == (type(expected), str(expected))
    else:
        assert np.allclose(np.asarray(found), expected)
