"""Sweeps of multishift QR iterations: the matrix is transformed by unitary ones, as far as it is active; no spills."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from oxinp._kernels.lapack import bulge_chase, multishift, two_sided
from oxinp._kernels.lapack.bulge_chase import ChaseSpec
from oxinp._kernels.lapack.two_sided import TwoSidedSpec
from oxinp._ptx.types import c128, f32, f64, from_dtype
from tests.kernels.lapack.case import RATIO, draw, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import machine


def matrix_of(dtype, order, active):
    """A Hessenberg matrix whose active block is decoupled from the rest."""
    h = np.triu(draw(np.random.default_rng(order), dtype, order, order), -1)
    for row in (active[0], active[1] + 1):
        if 0 < row < order:
            h[row, row - 1] = 0
    return h


def ratio(h, t, z):
    """Of the residual and of orthogonality, as LAPACK's xHST01."""
    scale = np.finfo(h.dtype).eps * len(h)
    residual = np.linalg.norm(h - z @ t @ z.conj().T, 1) / np.linalg.norm(h, 1)
    return max(residual, np.linalg.norm(z.conj().T @ z - np.eye(len(h)), 1)) / scale


def given_bounds(order, active, count, window=(0, 0)):
    return np.array([*active, count, 0, order - 1, *window, 0], np.int32)


@pytest.mark.parametrize(
    ("dtype", "active", "scale"),
    [
        ("f8", (0, 19), 1.0),
        ("c8", (3, 16), 1.0),
        pytest.param("f8", (3, 16), 1e-150, marks=pytest.mark.slow),
        pytest.param("c16", (0, 19), 1e150, marks=pytest.mark.slow),
        pytest.param("f4", (2, 19), 1.0, marks=pytest.mark.slow),
    ],
)
def test_a_sweep_is_a_similarity_that_leaves_a_hessenberg_matrix(dtype, active, scale):
    order, spec, rng = 20, ChaseSpec(from_dtype(np.dtype(dtype)), 2, 10), np.random.default_rng(3)
    h = matrix_of(dtype, order, active) * np.dtype(dtype).type(scale)
    real = h.real.dtype
    shifts = (rng.standard_normal((2, 2, 2)) * scale).astype(real)
    if h.dtype.kind == "f":  # a pair of conjugates, and two real ones
        shifts[0, 1] = shifts[0, 0] * [1, -1]
        shifts[1, :, 1] = 0
    hops = multishift.num_hops(active[1] - active[0] + 1, 2, spec)
    plan = multishift.plan_step(order, hops, spec, has_vectors=True)
    outputs = [np.full_like(h, np.nan), np.full_like(h, np.nan), np.full((2, order), np.nan, dtype)]
    eye = np.eye(order, dtype=dtype)
    t, z, band = run(machine(), plan, outputs, (h, eye, shifts, given_bounds(order, active, 2)))
    assert not np.tril(t, -2).any()
    assert ratio(h, t, z) <= RATIO / 6
    assert np.array_equal(band, [np.diagonal(t), np.append(0, np.diagonal(t, -1))])
    # The first column of Z is that of the product of all shifted matrices, which decides all others.
    block = h[active[0] : active[1] + 1, active[0] : active[1] + 1].astype("D") / scale
    column = np.eye(len(block))[:, 0].astype("D")
    for re, im in shifts.reshape(-1, 2) / scale:
        column = block @ column - (re + 1j * im) * column
    column /= np.linalg.norm(column)
    own = z[active[0] : active[1] + 1, active[0]]
    assert abs(abs(np.vdot(own, column)) - 1) <= 1e3 * np.finfo(dtype).eps


@pytest.mark.parametrize("has_vectors", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_window_takes_its_place(has_vectors):
    order, low, rows, size = 70, 30, 6, 8
    h = matrix_of("c16", order, (10, 50))
    u = np.linalg.qr(draw(np.random.default_rng(2), "c16", rows, rows))[0]
    whole = scipy.linalg.block_diag(np.eye(low), u, np.eye(order - low - rows))
    expected = whole.conj().T @ h @ whole
    given = np.zeros((2 * size + 1, size), "c16")
    inside = slice(low, low + rows)
    given[:rows, :rows], given[size : size + rows, :rows] = u, expected[inside, inside]
    given[2 * size, 0] = expected[low, low - 1]
    bounds = given_bounds(order, (10, 50), 0, (low, rows))
    z = np.eye(order, dtype="c16") if has_vectors else np.zeros((1, 1), "c16")
    if not has_vectors:
        bounds[3:5] = 10, 50
    plan = multishift.plan_step(order, 0, ChaseSpec(c128, 2, 2), has_vectors=has_vectors)
    t, found = run(machine(), plan, (np.full_like(h, np.nan), np.full_like(z, np.nan)), (h, z, given, bounds))
    if has_vectors:
        assert np.allclose(found, whole, atol=1e-14)
    else:
        expected[:10, inside], expected[inside, 51:] = h[:10, inside], h[inside, 51:]
    # What is left of the window, and the rows below it, are the host's to transform.
    expected[low + 1 :, low - 1], expected[low + rows, low:] = h[low + 1 :, low - 1], h[low + rows, low:]
    assert np.allclose(t, expected, atol=1e-13)


def test_kernels_assemble_without_spills():
    limits = SimpleNamespace(max_shared_nbytes=232448)
    kernels = []
    for type_ in (f32, f64, c128):
        spec = multishift.chain(type_, limits)
        kernels += [bulge_chase.make(spec), two_sided.make(TwoSidedSpec(type_, spec.size))]
        kernels += [two_sided.make_window(type_, spec.size), multishift.make_band(type_)]
    check_assembled(kernels)
