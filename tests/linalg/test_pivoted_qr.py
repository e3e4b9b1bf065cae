"""`scipy.linalg.qr` with pivoting: SciPy's results of every mode, on the device."""

import numpy as np
import pytest
import scipy.linalg

import oxinp

A = np.random.default_rng(8).standard_normal((6, 4))

pytestmark = pytest.mark.usefixtures("on_device")


def flat(results):
    return [x for part in results for x in (part if isinstance(part, tuple) else (part,))]


@pytest.mark.parametrize("mode", ["full", "r", "economic", "raw"])
@pytest.mark.parametrize("a", [A, A.T + 1j, (A * 9).astype("i4")], ids=["tall", "wide", "integers"])
def test_every_mode(mode, a, stats):
    ours = flat(oxinp.scipy.linalg.qr(oxinp.asarray(a), mode=mode, pivoting=True))
    assert not stats().fallbacks
    theirs = flat(scipy.linalg.qr(a, mode=mode, pivoting=True))
    assert len(ours) == len(theirs)
    for x, y in zip(map(np.asarray, ours), theirs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert np.allclose(x, y, rtol=1e-12, atol=1e-12)


def test_what_is_scipys(stats):
    with pytest.raises(ValueError, match="infs or NaNs"):
        oxinp.scipy.linalg.qr(oxinp.full((3, 3), np.nan), pivoting=True)
    stack = np.stack([A, A])
    ours, theirs = (package.linalg.qr(stack, pivoting=True) for package in (oxinp.scipy, scipy))
    for x, y in zip(ours, theirs, strict=True):
        assert np.allclose(np.asarray(x), y)
    assert stats().fallbacks["scipy.linalg.qr"] == 1
