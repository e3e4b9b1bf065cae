"""Logic functions: truth of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import implements, reduced
from oxinp._core.reduction import table

_NoValue = np._NoValue


@implements("any")
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue, *, where: Any = _NoValue) -> Any:
    """See `numpy.any`."""
    return reduced(table.ANY, a, axis, None, out, keepdims=keepdims, where=where)


@implements("all")
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NoValue, *, where: Any = _NoValue) -> Any:
    """See `numpy.all`."""
    return reduced(table.ALL, a, axis, None, out, keepdims=keepdims, where=where)
