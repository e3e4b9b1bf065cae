"""Sorting, searching and counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from oxinp._api import indexing
from oxinp._api.fronts import as_ours, implements, reduced
from oxinp._core.host.exchange import holds_arrays, is_array
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype
from oxinp._core.memory.dtypes import BOOL, INT64, WEAK_TYPES
from oxinp._core.ops import creation
from oxinp._core.reduction import table
from oxinp._core.ufunc import objects as ufuncs
from oxinp._kernels.reduce.operators import LAST

_NoValue = np._NoValue


@implements("where")
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """See `numpy.where`."""
    if x is None and y is None:
        return indexing.nonzero(condition)
    if x is None or y is None:
        raise Unsupported("what NumPy refuses")
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


@implements("argmax")
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NoValue) -> Any:
    """See `numpy.argmax`."""
    return reduced(table.ARGMAX, a, axis, None, out, keepdims=keepdims)


@implements("argmin")
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NoValue) -> Any:
    """See `numpy.argmin`."""
    return reduced(table.ARGMIN, a, axis, None, out, keepdims=keepdims)


@implements("nanargmax")
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NoValue) -> Any:
    """See `numpy.nanargmax`."""
    return _of_numbers(table.NANARGMAX, a, axis, out, keepdims)


@implements("nanargmin")
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NoValue) -> Any:
    """See `numpy.nanargmin`."""
    return _of_numbers(table.NANARGMIN, a, axis, out, keepdims)


def _of_numbers(row: table.ReductionRow, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    """Return indices of extrema among what is no number; raise, as NumPy does, where there is none."""
    if out is not None:
        raise Unsupported("an output that must stay as it is where there is no number")
    found = reduced(row, a, axis, keepdims=keepdims)
    if bool((found == LAST).any()):
        raise ValueError("All-NaN slice encountered")
    return found


@implements("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """See `numpy.count_nonzero`."""
    number = reduced(table.SUM, astype(as_ours(a), BOOL, copy_wanted=False), axis, INT64, keepdims=keepdims)
    return int(number) if _COUNTS_ARE_INTS and axis is None and not keepdims else number


_COUNTS_ARE_INTS = type(np.count_nonzero(np.ones(1))) is int  # until NumPy 2.3
