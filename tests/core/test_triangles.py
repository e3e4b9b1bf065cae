"""Triangles of matrices on the device, as NumPy has them."""

# ruff: noqa: ICN001 - oxinp is np

import itertools

import numpy
import pytest

import oxinp as np
from tests.comparator import assert_same
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("on_device")


SHAPES = [(5, 7), (7, 5), (1, 4), (4, 1), (2, 3, 4), (300, 200)]


@pytest.mark.parametrize(
    ("case", "dtype"),
    thinned(list(itertools.product(SHAPES, ["triu", "tril"])), ["?", "u1", "i4", "f4", "f8", "c16"]),
    ids=str,
)
def test_every_diagonal(case, dtype):
    shape, name = case
    x = numpy.random.default_rng(0).normal(0, 9, shape).astype(dtype)
    if dtype[0] in "fc":
        x[x > 9] = -0.0
        x.flat[0] = numpy.nan
    ours = np.asarray(x) if dtype == "?" else np.positive(np.asarray(x))
    for k in (0, 1, -1, 3, -3, 6, -7, 10**12, -(10**12)):
        for given, seen in ((ours, x), (ours[..., ::-1], x[..., ::-1]), (ours.T, x.T)):
            found, expected = getattr(np, name)(given, k), getattr(numpy, name)(seen, k)
            assert_same(found, expected)
            assert found.strides == expected.strides
    assert_same(getattr(np, name)(ours, k=1), getattr(numpy, name)(x, k=1))
    assert_same(getattr(np, name)(ours[0], 1), getattr(numpy, name)(x[0], 1))
    assert getattr(np, name)(ours).flags.writeable


@pytest.mark.parametrize("name", ["triu", "tril"])
def test_what_numpy_refuses(name):
    x = np.asarray(numpy.ones((3, 4))) + 0
    for args in ((x, "x"), (x, 1, 2), (x, None), (x.sum(), 0), (x, 1.5)):
        theirs = [numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
        try:
            expected = getattr(numpy, name)(*theirs)
        except Exception as error:  # noqa: BLE001 - whatever NumPy says
            with pytest.raises(type(error)):
                getattr(np, name)(*args)
        else:
            assert_same(getattr(np, name)(*args), expected)


def test_is_fused_with_what_is_made_of_it(launches):
    x = np.asarray(numpy.random.default_rng(0).random((300, 300))) * 1
    np.evaluate(x)
    np.evaluate(np.triu(x, 1))
    assert launches(lambda: np.triu(-x * 2, 1) + 1) == 1
    assert_same(np.triu(-x * 2, 1) + 1, numpy.triu(-numpy.asarray(x) * 2, 1) + 1)
