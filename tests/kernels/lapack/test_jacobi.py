"""Jacobi's method: LAPACK's ratios over its kinds of matrices, only triangles read, zero vectors counted, no spills."""

import numpy as np
import pytest

from oxinp._kernels.lapack import jacobi, spectrum
from oxinp._kernels.lapack.jacobi import EIGEN, LANES, SINGULAR, JacobiSpec
from oxinp._ptx.types import c64, c128, f32, f64
from tests.kernels.lapack.case import RATIO, draw, operand_of, run
from tests.kernels.lapack.spills import check_assembled
from tests.kernels.machine import TINY_DEVICE, machine
from tests.ptx.assembler import sampled

DTYPES = ["f4", "f8", "c8", "c16"]
MAX_NBYTES = 232448
slow = pytest.mark.slow


def adjoint(a):
    return a.conj().swapaxes(-1, -2)


def ratio(difference, *norms):
    """A ratio of LAPACK's, of the worst matrix."""
    found = [np.linalg.norm(x, 1, axis=(-2, -1)) for x in (difference, *norms)]
    return np.max(found[0] / (difference.shape[-1] * np.finfo(difference.dtype).eps * np.prod(found[1:], axis=0)))


def orthogonality(q):
    return ratio(adjoint(q) @ q - np.eye(q.shape[-1], dtype=q.dtype))


def eigh(a, *, has_vectors=True):
    plan = spectrum.plan_eigh(a.shape, operand_of(a), TINY_DEVICE, has_vectors=has_vectors)
    values = np.full(a.shape[:-1], np.nan, a.real.dtype)
    vectors = [np.full(a.shape, np.nan, a.dtype)] if has_vectors else []
    return run(machine(), plan, [values, *vectors, np.full(2, 77, "i8")], (a,))


def svd(a, *, has_vectors=True):
    *batch, rows, columns = a.shape
    depth = min(rows, columns)
    plan = spectrum.plan_svd(a.shape, operand_of(a), TINY_DEVICE, has_vectors=has_vectors)
    outputs = [np.full((*batch, depth), np.nan, a.real.dtype), np.full(2, 77, "i8")]
    if has_vectors:
        outputs.insert(0, np.full((*batch, rows, depth), np.nan, a.dtype))
        outputs.insert(2, np.full((*batch, depth, columns), np.nan, a.dtype))
    return run(machine(), plan, outputs, (a,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, pytest.param(8, marks=slow), pytest.param(13, marks=slow)])
def test_hermitian(n, dtype):
    a = draw(np.random.default_rng(n), dtype, 5, n, n)
    a = a + adjoint(a)
    w, v, status = eigh(np.where(np.tri(n, dtype=bool), a, np.nan))
    assert status.tolist() == [-1, 0]
    assert (np.diff(w) >= 0).all()
    assert ratio(a @ v - v * w[:, None], a) <= RATIO / 10
    assert orthogonality(v) <= RATIO / 10
    alone, status = eigh(a, has_vectors=False)
    assert np.array_equal(alone, w)
    assert status.tolist() == [-1, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (5, 3), pytest.param(4, 4, marks=slow), pytest.param(5, 7, marks=slow)]
)
def test_singular_values(rows, columns, dtype):
    a = draw(np.random.default_rng(rows), dtype, 3, rows, columns)
    u, s, vh, status = svd(a)
    assert status.tolist() == [-1, 0]
    assert (np.diff(s) <= 0).all()
    assert (s >= 0).all()
    assert ratio(a - u * s[:, None] @ vh, a) <= RATIO / 10
    assert max(orthogonality(u), orthogonality(adjoint(vh))) <= RATIO / 10
    assert np.array_equal(svd(a, has_vectors=False)[0], s)


@pytest.mark.parametrize("n", [9, pytest.param(17, marks=slow)])
def test_blocks_of_fewer_matrices(n):
    a = draw(np.random.default_rng(n), "f4", 5, n, n)
    u, s, vh, _ = svd(a)
    assert ratio(a - u * s[:, None] @ vh, a) <= RATIO / 10


def spectra(n):
    """Eigenvalues or singular values of LAPACK's kinds of test matrices."""
    return {
        "graded": np.logspace(0, -16, n),
        "one large": np.r_[1, np.full(n - 1, 1e-14)],
        "one small": np.r_[np.ones(n - 1), 1e-14],
        "equal": np.ones(n),
        "of both signs": np.where(np.arange(n) % 2, 1.0, -1.0),
        "half zeros": np.where(np.arange(n) < n // 2, 1.0, 0.0),
        "tiny": np.linspace(1, 2, n) * 1e-300,
        "huge": np.linspace(1, 2, n) * 1e300,
    }


def test_kinds_of_matrices():
    rng, n = np.random.default_rng(7), 8
    kinds = spectra(n)
    q, p = (np.linalg.qr(rng.standard_normal((len(kinds), n, n)))[0] for _ in range(2))
    values = np.stack(list(kinds.values()))
    symmetric = q * values[:, None] @ adjoint(q)
    symmetric = np.tril(symmetric) + adjoint(np.tril(symmetric, -1))
    scale = 1 / np.abs(symmetric).max(axis=(-2, -1), keepdims=True)
    w, v, status = eigh(symmetric)
    assert status.tolist() == [-1, 0]
    assert ratio((symmetric * scale) @ v - v * (w * scale[..., 0])[:, None], symmetric * scale) <= RATIO / 10
    assert orthogonality(v) <= RATIO / 10
    general = q * values[:, None] @ p
    scale = 1 / np.abs(general).max(axis=(-2, -1), keepdims=True)
    u, s, vh, status = svd(general)
    assert status.tolist() == [-1, 0]
    assert ratio(general * scale - u * (s * scale[..., 0])[:, None] @ vh, general * scale) <= RATIO / 10
    assert max(orthogonality(u), orthogonality(adjoint(vh))) <= RATIO / 10


def test_diagonal_matrices_are_exact():
    values = np.array([3.0, -1e-20, 7.0, 0.1, 2.0])
    w, v, _ = eigh(np.diag(values)[None])
    assert np.array_equal(w[0], np.sort(values))
    assert np.array_equal(v[0], np.eye(5)[:, np.argsort(values)])
    u, s, vh, _ = svd(np.diag(np.abs(values))[None])
    assert np.array_equal(s[0], -np.sort(-np.abs(values)))
    assert np.array_equal(u[0] * s[0] @ vh[0], np.diag(np.abs(values)))


def test_zero_vectors_are_counted_and_last():
    a = np.zeros((2, 4, 3))
    a[0, :, 0] = 1
    u, s, vh, status = svd(a)
    assert status.tolist() == [-1, 5]
    assert s.tolist() == [[2, 0, 0], [0, 0, 0]]
    assert np.array_equal(np.abs(u[0]).sum(axis=0), [2, 0, 0])
    assert orthogonality(vh) == 0


def test_what_is_not_finite():
    a = np.stack([np.eye(3), np.full((3, 3), np.inf), np.diag([1, np.nan, 2])])
    w, v, status = eigh(a)
    assert status.tolist() == [1, 0]
    assert np.isnan(w).tolist() == [[False] * 3, [True] * 3, [True] * 3]
    assert np.isnan(v[1:]).all()
    *_, status = svd(a)
    assert status[0] == 1
    assert np.isnan(svd(a[:2])[1]).tolist() == [[False] * 3, [True] * 3]


@pytest.mark.parametrize(("order", "has_vectors", "is_told"), [(2, True, False), (26, True, False), (26, False, True)])
def test_what_is_not_finite_is_told_of_where_iterations_would_not_end(order, has_vectors, is_told):
    a = np.full((1, order, order), np.inf)
    *_, status = eigh(a, has_vectors=has_vectors)
    assert status.tolist() == [0 if is_told else -1, 0]


def test_layouts():
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((2, 3, 9, 6))
    for a in (whole, whole.swapaxes(-1, -2)[..., :6, :6]):
        flat = np.ascontiguousarray(a[..., :6, :6])
        w, _, _ = eigh(flat)
        assert np.allclose(w, np.linalg.eigvalsh(flat), rtol=0, atol=1e-13)
    u, s, vh, _ = svd(whole)
    assert np.allclose(u * s[..., None, :] @ vh, whole, rtol=0, atol=1e-13)


SPECS = [
    spec
    for type_ in (f32, f64, c64, c128)
    for side in LANES
    for spec in (JacobiSpec(type_, side, what, vectors) for what in (EIGEN, SINGULAR) for vectors in (True, False))
    if spec.shared_nbytes <= MAX_NBYTES
]


@pytest.mark.slow
def test_kernels_assemble_without_spills():
    check_assembled([jacobi.make(spec) for spec in sampled(SPECS)])
