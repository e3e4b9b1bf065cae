"""Matrices that an order tells: SciPy's, bit by bit, on either side, and its errors."""

import numpy as np
import pytest
import scipy.linalg

import oxinp
from tests.comparator import outcome

CALLS = [
    *("la.hilbert(7)", "la.hilbert(1)", "la.hilbert(0)", "la.hilbert(2.5)"),
    *("la.hadamard(8)", "la.hadamard(1)", "la.hadamard(4, 'f')", "la.hadamard(16, complex)", "la.hadamard(2, 'i2')"),
    *("la.hadamard(6)", "la.hadamard(0)", "la.hadamard(4, bool)", "la.helmert(5)", "la.helmert(5, full=True)"),
    *("la.helmert(1)", "la.helmert(0)"),
]


@pytest.mark.parametrize("threshold", [0, float("inf")])
@pytest.mark.parametrize("code", CALLS)
def test_matrices_are_scipys(code, threshold, config):
    config.offload_threshold = threshold
    ours, theirs = (outcome(lambda la: eval(code, {"la": la}), la) for la in (oxinp.scipy.linalg, scipy.linalg))  # noqa: S307
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs)
        assert str(ours) == str(theirs)
        return
    ours = np.asarray(ours)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["hilbert", "hadamard", "helmert"])
def test_the_device_makes_them(name, config, stats):
    config.offload_threshold = 0
    oxinp.evaluate(getattr(oxinp.scipy.linalg, name)(64))
    assert stats().launches
    assert not stats().fallbacks
