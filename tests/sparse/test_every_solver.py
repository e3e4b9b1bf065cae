"""Every solver and function of linear algebra that is promised, as SciPy has it, small, on the device."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import oxinp
from oxinp import sparse
from tests.sparse.test_every_name import DENSE, NAMES, compare
from tests.sparse.test_operations import ours

pytestmark = [
    pytest.mark.usefixtures("on_device"),
    pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning"),
]
SIDE = 5
LINE = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(SIDE, SIDE))
GRID = scipy.sparse.csr_array(scipy.sparse.kronsum(LINE, 1.37 * LINE))  # whose eigenvalues are all different
SKEWED = scipy.sparse.csr_array(
    GRID + scipy.sparse.diags_array(np.linspace(0.1, 0.4, SIDE**2 - 1), offsets=1, shape=GRID.shape)
)
RIGHT, START = (np.random.default_rng(n).normal(size=SIDE**2) for n in (5, 6))
SOLVERS = ["bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "qmr", "tfqmr"]


def solve(package, xp, name, options):
    """Return the iterate, the code, and how often the callback was called, or the operators."""
    matrix = GRID if name in ("cg", "minres") else SKEWED
    seen = []
    a = package.csr_array(tuple(xp.array(part) for part in (matrix.data, matrix.indices, matrix.indptr)), matrix.shape)
    options = dict(options)
    if options.pop("has_start", False):
        options["x0"] = xp.array(START)
    weights = xp.array(1 / matrix.diagonal())
    if options.pop("is_preconditioned", False):
        inverse = package.linalg.LinearOperator(
            matrix.shape, matvec=lambda x: weights * x, rmatvec=lambda x: weights * x, dtype=float
        )
        if name == "qmr":
            options |= {"M1": inverse, "M2": inverse}
        else:
            options["M"] = inverse
    if options.pop("calls_back", False):
        options["callback"] = lambda given: seen.append(np.ndim(given))
        if name == "gmres":
            options["callback_type"] = "x"
    solution, code = getattr(package.linalg, name)(a, xp.array(RIGHT), **options)
    return np.asarray(solution), code, seen


SOLVER_OPTIONS = {
    "plain": {},
    "start": {"has_start": True},
    "tight": {"rtol": 1e-11},
    "absolute": {"rtol": 0.0, "atol": 1e-3},
    "stopped": {"maxiter": 2, "rtol": 1e-13},
    "preconditioned": {"is_preconditioned": True, "rtol": 1e-8},
    "called back": {"calls_back": True, "rtol": 1e-8},
}
# All options of these solvers, and this of the others, which take many kernels a step; of GMRES, whose steps are
# those of test_linalg.py, one that is not there.
QUICK = ("bicgstab", "cg", "cgs")
AT_ONCE = {
    *itertools.product(QUICK, SOLVER_OPTIONS),
    *((name, "preconditioned" if name == "gmres" else "plain") for name in SOLVERS),
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, marks=() if (name, options) in AT_ONCE else pytest.mark.slow)
        for name in SOLVERS
        for options in SOLVER_OPTIONS
    ],
)
def test_solvers(name, options):
    """The iterate, SciPy's code, and as many calls as SciPy makes, which are its steps."""
    given = SOLVER_OPTIONS[options]
    if name == "minres" and "atol" in given:
        given = {"rtol": 1e-3}  # of which it has no other
    found, expected = (solve(*each, name, given) for each in ((sparse, oxinp), (scipy.sparse, np)))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-8)
    assert found[1:] == expected[1:]
    assert (found[1] > 0) == (options == "stopped" and name not in ("gcrotmk", "gmres", "lgmres"))


LINALG = """
L.lsqr(t, w, damp=0.1)[0]
L.lsmr(t, w, damp=0.1)[0]
L.lsqr(t, w, x0=v)[1:3]
L.lsmr(t, w, x0=v)[1:3]
L.expm_multiply(g * 0.3, r)
L.expm(g[:5, :5].tocsc() * 0.3)
L.inv(g.tocsc())
L.norm(g)
L.onenormest(g)
L.spsolve(g.tocsc(), r)
L.spsolve(g, r)
L.spsolve_triangular(S.tril(g).tocsr(), r)
L.spsolve_triangular(S.triu(g).tocsr(), r, lower=False)
L.splu(g.tocsc()).solve(r)
L.splu(g.tocsc()).solve(r, "T")
L.spilu(g.tocsc()).solve(r)
L.factorized(g.tocsc())(r)
L.aslinearoperator(g) @ r
L.aslinearoperator(g).H.matvec(r)
abs(L.eigsh(h, 3, return_eigenvectors=False))
X.sort(L.eigsh(h, 3, which="SA", return_eigenvectors=False))
X.sort(L.eigsh(h, 4, which="BE", return_eigenvectors=False))
X.sort(L.eigsh(h, 3, sigma=1.7, return_eigenvectors=False))
X.sort(abs(L.eigs(g, 3, which="LM", return_eigenvectors=False)))
X.sort(abs(L.eigs(g, 3, sigma=2.0, return_eigenvectors=False)))
X.sort(L.svds(t, 3, return_singular_vectors=False))
X.sort(L.svds(t, 3, which="SM", return_singular_vectors=False))
L.matrix_power(g, 3)
""".strip().splitlines()
LINALG_NAMES = {
    "g": lambda _, package: ours(SKEWED) if package is sparse else SKEWED,
    "h": lambda _, package: ours(GRID) if package is sparse else GRID,
    "t": lambda xp, package: package.csr_array(xp.array(DENSE)),
    "r": lambda xp, _: xp.array(RIGHT),
    "v": NAMES["v"],
    "w": NAMES["w"],
}


# By iterations of others, or from another start.
LATER = {code for code in LINALG if any(part in code for part in ("x0=v", '"BE"', '"SM"', "abs(L.eigsh"))}


@pytest.mark.parametrize(
    "code", [pytest.param(code, marks=pytest.mark.slow if code in LATER else ()) for code in LINALG]
)
def test_linear_algebra(code):
    compare(code, LINALG_NAMES, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_lobpcg_is_scipys():
    start = np.random.default_rng(7).normal(size=(SIDE**2, 3))
    compare(
        "L.lobpcg(h, s, largest=False, tol=1e-9, maxiter=60)[0]",
        {**LINALG_NAMES, "s": lambda xp, _: xp.array(start)},
        rtol=1e-7,
    )


def test_preconditioners_solve():
    """ILU(0), IC(0) and multigrid lead to a solution in fewer steps than none."""
    a, right = ours(GRID), oxinp.array(RIGHT)
    counts = {}
    for name in ("", "ilu0", "ic0", "smoothed_aggregation"):
        seen = []
        inverse = getattr(sparse.linalg, name)(a) if name else None
        x, code = sparse.linalg.cg(a, right, M=inverse, rtol=1e-9, callback=seen.append)
        assert code == 0
        np.testing.assert_allclose(GRID @ np.asarray(x), RIGHT, atol=1e-7)
        counts[name] = len(seen)
    assert max(counts[name] for name in counts if name) < counts[""]


SINGULAR = {
    "splu": "L.splu(s.tocsc())",
    "factorized": "L.factorized(s.tocsc())",
    "triangular": "L.spsolve_triangular(S.tril(s).tocsr(), v)",
    "inverse": "L.inv(s.tocsc())",
}


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_factors(name):
    dense = np.diag([1.0, 0, 3, 4, 5, 6, 7, 8])
    for xp, package in ((np, scipy.sparse), (oxinp, sparse)):
        scope = {"L": package.linalg, "S": package, "s": package.csr_array(xp.array(dense)), "v": xp.arange(8.0)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if package is scipy.sparse:
                with pytest.raises(Exception, match="singular") as theirs:
                    eval(SINGULAR[name], scope)  # noqa: S307 - our own code
            else:
                with pytest.raises(theirs.type, match="singular"):
                    eval(SINGULAR[name], scope)  # noqa: S307
