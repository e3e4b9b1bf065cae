"""Lists of scalars of the device as arrays: gathered there, which waits for none of them."""

# ruff: noqa: ICN001 - oxinp is np

import numpy
import pytest

import oxinp as np
from oxinp._core.ops import creation
from tests.comparator import assert_same

pytestmark = [pytest.mark.usefixtures("on_device"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "i8", "u1", "?", "c8", "c16"])
def test_what_is_computed_and_elements(dtype, stats):
    theirs = numpy.arange(3000).astype(dtype)
    ours = np.asarray(theirs)
    np.evaluate(ours)

    def scalars(x):
        return [x.max(), x[5], x[7] + x[9], x[-1]]

    fetched = stats().d2h_bytes
    made = [kind(scalars(ours)) for kind in (np.array, np.asarray)]
    made += [np.array(tuple(scalars(ours))), np.array(scalars(ours), dtype)]
    assert stats().d2h_bytes == fetched
    for each in made:
        assert_same(each, numpy.array(scalars(theirs)))


def test_it_is_what_was_there():
    theirs = numpy.arange(3000.0)
    ours = np.asarray(theirs)
    np.evaluate(ours)
    listed, expected = [ours[3], ours[4]], numpy.array([theirs[3], theirs[4]])
    made = np.array(listed)
    ours[3:5] = 7.0
    assert_same(made, expected)
    assert_same(np.array(listed), expected)
    assert_same(np.array([ours[3], ours[4]]), numpy.array([7.0, 7.0]))


def test_many_and_some_that_have_been_looked_at():
    x = np.arange(3000.0)
    losses = [-np.mean(x * float(i)) for i in range(300)]
    assert float(losses[7]) == -7 * 1499.5
    assert_same(np.array(losses), numpy.array([-(i * 1499.5) for i in range(300)]))


@pytest.mark.parametrize(
    "listed",
    [
        lambda x: [x.max(), 3.0],
        lambda x: [x.max(), x.argmax()],
        lambda x: [[x.max(), x.min()], [x[3], x[4]]],
        lambda x: [x.max()],
        lambda x: [x.max(), x[:1]][:1],
    ],
)
def test_others_are_numpys(listed):
    theirs = numpy.arange(3000.0)
    assert_same(np.array(listed(np.asarray(theirs))), numpy.array(listed(theirs)))
    assert_same(np.array(listed(np.asarray(theirs)), "f4"), numpy.array(listed(theirs), "f4"))


def test_what_has_been_fetched_is_not_uploaded(monkeypatch):
    x = np.arange(3000.0)
    scalars = [x.max(), x.min()]
    assert [float(each) for each in scalars] == [2999.0, 0.0]
    monkeypatch.setattr(creation, "gathered", None)
    assert_same(np.array(scalars), numpy.array([2999.0, 0.0]))
