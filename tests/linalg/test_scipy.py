"""`scipy.linalg` on the device: SciPy's results, shapes, dtypes and errors, no fallback where there is a kernel."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.linalg.interpolative

import oxinp
from oxinp import scipy as ours
from oxinp.scipy.linalg import _structures
from tests.comparator import assert_same, outcome

RANDOM = np.random.default_rng(9)
A = RANDOM.standard_normal((5, 5))
C = A + 1j * RANDOM.standard_normal((5, 5))
DATA = {
    "a": A,
    "c": C,
    "f": A.astype("f4"),
    "i": np.arange(25).reshape(5, 5) ** 2 % 11,
    "s": A + A.T,
    "h": C + C.conj().T,
    "p": A @ A.T + np.eye(5),
    "pc": C @ C.conj().T + np.eye(5),
    "t": RANDOM.standard_normal((7, 3)),
    "w": RANDOM.standard_normal((3, 6)),
    "stack": RANDOM.standard_normal((2, 4, 4)),
    "low": np.outer(np.arange(1.0, 7), np.arange(1.0, 5)),
    "v": RANDOM.standard_normal(5),
}

pytestmark = pytest.mark.usefixtures("on_device")


def flat(results):
    """Arrays in nested tuples, in order."""
    return [x for part in results for x in flat(part)] if isinstance(results, tuple) else [results]


def run(code, package, xp):
    return eval(code, {"la": package, "np": xp, **{name: xp.asarray(x) for name, x in DATA.items()}})  # noqa: S307


def check(code, *, is_signed=True):
    expected = flat(run(code, scipy.linalg, np))
    with oxinp.config.override(fallback="error"):
        found = flat(run(code, ours.linalg, oxinp))
    for theirs, own in zip(expected, map(np.asarray, found), strict=True):
        assert own.dtype.kind == np.asarray(theirs).dtype.kind
        assert own.dtype == np.asarray(theirs).dtype or own.dtype.kind in "bi"
        assert own.shape == np.shape(theirs)
        accuracy = 1e-4 if own.dtype.char in "fF" else 1e-11
        both = (own, theirs) if is_signed else (np.abs(own), np.abs(theirs))
        assert np.allclose(*both, rtol=accuracy, atol=accuracy, equal_nan=True)


def slow(codes):
    return [pytest.param(code, marks=pytest.mark.slow) for code in codes]


EVERY = [
    *(f"la.lu({x})" for x in ("c", "f", "t")),
    "la.lu(t, permute_l=True)",
    "la.lu_factor(c)",
    *(f"la.lu_solve(la.lu_factor(a), v, trans={t})" for t in (0, 1)),
    "la.eigvalsh_tridiagonal(v, v[1:])",
    "la.eigvalsh_tridiagonal(v, v[1:], 'v', (-0.5, 1.5))",
    "np.abs(la.eigh_tridiagonal(v, v[1:], select='i', select_range=(1, 2))[1])",
    "la.eigvals_banded(w)",
    "la.eigvals_banded(w.astype('f4'), True, select='i', select_range=(2, 4))",
    "np.abs(la.eig_banded(c[:3])[1])",
    "np.abs(la.eig_banded(c[:2] + 3, lower=True, select='v', select_range=(-1, 3))[1])",
    "la.eigvalsh(s, p, type=2, subset_by_value=(-1, 4))",
    "np.abs(la.eigh(h, pc, type=3)[1])",
    "np.abs(la.eigh_tridiagonal(v * 1e200, v[1:] * 1e200)[1])",
    "la.cosm(a)",
    "la.expm_frechet(a, s)",
    "la.expm_frechet(s, a, compute_expm=False)",
    "la.tanhm(a)",
    "la.tanm(c / 4)",
    "la.sqrtm(pc)",
    "la.signm(s)",
    "la.rq(w)",
    "la.subspace_angles(t, t[:, :2] + 1)",
    *slow(f"la.{name}({x})" for name in ("cosm", "sinm", "coshm", "sinhm", "tanhm") for x in "ac"),
    *slow(["la.tanm(a / 4)", "la.sqrtm(np.abs(a) + 9 * np.eye(5))", "la.rq(c)"]),
    *slow(f"la.rq({x}, mode='{mode}')" for x in "wt" for mode in ("full", "economic", "r")),
    "la.solve(a, v)",
    "la.solve(c, s, assume_a='gen')",
    "la.solve(pc, v, assume_a='pos')",
    "la.solve(h, v, assume_a='her', lower=True)",
    "la.cholesky(pc)",
    "np.triu(la.cho_factor(p)[0])",  # what is in the other half nobody says
    "la.cho_solve(la.cho_factor(pc), v)",
    "la.inv(stack)",
    "la.det(i)",
    *(f"la.qr(t, mode={mode!r})" for mode in ("full", "r", "economic", "raw")),
    "la.svdvals(t)",
    "la.eigvalsh(h, pc, lower=False)",
    "la.eigh(s, eigvals_only=True, subset_by_index=[1, 3])",
    *(f"la.lstsq({x})" for x in ("t, t[:, 0] + 1", "low, low[:, 1]")),
    "la.pinv(w, return_rank=True)",
    "la.pinvh(h, lower=False)",
    "la.polar(c, side='left')",
    *(f"la.expm({x})" for x in ("f", "10 * s", "np.eye(3) * -1e20")),
    "la.norm(a, 2)",
    "la.toeplitz(c[0])",
    "la.hankel(v, v[:3])",
    "la.circulant(v)",
]
EVERY += [
    "la.block_diag(a, v, t)",
    "la.diagsvd(v, 5, 7)",
    "la.companion(v)",
    "la.leslie(v, v[1:])",
    "la.fiedler(v)",
    "la.khatri_rao(a[:, :3], t)",
    *(f"la.convolution_matrix(v, {n}, mode={mode!r})" for n, mode in ((3, "full"), (4, "same"), (7, "valid"))),
    "la.orthogonal_procrustes(a, s)",
    *(f"la.qr_multiply(t, {x})" for x in ("t.T", "v[:3], 'left'", "t[:3], 'left', pivoting=True")),
    "la.qr_multiply(c, c, conjugate=True)",
    "la.solve_circulant(v, s)",
    "la.matmul_toeplitz((v, t[:, 0]), t)",
    "la.matmul_toeplitz(c[0], v)",
    "la.expm_frechet(a, s)",
    "la.logm(p)",
    "la.fractional_matrix_power(a, 3)",
    "la.fractional_matrix_power(c, 2.0)",
    "la.matrix_balance(s)",
    "la.matrix_balance(h, separate=True)",
    *(f"np.asarray([la.issymmetric({x}), la.ishermitian({x})])" for x in ("s", "h", "a")),
    "np.asarray(la.bandwidth(np.triu(a, -1)))",
]
MORE = [
    *(f"la.lu({x})" for x in ("a", "w", "stack")),
    "la.lu(w, p_indices=True)",
    *(f"la.lu_factor({x})" for x in ("a", "t")),
    *(f"la.lu_solve(la.lu_factor(c), v, trans={t})" for t in (0, 1, 2)),
    "la.lu_solve(la.lu_factor(a), s)",
    *(f"la.solve({x}, v)" for x in ("f", "p")),
    *(f"la.solve(a, v, transposed=True, assume_a={x!r})" for x in (None, "upper triangular", "lower triangular")),
    *(f"la.solve(p, s, assume_a={x!r}, lower={low})" for x in ("sym", "pos", "her") for low in (True, False)),
    *(f"la.solve(h, v, assume_a={x!r}, lower={low})" for x in ("sym", "her") for low in (True, False)),
    *(f"la.cholesky({x}, lower=True)" for x in ("p", "pc")),
    *(f"np.tril(la.cho_factor({x}, lower=True)[0])" for x in ("p", "pc")),
    *(f"la.cho_solve(la.cho_factor({x}, True), v)" for x in ("p", "pc")),
    *(f"la.inv({x})" for x in ("a", "c", "f")),
    *(f"la.det({x})" for x in ("a", "c", "stack")),
    *(f"la.qr({x}, mode={mode!r})" for x in ("a", "w") for mode in ("full", "r", "economic", "raw")),
    *(f"la.svdvals({x})" for x in ("a", "f")),
    *(f"la.eigvalsh({x})" for x in ("s", "h", "i + i.T", "s, p")),
    *(f"la.lstsq({x})" for x in ("t, t[:, :2]", "w, w[:, :2]")),
    *(f"la.pinv({x})" for x in ("a", "t", "w", "low", "w, rtol=0.4")),
    *(f"la.pinvh({x})" for x in ("s", "p, return_rank=True")),
    *(f"la.polar({x})" for x in ("a", "t", "w")),
    *(f"la.expm({x})" for x in ("a", "c", "stack", "np.zeros((3, 3))", "np.eye(3) * -1e60")),
    *(f"la.norm({x})" for x in ("a", "v", "a, 1")),
    *(f"la.toeplitz({x})" for x in ("v", "v, v[:3]")),
    "la.hankel(v)",
]


@pytest.mark.parametrize("code", [*EVERY, *(pytest.param(code, marks=pytest.mark.slow) for code in MORE)])
def test_results(code):
    check(code)


@pytest.mark.parametrize(
    "code",
    [
        "la.solve_toeplitz(v + 1, v)",
        "la.solve_toeplitz((c[0] + 5, v), t[:5])",
        "la.solve_toeplitz((f[0] + 5, f[1]), f)",
        "la.solve_toeplitz(i[2] + 40 * np.eye(5, dtype=int)[0], v)",
    ],
)
def test_toeplitz_systems_that_are_large(code, monkeypatch):
    monkeypatch.setattr(_structures, "LEVINSON", 5)
    check(code)


def test_small_toeplitz_systems_are_scipys(stats):
    v = oxinp.asarray(DATA["v"])
    found = ours.linalg.solve_toeplitz(v, v)
    assert stats().fallbacks == {"scipy.linalg.solve_toeplitz": 1}
    assert np.allclose(np.asarray(found), scipy.linalg.solve_toeplitz(DATA["v"], DATA["v"]))


@pytest.mark.parametrize("code", ["la.svd(w)", "la.svd(t, full_matrices=False)", "la.eigh(h)"])
def test_results_up_to_signs(code):
    check(code, is_signed=False)


def test_generalised_vectors():
    a, b = oxinp.asarray(DATA["h"]), oxinp.asarray(DATA["pc"])
    w, v = map(np.asarray, ours.linalg.eigh(a, b))
    assert np.allclose(DATA["h"] @ v, DATA["pc"] @ v * w, rtol=0, atol=1e-11)
    assert np.allclose(v.conj().T @ DATA["pc"] @ v, np.eye(5), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["low", "low.T"])
def test_bases(name):
    matrix = oxinp.asarray(DATA["low"])
    matrix = matrix.T if name.endswith("T") else matrix
    with oxinp.config.override(fallback="error"):
        basis, null = ours.linalg.orth(matrix), ours.linalg.null_space(matrix)
    a, q, z = map(np.asarray, (matrix, basis, null))
    assert q.shape == (a.shape[0], 1)
    assert z.shape == (a.shape[1], a.shape[1] - 1)
    assert np.allclose(q @ (q.T @ a), a, rtol=0, atol=1e-12)
    assert np.allclose(a @ z, 0, rtol=0, atol=1e-12)
    assert np.allclose(z.T @ z, np.eye(z.shape[1]), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "code",
    [
        "la.cholesky(-p)",
        "la.cho_factor(t)",
        "la.lu_factor(np.ones((3, 3)))",
        "la.inv(np.ones((2, 2)))",
        "la.solve(np.ones((3, 3)), np.ones(3))",
        "la.solve(np.array([[1.0, 1], [1, 1 + 1e-15]]), np.ones(2))",
        "la.solve(a, v[:3])",
        "la.solve(a, v, assume_a='nonsense')",
        "la.inv(np.array([[1.0, 1], [1, 1 + 1e-15]]))",
        "la.svd(a * np.nan)",
        "la.eigh(t)",
        "la.eigh(s, subset_by_index=[3, 9])",
        "la.qr(a, mode='nonsense')",
        "la.expm(t)",
        "la.lstsq(t, v)",
    ],
)
def test_errors_and_warnings(code):
    def body(package):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run(code, *package)
        return [flat(result)[0].shape, *((str(w.message), w.category) for w in caught)]

    found = [outcome(lambda _, p=package: body(p), None) for package in ((ours.linalg, oxinp), (scipy.linalg, np))]
    if isinstance(found[1], Exception):
        assert type(found[0]) is type(found[1])
        assert str(found[0]) == str(found[1])
    else:
        assert found[0] == found[1]


def test_roots_that_no_iteration_finds():
    assert np.allclose(np.asarray(ours.linalg.sqrtm(oxinp.asarray(-DATA["p"]))), scipy.linalg.sqrtm(-DATA["p"]))


@pytest.mark.parametrize(
    ("dtype", "rank"),
    [("f8", 1e-9), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("f8", 3), ("c16", 3)))],
)
def test_interpolative_decompositions(rank, dtype):
    """SciPy draws samples, so that columns may be others than its: their properties."""
    rng = np.random.default_rng(3)
    left, right = (rng.standard_normal(shape) for shape in ((7, 3), (3, 5)))
    a = (left @ right).astype(dtype) * (1j if dtype == "c16" else 1)
    with oxinp.config.override(fallback="error"):
        there, parts = oxinp.asarray(a), ours.linalg.interpolative
        *count, columns, projection = parts.interp_decomp(there, rank)
        skeleton = parts.reconstruct_skel_matrix(there, 3, columns)
        again = parts.reconstruct_matrix_from_id(skeleton, columns, projection)
        interpolation = parts.reconstruct_interp_matrix(columns, projection)
        triples = [parts.svd(there, rank), parts.id_to_svd(skeleton, columns, projection)]
        numbers = parts.estimate_rank(there, 1e-9), parts.estimate_spectral_norm(there)
    assert count == ([3] if rank < 1 else [])
    values = np.linalg.svdvals(a)
    assert numbers[0] == 3
    assert np.isclose(numbers[1], values[0], rtol=1e-12)
    products = [np.asarray(skeleton) @ np.asarray(interpolation), again]
    for u, s, v in (map(np.asarray, triple) for triple in triples):
        assert np.allclose(s, values[:3], rtol=1e-12)
        products.append(u * s @ v.conj().T)
    for x in map(np.asarray, products):
        assert np.allclose(x, a, rtol=0, atol=1e-12 * values[0])
    theirs = scipy.linalg.interpolative.interp_decomp(a, rank, rand=False)
    assert np.abs(np.asarray(projection)).max() <= np.abs(theirs[-1]).max() * 4


@pytest.mark.parametrize("name", ["sqrtm", "logm", "cosm", "fractional_matrix_power"])
def test_functions_of_small_matrices_on_the_host_are_scipys(name, config, stats):
    config.offload_threshold = np.inf
    a = np.clip(np.arange(0, 162, 2.0).reshape(9, 9), -9, 9) + np.eye(9) * 360
    given = (0.5,) if name == "fractional_matrix_power" else ()
    found = getattr(ours.linalg, name)(oxinp.asarray(a), *given)
    assert not stats().fallbacks
    assert_same(found, np.asarray(getattr(scipy.linalg, name)(a, *given)))
