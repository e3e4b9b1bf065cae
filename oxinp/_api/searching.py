"""Sorting, searching and counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api.fronts import as_ours, implements
from oxinp._core import ufuncs
from oxinp._core.dtypes import WEAK_TYPES
from oxinp._core.exchange import holds_arrays, is_array
from oxinp._core.expr import Unsupported
from oxinp._core.fallback import call
from oxinp._core.ops import creation
from oxinp._core.ops.copy import astype
from oxinp._core.ops.views import view


@implements("unique_values", is_hosted=False)
def unique_values(x: Any, /) -> Any:
    """See `numpy.unique_values`; sorted, as in NumPy before 2.3, whose order later on is nobody's to rely on."""
    return call(np.unique, (x,), {"equal_nan": False}, name="unique_values")


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """See `numpy.where`."""
    if x is None or y is None:
        raise Unsupported("the indices of what is true")
    if any(holds_arrays(value) for value in (condition, x, y)):
        raise Unsupported("lists of arrays")
    return ufuncs.where(condition, x, y)


@implements("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """See `numpy.select`: one choice after the other, the last one first."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise Unsupported("what NumPy refuses")
    conditions = [as_ours(condition) for condition in condlist]
    choices = [choice if type(choice) in WEAK_TYPES else as_ours(choice) for choice in (*choicelist, default)]
    if any(condition._layout.dtype != np.bool_ for condition in conditions):
        raise Unsupported("what NumPy refuses")
    dtype = np.result_type(*[x._layout.dtype if is_array(x) else x for x in choices])
    shape = np.broadcast_shapes(*[x._layout.shape for x in (*conditions, *choices) if is_array(x)])
    last = choices.pop()
    if is_array(last):
        result = astype(view(last, lambda seen: np.broadcast_to(seen, shape)), dtype)
    else:
        result = creation.full(shape, last, dtype)
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        result = ufuncs.where(condition, choice, result)
    return result
