"""`split` and `array_split`: NumPy's parts, which are views."""

import numpy as np
import pytest

import oxinp
from oxinp import config
from tests.comparator import assert_same

MATRIX = np.arange(24.0).reshape(4, 6)
ARRAYS = (MATRIX, MATRIX.T, np.arange(10)[::-1], np.zeros((0, 4)), np.ones((3, 4, 5))[:, ::2])
ARGUMENTS = ((2,), (3,), (7,), (2, 1), (2, -1), (3, 2), ([1, 3],), (0,), (-1,), (1.5,), (2, 5), (True,), (np.int64(2),))


def outcome(split, x, *args):
    try:
        return split(x, *args)
    except Exception as error:  # noqa: BLE001 - NumPy's is ours
        return type(error)


@pytest.mark.parametrize("threshold", [0, 65536])
@pytest.mark.parametrize("name", ["split", "array_split"])
def test_parts_are_numpys(name, threshold):
    with config.override(offload_threshold=threshold):
        for x in ARRAYS:
            for args in ARGUMENTS:
                expected = outcome(getattr(np, name), x, *args)
                found = outcome(getattr(oxinp, name), oxinp.array(x, order="K"), *args)
                if isinstance(expected, type):
                    assert found is expected
                    continue
                assert type(found) is type(expected)
                for ours, theirs in zip(found, expected, strict=True):
                    assert_same(ours, theirs)


@pytest.mark.parametrize("threshold", [0, 65536])
def test_parts_are_views(threshold):
    with config.override(offload_threshold=threshold):
        ours, numpys = oxinp.array(MATRIX), MATRIX.copy()
        for xp, x in ((oxinp, ours), (np, numpys)):
            first, second = xp.split(x, 2, 1)
            first += 10.0
            x[0] = 3.0
            second *= 2.0
        assert_same(ours, numpys)
