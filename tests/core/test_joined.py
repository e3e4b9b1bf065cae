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


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(50, 1), (3, 4, 1), (1, 1), (0, 1)], ids=str)
@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_columns_side_by_side(count, shape, dtype):
    draw = numpy.random.default_rng(1)
    theirs = [draw.normal(0, 5, shape).astype(dtype) for _ in range(count)]
    ours = [np.positive(np.asarray(x)) if dtype != "?" else np.asarray(x) for x in theirs]
    for join in (
        lambda xp, parts: xp.concatenate(parts, len(shape) - 1),
        lambda xp, parts: xp.concatenate(parts, -1),
        lambda xp, parts: xp.hstack(parts),
        lambda xp, parts: xp.column_stack([x.reshape(-1) for x in parts]),
        lambda xp, parts: xp.stack(parts, -1),
        lambda xp, parts: xp.stack(parts, 1),
        lambda xp, parts: xp.concatenate([*parts[1:], parts[0][..., :0], parts[0]], -1),
    ):
        found, expected = join(np, ours), join(numpy, theirs)
        assert_same(found, expected)
        assert found.flags.writeable
        if expected.size:
            assert found.flags.c_contiguous == expected.flags.c_contiguous


def test_columns_are_joined_as_they_were(launches):
    x = numpy.random.default_rng(1).random((300, 3))
    ours = np.asarray(x) * 1
    np.evaluate(ours)
    made = np.hstack([ours[:, i : i + 1] * 2 for i in range(3)])
    again = np.column_stack([ours[:, i] for i in range(3)])
    ours[:, 1] = 0.0
    assert_same(made, x * 2)
    assert_same(again, x)
    made[3] = 7.0
    x[:, 1] = 0.0
    assert_same(ours, x)
    assert launches(lambda: np.hstack([ours[:, :1] * 2, ours[:, 1:2] - 1, ours[:, 2:] + 1])) == 3
    parts = [np.ascontiguousarray(ours[:, i : i + 1]) for i in range(3)]
    np.evaluate(*parts)
    assert launches(lambda: np.hstack(parts)) == 1
