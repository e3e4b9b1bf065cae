"""Hessenberg forms: LAPACK's own by its test ratios, reflectors that give Q, what is zero already, no spills."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import hessenberg, hessenberg_panel
from oxinp._kernels.lapack.hessenberg_panel import HessenbergSpec
from oxinp._ptx.types import c128, f32, f64, from_dtype
from tests.kernels.lapack.case import RATIO, draw, operand_of, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
slow = pytest.mark.slow


def reduced(a):
    """H, the reflectors, tau and Q of a matrix."""
    n = len(a)
    shapes = (n, n), hessenberg.reflectors_shape(n), (n,)
    plan = hessenberg.plan_reduce(n, operand_of(a), DEVICE)
    h, v, tau = run(machine(), plan, [np.full(shape, np.nan, a.dtype) for shape in shapes], (a,))
    applied = hessenberg.plan_apply((n, n), from_dtype(a.dtype), DEVICE)
    (q,) = run(machine(), applied, [np.full_like(a, np.nan)], (v, tau, np.eye(n, dtype=a.dtype)))
    return h, v, tau, q


def norm(a):
    return np.linalg.norm(a, 1)


def ratios(a, h, q):
    """Of the residual and of orthogonality, as LAPACK's xHST01."""
    scale = np.finfo(a.dtype).eps * len(a)
    residual = norm(a - q @ h @ q.conj().T) / max(norm(a), np.finfo(a.dtype).tiny)
    return max(residual, norm(q.conj().T @ q - np.eye(len(a)))) / scale


@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        (5, "f8"),
        pytest.param(36, "f8", marks=slow),
        (6, "c8"),
        pytest.param(37, "c16", marks=slow),
        pytest.param(70, "f4", marks=slow),
        pytest.param(99, "f8", marks=slow),
    ],
)
def test_lapacks_form(n, dtype):
    a = draw(np.random.default_rng(n), dtype, n, n)
    h, _, _, q = reduced(a)
    assert not np.tril(h, -2).any()
    assert ratios(a, h, q) <= RATIO / 6
    expected = scipy.linalg.hessenberg(a)
    tolerance = 1e4 * np.finfo(a.dtype).eps * norm(a)
    assert np.allclose(np.abs(h), np.abs(expected), atol=tolerance)
    assert np.allclose(np.diagonal(h, -1), np.diagonal(expected, -1), atol=tolerance)  # signs, too


def test_what_is_zero_already_stays():
    n = 6
    a = np.triu(draw(np.random.default_rng(1), "f8", n, n), -1)
    h, v, tau, q = reduced(a)
    assert np.array_equal(h, a)
    assert np.array_equal(np.abs(q), np.eye(n))
    assert not tau.any()
    assert np.array_equal(v[:, : n - 1], np.eye(n - 1))


def test_isolated_eigenvalues_stay_where_balancing_put_them():
    n, low, high = 8, 2, 6
    a = np.triu(draw(np.random.default_rng(2), "f8", n, n))
    a[low:high, low:high] = draw(np.random.default_rng(3), "f8", high - low, high - low)
    h, _, _, q = reduced(a)
    assert not np.tril(h, -1)[:, :low].any()
    assert not np.tril(h, -1)[high:].any()
    assert ratios(a, h, q) <= RATIO / 6


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_norms(scale):
    a = draw(np.random.default_rng(4), "f8", 7, 7) * scale
    h, _, _, q = reduced(a)
    assert ratios(a, h, q) <= RATIO / 6


def test_which_there_are_kernels_for():
    device = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)
    assert hessenberg.is_possible(f64, 8192, device)
    assert hessenberg.is_possible(c128, 4096, device)
    assert not hessenberg.is_possible(f64, 2, device)


def test_kernels_assemble_without_spills():
    kernels = []
    for type_, height in ((f32, 8), (f64, 128), (c128, 16)):
        kernels.append(hessenberg.make_upper_rows(type_))
        kernels.append(hessenberg_panel.make(HessenbergSpec(type_, 2048, height, height < 128)))
    check_assembled(kernels)
