"""Our named tuples are what those of `typing` are."""

from __future__ import annotations

import pickle
import typing

import pytest

from oxinp._tuples import NamedTuple

if typing.TYPE_CHECKING:
    from decimal import Decimal


class Ours(NamedTuple):
    """Told."""

    first: int
    second: str | None = None
    third: tuple[Decimal, ...] = ()

    @property
    def both(self) -> tuple[typing.Any, ...]:
        return self.first, self.second

    def doubled(self) -> Ours:
        return self._replace(first=2 * self.first)

    @classmethod
    def make(cls) -> Ours:
        return cls(1)


class Theirs(typing.NamedTuple):
    """Told."""

    first: int
    second: str | None = None
    third: tuple[Decimal, ...] = ()


class Derived(Ours):
    __slots__ = ()


def test_they_are_tuples():
    made = Ours(3, third=(4,))
    assert made == (3, None, (4,)) == Theirs(3, third=(4,))
    assert made.both == (3, None)
    assert made.doubled() == Ours(6, None, (4,))
    assert Ours.make() == Derived(1)
    assert type(made.doubled()) is Ours
    assert repr(made) == repr(Theirs(3, None, (4,))).replace("Theirs", "Ours")
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own
    with pytest.raises(AttributeError):
        made.first = 2
    with pytest.raises(TypeError):
        Ours()


@pytest.mark.parametrize("name", ["__doc__", "__module__", "__slots__", "_fields", "_field_defaults"])
def test_their_attributes_are_those_of_typing(name):
    assert getattr(Ours, name) == getattr(Theirs, name)


def test_annotations_stay_texts():
    assert Ours.__annotations__ == {"first": "int", "second": "str | None", "third": "tuple[Decimal, ...]"}
