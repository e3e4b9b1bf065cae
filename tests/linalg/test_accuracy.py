"""Backward errors as LAPACK's own tests take them, over its kinds of test matrices, beside LAPACK's own."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from oxinp._kernels.lapack import plan

RATIO = 30  # LAPACK's tests allow as much
TIMES, LEAST = 3, 0.1  # of LAPACK's own ratio, where that is not below what rounding every element once leaves
ORDER = 40
KINDS = (
    *("diagonal", "upper", "lower", "well conditioned", "ill conditioned", "near-singular", "graded", "clustered"),
    *("near underflow", "near overflow"),
)

pytestmark = pytest.mark.usefixtures("on_device")


def drawn(rng, dtype, *shape):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def matrix(kind, dtype, *, is_definite=False):
    """A matrix of a kind, those of LAPACK's xCHKGE and xCHKPO, and the power of two that it is times."""
    rng, n, eps = np.random.default_rng(KINDS.index(kind)), ORDER, float(np.finfo(dtype).eps)
    values = {
        "ill conditioned": np.geomspace(1, (0.1 / eps) ** -0.5, n),
        "near-singular": np.geomspace(1, eps / 0.1, n),
        "graded": np.exp2(-np.linspace(0, 20, n)),
        "clustered": np.where(np.arange(n) < n // 2, 1, 1e-3),
    }.get(kind, np.linspace(1, 0.5, n))
    left, right = (np.linalg.qr(drawn(rng, "c16" if np.dtype(dtype).kind == "c" else "f8", n, n))[0] for _ in range(2))
    right = left.conj().T if is_definite else right
    a = (left * values) @ right
    if kind in ("diagonal", "upper", "lower") and not is_definite:
        a = {"diagonal": lambda x: np.diag(np.diag(x)), "upper": np.triu, "lower": np.tril}[kind](a)
        a = a + np.diag(np.sign(np.diag(a).real) * 2)
    info = np.finfo(dtype)
    power = {"near underflow": info.minexp + info.nmant, "near overflow": info.maxexp - info.nmant}.get(kind, 0)
    return (a + a.conj().T).astype(dtype) if is_definite else a.astype(dtype), power


def scaled(x, power):
    """Numbers times a power of two, in double precision, so that norms neither overflow nor vanish."""
    wide = np.asarray(x).astype("c16" if np.iscomplexobj(x) else "f8")
    for part in (power // 2, power - power // 2):
        wide = wide * np.ldexp(1.0, part)
    return wide


def check(found, theirs, norms, dtype):
    """Compare residuals over what they are of with what is allowed, and with those of LAPACK."""
    ours, lapacks = (
        np.linalg.norm(x, 1) / (ORDER * float(np.finfo(dtype).eps) * norm)
        for x, norm in zip((found, theirs), norms, strict=True)
    )
    assert ours <= min(RATIO, max(LEAST, TIMES * lapacks))


def norm(x):
    return np.linalg.norm(x, 1)


def both(function, lapacks, *arrays):
    """Results of oxinp, on the device, and of LAPACK in the same precision, in which NumPy does not compute."""
    with oxinp.config.override(fallback="error"):
        ours = function(*map(oxinp.asarray, arrays))
    return [[np.asarray(x) for x in (y if isinstance(y, tuple) else (y,))] for y in (ours, lapacks(*arrays))]


def lapack_inverse(a):
    getrf, getri = scipy.linalg.get_lapack_funcs(("getrf", "getri"), (a,))
    return getri(*getrf(a)[:2])[0]


AT_ONCE = ("near-singular", "graded", "near underflow", "near overflow")  # in double precision, others with --full
CASES = [
    pytest.param(kind, dtype, marks=() if dtype == "f8" and kind in AT_ONCE else pytest.mark.slow)
    for kind in KINDS
    for dtype in ("f4", "f8", "c8", "c16")
]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_systems(kind, dtype):
    a, power = matrix(kind, dtype)
    b = drawn(np.random.default_rng(1), dtype, ORDER, 2)
    given = scaled(a, power).astype(dtype)
    found = both(oxinp.linalg.solve, lambda a, b: scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b), given, b)
    answers = [scaled(x, power) for (x,) in found]
    check(*(b - a @ x for x in answers), [norm(a) * norm(x) for x in answers], dtype)


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_inverses(kind, dtype):
    a, power = matrix(kind, dtype)
    found = both(oxinp.linalg.inv, lapack_inverse, scaled(a, power).astype(dtype))
    inverses = [scaled(x, power) for (x,) in found]
    check(*(np.eye(ORDER) - a @ x for x in inverses), [norm(a) * norm(x) for x in inverses], dtype)


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_cholesky_factors(kind, dtype):
    a, power = matrix(kind, dtype, is_definite=True)
    a = a + a.dtype.type(np.finfo(dtype).eps * ORDER) * np.eye(ORDER, dtype=dtype)
    even = power // 2 * 2
    found = both(oxinp.linalg.cholesky, lambda a: scipy.linalg.cholesky(a, lower=True), scaled(a, even).astype(dtype))
    factors = [scaled(x, -even // 2) for (x,) in found]
    check(*(a - x @ x.conj().T for x in factors), [norm(a)] * 2, dtype)


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_orthogonal_factors(kind, dtype):
    a, power = matrix(kind, dtype)
    found = both(oxinp.linalg.qr, lambda a: scipy.linalg.qr(a, mode="economic"), scaled(a, power).astype(dtype))
    check(*(a - q @ scaled(r, -power) for q, r in found), [norm(a)] * 2, dtype)
    check(*(np.eye(ORDER) - q.conj().T.astype("c16") @ q for q, _ in found), [1, 1], dtype)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factors_in_double_precision(upper, monkeypatch):
    monkeypatch.setattr(plan, "WIDENED_FACTOR", ORDER - 1)
    a, _ = matrix("well conditioned", "f4", is_definite=True)
    a = a[1:, 1:].copy()  # of an order that has not been planned
    found = oxinp.linalg.cholesky(oxinp.asarray(a), upper=upper)
    assert found.dtype == "f4"
    wide = np.linalg.cholesky(a.astype("f8"), upper=upper)
    assert np.allclose(np.asarray(found), wide, rtol=2 * np.finfo("f4").eps, atol=1e-12)


@pytest.mark.parametrize(("kind", "dtype"), [("ill conditioned", "f8"), ("near-singular", "f8"), ("graded", "c8")])
def test_determinants(kind, dtype):
    a, _ = matrix(kind, dtype)
    wide = a.astype("c16" if a.dtype.kind == "c" else "f8")
    found, truth = both(oxinp.linalg.slogdet, lambda _: tuple(np.linalg.slogdet(wide)), a)
    allowed = 10 * ORDER * np.finfo(dtype).eps * np.linalg.cond(wide)
    assert all(abs(x - y) <= min(allowed, 1e-2) for x, y in zip(found, truth, strict=True))
