"""`split` and `array_split`: into a number of parts, by as many slices; NumPy's code does what is left."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from oxinp._api.fronts import implements
from oxinp._core.array import dispatch
from oxinp._core.lazy.results import types

_split = dispatch.without_reading(np.split, "split")
_array_split = dispatch.without_reading(np.array_split, "array_split")


def _parts(array: Any, count: Any, axis: Any, *, are_equal: bool) -> list[Any] | None:
    """Return so many parts of an array along an axis; None for anything else, which NumPy knows or refuses."""
    if type(array) is not types.ndarray or type(count) is not int or type(axis) is not int or count < 1:
        return None
    shape = array.shape
    if not 0 <= axis < len(shape) or (are_equal and shape[axis] % count):
        return None
    length, more = divmod(shape[axis], count)
    ends = [length * i + min(i, more) for i in range(count + 1)]
    before = (slice(None),) * axis
    return [array[(*before, slice(start, end))] for start, end in pairwise(ends)]


@implements("split", is_hosted=False)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """See `numpy.split`."""
    parts = _parts(ary, indices_or_sections, axis, are_equal=True)
    return _split(ary, indices_or_sections, axis) if parts is None else parts


@implements("array_split", is_hosted=False)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """See `numpy.array_split`."""
    parts = _parts(ary, indices_or_sections, axis, are_equal=False)
    return _array_split(ary, indices_or_sections, axis) if parts is None else parts
