"""Integers between bounds of which one or both are arrays, on the device, as NumPy draws them.

Each takes half a word, and another one for every time that it is rejected (Lemire's method), which moves the words of
all that follow: so the first that is rejected is looked for, its half word left out, and the rest looked at again. Few
are, as long as ranges are small beside 2**32; with as many as `MOST_REJECTED` expected it is NumPy that draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oxinp._core.array.ndarray import ndarray
from oxinp._core.lazy.placement import starts_on_device
from oxinp._core.lazy.results import as_array
from oxinp._core.manipulation.shape import reshape
from oxinp._core.ops import draws
from oxinp._core.ops.creation import asarray
from oxinp.random.transformed import INTEGERS

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
MOST_REJECTED = 24
SIGMAS = 12


def between(
    low: Any,
    high: Any,
    shape: tuple[int, ...] | None,
    dtype: np.dtype[Any],
    draw: Callable[[tuple[int, ...], Callable[[Any], Any]], Any],
    *,
    endpoint: bool,
) -> Any:
    """Draw integers; None where NumPy is to draw them, or to say what is wrong.

    Parameters
    ----------
    low, high : int or array of integers
    shape : tuple of int or None
        Of the draw; None for what the bounds broadcast to.
    dtype : numpy.dtype
        Of 32 or 64 bits.
    draw : callable
        ``draw(shape, ask)``, see `Generator._draw`.
    endpoint : bool
        See `numpy.random.Generator.integers`.
    """
    if not all(type(bound) in INTEGERS or isinstance(bound, ndarray | np.ndarray) for bound in (low, high)):
        return None
    arrays = [bound for bound in (low, high) if isinstance(bound, ndarray | np.ndarray)]
    if any(array.dtype.kind not in "iu" or not array.size for array in arrays):
        return None
    try:
        joined = np.broadcast_shapes(*[array.shape for array in arrays], *(() if shape is None else (shape,)))
    except ValueError:
        return None
    size = math.prod(joined)
    if not joined or shape not in (None, joined) or not starts_on_device(size * dtype.itemsize):
        return None
    first, last = (int(bound) if type(bound) in INTEGERS else asarray(bound) for bound in (low, high))
    limits = np.iinfo(dtype)
    least, largest = _extreme(first, "min"), _extreme(last, "max") - (not endpoint)
    if least < limits.min or largest > limits.max or _extreme(last, "min") < limits.min:
        return None
    offset = _spread(first, joined)
    width = _spread(last, joined) - offset + UINT64.type(endpoint)  # how many numbers there are, modulo 2**64
    if not int(width.min()) > 1 or int(width.max()) > 1 << 32 or not _are_ordered(first, last):
        return None
    threshold = UINT64.type(1 << 32) % width
    expected = int(threshold.sum()) / 2**32
    if expected > MOST_REJECTED:
        return None
    spare = math.ceil(expected + SIGMAS * (expected**0.5 + 1))
    drawn = draw(joined, lambda at: _asked(at, width, threshold, spare))
    return None if drawn is None else reshape((drawn + offset).astype(dtype), joined)


def _extreme(bound: Any, name: str) -> int:
    """The least or the largest of bounds."""
    return int(getattr(bound, name)()) if isinstance(bound, ndarray) else bound


def _spread(bound: Any, shape: tuple[int, ...]) -> Any:
    """A bound for every number, modulo 2**64."""
    if not isinstance(bound, ndarray):
        return UINT64.type(bound & ((1 << 64) - 1))
    wide: Any = bound if bound.dtype == UINT64 else bound.astype(np.int64).view(UINT64)
    return reshape(as_array(np.broadcast_to(wide, shape)), (-1,))


def _are_ordered(first: Any, last: Any) -> bool:
    """Whether no lower bound is above its upper one."""
    return bool((first <= last).all()) if isinstance(first, ndarray) or isinstance(last, ndarray) else first <= last


def _asked(at: Any, width: Any, threshold: Any, spare: int) -> tuple[Any, Any] | None:
    """What `Generator._draw` asks for: numbers from 0 on, modulo 2**64, and the position after them."""
    size = width.size
    words, _ = draws.fill(at, "halves", UINT32, (size + spare,))
    pieces: list[Any] = []
    start = skipped = 0
    while skipped <= spare:
        rest = words[start + skipped : size + skipped]
        is_rejected = ((rest * width[start:]) & UINT64.type(0xFFFFFFFF)) < threshold[start:]
        place = int(is_rejected.argmax())
        if not bool(is_rejected[place]):
            taken = np.concatenate([*pieces, rest]) if pieces else rest
            return (taken * width) >> UINT64.type(32), at.after(size + skipped + at.has_half, 2)
        pieces.append(rest[:place])
        start, skipped = start + place, skipped + 1
    return None


__all__ = ["MOST_REJECTED", "between"]
