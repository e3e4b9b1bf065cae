"""Bad input of functions of `numpy.linalg` and `scipy.linalg`: their exceptions, in their words, nothing written."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from tests.linalg.outcomes import assert_alike, silent_outcome

SQUARE = np.arange(9.0).reshape(3, 3) + 4 * np.eye(3)
NAN = SQUARE.copy()  # with infinities LAPACK may not come back
NAN[1, 1] = np.nan
KINDS = {
    "wide": np.ones((2, 3)),
    "vector": np.ones(3),
    "half": SQUARE.astype("f2"),
    "NaN": NAN,
    "singular": np.ones((3, 3)),
    "indefinite": np.diag([1.0, -1, 2]),
    "no elements": np.ones((0, 0)),
    "no matrices": np.ones((0, 3, 3)),
    "wide stack": np.ones((2, 2, 3)),
    "text": SQUARE.astype("U4"),
    "booleans": SQUARE > 4,
}
ONE, TWO = 1, 2
NUMPYS = {
    "inv cholesky qr svd svdvals eigh eigvalsh eig eigvals det slogdet pinv matrix_rank cond norm matrix_norm": ONE,
    "matrix_transpose trace tensorinv": ONE,
    "solve lstsq tensorsolve matmul cross vecdot": TWO,
}
SCIPYS = {
    "inv det lu lu_factor cho_factor cholesky ldl qr rq polar hessenberg schur eigh eigvalsh eig eigvals svd": ONE,
    "orth null_space pinv pinvh expm expm_cond logm sqrtm signm cosm tanm sinhm matrix_balance cholesky_banded": ONE,
    "svdvals toeplitz circulant hankel issymmetric bandwidth eig_banded": ONE,
    "solve solve_triangular lstsq qz ordqz rsf2csf expm_frechet solve_toeplitz solve_continuous_lyapunov": TWO,
    "solve_discrete_lyapunov subspace_angles orthogonal_procrustes": TWO,
}
"""Functions, and how many matrices they take."""
UNEVEN = ("slogdet",)
"""Of NaN the sign is that of comparisons, ours NaN."""
QUICK = {
    ("numpy", name): ("wide", "half", "NaN", "no elements")
    for name in ("solve", "inv", "cholesky", "eigh", "svd", "eig")
} | {
    ("scipy", name): ("wide", "NaN", "no elements")
    for name in ("solve", "cholesky", "ldl", "eig", "qz", "expm_cond", "rsf2csf", "cholesky_banded")
}
CASES = [
    pytest.param(package, name, count, kind, marks=() if kind in QUICK.get((package, name), ()) else pytest.mark.slow)
    for package, table in (("numpy", NUMPYS), ("scipy", SCIPYS))
    for names, count in table.items()
    for name in names.split()
    for kind in KINDS
    if not (kind == "NaN" and name in UNEVEN and package == "numpy")
]
pytestmark = pytest.mark.usefixtures("on_device")


def called(package, name, a, count, xp):
    module = xp.linalg if package == "numpy" else (oxinp.scipy if xp is oxinp else scipy).linalg
    given = [xp.asarray(a) for _ in range(count)]
    kept = [np.array(x) for x in given]
    found = silent_outcome(lambda: getattr(module, name)(*given))
    for x, y in zip(given, kept, strict=True):
        assert str(np.asarray(x)) == str(y)
    return found


def is_finite(x):
    return np.isfinite(x).all()


@pytest.mark.parametrize(("package", "name", "count", "kind"), CASES)
def test_outcomes_are_theirs(package, name, count, kind):
    found, expected = (called(package, name, KINDS[kind], count, xp) for xp in (oxinp, np))
    assert_alike(found, expected, is_finite if kind == "NaN" else None)
