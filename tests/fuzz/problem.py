"""The choices of a random problem for planners: shapes, dtypes, layouts, and one of many statements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy  # noqa: ICN001 - np is ours

import oxinp as np
from oxinp._core.lazy.handle import Handle
from tests.fuzz import planning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.draw import Draw

BOOL, INTEGERS = ("?",), ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLOATS, COMPLEX = ("f2", "f4", "f8"), ("c8", "c16")
DTYPES = (*BOOL, *INTEGERS, *FLOATS, *COMPLEX, "f4", "f8", "f4", "f8", "i4", "i8")
EXTENTS = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    17,
    31,
    32,
    33,
    40,
    64,
    100,
    127,
    128,
    129,
    255,
    256,
    257,
    500,
    512,
    777,
    1000,
    1024,
    1500,
    2048,
    3000,
    4096,
    5000,
    10_000,
    65_535,
    65_536,
    100_003,
    1 << 20,
    3_000_001,
    1 << 24,
    50_000_000,
    (1 << 31) + 8,
    (1 << 32) + 5,
)
MAX_SIZE = 1 << 28
LEFT_NBYTES = 1 << 22  # at least, beside operands
HUGE_SIZE = 1 << 33  # beyond what 32 bits index


def lying(array: Any) -> Any:
    """Return an array once it has been computed."""
    np.evaluate(array)
    return array


def computed(value: Any) -> None:
    """Have computed what is an array, or a scalar."""
    if isinstance(value, Handle):
        np.evaluate(value)


class Problem:
    """The choices of one problem.

    Parameters
    ----------
    draw : Draw
    number : int
        Which of a run's it is.
    """

    def __init__(self, draw: Draw, number: int = 0) -> None:
        self.draw, self._turn = draw, number
        self.choice, self.chance, self.integer = draw.choice, draw.chance, draw.integer

    def in_turn(self, items: Sequence[Any]) -> Any:
        """Return one item, in each problem of a run the next one; of several tables, all combinations."""
        self._turn, place = divmod(self._turn, len(items))
        return items[place]

    def shape(self, ndim: int | None = None, most: int = MAX_SIZE, largest: int | None = None) -> tuple[int, ...]:
        """Return a random shape."""
        ndim = self.choice((1, 1, 2, 2, 2, 3, 4)) if ndim is None else ndim
        extents = [n for n in EXTENTS if largest is None or n <= largest]
        if most == MAX_SIZE and self.chance(8):
            most = HUGE_SIZE
        if self.chance(3):
            extents = [0, *extents]
        if ndim == 2 and self.chance(25):  # tall or wide
            shape = self.choice([n for n in extents if n >= 1000] or extents), self.choice((2, 3, 5, 8, 17, 32))
            shape = shape if self.chance(70) else shape[::-1]
            if math.prod(shape) <= most:
                return shape
        while True:
            shape = tuple(self.choice(extents) for _ in range(ndim))
            if math.prod(shape) <= most:
                return shape

    def dtype(self, dtypes: tuple[str, ...] = DTYPES) -> str:
        """Return a random dtype."""
        return self.choice(dtypes)

    def array(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an array on the device of any layout: contiguous, in another order, in steps, reversed, broadcast."""
        form = self.integer(0, 9) if shape else 0
        if form == 4:
            order = list(range(len(shape)))
            order = [order.pop(self.integer(0, len(order) - 1)) for _ in shape]
            base = self.empty(tuple(shape[i] for i in order), dtype)
            return base.transpose([order.index(i) for i in range(len(shape))])
        if form == 5:
            return self.empty((*shape[:-1], shape[-1] + 3), dtype)[..., self.integer(0, 3) :][..., : shape[-1]]
        if form == 6:
            steps = tuple(slice(None, None, self.choice((1, 2, -1, 3))) for _ in shape)
            base = tuple(n * abs(s.step) for n, s in zip(shape, steps, strict=True))
            return self.empty(base, dtype)[steps] if math.prod(base) <= 4 * MAX_SIZE else self.empty(shape, dtype)
        if form == 7:
            kept = tuple(1 if self.chance(50) else n for n in shape)
            return np.broadcast_to(self.empty(kept, dtype), shape)
        if form == 8:
            return self.empty((shape[0] + 1, *shape[1:]), dtype)[1:]
        if form == 9:
            return self.empty(shape, dtype) + self.choice((1, 2))  # waits to be computed
        return self.empty(shape, dtype)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an array that lies in memory."""
        return lying(np.zeros(shape, dtype))

    def axis(self, ndim: int) -> Any:
        """Return one axis, several or None."""
        if not ndim or self.chance(25):
            return None
        if self.chance(60):
            return self.integer(-ndim, ndim - 1)
        return tuple(self.draw.sample(range(ndim), self.integer(1, ndim)))

    def call(self, templates: tuple[str, ...], **names: Any) -> Any:
        """Compute what one of the templates says, perhaps with little memory beside the operands."""
        self.text = self.choice(templates)
        if self.chance(20):
            held = sum(x.nbytes for x in names.values() if isinstance(x, np.ndarray))
            planning.backend().leave(held * self.choice((1, 2, 3, 5)) + LEFT_NBYTES)
        return eval(self.text, {"np": np, "numpy": numpy, **names})  # noqa: S307 - our own code
