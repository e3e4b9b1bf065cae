"""Arrays joined along their first axis by one launch: NumPy's result, whatever is written afterwards."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import joined
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch):
    monkeypatch.setattr(joined, "MIN_NBYTES", 1)


def numbers(shape, dtype="f8"):
    return (numpy.random.default_rng(3).random(shape) * 100).astype("i8").astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "?", "c16", "i1"])
@pytest.mark.parametrize("shape", [(70,), (50, 3), (30, 4, 5)])
def test_dtypes_and_shapes(dtype, shape, launches):
    theirs = numbers(shape, dtype)
    ours = np.asarray(theirs) + np.zeros((), dtype)
    np.evaluate(ours)
    for parts in ((slice(None),) * 2, (slice(1, 8), slice(3), slice(None)), (slice(5),) * 8):
        expected = numpy.concatenate([theirs[part] for part in parts])
        assert launches(lambda parts=parts: np.concatenate([ours[part] for part in parts])) == 1
        assert_same(np.concatenate([ours[part] for part in parts]), expected)
    assert_same(
        np.vstack([ours, ours[:2]]) if len(shape) > 1 else np.hstack([ours, ours[:2]]),
        (numpy.concatenate([theirs, theirs[:2]])),
    )


def test_many_and_empty_parts():
    theirs = numbers(40)
    ours = np.asarray(theirs) * 1
    assert_same(np.concatenate([ours] * 9), numpy.concatenate([theirs] * 9))
    assert_same(np.concatenate([ours[:0], ours, ours[:0]]), theirs)


def test_writes_before_and_after():
    theirs = numbers(60)
    ours = np.asarray(theirs) * 1
    np.evaluate(ours)
    made, expected = np.concatenate((ours[20:], ours[:20])), numpy.concatenate((theirs[20:], theirs[:20]))
    for x in (ours, theirs):
        x[10:30] = 7
    assert_same(made, expected)
    for xp, x in ((np, ours), (numpy, theirs)):
        x[:50] = xp.concatenate((x[25:50], x[:25]))
        x[5:] += xp.concatenate((x[5:20], x[20:]))
    assert_same(ours, theirs)
