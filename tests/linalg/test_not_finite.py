"""Matrices with NaN and infinities: LAPACK's errors, and where NaN stands, with and without `check_finite`."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from tests.linalg.outcomes import assert_alike, silent_outcome

ORDER = 5
SQUARE = np.random.default_rng(3).standard_normal((ORDER, ORDER))
DEFINITE = SQUARE @ SQUARE.T + ORDER * np.eye(ORDER)
slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")


def with_one(value, row, column, order=ORDER):
    a = DEFINITE.copy() if order == ORDER else np.eye(order)
    a[row, column] = value
    return a


KINDS = {
    "NaN inside": with_one(np.nan, 2, 2),
    "NaN below": with_one(np.nan, 4, 0),
    "NaN above": with_one(np.nan, 0, 4),
    "NaN": np.full((ORDER, ORDER), np.nan),
    "infinity inside": with_one(np.inf, 2, 2),
    "infinity below": with_one(-np.inf, 4, 0),
    "infinities": np.full((ORDER, ORDER), np.inf),
}
SVD, EIGEN, FINITE = "SVD did not converge", "Eigenvalues did not converge", "Array must not contain infs or NaNs"
ERRORS = {
    "svd": (lambda la, a: la.svd(a), SVD),
    "svd, values": (lambda la, a: la.svd(a, compute_uv=False), SVD),
    "svdvals": (lambda la, a: la.svdvals(a), SVD),
    "pinv": (lambda la, a: la.pinv(a), SVD),
    "matrix_rank": (lambda la, a: la.matrix_rank(a), SVD),
    "norm": (lambda la, a: la.norm(a, 2), SVD),
    "nuclear norm": (lambda la, a: la.norm(a, "nuc"), SVD),
    "lstsq": (lambda la, a: la.lstsq(a, np.ones((ORDER, 2), like=a)), f"{SVD} in Linear Least Squares"),
    "eigvalsh": (lambda la, a: la.eigvalsh(a), EIGEN),
    "eigvalsh, upper": (lambda la, a: la.eigvalsh(a.T, UPLO="U"), EIGEN),
    "eigh": (lambda la, a: la.eigh(a), EIGEN),
    "svd, Hermitian": (lambda la, a: la.svd(a, compute_uv=False, hermitian=True), EIGEN),
    "eig": (lambda la, a: la.eig(a), FINITE),
    "eigvals": (lambda la, a: la.eigvals(a), FINITE),
}
"""Functions whose iterations would not end, and NumPy's words."""
PATTERNS = {
    "cholesky": lambda la, a: la.cholesky(a),
    "cholesky, upper": lambda la, a: la.cholesky(a, upper=True),
    "det": lambda la, a: la.det(a),
    "qr, r": lambda la, a: la.qr(a, "r"),
    "Frobenius norm": lambda la, a: la.norm(a),
    "cond, 1": lambda la, a: la.cond(a, 1),
    "cond, infinity": lambda la, a: la.cond(a, np.inf),
}


def found_by(function, a, xp):
    return silent_outcome(lambda: function(xp.linalg, xp.asarray(a)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "NaN above"])
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_numpys(name, kind):
    function, message = ERRORS[name]
    # Of infinities some BLAS libraries' iterations do not come back.
    for xp in (oxinp, np) if kind.startswith("NaN") else (oxinp,):
        found = found_by(function, KINDS[kind], xp)
        assert type(found) is np.linalg.LinAlgError
        assert str(found) == message


@pytest.mark.parametrize(
    ("name", "kind"),
    # BLAS libraries divide by infinity, or multiply by its inverse; the length of a vector of infinities may be NaN.
    [(x, kind) for x in PATTERNS for kind in KINDS if not (x.startswith(("cholesky", "qr")) and kind == "infinities")],
)
def test_patterns_are_numpys(name, kind):
    assert_alike(*(found_by(PATTERNS[name], KINDS[kind], xp) for xp in (oxinp, np)), np.isnan)


def test_vectors_of_large_hermitian_matrices():
    """Divide and conquer does not fail, but gives NaN; one element is its own eigenvalue."""
    for value in (np.nan, np.inf):
        for x in oxinp.linalg.eigh(oxinp.asarray(with_one(value, 20, 3, 26))):
            assert np.isnan(np.asarray(x)).all()
        with pytest.raises(np.linalg.LinAlgError, match=EIGEN):
            oxinp.linalg.eigh(oxinp.asarray(with_one(value, 20, 3, 25)))
        w, v = oxinp.linalg.eigh(oxinp.asarray([[value]]))
        assert np.array_equal(np.asarray(w), [value], equal_nan=True)
        assert np.asarray(v) == 1


def test_stacks_with_one_that_is_not_finite():
    a = np.stack([DEFINITE, KINDS["NaN inside"]])
    for name in ("eigvalsh", "svdvals"):
        outcomes = (found_by(lambda la, a, name=name: getattr(la, name)(a), a, xp) for xp in (oxinp, np))
        assert_alike(*outcomes, np.isnan)


CHECKED = (
    *("cho_factor", "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "hessenberg", "inv", "ldl", "lu"),
    *("lu_factor", "null_space", "pinv", "pinvh", "qr", "rq", "schur", "svd", "svdvals", "expm_cond"),
)
UNCHECKED = ("cholesky", "det", "eigvalsh", "null_space", "pinv", "schur", "svd", "svdvals")
"""Of which the results of NaN that is not refused are LAPACK's, whatever BLAS it uses."""


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_checked_is_refused(name):
    for kind in ("NaN below", "infinity inside"):
        for la, xp in ((oxinp.scipy.linalg, oxinp), (scipy.linalg, np)):
            with pytest.raises(ValueError, match="must not contain infs or NaNs"):
                getattr(la, name)(xp.asarray(KINDS[kind]))


@pytest.mark.parametrize("kind", ["NaN inside", "NaN"])
@pytest.mark.parametrize("name", UNCHECKED)
def test_what_is_not_checked_is_scipys(name, kind):
    def call(xp, module):
        return silent_outcome(lambda: getattr(module, name)(xp.asarray(KINDS[kind]), check_finite=False))

    assert_alike(call(oxinp, oxinp.scipy.linalg), call(np, scipy.linalg), np.isnan)


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_matrices_that_lapack_cannot_balance_are_refused_unchecked(name):
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        getattr(oxinp.scipy.linalg, name)(oxinp.asarray(KINDS["NaN"]), check_finite=False)
