"""Writes by index, by mask and in place: nothing is written where NumPy refuses; sources may overlap the target."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.lazy import op
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("on_device")

WRITES = {
    "index": lambda xp, x: x.__setitem__(xp.asarray([3, 1, 3]), 5),
    "mask": lambda _, x: x.__setitem__(x > 4, 5),
    "index and slice": lambda xp, x: x.__setitem__((xp.asarray([1]), slice(None, None, 2)), 5),
    "updated": lambda xp, x: x.__setitem__(i := xp.asarray([1, 1]), x[i] + 1),
    "put": lambda xp, x: xp.put(x, xp.asarray([2, 1]), 5),
    "put_along_axis": lambda xp, x: xp.put_along_axis(x, xp.asarray([[1, 2]]), 5, 1),
    "putmask": lambda xp, x: xp.putmask(x, x > 2, 5),
    "place": lambda xp, x: xp.place(x, x > 2, [5, 6]),
    "copyto": lambda xp, x: xp.copyto(x, 5, where=x > 2),
    "fill_diagonal": lambda xp, x: xp.fill_diagonal(x, 5),
    "flat": lambda _, x: x.flat.__setitem__([0, 1], 5),
    "add.at": lambda xp, x: xp.add.at(x, xp.asarray([1, 1]), 5),
    "negative.at": lambda xp, x: xp.negative.at(x, xp.asarray([1])),
    "sort": lambda _, x: x.sort(),
    "partition": lambda _, x: x.partition(3),
    "fill": lambda _, x: x.fill(5),
    "take into it": lambda xp, x: xp.take(x, xp.asarray(numpy.arange(30)[::-1].copy()), 0, out=x, mode="clip"),
    "cumsum into it": lambda xp, x: xp.cumsum(x, 0, out=x),
    "choose into it": lambda xp, x: xp.choose(x % 2, [x, x + 1], out=x, mode="wrap"),
    "median into it": lambda xp, x: xp.median(x, 1, out=x[:, 0]),
}


def given():
    return numpy.arange(1200)[::-1].reshape(30, 40).copy()


def called(call, xp, x):
    call(xp, x)
    np.cuda.synchronize()  # which raises what kernels find


def refused(call, xp, x):
    with pytest.raises((ValueError, TypeError, IndexError)) as raised:
        called(call, xp, x)
    return raised.type


@pytest.mark.parametrize("name", WRITES)
def test_read_only_targets(name):
    numpys, ours = given(), np.asarray(given())
    for x in (numpys, ours):
        x.flags.writeable = False
    assert issubclass(refused(WRITES[name], np, ours), refused(WRITES[name], numpy, numpys))
    assert_same(ours, given())


@pytest.mark.parametrize("name", WRITES)
def test_broadcast_targets(name):
    """NumPy lets nobody write to what it has broadcast."""
    numpys, ours = (xp.broadcast_to(xp.asarray(given()[:, :1]), (30, 40)) for xp in (numpy, np))
    assert issubclass(refused(WRITES[name], np, ours), refused(WRITES[name], numpy, numpys))
    assert_same(ours, numpys)


WRONG = {
    "values of another length": lambda xp, x: x.__setitem__(xp.asarray([3, 1, 3]), xp.ones((2, 40), int)),
    "values of too many dimensions": lambda xp, x: x.__setitem__(xp.asarray([3, 1]), xp.ones((2, 2, 40), int)),
    "values that a mask does not want": lambda xp, x: x.__setitem__(x > 4, xp.ones(7, int)),
    "indices that do not broadcast": lambda xp, x: x.__setitem__((xp.asarray([1, 2]), xp.asarray([1, 2, 3])), 5),
    "an index of floats": lambda xp, x: x.__setitem__(xp.asarray([1.0, 2.0]), 5),
    "an index of complex numbers": lambda xp, x: x.__setitem__(xp.asarray([1j]), 5),
    "too many indices": lambda xp, x: x.__setitem__((xp.asarray([1]),) * 3, 5),
    "a mask of another shape": lambda xp, x: x.__setitem__(xp.ones((30, 39), bool), 5),
    "an index out of bounds": lambda xp, x: x.__setitem__(xp.asarray([1, 30]), 5),
    "an index out of bounds of columns": lambda xp, x: x.__setitem__((slice(None), xp.asarray([1, -41])), 5),
    "put of floats": lambda xp, x: xp.put(x, xp.asarray([1.0]), 5),
    "put out of bounds": lambda xp, x: xp.put(x, xp.asarray([1, 1200]), 5),
    "put_along_axis of floats": lambda xp, x: xp.put_along_axis(x, xp.ones((30, 1)), 5, 1),
    "put_along_axis of another shape": lambda xp, x: xp.put_along_axis(x, xp.ones((29, 1), int), 5, 1),
    "put_along_axis out of bounds": lambda xp, x: xp.put_along_axis(x, xp.full((30, 1), 40), 5, 1),
    "putmask of another shape": lambda xp, x: xp.putmask(x, xp.ones((30, 39), bool), 5),
    "place of nothing": lambda xp, x: xp.place(x, x > 2, []),
    "copyto of another shape": lambda xp, x: xp.copyto(x, xp.ones(39, int)),
    "add.at of another shape": lambda xp, x: xp.add.at(x, xp.asarray([0, 1]), xp.ones((3, 40), int)),
    "add.at out of bounds": lambda xp, x: xp.add.at(x, xp.asarray([0, 30]), 1),
    "sort along no axis": lambda _, x: x.sort(2),
    "partition by no rank": lambda _, x: x.partition(40),
    "cumsum into another shape": lambda xp, x: xp.cumsum(xp.ones(5, int), out=x),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_writes_nothing(name):
    numpys, ours = given(), np.asarray(given())
    assert issubclass(refused(WRONG[name], np, ours), refused(WRONG[name], numpy, numpys))
    assert_same(ours, given())


OVERLAPS = {
    "index of the reverse": lambda xp, x: x.__setitem__(xp.asarray(numpy.arange(30)), x[::-1]),
    "rows before": lambda xp, x: x[1:].__setitem__(xp.asarray(numpy.arange(29)), x[:-1]),
    "columns before": lambda xp, x: x.__setitem__((slice(None), xp.asarray(numpy.arange(1, 40))), x[:, :-1]),
    "mask of the reverse": lambda _, x: x.__setitem__(x > 300, x[::-1][x > 300]),
    "its own index": lambda xp, x: x.reshape(-1).__setitem__(x.reshape(-1), xp.asarray(numpy.arange(1200))),
    "put of the reverse": lambda xp, x: xp.put(x, xp.asarray(numpy.arange(1200)), x[::-1]),
    "put along the reverse": lambda xp, x: xp.put_along_axis(x, xp.asarray(numpy.arange(40)[None]), x[:, ::-1], 1),
    "putmask of the reverse": lambda xp, x: xp.putmask(x, x % 3 == 0, x[::-1]),
    "place of the reverse": lambda xp, x: xp.place(x, x % 3 == 0, x[::-1]),
    "copyto of the reverse": lambda xp, x: xp.copyto(x, x[::-1], where=x % 3 == 0),
    "add.at of itself": lambda xp, x: xp.add.at(x, xp.asarray([3, 1, 3]), x[:3]),
    "add.at of an index in it": lambda xp, x: xp.add.at(x[0], x[-1] % 40, x[1]),
    "cumsum one behind": lambda xp, x: xp.cumsum(x[:-1], 0, out=x[1:]),
    "sort of a view": lambda _, x: x[:, ::-2].sort(),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_sources_that_overlap_the_target(name):
    numpys, ours = given(), np.asarray(given())
    OVERLAPS[name](numpy, numpys)
    OVERLAPS[name](np, ours)
    assert_same(ours, numpys)


@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize("kind", [list, tuple])
def test_objects_that_give_arrays_are_written_as_they_are(shape, kind):
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return np.zeros(shape)

    held, objects = Holder(), np.arange(1, dtype=object)
    objects[:] = kind([held])
    assert objects[0] is held


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("scale", [None, 0.5])
def test_writes_of_new_sizes_are_planned_by_arithmetic(scale, monkeypatch):
    rng = numpy.random.default_rng(4)
    made, make = [], op.Executable
    monkeypatch.setattr(op, "Executable", lambda *given: made.append(given) or make(*given))
    np.config.renew()
    rows, columns = rng.integers(-30, 30, 4000), rng.permutation(4000) % 40 - 40
    expected, values = numpy.zeros((30, 40)), rng.random(4000)
    ours, i, j, given = np.asarray(expected) + 0, np.asarray(rows), np.asarray(columns), np.asarray(values)
    for size in range(2000, 2005):
        expected[rows[:size], columns[:size]] = size if scale is None else values[:size] * scale
        ours[i[:size], j[:size]] = size if scale is None else given[:size] * scale
        assert_same(ours, expected)
        assert size <= 2001 or not made  # an odd and an even one may have kernels of their own
        made.clear()
