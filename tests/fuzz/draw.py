"""Where the random choices come from."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw(ABC):
    """A source of choices. Smaller integers are simpler: what shrinks choices goes towards them."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """Return an integer of low..high, both included."""

    def choice(self, items: Sequence[Item]) -> Item:
        """Return one item; the first is the simplest."""
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        """Return True in `percent` of 100 cases; False is simpler."""
        return self.integer(0, 99) >= 100 - percent

    def weighted(self, items: Sequence[Item], cumulative: Sequence[int]) -> Item:
        """Return one item, item i with weight cumulative[i] - cumulative[i - 1]."""
        point = self.integer(0, cumulative[-1] - 1)
        return next(item for item, bound in zip(items, cumulative, strict=True) if point < bound)

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return `count` different items."""
        rest = list(items)
        return [rest.pop(self.integer(0, len(rest) - 1)) for _ in range(count)]


class RandomDraw(Draw):
    """Choices of a seeded generator: fast, for bulk."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """Return an integer of low..high, both included."""
        return low + int(self._random.random() * (high - low + 1))
