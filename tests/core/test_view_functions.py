"""Views as arithmetic on layouts lie where NumPy's views lie."""

import random

import numpy as np
import pytest

from oxinp._core.memory.layout import Layout, address_of
from oxinp._core.memory.view_functions import VIEWS, view_layout

GROUND = np.zeros(12_000)
NUM_CASES = 400  # per function


def layout_of(array):
    return Layout.at(array.dtype, array.shape, array.strides, address_of(array) - address_of(GROUND))


def draw_array(draw):
    """A view of `GROUND` of up to four dimensions, in steps, backwards and permuted; often of lengths 0 and 1."""
    shape = [draw.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(draw.randint(0, 4))]
    wide = [max(1, 2 * n) for n in shape]
    array = GROUND[: int(np.prod(wide))].reshape(wide)
    if draw.random() < 0.5:
        return GROUND[: int(np.prod(shape))].reshape(shape)
    for axis, n in enumerate(shape):
        key = [slice(None)] * len(shape)
        key[axis] = draw.choice([slice(0, n), slice(0, 2 * n, 2), slice(n - 1 if n else None, None, -1)])
        array = array[tuple(key)][(slice(None),) * axis + (slice(0, n),)]
    return array.transpose(draw.sample(range(len(shape)), len(shape)))


def draw_lengths(draw, size):
    """Lengths of as many elements, one of them perhaps -1."""
    lengths, rest = [], size
    for _ in range(draw.randint(0, 4)):
        lengths.append(draw.choice([d for d in range(1, rest + 1) if rest % d == 0] or [0, 1, 2]))
        rest = rest // lengths[-1] if lengths[-1] else 0
    lengths.append(rest)
    draw.shuffle(lengths)
    if draw.random() < 0.3:
        lengths[draw.randrange(len(lengths))] = -1
    return tuple(lengths)


def draw_arguments(draw, name, array):
    """Arguments, some of which NumPy refuses."""
    ndim = array.ndim
    one, two, three = [draw.randint(-ndim - 1, ndim) for _ in range(3)]
    order = draw.sample(range(ndim), ndim)
    ways = {
        "broadcast_to": [((2, *array.shape),), (tuple([3 if n == 1 else n for n in array.shape]),), ((2, 3),)],
        "diagonal": [(), (one,), (draw.randint(-4, 4), two, three)],
        "expand_dims": [(one,), ((one, two),)],
        "flip": [(), (one,), ((one, two),)],
        "moveaxis": [(one, two), ((one, two), (two, three))],
        "reshape": [(draw_lengths(draw, array.size),), (-1,), (array.shape,)],
        "rollaxis": [(one,), (one, two)],
        "rot90": [(), (draw.randint(-5, 5),), (draw.randint(-5, 5), (one, two))],
        "squeeze": [(), (one,), ((one, two),)],
        "swapaxes": [(one, two)],
        "transpose": [(), (tuple(order),), ([axis - ndim for axis in order],), ((one, two),)],
    }
    return draw.choice(ways.get(name, [()]))


@pytest.mark.parametrize("function", VIEWS, ids=lambda function: function.__name__)
def test_view_lies_where_numpys_does(function):
    draw = random.Random(function.__name__)
    num_known = 0
    for _ in range(NUM_CASES):
        array = draw_array(draw)
        args = draw_arguments(draw, function.__name__, array)
        found = view_layout(VIEWS[function], layout_of(array), args, {})
        if found is None:
            continue  # NumPy is asked, which makes a view, a copy or an exception of it
        num_known += 1
        wanted = function(array, *args)
        seen = layout_of(wanted)
        assert (found.shape, found.strides) == (seen.shape, seen.strides), (array.shape, array.strides, args)
        if wanted.size:
            assert found.offset == seen.offset
            assert np.may_share_memory(wanted, GROUND)
        assert wanted.flags.writeable is VIEWS[function].is_writeable
    assert num_known >= NUM_CASES // 20


@pytest.mark.parametrize(
    ("name", "args", "keywords"),
    [
        ("flip", (), {"axis": 0}),
        ("flip", (), {"axes": 0}),
        ("flip", (1.0,), {}),
        ("swapaxes", (0,), {"axis2": 1}),
        ("swapaxes", (0,), {}),
        ("swapaxes", (0, 1), {"axis1": 0}),
        ("transpose", ((0, 1), 2), {}),
        ("squeeze", (np.int64(0),), {}),
    ],
)
def test_only_plain_arguments_are_known(name, args, keywords):
    array = GROUND[:12].reshape(3, 4)
    function = getattr(np, name)
    found = view_layout(VIEWS[function], layout_of(array), args, keywords)
    is_plain = (name, args) in (("flip", ()), ("swapaxes", (0,))) and keywords in ({"axis": 0}, {"axis2": 1})
    assert (found is not None) is is_plain
    if is_plain:
        assert found.strides == function(array, *args, **keywords).strides
