"""Large symmetric matrices: tridiagonal ones by divide and conquer, panels, reflectors; LAPACK's ratios, no spills."""

from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.lapack import (
    block_reflectors,
    conquer,
    divide,
    sturm,
    symmetric,
    tridiagonal,
    tridiagonal_cluster,
    tridiagonal_panel,
)
from oxinp._kernels.lapack.divide import DivideSpec
from oxinp._kernels.lapack.sturm import SturmSpec
from oxinp._kernels.lapack.symmetric import FinishSpec
from oxinp._kernels.lapack.tridiagonal import spec_of
from oxinp._kernels.plan import Launch
from oxinp._ptx.types import c64, c128, f32, f64, from_dtype
from tests.kernels.lapack.case import RATIO, draw, operand_of, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

DEVICE = SimpleNamespace(num_sms=3, cc=(8, 0), max_shared_nbytes=160 * 1024, tuned=lambda _: None)
HOPPER = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=232448, tuned=lambda _: None)
LEAF = 4
slow = pytest.mark.slow


def ratios(a, w, q):
    """Of the residual and of orthogonality."""
    scale = np.finfo(a.dtype).eps * a.shape[-1]
    norm = np.maximum(np.linalg.norm(a, 1, axis=(-2, -1)), np.finfo(a.dtype).tiny)
    residual = np.linalg.norm(a @ q - q * w[..., None, :], 1, axis=(-2, -1)) / norm
    orthogonal = np.linalg.norm(q.conj().swapaxes(-1, -2) @ q - np.eye(a.shape[-1], dtype=a.dtype), 1, axis=(-2, -1))
    return max(residual.max(), orthogonal.max()) / scale


def conquered(d, e):
    """Values and vectors of tridiagonal matrices."""
    count, n = d.shape
    padded = conquer.tree(n, LEAF).padded
    plan = conquer.plan(from_dtype(d.dtype), count, n, DEVICE, LEAF)
    shapes = (count, padded), (count, padded, padded)
    w, q = run(machine(), plan, [np.full(shape, np.nan, d.dtype) for shape in shapes], (d, e))
    return w[:, :n], q[:, :n, :n]


def tridiagonals(n):
    """Diagonals and what lies beside them, of kinds of matrices that tell algorithms apart."""
    rng, ones = np.random.default_rng(n), np.ones(n)
    glued = np.where(np.arange(n) % 5 == 4, 1e-13, 1.0)
    kinds = {
        "random": (rng.standard_normal(n), rng.standard_normal(n)),
        "Toeplitz": (2 * ones, -ones),
        "zero": (0 * ones, 0 * ones),
        "diagonal": (rng.standard_normal(n), 0 * ones),
        "Wilkinson": (np.abs(np.arange(n) - n // 2) * 1.0, ones),
        "glued": (np.abs(np.arange(n) % 5 - 2) * 1.0, glued),
        "graded": (np.logspace(0, -16, n), np.logspace(0, -16, n)),
        "nearly the identity": (ones, 1e-9 * ones),
    }
    return (np.stack([x[i] for x in kinds.values()]) for i in range(2))


@pytest.mark.parametrize(("n", "dtype"), [(3, "f8"), (11, "f4"), (11, "f8"), pytest.param(27, "f8", marks=slow)])
def test_tridiagonal_matrices(n, dtype):
    d, e = (x.astype(dtype) for x in tridiagonals(n))
    w, q = conquered(d, e)
    whole = np.zeros((len(d), n, n), dtype)
    i = np.arange(n)
    whole[:, i, i] = d
    whole[:, i[:-1], i[1:]] = whole[:, i[1:], i[:-1]] = e[:, :-1]
    assert (np.diff(w) >= 0).all()
    assert ratios(whole, w, q) <= RATIO / 6


@pytest.mark.parametrize(("n", "dtype"), [(3, "f8"), (11, "f8"), (35, "f4")])
def test_values_of_tridiagonal_matrices(n, dtype):
    d, e = (x.astype(dtype) for x in tridiagonals(n))
    scale = np.array([1e-30, 1e30, 1, 1, 1, 1, 1, 1], dtype)[:, None]
    plan = sturm.plan(from_dtype(d.dtype), len(d), n)
    (w,) = run(machine(), plan, [np.full(d.shape, np.nan, d.dtype)], (d * scale, e * scale))
    assert (np.diff(w) >= 0).all()
    whole = np.zeros((len(d), n, n))
    i = np.arange(n)
    whole[:, i, i] = d
    whole[:, i[:-1], i[1:]] = whole[:, i[1:], i[:-1]] = e[:, :-1]
    right = np.linalg.eigvalsh(whole)
    units = np.abs(right).max(axis=-1, keepdims=True) * np.finfo(dtype).eps
    # What is right has errors of its own, but for float32.
    assert (np.abs(w.astype("f8") / scale - right) <= units * (1 if dtype == "f4" else n)).all()


@pytest.mark.parametrize(
    ("count", "n", "dtype"),
    [
        (3, 5, "f8"),
        (2, 6, "c8"),
        (1, 18, "f8"),
        pytest.param(1, 19, "c16", marks=slow),
        pytest.param(1, 36, "f4", marks=slow),
        pytest.param(1, 34, "c16", marks=slow),
        pytest.param(1, 40, "f8", marks=slow),
        pytest.param(2, 67, "f4", marks=slow),
    ],
)
def test_symmetric_matrices(count, n, dtype):
    a = draw(np.random.default_rng(n), dtype, count, n, n)
    a = a + a.conj().swapaxes(-1, -2)
    given = np.where(np.tri(n, dtype=bool), a, a.dtype.type(np.nan))
    plan = symmetric.plan(a.shape, operand_of(given), DEVICE, has_vectors=True)
    values = np.full((count, n), np.nan, a.real.dtype)
    w, q = run(machine(), plan, [values, np.full(a.shape, np.nan, dtype)], (given,))
    assert (np.diff(w) >= 0).all()
    assert ratios(a, w, q) <= RATIO / 6
    if n < 10:
        plan = symmetric.plan(a.shape, operand_of(given), DEVICE, has_vectors=False)
        alone, status = run(machine(), plan, [np.full((count, n), np.nan, a.real.dtype), np.full(1, -1)], (given,))
        assert status == -1
        assert np.abs(alone - w).max() <= RATIO / 6 * n * np.finfo(dtype).eps * np.abs(w).max()


@pytest.mark.parametrize(
    ("count", "n", "dtype"),
    [
        (2, 20, "f4"),
        pytest.param(1, 37, "f8", marks=slow),
        pytest.param(1, 18, "c8", marks=slow),
        pytest.param(1, 35, "c16", marks=slow),
    ],
)
def test_last_rows_by_a_cluster(monkeypatch, count, n, dtype):
    """Of the whole matrix, and of what a panel leaves."""
    a = draw(np.random.default_rng(n), dtype, count, n, n)
    a = a + a.conj().swapaxes(-1, -2)
    for height in (-(-n // 16), (n - 1) // 16):
        monkeypatch.setattr(tridiagonal_cluster, "HEIGHTS", {a.itemsize: (height,)})
        plan = symmetric.plan(a.shape, operand_of(a), HOPPER, has_vectors=True)
        names = [step.kernel.name for step in plan.steps if isinstance(step, Launch)]
        is_whole = 16 * height >= n
        assert names.count("tridiagonal_cluster") == (is_whole or n > tridiagonal.WIDTH)
        assert names.count("tridiagonal_panel") == (not is_whole)
        w, q = run(machine(), plan, [np.full((count, n), np.nan, a.real.dtype), np.full_like(a, np.nan)], (a,))
        assert (np.diff(w) >= 0).all()
        assert ratios(a, w, q) <= RATIO / 6


@pytest.mark.parametrize(
    ("order", "num_sms", "room"), [(4500, 132, 227 << 10), (8192, 132, 227 << 10), (4096, 108, 163 << 10)]
)
def test_every_panel_has_a_kernel_where_the_first_has(order, num_sms, room):
    """Of 4500 rows of c128, what lies beside v is largest once tiles are small enough for sums of their own."""
    device = SimpleNamespace(num_sms=num_sms, cc=(9, 0), max_shared_nbytes=room, tuned=lambda _: None)
    assert tridiagonal.is_possible(c128, 1, order, device)
    height = tridiagonal.cut(c128, 1, order, device).height
    for first in range(0, order, tridiagonal.WIDTH):
        spec = spec_of(c128, order, order - first, height, device)
        assert spec is not None, first
        assert spec.shared_nbytes <= room


@pytest.mark.parametrize("n", [19, pytest.param(35, marks=slow)])
def test_tiles_of_fewer_columns_than_loads(monkeypatch, n):
    monkeypatch.setattr(tridiagonal, "ROWS_AT_ONCE", {9: 2})
    a = draw(np.random.default_rng(n), "c16", 1, n, n)
    a = a + a.conj().swapaxes(-1, -2)
    plan = symmetric.plan(a.shape, operand_of(a), DEVICE, has_vectors=True)
    w, q = run(machine(), plan, [np.full((1, n), np.nan), np.full(a.shape, np.nan, "c16")], (a,))
    assert ratios(a, w, q) <= RATIO / 6


def test_zeros_and_diagonals_by_a_cluster():
    a = np.stack([np.zeros((6, 6)), np.diag(np.arange(6.0)), np.ones((6, 6)), np.full((6, 6), np.nan)])
    plan = symmetric.plan(a.shape, operand_of(a), HOPPER, has_vectors=True)
    w, q = run(machine(), plan, [np.full((4, 6), 7.0), np.full(a.shape, 7.0)], (a,))
    assert ratios(a[:3], w[:3], q[:3]) <= RATIO / 6
    assert np.isnan(w[3]).all()
    assert w[:2].tolist() == [[0.0] * 6, list(range(6))]


def test_scales_and_what_is_not_finite():
    rng = np.random.default_rng(2)
    a = rng.standard_normal((4, 5, 5)) * np.array([1, 1e-290, 1e290, 1])[:, None, None]
    a = a + a.swapaxes(-1, -2)
    a[3, 2, 1] = np.inf
    plan = symmetric.plan(a.shape, operand_of(a), DEVICE, has_vectors=True)
    w, q = run(machine(), plan, [np.full((4, 5), 7.0), np.full(a.shape, 7.0)], (a,))
    assert np.isnan(w[3]).all()
    assert np.isnan(q[3]).all()
    plan = symmetric.plan(a.shape, operand_of(a), DEVICE, has_vectors=False)
    _, status = run(machine(), plan, [np.full((4, 5), 7.0), np.full(1, -1)], (a,))
    assert status == 3
    scale = np.abs(a[:3]).max(axis=(-2, -1), keepdims=True)
    assert ratios(a[:3] / scale, w[:3] / scale[..., 0], q[:3]) <= RATIO / 6


def test_which_there_are_kernels_for():
    for type_, order in ((f32, 16384), (f32, 16383), (f64, 8192), (f64, 8191), (c64, 16384), (c128, 8192)):
        assert symmetric.is_possible(type_, 1, order, HOPPER)
    assert symmetric.is_possible(f64, 1000, 256, HOPPER)
    assert symmetric.is_possible(c64, 1, 1000, HOPPER)
    assert not symmetric.is_possible(f64, 1, 1 << 17, HOPPER)


@pytest.mark.slow
def test_kernels_assemble_without_spills():
    kernels = []
    for type_ in (c64, c128):
        kernels += [tridiagonal_panel.make(spec_of(type_, n, n, -(-n // 132), HOPPER)) for n in (64, 1000, 2048, 4096)]
        kernels += [block_reflectors.make_diagonal(type_), symmetric.make_finish(FinishSpec(type_, False))]
    for type_ in (f32, f64):
        plain = (divide.SPLIT, divide.ROOTS, divide.WEIGHTS, divide.VECTORS, divide.ROTATE)
        kernels += [divide.make(DivideSpec(type_, what)) for what in plain]
        kernels.append(divide.make(DivideSpec(type_, divide.PREPARE, 4096)))
        kernels.append(sturm.make(SturmSpec(type_, 4096)))
        kernels += [
            tridiagonal_panel.make(spec_of(type_, n, n, -(-n // 132), HOPPER)) for n in (64, 1024, 4096, 8191, 8192)
        ]
        kernels += [tridiagonal_panel.make(spec_of(type_, n, n, n, HOPPER)) for n in (100, 256)]
        kernels.append(block_reflectors.make_diagonal(type_))
        kernels += [symmetric.make_finish(FinishSpec(type_, *flags)) for flags in ((True, True), (True,), (False,))]
    check_assembled(kernels)


@pytest.mark.slow
def test_kernels_of_clusters_assemble_without_spills():
    specs = [
        tridiagonal_cluster.choose(type_, 1, rows, HOPPER) for type_ in (f32, f64, c64, c128) for rows in (100, 400)
    ]
    check_assembled([tridiagonal_cluster.make(spec) for spec in specs], {"sm_90": "8.0"})
