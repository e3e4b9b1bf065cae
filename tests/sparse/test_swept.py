"""Products of matrices whose warps have their elements by columns."""

import numpy as np
import pytest
import scipy.sparse

import oxinp
from oxinp.sparse import _operators, _rows, _swept
from tests.comparator import assert_same
from tests.sparse.test_operations import fallen, ours

pytestmark = pytest.mark.usefixtures("on_device", "few")


@pytest.fixture
def few(monkeypatch):
    """Sort matrices of few elements, at the second product, and take rows of more than 40 elements for long ones."""
    monkeypatch.setattr(_swept, "MIN_SWEPT", 1)
    monkeypatch.setattr(_swept, "MAX_LENGTH", 40)
    monkeypatch.setattr(_operators, "PRODUCTS", 1)
    monkeypatch.setattr(_operators, "MANY_PRODUCTS", 2)


def power_law(n, width, longest, seed=0):
    """Return a matrix of rows of power-law lengths, some of them empty, whose columns are skewed."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(longest, (rng.random(n) ** -0.9).astype(int))
    lengths[::7] = 0
    rows = np.repeat(np.arange(n), lengths)
    columns = (width * rng.random(rows.size) ** 2).astype(np.int32)
    made = scipy.sparse.coo_array((rng.normal(size=rows.size), (rows.astype(np.int32), columns)), shape=(n, width))
    return made.tocsr()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("longest", [30, 300])
def test_products(dtype, longest, stats):
    """Rows that are not long have SciPy's bits; a transpose is sorted as well."""
    matrix = power_law(500, 700, longest).astype(dtype)
    made = ours(matrix)
    x = np.random.default_rng(1).normal(size=700).astype(dtype)
    for _ in range(3):
        found = np.asarray(made @ oxinp.array(x))
        np.testing.assert_allclose(found, matrix @ x, rtol=1e-12 if dtype == "f8" else 1e-4, atol=1e-5)
    short = np.diff(matrix.indptr) <= 40
    assert short.all() == (longest == 30)
    assert_same(found[short], (matrix @ x)[short])
    factor = made._known["factor True"][1]
    assert type(factor._swept) is _swept.Swept
    assert (factor._swept.long_rows is None) == short.all()
    y = np.random.default_rng(2).normal(size=500).astype(dtype)
    for _ in range(3):
        back = np.asarray(made.T @ oxinp.array(y))
    np.testing.assert_allclose(back, matrix.T @ y, rtol=1e-10 if dtype == "f8" else 1e-3, atol=1e-4)
    assert not fallen(stats)


def test_writes_are_seen():
    matrix = power_law(200, 300, 30)
    made, x = ours(matrix), np.arange(300.0)
    for _ in range(3):
        made @ oxinp.array(x)
    made.data[:5] = 2
    matrix.data[:5] = 2
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(made @ oxinp.array(x)), matrix @ x, rtol=1e-12)


def test_what_is_not_sorted(monkeypatch):
    """Too few elements, other dtypes, rows and columns that have no room in a word, nothing but long rows."""

    def is_sorted(matrix):
        return (
            _swept.swept(_rows.Rows(*map(oxinp.array, (matrix.indptr, matrix.indices, matrix.data)), 300)) is not None
        )

    matrix = power_law(200, 300, 30)
    assert is_sorted(matrix)
    assert not is_sorted(matrix.astype(np.complex128))
    monkeypatch.setattr(_swept, "SUMS_NBYTES", 0)
    assert not is_sorted(matrix)
    monkeypatch.undo()
    assert not is_sorted(matrix)


def test_other_vectors_are_multiplied_as_before():
    matrix = power_law(200, 300, 30)
    made, x = ours(matrix), np.arange(300)
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(made @ oxinp.array(x)), matrix @ x, rtol=1e-12)
