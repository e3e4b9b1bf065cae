"""NumPy's functions that Python writes, in fewer steps where arguments are the usual ones: the same loops in order.

Each takes NumPy's arrays and plain values, and leaves what is less usual to NumPy's function. Machine code calls them
in the place of that, where arrays are small.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from oxinp._core.host.loops import concatenated, in_c

_Array = np.ndarray
_ALL = slice(None)
_empty_like: Any = in_c(np.empty_like)
_roll, _append, _array = inspect.unwrap(np.roll), inspect.unwrap(np.append), np.array
_INTEGERS = frozenset({int, np.int64})


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """See `numpy.roll`."""
    if type(a) is not _Array or not a.size:
        return _roll(a, shift, axis)
    if axis is None and a.ndim == 1:
        axis = 0
    if type(shift) in _INTEGERS and type(axis) is int and -a.ndim <= axis < a.ndim:
        made, by, before = _empty_like(a), int(shift) % a.shape[axis], (_ALL,) * (axis % a.ndim)
        if not by:
            made[...] = a
            return made
        made[(*before, slice(by, None))] = a[(*before, slice(None, -by))]
        made[(*before, slice(None, by))] = a[(*before, slice(-by, None))]
        return made
    is_usual = type(axis) is tuple is type(shift) and _INTEGERS.issuperset(map(type, (*axis, *shift)))
    if not is_usual or not len({*axis}) == len(axis) == len(shift) or min(axis) < 0 or max(axis) >= a.ndim:
        return _roll(a, shift, axis)
    parts: list[Any] = [((_ALL, _ALL),)] * a.ndim
    for place, given in zip(axis, shift, strict=True):
        by = int(given) % a.shape[place]
        if by:
            parts[place] = (slice(None, -by), slice(by, None)), (slice(-by, None), slice(None, by))
    made = _empty_like(a)
    for each in product(*parts):
        source, target = zip(*each, strict=True)
        made[target] = a[source]
    return made


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """See `numpy.append`, to a vector."""
    if type(arr) is not _Array or arr.ndim != 1 or axis is not None:
        return _append(arr, values, axis)
    return concatenated((arr, values.ravel() if type(values) is _Array else _array(values).ravel()))


LEANER: dict[str, Callable[..., Any]] = {"append": append, "roll": roll}
"""Names of NumPy's functions -> these: of such as warn of nothing, for warnings name the line that asks NumPy."""

__all__ = ["LEANER"]
