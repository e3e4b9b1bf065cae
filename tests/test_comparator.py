"""The comparator tells apart what users can tell apart, and nothing else."""

import numpy as np
import pytest

from tests.comparator import assert_same, assert_within, public_type, same_outcome

QUIET_NAN, OTHER_NAN = np.array([0x7FC00000, 0xFFC00001], dtype=np.uint32).view(np.float32)
ONE_ULP = np.nextafter(np.float32(1), np.float32(2))

SAME = [
    (np.array([QUIET_NAN]), np.array([OTHER_NAN])),
    (np.array([0.0, -0.0, np.inf]), np.array([0.0, -0.0, np.inf])),
    (np.float32(1), np.float32(1)),
    (np.zeros((0, 3)), np.zeros((0, 3))),
    (np.array(2), np.array(2)),
    ([1, (np.float64(1), "x")], [1, (np.float64(1), "x")]),
    ({"a": np.ones(2)}, {"a": np.ones(2)}),
    (float("nan"), float("nan")),
    (complex(0, -0.0), complex(0, -0.0)),
    (np.array([1 + 2j]), np.array([1 + 2j])),
    (np.array([None, "x", 1.5]), np.array([None, "x", 1.5])),
    (np.array(["NaT"], dtype="M8[s]"), np.array(["NaT"], dtype="M8[s]")),
    (np.array([(1, 2.0)], dtype="i4,f8"), np.array([(1, 2.0)], dtype="i4,f8")),
    (np.dtype("f4"), np.dtype("f4")),
    (TypeError("one"), TypeError("another")),
    (TypeError(), type("_Private", (TypeError,), {})),
]
DIFFERENT = [
    (np.array([0.0]), np.array([-0.0])),
    (np.array([np.nan]), np.array([1.0])),
    (np.array([1.0]), np.array([np.nan])),
    (np.array([np.inf]), np.array([-np.inf])),
    (np.array([1.0]), np.array([1.0], dtype=np.float32)),
    (np.array([1], dtype=">i4"), np.array([1], dtype="<i4")),
    (np.array([1.0]), np.array([[1.0]])),
    (np.zeros((0, 3)), np.zeros((0, 4))),
    (np.array(1.0), np.float64(1.0)),
    (np.float64(1.0), np.array(1.0)),
    (1.0, np.float64(1.0)),
    (np.float64(1.0), 1.0),
    (True, 1),
    (0.0, -0.0),
    (complex(0, 0.0), complex(0, -0.0)),
    (np.array([complex(0, 0.0)]), np.array([complex(0, -0.0)])),
    (np.array([1, 2]), np.array([1, 3])),
    (np.array([True]), np.array([False])),
    (np.array([(1, 2.0)], dtype="i4,f8"), np.array([(1, 3.0)], dtype="i4,f8")),
    (np.array([None, 0.0]), np.array([None, -0.0])),
    ([1, 2], [1, 2, 3]),
    ([1, 2], (1, 2)),
    ({"a": 1}, {"b": 1}),
    (ValueError(), TypeError()),
    (ValueError(), np.exceptions.AxisError("axis")),
    (np.ones(3), TypeError()),
    (np.array([ONE_ULP]), np.array([np.float32(1)])),
    ("array([1])", "array([2])"),
]


@pytest.mark.parametrize(("ours", "numpys"), SAME)
def test_same(ours, numpys):
    assert_same(ours, numpys)


@pytest.mark.parametrize(("ours", "numpys"), DIFFERENT)
def test_different(ours, numpys):
    with pytest.raises(AssertionError):
        assert_same(ours, numpys)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("value", [1.0, 0.0, -1024.0, 6e-8])
def test_ulp(dtype, value):
    exact = np.array([value], dtype=dtype)
    away = np.inf if value >= 0 else -np.inf
    one = np.nextafter(exact, dtype(away))
    three = np.nextafter(np.nextafter(one, dtype(away)), dtype(away))
    assert_same(one, exact, ulp=1)
    assert_same(three, exact, ulp=3)
    for ours, ulp in ((one, 0), (three, 2)):
        with pytest.raises(AssertionError):
            assert_same(ours, exact, ulp=ulp)


@pytest.mark.parametrize(("ours", "numpys"), [(0.0, -0.0), (5e-324, -5e-324), (np.inf, 1.7976931348623157e308)])
def test_ulp_keeps_signs_and_infinities(ours, numpys):
    with pytest.raises(AssertionError):
        assert_same(np.array([ours]), np.array([numpys]), ulp=4)


def test_within():
    assert_within(np.array([1.5, np.nan, np.inf, 0.0]), np.array([1.0, np.nan, np.inf, -0.0]), 0.5)
    for ours, numpys in ((1.6, 1.0), (np.nan, 1.0), (1.0, np.inf), (np.inf, -np.inf)):
        with pytest.raises(AssertionError):
            assert_within(np.array([ours]), np.array([numpys]), 0.5)
    with pytest.raises(AssertionError):
        assert_within(np.array([1.0], dtype=np.float32), np.array([1.0]), 0.5)


class Wrong:
    """A namespace whose `ones` is wrong and whose `zeros` refuses."""

    ones = staticmethod(lambda shape: np.ones(shape) * 2)
    full = staticmethod(np.full)

    @staticmethod
    def zeros(shape):
        raise TypeError(shape)


def test_same_outcome():
    ours, numpys = same_outcome(lambda xp: xp.full(3, 2.0), Wrong, np)
    assert ours is not numpys
    ours, numpys = same_outcome(lambda xp: xp.full(-1, 2.0), Wrong, np)
    assert type(ours) is type(numpys) is ValueError


@pytest.mark.parametrize("function", [lambda xp: xp.ones(3), lambda xp: xp.zeros(3), lambda xp: xp.zeros(-1)])
def test_different_outcome(function):
    with pytest.raises(AssertionError):
        same_outcome(function, Wrong, np)


def test_public_type():
    assert public_type(np.exceptions.AxisError) is np.exceptions.AxisError
    with pytest.raises(TypeError) as caught:
        np.add(np.zeros(2, dtype=np.int32), 1.5, out=np.zeros(2, dtype=np.int32))
    assert public_type(type(caught.value)) is TypeError


class Scalar:
    """Not a NumPy scalar, but says it is one, as a lazy scalar does."""

    dtype, shape = np.dtype(np.float64), ()

    def __init__(self, value):
        self._value = value

    @property
    def __class__(self):
        return np.float64

    def __array__(self, dtype=None, copy=None):
        return np.array(self._value, dtype=dtype)


def test_scalar_by_class():
    assert_same(Scalar(1.5), np.float64(1.5))
    for ours, numpys in ((Scalar(1.5), np.float64(2.5)), (Scalar(1.5), np.float32(1.5)), (Scalar(1.5), np.array(1.5))):
        with pytest.raises(AssertionError):
            assert_same(ours, numpys)
