"""Distinct integers of a narrow range, found without a sort."""

import numpy as np
import pytest

import oxinp
from oxinp._core.ops import distinct
from tests.comparator import assert_same


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(distinct, "MIN_SIZE", 1)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [
        ("i4", -7, 3000),
        ("i8", -(2**62), 9),
        ("u1", 0, 256),
        ("i2", -(2**15), 2**16),
        ("u4", 2**32 - 40, 40),
        ("i8", 5, 1),
    ],
)
def test_narrow(dtype, least, most):
    rng = np.random.default_rng(most)
    x = (rng.integers(0, most, (3, 2000)) + least).astype(dtype)
    ours = oxinp.array(x)
    assert distinct.of_narrow_range(ours.reshape(-1)) is not None
    assert_same(np.asarray(oxinp.unique(ours)), np.unique(x))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("x", [np.arange(0, 2**40, 2**28), np.array([0.5, 2, 2]), np.arange(3, dtype="u8")])
def test_others_are_sorted(x):
    ours = oxinp.array(x)
    assert distinct.of_narrow_range(ours) is None
    assert_same(np.asarray(oxinp.unique(ours)), np.unique(x))
