"""Reductions that keep their axes, of arrays that have been reduced alike before: found again, with NumPy's results."""

import numpy  # noqa: ICN001
import pytest

import oxinp
from oxinp._core.reduction import reduce as reducing
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device", "unwatched")
REDUCTIONS = "max", "min", "sum", "mean", "std", "any", "argmax"


@pytest.fixture
def in_full(monkeypatch):
    """Count the reductions that are found out in full."""
    counts = []
    before = reducing.bind

    def counted(wanted):
        counts.append(wanted)
        return before(wanted)

    monkeypatch.setattr(reducing, "bind", counted)
    return counts


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, -1, 0, (0, 2)])
def test_kept_axes_are_found_again(name, axis, in_full):
    if name == "argmax" and isinstance(axis, tuple):
        pytest.skip("NumPy refuses several axes")
    numbers = numpy.random.default_rng(3).integers(0, 9, (4, 5, 6)) + 0.0
    array = oxinp.asarray(numbers) * 1.0
    oxinp.evaluate(array)
    wanted = getattr(numbers, name)(axis=axis, keepdims=True)
    dropped = getattr(numbers, name)(axis=axis)
    for turn in range(8):
        if turn == 6:
            in_full.clear()
        for given in ({"axis": axis, "keepdims": True}, {"axis": axis, "keepdims": False}, {"axis": axis}):
            kept = bool(given.get("keepdims"))
            assert_same(getattr(array, name)(**given), wanted if kept else dropped, ulp=4)
        assert_same(getattr(array, name)(axis, keepdims=True), wanted, ulp=4)
        assert_same(getattr(oxinp, name)(array, axis=axis, keepdims=True), wanted, ulp=4)
        if axis is None:
            assert_same(getattr(array, name)(keepdims=True), wanted, ulp=4)
    if name != "argmax":
        assert sum(each.keepdims for each in in_full) == 0


def test_what_is_no_plain_argument_is_found_out_in_full():
    array = oxinp.asarray(numpy.arange(12.0).reshape(3, 4)) * 1.0
    for _ in range(8):
        assert_same(array.sum(axis=1, keepdims=True), numpy.arange(12.0).reshape(3, 4).sum(axis=1, keepdims=True))
        assert_same(array.sum(axis=1, keepdims=1), numpy.arange(12.0).reshape(3, 4).sum(axis=1, keepdims=1))
        with pytest.raises(TypeError):
            array.sum(1, axis=1, keepdims=True)
        with pytest.raises(TypeError):
            array.sum(keepdims=True, unknown=1)
        with pytest.raises(numpy.exceptions.AxisError):
            array.sum(axis=2, keepdims=True)
