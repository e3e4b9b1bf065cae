"""QR with column pivoting: LAPACK's pivots, signs and ratios, also where norms cancel or matrices lack rank."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import pivoted, pivoted_panel
from oxinp._kernels.lapack.pivoted_panel import PivotedSpec
from oxinp._ptx.types import c128, f32, f64
from tests.kernels.lapack.case import RATIO, draw, operand_of, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
slow = pytest.mark.slow


def factored(a, mode="reduced"):
    """Which columns, and what a mode gives."""
    rows, columns = a.shape
    depth = min(a.shape)
    shapes = {
        "reduced": [(rows, depth), (depth, columns)],
        "complete": [(rows, rows), (rows, columns)],
        "r": [(rows, columns)],
        "raw": [(rows, columns), (depth,)],
    }[mode]
    plan = pivoted.plan(a.shape, operand_of(a), DEVICE, mode)
    outputs = [np.full(columns, 9999, np.uint32), *(np.full(shape, np.nan, a.dtype) for shape in shapes)]
    order, *found = run(machine(), plan, outputs, (a,))
    return order.astype(int), *found


def check(a, order, q, r):
    """LAPACK's ratios, and what pivoting is for."""
    scale = max(a.shape) * np.finfo(a.dtype).eps
    norm = max(np.linalg.norm(a, 1), np.finfo(a.dtype).tiny)
    assert sorted(order) == list(range(a.shape[1]))
    assert np.linalg.norm(a[:, order] - q @ r, 1) / norm <= RATIO * scale
    assert np.linalg.norm(q.conj().T @ q - np.eye(q.shape[1]), 1) <= RATIO * scale
    assert not np.tril(r, -1).any()
    diagonal = np.abs(np.diagonal(r))
    assert (diagonal[1:] <= diagonal[:-1] * (1 + 100 * scale) + scale * norm).all()


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [
        (7, 20, "f8"),
        pytest.param(33, 34, "f8", marks=slow),
        (9, 7, "c8"),
        pytest.param(13, 40, "f8", marks=slow),
        pytest.param(45, 37, "f8", marks=slow),
        pytest.param(40, 40, "c16", marks=slow),
        pytest.param(70, 99, "f8", marks=slow),
        pytest.param(99, 66, "f4", marks=slow),
    ],
)
def test_lapacks_factors(rows, columns, dtype):
    a = draw(np.random.default_rng(rows), dtype, rows, columns)
    order, q, r = factored(a)
    check(a, order, q, r)
    _, expected, pivots = scipy.linalg.qr(a, pivoting=True, mode="economic")
    assert np.array_equal(order, pivots)
    tolerance = 100 * max(a.shape) * np.finfo(a.dtype).eps * np.abs(expected).max()
    assert np.allclose(r, expected, atol=tolerance)  # signs, too


def matrices(n):
    """Kinds of matrices that tell algorithms apart."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, n))
    low = rng.standard_normal((n, 4)) @ rng.standard_normal((4, n))
    kahan = np.triu(-0.9 * np.ones((n, n)), 1) + np.eye(n)
    kahan *= np.sqrt(1 - 0.81) ** np.arange(n)[:, None]
    return {
        "low rank": low,
        "equal columns": np.ones((n, n)),
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "Kahan": kahan,
        "graded": x * np.logspace(0, -30, n),
        "graded rows": np.logspace(0, -30, n)[:, None] * x,
        "nearly dependent": low + 1e-9 * x,
        "huge": x * 1e300,
        "tiny": x * 1e-300,
    }


QUICK = ("low rank", "equal columns", "graded")


@pytest.mark.parametrize("kind", [pytest.param(x, marks=() if x in QUICK else slow) for x in matrices(6)])
def test_kinds(kind):
    a = matrices(6)[kind]
    order, q, r = factored(a)
    check(a, order, q, r)
    expected = scipy.linalg.qr(a, pivoting=True)
    if kind in ("graded", "equal columns", "zero", "identity", "huge"):
        assert np.array_equal(order, expected[2])
    rank = np.count_nonzero(np.abs(np.diagonal(expected[1])) > 1e-13 * np.abs(a).max())
    assert np.allclose(np.abs(np.diagonal(r))[:rank], np.abs(np.diagonal(expected[1]))[:rank], rtol=1e-6)


def test_norms_that_cancel_are_computed_again():
    """After the first column the others have 1e-9 of their norms left, of which no digit is known by subtraction."""
    n = 12
    rng = np.random.default_rng(3)
    a = np.outer(rng.standard_normal(n), np.ones(n)) + 1e-9 * rng.standard_normal((n, n))
    order, q, r = factored(a)
    check(a, order, q, r)
    assert np.array_equal(order[1:6], scipy.linalg.qr(a, pivoting=True)[2][1:6])


def test_modes():
    a = draw(np.random.default_rng(5), "f8", 7, 4)
    order, q, r = factored(a, "complete")
    check(a, order, q, r)
    assert np.array_equal(factored(a, "r")[1], r)
    (packed, tau), _, _ = scipy.linalg.qr(a, mode="raw", pivoting=True)
    _, ours, found = factored(a, "raw")
    assert np.allclose(ours, packed)
    assert np.allclose(found, tau)


def test_kernels_assemble_without_spills():
    kernels = []
    for type_, height, strip in ((f32, 8, 8), (f64, 128, 16), (c128, 16, 8)):
        kernels.append(pivoted.make_norms(type_))
        kernels.append(pivoted_panel.make(PivotedSpec(type_, 2048, height, strip)))
    check_assembled(kernels)
