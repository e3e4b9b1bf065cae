"""Products and systems with triangular, symmetric and Hermitian matrices: in every form."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from oxinp._kernels.blas3 import plan as blas3
from oxinp._kernels.blas3 import symmetrize, trsm
from oxinp._kernels.gemm.epilogue import scaled
from oxinp._kernels.gemm.operand import Matrices
from oxinp._ptx.types import c128, f64, from_dtype
from tests.kernels.blas3.case import (
    HERMITIAN,
    SYMMETRIC,
    TRIANGULAR,
    Form,
    draw,
    full,
    rank_k,
    solution,
)
from tests.kernels.machine import execute, machine
from tests.thinned import thinned

DTYPES = ["f4", "f8", "c8", "c16"]
BOOLS = [False, True]
# As little shared memory as there is anywhere.
DEVICE = SimpleNamespace(num_sms=2, cc=(8, 6), max_shared_nbytes=99 * 1024, tuned=lambda _: None)


def check_product(found, a, b):
    """Compare with what higher precision gives."""
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    exact = a.astype(wide) @ b.astype(wide)
    bound = (a.shape[-1] + 2) * np.finfo(a.dtype).eps * (np.abs(a).astype(np.longdouble) @ np.abs(b))
    assert (np.abs(found - exact) <= bound).all()


FORMS = [
    Form(TRIANGULAR, is_lower=True),
    Form(TRIANGULAR, is_lower=False),
    Form(TRIANGULAR, is_lower=True, has_unit_diagonal=True),
    Form(TRIANGULAR, is_lower=False, has_unit_diagonal=True, is_conjugated=True),
    Form(SYMMETRIC, is_lower=True),
    Form(SYMMETRIC, is_lower=False),
    Form(HERMITIAN, is_lower=True, is_conjugated=True),
    Form(HERMITIAN, is_lower=False),
]


def name_of(form):
    if isinstance(form, str):
        return form
    return "-".join(
        [
            form.kind,
            "lower" if form.is_lower else "upper",
            *(name for name in ("has_unit_diagonal", "is_conjugated") if getattr(form, name)),
        ]
    )


@pytest.mark.parametrize("form", FORMS, ids=name_of)
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_symmetrised_matrices(dtype, form):
    here, a = machine(), draw(np.random.default_rng(9), dtype, 2, 35, 35)
    a[:, ~np.tri(35, dtype=bool) if form.is_lower else np.tri(35, k=-1, dtype=bool)] = np.nan  # not used
    type_ = from_dtype(np.dtype(dtype))
    plan = symmetrize.plan(a.shape, Matrices(type_, (35 * 35, 1, 35), 256), form, DEVICE)
    pointers = [here.upload(np.full(a.shape, np.nan, dtype)), here.upload(np.ascontiguousarray(a.swapaxes(1, 2)))]
    execute(here, plan, pointers[:1], pointers[1:])
    found = here.download(pointers[0], a.nbytes).view(dtype).reshape(a.shape)
    assert np.array_equal(found, [full(np.where(np.isnan(x), 0, x), form) for x in a])
    for pointer in pointers:
        here.free(pointer)


@pytest.mark.parametrize(("flags", "dtype"), thinned(list(itertools.product(BOOLS, repeat=3)), DTYPES), ids=str)
def test_rank_k(flags, dtype):
    is_hermitian, is_lower, is_mirrored = flags
    a = draw(np.random.default_rng(3), dtype, 75, 41)
    options = {"is_lower": is_lower, "is_hermitian": is_hermitian, "is_mirrored": is_mirrored}
    found = rank_k(machine(), DEVICE, a, is_column_major=is_lower, **options)
    half = np.tri(75, dtype=bool)
    half = half if is_lower else half.T
    assert is_mirrored or np.isnan(found[~half]).all()
    if is_mirrored:
        assert np.array_equal(found, found.conj().T if is_hermitian else found.T)
    other = a.conj().T if is_hermitian else a.T
    check_product(np.where(half, found, a @ other), a, other)
    if is_hermitian:
        assert not np.diagonal(found).imag.any()


def test_rank_k_with_alpha_and_a_batch():
    a = draw(np.random.default_rng(4), "f8", 2, 2, 33, 40)
    found = rank_k(machine(), DEVICE, a, is_lower=True, is_mirrored=True, epilogue=scaled(f64), extras=(-2.0,))
    np.testing.assert_allclose(found, -2 * a @ a.swapaxes(-1, -2), rtol=1e-12, atol=1e-12)


def well_conditioned(rng, dtype, n):
    """A matrix whose triangles, with their diagonal or a unit one, are far from singular."""
    return draw(rng, dtype, n, n) / n + 2 * np.eye(n, dtype=dtype)


def check_solution(found, a, b, *, is_left):
    """The residual is what rounding every step may leave."""
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    x = found.astype(wide)
    residual = (a.astype(wide) @ x if is_left else x @ a.astype(wide)) - b
    magnitudes = (np.abs(a), np.abs(x)) if is_left else (np.abs(x), np.abs(a))
    bound = (len(a) + 4) * np.finfo(a.dtype).eps * (magnitudes[0] @ magnitudes[1] + np.abs(b))
    assert (np.abs(residual) <= bound).all()


SYSTEMS = [form for form in FORMS if form.kind == TRIANGULAR]


@pytest.mark.parametrize("dtype", ["f4", pytest.param("c16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("form", "side", "order"), thinned(SYSTEMS, ["left", "right"], ["C", "F"]), ids=name_of)
def test_systems(form, side, order, dtype):
    is_left, is_column_major = side == "left", order == "F"
    rng = np.random.default_rng(5)
    n = trsm.length(from_dtype(np.dtype(dtype))) + 19
    a, b = well_conditioned(rng, dtype, n), draw(rng, dtype, *((n, 37) if is_left else (37, n)))
    a[~np.tri(n, dtype=bool) if form.is_lower else np.tri(n, k=-1, dtype=bool)] = np.nan  # not used
    if form.has_unit_diagonal:
        np.fill_diagonal(a, np.nan)
    found = solution(machine(), DEVICE, a, b, form, is_left=is_left, is_column_major=is_column_major)
    check_solution(found, full(np.where(np.isnan(a), 0, a), form), b, is_left=is_left)


# Whose blocks have room for the kernels for tensor cores.
ROOMY = [SimpleNamespace(**vars(DEVICE) | {"max_shared_nbytes": 160 * 1024, "cc": cc}) for cc in ((8, 0), (9, 0))]


@pytest.mark.parametrize("device", [DEVICE, *ROOMY], ids=["fma", "sm_80", "sm_90"])
@pytest.mark.parametrize("n", [1, 5, 32, 300])
def test_systems_of_every_size(n, device):
    rng = np.random.default_rng(n)
    a, b = well_conditioned(rng, "f8", n), draw(rng, "f8", n, 3)
    check_solution(solution(machine(), device, a, b, SYSTEMS[0]), full(a, SYSTEMS[0]), b, is_left=True)


@pytest.mark.parametrize("form", SYSTEMS, ids=name_of)
def test_systems_by_tensor_cores(form):
    rng, n = np.random.default_rng(9), 145
    a, b = well_conditioned(rng, "f8", n), draw(rng, "f8", n, 70)
    a[~np.tri(n, dtype=bool) if form.is_lower else np.tri(n, k=-1, dtype=bool)] = np.nan  # not used
    if form.has_unit_diagonal:
        np.fill_diagonal(a, np.nan)
    found = solution(machine(), ROOMY[1], a, b, form)
    check_solution(found, full(np.where(np.isnan(a), 0, a), form), b, is_left=True)


@pytest.mark.parametrize("device", [DEVICE, ROOMY[1]], ids=["fma", "sm_90"])
def test_residuals_of_bad_systems_are_small(device):
    """Substitution, unlike an inverse, does not mind: the random triangle's condition is beyond 1e20."""
    rng = np.random.default_rng(6)
    a, b = draw(rng, "f8", 100, 100), draw(rng, "f8", 100, 4)
    assert np.linalg.cond(np.tril(a)) > 1e16
    check_solution(solution(machine(), device, a, b, SYSTEMS[0]), full(a, SYSTEMS[0]), b, is_left=True)


@pytest.mark.parametrize("device", [DEVICE, ROOMY[1]], ids=["fma", "sm_90"])
def test_batches_of_systems(device):
    rng = np.random.default_rng(7)
    a, b = np.stack([well_conditioned(rng, "f8", 150) for _ in range(2)]), draw(rng, "f8", 2, 150, 5)
    found = solution(machine(), device, a, b, SYSTEMS[1])
    for own, x, y in zip(found, a, b, strict=True):
        check_solution(own, full(x, SYSTEMS[1]), y, is_left=True)


def test_transposes():
    rng = np.random.default_rng(8)
    a = well_conditioned(rng, "c16", 20)
    matrices = Matrices(c128, (20, 1), 16)
    transpose, form = blas3.transposed(matrices, Form(TRIANGULAR, is_lower=True), is_conjugated=True)
    assert transpose.strides == (1, 20)
    assert np.array_equal(full(a.T, form), np.tril(a).conj().T)
