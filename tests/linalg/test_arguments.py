"""Arguments of `scipy.linalg` that choose: structures of inverses, orders of Schur forms, drivers, more matrices."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from tests.comparator import outcome

RANDOM = np.random.default_rng(23)
A, B, E = RANDOM.standard_normal((3, 6, 6))
E = E / 30 + np.eye(6)
DEFINITE = A @ A.T + np.eye(6)
INPUT, CROSS, WEIGHTS = B[:, :2], A[:, :2] / 50, np.diag([2.0, 3])
pytestmark = pytest.mark.usefixtures("on_device")
slow = pytest.mark.slow


@pytest.mark.parametrize("structure", ["upper triangular", "lower triangular", "diagonal", "pos", "sym", "her"])
def test_inverses_of_structures(structure, stats):
    a = np.stack([DEFINITE, DEFINITE + A @ A.T])
    for given in (a, a[0]):
        found = outcome(lambda xp, given=given: xp.scipy.linalg.inv(xp.asarray(given), assume_a=structure), oxinp)
        assert not stats().fallbacks
        expected = outcome(lambda _, given=given: scipy.linalg.inv(given, assume_a=structure), np)
        if isinstance(expected, Exception):
            assert type(found) is type(expected)
            continue
        found = oxinp.asnumpy(found)
        assert np.allclose(found, expected)
        assert np.array_equal(found == 0, expected == 0)


@pytest.mark.parametrize("sort", ["lhp", "iuc", *(pytest.param(x, marks=slow) for x in ("rhp", "ouc", "callable"))])
@pytest.mark.parametrize("output", ["real", "complex"])
def test_sorted_schur_forms(sort, output, stats):
    by_parts = {"real": lambda _, y: y != 0, "complex": lambda x: x.imag > 0}
    sort = by_parts[output] if sort == "callable" else sort
    t, z, count = oxinp.scipy.linalg.schur(oxinp.asarray(A), output, sort=sort)
    assert all(":" in name for name in stats().fallbacks)
    t, z = map(oxinp.asnumpy, (t, z))
    theirs, vectors, number = scipy.linalg.schur(A, output, sort=sort)
    assert (t.dtype, z.dtype, type(count), count) == (theirs.dtype, vectors.dtype, type(number), number)
    assert np.allclose(z @ t @ z.conj().T, A)
    assert np.allclose(z.conj().T @ z, np.eye(6))
    first = slice(0, count)
    assert np.allclose(*(np.sort_complex(np.linalg.eigvals(x[first, first]).round(9)) for x in (t, theirs)))


@pytest.mark.parametrize("driver", ["stemr", "stebz", "stev", "sterf", "other"])
@pytest.mark.parametrize("eigvals_only", [True, False])
def test_drivers_of_tridiagonal_matrices(driver, eigvals_only):
    given = A[0], B[0, 1:]

    def call(xp, module):
        found = module.eigh_tridiagonal(*map(xp.asarray, given), eigvals_only, lapack_driver=driver, tol=1e-9)
        return found if eigvals_only else found[0]

    ours, theirs = (
        outcome(lambda _: call(oxinp, oxinp.scipy.linalg), oxinp),
        outcome(lambda _: call(np, scipy.linalg), np),
    )
    if isinstance(theirs, Exception):
        assert (type(ours), str(ours)) == (type(theirs), str(theirs))
    else:
        assert np.allclose(np.asarray(ours), theirs, atol=1e-8)


@pytest.mark.parametrize("name", ["solve_continuous_are", pytest.param("solve_discrete_are", marks=slow)])
@pytest.mark.parametrize(
    "more", [{"e": E, "s": CROSS}, pytest.param({"e": E}, marks=slow), pytest.param({"s": CROSS}, marks=slow)]
)
def test_generalised_riccati_equations(name, more, stats):
    given = (A / 4, INPUT, DEFINITE, WEIGHTS)
    found = getattr(oxinp.scipy.linalg, name)(
        *map(oxinp.asarray, given), **{key: oxinp.asarray(x) for key, x in more.items()}
    )
    assert not stats().fallbacks
    # What balancing scales, SciPy does not scale in E.
    expected = getattr(scipy.linalg, name)(*given, **more, balanced=False)
    assert np.allclose(oxinp.asnumpy(found), expected, rtol=1e-9, atol=1e-10)


def test_riccati_equations_of_other_shapes_are_scipys_errors():
    for la in (oxinp.scipy.linalg, scipy.linalg):
        with pytest.raises(ValueError, match="same shape"):
            la.solve_continuous_are(A, INPUT, DEFINITE, WEIGHTS, e=np.eye(5))
