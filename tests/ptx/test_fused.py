"""Fused multiply-adds by the processor's instruction: the bits of those that are computed from sums and products."""

import numpy as np
import pytest

from oxinp._ptx import fused, reference
from oxinp._ptx.types import f64
from tests.ptx.test_reference import hard_triples

pytestmark = pytest.mark.skipif(fused._function() is None, reason="this processor, or system, has none")


def same_bits(a, b, c):
    with np.errstate(all="ignore"):
        found, expected = fused.multiply_add(a, b, c), reference._fma64(a, b, c)
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def test_hard_operands_have_the_same_bits():
    a, b, c = hard_triples(f64)
    with np.errstate(all="ignore"):
        is_number = ~np.isnan(a * b + c)
    same_bits(*(x[is_number] for x in (a, b, c)))


@pytest.mark.parametrize(
    "shapes", [((7,), (1,), (7,)), ((1,), (1,), ()), ((7,), (), (1,)), ((2, 3), (3,), (2, 1)), ((0,),) * 3]
)
def test_operands_are_broadcast(shapes):
    rng = np.random.default_rng(3)
    same_bits(*(np.asarray(rng.standard_normal(shape)) for shape in shapes))


def test_operands_that_do_not_follow_each_other():
    x = np.random.default_rng(3).standard_normal((9, 4))
    same_bits(x[:, 0], x[::-1, 1], np.broadcast_to(x[0, :1], 9))


def test_operands_stay_as_they_are():
    a, b, c = np.random.default_rng(3).standard_normal((3, 9))
    before = [x.copy() for x in (a, b, c)]
    fused.multiply_add(a, b, c)
    assert all((x == y).all() for x, y in zip((a, b, c), before, strict=True))


def test_nan_and_numbers_of_no_array_are_left_to_numpy():
    nan, one = np.array([1.0, np.nan]), np.ones(2)
    assert fused.multiply_add(nan, one, one) is None
    assert fused.multiply_add(*[np.float64(1)] * 3) is None
    assert fused.multiply_add(*[np.ones((2, 3)).T] * 3) is None
