"""Statistics: averages, variances, ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from oxinp._api.fronts import as_ours, implements, reduced
from oxinp._core.lazy.expr import Unsupported
from oxinp._core.lazy.views import view
from oxinp._core.manipulation.copy import astype
from oxinp._core.manipulation.shape import ravel
from oxinp._core.memory.dtypes import FLOAT16, FLOAT32, FLOAT64
from oxinp._core.ops import count
from oxinp._core.ops import sort as sorts
from oxinp._core.ops.creation import asarray
from oxinp._core.reduction import table
from oxinp._core.ufunc import objects as ufuncs
from oxinp._core.ufunc.objects import UFUNC_OBJECTS

_NoValue = np._NoValue


@implements("median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """See `numpy.median`; NaN, which sorting puts last, is the result where there is one."""
    if out is not None or overwrite_input or keepdims or not (axis is None or type(axis) is int):
        raise Unsupported("an output, or several axes")
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:
        raise Unsupported("a subclass to pass through")
    array = as_ours(a)
    dtype = array._layout.dtype
    if dtype.kind not in "iuf" or not array._layout.size or not array._layout.ndim:
        raise Unsupported("elements that are no real numbers, or none")
    array, axis = (ravel(array), 0) if axis is None else (array, normalize_axis_index(axis, array._layout.ndim))
    elements, length = sorts.sort(array, axis), array._layout.shape[axis]
    low, high, last = (_at(elements, axis, i) for i in ((length - 1) // 2, length // 2, length - 1))
    # What NumPy's mean of the two is computed in.
    wide = dtype if dtype in (FLOAT32, FLOAT64) else FLOAT32 if dtype == FLOAT16 else FLOAT64
    if length % 2:
        middle = astype(high, wide)
    else:
        middle = UFUNC_OBJECTS["divide"](UFUNC_OBJECTS["add"](astype(low, wide), astype(high, wide)), wide.type(2))
    if dtype.kind == "f":
        middle = ufuncs.where(UFUNC_OBJECTS["isnan"](last), last, astype(middle, dtype))
    result = view(middle, lambda seen: seen.squeeze(axis))
    return result if result._layout.ndim else result[()]


def _at(elements: Any, axis: int, number: int) -> Any:
    """Return the elements at a place along an axis, which stays."""
    return view(elements, lambda seen: seen.swapaxes(0, axis)[number : number + 1].swapaxes(0, axis))


@implements("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """See `numpy.bincount`."""
    if weights is not None or type(minlength) is not int or minlength < 0:
        raise Unsupported("weights, or what NumPy refuses")
    return count.bincount(as_ours(x), minlength)


@implements("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """See `numpy.histogram`."""
    if weights is not None or (isinstance(a, np.ndarray) and type(a) is not np.ndarray):
        raise Unsupported("weights, or a subclass to pass through")
    array = as_ours(a)
    edges, is_uniform = count.edges_of(array, bins, range)
    counts = count.histogram(array, edges, is_uniform=is_uniform)
    if density:
        widths = asarray(np.array(np.diff(edges), float))
        divide = UFUNC_OBJECTS["divide"]
        counts = divide(divide(counts, widths), reduced(table.SUM, counts))
    return counts, asarray(edges)
