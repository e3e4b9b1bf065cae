"""Solvers on the device against SciPy's: iterates, status, number of steps, errors."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as theirs
from numpy.linalg import LinAlgError

import oxinp
from oxinp import sparse
from oxinp.sparse import _compressed, _rows, linalg
from oxinp.sparse._executed import executed
from oxinp.sparse.linalg import _dense_factors, _gmres
from tests.comparator import assert_same
from tests.sparse.matrices import kinds
from tests.sparse.test_operations import fallen, ours
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("on_device")
KINDS = kinds(80)
GRID = KINDS["laplacian-2d"] / 64.0 + 0.1 * scipy.sparse.eye_array(KINDS["laplacian-2d"].shape[0], format="csr")
SKEW = scipy.sparse.csr_array(GRID + 0.02 * scipy.sparse.random_array(GRID.shape, density=0.1, rng=1))
SKEW.sum_duplicates()
RIGHT = np.random.default_rng(0).normal(size=GRID.shape[0])


FAST, OTHERS = ("cg", "bicgstab", "cgs", "gmres"), ("minres", "bicg", "tfqmr", "lgmres", "gcrotmk", "qmr")


@pytest.mark.parametrize("name", [*FAST, *[pytest.param(name, marks=pytest.mark.slow) for name in OTHERS]])
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"rtol": 1e-10}, marks=pytest.mark.slow), {"maxiter": 3}], ids=str
)
def test_iterates_are_scipys(name, options, stats):
    matrix = GRID if name in ("cg", "minres") else SKEW
    found, status = getattr(linalg, name)(ours(matrix), oxinp.array(RIGHT), **options)
    expected, its_status = getattr(theirs, name)(matrix, RIGHT, **options)
    assert status == its_status
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-7, atol=1e-9)
    assert not {key for key in fallen(stats) if "sparse" in key}


@pytest.mark.parametrize("name", ["lsqr", "lsmr"])
@pytest.mark.parametrize(
    "options", [{"damp": 0.1}, pytest.param({"atol": 1e-12, "btol": 1e-12}, marks=pytest.mark.slow)]
)
def test_least_squares_are_scipys(name, options, stats):
    """Solutions, why they stopped, and after how many steps."""
    matrix = scipy.sparse.csr_array(WIDE[:12, :20].T)
    right = RIGHT[:20]
    found = getattr(linalg, name)(ours(matrix), oxinp.array(right), **options)
    expected = getattr(theirs, name)(matrix, right, **options)
    np.testing.assert_allclose(np.asarray(found[0]), expected[0], rtol=1e-7, atol=1e-9)
    assert found[1:3] == expected[1:3]
    assert not {key for key in fallen(stats) if "sparse" in key}


@pytest.mark.parametrize("name", ["cg", "bicgstab", "cgs", "gmres"])
def test_steps_do_not_wait(name, stats):
    """Beyond a look at the outcome now and then, nothing is read by the host."""
    options = {"rtol": 1e-30, "restart": 6, "maxiter": 3} if name == "gmres" else {"rtol": 1e-30, "maxiter": 20}
    getattr(linalg, name)(ours(SKEW), oxinp.array(RIGHT), **options)
    before = stats().d2h_bytes
    getattr(linalg, name)(ours(SKEW), oxinp.array(RIGHT), **options)
    assert stats().d2h_bytes - before < (1400 if name == "gmres" else 200)


@pytest.mark.parametrize(("shift", "made_at_a_time"), [(0.0, [3, 3, 3]), (4.0, [3, 2, 2, 2]), (1e4, [3, 2])])
@pytest.mark.parametrize("restart", [6, pytest.param(7, marks=pytest.mark.slow)])
def test_gmres_makes_several_vectors_at_a_time(monkeypatch, shift, made_at_a_time, restart, stats):
    """Three where enough is left of products; else two, or one, from then on."""
    made, by_s_steps = [], _gmres._space_by_s_steps

    def followed(matrix, first, count, steps):
        made.append(steps)
        return by_s_steps(matrix, first, count, steps)

    monkeypatch.setattr(_gmres, "_space_by_s_steps", followed)
    matrix = SKEW + shift * scipy.sparse.eye_array(SKEW.shape[0], format="csr")
    options = {"restart": restart, "maxiter": 3, "rtol": 1e-30}
    found, status = linalg.gmres(ours(matrix), oxinp.array(RIGHT), **options)
    expected, its_status = theirs.gmres(matrix, RIGHT, **options)
    assert status == its_status
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10, atol=1e-10 * abs(expected).max())
    assert made == made_at_a_time
    assert not {key for key in fallen(stats) if "sparse" in key}


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_solvers_narrow_indices(monkeypatch, name, stats):
    """The same bits, of fewer bytes."""
    options = {"rtol": 1e-30} | ({"restart": 4, "maxiter": 2} if name == "gmres" else {"maxiter": 9})
    wide, _ = getattr(linalg, name)(ours(GRID), oxinp.array(RIGHT), **options)
    monkeypatch.setattr(_rows, "MIN_NARROW", 1)
    matrix = ours(GRID)
    narrow, _ = getattr(linalg, name)(matrix, oxinp.array(RIGHT), **options)
    assert_same(narrow, np.asarray(wide))
    assert _compressed.narrow_rows(matrix)[0].indices.dtype == np.int16
    assert not {key for key in fallen(stats) if "sparse" in key}


def test_composed_functions_compute_on_the_device(stats):
    """Those of modules below NumPy and SciPy are ours in SciPy's code, too."""
    matrix, right = ours(SKEW), oxinp.array(RIGHT)
    found, expected = linalg.bicg(matrix, right, maxiter=2), theirs.bicg(SKEW, RIGHT, maxiter=2)
    np.testing.assert_allclose(np.asarray(found[0]), expected[0], rtol=1e-10)
    np.testing.assert_allclose(float(linalg.norm(matrix)), theirs.norm(SKEW))
    assert not fallen(stats)


def test_one_namespace_stands_for_all_arrays():
    """Newer versions of SciPy compare an operator's with that of what it is applied to."""
    namespace = executed("scipy.sparse.linalg._interface").__dict__["__builtins__"]["__import__"]("numpy")
    assert namespace is executed("scipy.sparse.linalg._norm").__dict__["__builtins__"]["__import__"]("numpy")


def test_operators_and_preconditioners_get_our_arrays():
    seen = []

    def halve(x):
        seen.append(type(x))
        return x * 0.5

    matrix, right = ours(GRID), oxinp.array(RIGHT)
    inverse = linalg.LinearOperator(GRID.shape, halve, dtype=float)
    found, status = linalg.cg(linalg.aslinearoperator(matrix), right, M=inverse, rtol=1e-9)
    assert status == 0
    assert set(seen) == {oxinp.ndarray}
    expected, _ = theirs.cg(GRID, RIGHT, M=theirs.LinearOperator(GRID.shape, lambda x: x * 0.5, dtype=float), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-7)
    steps = []
    linalg.cg(matrix, right, callback=lambda x: steps.append(type(x)), rtol=1e-9)
    counted = []
    theirs.cg(GRID, RIGHT, callback=counted.append, rtol=1e-9)
    assert len(steps) == len(counted)
    assert set(steps) == {oxinp.ndarray}


def test_breakdowns_and_zeros():
    matrix = ours(SKEW)
    for name in ("cg", "bicgstab", "cgs", "gmres"):
        found, status = getattr(linalg, name)(matrix, oxinp.zeros(SKEW.shape[0]))
        assert status == 0
        assert_same(found, np.zeros(SKEW.shape[0]))
        x0 = theirs.spsolve(SKEW.tocsc(), RIGHT)
        found, status = getattr(linalg, name)(matrix, oxinp.array(RIGHT), oxinp.array(x0))
        assert status == 0
        assert_same(found, x0)
    rotation = scipy.sparse.csr_array(np.kron(np.eye(40), [[0.0, 1], [-1, 0]]))
    right = np.ones(80)
    assert linalg.bicgstab(ours(rotation), oxinp.array(right))[1] == theirs.bicgstab(rotation, right)[1] != 0


@pytest.mark.parametrize("call", ["cg(A, b[:3])", "cg(A[:9], b)", "gmres(A, b, atol=-1)", "cg(A, b, M=A[:9])"])
def test_errors_are_scipys(call):
    with pytest.raises(ValueError) as expected:
        eval(f"theirs.{call}", {"theirs": theirs, "A": GRID, "b": RIGHT})  # noqa: S307 - our own code
    with pytest.raises(ValueError) as found:
        eval(f"ours.{call}", {"ours": linalg, "A": ours(GRID), "b": oxinp.array(RIGHT)})  # noqa: S307
    assert str(found.value).split("=")[0] == str(expected.value).split("=")[0]


@pytest.mark.parametrize(
    ("case", "format_"), thinned(list(itertools.product([True, False], repeat=2)), ["csr", "csc"]), ids=str
)
@pytest.mark.parametrize("kind", ["laplacian-2d", pytest.param("dense-row", marks=pytest.mark.slow)])
def test_triangular_systems(kind, case, format_, stats):
    lower, unit_diagonal = case
    matrix = KINDS[kind] / 500 + scipy.sparse.eye_array(KINDS[kind].shape[0], format="csr")
    matrix = (scipy.sparse.tril if lower else scipy.sparse.triu)(matrix).asformat(format_)
    rng = np.random.default_rng(2)
    made = ours(matrix)
    for right in [rng.normal(size=(matrix.shape[0], *more)) for more in ((), (), (2,))]:
        options = {"lower": lower, "unit_diagonal": unit_diagonal}
        found = linalg.spsolve_triangular(made, oxinp.array(right), **options)
        expected = theirs.spsolve_triangular(matrix, right, **options)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-11, atol=1e-13)
    assert not fallen(stats)


@pytest.mark.parametrize("dtype", [*(pytest.param(x, marks=pytest.mark.slow) for x in ("f4", "c8")), "c16"])
def test_long_rows_of_triangular_systems(dtype, stats):
    rng = np.random.default_rng(3)
    dense = np.tril(rng.normal(size=(99, 99)) / 99 + np.eye(99)).astype(dtype)
    matrix, right = scipy.sparse.csr_array(dense), rng.normal(size=99).astype(dtype)
    found = linalg.spsolve_triangular(ours(matrix), oxinp.array(right))
    assert found.dtype == dtype
    tolerance = 1e-3 if dtype != "c16" else 1e-11
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(dense, right), rtol=tolerance)
    right = rng.normal(size=(99, 40)).astype(dtype)  # more than the lanes of a warp
    found = linalg.spsolve_triangular(ours(matrix), oxinp.array(right))
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(dense, right), rtol=tolerance, atol=1e-5 * tolerance)
    assert not fallen(stats)


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("largest", "maxiter", "inverse"),
    [(True, 3, False), *[pytest.param(each, 40, not each, marks=pytest.mark.slow) for each in (True, False)]],
)
@pytest.mark.filterwarnings("ignore:Exited:UserWarning")
def test_lobpcg_takes_scipys_steps(dtype, largest, maxiter, inverse, stats):
    """Ritz values after a few steps, and after many, of which some vectors need fewer."""
    matrix = (GRID + scipy.sparse.diags_array(np.arange(float(RIGHT.size)) ** 2 / 1e3)).astype(dtype).tocsr()
    start = np.random.default_rng(4).normal(size=(RIGHT.size, 3)).astype(dtype)
    options = {"largest": largest, "maxiter": maxiter, "tol": 1e-6}
    both = [(ours, oxinp.array, linalg), (lambda x: x, np.copy, theirs)]
    found, expected = (
        side.lobpcg(
            of(matrix),
            array(start),
            M=of(scipy.sparse.diags_array(1 / matrix.diagonal()).tocsr()) if inverse else None,
            **options,
        )
        for of, array, side in both
    )
    np.testing.assert_allclose(np.asarray(found[0]), expected[0], rtol=1e-9)
    np.testing.assert_allclose(abs(np.asarray(found[1])), abs(expected[1]), atol=1e-4)
    assert not {name for name in fallen(stats) if "sparse" in name}


def test_singular_triangles():
    matrix = scipy.sparse.csr_array(np.diag([1.0, 0, 2]) + np.eye(3, k=-1))
    with pytest.raises(LinAlgError, match="A is singular: zero entry on diagonal"):
        linalg.spsolve_triangular(ours(matrix), oxinp.ones(3))


WIDE = scipy.sparse.csr_array(scipy.sparse.random_array((60, 90), density=0.1, rng=5))


@pytest.mark.parametrize(
    ("which", "dtype", "ncv"),
    [("SA", "f8", 10), *[pytest.param("LM", dtype, 12, marks=pytest.mark.slow) for dtype in ("c16", "f4")]],
)
def test_eigenvalues(which, dtype, ncv, stats):
    """Eigenvalues are ARPACK's, in its order, with several cycles where these are short; vectors are orthonormal."""
    apart = np.r_[-90, -70, -50, -30, np.zeros(52), 30, 50, 70, 99]
    matrix = scipy.sparse.csr_array(WIDE @ WIDE.T + scipy.sparse.diags_array(apart))
    if dtype == "c16":
        phases = scipy.sparse.diags_array(np.exp(1j * np.arange(60)))
        matrix = scipy.sparse.csr_array(phases @ matrix @ phases.conj())
    matrix = matrix.astype(dtype)
    tolerance = {"rtol": 1e-9, "atol": 1e-10} if dtype != "f4" else {"rtol": 1e-3, "atol": 1e-4}
    values, vectors = linalg.eigsh(ours(matrix), 4, which=which, ncv=ncv)
    assert_same(np.sort(values), np.asarray(values))
    np.testing.assert_allclose(np.asarray(values), np.sort(theirs.eigsh(matrix, 4, which=which)[0]), **tolerance)
    vectors = np.asarray(vectors)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(4), atol=tolerance["atol"])
    np.testing.assert_allclose(matrix @ vectors, vectors * np.asarray(values), atol=1e3 * tolerance["atol"])
    found = linalg.eigsh(ours(matrix), 4, which=which, return_eigenvectors=False, v0=np.ones(60))
    expected = theirs.eigsh(matrix, 4, which=which, return_eigenvectors=False)
    np.testing.assert_allclose(np.asarray(found), expected, **tolerance)
    assert not fallen(stats)


def test_eigenvalues_that_are_there_twice(stats):
    """Those of a square grid, which a Krylov space has once each: what rounding adds makes the others."""
    found, expected = (module.eigsh(a, 3, which="SA")[0] for module, a in ((linalg, ours(GRID)), (theirs, GRID)))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)
    assert abs(expected[2] - expected[1]) < 1e-10
    assert not fallen(stats)


@pytest.mark.parametrize("shape", ["wide", pytest.param("tall", marks=pytest.mark.slow)])
def test_singular_values(shape, stats):
    apart = scipy.sparse.diags_array(np.r_[30.0, 20, 10, np.ones(57)])
    matrix = scipy.sparse.csr_array(apart @ WIDE if shape == "wide" else (apart @ WIDE).T)
    u, s, vh = (np.asarray(each) for each in linalg.svds(ours(matrix), 3, ncv=9))
    np.testing.assert_allclose(s, theirs.svds(matrix, 3, return_singular_vectors=False), rtol=1e-10)
    assert u.shape, vh.shape == ((matrix.shape[0], 3), (3, matrix.shape[1]))
    np.testing.assert_allclose(matrix @ vh.conj().T, u * s, atol=1e-9)
    np.testing.assert_allclose(u.conj().T @ matrix, s[:, None] * vh, atol=1e-9)
    found = linalg.svds(ours(matrix), 3, ncv=9, return_singular_vectors="vh")
    assert found[0] is None
    np.testing.assert_allclose(abs(np.asarray(found[2])), abs(vh), atol=1e-8)
    assert not {name for name in fallen(stats) if "sparse" in name}


@pytest.mark.slow
def test_what_arpack_does(stats):
    """Invariant subspaces, and systems to solve; what does not converge raises."""
    unit = scipy.sparse.csr_array(scipy.sparse.eye_array(50) * 2.0)
    np.testing.assert_allclose(np.asarray(linalg.eigsh(ours(unit), 3, return_eigenvectors=False)), [2, 2, 2])
    found = linalg.eigsh(ours(GRID), 3, sigma=0.0, return_eigenvectors=False)
    np.testing.assert_allclose(np.asarray(found), theirs.eigsh(GRID, 3, sigma=0.0, return_eigenvectors=False))
    assert fallen(stats) == {"scipy.sparse.linalg.eigsh": 2}
    with pytest.raises(theirs.ArpackNoConvergence, match="1 iterations"):
        linalg.eigsh(ours(GRID), 3, maxiter=1, ncv=8)


def test_factors(stats):
    matrix = ours(GRID)
    factors = linalg.splu(matrix.tocsc())
    solved = factors.solve(oxinp.array(RIGHT))
    assert type(solved) is oxinp.ndarray
    np.testing.assert_allclose(np.asarray(solved), theirs.splu(GRID.tocsc()).solve(RIGHT))
    assert factors.shape == GRID.shape
    solve = linalg.factorized(matrix.tocsc())
    np.testing.assert_allclose(np.asarray(solve(oxinp.array(RIGHT))), np.asarray(solved))
    assert set(fallen(stats)) == {f"scipy.sparse.linalg.{name}" for name in ("splu", "SuperLU.solve", "factorized")}


@pytest.mark.parametrize("dtype", ["f8", pytest.param("c8", marks=pytest.mark.slow)])
def test_factors_of_what_fills_in_are_dense(monkeypatch, dtype, stats):
    monkeypatch.setattr(_dense_factors, "HOST_RATE", 1.0)
    rng = np.random.default_rng(6)
    matrix = scipy.sparse.csc_array(
        scipy.sparse.random_array((40, 40), density=0.2, rng=rng) + scipy.sparse.eye_array(40)
    )
    matrix = (matrix * np.exp(1j) if dtype[0] == "c" else matrix).astype(dtype)
    right = rng.normal(size=(40, 2)).astype(dtype)
    options = {"rtol": 1e-9, "atol": 1e-11} if dtype == "f8" else {"rtol": 1e-2, "atol": 1e-3}
    factors, expected = linalg.splu(ours(matrix)), theirs.splu(matrix)
    for trans in "NT" if dtype == "f8" else "NTH":
        np.testing.assert_allclose(
            np.asarray(factors.solve(oxinp.array(right), trans)), expected.solve(right, trans), **options
        )
    rows, columns = (np.asarray(each) for each in (factors.perm_r, factors.perm_c))
    product = (factors.L.get() @ factors.U.get()).toarray()
    np.testing.assert_allclose(product[rows][:, columns], matrix.toarray(), **options)
    solve = linalg.factorized(ours(matrix))
    for found in (solve(oxinp.array(right[:, 0])), linalg.spsolve(ours(matrix.tocsr()), oxinp.array(right[:, :1]))):
        np.testing.assert_allclose(np.asarray(found), theirs.spsolve(matrix, right[:, 0]), **options)
    assert not {name for name in fallen(stats) if "sparse" in name}
    with pytest.raises(ValueError, match="incompatible"):
        factors.solve(oxinp.ones(3, dtype))
    with pytest.raises(TypeError, match="Cannot cast array data"):
        factors.solve(oxinp.ones(40, "c16"))
    with pytest.raises(RuntimeError, match="singular"):
        linalg.splu(ours(scipy.sparse.csc_array(np.triu(np.ones((9, 9)), 1) + np.eye(9, k=-5))))


def test_what_fills_in():
    """A graph without small separators does, a grid and a matrix of one dense row do not."""
    n = 900
    arrow = scipy.sparse.eye_array(n, format="lil")
    arrow[0], arrow[:, [0]] = 1, 1
    graph = scipy.sparse.random_array((n, n), density=5 / n, rng=0) + scipy.sparse.eye_array(n)
    assert _dense_factors.fills_in(ours(scipy.sparse.csr_array(graph)))
    assert _dense_factors.fills_in(ours(scipy.sparse.csr_array(np.ones((500, 500)))))
    line = scipy.sparse.diags_array([np.ones(29), np.ones(30), np.ones(29)], offsets=[-1, 0, 1])
    for other in (scipy.sparse.kron(line, line), arrow, scipy.sparse.kron(scipy.sparse.eye_array(30), line)):
        assert not _dense_factors.fills_in(ours(scipy.sparse.csr_array(other)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_factors_solve_many_systems_on_the_device(dtype, stats):
    matrix = SKEW.astype(dtype).tocsc()
    matrix.data = matrix.data * np.exp(1j * np.arange(matrix.nnz)) if dtype == "c16" else matrix.data
    rights = np.random.default_rng(4).normal(size=(matrix.shape[0], 33)).astype(dtype)
    factors, expected = linalg.splu(ours(matrix)), theirs.splu(matrix)
    for trans in "NTH":
        found = factors.solve(oxinp.array(rights), trans)
        np.testing.assert_allclose(np.asarray(found), expected.solve(rights, trans), rtol=1e-9, atol=1e-12)
    found = linalg.factorized(ours(matrix))(oxinp.array(rights))
    np.testing.assert_allclose(np.asarray(found), expected.solve(rights), rtol=1e-9, atol=1e-12)
    assert set(fallen(stats)) == {f"scipy.sparse.linalg.{name}" for name in ("splu", "factorized")}
    with pytest.raises(ValueError, match="incompatible"):
        factors.solve(oxinp.array(rights[:30]))


@pytest.mark.slow
def test_norms_and_powers(stats):
    matrix, made = SKEW, ours(SKEW)
    for options in ({}, {"ord": 1}, {"ord": np.inf}, {"axis": 1}, {"axis": 0}):
        np.testing.assert_allclose(np.asarray(linalg.norm(made, **options)), theirs.norm(matrix, **options))
    small = scipy.sparse.csr_array(matrix[:20, :20])
    np.testing.assert_allclose(linalg.matrix_power(ours(small), 3).toarray(), (small @ small @ small).toarray())
    vector = np.ones(20)
    found = linalg.expm_multiply(ours(small), oxinp.array(vector))
    np.testing.assert_allclose(np.asarray(found), theirs.expm_multiply(small, vector), rtol=1e-10)
    assert sparse.linalg.norm is linalg.norm
    assert not {name for name in fallen(stats) if name.startswith("scipy.sparse.linalg")}
