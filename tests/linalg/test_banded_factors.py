"""`scipy.linalg.cholesky_banded` of a wide band and of many narrow ones: SciPy's factors, elements outside included."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from oxinp._kernels.lapack import banded_cholesky
from oxinp._kernels.lapack.banded_cholesky import MAX_BAND, BandedCholeskySpec
from oxinp._ptx.types import c64, c128, f32, f64
from oxinp.scipy.linalg import _banded_factors
from tests.kernels.lapack.spills import check_assembled

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")
ours = oxinp.scipy.linalg.cholesky_banded


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(_banded_factors, "WIDE", 3)
    monkeypatch.setattr(_banded_factors, "MANY", 2)


def stored(order, band, dtype, *, lower):
    """A positive definite matrix's band, with numbers where it stores nothing."""
    rng = np.random.default_rng(order)
    x = rng.standard_normal((order, order)) + (1j * rng.standard_normal((order, order)) if dtype in "FD" else 0)
    x = x @ x.conj().T + order * np.eye(order)
    made = rng.standard_normal((band + 1, order)).astype(dtype)
    for i in range(band + 1):
        diagonal = np.diagonal(x, -i)
        if lower:
            made[i, : order - i] = diagonal
        else:
            made[band - i, i:] = diagonal.conj()
    return made


def same(found, expected):
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.allclose(found, expected, rtol=0, atol=100 * np.finfo(found.dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("order", "band", "dtype"),
    [
        (13, 4, "d"),
        pytest.param(9, 3, "D", marks=slow),
        pytest.param(8, 7, "d", marks=slow),
        pytest.param(20, 5, "f", marks=slow),
        pytest.param(6, 5, "F", marks=slow),
    ],
)
def test_one_wide_band(order, band, dtype, lower, stats):
    ab = stored(order, band, dtype, lower=lower)
    found = ours(oxinp.asarray(ab), lower=lower)
    assert not stats().fallbacks
    same(found, scipy.linalg.cholesky_banded(ab, lower=lower))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(
    ("band", "dtype"),
    [(2, "d"), (0, "d"), *(pytest.param(*case, marks=slow) for case in ((3, "D"), (1, "f"), (4, "D"), (7, "d")))],
)
def test_many_narrow_bands(band, dtype, lower, stats):
    ab = stored(11, band, dtype, lower=lower)
    stack = np.stack([ab * x for x in range(1, 35)]).reshape(2, 17, *ab.shape)
    found = ours(oxinp.asarray(stack), lower=lower)
    assert not stats().fallbacks
    same(found, scipy.linalg.cholesky_banded(stack, lower=lower))


@pytest.mark.parametrize("shape", [(4, 12), (3, 3, 12)])
def test_what_is_not_positive_definite(shape):
    ab = np.ones(shape)
    ab[..., 0, :] = -1
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        scipy.linalg.cholesky_banded(ab, lower=True)
    with pytest.raises(np.linalg.LinAlgError) as found:
        ours(oxinp.asarray(ab), lower=True)
    assert str(found.value) == str(theirs.value)


def test_what_is_scipys(stats):
    with pytest.raises(ValueError, match="infs or NaNs"):
        ours(oxinp.full((3, 5), np.nan))
    narrow = stored(12, 2, "d", lower=False)
    same(ours(oxinp.asarray(narrow)), scipy.linalg.cholesky_banded(narrow))
    assert ours(oxinp.zeros((0, 0))).shape == (0, 0)
    assert stats().fallbacks["scipy.linalg.cholesky_banded"] == 2


def test_kernels_assemble_without_spills():
    kinds = [(type_, is_lower) for type_ in (f32, f64, c64, c128) for is_lower in (True, False)]
    specs = [BandedCholeskySpec(type_, MAX_BAND[type_.nbytes], is_lower) for type_, is_lower in kinds]
    check_assembled([banded_cholesky.make(spec) for spec in specs])
