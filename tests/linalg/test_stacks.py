"""Stacks of matrices, of any shape, and integers: what NumPy and SciPy make of them, without the host's functions."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from oxinp.scipy.linalg import _structures
from tests.comparator import outcome

RANDOM = np.random.default_rng(9)
STACK = RANDOM.standard_normal((2, 1, 4, 4))
OTHER = RANDOM.standard_normal((2, 4, 4))
DEFINITE = STACK @ STACK.swapaxes(-1, -2) + 4 * np.eye(4)
STABLE = STACK / 2 + 4 * np.eye(4)
BAND = np.concatenate([STACK[..., :2, :] / 9, np.full((2, 1, 1, 4), 5.0)], axis=-2)
VECTORS = STACK[..., 0, :]

FACTORS = scipy.linalg.lu_factor(DEFINITE[0, 0])
UPPER = np.triu(STACK) + 4 * np.eye(4)
BANDS = np.stack([VECTORS, VECTORS + 6, VECTORS / 2], axis=-2)
COLUMN = VECTORS + 9 * np.eye(4)[0]
WEIGHTS = np.eye(2)

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")

FUNCTIONS = {
    "cosm": (STACK,),
    "sinm": (STACK,),
    "tanm": (STACK,),
    "coshm": (STACK,),
    "sinhm": (STACK,),
    "tanhm": (STACK,),
    "sqrtm": (DEFINITE,),
    "signm": (DEFINITE,),
    "logm": (DEFINITE,),
    "orth": (STACK,),
    "null_space": (STACK[..., :2, :],),
    "subspace_angles": (STACK[..., :2], OTHER[..., :2]),
    "pinv": (STACK,),
    "pinvh": (DEFINITE,),
    "rq": (STACK,),
    "lstsq": (STACK[..., :2], OTHER),
    "expm_frechet": (STACK, OTHER),
    "solve_sylvester": (STABLE, STABLE, OTHER),
    "solve_continuous_lyapunov": (STABLE, OTHER),
    "solve_discrete_lyapunov": (STACK / 9, OTHER),
    "qr_multiply": (STACK, OTHER),
    "orthogonal_procrustes": (STACK, OTHER),
    "eig_banded": (BAND,),
    "eigvals_banded": (BAND,),
    "eigvalsh_tridiagonal": (VECTORS, VECTORS[..., 1:]),
    "hessenberg": (STACK,),
    "eigvals": (STACK,),
    "cho_factor": (DEFINITE,),
}
QUICK = ("cosm", "pinv", "lstsq", "eigvalsh_tridiagonal", "cho_factor", "qr_multiply", "hessenberg")


def flat(results):
    return tuple(results) if isinstance(results, tuple | list) else (results,)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else slow) for name in FUNCTIONS])
def test_stacks_are_scipys(name, stats):
    given = FUNCTIONS[name]
    found = flat(getattr(oxinp.scipy.linalg, name)(*map(oxinp.asarray, given)))
    assert all(":" in key for key in stats().fallbacks)  # iterations alone
    expected = flat(getattr(scipy.linalg, name)(*given))
    assert len(found) == len(expected)
    for x, y in zip(found, map(np.asarray, expected), strict=True):
        x = np.asarray(x)  # noqa: PLW2901
        assert x.shape == y.shape
        assert x.dtype.kind == y.dtype.kind
        if name in ("orth", "null_space"):  # bases, but for signs
            x, y = x @ x.swapaxes(-1, -2), y @ y.swapaxes(-1, -2)  # noqa: PLW2901
        if name == "eig_banded" and x.ndim == 4:
            x, y = np.abs(x), np.abs(y)  # noqa: PLW2901
        if name == "cho_factor":  # below are what was there, or zeros, by version
            x, y = (z if z.ndim < 2 else np.triu(z) for z in (x, y))  # noqa: PLW2901
        if name == "eigvals":
            x, y = np.sort_complex(x), np.sort_complex(y)  # noqa: PLW2901
        assert np.allclose(x, y, atol=1e-9)


def with_structure(name, function="solve"):
    given = {"upper triangular": (UPPER,), "lower triangular": (UPPER.swapaxes(-1, -2),), "pos": (DEFINITE,)}
    (a,) = given.get(name, (STACK + STACK.swapaxes(-1, -2) + 9 * np.eye(4),))
    if function == "inv":
        return lambda la, xp: la.inv(xp(a), assume_a=name)
    return lambda la, xp: la.solve(xp(a), xp(OTHER), assume_a=name)


STRUCTURES = ("pos", "sym", "her", "diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular")
CALLS = {f"solve, {name}": with_structure(name) for name in STRUCTURES} | {
    "inv, pos": with_structure("pos", "inv"),
    "inv, sym": with_structure("sym", "inv"),
    "solve, transposed": lambda la, xp: la.solve(xp(STABLE), xp(OTHER), transposed=True),
    "solve_banded": lambda la, xp: la.solve_banded((1, 1), xp(BANDS), xp(OTHER)),
    "solve_banded, vector": lambda la, xp: la.solve_banded((1, 1), xp(BANDS), xp(OTHER[0, 0])),
    "solveh_banded": lambda la, xp: la.solveh_banded(xp(BAND), xp(OTHER)),
    "solveh_banded, lower": lambda la, xp: la.solveh_banded(xp(BAND[..., ::-1, :]), xp(OTHER), lower=True),
    "cho_solve_banded": lambda la, xp: la.cho_solve_banded((xp(BAND), False), xp(OTHER)),
    "lu_solve": lambda la, xp: la.lu_solve((xp(FACTORS[0]), xp(FACTORS[1])), xp(OTHER), trans=1),
    "lu_solve, stack": lambda la, xp: la.lu_solve((xp(STABLE), xp(np.full((2, 1, 4), 3))), xp(OTHER[0, 0])),
    "cho_solve": lambda la, xp: la.cho_solve((xp(UPPER), False), xp(OTHER)),
    "cho_solve, vector": lambda la, xp: la.cho_solve((xp(UPPER), False), xp(OTHER[0, 0])),
    "qr, pivoting": lambda la, xp: [abs(x) for x in la.qr(xp(STACK), pivoting=True)],
    "lstsq, gelsy": lambda la, xp: la.lstsq(xp(STACK[..., :2]), xp(OTHER), lapack_driver="gelsy")[0],
    "eigh, by value": lambda la, xp: la.eigh(xp(DEFINITE), eigvals_only=True, subset_by_value=[0, 1e9]),
    "lu_factor": lambda la, xp: la.lu_factor(xp(STACK)),
    "polar": lambda la, xp: la.polar(xp(STACK)),
    "matmul_toeplitz": lambda la, xp: la.matmul_toeplitz(xp(VECTORS), xp(OTHER)),
    "solve_continuous_are": lambda la, xp: la.solve_continuous_are(
        xp(STACK), xp(OTHER[..., :2]), xp(DEFINITE), xp(WEIGHTS)
    ),
    "solve_discrete_are": lambda la, xp: la.solve_discrete_are(
        xp(STACK / 9), xp(OTHER[..., :2]), xp(DEFINITE), xp(WEIGHTS)
    ),
    "matrix_balance": lambda la, xp: la.matrix_balance(xp(DEFINITE), separate=True),
    "bandwidth": lambda la, xp: la.bandwidth(xp(UPPER)),
    "issymmetric": lambda la, xp: la.issymmetric(xp(DEFINITE), rtol=1e-9),
    "ishermitian": lambda la, xp: la.ishermitian(xp(1j * DEFINITE)),
    "khatri_rao": lambda la, xp: la.khatri_rao(xp(STACK), xp(OTHER)),
    "block_diag": lambda la, xp: la.block_diag(xp(STACK), xp(OTHER[0, :2])),
    "circulant": lambda la, xp: la.circulant(xp(VECTORS)),
    "toeplitz": lambda la, xp: la.toeplitz(xp(VECTORS), xp(OTHER[..., 0])),
    "companion": lambda la, xp: la.companion(xp(COLUMN)),
    "convolution_matrix": lambda la, xp: la.convolution_matrix(xp(VECTORS), 3, "same"),
    "fiedler": lambda la, xp: la.fiedler(xp(VECTORS)),
    "leslie": lambda la, xp: la.leslie(xp(VECTORS), xp(VECTORS[..., 1:])),
    "diagsvd": lambda la, xp: la.diagsvd(xp(VECTORS), 4, 5),
    "solve_circulant": lambda la, xp: la.solve_circulant(xp(COLUMN), xp(OTHER), baxis=-1, outaxis=-1),
    "solve_circulant, along": lambda la, xp: la.solve_circulant(xp(COLUMN), xp(OTHER[0]), caxis=2),
}
"""Calls of stacks, and of one vector or matrix with stacks."""
LATER = ("bandwidth", "eigh, by value", "inv, pos", "inv, sym", "matrix_balance", "solve_circulant, along")
"""Of which SciPy's results are of one kind from a version on."""


SLOW = ("solve_discrete_are",)  # by the steps of continuous ones, and of single ones in test_equations.py


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow if name in SLOW else ()) for name in CALLS])
def test_calls_of_stacks_are_scipys(name, stats):
    found = outcome(lambda xp: CALLS[name](xp.scipy.linalg, xp.asarray), oxinp)
    counted = dict(stats().fallbacks)
    expected = outcome(lambda _: CALLS[name](scipy.linalg, np.asarray), np)
    if isinstance(expected, Exception):
        assert type(found) is type(expected)
        return
    assert not counted or name in LATER
    assert isinstance(found, list) == isinstance(expected, list)
    assert isinstance(found, tuple) == isinstance(expected, tuple)
    for x, y in zip(flat(found), map(np.asarray, flat(expected)), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert np.allclose(np.asarray(x), y, atol=1e-9)


def test_toeplitz_systems_of_many_rows_together(monkeypatch, stats):
    monkeypatch.setattr(_structures, "LEVINSON", 8)
    c = oxinp.asarray(COLUMN)
    for b in (OTHER, OTHER[0, 0]):
        found = oxinp.scipy.linalg.solve_toeplitz((c, oxinp.asarray(VECTORS[0])), oxinp.asarray(b))
        assert not stats().fallbacks
        assert np.allclose(oxinp.asnumpy(found), scipy.linalg.solve_toeplitz((COLUMN, VECTORS[0]), b))


def test_bands_of_stacks_that_are_not_definite_are_scipys_error():
    band = np.stack([BAND[0, 0], -BAND[0, 0]])
    for function in (scipy.linalg.solveh_banded, oxinp.scipy.linalg.solveh_banded):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            function(band, OTHER[0])


@pytest.mark.parametrize("right", [OTHER, pytest.param(OTHER[0, 0], marks=slow), pytest.param(OTHER[0], marks=slow)])
def test_stacks_of_systems_are_scipys(right, stats):
    found = oxinp.scipy.linalg.solve(oxinp.asarray(STABLE), oxinp.asarray(right))
    assert not stats().fallbacks
    expected = scipy.linalg.solve(STABLE, right)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.allclose(np.asarray(found), expected)


def test_stacks_with_one_ill_conditioned_system_warn_at_the_users_line(stats):
    a = np.stack([np.eye(3), np.diag([1.0, 1, 1e-20]) + 1e-25])
    with pytest.warns(scipy.linalg.LinAlgWarning, match=r"[Ii]ll-conditioned") as told:
        found = oxinp.scipy.linalg.solve(oxinp.asarray(a), oxinp.ones((2, 3, 1)))
    assert told[0].filename == __file__
    assert stats().fallbacks["scipy.linalg.solve"] == 1
    with pytest.warns(scipy.linalg.LinAlgWarning):
        assert np.allclose(np.asarray(found), scipy.linalg.solve(a, np.ones((2, 3, 1))))
    with pytest.raises(np.linalg.LinAlgError, match=r"[Ss]ingular"):
        oxinp.scipy.linalg.solve(oxinp.asarray(a * np.diag([1.0, 0, 1])), oxinp.ones((2, 3, 1)))


@pytest.mark.parametrize("name", ["eigvals", pytest.param("eig", marks=slow)])
def test_eigenvalues_of_stacks_are_numpys(name, stats):
    found = getattr(oxinp.linalg, name)(oxinp.asarray(STACK))
    assert all(":" in key for key in stats().fallbacks)
    expected = getattr(np.linalg, name)(STACK)
    assert isinstance(found, tuple) == isinstance(expected, tuple)
    for x, y in zip(flat(found), flat(expected), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert np.allclose(np.asarray(x), y)


@pytest.mark.parametrize("name", ["hessenberg", *(pytest.param(x, marks=slow) for x in ("schur", "eig", "eigvals"))])
def test_integers_are_converted(name, stats):
    a = np.rint(STACK[0, 0] * 9).astype("i4")
    found = flat(getattr(oxinp.scipy.linalg, name)(oxinp.asarray(a)))
    assert all(":" in key for key in stats().fallbacks)
    for x, y in zip(found, flat(getattr(scipy.linalg, name)(a)), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert np.allclose(np.asarray(x), y)


@pytest.mark.parametrize("name", ["solve_triangular", "pinv", "ldl", "eig", "cosm"])
def test_stacks_without_matrices_are_as_scipys(name):
    given = (np.zeros((0, 3, 3)),) * (2 if name == "solve_triangular" else 1)
    expected = outcome(lambda linalg: getattr(linalg, name)(*given), scipy.linalg)
    found = outcome(lambda linalg: getattr(linalg, name)(*map(oxinp.asarray, given)), oxinp.scipy.linalg)
    assert type(found) is type(expected) or not isinstance(expected, Exception)
    if isinstance(expected, Exception):
        assert str(found) == str(expected)
    else:
        assert [x.shape for x in flat(found)] == [x.shape for x in flat(expected)]


def test_small_matrices_of_a_large_stack_are_scipys(config, stats):
    config.offload_threshold = 1 << 10
    stack = np.broadcast_to(STACK, (9, 2, 1, 4, 4))
    found = oxinp.scipy.linalg.cosm(oxinp.asarray(stack))
    assert not stats().fallbacks  # they are placed on the host
    assert np.allclose(np.asarray(found), scipy.linalg.cosm(stack))


def test_results_of_various_sizes_are_scipys():
    a = np.stack([np.eye(3), np.diag([1.0, 1, 0])])
    for package in (scipy, oxinp.scipy):
        with pytest.raises(ValueError, match=r"inhomogeneous|broadcast|shape"):
            package.linalg.orth(a if package is scipy else oxinp.asarray(a))
