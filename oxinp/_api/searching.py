"""Sorting, searching and counting."""

from __future__ import annotations

from typing import Any

from oxinp._api.fronts import implements
from oxinp._core import ufuncs
from oxinp._core.exchange import holds_arrays
from oxinp._core.expr import Unsupported


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """See `numpy.where`."""
    if x is None or y is None:
        raise Unsupported("the indices of what is true")
    if any(holds_arrays(value) for value in (condition, x, y)):
        raise Unsupported("lists of arrays")
    return ufuncs.where(condition, x, y)
