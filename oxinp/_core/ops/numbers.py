"""Numbers of rows and of columns, kept on the device for what depends on where an element is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from oxinp._core.lazy.placement import keyed
from oxinp._core.ops import creation
from oxinp._runtime import hooks

INT32 = np.dtype(np.int32)
MAX_COUNT = 1 << 16
"""Numbers that are kept, a quarter of a megabyte."""
MAX_KEPT = 32


def numbers(start: int, stop: int, *, are_rows: bool = False) -> Any:
    """Return at most `MAX_COUNT` numbers, int32, as a row, or as a column of numbers of rows; nobody writes to them."""
    return _part(start, stop, are_rows, keyed(None))


@lru_cache(MAX_KEPT)
def _part(start: int, stop: int, are_rows: bool, device: Any) -> Any:
    """Return the first of what is kept for ever new counts, so that nothing is uploaded for each."""
    count = stop - start
    return _kept(start, 1 << max(count - 1, 0).bit_length(), are_rows, device)[:count]


@lru_cache(MAX_KEPT)
def _kept(start: int, count: int, are_rows: bool, device: Any) -> Any:  # noqa: ARG001
    found = np.arange(start, start + count, dtype=INT32)
    return creation.asarray(found[:, None] if are_rows else found)


for _cache in (_part, _kept):
    hooks.before_leaving.append(_cache.cache_clear)  # `leave_device` does not find what `gc.freeze` hides


__all__ = ["INT32", "MAX_COUNT", "numbers"]
