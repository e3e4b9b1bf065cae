"""What keys select of layouts, by arithmetic: the views that NumPy makes."""

import random

import numpy as np
import pytest

from oxinp._core.memory.layout import Layout, address_of
from oxinp._core.memory.parts import part_of

SHAPES = [(7,), (4, 5), (3, 4, 5), (2, 3, 1, 4), (2, 3, 2, 3, 2), (4, 0, 3)]


def draw_part(rng, n):
    """Return an integer or a slice, which may begin or end beyond an axis."""
    if n and rng.random() < 0.4:
        return rng.randrange(-n, n)
    bounds = [rng.choice([None, *range(-n - 2, n + 3)]) for _ in range(2)]
    return slice(*bounds, rng.choice([None, None, 1, 2, -1, -3]))


def draw_key(rng, shape):
    parts = [draw_part(rng, n) for n in shape[: rng.randint(1, len(shape))]]
    for _ in range(rng.choice([0, 0, 1, 2])):
        parts.insert(rng.randint(0, len(parts)), None)
    return parts[0] if len(parts) == 1 and parts[0] is not None and rng.random() < 0.5 else tuple(parts)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_parts_are_the_views_that_numpy_makes(shape, is_reversed):
    rng = random.Random(str(shape))
    whole = np.zeros(shape)
    array = whole.T[1:] if is_reversed else whole
    layout = Layout.at(array.dtype, array.shape, array.strides, address_of(array) - address_of(whole))
    for _ in range(600):
        key = draw_key(rng, array.shape)
        expected = array[key]
        part, is_element = part_of(layout, key)
        assert is_element == (not isinstance(expected, np.ndarray)), key
        seen = array[(*key, ...)] if isinstance(key, tuple) else array[key, ...]
        assert part.shape == seen.shape, key
        if seen.size:
            assert part.offset == address_of(seen) - address_of(whole), key
        for n, step, own in zip(seen.shape, seen.strides, part.strides, strict=True):
            assert step == own or n <= 1 or not seen.size, key
        assert part_of(layout, key)[0].same(part), key


@pytest.mark.parametrize("key", [(0, 1, 2, 3), (5, 0), (slice("a"), 0), (True, 0), (..., 0), ([0], 1)])
def test_other_keys_are_left_to_others(key):
    assert part_of(Layout.of(np.dtype(float), (3, 4, 5)), key) is None
