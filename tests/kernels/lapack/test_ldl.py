"""Bunch and Kaufman's factorisations: LAPACK's pivots and factors, of both triangles, in the order that SciPy tells."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import ldl, ldl_panel
from oxinp._kernels.lapack.ldl_panel import LdlSpec
from oxinp._ptx.types import c64, c128, f32, f64
from tests.kernels.lapack.case import RATIO, draw, operand_of, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
slow = pytest.mark.slow


def factored(a, *, is_hermitian=True, is_reversed=False):
    """L, D and the order of rows."""
    order = len(a)
    plan = ldl.plan(ldl.Problem(order, is_hermitian, is_reversed), operand_of(a), DEVICE)
    outputs = [np.full((order, order), np.nan, a.dtype), *(np.full(order, np.nan, a.dtype) for _ in range(2))]
    low, d, e, p = run(machine(), plan, [*outputs, np.full(order, 9999, np.uint32)], (a,))
    above = e.conj() if is_hermitian else e
    return low, np.diag(d) + np.diag(e[:-1], -1) + np.diag(above[:-1], 1), p.astype(int)


def check(a, *, is_hermitian=True):
    low, d, p = factored(a, is_hermitian=is_hermitian)
    norm = max(np.linalg.norm(a, 1), np.finfo(a.dtype).tiny)
    right = low.conj().T if is_hermitian else low.T
    assert sorted(p) == list(range(len(a)))
    assert np.linalg.norm(a[p][:, p] - low @ d @ right, 1) / norm <= RATIO * len(a) * np.finfo(a.dtype).eps
    assert np.array_equal(np.triu(low), np.eye(len(a)))
    outer, expected, order = scipy.linalg.ldl(a, hermitian=is_hermitian)
    assert np.array_equal(p, order)
    tolerance = 1000 * len(a) * np.finfo(a.dtype).eps
    assert np.allclose(d, expected, atol=tolerance * norm)
    assert np.allclose(low, outer[order], atol=tolerance * 10)


def symmetric(rng, dtype, order, *, is_hermitian=True):
    x = draw(rng, dtype, order, order)
    return x + (x.conj().T if is_hermitian else x.T)


@pytest.mark.parametrize(
    ("order", "dtype", "is_hermitian"),
    [
        (1, "f8", True),
        (2, "f8", True),
        (7, "f8", True),
        (9, "c16", False),
        (9, "c16", True),
        (40, "f8", True),
        pytest.param(33, "f8", True, marks=slow),
        pytest.param(34, "c8", True, marks=slow),
        pytest.param(97, "f8", True, marks=slow),
        pytest.param(65, "c16", False, marks=slow),
        pytest.param(70, "c16", True, marks=slow),
        pytest.param(99, "f4", True, marks=slow),
    ],
)
def test_lapacks_factors(order, dtype, is_hermitian):
    check(symmetric(np.random.default_rng(order), dtype, order, is_hermitian=is_hermitian), is_hermitian=is_hermitian)


def matrices(n):
    """Kinds of matrices that tell algorithms apart."""
    rng = np.random.default_rng(n)
    x = symmetric(rng, "f8", n)
    saddle = np.zeros((n, n))
    saddle[: n // 2, n // 2 :] = x[: n // 2, n // 2 :]
    low = rng.standard_normal((n, 3))
    gap = x.copy()
    gap[2] = gap[:, 2] = 0
    scale = np.logspace(0, -20, n)
    return {
        "positive definite": x @ x + n * np.eye(n),
        "saddle point": saddle + saddle.T,
        "pairs": np.kron(np.eye(n // 2), np.array([[0.0, 2], [2, 0]])),
        "ones": np.ones((n, n)),
        "column of zeros": gap,
        "diagonal": np.diag(np.arange(1.0, n + 1)),
        "graded": scale[:, None] * x * scale,
        "huge": x * 1e300,
        "tiny": x * 1e-300,
        "rank 3": low @ low.T,
    }


@pytest.mark.parametrize("kind", [pytest.param(x, marks=() if x in ("pairs", "graded") else slow) for x in matrices(6)])
def test_kinds(kind):
    a = matrices(10)[kind]
    if kind in ("ones", "rank 3"):  # what is left is rounding, of which pivots are made
        low, d, p = factored(a)
        assert np.allclose(low @ d @ low.T, a[p][:, p], atol=1e-13)
    else:
        check(a)


@pytest.mark.parametrize("order", [40, pytest.param(64, marks=slow)])
def test_blocks_of_two_on_the_border_of_panels(order):
    """A pair begins with the last column of the first panel, once one row alone has been a pivot."""
    a = np.kron(np.eye(order // 2), np.array([[0.0, 2], [2, 0]]))
    a = np.roll(np.roll(a, 1, axis=0), 1, axis=1)
    a[0, :] = a[:, 0] = 0
    a[-1, :] = a[:, -1] = 0
    a[0, 0], a[-1, -1] = 5, 3
    check(a + 1e-3 * symmetric(np.random.default_rng(1), "f8", order))


def test_equal_magnitudes_in_reverse():
    """LAPACK's upper triangles take of equal magnitudes the first row, which is the last one in reverse."""
    a = symmetric(np.random.default_rng(0), "f8", 8)
    a[:7, 7] = a[7, :7] = np.where(np.arange(7) % 2, 9.0, -9.0)
    a[7, 7] = 0.5
    low, d, p = factored(np.ascontiguousarray(a[::-1, ::-1]), is_reversed=True)
    outer, expected, order = scipy.linalg.ldl(a, lower=False)
    assert np.array_equal((7 - p)[::-1], order)
    assert np.allclose(d[::-1, ::-1], expected)
    assert np.allclose(low[::-1, ::-1], outer[order])


def test_kernels_assemble_without_spills():
    kernels = []
    for type_, height, is_hermitian, is_reversed in (
        (f32, 8, False, False),
        (f64, 8, False, True),
        (f64, 128, False, False),
        (c64, 32, True, False),
        (c128, 32, True, True),
        (c128, 128, False, False),
    ):
        kernels.append(ldl_panel.make(LdlSpec(type_, height, is_hermitian, is_reversed)))
    check_assembled(kernels)
