"""Householder QR: LAPACK's ratios, its signs and tau, in one block and several, and without spills."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import determinant, qr, qr_cluster, qr_panel, scaling
from oxinp._kernels.lapack import plan as lapack
from oxinp._kernels.lapack.qr import UpperSpec
from oxinp._kernels.lapack.qr_cluster import QrClusterSpec
from oxinp._kernels.lapack.qr_panel import QrPanelSpec
from oxinp._kernels.lapack.scaling import RescaleSpec
from oxinp._kernels.plan import Beside
from oxinp._ptx.types import c64, c128, f32, f64
from tests.kernels.lapack.case import RATIO, draw, qr_of, watch_plans
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine

TYPES = (f32, f64, c64, c128)
DEVICE = SimpleNamespace(num_sms=4, cc=(8, 6), max_shared_nbytes=99 * 1024, tuned=lambda _: None)

CLUSTERS = SimpleNamespace(num_sms=132, cc=(9, 0), max_shared_nbytes=227 * 1024, tuned=lambda _: None)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("f4", (1, 1)), ("f8", (5, 1)), ("c8", (1, 4)), ("f8", (70, 35)), ("c16", (66, 20)), ("f4", (2, 70, 33))],
    ids=str,
)
def test_factors(dtype, shape):
    a = draw(np.random.default_rng(1), dtype, *shape)
    q, r = qr_of(machine(), DEVICE, a)
    allowed = RATIO * shape[-2] * np.finfo(dtype).eps
    residual, whole = (np.linalg.norm(x, 1, axis=(-2, -1)) for x in (a - q @ r, a))
    assert (residual <= allowed * whole).all()
    columns = q.shape[-1]
    assert (np.linalg.norm(q.conj().swapaxes(-1, -2) @ q - np.eye(columns), 1, axis=(-2, -1)) <= allowed).all()
    assert not np.tril(r, -1).any()


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("f8", (140, 40)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("c16", (140, 20)), ("c8", (20, 35)))),
    ],
)
def test_panels_of_a_cluster(dtype, shape):
    a = draw(np.random.default_rng(1), dtype, *shape)
    a[:, 3] = 0
    raw, tau = qr_of(machine(), CLUSTERS, a, "raw")
    (expected, expected_tau), _ = scipy.linalg.qr(a, mode="raw")
    assert np.allclose(tau, expected_tau, rtol=0, atol=1e4 * np.finfo(dtype).eps)
    assert np.allclose(raw, expected, rtol=0, atol=1e4 * np.finfo(dtype).eps)
    q, r = qr_of(machine(), CLUSTERS, a)
    assert np.allclose(q @ r, a, rtol=0, atol=1e4 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("dtype", "shape", "answer"),
    [
        ("f4", (70, 70), {"width": 64}),
        pytest.param("c16", (140, 140), {"width": 128}, marks=pytest.mark.slow),
        ("f8", (50, 40), {"width": 128, "group": 128}),
        pytest.param("c16", (2, 40, 40), {"width": 128, "group": 128}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_widths_of_block_reflectors(dtype, shape, answer):
    a = draw(np.random.default_rng(4), dtype, *shape)
    q, r = qr_of(machine(), SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: answer}), a)
    assert np.allclose(q @ r, a, rtol=0, atol=1e4 * np.finfo(dtype).eps)
    square = q.conj().swapaxes(-1, -2) @ q
    assert np.allclose(square, np.eye(shape[-1]), rtol=0, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("dtype", "shape", "is_late"),
    [
        ("f8", (130, 150), True),
        *(pytest.param("f8", (150, 130), is_late, marks=pytest.mark.slow) for is_late in (False, True)),
        pytest.param("c16", (100, 140), True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_block_columns_that_are_factored_beside_others(dtype, shape, is_late, monkeypatch):
    """Whichever side comes first."""
    answer = {"width": 64, "group": 32, "looks_ahead": True}
    plans = watch_plans(monkeypatch, lapack, "plan_qr", is_late=is_late)
    a = draw(np.random.default_rng(5), dtype, *shape)
    raw, tau = qr_of(machine(), SimpleNamespace(**vars(DEVICE) | {"tuned": lambda _: answer}), a, "raw")
    assert any(isinstance(step, Beside) for step in plans[0].steps)
    (expected, expected_tau), _ = scipy.linalg.qr(a, mode="raw")
    assert np.allclose(tau, expected_tau, rtol=0, atol=1e4 * np.finfo(dtype).eps)
    assert np.allclose(raw, expected, rtol=0, atol=1e4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_reflectors_are_those_of_lapack(dtype):
    a = draw(np.random.default_rng(2), dtype, 45, 20)
    a[:, 3] = 0
    found, tau = qr_of(machine(), DEVICE, a, "raw")
    (expected, expected_tau), _ = scipy.linalg.qr(a, mode="raw")
    allowed = 100 * np.finfo(dtype).eps
    keep = np.arange(20) != 3  # of a zero column, what rounding left there
    assert np.abs(found - expected)[:, keep].max() <= allowed * np.abs(expected).max()
    assert np.abs(tau - expected_tau)[keep].max() <= allowed


@pytest.mark.parametrize(
    ("dtype", "scale"), [("f4", 1e-30), ("f4", 1e30), ("f8", 1e-310), ("f8", 1e-200), ("c16", 1e300), ("f8", 1.0)]
)
def test_matrices_whose_squares_overflow_or_vanish(dtype, scale):
    a = draw(np.random.default_rng(4), dtype, 2, 12, 5)
    a[1] *= scale
    q, r = qr_of(machine(), DEVICE, a)
    tiny = np.finfo(dtype).smallest_subnormal
    for i in range(2):
        expected = np.linalg.qr(a[i].astype("c16" if dtype == "c16" else "f8"), "r")
        allowed = 100 * np.finfo(dtype).eps * np.abs(expected).max() + 4 * tiny
        assert np.abs(r[i] - expected).max() <= allowed
        assert np.abs(q[i].conj().T @ q[i] - np.eye(5)).max() <= 100 * np.finfo(dtype).eps


@pytest.mark.slow
def test_several_block_columns():
    a = draw(np.random.default_rng(3), "f8", 140, 132)
    (r,) = qr_of(machine(), DEVICE, a, "r")
    assert np.abs(r - np.linalg.qr(a, "r")).max() <= 1e-12


KERNELS = [
    *(
        qr_panel.make(QrPanelSpec(type_, height, flag))
        for type_ in TYPES
        for height in (64, 512)
        for flag in (True, False)
    ),
    *(qr.make_upper(UpperSpec(type_, flag)) for type_ in TYPES for flag in (True, False)),
    *(determinant.make(type_) for type_ in TYPES),
    *(scaling.make_largest(type_) for type_ in TYPES),
    *(scaling.make_rescale(RescaleSpec(type_, flag)) for type_ in TYPES for flag in (True, False)),
]


def test_kernels_assemble_without_spills():
    check_assembled(KERNELS)


def test_kernels_of_clusters_assemble_without_spills():
    kernels = [qr_cluster.make(QrClusterSpec(type_, *qr_cluster.SHAPES[-1])) for type_ in (f64, c64)]
    kernels.append(qr_cluster.make(QrClusterSpec(c128, *qr_cluster.SHAPES[-2])))
    check_assembled(kernels, {"sm_90": "8.0"})
