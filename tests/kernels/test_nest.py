import itertools

import numpy as np
import pytest

from oxinp._kernels.nest import Nest, collapse, magic, shifted_alignment
from oxinp._kernels.problem import Operand
from oxinp._ptx.types import f32
from tests.kernels.layouts import random_shape, random_view


def visited(nest):
    """Return, per operand, the distance of every element from its pointer, in the order of the nest."""
    return [
        [shift + sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(nest.shape)]
        for strides, shift in zip(nest.strides, nest.shifts, strict=True)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_collapse_visits_the_same_elements_together(seed):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng, max_size=500)
    views = [random_view(rng, shape, np.dtype("f4"), may_broadcast=i > 0) for i in range(3)]
    strides = [tuple(step // 4 for step in view.strides) for view in views]
    nest = collapse(shape, strides)
    direct = Nest(shape, tuple(strides), (0,) * 3)
    assert sorted(zip(*visited(nest), strict=True)) == sorted(zip(*visited(direct), strict=True))
    assert list(nest.shape).count(1) == (nest.size == 1)
    assert all(step > 0 for step in nest.strides[0])
    assert list(nest.strides[0]) == sorted(nest.strides[0], reverse=True)
    distances = [abs(d) for operand in visited(nest) for d in operand]
    assert nest.reach >= max(distances, default=0)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((4, 5, 6), [(30, 6, 1), (30, 6, 1)], ((120,), ((1,), (1,)), (0, 0))),
        ((4, 5, 6), [(30, 6, 1), (0, 0, 1)], ((20, 6), ((6, 1), (0, 1)), (0, 0))),
        ((4, 5), [(5, 1), (1, 4)], ((4, 5), ((5, 1), (1, 4)), (0, 0))),
        ((4, 5), [(1, 4), (5, 1)], ((5, 4), ((4, 1), (1, 5)), (0, 0))),
        ((6,), [(-1,), (1,)], ((6,), ((1,), (-1,)), (-5, 5))),
        ((4, 5), [(-5, -1), (-5, -1)], ((20,), ((1,), (1,)), (-19, -19))),
        ((3, 1, 4), [(4, 99, 1)], ((12,), ((1,),), (0,))),
        ((1, 1), [(7, 7), (0, 0)], ((1,), ((1,), (1,)), (0, 0))),
        ((), [(), ()], ((1,), ((1,), (1,)), (0, 0))),
        ((3, 0, 4), [(0, 4, 1)], ((0,), ((1,),), (0,))),
    ],
)
def test_collapse_gives_the_fewest_loops(shape, strides, expected):
    nest = collapse(shape, strides)
    assert (nest.shape, nest.strides, nest.shifts) == expected


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 10, 127, 128, 129, 641, 8191, 65537, 2**30 + 1, 2**31 - 1])
def test_magic_division_is_exact_below_2_to_31(divisor):
    multiplier, shift = magic(divisor)
    assert 0 < multiplier < 2**32
    rng = np.random.default_rng(divisor)
    near = [m * divisor + d for m, d in itertools.product((0, 1, 2, (2**31 - 1) // divisor), (-1, 0, 1))]
    for n in [*near, 2**31 - 1, *rng.integers(0, 2**31, 2000).tolist()]:
        if 0 <= n < 2**31:
            total = ((n * multiplier) >> 32) + n
            assert total < 2**32
            assert total >> shift == n // divisor


def test_alignment_of_a_shifted_pointer():
    operand = Operand(f32, (1,), 64)
    assert [shifted_alignment(operand, s) for s in (0, 1, 2, 4, 16, 32, -1, -4)] == [64, 4, 8, 16, 64, 64, 4, 16]
