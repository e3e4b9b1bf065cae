"""What keys select of layouts, by arithmetic: the views that NumPy makes."""

import random

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.memory.layout import Layout, address_of
from oxinp._core.memory.parts import part_of
from tests.comparator import assert_same

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


KEYS_ON_HOST = (
    *(slice(1, None), slice(None, None, -1), slice(2, 2), 3, -1, (1, slice(2, None)), (slice(1, -1), slice(None, 3))),
    *((slice(None), 2), (None, slice(1, 3)), ..., (..., 1), (slice(None), None, 1), (), np.int64(2), (2, 3), True),
)


@pytest.mark.parametrize("key", KEYS_ON_HOST, ids=repr)
@pytest.mark.parametrize("is_native", [True, False], ids=["machine code", "Python"])
def test_the_layout_of_a_part_on_the_host_is_where_numpy_has_it(key, is_native):
    """Which its key says, unless the whole array lies otherwise by then, or it is a part of a part."""
    host = np.arange(30.0).reshape(5, 6)
    with config.override(machine_code=is_native):
        for make in (lambda x: x, lambda x: x[1:], lambda x: x.T, lambda x: x[::-1, 1:]):
            whole, seen = oxinp.asarray(host.copy()), host.copy()
            part, expected = make(whole)[key], make(seen)[key]
            if not isinstance(part, oxinp.ndarray):
                continue
            if isinstance(expected, np.ndarray) and np.shares_memory(seen, expected):
                layout = part._layout
                assert layout.shape == expected.shape
                assert not expected.size or layout.strides == expected.strides
                distance = expected.__array_interface__["data"][0] - seen.__array_interface__["data"][0]
                assert not expected.size or layout.offset == distance
                assert layout.dtype == expected.dtype
            assert_same(part, expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_key_of_a_part_says_nothing_of_an_array_that_lies_otherwise_by_now():
    whole, seen = oxinp.asarray(np.arange(8.0).reshape(2, 4)), np.arange(8.0).reshape(2, 4)
    part, expected = whole[1, 0:2], seen[1, 0:2]
    whole.shape = 4, 2
    assert part._layout.offset == 32
    assert_same(part, expected)
    whole, seen = oxinp.asarray(np.arange(8.0)), np.arange(8.0)
    part, expected = whole[2:4], seen[2:4].copy()
    whole.resize((3,), refcheck=False)
    assert part._layout.offset == 16
    assert_same(part, expected)


def test_rows_have_few_forms():
    forms = {}
    for offset in range(8, 1 << 12, 8):
        form = Layout.at(np.dtype(np.float64), (501,), (8,), offset).form
        assert form.offset == form.alignment == min(offset & -offset, 32)
        assert forms.setdefault(form.offset, form) is form
    assert [*forms] == [8, 16, 32]
    assert Layout.at(np.dtype(np.float64), (501,), (8,), 0).form.alignment == 256
