"""`scipy.linalg.qr` with pivoting: SciPy's results of every mode, on the device."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from oxinp.scipy.linalg._complete_orthogonal import rank

A = np.random.default_rng(8).standard_normal((6, 4))

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("on_device")


def flat(results):
    return [x for part in results for x in (part if isinstance(part, tuple) else (part,))]


@pytest.mark.parametrize(
    ("a", "mode"),
    [
        *((A, mode) for mode in ("full", "r", "economic", "raw")),
        (A.T + 1j, "economic"),
        *(pytest.param(A.T + 1j, mode, marks=slow) for mode in ("full", "r", "raw")),
        pytest.param((A * 9).astype("i4"), "full", marks=slow),
    ],
)
def test_every_mode(a, mode, stats):
    ours = flat(oxinp.scipy.linalg.qr(oxinp.asarray(a), mode=mode, pivoting=True))
    assert not stats().fallbacks
    theirs = flat(scipy.linalg.qr(a, mode=mode, pivoting=True))
    assert len(ours) == len(theirs)
    for x, y in zip(map(np.asarray, ours), theirs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert np.allclose(x, y, rtol=1e-12, atol=1e-12)


B = np.random.default_rng(9).standard_normal((6, 2))
LOW = A[:, :1] * np.array([1.0, 2, 3, 4]) + A[:, 1:2] * np.array([1.0, 0, 0, 1])


@pytest.mark.parametrize(
    ("a", "b", "cond"),
    [
        (A, B, None),
        (LOW.T, B[:4], 1e-10),
        pytest.param(A, B[:, 0], None, marks=slow),
        pytest.param(A.T + 1j, B[:4], None, marks=slow),
        pytest.param(LOW, B, 1e-10, marks=slow),
        (A * np.logspace(0, -6, 4), B, 1e-4),
        (0 * A, B, None),
    ],
)
def test_least_squares_by_complete_orthogonal_factors(a, b, cond, stats):
    ours = oxinp.scipy.linalg.lstsq(oxinp.asarray(a), oxinp.asarray(b), cond, lapack_driver="gelsy")
    assert not stats().fallbacks
    theirs = scipy.linalg.lstsq(a, b, cond, lapack_driver="gelsy")
    assert ours[2] == theirs[2]
    assert ours[3] is None
    for x, y in zip(map(np.asarray, ours[:2]), theirs[:2], strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert np.allclose(x, y, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rcond", [1e-12, 1e-6, 1e-3])
def test_ranks_are_lapacks(rcond):
    rng = np.random.default_rng(1)
    for spread in (1e-2, 1e-5, 1e-9, 1e-15):
        a = rng.standard_normal((9, 9)) @ np.diag(np.geomspace(1, spread, 9)) @ rng.standard_normal((9, 9))
        r = scipy.linalg.qr(a, pivoting=True)[1]
        assert rank(r, rcond) == scipy.linalg.lstsq(a, a[0], rcond, lapack_driver="gelsy")[2]


def test_what_is_scipys(stats):
    with pytest.raises(ValueError, match="infs or NaNs"):
        oxinp.scipy.linalg.qr(oxinp.full((3, 3), np.nan), pivoting=True)
    stack = np.stack([A, A])
    ours, theirs = (package.linalg.qr(stack, pivoting=True) for package in (oxinp.scipy, scipy))
    for x, y in zip(ours, theirs, strict=True):
        assert np.allclose(np.asarray(x), y)
    assert "scipy.linalg.qr" not in stats().fallbacks
