"""Immutable records: what they take, compare by, show and refuse."""

import pickle

import pytest

from oxinp._ptx.frozen import Frozen, deferred


class Point(Frozen):
    x: int
    y: int = 0


class Weighted(Point, aside=("weight",)):
    weight: object = len


class Unique(Frozen, eq=False):
    x: int


def test_fields_are_given_by_position_by_name_or_by_default():
    assert Point(1) == Point(1, 0) == Point(x=1) == Point(y=0, x=1)
    assert (Point(1, 2).x, Point(1, 2).y) == (1, 2)
    assert Weighted(1).weight is len


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_other_fields_are_refused(args, kwargs):
    with pytest.raises(TypeError, match="Point has the fields x, y"):
        Point(*args, **kwargs)


def test_equality_and_hash_are_of_the_fields_and_the_class():
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert Point(1, 2) != Point(2, 1)
    assert Point(1) != Weighted(1)
    assert Weighted(1, weight=max) == Weighted(1, weight=min)
    assert Unique(1) != Unique(1)
    assert len({Unique(1), Unique(1), Point(3), Point(3)}) == 3


def test_nothing_is_set_or_deleted():
    point = Point(1)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2
    with pytest.raises(AttributeError, match="immutable"):
        del point.x
    assert point == Point(1)


def test_a_copy_with_changes_leaves_the_rest():
    changed = Weighted(1, 2, max).replace(y=3)
    assert (changed.x, changed.y, changed.weight) == (1, 3, max)
    with pytest.raises(TypeError):
        Point(1).replace(z=1)


def test_repr_and_pickle():
    assert repr(Weighted(1, 2)) == "Weighted(x=1, y=2)"
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)  # noqa: S301 - its own


class Report(Frozen):
    title: str
    text: str = deferred()


def test_a_deferred_field_is_made_when_it_is_first_read():
    asked = []
    report = Report("a", lambda record: asked.append(record) or record.title * 2)
    assert not asked
    assert (report.text, report.text) == ("aa", "aa")
    assert asked == [report]
    assert report.replace(title="b").text == "aa"
    assert Report("a", "given").text == "given"
    with pytest.raises(AttributeError, match="immutable"):
        report.text = "other"
    with pytest.raises(TypeError, match="fields title, text"):
        Report("a")
