"""The host side of a storage: which of NumPy's arrays fill a block of memory."""

import itertools

import numpy as np
import pytest

from oxinp._core.memory.host_side import is_dense

CUBE = np.zeros((3, 1, 4, 2))


@pytest.mark.parametrize("axes", [*itertools.permutations(range(4))])
def test_what_is_only_turned_is_dense(axes):
    assert is_dense(CUBE.transpose(axes))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (CUBE[..., 0], False),
        (CUBE[:2], True),
        (CUBE[:, :, :2], False),
        (CUBE[:2].T[:, :, ::-1], True),  # an axis of one element has no order
        (CUBE[::-1], False),
        (CUBE[:1, :, ::2].T, False),
        (CUBE[:0, :, ::2], True),
        (np.broadcast_to(CUBE, (2, *CUBE.shape)), False),
        (np.broadcast_to(1.0, (1, 1)), True),
        (np.array(1.0), True),
    ],
)
def test_gaps_and_repeated_elements_are_told(array, expected):
    assert is_dense(array) is expected
    assert is_dense(array.T) is expected
