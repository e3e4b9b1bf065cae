"""Of tests with many cases a share is run: the same cases each time, and all of tests with few."""

import random

import pytest

from tests.thinned import MANY, a_share


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid


def cases(name, count):
    return [Item(f"{name}[{i}]") for i in range(count)]


@pytest.mark.parametrize("count", [MANY, 10, 200])
def test_of_many_cases_a_share_is_run(count):
    items = cases("test_a", count)
    kept = a_share(items, 3)
    assert len(kept) == -(-count // 3)
    assert kept == [item for item in items if item in kept]
    shuffled = random.Random(1).sample(items, count)
    assert set(a_share(shuffled, 3)) == set(kept)


def test_the_share_is_not_at_regular_intervals():
    items = cases("test_a", 300)  # where every third case may be of one dtype
    numbers = [items.index(item) for item in a_share(items, 3)]
    assert {number % 3 for number in numbers} == {0, 1, 2}
    assert max(numbers) > 200


def test_of_few_cases_all_are_run():
    items = [Item("test_b"), *cases("test_c", MANY - 1)]
    assert a_share(items, 3) == items


def test_a_share_of_one_is_all():
    items = cases("test_a", 50)
    assert a_share(items, 1) == items
