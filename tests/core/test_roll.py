"""Circular shifts on the device: NumPy's result, and no launch of their own."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import roll as rolls
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

VIEWS = (lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[..., ::2])
SHIFTS = ((1, None), (-3, None), (2, 0), (-1, -1), ((1, 2), (0, -1)), (1, (0, -1)), (0, 0), (100, 0), ((1, 1), 0))


def numbers(shape, dtype="f8"):
    return (numpy.random.default_rng(3).random(shape) * 100).astype("i8").astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "?", "c16", "M8[s]"])
@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 4, 5), (6, 1), (2, 1, 3)])
def test_layouts(shape, dtype):
    theirs = numbers(shape, dtype)
    ours = np.asarray(theirs)
    for view in VIEWS:
        for shift, axis in SHIFTS:
            expected, result = numpy.roll(view(theirs), shift, axis), np.roll(view(ours), shift, axis)
            assert_same(result, expected)
            assert result.strides == expected.strides
            assert result.flags.owndata == expected.flags.owndata


@pytest.mark.parametrize(
    "arguments",
    [
        (1, 5),
        ((1, 2), None),
        ((1, 2, 3), (0, 1)),
        (1.5, 0),
        ("a", 0),
        ([1, 2], [0, 1]),
        (numpy.array([1, 2]), (0, 1)),
        (True, 0),
        (1, ()),
        (10**30, 0),
        (None, 0),
        ([[1, 2], [3, 4]], (0, 1)),
    ],
)
def test_arguments(arguments, twin):
    twin(lambda np: np.roll(np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), *arguments))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), ()])
def test_few_elements(shape, twin):
    twin(lambda np: np.roll(np.ones(shape), 1))


USES = {
    "sum of neighbours": lambda np, a: np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1),
    "sum over rows": lambda np, a: (np.roll(a, 1, 0) * 2).sum(0),
    "sum over columns": lambda np, a: (np.roll(a, 1, 1) * a).sum(1),
    "sum": lambda np, a: np.roll(a, 2, 0).sum(),
    "scans": lambda np, a: (np.cumsum(np.roll(a, 1, 1) + 1, axis=0), np.cumsum(np.roll(a, 1, 1) + 1, axis=1)),
    "place of the largest": lambda np, a: np.roll(a, 1).argmax(),
    "standardised": lambda np, a: a - np.roll(a, 1, 1).mean(axis=1, keepdims=True),
    "transposed": lambda np, a: np.roll(a, 1, 0).T + a.T,
    "broadcast": lambda np, a: np.roll(a, 1, 0)[:, None] + a,
    "sliced": lambda np, a: (np.roll(a, 1, 0) + 1)[3:, ::2],
    "twice": lambda np, a: np.roll(np.roll(a, 1, 0), 1, 1),
    "of a chain": lambda np, a: np.roll(a * 2 + 1, 1, 0) - a,
    "in products": lambda np, a: ((np.roll(a, 1, 0) + 1) @ a.T, a.T @ a + np.roll(a.T @ a, 1, 0)),
    "chosen": lambda np, a: np.roll(a, 1, 0)[np.roll(a, 1, 0) > 50],
    "where": lambda np, a: np.where(np.roll(a, 1, 0) > 50, np.roll(a, 1, 1), a),
    "in Fortran order": lambda np, a: np.roll(a.T, 1, 0) + a.T,
    "sorted": lambda np, a: np.sort(np.roll(a, 1, 1), axis=1),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_uses(use):
    theirs = numbers((12, 10))
    results, expected = use(np, np.asarray(theirs)), use(numpy, theirs)
    for result, wanted in zip(*[x if type(x) is tuple else (x,) for x in (results, expected)], strict=True):
        assert_same(result, wanted)


def _whole(np, a):
    a += np.roll(a, 1, 0)


def _assigned(np, a):
    a[:] = np.roll(a, 1, 1) * 2 + a


def _part(np, a):
    a[2:, 1:] -= np.roll(a[2:, 1:], 1, 1)


def _part_of_whole(np, a):
    a[2:, 1:] = np.roll(a, 1, 1)[2:, 1:] + a[2:, 1:]


@pytest.mark.parametrize("write", [_whole, _assigned, _part, _part_of_whole])
def test_writes_to_what_is_read(write):
    theirs = numbers((12, 10))
    ours = np.asarray(theirs.copy())
    before = np.roll(ours, 1, 0)
    wanted = numpy.roll(theirs, 1, 0)
    write(numpy, theirs)
    write(np, ours)
    assert_same(ours, theirs)
    assert_same(before, wanted)


def test_neighbours_are_one_launch(launches):
    a = np.asarray(numbers((12, 10)))
    assert launches(lambda: USES["sum of neighbours"](np, a)) == 1
    assert launches(lambda: 0.25 * np.roll(a.ravel(), 3) + 1) == 1


def test_shifts_of_several_axes_are_one_launch(launches):
    x = numpy.random.default_rng(3).random((6, 5, 40))
    ours = np.asarray(x) * 1
    np.evaluate(ours)
    assert launches(lambda: np.roll(ours, (2, -1, 7), (0, 1, 2))) == 1
    assert_same(np.roll(ours, (2, -1, 7), (0, 1, 2)), numpy.roll(x, (2, -1, 7), (0, 1, 2)))
    assert_same(np.roll(ours, (3, 4), (2, 0)), numpy.roll(x, (3, 4), (2, 0)))


@pytest.mark.parametrize(
    "make",
    [
        lambda np, x: np.asarray(x),
        lambda np, x: np.asarray(x) * 2,
        lambda np, x: np.asarray(x).cumsum(0),
        lambda np, x: np.asarray(x)[1:],
        lambda np, x: np.asarray(x)[:, ::-1],
        lambda np, x: (np.asarray(x) + 1)[:4],
        lambda np, x: np.asarray(x) > 5,
    ],
    ids=["array", "chain", "call", "rows", "backwards", "rows of a chain", "bool"],
)
def test_what_is_shifted_again(make):
    x = numpy.arange(40.0).reshape(8, 5) % 7
    for shift, axis in ((1, 0), (-1, 0), (2, 1), (-9, 1), (16, 0)):
        expected = numpy.roll(make(numpy, x), shift, axis)
        for _ in range(3):
            given = make(np, x)
            rolled = np.roll(given, shift, axis)
            given[...] = 0  # what was shifted keeps its values
            assert_same(numpy.asarray(rolled), expected)


def test_what_has_been_shifted_is_asked_for_once(monkeypatch):
    def rolled():
        return np.roll(np.asarray(numbers((8, 5))) * 2, 1, 0)

    rolled()
    monkeypatch.setattr(rolls, "roll", None)
    assert_same(numpy.asarray(rolled()), numpy.roll(numbers((8, 5)) * 2, 1, 0))
